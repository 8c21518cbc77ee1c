"""The checks of base classifiers that vote, and of certificates made from their votes.

The arithmetic is this checker's own, slow and plain (`theorem`, `run_off`). Only `members` uses the rest of
poisonproof, to ask the base classifiers that were saved and to train some again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from poisonproof.verification import fields
from poisonproof.verification.checks import (
    NO_DATA,
    NO_VOTES,
    NOT_WANTED,
    REACHABLE,
    Given,
    Premises,
    VoterChecks,
    Wanted,
    check_equal,
    has_premise,
    premises_of,
    sample_rows,
)
from poisonproof.verification.content import complete, labels_of, partitions
from poisonproof.verification.files import (
    MODEL,
    Layout,
    Reader,
    RunFiles,
    check_blocks,
    check_file,
    check_format,
    open_certificate,
    open_run,
    same,
)
from poisonproof.verification.proof_search import HarmfulError, Partitions, prove
from poisonproof.verification.run_off import RunOff
from poisonproof.verification.theorem import (
    Row,
    SpreadMap,
    dpa_bound,
    leads,
    proves,
    read_spread,
    theorem_2,
    weights,
)
from poisonproof.verification.verdict import Check, CheckFailed, CheckSkipped, Finding, UnknownMethod, detection

ROWS_AT_ONCE = 1024
METHODS = {
    "finite-aggregation": "Theorem 2",
    "dpa-bound": "⌊margin / 2d⌋",
    "tight": "the tight certificate",
    "run-off": "run-off election",
}
WITH_EXACT = ("tight", "run-off")
ARRAYS = ("prediction", "runner_up", "margin", "radius")
TIGHT_ROWS = 25  # without ``sample``: how many radii above Theorem 2 to prove anew
FOUNDATIONS = {"files", "spread", "classes", "votes", "split"}
"""What must be right before base classifiers are worth loading or training."""
MODEL_FILES = r"estimator\.skops|members-(\d{5,}\.(?:skops|npy)|pool\.npz|features\.npy|coefficients\.npy)"
LAYOUT = Layout(
    ("votes.npy", "votes.json", "certificate.npz", "spread.npz", "split.npy"),
    re.compile(
        rf"votes/block-\d{{5,}}\.npz|models/(model\.json|{MODEL_FILES})"
        r"|schema\.json|votes\.rankings\.npy|report\.html"
    ),
    re.compile(MODEL_FILES),
    {"votes.json": "poisonproof votes 2", MODEL: "poisonproof model 3"},
)


class EnsembleChecks(VoterChecks):
    """The checks of base classifiers that vote."""

    table = fields.FIELDS

    @classmethod
    def of_run(cls, folder: Path, manifest: dict[str, Any], reader: Reader, given: Given) -> Self:
        """Open a run."""
        files = open_run(folder, manifest, reader, LAYOUT)
        _open_votes(files, folder / "votes.npy")
        arrays, facts = reader.npz(folder / "spread.npz")
        spread = {name: array.tolist() for name, array in arrays.items()}
        files.records["spread.npz"] = {"spread": spread, "spread_digest": facts["spread"]}
        files.tables["split"] = reader.npy(folder / "split.npy")
        voters = cls(files, given)
        check_blocks(files, voters._whole_of_block)
        return voters

    @classmethod
    def of_certificate(cls, path: Path, votes: Path | None, reader: Reader, given: Given) -> Self:
        """Open a certificate, with the votes it was made from if they are given."""
        files = open_certificate(path, reader)
        if votes is not None and os.path.lexists(votes.with_suffix(".json")):
            _open_votes(files, votes)
            files.message += f", and so does {votes.name}"
        elif votes is not None:
            files.tables["votes"] = reader.npy(votes)
            files.message += f"; {votes.name} comes without a record"
        files.message += "."
        return cls(files, given)

    def _whole_of_block(self, name: str, part: NDArray[Any]) -> NDArray[Any] | None:
        if name != "votes":
            return None
        if part.ndim == 3 and self.rankings is None:
            raise CheckFailed("a block holds rankings, but votes.json names none.")
        return self.rankings if part.ndim == 3 else self.matrix

    @property
    def checks(self) -> Wanted:
        """The checks by name."""
        wanted: dict[str, Callable[[], str | Finding]] = {
            "spread": self.check_spread,
            "classes": self.classes,
            "votes": self.votes,
            "rankings": self.check_rankings,
            "prediction": lambda: self.check_array("prediction", np.arange(self.n_test), self._counted[:, 0]),
            "margin": lambda: self.check_array("margin", np.arange(self.n_test), self._counted[:, 1]),
            "radius": self.radius,
            "premises": self.premises,
            "manifest": self.statements,
            "split": self.split,
            "accuracy": self.accuracy,
        }
        if self.given.formal:
            wanted["formal"] = self.formal
        wanted |= {
            "model": lambda: self.ensemble.check_record(),
            "members": lambda: self.ensemble.predict_again(),
            "retraining": lambda: self.ensemble.retrain(),
        }
        if has_premise(self.files.facts, "encoder"):
            wanted["encoder"] = lambda: self.ensemble.check_encoder()
        return wanted

    def not_covered(self, made: Mapping[str, Check]) -> Iterator[str]:
        """What none of the checks that were made covers, the gravest first."""
        if "retraining" not in made:
            if "members" not in made:
                yield fields.VOTES
            yield fields.TRAINING
        if self.files.model is not None and "members" not in made:
            yield fields.MEMBERS
        if any(check.details.get("drawn", 0) < check.details.get("total", 0) for check in made.values()):
            yield fields.NOT_DRAWN
        if "split" not in made:
            yield fields.DATA
            yield fields.SPLIT
        yield from super().not_covered(made)
        if "exact" in self.files.certificate.arrays:
            yield fields.EXACT
        yield fields.BEFOREHAND
        yield fields.PURITY

    @property
    def matrix(self) -> NDArray[Any]:
        """The votes, which must be there."""
        if "votes" not in self.files.tables:
            raise CheckSkipped(NO_VOTES)
        return self.files.tables["votes"]

    @property
    def rankings(self) -> NDArray[Any] | None:
        """The rankings, if there are any."""
        return self.files.tables.get("rankings")

    @property
    def n_test(self) -> int:
        """Number of test samples that the votes are about."""
        return len(self.matrix)

    @property
    def spread(self) -> SpreadMap:
        """The spread, which must have been found right."""
        if "spread" in self.failed:
            raise CheckSkipped("the spread could not be established.")
        return self._balanced_spread

    @cached_property
    def _balanced_spread(self) -> SpreadMap:
        record, n = self.files.facts["spread"], self.matrix.shape[1]
        room = 8 * 8 * n * len(record.get("shifts", ()))  # of its table, and what sorting and counting it takes
        self.files.reader.check_room(room, "the spread of certificate.npz")
        return read_spread(record, n, "certificate.npz")

    def check_spread(self) -> str:
        """One balanced map, the same in every file, with the digest, k and d that are stated."""
        spread = self.spread
        self.agreed("spread")
        stated = {"spread_digest": spread.digest, "k": spread.k, "d": spread.d, "n_subsets": spread.n}
        for name, right in stated.items():
            self.check_said(name, right)
        return f"balanced, k = {spread.k:g}, d = {spread.d}, the same in every file."

    @cached_property
    def reachable(self) -> NDArray[np.bool_] | None:
        """Which partitions can be poisoned, by a premise; None means all."""
        stated, n = premises_of(self.files.facts), self.spread.n
        if REACHABLE not in stated:
            return None
        value, mask = stated[REACHABLE][0], np.zeros(n, np.bool_)
        places = value["partitions"] if isinstance(value, dict) else ()
        mask[[place for place in places if type(place) is int and 0 <= place < n]] = True
        if not same(value, {"n": n, "partitions": np.flatnonzero(mask).tolist()}):
            raise CheckFailed(f"the premise '{REACHABLE}' does not name partitions of {n}.")
        return mask

    def votes(self) -> str:
        """Class codes for every test sample and base classifier; in a run, only empty subsets abstain."""
        matrix, n_classes = self.matrix, self.files.n_classes
        if matrix.ndim != 2 or matrix.dtype.kind not in "iu":
            raise CheckFailed(f"the votes are not a table of class codes: {matrix.dtype}, shape {matrix.shape}.")
        never, always = np.ones(matrix.shape[1], np.bool_), np.ones(matrix.shape[1], np.bool_)
        for start in range(0, len(matrix), ROWS_AT_ONCE):
            part = matrix[start : start + ROWS_AT_ONCE]
            if part.size and not 0 <= int(part.min()) <= int(part.max()) <= n_classes:
                raise CheckFailed(f"a vote is neither one of {n_classes} classes nor an abstention.")
            never &= (part != n_classes).all(axis=0)
            always &= (part == n_classes).all(axis=0)
        sentence = f"{matrix.shape[0]} test samples, {matrix.shape[1]} base classifiers, all codes in range"
        if "split" not in self.files.tables:
            return f"{sentence}; which subsets are empty is not known."
        empty = self.subset_sizes == 0
        wrong = np.flatnonzero(np.where(empty, ~always, ~never))
        if len(wrong):
            what = "votes on an empty" if empty[wrong[0]] else "abstains on a non-empty"
            raise CheckFailed(f"base classifier {wrong[0]} {what} subset.")
        return f"{sentence}; the {int(empty.sum())} with empty subsets abstain and no other does."

    def check_rankings(self) -> str:
        """Every ranking begins with the vote, names no class twice, and ends once it names none."""
        ranked, matrix, n_classes = self.rankings, self.matrix, self.files.n_classes
        if ranked is None:
            return "none were kept."
        if ranked.shape[:-1] != matrix.shape or not 1 <= ranked.shape[-1] <= n_classes or ranked.dtype.kind not in "iu":
            raise CheckFailed(f"the rankings are no table of 1 to {n_classes} places for each vote: {ranked.shape}.")
        for t, (ranking, votes) in enumerate(zip(ranked, matrix, strict=True)):
            inside = np.sort(ranking, axis=1)
            rules = {
                "holds a code that is no class": (ranking < 0) | (ranking > n_classes),
                "does not begin with the vote": (ranking[:, :1] != votes[:, None]),
                "names a class twice": (inside[:, 1:] == inside[:, :-1]) & (inside[:, 1:] < n_classes),
                "goes on after its end": (ranking[:, 1:] < n_classes) & (ranking[:, :-1] == n_classes),
            }
            for rule, broken in rules.items():
                if broken.any():
                    i = int(np.flatnonzero(broken.any(axis=1))[0])
                    raise CheckFailed(f"the ranking of test sample {t} by base classifier {i} {rule}.")
        return "each begins with the vote and names no class twice."

    @property
    def partition(self) -> NDArray[np.int64]:
        """The partition of each training sample, by split.npy."""
        partition = self.files.tables["split"]
        if partition.ndim != 1 or partition.dtype.kind not in "iu":
            raise CheckFailed("split.npy does not hold one partition per training sample.")
        if len(partition) and not 0 <= int(partition.min()) <= int(partition.max()) < self.spread.n:
            raise CheckFailed(f"split.npy holds a partition that is not in 0 … {self.spread.n - 1}.")
        return partition

    @cached_property
    def subset_sizes(self) -> NDArray[np.int64]:
        """Training samples per subset, from split.npy and the spread."""
        sizes = np.zeros(self.spread.n, np.int64)
        np.add.at(sizes, self.spread.table, np.bincount(self.partition, minlength=self.spread.n)[:, None])
        return sizes

    @cached_property
    def method(self) -> str:
        """The method, if it is known, the certificate has its arrays, and the votes are in order."""
        method = self.files.facts["method"]
        if method not in METHODS:
            raise UnknownMethod(f"this checker does not know the method {method!r}.")
        if {"spread", "classes", "votes", "rankings"} & set(self.failed):
            raise CheckSkipped("the votes are not in order.")
        if method != "finite-aggregation" and self.reachable is not None:
            raise CheckFailed(
                f"by the method '{method}' base classifiers reckon with all partitions, and a premise says otherwise."
            )
        if method == "run-off" and self.rankings is None:
            raise CheckSkipped("there are no rankings, and a run-off election needs them.")
        self.check_arrays((*ARRAYS, "exact") if method in WITH_EXACT else ARRAYS)
        return str(method)

    @cached_property
    def _counted(self) -> NDArray[np.int64]:
        """Prediction and margin of every row of votes, as numbers alone: classes times rows would not fit in memory."""
        by_run_off = self.method == "run-off"
        counted = np.empty((self.n_test, 2), np.int64)
        for t, row in enumerate(self.matrix):
            if by_run_off:
                election = self._run_off(t)
                counted[t] = election.finalists[0], election.margin
            else:
                counted[t] = leads(row, self.files.n_classes, self.inferred)[:2]
        return counted

    def radius(self) -> Finding:
        """Radii, and the runners-up that set them."""
        n, method = self.matrix.shape[1], self.method
        if method == "run-off":
            sentence = self._check_run_offs()
        else:
            certified = np.empty((len(self.rows), 2), np.int64)
            for at, t in enumerate(self.rows):
                row = self._theorem_2(int(t))
                row = dpa_bound(row, self.spread.d) if method == "dpa-bound" else row
                certified[at] = row.radius, row.runner_up
                self.given.progress(at + 1, len(self.rows))
            if method == "tight":
                sentence = self._check_tight(certified[:, 0])
            else:
                self.check_array("radius", self.rows, certified[:, 0])
                self.check_array("runner_up", self.rows, certified[:, 1])
                sentence = f"radii follow from the votes of {n} base classifiers by {METHODS[method]}"
            if self.reachable is not None:
                sentence += f" within {int(self.reachable.sum())} reachable partitions (Theorem 4)"
        drawn = self.share() + ("" if len(self.rows) == self.n_test else " (drawn at random)")
        return self.finding(f"{drawn} {sentence}", "radii", "recomputed")

    def _theorem_2(self, t: int) -> Row:
        return theorem_2(self.matrix[t], self.spread, self.files.n_classes, self.inferred, self.reachable)

    def _check_tight(self, by_theorem_2: NDArray[np.int64]) -> str:
        """Radii of the method "tight": never below Theorem 2; those above it are proved anew, or refuted."""
        arrays, n = self.files.certificate.arrays, self.spread.n
        last = self.files.n_classes - (not self.inferred)
        for t, radius in zip(self.rows, by_theorem_2, strict=True):
            if not radius <= arrays["radius"][t] <= n:
                raise CheckFailed(
                    f"the radius of test sample {t} is stated as {arrays['radius'][t]}, but Theorem 2 alone gives "
                    f"{radius}, and there are {n} partitions."
                )
            self._check_rival(int(t), range(last + 1))
        above = np.flatnonzero(arrays["radius"][self.rows] > by_theorem_2)
        most = None if self.given.sample else TIGHT_ROWS
        proved = above[sample_rows(len(above), most, self.given.seed, 2)]
        for at in proved:
            self._prove(int(self.rows[at]))
        chance = f" ({detection(len(above), len(proved), 'ones').words})" if len(proved) < len(above) else ""
        return f"radii are at least Theorem 2's; of {len(above)} above it {len(proved)} were proved anew{chance}"

    def _check_rival(self, t: int, rivals: Any) -> None:
        runner_up = int(self.files.certificate.arrays["runner_up"][t])
        if runner_up not in rivals or runner_up == self._counted[t, 0]:
            raise CheckFailed(f"the runner-up of test sample {t} is stated as {runner_up}: no rival.")

    def _prove(self, t: int) -> None:
        """No attack as large as the radius exists, against any rival: a proof is looked for, and checked."""
        radius, row, spread = int(self.files.certificate.arrays["radius"][t]), self._theorem_2(t), self.spread
        everywhere, allowed = Partitions(np.arange(spread.n), spread.table, spread), np.ones(spread.n, np.bool_)
        for rival in (rival for rival in row.rivals if rival.radius < radius):
            weight = weights(self.matrix[t], row.prediction, rival, self.files.n_classes)
            try:
                tree = prove(weight, everywhere, allowed, radius, rival.lead)
            except HarmfulError:
                raise CheckFailed(
                    f"the radius of test sample {t} is stated as {radius}, but {radius} poisoned partitions can make "
                    f"class {rival.code} win."
                ) from None
            if tree is None or not proves(tree, weight, spread, allowed, radius, rival.lead):
                raise CheckSkipped(f"radius {radius} of test sample {t} could be neither proved nor refuted.")

    def _run_off(self, t: int) -> RunOff:
        assert self.rankings is not None
        return RunOff(np.asarray(self.rankings[t]), self.spread, self.files.n_classes, self.inferred)

    def _check_run_offs(self) -> str:
        """Radii of run-off elections: each is proved anew, and one more is not."""
        arrays = self.files.certificate.arrays
        for at, t in enumerate(self.rows.tolist()):
            election, radius = self._run_off(t), int(arrays["radius"][t])
            promises = radius > 0 or not election.unknown.any()  # what was not kept may already decide otherwise
            stated = f"the radius of test sample {t} is stated as {radius}, but its rankings"
            if promises and not election.proof(radius).complete:
                raise CheckFailed(f"{stated} do not prove that.")
            if radius < self.spread.n and election.proof(radius + 1).complete:
                raise CheckFailed(f"{stated} prove {radius + 1}.")
            if self.files.n_classes > 1:
                self._check_rival(t, election.rivals)
            self.given.progress(at + 1, len(self.rows))
        return f"radii follow from the rankings of {self.matrix.shape[1]} base classifiers by run-off election"

    def expected_premises(self, stated: Premises) -> Premises:
        """Spread, split and learner; a pilot may have chosen the spread, and a reader the learner, who says why."""
        settings, recipe = self.files.settings, (self.files.manifest or {}).get("recipe") or {}
        split, learner, spread = settings["split"], settings["learner"], self.spread
        _, arrived, parts = learner.partition(" [given fitted: ")
        expected: Premises = {
            "spread": ({"k": spread.k, "d": spread.d, "digest": spread.digest}, stated.get("spread", (None, None))[1]),
            "split": ({name: split[name] for name in ("kind", "dtype", "hash_labels")}, True),
            "learner": (learner, True),
        }
        if arrived:
            expected["parts-given-fitted"] = (parts.removesuffix("]"), True)
        picked, declared = stated.get("learner", (None, True))
        if same(picked, {"learner": learner, "given_as": recipe.get("learner")}):
            expected["learner"] = (picked, True)
        because = picked.get("because") if isinstance(picked, dict) else None
        if "schema" in settings and same(picked, {"learner": learner, "because": because}):
            expected["learner"] = (picked, declared)
        return expected

    def check_statements_of_run(self, manifest: dict[str, Any]) -> None:
        """Training samples, empty subsets, rankings, and what the record of the kept base classifiers says of them."""
        settings, model, sizes = self.files.settings, self.files.model, self.subset_sizes
        if settings["split"]["kind"] == "group" and "groups" not in settings["dataset"]:
            raise CheckFailed("the split is by contributor, but the manifest states no digest of contributors.")
        self.check_said("n_train", len(self.partition))
        self.check_said("empty_subsets", int((sizes == 0).sum()))
        check_equal("rankings", bool(settings.get("rankings")), self.rankings is not None)
        if model:
            check_equal("pooled", bool(settings.get("pooled")), bool(model.get("pooled")))
            self.check_said("subset_sizes", sizes.tolist())
            self.check_said("partition_sizes", np.bincount(self.partition, minlength=self.spread.n).tolist())

    def split(self) -> str:
        """The data have the digests that are stated, and split.npy is what their content gives."""
        stated, data, groups, split = self.same_data(), self.given.data, self.given.groups, self.files.facts["split"]
        if "split" not in self.files.tables or split is None:
            agree = "; the digests of the data agree" if stated else ""
            raise CheckSkipped(f"there is no split.npy to compare with{agree}.")
        known, partition = self.places_of(data.train.labels) >= 0, self.partition
        if split["kind"] == "group" and groups is not None:
            known &= np.array([name is not None for name in labels_of(groups)], np.bool_)
        by_content = partitions(split, self.spread.n, data.train.X, data.train.labels, groups)
        if known.sum() != len(partition):  # a learner that takes no missing values is not given samples that have some
            known &= complete(data.train.X)
        by_content = by_content[known]
        if by_content.shape != partition.shape:
            raise CheckFailed(
                f"split.npy holds {len(partition)} training samples, but {len(by_content)} of the data can be trained "
                "on."
            )
        wrong = np.flatnonzero(by_content != partition)
        if len(wrong):
            raise CheckFailed(
                f"training sample {wrong[0]} belongs to partition {by_content[wrong[0]]} by its content, but split.npy "
                f"says {partition[wrong[0]]}; {len(wrong)} of {len(by_content)} are wrong."
            )
        stand = "have the digests that are stated and the partitions that their content gives"
        return f"{len(by_content)} training samples {stand}."

    def formal(self) -> Finding:
        """Predictions and radii, by the checker whose correctness is a theorem."""
        from poisonproof.verification import formal

        method, ranked = self.files.facts["method"], self.rankings
        if method not in formal.OF_ENSEMBLES:
            raise CheckSkipped(f"the machine-checked checker does not know the method {method!r}.")
        if self.method == "run-off" and ranked is not None:
            if self.inferred:
                raise CheckSkipped("a run-off election is checked for declared classes alone, and these were inferred.")
            if ranked.shape[-1] < self.files.n_classes:
                raise CheckSkipped(
                    f"a run-off election is checked with all {self.files.n_classes} places of its rankings, and "
                    f"{ranked.shape[-1]} were kept."
                )
        tight, n_classes = method == "tight", self.files.n_classes
        setting = formal.Setting(self.spread, n_classes, self.inferred, tight=tight, reachable=self.reachable)
        arrays = self.files.certificate.arrays
        claimed = arrays["prediction"][self.rows], arrays["radius"][self.rows]

        def write(file: IO[bytes]) -> None:
            if method == "run-off" and ranked is not None:
                formal.write_run_off(file, setting, ranked[self.rows], *claimed, self.given.progress)
            else:
                formal.write_ensemble(file, setting, self.matrix[self.rows], *claimed, self.given.progress)

        statement = formal.OF_ENSEMBLES[method] if self.reachable is None else formal.WITHIN
        return formal.check(self, write, statement, formal.TRUSTED, searched=tight)

    @cached_property
    def ensemble(self) -> Any:
        """The saved base classifiers and the learner, which need poisonproof itself."""
        wrong = next((name for name in self.failed if name in FOUNDATIONS), None)
        if wrong:
            raise CheckSkipped(f"what the check of {wrong} found comes first.")
        if self.given.data is None:
            raise CheckSkipped(NO_DATA)
        if not self.given.ask and not self.given.retrain:
            raise CheckSkipped(NOT_WANTED)
        from poisonproof.verification.members import SavedEnsemble

        return SavedEnsemble(self)


def _open_votes(files: RunFiles, path: Path) -> None:
    """The votes with the record beside them, and the rankings if it names any."""
    record = files.reader.json(path.with_suffix(".json"))
    check_format(record, LAYOUT.formats["votes.json"], "votes.json")
    files.records = {"votes.json": record} | files.records
    of_rankings = path.with_suffix(".rankings.npy")
    for name, place in (("matrix", path), ("rankings", of_rankings)):
        if name not in record:
            if os.path.lexists(place):
                raise CheckFailed(f"votes.json does not name {place.name}.")
            continue
        if record[name]["file"] != place.name:
            raise CheckFailed(f"votes.json describes {record[name]['file']!r}, not {place.name}.")
        check_file(files.reader, place.parent, place.name, record[name]["sha256"], "votes.json")
        files.tables["votes" if name == "matrix" else "rankings"] = files.reader.npy(place)

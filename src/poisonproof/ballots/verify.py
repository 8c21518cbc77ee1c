"""The checks of a run in which training samples vote, one method each; see `poisonproof.verification.checks`.

Radii follow from counts, counts from the data and the stated map: both are computed again with the checker's own code
(`verify_arithmetic`). The map itself is asked, as base classifiers are elsewhere, and so is the saved model.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from poisonproof.ballots.verify_arithmetic import (
    LONGEST_SQUARED,
    PRODUCTS_AT_ONCE,
    Rule,
    Sums,
    VoterRows,
    by_ballots,
    by_neighbours,
    by_voices,
    greatest_distance,
    near_of,
    squares,
)
from poisonproof.errors import PoisonproofError
from poisonproof.verification import fields, formal
from poisonproof.verification.checks import (
    ANY,
    NO_VOTES,
    NOT_WANTED,
    Given,
    Premises,
    VoterChecks,
    Wanted,
    check_equal,
)
from poisonproof.verification.content import complete, content_hashes, labels_of, places_among
from poisonproof.verification.files import (
    MODEL,
    Archive,
    Layout,
    Reader,
    check_blocks,
    open_certificate,
    open_run,
)
from poisonproof.verification.verdict import Check, CheckFailed, CheckSkipped, Finding

THREATS = ("insert", "remove", "label_flip", "modify")
ARRAYS = ("prediction", "runner_up", "margin", "radius", "exact", *(f"radius_against_{name}" for name in THREATS))
FLIP = "flip the label of a training sample"
TYPES = {"ballots": "BallotClassifier", "neighbours": "NeighborVoteClassifier"}
COUNTS = {"ballots": "ballots.npz", "neighbours": "neighbours.npz"}
FORMATS = {"ballots": "poisonproof ballots 2", "neighbours": "poisonproof neighbours 2"}
LAYOUTS = {
    method: Layout(
        (counts, "certificate.npz"),
        re.compile(r"votes/block-\d{5,}\.npz|models/(model\.json|voters\.npz|map\.skops)|schema\.json|report\.html"),
        re.compile(r"voters\.npz|map\.skops"),
        {MODEL: "poisonproof voters 2"},
    )
    for method, counts in COUNTS.items()
}
OWN_MAP = "own"  # somebody's own, of which a run holds no code
CHOSEN = {"near", "number-of-neighbors"}
CHOICE = "choice-of-method"
"""A premise of runs whose method a pilot chose; the parameters that it chose with it are not declared either."""
NO_PARAMETERS = ("method", "map", "class_sizes", "steps_per_unit")  # of the election, which a model keeps elsewhere
DETAILS = {
    "ballots": "Theorems 1 to 4 of docs/proofs/ballots.md",
    "neighbours": "Theorems 5 and 6 of docs/proofs/ballots.md",
}
STATEMENTS = {
    "ballots": "Theorems 1 and 2 of docs/proofs/ballots.md (proofs/Ballots.v)",
    "neighbours": "Theorem 5 of docs/proofs/ballots.md (proofs/Neighbours.v)",
}
TRUSTED = (
    "Trusted: that the map is a fixed function of one sample, and that these counts are those of the data; and Coq, "
    "its extraction, OCaml and Zarith"
)
PICTURES = ("glyphs",)
ROWS_AT_ONCE = 4096

RECOUNT = "that the votes are those of the data in the map that is stated"
READ_AS = "how samples are read (the split)"
N_TRAIN = "the number of training samples"
KEPT_VOTERS = "the kept voters and what the kept model answers"
OF_MODEL = f"what {MODEL} says of features, contributors and dropped samples"
FIXED_MAP = "the map itself, which was asked and not written anew"
BEFOREHAND = (
    "that classes, schema, class sizes, map, threshold and number of neighbours were chosen beforehand, and that no "
    "premise was left unsaid"
)
_OF_COUNTS: Mapping[str, Sequence[str]] = {
    "files": ("format",),
    "classes": ("classes", "classes_inferred"),
    "manifest": ("split",),
    "election": ("rule", "one_sided", "voices", "n_neighbors", "n_samples", "contributors"),
    "premises": ("premises",),
}
FIELDS: fields.Table = {
    "manifest.json": fields.but(fields.OF_A_MANIFEST, manifest=("environments", "made_in")),
    fields.SETTINGS: fields.but(fields.OF_SETTINGS, election=("k", "d", "spread_digest", "election")),
    "the origin in certificate.npz": fields.OF_THE_ORIGIN,
    f"{fields.SETTINGS}, election": {
        "election": ("method", "near", "n_neighbors", "one_sided", "voices", "class_sizes", "steps_per_unit"),
        "premises": ("class_sizes_from", "map"),
    },
    "certificate.npz": fields.but(
        fields.OF_A_CERTIFICATE, election=("k", "d", "n_subsets", "spread", "spread_digest", "election")
    ),
    "ballots.npz": _OF_COUNTS,
    "neighbours.npz": _OF_COUNTS,
    MODEL: {
        "files": ("format", "files", "digest"),
        "classes": ("classes",),
        "manifest": ("type", "parameters", "sizes", "steps_per_unit", "classes_inferred_", "split"),
        "premises": ("premises",),
        OF_MODEL: ("contributors", "feature_names", "n_features_in_", "n_dropped_", "kind_of_samples_"),
    },
    "premises": {
        "premises": (
            *fields.PREMISES,
            *("map", "near", "class-sizes", "votes-per-contributor", "number-of-neighbors"),
        )
    },
}


class SampleChecks(VoterChecks):
    """The checks of training samples that vote; everything is computed once."""

    table = FIELDS

    @classmethod
    def of_run(cls, folder: Path, manifest: dict[str, Any], reader: Reader, given: Given) -> Self:
        """Open a run."""
        method = manifest["settings"]["election"]["method"]
        files = open_run(folder, manifest, reader, LAYOUTS[method])
        voters = cls(files, given)
        voters._open_counts(folder / COUNTS[method])
        arrays = voters.counts.arrays
        wholes = {"votes": arrays[voters._votes_name], "own": arrays[voters._own_name]}
        check_blocks(files, lambda name, part: wholes.get(name))
        return voters

    @classmethod
    def of_certificate(cls, path: Path, votes: Path | None, reader: Reader, given: Given) -> Self:
        """Open a certificate, with the ballots or neighbours it was made from if they are given."""
        voters = cls(open_certificate(path, reader), given)
        if votes is not None:
            voters._open_counts(votes)
            voters.files.message += f", and so do those of {votes.name}"
        voters.files.message += "."
        return voters

    def _open_counts(self, path: Path) -> None:
        if self.files.facts.get("election") is None:
            raise CheckFailed("the manifest says that samples vote, and certificate.npz that base classifiers do.")
        counts, known = self.files.reader.npz(path), FORMATS[self.method]
        if counts.facts.get("format") != known or (self.files.manifest and path.name != COUNTS[self.method]):
            raise CheckFailed(f"the votes are of format {counts.facts.get('format')!r}; {self.method} are '{known}'.")
        self.files.archives["counts"] = counts
        self.files.records = {COUNTS[self.method]: counts.facts, **self.files.records}

    @property
    def checks(self) -> Wanted:
        """The checks by name."""
        wanted: dict[str, Callable[[], str | Finding]] = {
            "election": self.election,
            "classes": self.classes,
            "votes": self.votes,
            "prediction": lambda: self._compare("predictions", "prediction"),
            "margin": lambda: self._compare("margins and runners-up", "margin", "runner_up"),
            "radius": self.radius,
            "premises": self.premises,
            "manifest": self.statements,
            "data": lambda: str(bool(self.same_data())) and "the data at hand have the digests that are stated.",
            "accuracy": self.accuracy,
            "recount": self.recount,
        }
        if self.given.formal:
            wanted["formal"] = self.formal
        return wanted | {"model": self.model}

    def not_covered(self, made: Mapping[str, Check]) -> Iterator[str]:
        """What none of the checks that were made covers, the gravest first."""
        if "recount" not in made:
            yield RECOUNT
            yield READ_AS
            if self.files.manifest and self.files.settings["split"]["kind"] == "group":
                yield N_TRAIN
        if "data" not in made:
            yield fields.DATA
        if "model" not in made:
            if self.files.model is not None:
                yield KEPT_VOTERS
            yield fields.EXACT
        if any(check.details.get("drawn", 0) < check.details.get("total", 0) for check in made.values()):
            yield "test samples that were not drawn"
        yield from super().not_covered(made)
        yield FIXED_MAP
        yield BEFOREHAND

    @property
    def stated(self) -> dict[str, Any]:
        """The election as the certificate states it."""
        return dict(self.files.facts["election"])

    @property
    def method(self) -> str:
        """Ballots or neighbours, as the certificate says."""
        return str(self.stated["kind"]).removeprefix("one-sided ")

    @property
    def by_ballots(self) -> bool:
        """Whether it is an election of ballots."""
        return self.method == "ballots"

    @property
    def _votes_name(self) -> str:
        return "near" if self.by_ballots else "order"

    @property
    def _own_name(self) -> str:
        return "self_near" if self.by_ballots else "first"

    @property
    def counts(self) -> Archive:
        """The counts, which must be there."""
        if "counts" not in self.files.archives:
            raise CheckSkipped(NO_VOTES)
        return self.files.archives["counts"]

    @property
    def n_test(self) -> int:
        """Number of test samples that the votes are about."""
        return len(self.counts.arrays[self._votes_name])

    def election(self) -> str:
        """Certificate, counts and manifest describe one election, and what follows from something else does."""
        counts, stated, facts = self.counts, self.stated, self.files.facts
        check_equal("the election of certificate.npz", stated, self._of_counts())
        check_equal("method", facts["method"], stated["kind"])
        check_equal("the spread of certificate.npz", facts["spread"], None)
        if self.files.manifest:
            settings = self.files.settings
            of_spread = [settings[name] for name in ("k", "d", "spread_digest")]
            check_equal("k, d and spread_digest", of_spread, [None] * 3)
            self._check_settings(settings["election"], counts.facts)
        return f"{stated['words']}, the same in every file."

    def _of_counts(self) -> dict[str, Any]:
        """The election that the counts describe."""
        arrays, facts = self.counts
        if not self.by_ballots:
            voters = "contributors" if facts["contributors"] else "training samples"
            words = f"the {facts['n_neighbors']} nearest of {facts['n_samples']} {voters} vote"
            more = {"n_voters": facts["n_samples"], "n_neighbors": facts["n_neighbors"]}
            return {"kind": "neighbours", "words": words, **more, **facts["rule"]}
        one_sided, voices = facts["one_sided"], facts["voices"]
        count = int(arrays["totals"].sum()) if voices is None else len(arrays["starts"]) - 1
        voters = "training samples" if voices is None else "contributors"
        return {
            "kind": "one-sided ballots" if one_sided else "ballots",
            "words": f"{count} {voters} vote, near +1 and far {0 if one_sided else -1}",
            "n_voters": count,
            "sizes": arrays["sizes"].tolist(),
            "voices": voices,
            **facts["rule"],
        }

    def _check_settings(self, settings: dict[str, Any], facts: dict[str, Any]) -> None:
        grouped = self.files.facts["split"]["kind"] == "group"
        rule = {"steps_per_unit": settings["steps_per_unit"]}
        if settings["method"] != self.method:
            raise CheckFailed(
                f"manifest.json states the method {settings['method']!r}, the certificate {self.method!r}."
            )
        if not self.by_ballots:
            check_equal("n_neighbors of the manifest", settings["n_neighbors"], facts["n_neighbors"])
            check_equal("whether contributors vote", facts["contributors"], grouped)
        else:
            sizes = settings["class_sizes"]
            one_sided = bool(settings["one_sided"])
            listed = {repr(label): size for label, size in sizes} if isinstance(sizes, list) else {}
            right = [listed.get(repr(label), 0) for label in self.files.settings["classes"]]
            check_equal("the class sizes of the votes", self.counts.arrays["sizes"].tolist(), right)
            check_equal("whether ballots are one-sided", facts["one_sided"], one_sided)
            check_equal("voices", facts["voices"], settings["voices"] if grouped else None)
            rule |= {"near": float(settings["near"]), "limit": greatest_distance(settings)}
        check_equal("the rule of the votes", facts["rule"], rule)

    def votes(self) -> str:
        """Counts that can be counts, labels that are classes, as many as there must be."""
        arrays, facts = self.counts
        n_classes, name = self.files.n_classes, COUNTS[self.method]
        if self.by_ballots:
            near, totals = arrays["near"], arrays["totals"]
            cells = len(totals) if facts["voices"] is not None else n_classes
            shapes = {"near": (len(near), cells), "totals": (cells,), "sizes": (n_classes,), "self_near": (len(near),)}
            if any(arrays[part].shape != shape for part, shape in shapes.items()):
                raise CheckFailed(f"{name} does not hold a count for every class and test sample.")
            if near.dtype.kind not in "iu" or near.min(initial=0) < 0 or (near > totals).any():
                raise CheckFailed("a count of near samples is below 0 or above the number of samples.")
            if arrays["sizes"].min(initial=0) < 0 or (self.inferred and arrays["sizes"].any()):
                raise CheckFailed("class sizes must be 0 or more, and 0 where classes were read off the data.")
            if facts["voices"] is not None:
                starts, classes = arrays["starts"], arrays["cell_classes"]
                least, most = int(classes.min(initial=0)), int(classes.max(initial=0))
                inside = len(classes) == cells and 0 <= least <= most < n_classes
                if not inside or starts[0] != 0 or starts[-1] != cells or (np.diff(starts) < 1).any():
                    raise CheckFailed("the cells of contributors do not fit their classes.")
        else:
            order, listed = arrays["order"], min(2 * facts["n_neighbors"], facts["n_samples"])
            if order.ndim != 2 or order.shape[1] != listed or order.dtype.kind not in "iu":
                raise CheckFailed(f"{name} does not list the {listed} nearest for every test sample.")
            if order.size and not 0 <= int(order.min()) <= int(order.max()) < n_classes:
                raise CheckFailed(f"a label among the nearest is none of {n_classes} classes.")
        return f"{self.n_test} test samples, all counts in range."

    @cached_property
    def sums(self) -> list[Sums]:
        """What the counts of these test samples prove."""
        arrays, facts = self.counts
        if "votes" in self.failed:
            raise CheckSkipped("the votes are not in order.")
        sums: list[Sums] = []
        n_classes = self.files.n_classes
        for done, t in enumerate(self.rows.tolist(), 1):
            if not self.by_ballots:
                order, k, n = arrays["order"][t], facts["n_neighbors"], facts["n_samples"]
                by_order = by_neighbours(
                    order, k, n, n_classes, inferred=self.inferred, contributors=facts["contributors"]
                )
                sums.append(by_order)
            else:
                rule = Rule(arrays["sizes"].tolist(), facts["one_sided"], self.inferred)
                near, totals = arrays["near"][t].tolist(), arrays["totals"].tolist()
                if facts["voices"] is None:
                    sums.append(by_ballots(near, totals, rule))
                else:
                    cells = arrays["cell_classes"].tolist(), arrays["starts"].tolist()
                    sums.append(by_voices(near, totals, *cells, facts["voices"], rule))
            self.given.progress(done, len(self.rows))
        return sums

    def _compare(self, what: str, *names: str) -> str:
        """Arrays of the certificate against what the votes give."""
        self.check_arrays(ARRAYS)
        for name in names:
            right = [getattr(sums, name.removeprefix("radius_against_")) for sums in self.sums]
            self.check_array(name, self.rows, np.array(right, np.int64))
        return f"{self.share()} {what} follow from the votes."

    def radius(self) -> Finding:
        """All radii, against every threat, and which are called exact."""
        self._compare("radii", "radius", *(f"radius_against_{name}" for name in THREATS))
        if (self.files.certificate.arrays["exact"] & ~self.counts.arrays[self._own_name]).any():
            raise CheckFailed("a radius is called exact although a copy of its test sample would not be near it.")
        words = f"{self.share()} radii follow from the votes by {DETAILS[self.method]}"
        return self.finding(words, "radii", "recomputed")

    def expected_premises(self, stated: Premises) -> Premises:
        """Map, and what decides the election; not declared, if a pilot on this data chose it."""
        settings, declared = self.files.settings, CHOICE not in stated
        election = settings["election"]
        words = map_in_words(election)
        of_map = ANY if words is None else words
        expected: Premises = {"map": (of_map, election["map"].get("trusted", True))}
        if not self.by_ballots:
            return expected | {"number-of-neighbors": (election["n_neighbors"], declared)}
        sizes: Any = election["class_sizes"]
        if election["one_sided"]:
            sizes = {}
        elif sizes is not None:
            sizes = {"sizes": sizes, "source": election["class_sizes_from"]}
        expected |= {
            "near": (near_of(election), declared),
            "class-sizes": (sizes, None if sizes is None else True),
        }
        if settings["split"]["kind"] == "group":
            expected["votes-per-contributor"] = (election["voices"], True)
        return expected

    def premises_of_data(self, stated: Premises) -> Premises:
        """The data say who chose threshold or number of neighbours; the value follows from the rule."""
        expected, of_rule = super().premises_of_data(stated), self.expected_premises(stated)
        return expected | {code: (of_rule[code][0], expected[code][1]) for code in CHOSEN & expected.keys()}

    @property
    def threats(self) -> dict[str, Any]:
        """What each act of an attacker costs; a sample whose label is flipped votes for another class."""
        threats = super().threats
        return threats | {FLIP: 2} if FLIP in threats else threats

    def check_statements_of_run(self, manifest: dict[str, Any]) -> None:
        """What a run of base classifiers would have is not stated, and the kept model follows the same rule."""
        settings, model = self.files.settings, self.files.model
        chosen, sizes = settings["election"], settings["election"].get("class_sizes")
        self.check_said("environments", [manifest["environment"]])
        self.check_said("made_in", [])
        for name in ("empty_subsets", "rankings", "pooled"):
            self.check_said(name, None)
        if chosen["map"]["name"] != OWN_MAP:
            self.check_said("learner", f"{chosen['method']}, map {chosen['map']['name']}")
        if settings["split"]["kind"] != "group":
            self.check_said("n_train", self.stated["n_voters"])
        if model is None:
            return
        self.check_said("type", TYPES[chosen["method"]])  # a model with another rule would answer otherwise
        self.check_said("sizes", self.counts.arrays["sizes"].tolist() if isinstance(sizes, list) else sizes)
        self.check_said("classes_inferred_", self.inferred)
        self.check_said("steps_per_unit", chosen["steps_per_unit"])
        rule = {name: value for name, value in model["parameters"].items() if name not in ("scale", "features")}
        of_election = {name: value for name, value in chosen.items() if name not in NO_PARAMETERS}
        check_equal(f"parameters of {MODEL}", rule, of_election)

    @cached_property
    def voters(self) -> VoterRows:
        """The voters that the data give."""
        self.same_data()
        if not self.files.manifest:
            raise CheckSkipped("only a run states the map by which samples were compared.")
        settings, data = self.files.settings, self.given.data
        if settings["split"]["dtype"] != data.dtype:
            raise CheckFailed(
                f"samples are read as {settings['split']['dtype']}, but the data at hand are {data.dtype}."
            )
        groups = self.given.groups if settings["split"]["kind"] == "group" else None
        voters = voter_rows(settings["election"], settings["classes"], data, groups, self.given.estimator)
        if len(voters.codes) != self.files.manifest["n_train"]:
            raise CheckFailed(
                f"n_train is stated as {self.files.manifest['n_train']}, but {len(voters.codes)} samples can vote."
            )
        return voters

    def recount(self) -> Finding:
        """The votes on these test samples, counted again from the data."""
        if not self.given.ask:
            raise CheckSkipped(NOT_WANTED)
        voters = self.voters
        test = described(voters.features, self.given.data.test.X)
        if len(test) != self.n_test:
            raise CheckFailed(f"there are {len(test)} test samples at hand, but the votes are about {self.n_test}.")
        arrays, facts = self.counts
        cells, n_cells, totals = self._cells(voters) if self.by_ballots else (voters.codes, 0, voters.codes)
        if self.by_ballots and not np.array_equal(totals, arrays["totals"]):
            raise CheckFailed("the totals of the votes are not what the data give.")
        step = max(1, PRODUCTS_AT_ONCE // max(1, len(voters.codes)))
        for start in range(0, len(self.rows), step):
            rows = self.rows[start : start + step]
            part = test[rows]
            if self.by_ballots:
                answers, own = voters.near(part, cells, n_cells), np.ones(len(rows), np.bool_)
            else:
                answers = voters.order(part, arrays["order"].shape[1])
                own = voters.nearest(part) > 0
            for counted, name in ((answers, self._votes_name), (own, self._own_name)):
                wrong = np.flatnonzero((counted != arrays[name][rows]).reshape(len(rows), -1).any(axis=1))
                if len(wrong):
                    raise CheckFailed(f"the votes on test sample {rows[wrong[0]]} are not what the data give.")
            self.given.progress(start + len(rows), len(self.rows))
        words = (
            f"the votes of {facts.get('n_samples', self.stated['n_voters'])} voters on {self.share()} test samples, "
        )
        words += "counted again in the map that is stated, are as stated to the bit"
        return self.finding(words, "rows of votes", "recounted")

    def _cells(self, voters: VoterRows) -> tuple[NDArray[np.int64], int, NDArray[np.int64]]:
        """What is counted together: classes, or what each contributor has of each class."""
        n_classes = self.files.n_classes
        if voters.owners is None:
            return voters.codes, n_classes, np.bincount(voters.codes, minlength=n_classes)
        pairs = voters.owners * n_classes + voters.codes
        held, cells, totals = np.unique(pairs, return_inverse=True, return_counts=True)
        arrays = self.counts.arrays
        starts = [*np.unique(held // n_classes, return_index=True)[1].tolist(), len(held)]
        if arrays["cell_classes"].tolist() != (held % n_classes).tolist() or arrays["starts"].tolist() != starts:
            raise CheckFailed("the cells of contributors are not what the data give.")
        return cells.astype(np.int64), len(held), totals

    def model(self) -> Finding:
        """The saved voters are those of the data, and the model that holds them, loaded and asked, says as stated."""
        if self.files.model is None or self.files.folder is None:
            raise CheckSkipped("no voters were kept.")
        if self.failed:
            raise CheckSkipped(f"what the check of {self.failed[0]} found comes first.")
        if not self.given.ask:
            raise CheckSkipped(NOT_WANTED)
        saved = self.files.reader.npz(self.files.folder / "models" / "voters.npz").arrays
        voters = self.voters
        parts = {"rows": voters.rows, "codes": voters.codes, "hashes": voters.hashes, "places": voters.places}
        if voters.owners is not None:
            parts["owners"] = voters.owners
        for name, array in parts.items():
            if saved[name].shape != array.shape or not np.array_equal(saved[name].astype(array.dtype), array):
                raise CheckFailed(f"the {name} of the kept voters are not those of the data in the map that is stated.")
        stated = self.files.certificate.arrays
        for name, answers in _ask_model(self, voters.features).items():
            wrong = np.flatnonzero(answers != stated[name][self.rows])
            if len(wrong):
                t = self.rows[wrong[0]]
                raise CheckFailed(
                    f"the kept model, asked again, gives test sample {t} the {name} {answers[wrong[0]]}, but "
                    f"{stated[name][t]} is stated; it differs on {len(wrong)} of {len(self.rows)} test samples."
                )
        words = f"the {len(voters.codes)} kept voters are the training samples in the map that is stated, and the kept "
        words += f"model, asked about {self.share()} test samples, answers as stated"
        return self.finding(words, "answers", "asked")

    def formal(self) -> Finding:
        """Predictions and radii, by the checker whose correctness is a theorem."""
        if self.files.facts["split"]["kind"] == "group":
            raise CheckSkipped("the machine-checked checker does not know elections of contributors.")
        (arrays, facts), claimed, rows = self.counts, self.files.certificate.arrays, self.rows
        stated = {"prediction": claimed["prediction"][rows], "radius": claimed["radius"][rows]}

        def write(file: IO[bytes]) -> None:
            if self.by_ballots:
                sizes = {"totals": arrays["totals"], "sizes": arrays["sizes"]}
                near, two_sided = arrays["near"][rows], not facts["one_sided"]
                write_ballots(file, near=near, **sizes, **stated, two_sided=two_sided, inferred=self.inferred)
                return
            write_neighbours(
                file,
                labels=list(arrays["order"][rows]),
                n_voters=facts["n_neighbors"],
                n_training=facts["n_samples"],
                n_classes=self.files.n_classes,
                **stated,
                inferred=self.inferred,
            )

        return formal.check(self, write, STATEMENTS[self.method], TRUSTED)


def _ask_model(checks: SampleChecks, features: Any) -> dict[str, NDArray[Any]]:
    """What the saved model answers about the test samples that are looked at, by the arrays of a certificate.

    ``features`` is the map that the run states, which the saved one must be. An encoder is asked as it was opened for
    the run: where a stranger's model says that its weights lie is not looked at.
    """
    from poisonproof.ballots.classifiers import BallotClassifier, NeighborVoteClassifier
    from poisonproof.core.split import Split
    from poisonproof.premises import PremiseWarning
    from poisonproof.training.model_files import UntrustedTypesError

    assert checks.files.folder is not None
    kind = BallotClassifier if checks.by_ballots else NeighborVoteClassifier
    try:
        model = kind.load(checks.files.folder / "models")
    except (UntrustedTypesError, ImportError) as error:
        raise CheckSkipped(str(error)) from None
    if model.map_.features != features:
        raise CheckFailed("the map that was kept is not the one that is stated.")
    model.map_ = replace(model.map_, features=features)
    test = Split.from_dict(checks.files.settings["split"]).samples(checks.given.data.test.X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PremiseWarning)
        certificate = model.certify(test.subset(checks.rows))
    arrays = {name: getattr(certificate, name) for name in ("prediction", "runner_up", "margin", "radius", "exact")}
    return arrays | {f"radius_against_{threat}": radii for threat, radii in (certificate.radii or {}).items()}


def described(features: Any, X: Any) -> NDArray[np.float64]:
    """What the map says of samples, as it was declared to be: whole numbers, one row for each."""
    parts = []
    for start in range(0, _count(X), ROWS_AT_ONCE):
        part = _rows(X, start, start + ROWS_AT_ONCE)
        given = np.asarray(features(part))
        parts.append((given[:, 0] if given.ndim == 3 else given).astype(np.float64))
    return np.concatenate(parts)


def map_in_words(election: dict[str, Any]) -> str | None:
    """What the premise about the map must say; None where the record of a run cannot tell."""
    from poisonproof.ballots.maps import ENCODER, OWN, map_of
    from poisonproof.learners.inspection import describe

    record = election["map"]
    if record["name"] in (OWN, ENCODER):
        return None
    features = map_of(record)
    words = features.words if record["name"] == "table" else describe(features)
    return f"{words}, {election['steps_per_unit']:g} steps per unit"


def voter_rows(election: dict[str, Any], classes: list[Any], data: Any, groups: Any, given: Any = None) -> VoterRows:
    """The voters that the data give: every training sample with a known label, and a contributor where those vote.

    ``given`` is an encoder, or a learner behind one, that the auditor has at hand.
    """
    from poisonproof.ballots.maps import OWN, map_of
    from poisonproof.learners.inspection import public_map_of
    from poisonproof.premises import PublicMap

    if election["map"]["name"] == OWN:
        raise CheckSkipped("the map is one of somebody's own, and the run does not hold its code.")
    features = map_of(election["map"], given if isinstance(given, PublicMap) else public_map_of(given))
    codes = places_among(classes, data.train.labels)
    kept = codes >= 0
    if election["map"]["name"] in PICTURES:
        kept &= complete(data.train.X)
    owners = None
    if groups is not None:
        ids = labels_of(groups)
        kept &= np.array([name is not None for name in ids], np.bool_)
        owners = np.full(len(ids), -1, np.int64)
        numbers: dict[Any, int] = {}
        for row in np.flatnonzero(kept).tolist():
            owners[row] = numbers.setdefault(ids[row], len(numbers))
    rows = described(features, data.train.X)
    if (squares(rows[kept]) > LONGEST_SQUARED).any():
        raise CheckFailed("the map gives features that are longer than products can be exact for.")
    hashes = content_hashes(data.train.X, data.dtype, getattr(data, "n_features", None))
    voting = None if owners is None else owners[kept]
    order = np.where(kept, np.cumsum(kept) - 1, -1)
    return VoterRows(rows[kept], codes[kept], hashes[kept], voting, order, election, features)


def _count(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _rows(X: Any, start: int, stop: int) -> Any:
    return X.iloc[start:stop] if hasattr(X, "iloc") else X[start:stop]


def write_ballots(
    file: IO[bytes],
    *,
    near: NDArray[Any],
    totals: Sequence[int] | NDArray[Any],
    sizes: Sequence[int] | NDArray[Any],
    prediction: NDArray[Any],
    radius: NDArray[Any],
    two_sided: bool = True,
    inferred: bool = False,
) -> None:
    """The witness of ballots: ``near[t, c]`` training samples of class c are near test sample t.

    ``totals[c]`` training samples have class c; ``sizes[c]`` is its declared size. Counts need no hints.
    """
    near, totals, sizes = np.asarray(near), np.asarray(totals), np.asarray(sizes)
    if near.ndim != 2 or totals.shape != near.shape[1:] or sizes.shape != near.shape[1:]:
        raise PoisonproofError(
            f"A witness of ballots needs one total and one size for each of the classes of 'near'. Got shapes "
            f"{near.shape}, {totals.shape} and {sizes.shape}.",
            code="witness.shape",
        )
    formal.write_line(file, formal.FORMAT, "ballots")
    formal.write_line(file, "classes", near.shape[1], "inferred" if inferred else "declared")
    formal.write_line(file, "rule", "two-sided" if two_sided else "one-sided")
    formal.write_line(file, "sizes", *sizes.tolist())
    formal.write_line(file, "totals", *totals.tolist())
    formal.write_line(file, "samples", len(near))
    for counts, p, r in zip(near.tolist(), prediction.tolist(), radius.tolist(), strict=True):
        formal.write_line(file, "sample", p, r, "near", *counts)
    formal.write_line(file, "end")


def write_neighbours(
    file: IO[bytes],
    *,
    labels: Sequence[NDArray[Any]],
    n_voters: int,
    n_training: int,
    n_classes: int,
    prediction: NDArray[Any],
    radius: NDArray[Any],
    inferred: bool = False,
) -> None:
    """The witness of K nearest neighbours: ``labels[t]`` are those of the training samples, nearest to t first.

    Of each, as many are written as a proof of its radius needs: K + radius, or all if there are fewer.
    """
    formal.write_line(file, formal.FORMAT, "neighbours")
    formal.write_line(file, "classes", n_classes, "inferred" if inferred else "declared")
    formal.write_line(file, "voters", n_voters, "training", n_training)
    formal.write_line(file, "samples", len(prediction))
    for row, p, r in zip(labels, prediction.tolist(), radius.tolist(), strict=True):
        needed = min(n_training, n_voters + r)
        if len(row) < needed:
            raise PoisonproofError(
                f"A witness of radius {r} among {n_voters} neighbours needs the labels of the {needed} nearest "
                f"training samples. Got {len(row)}.",
                code="witness.shape",
            )
        formal.write_line(file, "sample", p, r, "labels", *np.asarray(row)[:needed].tolist())
    formal.write_line(file, "end")

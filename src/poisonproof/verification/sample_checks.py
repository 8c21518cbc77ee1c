"""The checks of a run in which training samples vote, one method each; see `poisonproof.verification.checks`.

Radii follow from counts, counts from the data and the stated map: both are computed again with code of this room. The
map itself is asked, as base classifiers are elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.verification import checks, claims
from poisonproof.verification.arithmetic import draw
from poisonproof.verification.evidence import MODEL
from poisonproof.verification.recount import (
    PRODUCTS_AT_ONCE,
    Electorate,
    described,
    electorate,
    greatest_distance,
    map_in_words,
    near_of,
)
from poisonproof.verification.sample_files import COUNTS, SampleEvidence
from poisonproof.verification.sample_theorems import Rule, Sums, by_ballots, by_neighbours, by_voices
from poisonproof.verification.verdict import Finding, NotCheckedError, NotTrueError, detection

THREATS = ("insert", "remove", "label_flip", "modify")
ARRAYS = ("prediction", "runner_up", "margin", "radius", "exact", *(f"radius_against_{name}" for name in THREATS))
FLIP = "flip the label of a training sample"
TYPES = {"ballots": "BallotClassifier", "neighbours": "NeighborVoteClassifier"}
OWN_MAP = "own"  # somebody's own, of which a run holds no code
NO_PARAMETERS = ("method", "map", "class_sizes", "steps_per_unit")  # of the election, which a model keeps elsewhere
DETAILS = {
    "ballots": "Theorems 1 to 4 of docs/proofs/ballots.md",
    "neighbours": "Theorems 5 and 6 of docs/proofs/ballots.md",
}


class SampleChecks:
    """What files and data can tell about an election of samples; everything is computed once."""

    def __init__(
        self,
        evidence: SampleEvidence,
        data: Any,
        groups: Any,
        sample: int | None,
        seed: int,
        progress: Callable[[int, int], None],
        given: Any = None,
    ) -> None:
        self.evidence, self.data, self.groups, self.given = evidence, data, groups, given
        self.sample, self.seed, self.progress = sample, seed, progress
        self.in_order = False

    @property
    def stated(self) -> dict[str, Any]:
        """The election as the certificate states it."""
        return dict(self.evidence.facts["election"])

    @property
    def by_ballots(self) -> bool:
        """Whether it is one of ballots."""
        return self.evidence.kind == "ballots"

    @property
    def inferred(self) -> bool:
        """Whether the classes were read off the data."""
        return bool(self.evidence.facts["classes_inferred"])

    def election(self) -> str:
        """Certificate, counts and manifest describe one election, and what follows from something else does."""
        counts, stated = self.evidence.heard, self.stated
        checks.follows("the election of certificate.npz", stated, self._of_counts())
        checks.follows("method", self.evidence.facts["method"], stated["kind"])
        checks.follows("the spread of certificate.npz", self.evidence.facts["spread"], None)
        if self.evidence.manifest:
            settings = self.evidence.settings
            checks.follows(
                "k, d and spread_digest", [settings[name] for name in ("k", "d", "spread_digest")], [None] * 3
            )
            self._follows_from_settings(settings["election"], counts.facts)
        return f"{stated['words']}, the same in every file."

    def _of_counts(self) -> dict[str, Any]:
        """The election that the counts describe."""
        arrays, facts = self.evidence.heard
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

    def _follows_from_settings(self, settings: dict[str, Any], facts: dict[str, Any]) -> None:
        grouped = self.evidence.facts["split"]["kind"] == "group"
        rule = {"metric": settings["metric"], "steps_per_unit": settings["steps_per_unit"]}
        if settings["method"] != self.evidence.kind:
            raise NotTrueError(
                f"manifest.json states the method {settings['method']!r}, the certificate {self.evidence.kind!r}."
            )
        if not self.by_ballots:
            checks.follows("n_neighbors of the manifest", settings["n_neighbors"], facts["n_neighbors"])
            checks.follows("whether contributors vote", facts["contributors"], grouped)
        else:
            sizes = settings["class_sizes"]
            one_sided = bool(settings["one_sided"]) or sizes == "rows"
            listed = {repr(label): size for label, size in sizes} if isinstance(sizes, list) else {}
            labels = self.evidence.settings["classes"]
            right = [listed.get(repr(label), 0) for label in labels]
            checks.follows("the class sizes of the votes", self.evidence.heard.arrays["sizes"].tolist(), right)
            checks.follows("whether ballots are one-sided", facts["one_sided"], one_sided)
            checks.follows("voices", facts["voices"], settings["voices"] if grouped else None)
            rule |= {"near": float(settings["near"]), "limit": greatest_distance(settings)}
        checks.follows("the rule of the votes", dict(sorted(facts["rule"].items())), dict(sorted(rule.items())))

    def votes(self) -> str:
        """Counts that can be counts, labels that are classes, as many as there must be."""
        arrays, facts = self.evidence.heard
        n_classes, name = self.evidence.n_classes, COUNTS[self.evidence.kind]
        if self.by_ballots:
            near, totals = arrays["near"], arrays["totals"]
            cells = len(totals) if facts["voices"] is not None else n_classes
            shapes = {"near": (len(near), cells), "totals": (cells,), "sizes": (n_classes,), "self_near": (len(near),)}
            if any(arrays[part].shape != shape for part, shape in shapes.items()):
                raise NotTrueError(f"{name} does not hold a count for every class and test sample.")
            if near.dtype.kind not in "iu" or near.min(initial=0) < 0 or (near > totals).any():
                raise NotTrueError("a count of near samples is below 0 or above the number of samples.")
            if arrays["sizes"].min(initial=0) < 0 or (self.inferred and arrays["sizes"].any()):
                raise NotTrueError("class sizes must be 0 or more, and 0 where classes were read off the data.")
            if facts["voices"] is not None:
                self._check_cells(arrays, cells)
        else:
            order, listed = arrays["order"], min(2 * facts["n_neighbors"], facts["n_samples"])
            if order.ndim != 2 or order.shape[1] != listed or order.dtype.kind not in "iu":
                raise NotTrueError(f"{name} does not list the {listed} nearest for every test sample.")
            if order.size and not 0 <= int(order.min()) <= int(order.max()) < n_classes:
                raise NotTrueError(f"a label among the nearest is none of {n_classes} classes.")
        self.in_order = True
        return f"{self.evidence.n_test} test samples, all counts in range."

    def _check_cells(self, arrays: dict[str, NDArray[Any]], cells: int) -> None:
        starts, classes = arrays["starts"], arrays["cell_classes"]
        inside = len(classes) == cells and 0 <= int(classes.min(initial=0)) <= int(classes.max(initial=0)) < len(
            arrays["sizes"]
        )
        if not inside or starts[0] != 0 or starts[-1] != cells or (np.diff(starts) < 1).any():
            raise NotTrueError("the cells of contributors do not fit their classes.")

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The test samples that are looked at."""
        return draw(self.evidence.n_test, self.sample, self.seed, 1)

    @cached_property
    def sums(self) -> list[Sums]:
        """What the counts of these test samples prove."""
        arrays, facts = self.evidence.heard
        if not self.in_order:
            raise NotCheckedError("the votes are not in order.")
        sums: list[Sums] = []
        n_classes = self.evidence.n_classes
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
            self.progress(done, len(self.rows))
        return sums

    def _compare(self, names: tuple[str, ...]) -> None:
        arrays, n_test = self.evidence.certificate.arrays, self.evidence.n_test
        if set(arrays) != set(ARRAYS) or any(
            array.shape != (n_test,) or array.dtype.kind != ("b" if name == "exact" else "i")
            for name, array in arrays.items()
        ):
            raise NotTrueError(f"the certificate does not hold {', '.join(sorted(ARRAYS))} of {n_test} test samples.")
        for name in names:
            radii = np.array([getattr(sums, name.removeprefix("radius_against_")) for sums in self.sums], np.int64)
            wrong = np.flatnonzero(radii != arrays[name][self.rows])
            if len(wrong):
                t = int(self.rows[wrong[0]])
                raise NotTrueError(
                    f"{name} of test sample {t} is stated as {arrays[name][t]}, but the votes give {radii[wrong[0]]}; "
                    f"{len(wrong)} of {len(self.rows)} are wrong."
                )

    def prediction(self) -> str:
        """The predictions follow from the votes."""
        self._compare(("prediction",))
        return f"{self._share} predictions follow from the votes."

    def margin(self) -> str:
        """Margins and runners-up follow from the votes."""
        self._compare(("margin", "runner_up"))
        return f"{self._share} margins and runners-up follow from the votes."

    def radius(self) -> Finding:
        """All radii, against every threat, and which are called exact."""
        self._compare(("radius", *(f"radius_against_{name}" for name in THREATS)))
        exact = self.evidence.certificate.arrays["exact"]
        self_near = self.evidence.heard.arrays["self_near" if self.by_ballots else "first"]
        if (exact & ~self_near).any():
            raise NotTrueError("a radius is called exact although a copy of its test sample would not be near it.")
        words = f"{self._share} radii follow from the votes by {DETAILS[self.evidence.kind]}"
        if len(self.rows) == self.evidence.n_test:
            return Finding(f"{words}.", {})
        chance = detection(self.evidence.n_test, len(self.rows), "radii")
        return Finding(f"{words}; {chance.words}.", chance.details)

    @property
    def _share(self) -> str:
        n_test = self.evidence.n_test
        return f"all {n_test}" if len(self.rows) == n_test else f"{len(self.rows)} of {n_test}"

    def premises(self) -> str:
        """The premises are the same in every file, and those that follow from the election say so."""
        by_name = checks.agreed_premises(self.evidence)
        settings = self.evidence.settings
        near = near_of(settings["election"]) if self.by_ballots else {}
        chosen = claims.CHOICE in by_name
        wanted = claims.premises_of_samples(settings, self.inferred, near, by_pilot=chosen)
        words = map_in_words(settings["election"])
        wanted["map"] = (claims.ANY if words is None else words, wanted["map"][1])
        of_data = checks.premises_of_data(settings, by_name, self.data)
        for what in claims.CHOSEN.intersection(of_data):  # the data say who chose it; its words follow from the rule
            of_data[what] = (wanted[what][0], of_data[what][1])
        return checks.hold_premises(by_name, wanted | of_data)

    def manifest(self) -> str:
        """What the manifest and the certificate say in words and numbers follows from the rest."""
        facts, split = self.evidence.facts, checks.agreed_split(self.evidence)
        origin = facts.get("origin") or {}
        statements: dict[str, tuple[Any, Any]] = {"unit": (facts["unit"], claims.unit(split))}
        threats = claims.threat_model(split) if split is not None else {}
        threats |= {FLIP: 2} if FLIP in threats else {}
        if "threat_model" in origin:
            statements["origin: threat_model"] = (origin["threat_model"], threats)
        if self.evidence.manifest:
            statements |= self._of_the_run(origin, threats)
        for name, (given, expected) in statements.items():
            checks.follows(name, given, expected)
        if not self.evidence.manifest:
            return checks.unit_alone(facts["unit"], origin)
        return f"{len(statements)} statements follow from the rest."

    def _of_the_run(self, origin: dict[str, Any], threats: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
        facts, split = self.evidence.facts, self.evidence.facts["split"]
        manifest, settings, n_test = self.evidence.manifest or {}, self.evidence.settings, self.evidence.n_test
        right = manifest["clean_accuracy"] * n_test
        counted = round(right) / n_test if 0 <= round(right) <= n_test else None
        chosen = settings["election"]
        statements = {
            "split": (split, settings["split"]),
            "unit of the manifest": (manifest["unit"], claims.unit(split)),
            "threat_model": (manifest["threat_model"], threats),
            "method": (manifest["method"], facts["method"]),
            "n_test": (manifest["n_test"], n_test),
            "votes_only": (settings["votes_only"], MODEL not in manifest["files"]),
            "clean_accuracy": (manifest["clean_accuracy"], counted),
            "environments": (manifest["environments"], [manifest["environment"]]),
            "made_in": (manifest["made_in"], []),
            "empty_subsets": (manifest["empty_subsets"], None),
            "rankings and pooled": ([settings["rankings"], settings["pooled"]], [None, None]),
            "origin: dataset": (origin.get("dataset"), settings["dataset"]),
            "origin: learner": (origin.get("learner"), settings["learner"]),
            "origin: environment": (origin.get("environment"), manifest["environment"]),
            "origin: threat_model": (origin.get("threat_model"), threats),
        }
        if chosen["map"]["name"] != OWN_MAP:
            statements["learner"] = (settings["learner"], f"{chosen['method']}, map {chosen['map']['name']}")
        if split["kind"] != "group":
            statements["n_train"] = (manifest["n_train"], self.stated["n_voters"])
        return statements | self._of_the_model(chosen)

    def _of_the_model(self, chosen: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
        """What the kept model states of the vote: a model with another rule would answer otherwise."""
        model, facts = self.evidence.model, self.evidence.facts
        if model is None:
            return {}
        pairs = {
            "type": TYPES[chosen["method"]],
            "steps_per_unit": chosen["steps_per_unit"],
            "sizes": self.evidence.heard.arrays["sizes"].tolist() if isinstance(chosen.get("class_sizes"), list) else
            chosen.get("class_sizes"),
            "classes": facts["classes"],
            "classes_inferred_": facts["classes_inferred"],
            "split": facts["split"],
            "premises": facts["premises"],
        }  # fmt: skip
        statements = {f"{MODEL}: {name}": (model[name], right) for name, right in pairs.items()}
        given = model["parameters"]
        rule = {name: given[name] for name in given if name not in ("scale", "features")}
        expected = {name: value for name, value in chosen.items() if name not in NO_PARAMETERS}
        return statements | {f"{MODEL}: parameters": (rule, expected)}

    def same_data(self) -> str:
        """The data have the digests that are stated."""
        checks.same_data(self.evidence, self.data, self.groups)
        return "the data at hand have the digests that are stated."

    @cached_property
    def voters(self) -> Electorate:
        """The voters that the data give."""
        checks.same_data(self.evidence, self.data, self.groups)
        if not self.evidence.manifest:
            raise NotCheckedError("only a run states the map by which samples were compared.")
        settings = self.evidence.settings
        grouped = settings["split"]["kind"] == "group"
        if settings["split"]["dtype"] != self.data.dtype:
            raise NotTrueError(
                f"samples are read as {settings['split']['dtype']}, but the data at hand are {self.data.dtype}."
            )
        voters = electorate(
            settings["election"], settings["classes"], self.data, self.groups if grouped else None, self.given
        )
        if len(voters.codes) != self.evidence.manifest["n_train"]:
            raise NotTrueError(
                f"n_train is stated as {self.evidence.manifest['n_train']}, but {len(voters.codes)} samples can vote."
            )
        return voters

    def model(self, false: str | None, wanted: bool) -> Finding:
        """The kept voters are those of the data, and the model that holds them, loaded and asked, says as stated."""
        if self.evidence.model is None or self.evidence.folder is None:
            raise NotCheckedError("no voters were kept.")
        if false is not None:
            raise NotCheckedError(f"what the check of {false} found comes first.")
        if not wanted:
            raise NotCheckedError("it was not wanted (ask=False, --no-ask).")
        kept = self.evidence.reader.npz(self.evidence.folder / "models" / "voters.npz").arrays
        voters = self.voters
        parts = {"rows": voters.rows, "codes": voters.codes, "hashes": voters.hashes, "places": voters.places}
        if voters.owners is not None:
            parts["owners"] = voters.owners
        for name, array in parts.items():
            if kept[name].shape != array.shape or not np.array_equal(kept[name].astype(array.dtype), array):
                raise NotTrueError(
                    f"the {name} of the kept voters are not those of the data in the map that is stated."
                )
        from poisonproof.verification.members import ask_samples

        certificate = ask_samples(self.evidence, voters.features, self.data.test.X, self.rows)
        stated = self.evidence.certificate.arrays
        for name, answers in certificate.items():
            wrong = np.flatnonzero(answers != stated[name][self.rows])
            if len(wrong):
                raise NotTrueError(
                    f"the kept model, asked again, gives test sample {self.rows[wrong[0]]} the {name} "
                    f"{answers[wrong[0]]}, but {stated[name][self.rows[wrong[0]]]} is stated; it differs on "
                    f"{len(wrong)} of {len(self.rows)} test samples."
                )
        words = f"the {len(voters.codes)} kept voters are the training samples in the map that is stated, and the kept "
        words += f"model, asked about {self._share} test samples, answers as stated"
        if len(self.rows) == self.evidence.n_test:
            return Finding(f"{words}.", {"asked": self.evidence.n_test})
        chance = detection(self.evidence.n_test, len(self.rows), "answers")
        return Finding(f"{words}; {chance.words}.", {"asked": len(self.rows), **chance.details})

    def recount(self, wanted: bool) -> Finding:
        """The votes on these test samples, counted again from the data."""
        if not wanted:
            raise NotCheckedError("it was not wanted (ask=False, --no-ask).")
        voters, n_test = self.voters, self.evidence.n_test
        test = described(voters.features, self.data.test.X)
        if len(test) != n_test:
            raise NotTrueError(f"there are {len(test)} test samples at hand, but the votes are about {n_test}.")
        arrays, facts = self.evidence.heard
        own_name = "self_near" if self.by_ballots else "first"
        cells, n_cells, totals = self._cells(voters) if self.by_ballots else (voters.codes, 0, voters.codes)
        if self.by_ballots and not np.array_equal(totals, arrays["totals"]):
            raise NotTrueError("the totals of the votes are not what the data give.")
        step = max(1, PRODUCTS_AT_ONCE // max(1, len(voters.codes)))
        for start in range(0, len(self.rows), step):
            rows = self.rows[start : start + step]
            part = test[rows]
            if self.by_ballots:
                answers, name = voters.near(part, cells, n_cells), "near"
                own_near = voters.own_distance(part) <= voters.limit
            else:
                answers, name = voters.order(part, arrays["order"].shape[1]), "order"
                own_near = voters.nearest(part) > voters.own_distance(part)
            for counted, stated in ((answers, arrays[name][rows]), (own_near, arrays[own_name][rows])):
                wrong = np.flatnonzero((counted != stated).reshape(len(rows), -1).any(axis=1))
                if len(wrong):
                    raise NotTrueError(f"the votes on test sample {rows[wrong[0]]} are not what the data give.")
            self.progress(start + len(rows), len(self.rows))
        words = f"the votes of {facts.get('n_samples', self.stated['n_voters'])} voters on {self._share} test samples, "
        words += "counted again in the map that is stated, are as stated to the bit"
        if len(self.rows) == n_test:
            return Finding(f"{words}.", {"recounted": n_test})
        chance = detection(n_test, len(self.rows), "rows of votes")
        return Finding(f"{words}; {chance.words}.", {"recounted": len(self.rows), **chance.details})

    def _cells(self, voters: Electorate) -> tuple[NDArray[np.int64], int, NDArray[np.int64]]:
        """What is counted together: classes, or what each contributor has of each class."""
        n_classes = self.evidence.n_classes
        if voters.owners is None:
            return voters.codes, n_classes, np.bincount(voters.codes, minlength=n_classes)
        pairs = voters.owners * n_classes + voters.codes
        held, cells, totals = np.unique(pairs, return_inverse=True, return_counts=True)
        arrays = self.evidence.heard.arrays
        starts = [*np.unique(held // n_classes, return_index=True)[1].tolist(), len(held)]
        if arrays["cell_classes"].tolist() != (held % n_classes).tolist() or arrays["starts"].tolist() != starts:
            raise NotTrueError("the cells of contributors are not what the data give.")
        return cells.astype(np.int64), len(held), totals

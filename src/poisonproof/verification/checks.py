"""What is checked of a run or a certificate whoever votes: a sentence if all is well, an exception if not.

A forger may have recomputed every digest, so nothing is believed because a file says so: what several files say must
agree, and whatever follows from something else is computed again. `poisonproof.verification.ensemble` adds the checks
of base classifiers, a slice those of its voters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from poisonproof.verification import fields
from poisonproof.verification.content import data_digests, labels_of, places_among
from poisonproof.verification.files import MODEL, Layout, Reader, RunFiles, open_certificate, open_run, same, short
from poisonproof.verification.verdict import (
    ESSENTIAL,
    Check,
    CheckFailed,
    CheckSkipped,
    Finding,
    UnknownMethod,
    detection,
)

ROUNDING = 1e-12  # a mean over classes is stated as a float
MOST_CLASSES = 65_535  # votes are codes of two bytes, and one of them abstains
NO_DATA = "the data are not at hand; give data= (DATA, --data-dir)."
NO_VOTES = "the certificate comes without votes; give votes=FILE (--votes)."
NOT_WANTED = "it was not wanted (ask=False, --no-ask)."
ANY_NAME = re.compile(r"(?:[\w-][\w.-]*/)*[\w-][\w.-]*")  # of a file below the folder
KINDS = ("content", "pixel-sum", "group")
NOT_COVERED = (
    "change a test sample",
    "poison a pre-processing step or feature extractor that was fitted elsewhere",
    "control the training machine",
)
REACHABLE = "reachable-partitions"

Wanted = Mapping[str, Callable[[], str | Finding]]
Premises = dict[str, tuple[Any, bool | None]]
"""Code → value, or ANY where only the data tell, and whether it was declared (see `fits`)."""
ANY: Any = object()


def threat_model(split: dict[str, Any]) -> dict[str, Any]:
    """What each act of an attacker costs: a changed sample may leave one partition and enter another, so 2."""
    if split["kind"] == "group":
        acts: dict[str, Any] = {
            "change anything in the training samples of one contributor": 1,
            "move a training sample from one contributor to another": 2,
        }
    else:
        acts = {
            "insert a training sample": 1,
            "remove a training sample": 1,
            "flip the label of a training sample": 2 if split["hash_labels"] else 1,
            "change a training sample in any other way": 2,
        }
    return acts | dict.fromkeys(NOT_COVERED, "not covered")


def premises_of(record: dict[str, Any]) -> Premises:
    """The premises that a file states, by code and in its order."""
    by_code: Premises = {}
    for premise in record["premises"]:
        if not isinstance(premise, dict) or premise.keys() != {"code", "value", "declared"}:
            raise CheckFailed(f"{short(premise)} is no premise.")
        code, declared = premise["code"], premise["declared"]
        if type(code) is not str or not isinstance(declared, bool | None):
            raise CheckFailed(f"the premise {short(code)} is of no origin that there is.")
        if code in by_code:
            raise CheckFailed(f"the premise '{code}' is stated twice.")
        by_code[code] = premise["value"], declared
    return by_code


def has_premise(record: dict[str, Any], code: str) -> bool:
    """Whether a premise of this code stands in a record, whatever else stands there."""
    stated = record["premises"] if isinstance(record["premises"], list) else ()
    return any(isinstance(premise, dict) and premise.get("code") == code for premise in stated)


def fits(declared: bool | None, expected: bool | None) -> bool:
    """Whether a premise may be called so; what the user could declare may be a default as well."""
    return declared is expected or (expected is True and declared is None)


@dataclass(frozen=True, eq=False)
class Given:
    """What an auditor has at hand and asks for; see `poisonproof.verify`."""

    data: Any
    groups: Any
    estimator: Any
    sample: int | None
    ask: bool
    retrain: int
    seed: int
    formal: bool
    witness: Path | None
    progress: Callable[[int, int], None]


class VoterChecks:
    """The files of somebody else's run or certificate, and what is checked of them.

    ``table`` says which check covers which entry of which file, ``failed`` which checks failed so far.
    """

    table: ClassVar[fields.Table]

    def __init__(self, files: RunFiles, given: Given) -> None:
        self.files, self.given = files, given
        self.failed: list[str] = []

    @classmethod
    def of_run(cls, folder: Path, manifest: dict[str, Any], reader: Reader, given: Given) -> Self:
        """Open a run."""
        raise NotImplementedError

    @classmethod
    def of_certificate(cls, path: Path, votes: Path | None, reader: Reader, given: Given) -> Self:
        """Open a certificate, and the votes it was made from if they are given."""
        raise NotImplementedError

    @property
    def checks(self) -> Wanted:
        """The checks by name, in the order in which they are made."""
        raise NotImplementedError

    @property
    def n_test(self) -> int:
        """Number of test samples that the votes are about."""
        raise NotImplementedError

    def expected_premises(self, stated: Premises) -> Premises:
        """What the settings of a run imply that its premises must be."""
        raise NotImplementedError

    def check_statements_of_run(self, manifest: dict[str, Any]) -> None:
        """An error if what a run states of its voters does not follow from their votes."""
        raise NotImplementedError

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The test samples that are looked at."""
        return sample_rows(self.n_test, self.given.sample, self.given.seed, 1)

    @property
    def inferred(self) -> bool:
        """Whether the classes were read off the data."""
        return bool(self.files.facts["classes_inferred"])

    def not_covered(self, made: Mapping[str, Check]) -> Iterator[str]:
        """What none of the checks that were made covers, the gravest first."""
        yield from fields.not_covered(self.table, self.files, made)
        if "schema" in self.files.settings and not (
            made.keys() & {"split", "data"} and getattr(self.given.data, "schema", None) is not None
        ):
            yield fields.SCHEMA_READ
            yield fields.TEST_SAMPLES
        yield from fields.not_covered_of_files(self.files)

    def said(self, name: str) -> Iterator[tuple[str, Any]]:
        """What each file that has such an entry, by the table, says under this name; there it must be."""
        for where, record in fields.records_of(self.files).items():
            if any(name in entries for entries in self.table.get(where, {}).values()):
                yield where, record[name]

    def agreed(self, name: str) -> Any:
        """What the certificate says under this name, and every other file too."""
        right = self.files.facts.get(name)
        for where, value in self.said(name):
            _check_agreement(name, where, value, right)
        return right

    def check_said(self, name: str, right: Any) -> None:
        """An error if a file says something else under this name than follows from the rest."""
        for where, value in self.said(name):
            check_equal(f"{name} of {where}", value, right)

    def classes(self) -> str:
        """One list of different labels in every file; whether they were inferred agrees with the premises."""
        listed, inferred = self.files.facts["classes"], self.agreed("classes_inferred")
        values = listed["values"]
        if len({*labels_of(values), None}) <= len(values):
            raise CheckFailed("the class list names a label twice, or something that is no label.")
        if len(values) > MOST_CLASSES:
            raise CheckFailed(f"{len(values)} classes are named; votes tell at most {MOST_CLASSES} apart.")
        if type(inferred) is not bool or len(values) < (1 if inferred else 2):
            raise CheckFailed(f"there must be two classes or more, declared or inferred. Got {len(values)}.")
        for where, value in self.said("classes"):
            _check_agreement("classes", where, value, values if where == fields.SETTINGS else listed)
        if premises_of(self.files.facts).get("classes", (None, None))[1] is inferred:
            told = "inferred" if inferred else "declared"
            raise CheckFailed(f"the classes are said to be {told}, and the premises say the opposite.")
        if inferred:
            return f"{len(values)}, read off the data, so one more rival is reckoned with."
        return f"{len(values)}, the same everywhere; that they were declared beforehand is the maker's word."

    def premises(self) -> str:
        """The premises are the same in every file, and those that follow from the settings say so."""
        listed, stated = self.files.facts["premises"], premises_of(self.files.facts)
        of_votes = [premise for premise in listed if premise["code"] != REACHABLE]  # which is said on certifying them
        if self.files.manifest and REACHABLE in stated:
            raise CheckFailed("a run reckons with all partitions, and a premise says that only some can be poisoned.")
        for where, value in self.said("premises"):
            _check_agreement("premises", where, value, listed if where == "certificate.npz" else of_votes)
        if not self.files.manifest:
            raise CheckSkipped(f"{len(listed)} are stated; only a run says what they must be.")
        for code, (value, declared) in (self.expected_premises(stated) | self.premises_of_data(stated)).items():
            if code not in stated:
                raise CheckFailed(f"the premise '{code}' is missing.")
            if value is not ANY and not same(stated[code][0], value):
                raise CheckFailed(
                    f"the premise '{code}' states {short(stated[code][0])}, which does not follow from the settings; "
                    f"they give {short(value)}."
                )
            if not fits(stated[code][1], declared):
                raise CheckFailed(f"the premise '{code}' is stated with another origin than follows from the settings.")
        return f"{len(stated)} stated, the same everywhere; that there are no others is the maker's word."

    def premises_of_data(self, stated: Premises) -> Premises:
        """The premises that every run has, and those about how the data were read, by the data at hand."""
        settings, data = self.files.settings, self.given.data
        schema, width = settings["split"].get("schema"), settings["split"]["n_features"]
        declared = width is not None
        if schema is not None:
            width = sum(role in ("number", "category", "text") for role in schema["columns"].values())
            declared = not schema.get("guessed")
        expected: Premises = {
            "fitted-before-the-split": ([], None),
            "classes": (settings["classes"], not self.inferred),
            "number-of-features": (ANY if width is None else width, declared),
        }
        if "schema" in settings:
            expected |= {"schema": (ANY, stated.get("schema", (None, False))[1]), "test-samples": (ANY, True)}
        if data is None:
            return expected
        x = data.train.X
        if width is None:
            texts = not hasattr(x, "shape") or len(x.shape) == 1
            expected["number-of-features"] = (1 if texts else int(np.prod(x.shape[1:])), False)
        if hasattr(x, "columns") and "schema" not in settings:
            expected |= {"categorical-columns": (ANY, declared), "schema": (ANY, declared)}
        return expected | {premise.code: (premise.value, premise.declared) for premise in getattr(data, "premises", ())}

    def statements(self) -> str:
        """What manifest and certificate state about unit, threat model and the run follows from the rest."""
        split, manifest = self.agreed("split"), self.files.manifest
        if split is not None and (split["kind"] not in KINDS or type(split["hash_labels"]) is not bool):
            raise CheckFailed(f"the split {split['kind']!r} is not known.")
        self.check_said("unit", "contributors" if split and split["kind"] == "group" else "training samples")
        self.check_said("threat_model", self.threats)
        if manifest is None:
            origin = "." if self.files.origin else "; the certificate does not say where it comes from."
            return f"unit {self.files.facts['unit']!r}{origin}"
        check_equal("method of manifest.json", manifest["method"], self.files.facts["method"])
        for name in ("dataset", "learner", "environment"):
            self.check_said(name, self.files.settings.get(name, manifest.get(name)))
        right = round(manifest["clean_accuracy"] * self.n_test)
        self.check_said("clean_accuracy", right / self.n_test if 0 <= right <= self.n_test else None)
        self.check_said("n_test", self.n_test)
        self.check_said("votes_only", MODEL not in manifest["files"])
        self.check_statements_of_run(manifest)
        return "what is stated twice is the same, and what follows from the rest of the files does."

    @property
    def threats(self) -> dict[str, Any]:
        """What each act of an attacker costs."""
        split = self.files.facts["split"]
        return {} if split is None else threat_model(split)

    def same_data(self) -> dict[str, Any]:
        """The digests that are stated of the data, which those at hand have."""
        data, groups = self.given.data, self.given.groups
        if data is None:
            raise CheckSkipped(NO_DATA)
        stated = self.files.settings.get("dataset") or self.files.origin.get("dataset") or {}
        for name, digest in data_digests(data, groups).items():
            if stated and digest != stated.get(name):
                raise CheckFailed(f"the {name} at hand is not the one of which the digest is stated.")
        schema = getattr(data, "schema", None)
        if schema is not None and not same(schema.as_dict(), self.files.settings.get("schema")):
            raise CheckFailed("the data at hand were read by another schema than the one that is stated.")
        if "groups" in stated and groups is None:
            raise CheckSkipped("the digest of contributors is stated, and they are not at hand; give groups=.")
        return dict(stated)

    def accuracy(self) -> str:
        """Clean and balanced accuracy, from the certificate's predictions (which were checked against the votes)."""
        manifest = self.files.manifest
        if self.given.data is None:
            raise CheckSkipped(NO_DATA)
        if manifest is None:
            raise CheckSkipped("only a run states one.")
        labels = labels_of(self.given.data.test.labels)
        if len(labels) != self.n_test:
            raise CheckFailed(f"there are {len(labels)} test samples at hand, but the votes are about {self.n_test}.")
        right = self.files.certificate.arrays["prediction"] == self.places_of(self.given.data.test.labels)
        stated, counted = manifest["clean_accuracy"], int(right.sum())
        if not same(stated, counted / len(right)):
            raise CheckFailed(f"clean_accuracy is stated as {stated}, but {counted} of {len(right)} are right.")
        by_class: dict[Any, list[bool]] = {}
        for label, is_right in zip(labels, right.tolist(), strict=True):
            by_class.setdefault(label, []).append(is_right)
        shares = [Fraction(sum(part), len(part)) for part in by_class.values()]
        figures = {
            "majority_share": Fraction(max(map(len, by_class.values())), len(right)),
            "balanced_accuracy": sum(shares, Fraction(0)) / len(shares),
        }
        for name, figure in figures.items():
            if abs(manifest[name] - float(figure)) > ROUNDING:
                raise CheckFailed(f"{name} is stated as {manifest[name]}, but the labels give {float(figure)}.")
        return f"{counted} of {len(right)} test samples are right, as stated."

    def check_arrays(self, names: Sequence[str]) -> None:
        """An error if the certificate does not hold these arrays of all test samples, and no others."""
        arrays, listed = self.files.certificate.arrays, ", ".join(sorted(names))
        if set(arrays) != set(names) or any(
            array.shape != (self.n_test,) or array.dtype.kind != ("b" if name == "exact" else "i")
            for name, array in arrays.items()
        ):
            raise CheckFailed(f"the certificate does not hold {listed} of {self.n_test} test samples.")

    def check_array(self, name: str, rows: NDArray[np.int64], right: NDArray[np.int64]) -> str:
        """Some rows of an array of the certificate against what the votes give."""
        claimed = self.files.certificate.arrays[name][rows]
        wrong = np.flatnonzero(claimed != right)
        if len(wrong):
            at = wrong[0]
            raise CheckFailed(
                f"the {name.replace('_', '-')} of test sample {rows[at]} is stated as {claimed[at]}, but its votes "
                f"give {right[at]}; {len(wrong)} of {len(rows)} are wrong."
            )
        return f"all {len(rows)} follow from the votes."

    def places_of(self, labels: Any) -> NDArray[np.int64]:
        """Index of each label in the class list; −1 for none."""
        return places_among(self.files.facts["classes"]["values"], labels)

    def share(self) -> str:
        """How many of the test samples were looked at."""
        return f"all {self.n_test}" if len(self.rows) == self.n_test else f"{len(self.rows)} of {self.n_test}"

    def finding(self, sentence: str, what: str, counted_as: str) -> Finding:
        """A sentence about the rows that were looked at, with the chance that a forgery was missed."""
        details = {counted_as: len(self.rows)}
        if len(self.rows) == self.n_test:
            return Finding(f"{sentence}.", details)
        chance = detection(self.n_test, len(self.rows), what)
        return Finding(f"{sentence}; {chance.words}.", details | chance.details)


class UnknownVoters(VoterChecks):
    """Voters of a method that this checker does not know: only the digests of the files can be looked at."""

    table: ClassVar[fields.Table] = {}

    @classmethod
    def of_run(cls, folder: Path, manifest: dict[str, Any], reader: Reader, given: Given) -> Self:
        """Open a run."""
        return cls(open_run(folder, manifest, reader, Layout(("certificate.npz",), ANY_NAME, ANY_NAME, {})), given)

    @classmethod
    def of_certificate(cls, path: Path, votes: Path | None, reader: Reader, given: Given) -> Self:
        """Open a certificate; its votes are in a form that is not known."""
        return cls(open_certificate(path, reader), given)

    @property
    def checks(self) -> Wanted:
        """The checks by name, none of which can be made."""
        return dict.fromkeys(("election", *ESSENTIAL), self._unknown)

    def _unknown(self) -> str:
        election = self.files.settings.get("election") or self.files.facts["election"]
        raise UnknownMethod(f"this checker does not know the method {election.get('method', election.get('kind'))!r}.")

    def not_covered(self, made: Mapping[str, Check]) -> Iterator[str]:
        """All but the digests."""
        yield fields.METHOD
        yield "votes, classes, premises and figures"
        yield from fields.not_covered_of_files(self.files)


def _check_agreement(name: str, where: str, value: Any, right: Any) -> None:
    if not same(value, right):
        raise CheckFailed(f"{where} and certificate.npz disagree on '{name}'.")


def check_equal(name: str, given: Any, right: Any) -> None:
    """An error that names the first difference if a statement is not what the rest of the files give."""
    if same(given, right):
        return
    while isinstance(given, dict) and isinstance(right, dict):
        key = next(key for key in {**right, **given} if not same(given.get(key), right.get(key)))
        name, given, right = f"{name}: {key}", given.get(key), right.get(key)
    raise CheckFailed(f"{name} is stated as {short(given)}, but the rest of the files give {short(right)}.")


def sample_rows(total: int, wanted: int | None, seed: int, stream: int) -> NDArray[np.int64]:
    """All of 0 … total − 1, or that many of them at random."""
    if wanted is None or wanted >= total:
        return np.arange(total)
    return np.sort(np.random.default_rng([seed, stream]).choice(total, wanted, replace=False))

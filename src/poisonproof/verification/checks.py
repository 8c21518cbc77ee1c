"""What is checked of a run or a certificate whoever votes: a sentence if all is well, an exception if not.

A forger may have recomputed every digest, so nothing is believed because a file says so: what several files say must
agree, and whatever follows from something else is computed again. `poisonproof.verification.ensemble` adds the checks
of base classifiers, `poisonproof.ballots.verify` those of training samples that vote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from poisonproof.verification import claims, fields
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

Wanted = Mapping[str, Callable[[], str | Finding]]


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
    """What is checked whoever votes. ``failed`` names the checks that failed so far."""

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
        yield from fields.not_covered(self.table, fields.records_of(self.files), made)
        if "schema" in self.files.settings and not (
            made.keys() & {"split", "data"} and getattr(self.given.data, "schema", None) is not None
        ):
            yield fields.SCHEMA_READ
            yield fields.TEST_SAMPLES
        yield from fields.not_covered_of_files(self.files)

    def classes(self) -> str:
        """One list of different labels in every file; whether they were inferred agrees with the premises."""
        listed, inferred = self.files.facts["classes"], self.files.facts["classes_inferred"]
        if len({*labels_of(listed["values"]), None}) <= len(listed["values"]):
            raise CheckFailed("the class list names a label twice, or something that is no label.")
        if len(listed["values"]) > MOST_CLASSES:
            raise CheckFailed(f"{len(listed['values'])} classes are named; votes tell at most {MOST_CLASSES} apart.")
        if type(inferred) is not bool or len(listed["values"]) < (1 if inferred else 2):
            raise CheckFailed(f"there must be two classes or more, declared or inferred. Got {len(listed['values'])}.")
        for name, record in self.voter_records.items():
            if not same(record["classes"], listed):
                raise CheckFailed(f"{name} and certificate.npz name different classes.")
            if not same(record["classes_inferred"], inferred):
                raise CheckFailed(f"{name} and certificate.npz disagree on whether the classes were inferred.")
            if any(code == "classes" and declared is inferred for code, _, declared in claims.listed(record)):
                raise CheckFailed(
                    f"{name} says that the classes were {'inferred' if inferred else 'declared'}, "
                    "and its premises say the opposite."
                )
        if self.files.manifest and not same(self.files.settings["classes"], listed["values"]):
            raise CheckFailed("manifest.json and certificate.npz name different classes.")
        if inferred:
            return f"{len(listed['values'])}, read off the data, so one more rival is reckoned with."
        return f"{len(listed['values'])}, the same everywhere; that they were declared beforehand is the maker's word."

    @property
    def voter_records(self) -> dict[str, dict[str, Any]]:
        """The records that describe the same voters, by file."""
        return self.files.records

    def agreed_premises(self) -> dict[str, list[Any]]:
        """The premises by code, as [value, declared], which every file lists alike."""
        listed = self.files.facts["premises"]
        of_votes = [premise for premise in listed if premise["code"] != claims.REACHABLE]  # said on certifying them
        if self.files.manifest and len(of_votes) < len(listed):
            raise CheckFailed("a run reckons with all partitions, and a premise says that only some can be poisoned.")
        for name, record in self.voter_records.items():
            if not same(record["premises"], listed if record is self.files.facts else of_votes):
                raise CheckFailed(f"{name} and certificate.npz list different premises.")
        by_code: dict[str, list[Any]] = {}
        for code, value, declared in claims.listed(self.files.facts):
            if code in by_code:
                raise CheckFailed(f"the premise '{code}' is stated twice.")
            by_code[code] = [value, declared]
        if not self.files.manifest:
            raise CheckSkipped(f"{len(listed)} are stated; only a run says what they must be.")
        if not same(self.files.manifest["premises"], listed):
            raise CheckFailed("manifest.json and certificate.npz list different premises.")
        return by_code

    def premises_of_data(self, by_code: dict[str, list[Any]]) -> claims.Expected:
        """The premises about how the data were read: of a user's own files, and of the data at hand."""
        settings, data = self.files.settings, self.given.data
        wanted: claims.Expected = {}
        if "schema" in settings:
            declared = by_code.get("schema", [None, False])[1]
            wanted |= {"schema": (claims.ANY, declared), "test-samples": (claims.ANY, True)}
        if data is None:
            return wanted
        x = data.train.X
        texts = not hasattr(x, "shape") or len(x.shape) == 1
        width, by_schema = claims.features(settings["split"])
        if width is None:
            wanted["number-of-features"] = (1 if texts else int(np.prod(x.shape[1:])), False)
        if hasattr(x, "columns") and "schema" not in settings:
            wanted |= {"categorical-columns": (claims.ANY, by_schema), "schema": (claims.ANY, by_schema)}
        return wanted | {premise.code: (premise.value, premise.declared) for premise in getattr(data, "premises", ())}

    def check_statements(self, of_the_run: Callable[[dict[str, Any]], dict[str, tuple[Any, Any]]]) -> str:
        """What manifest and certificate state about unit, threat model and the run follows from the rest."""
        split, origin = self.agreed_split, self.files.origin
        stated: dict[str, tuple[Any, Any]] = {}
        if split is not None and (split["kind"] not in claims.KINDS or type(split["hash_labels"]) is not bool):
            raise CheckFailed(f"the split {split['kind']!r} is not known.")
        unit, threats = claims.unit(split), self.threats
        stated["unit"] = (self.files.facts["unit"], unit)
        if origin and (self.files.manifest or "threat_model" in origin):
            stated["origin of the certificate: threat_model"] = (origin.get("threat_model"), threats)
        if self.files.manifest is not None:
            manifest, settings = self.files.manifest, self.files.settings
            right = manifest["clean_accuracy"] * self.n_test
            stated |= {
                "split": (split, settings["split"]),
                "unit of the manifest": (manifest["unit"], unit),
                "threat_model": (manifest["threat_model"], threats),
                "method": (manifest["method"], self.files.facts["method"]),
                "n_test": (manifest["n_test"], self.n_test),
                "votes_only": (settings["votes_only"], MODEL not in manifest["files"]),
                "clean_accuracy": (
                    manifest["clean_accuracy"],
                    round(right) / self.n_test if 0 <= round(right) <= self.n_test else None,
                ),
            }
            known = {"environment": manifest["environment"]}
            known |= {name: settings[name] for name in ("dataset", "learner")}
            if origin:
                stated |= {f"origin of the certificate: {name}": (origin.get(name), known[name]) for name in known}
            stated |= of_the_run(manifest)
        for name, (given, right_one) in stated.items():
            check_equal(name, given, right_one)
        if self.files.manifest is None:
            more = "." if origin else "; the certificate does not say where it comes from."
            return f"unit {self.files.facts['unit']!r}{more}"
        return f"{len(stated)} statements follow from the rest."

    @property
    def threats(self) -> dict[str, Any]:
        """What each act of an attacker costs."""
        return claims.threat_model(self.agreed_split) if self.agreed_split is not None else {}

    @property
    def agreed_split(self) -> Any:
        """The split, which every file states alike."""
        split = self.files.facts["split"]
        for name, record in self.voter_records.items():
            if not same(record["split"], split):
                raise CheckFailed(f"{name} and certificate.npz state different splits.")
        return split

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
        if self.given.data is None:
            raise CheckSkipped(NO_DATA)
        manifest = self.files.manifest
        if manifest is None:
            raise CheckSkipped("only a run states one.")
        truth = self.places_of(self.given.data.test.labels)
        if len(truth) != self.n_test:
            raise CheckFailed(f"there are {len(truth)} test samples at hand, but the votes are about {self.n_test}.")
        right = self.files.certificate.arrays["prediction"] == truth
        stated, counted = manifest["clean_accuracy"], int(right.sum())
        if not same(stated, counted / len(right)):
            raise CheckFailed(f"clean_accuracy is stated as {stated}, but {counted} of {len(right)} are right.")
        by_class: dict[Any, list[bool]] = {}
        for label, is_right in zip(labels_of(self.given.data.test.labels), right.tolist(), strict=True):
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

"""Training and test samples with their labels, what reading left out, and how to hold samples out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.premises import Premise
from poisonproof.samples.cells import cell_codes
from poisonproof.samples.convert import to_samples
from poisonproof.samples.hashing import hash_numbers
from poisonproof.samples.kinds import NumberSamples, Samples, SparseSamples, concat
from poisonproof.samples.labels import class_array, label_cells, label_digests, one_by_one, typed_premises
from poisonproof.samples.schema import Schema, TableSchema
from poisonproof.system.files import sha256_of_array

HOLD_OUT_SEED = 0x686F6C64


LEFT_OUT = {
    "csv.faulty-quotes": "with faulty quotes (--lines takes such quotes as characters)",
    "csv.number-of-cells": "with another number of cells than the header",
    "csv.carriage-return": "with a carriage return in a cell without quotes",
    "line.nul": "with NUL bytes",
    "line.too-long": "too long",
    "row.no-label": "without a label",
    "row.no-contributor": "without a contributor",
    "sparse.not-svmlight": "that are not svmlight",
}
"""Why a row is left out, in words that follow "rows"."""
IGNORED = {
    "column.all-different": "all different",
    "column.empty": "empty",
    "column.no-name": "without a name",
    "column.unreadable": "lists or raw bytes",
}
"""Why a column is ignored."""
OTHER_REMARKS = {
    "cell.not-utf-8": "rows are not UTF-8 and were read as Latin-1, each by itself (mixed encodings)",
    "cell.not-a-number": "cells of '{column}' are not numbers and count as missing",
    "sparse.beyond": "entries lie beyond feature {column} and were dropped",
    "image.left-out": "images were left out",
    "labels.one": "training samples have one label, so nothing here tells classes apart",
    "labels.many": "training samples have {column} different labels; is this the right column?",
    "labels.test-not-a-class": "test samples have a label that is not one of the classes and were left out",
    "labels.test-unseen": "test samples have a label that the training samples do not have and count as wrong",
}
SPANS_LINES = "csv.spans-lines"  # of a record; no fault, but part of a premise
BY_LINES = (".csv", ".tsv", ".gz", ".svm", ".svmlight", ".libsvm")


class Finding(NamedTuple):
    """What was found while reading: in which file, of what sort, and of which column, if of one."""

    file: str
    code: str
    column: str | None = None


class Unread(NamedTuple):
    """A sample that cannot be read: how many others of its lot come before it, what it is called, and why."""

    before: int
    name: int | str
    reason: str


class ReadReport:
    """What reading left out, or read with a remark: how often, and what the first row of each sort is called.

    It is data: counts by file, code and column, which add up over the parts of a file.

    Attributes
    ----------
    found : dict
        For each `Finding` how often, and the name of the first row (None where no row is meant).
    unread : list
        Every row that was left out, with the reason, if that was asked for (``listed``).
    """

    def __init__(self, *, listed: bool = False) -> None:
        self.found: dict[Finding, tuple[int, int | str | None]] = {}
        self.listed = listed
        self.unread: list[tuple[int | str, str]] = []

    def add(self, file: str, code: str, first: int | str | None = None, count: int = 1, column: object = None) -> None:
        """Count rows, cells or columns, of which the first stands in the row of this name."""
        at = Finding(file, code, None if column is None else str(column))
        before, known = self.found.get(at, (0, None))
        self.found[at] = before + count, first if known is None else known
        if self.listed and code in LEFT_OUT and first is not None:
            self.unread.append((first, LEFT_OUT[code]))

    def join(self, other: ReadReport) -> None:
        """Count also what another report counts."""
        for at, (count, first) in other.found.items():
            self.add(at.file, at.code, first, count, at.column)

    def count(self, code: str) -> tuple[int, int | str | None]:
        """How often, and the first, in whatever file and column."""
        found = [entry for at, entry in self.found.items() if at.code == code]
        return sum(count for count, _ in found), next((first for _, first in found if first is not None), None)

    @property
    def ignored(self) -> dict[str, str]:
        """The columns that are ignored though nobody said so, and why."""
        return {at.column: IGNORED[at.code] for at in self.found if at.code in IGNORED and at.column is not None}

    def as_list(self) -> list[list[Any]]:
        """The findings as plain values, for a file."""
        return [[*at, *entry] for at, entry in self.found.items()]

    @classmethod
    def from_list(cls, records: Iterable[Sequence[Any]]) -> Self:
        """The report that `as_list` wrote."""
        report = cls()
        for file, code, column, count, first in records:
            report.found[Finding(file, code, column)] = count, first
        return report

    def sentences(self) -> tuple[str, ...]:
        """One sentence for each sort of finding, rows before cells before columns."""
        order = (*LEFT_OUT, *OTHER_REMARKS)
        told = sorted((at for at in self.found if at.code in order), key=lambda at: order.index(at.code))
        return (*(self._sentence(at) for at in told if self.found[at][0]), *self._unreadable())

    def _sentence(self, at: Finding) -> str:
        count, first = self.found[at]
        place = "line" if at.file.lower().endswith(BY_LINES) else "row"
        if at.code in LEFT_OUT:
            words = f"rows {LEFT_OUT[at.code]} were left out"
        else:
            words = OTHER_REMARKS[at.code].format(column=at.column)
        if at.code == "image.left-out":
            return f"{at.file}: {count} {words}; {first}"
        if at.code.startswith("labels."):
            return f"{'all ' if at.code == 'labels.one' else ''}{count} {words}"
        return f"{at.file}: {count} {words}" + ("" if first is None else f"; the first is {place} {first}")

    def _unreadable(self) -> Iterator[str]:
        columns: dict[str, list[str]] = {}
        for at in self.found:
            if at.code == "column.unreadable" and at.column is not None:
                columns.setdefault(at.file, []).append(at.column)
        for file, names in columns.items():
            yield f"{file}: columns of lists or raw bytes are ignored: {', '.join(names)}"


@dataclass(frozen=True, eq=False)
class LabelledSamples:
    """Samples in the order of their file, with what belongs to each of them.

    Attributes
    ----------
    samples : Samples
        In canonical form.
    labels : array or None
        As they were given; None of samples to be answered.
    groups : array or None
        The contributor of each.
    names : sequence of int or str
        What each is called in its file: a line, a row or a picture.
    """

    samples: Samples
    labels: Any = None
    groups: Any = None
    names: Sequence[int | str] = ()

    def __len__(self) -> int:
        return len(self.samples)

    @cached_property
    def X(self) -> Any:  # noqa: N802
        """The samples as a learner is fed them: an array, a sparse matrix, texts or a DataFrame."""
        return self.samples.take(np.arange(len(self)))

    def take(self, rows: NDArray[np.int64]) -> LabelledSamples:
        """These rows, in this order."""
        labels, groups = (None if part is None else part[rows] for part in (self.labels, self.groups))
        names = np.asarray(self.names, object)[rows].tolist() if len(self.names) else ()
        return LabelledSamples(self.samples.subset(rows), labels, groups, names)

    @classmethod
    def joined(cls, parts: Sequence[LabelledSamples]) -> LabelledSamples:
        """One part after the other; at least one, and all of one kind."""
        if len(parts) == 1:
            return parts[0]
        held = [(part.labels, part.groups) for part in parts]
        labels, groups = (None if held[0][at] is None else np.concatenate([one[at] for one in held]) for at in (0, 1))
        return cls(concat([part.samples for part in parts]), labels, groups, [n for part in parts for n in part.names])


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test samples with their labels, and what was decided about all of them at once.

    Attributes
    ----------
    name : str
    train, test : LabelledSamples
    classes : array or None
        The labels that may occur; None if they are to be read off the training data, which is a premise.
    schema : Schema or None
        How the files were read, if they were a user's own.
    premises : tuple of Premise
        What reading took as given; they stand in place of the model's own of the same name.
    report : ReadReport
        What was left out of the files, and why.
    """

    name: str
    train: LabelledSamples
    test: LabelledSamples
    classes: Any = None
    schema: Schema | None = None
    premises: tuple[Premise, ...] = ()
    report: ReadReport = field(default_factory=ReadReport)

    @classmethod
    def of(
        cls,
        name: str,
        X: Any,
        y: Any,
        X_test: Any,
        y_test: Any,
        classes: Any = None,
        *,
        groups: Any = None,
        dtype: str = "float64",
        n_features: int | None = None,
        schema: Schema | None = None,
    ) -> Self:
        """The data set of whatever scikit-learn takes; ``dtype``, ``n_features`` and a table's ``schema`` say how."""
        from poisonproof.samples.convert import read_by_schema

        def read(given: Any) -> Samples:
            if isinstance(schema, TableSchema) and not isinstance(given, Samples):
                return read_by_schema(given, schema)
            return to_samples(given, dtype=dtype, n_features=n_features)

        def listed(given: Any) -> Any:
            return given if given is None or isinstance(given, np.ndarray) else class_array(one_by_one(given))

        train, test = LabelledSamples(read(X), listed(y), listed(groups)), LabelledSamples(read(X_test), listed(y_test))
        tested = () if schema is None else (Premise("test-samples", "given by themselves", declared=True),)
        return cls(name, train, test, classes, schema, (*typed_premises(y, groups), *tested))

    def check_schema(self, schema: TableSchema | None) -> None:
        """Refuse a model whose schema did not read these samples, for it would be a premise about others."""
        if schema is not None and schema != self.schema:
            raise PoisonproofError(
                "The schema of the model's split is not the one by which the data set was read; give that to "
                "Dataset.of(..., schema=…).",
                code="dataset.another-schema",
            )

    @property
    def dtype(self) -> str:
        """The declared form of dense numbers."""
        samples = self.train.samples
        return str(samples.values.dtype) if isinstance(samples, NumberSamples) else "float64"

    @property
    def n_features(self) -> int | None:
        """The width of sparse rows, which no row can change; of other samples None, for each shows its own."""
        samples = self.train.samples
        return samples.n_features if isinstance(samples, SparseSamples) else None

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the results should know about the files, in words."""
        return self.report.sentences()

    def digests(self, parts: Sequence[str] = ("train", "test")) -> dict[str, str]:
        """SHA-256 over those of the samples' content, of the labels and of the contributors, in the order given."""
        given: dict[str, LabelledSamples] = {part: getattr(self, part) for part in parts}
        samples = {f"x_{part}": one.samples.content_digests for part, one in given.items()}
        labels = {f"y_{part}": label_digests(one.labels) for part, one in given.items()}
        groups = {} if self.train.groups is None else {"groups": label_digests(self.train.groups)}
        return {name: sha256_of_array(array) for name, array in (samples | labels | groups).items()}

    def without(self, rows: Any) -> Dataset:
        """The same data set with some training rows removed."""
        n = len(self.train)
        gone = np.unique(np.asarray(rows, np.int64))
        if len(gone) and (gone[0] < 0 or gone[-1] >= n):
            raise PoisonproofError(
                f"Rows to remove must be rows of the training data, 0 … {n - 1}. Got {rows!r}.", code="data.unknown-row"
            )
        return replace(self, train=self.train.take(np.setdiff1d(np.arange(n), gone)))


def held_out(X: Any, share: float, *, groups: Any = None, dtype: str = "float64") -> NDArray[np.bool_]:
    """Which samples are kept for testing: each by a salted hash of its own content, or of its contributor.

    An index-based choice would reshuffle everything when one sample is added; this one moves nothing.
    """
    if not 0 < share < 1:
        raise PoisonproofError(
            f"The share of samples to hold out must lie between 0 and 1. Got {share}.", code="data.held-out"
        )
    if groups is None:
        samples = X if isinstance(X, Samples) else to_samples(X, dtype=dtype)
        hashes = samples.hashes(HOLD_OUT_SEED)
    else:
        hashes = hash_numbers(cell_codes(label_cells(one_by_one(groups)))[:, None], HOLD_OUT_SEED)
    return hashes < np.uint64(int(share * 2**64))

"""Arrays from npz files, with every claim of a header checked before memory is taken for it; and svmlight rows.

A row of svmlight is ``label index:value index:value … # remark``, one line each.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from poisonproof.data.dataset import LabelledSamples, ReadReport
from poisonproof.data.files import MOST_BYTES, Opens, decoded, is_utf_8, lines
from poisonproof.data.options import ReadOptions
from poisonproof.data.tables import Batch
from poisonproof.display import in_bytes, nearest
from poisonproof.errors import PoisonproofError
from poisonproof.samples.cells import plain_number, text_of
from poisonproof.samples.columns import finite_numbers
from poisonproof.samples.convert import to_samples
from poisonproof.samples.kinds import NumberSamples, Samples
from poisonproof.samples.schema import ArraySchema, SparseSchema, closeness
from poisonproof.system.archives import npy_rows, open_zip
from poisonproof.system.archives import read_npz as read_some
from poisonproof.system.files import reading

LAYOUTS = (("x_train", "y_train", "x_test", "y_test"), ("X", "y", None, None))
MOST_FEATURES = 1_000_000
LONGEST_INDEX = 18  # digits: the most that an int64 surely holds
Entries = list[tuple[int, float]]
SparseRow = tuple[int, str, Entries]
"""The number of a line, its label, and its entries."""


def read_arrays(path: Path, names: Sequence[str], most_bytes: int | None = None) -> dict[str, NDArray[Any]]:
    """These arrays of an npz file; pickled objects, and headers that state more than there is, are refused."""
    with reading(path, f"is not a whole npz file with {', '.join(names)}"):
        with open_zip(path) as archive:
            for name in names:
                _refuse_too_large(name, archive.getinfo(f"{name}.npy").file_size, most_bytes or MOST_BYTES)
        arrays = read_some(path, names)
        return {name: arrays[name] for name in names}


def _refuse_too_large(name: str, size: int, most_bytes: int) -> None:
    if size > most_bytes:
        raise PoisonproofError(
            f"{name} takes {in_bytes(size)}; at most {in_bytes(most_bytes)} unless --max-size allows more"
        )


def names_in(path: Path) -> list[str]:
    """The names of the arrays of an npz file."""
    with reading(path, "is not a whole npz file"), open_zip(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


class NpzReader:
    """An npz file: samples, labels and perhaps contributors by the names of their arrays, perhaps test samples too.

    Numbers are float64, or uint8 where the file holds that; infinity counts as missing, in its own row only.
    """

    kind = "arrays"

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.path, self.options = path, options
        self.names = names_in(path)

    @property
    def layout(self) -> tuple[str, str, str | None, str | None]:
        """What the training samples, their labels, the test samples and theirs are called in this file."""
        for x, y, x_test, y_test in LAYOUTS:
            if x in self.names and y in self.names:
                whole = x_test in self.names and y_test in self.names
                return x, y, x_test if whole else None, y_test if whole else None
        raise PoisonproofError(
            f"{self.path} holds {', '.join(self.names) or 'nothing'}; it must hold x_train and y_train, or X and y.",
            code="arrays.layout",
        )

    def guess_schema(self, report: ReadReport) -> ArraySchema:
        """Shape and type as the file has them."""
        x = self.layout[0]
        samples = read_arrays(self.path, [x], self.options.most_bytes)[x]
        _check_rows(samples, self.path, x)
        dtype = "uint8" if samples.dtype == np.uint8 else "float64"
        return ArraySchema(samples.shape[1:], dtype, guessed="shape and type as the file has them")

    def batches(
        self, schema: ArraySchema, *, labelled: bool, report: ReadReport, rows: int | None = None
    ) -> Iterator[Batch]:
        """The samples; those without labels so many rows at a time, if that is asked for."""
        if labelled:
            group = self.options.group_column
            if group is not None and group not in self.names:
                raise PoisonproofError(
                    f"{self.path} has no array '{group}'; {nearest(group, self.names)}", code="schema.unknown-column"
                )
            yield Batch(self._labelled(schema, *self.layout[:2], group, report))
            return
        name, start = "X" if "X" in self.names else "x_test", 0
        if rows is None:
            blocks = iter([read_arrays(self.path, [name], self.options.most_bytes)[name]])
        else:
            blocks = self._blocks(name, rows)
        while True:
            with reading(self.path, f"is not a whole npz file with {name}"):
                block = next(blocks, None)
            if block is None:
                return
            samples = NumberSamples(by_schema(block, schema, self.path, name))
            yield Batch(LabelledSamples(samples, names=range(start, start + len(samples))))
            start += len(samples)

    def other(self, schema: ArraySchema, report: ReadReport) -> LabelledSamples:
        """The samples of a file of test samples."""
        x, y = ("X", "y") if "X" in self.names else ("x_test", "y_test")
        return self._labelled(schema, x, y, None, report)

    def test(self, schema: ArraySchema, report: ReadReport) -> LabelledSamples | None:
        """The test samples that the file has besides."""
        _, _, x, y = self.layout
        return None if x is None or y is None else self._labelled(schema, x, y, None, report)

    def _labelled(self, schema: ArraySchema, x: str, y: str, group: str | None, report: ReadReport) -> LabelledSamples:
        wanted = [name for name in (x, y, group) if name is not None]
        arrays = read_arrays(self.path, wanted, self.options.most_bytes)
        samples = by_schema(arrays[x], schema, self.path, x)
        columns = {"label": y, "contributor": group}
        held = {
            what: _column(arrays[name], name, self.path, len(samples))
            for what, name in columns.items()
            if name is not None
        }
        rows = np.arange(len(samples))
        for what, column in held.items():
            present = column[rows] != ""
            if not present.all():
                report.add(self.path.name, f"row.no-{what}", int(rows[~present][0]), int((~present).sum()))
            rows = rows[present]
        labels, groups = (held[what][rows] if what in held else None for what in columns)
        samples = samples if len(rows) == len(samples) else samples[rows]
        return LabelledSamples(NumberSamples(samples), labels, groups, rows.tolist())

    def _blocks(self, name: str, rows: int) -> Iterator[NDArray[Any]]:
        with open_zip(self.path) as archive:
            info = archive.getinfo(f"{name}.npy")
            with archive.open(info) as file:
                yield from npy_rows(file, info.file_size, name, rows)


def _check_rows(samples: NDArray[Any], path: Path, x: str) -> None:
    if samples.ndim < 2 or samples.dtype.kind not in "biuf" or 0 in samples.shape[1:]:
        raise PoisonproofError(
            f"{path} must hold rows of numbers in {x}. Got {samples.dtype} of shape {samples.shape}.",
            code="arrays.shape",
        )


def by_schema(samples: NDArray[Any], schema: ArraySchema, path: Path, x: str) -> NDArray[Any]:
    """Rows as the schema asks for them: float64 with infinity missing, or uint8."""
    _check_rows(samples, path, x)
    if samples.shape[1:] != schema.shape or (schema.dtype == "uint8") != (samples.dtype == np.uint8):
        got = ArraySchema(samples.shape[1:], str(samples.dtype))
        raise PoisonproofError(f"{path} holds {got} in {x}, but the schema asks for {schema}.", code="arrays.schema")
    if schema.dtype == "float64":
        with np.errstate(invalid="ignore", over="ignore"):  # a signalling NaN is a NaN like any other
            samples = samples.astype(np.float64)
        finite_numbers(samples)
    return samples


def _column(values: NDArray[Any], name: str, path: Path, n: int) -> NDArray[np.object_]:
    if values.size != n:
        raise PoisonproofError(
            f"{path} holds {n} samples but {values.size} entries in {name}; give one for each sample.",
            code="arrays.count",
        )
    flat = values.ravel()
    cells = np.empty(n, object)
    cells[:] = [text_of(value, name) for value in (flat if flat.dtype.kind in "mM" else flat.tolist())]
    return cells


class SvmlightReader:
    """Sparse rows; how a line is read is a function of that line and the declared number of features.

    An index is a column, as it stands: whether counting begins at 0 or 1 is not inferred. Entries beyond the declared
    number of features, and values that are not finite numbers, are dropped in their own row only; lines that are not
    svmlight are left out.
    """

    kind = "sparse"

    def __init__(self, path: Opens, options: ReadOptions) -> None:
        self.path, self.options = path, options

    def guess_schema(self, report: ReadReport) -> SparseSchema:
        """As many features as the largest index asks for, within reason, unless the user says how many."""
        if self.options.n_features is not None:
            return SparseSchema(self.options.n_features)
        return guess_sparse_schema(self.path, self.options.most_bytes)

    def batches(
        self, schema: SparseSchema, *, labelled: bool, report: ReadReport, rows: int | None = None
    ) -> Iterator[Batch]:
        """The samples, all at once or so many rows at a time; one batch at least, perhaps empty."""
        entries, given = svmlight_rows(self.path, self.options.most_bytes, report), False
        while (block := list(islice(entries, rows))) or not given:
            beyond = sum(index >= schema.n_features for _, _, row in block for index, _ in row)
            if beyond:
                report.add(self.path.name, "sparse.beyond", None, beyond, schema.n_features - 1)
            labels = np.empty(len(block), object)
            labels[:] = [label for _, label, _ in block]
            names = [number for number, _, _ in block]
            samples = sparse_samples([row for _, _, row in block], schema.n_features)
            yield Batch(LabelledSamples(samples, labels if labelled else None, None, names))
            given = True


def sparse_samples(rows: Iterable[Entries], n_features: int) -> Samples:
    """Rows of entries, less those beyond the declared number of features."""
    starts, columns, values = array("q", [0]), array("q"), array("d")
    for entries in rows:
        for index, value in entries:
            if index < n_features:
                columns.append(index)
                values.append(value)
        starts.append(len(columns))
    held = np.array(values), np.array(columns, np.int64), np.array(starts)
    return to_samples(sp.csr_matrix(held, shape=(len(starts) - 1, n_features)), n_features=n_features)


def guess_sparse_schema(path: Opens, most_bytes: int | None) -> SparseSchema:
    """As many features as the largest index asks for, within reason: entries at absurd ones are dropped."""
    largest, beyond = -1, False
    for _, _, entries in svmlight_rows(path, most_bytes, ReadReport()):
        largest = max([largest, *(index for index, _ in entries if index < MOST_FEATURES)])
        beyond = beyond or any(index >= MOST_FEATURES for index, _ in entries)
    if largest < 0 and beyond:
        raise PoisonproofError(
            f"Every entry of {path} is at an index of {MOST_FEATURES} or more; so many features must be declared: give "
            "--n-features, and entries beyond it are dropped.",
            code="arrays.too-many",
        )
    width = max(largest, 0) + 1
    return SparseSchema(width, guessed=closeness(f"{width} features, by the largest index", 1, "row"))


def svmlight_rows(path: Opens, most_bytes: int | None, report: ReadReport) -> Iterator[SparseRow]:
    """Line number, label and entries of every good line; the others are counted."""
    for number, line in lines(path, most_bytes, report):
        if not is_utf_8(line):
            report.add(path.name, "cell.not-utf-8", number)
        words = decoded(line).partition("#")[0].split()
        entries = None if words and ":" in words[0] else _entries(words[1:])
        if entries is None:
            report.add(path.name, "sparse.not-svmlight", number)
        elif words:
            yield number, words[0], entries


def _entries(words: list[str]) -> list[tuple[int, float]] | None:
    """Indices and finite values; None if a word is not an entry. Query ids are passed over."""
    entries = []
    for word in words:
        name, colon, text = word.partition(":")
        if name == "qid" and colon:
            continue
        if not (colon and name.isascii() and name.isdigit() and len(name) <= LONGEST_INDEX):
            return None
        if (value := plain_number(text)) is not None:
            entries.append((int(name), value))
    return entries

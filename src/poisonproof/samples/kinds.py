"""Samples in canonical form: what is hashed, what is sorted and what a base classifier is fed.

Soundness asks that nothing about one sample depends on another. So every sample has one canonical
form that is a function of its own values alone: the dtype that other rows forced on an array or a
column, explicit zeros, the order of sparse indices, the categories of a pandas column and the sign
of zero are not part of it. The same form is hashed (split), compared (canonical order) and fed.

Four kinds: numbers (dense arrays of any shape per sample), sparse rows, tables (DataFrames of
mixed types) and texts (a list of strings).

Entries of sparse rows, each as it was given, and the sum of those that stand in one place.

SciPy adds entries of one place in the matrix's own type and in the order that sorting leaves, and whether it sorts or
widens is decided by all rows. Here entries are float64 before anything is added, and are added by size.
"""

from __future__ import annotations

import hashlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.samples.batches import Shared, TableBatch, TextBatch
from poisonproof.samples.cells import LENGTH_BYTES, cell_key, utf8
from poisonproof.samples.columns import MISSING, Column, canonical_numbers
from poisonproof.samples.hashing import content_digests, hash_bytes, hash_numbers

MOST_PIXEL = 1 << 40
CELLS_AT_ONCE = 1 << 22
WORDS_AT_ONCE, ROWS_AT_ONCE = 1 << 17, 1 << 11  # of a table that is hashed: what the processor's cache holds


class Samples(ABC):
    """A sequence of samples in canonical form."""

    kind: str
    n_features: int

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def hashes(self, seed: int = 0) -> NDArray[np.uint64]:
        """A stable 64-bit hash of each sample's canonical content."""

    @cached_property
    def content_hashes(self) -> NDArray[np.uint64]:
        """The hashes that split and order use, computed once."""
        return self.hashes()

    @cached_property
    def content_digests(self) -> NDArray[np.void]:
        """SHA-256 of each sample's whole canonical content, which nobody can give to two samples."""
        return content_digests(self.each_key(np.arange(len(self))))

    @abstractmethod
    def key(self, row: int) -> bytes:
        """The whole canonical content of one sample: equal exactly for equal samples."""

    @abstractmethod
    def take(self, rows: ArrayLike, form: Any = None) -> Any:
        """These samples as a base classifier is fed them, in this order; a fresh, canonical copy.

        ``form`` is what `form_of` said about the samples that the base classifier was trained on.
        """

    def subset(self, rows: ArrayLike) -> Samples:
        """These samples only, still in canonical form; hashes that are known stay known."""
        rows = np.asarray(rows)
        rows = rows if rows.size else rows.astype(np.int64)
        some = self._at(rows)
        if "content_hashes" in vars(self):
            vars(some)["content_hashes"] = self.content_hashes[rows]
        return some

    def _at(self, rows: NDArray[Any]) -> Samples:
        raise NotImplementedError

    @property
    @abstractmethod
    def n_bytes(self) -> int:
        """How much memory the samples take."""

    @property
    def shared_texts(self) -> Shared:
        """What was read of their texts once for all base classifiers (`poisonproof.training.engine`)."""
        return vars(self).get("shared", {})

    def __sizeof__(self) -> int:
        shared = sum(encoded.n_bytes for encoded in self.shared_texts.values())
        return object.__sizeof__(self) + self.n_bytes + shared  # what Dask goes by when it moves data

    def keys(self, rows: ArrayLike) -> bytes:
        """The whole canonical content of these samples in this order, so that no two sequences agree."""
        return b"".join(len(key).to_bytes(LENGTH_BYTES, "little") + key for key in self.each_key(rows))

    def each_key(self, rows: ArrayLike) -> Iterable[bytes]:
        """The key of each of these samples."""
        return (self.key(int(row)) for row in np.asarray(rows))

    def keys_of_parts(self, rows: NDArray[np.int64], starts: NDArray[np.int64]) -> Iterator[bytes]:
        """What `keys` gives for each part of these rows; part j is from ``starts[j]`` to the next."""
        return (self.keys(rows[start:stop]) for start, stop in pairwise(starts.tolist()))

    @property
    @abstractmethod
    def layout(self) -> str:
        """What all samples have in common and a base classifier is fed besides their content."""

    def form_of(self, rows: ArrayLike) -> Any:
        """What a base classifier trained on these samples must know about their form; often nothing."""
        return None

    def complete(self) -> NDArray[np.bool_]:
        """Which samples hold no missing number, each by itself. Tables and texts have other ways to be missing."""
        return np.ones(len(self), np.bool_)

    @property
    def oddities(self) -> tuple[str, ...]:
        """What was read as missing though it was something else, in words."""
        return ()

    def sums(self) -> NDArray[np.int64]:
        """The sum of each sample's values, as whole numbers (for the pixel-sum split).

        A sample that holds fractions is summed rounded down, value by value; that all of them do is refused.
        """
        raise PoisonproofError(
            f"The 'pixel-sum' split adds pixel values, but the samples are {self.kind}; use 'content'.",
            code="split.pixel-sum",
        )


class TrainingSet(NamedTuple):
    """What something is trained on: these rows, in their order, of these samples with the codes of their labels."""

    samples: Samples
    codes: NDArray[np.int64]
    rows: NDArray[np.int64]


@dataclass(frozen=True)
class NumberSamples(Samples):
    """Dense numbers: float64, or uint8 where declared; any shape per sample."""

    values: NDArray[Any]
    n_infinite: int = 0
    n_unreadable: int = 0
    kind = "numbers"

    def __len__(self) -> int:
        return len(self.values)

    @property
    def n_features(self) -> int:  # type: ignore[override]
        return int(np.prod(self.values.shape[1:]))

    def hashes(self, seed: int = 0) -> NDArray[np.uint64]:
        if self.values.dtype == np.float64:
            return hash_numbers(self.values, seed)
        flat = self.values.reshape(-1).data
        width = self.n_features
        return hash_bytes((flat[i * width : (i + 1) * width] for i in range(len(self))), len(self), seed)

    @property
    def n_bytes(self) -> int:
        return int(self.values.nbytes)

    def key(self, row: int) -> bytes:
        return canonical_numbers(self.values[row : row + 1].copy()).tobytes()

    def keys(self, rows: ArrayLike) -> bytes:
        return bytes(self.take(rows).tobytes())

    @property
    def layout(self) -> str:
        return f"{self.kind} {self.values.dtype} {self.values.shape[1:]}"

    def take(self, rows: ArrayLike, form: Any = None) -> Any:
        return canonical_numbers(self.values[np.asarray(rows)])

    def complete(self) -> NDArray[np.bool_]:
        return _all_finite(self.values)

    @property
    def oddities(self) -> tuple[str, ...]:
        words = f"{self.n_unreadable} cells are no numbers and count as missing"
        return (*_infinities(self.n_infinite), *((words,) if self.n_unreadable else ()))

    def _at(self, rows: NDArray[Any]) -> Samples:
        return NumberSamples(self.values[rows])

    def sums(self) -> NDArray[np.int64]:
        flat = self.values.reshape(len(self), -1)
        if self.values.dtype == np.uint8:
            return flat.sum(axis=1, dtype=np.int64)
        _check_whole((flat == np.floor(flat)).all(axis=1))
        return _pixels(flat).sum(axis=1)


@dataclass(frozen=True)
class SparseSamples(Samples):
    """Rows of a CSR matrix: sorted indices, no duplicates, no explicit zeros."""

    matrix: Any
    n_infinite: int = 0
    kind = "sparse rows"

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def n_features(self) -> int:  # type: ignore[override]
        return int(self.matrix.shape[1])

    def hashes(self, seed: int = 0) -> NDArray[np.uint64]:
        return hash_bytes((self.key(row) for row in range(len(self))), len(self), seed)

    @property
    def n_bytes(self) -> int:
        matrix = self.matrix
        return int(matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes)

    def key(self, row: int) -> bytes:
        part = slice(self.matrix.indptr[row], self.matrix.indptr[row + 1])
        return bytes(self.matrix.indices[part].astype("<i8").tobytes() + self.matrix.data[part].astype("<f8").tobytes())

    @property
    def layout(self) -> str:
        return f"{self.kind} {self.n_features}"

    def take(self, rows: ArrayLike, form: Any = None) -> Any:
        return narrow(self.matrix[np.asarray(rows)])

    def complete(self) -> NDArray[np.bool_]:
        complete = np.ones(len(self), np.bool_)
        rows = np.repeat(np.arange(len(self)), np.diff(self.matrix.indptr))
        complete[rows[np.isnan(self.matrix.data)]] = False
        return complete

    @property
    def oddities(self) -> tuple[str, ...]:
        return _infinities(self.n_infinite)

    def _at(self, rows: NDArray[Any]) -> Samples:
        return SparseSamples(self.matrix[rows])

    def sums(self) -> NDArray[np.int64]:
        rows = np.repeat(np.arange(len(self)), np.diff(self.matrix.indptr))
        whole, sums = np.ones(len(self), np.bool_), np.zeros(len(self), np.int64)
        whole[rows[self.matrix.data != np.floor(self.matrix.data)]] = False
        _check_whole(whole)
        np.add.at(sums, rows, _pixels(self.matrix.data))
        return sums


@dataclass(frozen=True)
class TextSamples(Samples):
    """One string per sample."""

    texts: NDArray[np.object_]
    n_odd: int = 0
    kind = "texts"
    n_features = 1

    def __len__(self) -> int:
        return len(self.texts)

    def hashes(self, seed: int = 0) -> NDArray[np.uint64]:
        return hash_bytes((self.key(row) for row in range(len(self))), len(self), seed)

    @property
    def n_bytes(self) -> int:
        return int(self.texts.nbytes) + sum(map(sys.getsizeof, self.texts))

    def key(self, row: int) -> bytes:
        return utf8(self.texts[row])

    @property
    def layout(self) -> str:
        return self.kind

    def take(self, rows: ArrayLike, form: Any = None) -> Any:
        return self.texts[np.asarray(rows)]

    def batch(self, rows: ArrayLike) -> TextBatch:
        """The same for learners that take texts so."""
        rows = np.asarray(rows)
        if self.shared_texts:
            return TextBatch(self.texts, rows, self.shared_texts)
        return TextBatch(self.texts[rows], np.arange(len(rows)), {})

    @property
    def oddities(self) -> tuple[str, ...]:
        return (f"{self.n_odd} samples are no texts and count as empty ones",) if self.n_odd else ()

    def _at(self, rows: NDArray[Any]) -> Samples:
        return TextSamples(self.texts[rows])


@dataclass(frozen=True)
class TableSamples(Samples):
    """Rows of a DataFrame. A cell is a number, a text or missing, whatever its column's dtype.

    A base classifier is fed a DataFrame whose column dtypes follow from its own subset: float64
    where every cell of the subset is a number or missing, categorical (with the subset's own
    categories) where the column was declared so, object otherwise.
    """

    columns: tuple[Column, ...]
    rows: int
    kind = "tables"

    @classmethod
    def of(cls, columns: Iterable[Column]) -> Self:
        """Samples of these columns, of which there is one at least."""
        columns = tuple(columns)
        return cls(columns, len(columns[0]))

    def __len__(self) -> int:
        return self.rows

    @property
    def n_features(self) -> int:  # type: ignore[override]
        return len(self.columns)

    def hashes(self, seed: int = 0) -> NDArray[np.uint64]:
        hashes = np.empty(len(self), np.uint64)
        for rows in _in_blocks(len(self), self.n_features, WORDS_AT_ONCE, ROWS_AT_ONCE):
            words = np.empty((rows.stop - rows.start, self.n_features))
            for at, column in enumerate(self.columns):
                words[:, at] = column.words(rows)
            hashes[rows] = hash_numbers(words, seed)
        return hashes

    @property
    def n_bytes(self) -> int:
        return sum(column.n_bytes for column in self.columns)

    def key(self, row: int) -> bytes:
        return b"".join(cell_key(column.cell(row)) for column in self.columns)

    def each_key(self, rows: ArrayLike) -> Iterator[bytes]:
        for keys, begins in self._keys_in_blocks(np.asarray(rows)):
            yield from (keys[start + LENGTH_BYTES : stop].tobytes() for start, stop in pairwise(begins.tolist()))

    def keys(self, rows: ArrayLike) -> bytes:
        return b"".join(keys.tobytes() for keys, _ in self._keys_in_blocks(np.asarray(rows)))

    def _keys_in_blocks(self, rows: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
        return (_keys_of(self.columns, rows[block]) for block in _in_blocks(len(rows), self.n_features))

    def keys_of_parts(self, rows: NDArray[np.int64], starts: NDArray[np.int64]) -> Iterator[bytes]:
        first, size = 0, CELLS_AT_ONCE // max(1, self.n_features)
        while first + 1 < len(starts):  # as many whole parts at once as a block holds, but at least one
            last = max(first + 1, int(np.searchsorted(starts, starts[first] + size, side="right")) - 1)
            keys, begins = _keys_of(self.columns, rows[starts[first] : starts[last]])
            edges = begins[starts[first : last + 1] - starts[first]]
            yield from (keys[start:stop].tobytes() for start, stop in pairwise(edges.tolist()))
            first = last

    @property
    def layout(self) -> str:
        return f"{self.kind} {[(str(column.name), column.categorical) for column in self.columns]}"

    def _at(self, rows: NDArray[Any]) -> Samples:
        return TableSamples(tuple(column.take(rows) for column in self.columns), len(rows))

    @property
    def oddities(self) -> tuple[str, ...]:
        return tuple(
            f"{column.n_unreadable} cells of column '{column.name}' cannot be read and count as missing"
            for column in self.columns
            if column.n_unreadable
        )

    def form_of(self, rows: ArrayLike) -> tuple[Any, ...]:
        rows = np.asarray(rows)
        return tuple(column.form_of(rows) for column in self.columns)

    def by_column(self, rows: ArrayLike, form: Any) -> TableBatch:
        """What `take` gives, as columns, for learners that take them."""
        return TableBatch(self.columns, np.asarray(rows), form, self.shared_texts)

    def take(self, rows: ArrayLike, form: Any = None) -> Any:
        import pandas as pd

        rows = np.asarray(rows)
        form = self.form_of(rows) if form is None else form
        fed = {at: column.fed(rows, how) for at, (column, how) in enumerate(zip(self.columns, form, strict=True))}
        frame = pd.DataFrame(fed, index=pd.RangeIndex(len(rows)))
        frame.columns = pd.Index([column.name for column in self.columns])
        return frame


def _keys_of(columns: Sequence[Column], rows: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """For each row the length of its key in eight bytes and the key, one after the other; and where each begins."""
    from poisonproof.samples.kernels import write_keys  # compiled code, which nobody loads who writes no keys

    coded = np.array([column.codes is not None for column in columns], np.bool_)
    numbers = np.empty((len(rows), int((~coded).sum())))
    codes = np.empty((len(rows), int(coded.sum())), np.int64)
    pieces, starts, first, n_bytes = [], [], 0, 0
    place = {True: 0, False: 0}
    for column, by_code in zip(columns, coded.tolist(), strict=True):
        if by_code:
            blob, begins = column.cells.keys
            assert column.codes is not None
            codes[:, place[True]] = np.where(column.codes[rows] < 0, len(column.cells), column.codes[rows]) + first
            pieces.append(blob)
            starts.append(begins + n_bytes)
            first, n_bytes = first + len(begins), n_bytes + len(blob)
        else:
            numbers[:, place[False]] = column.words(rows)
        place[by_code] += 1
    blob = np.concatenate(pieces) if pieces else np.zeros(0, np.uint8)
    begins = np.concatenate(starts) if starts else np.zeros(1, np.int64)
    lengths = np.where(np.isnan(numbers), 1, 9).sum(axis=1) + (begins[codes + 1] - begins[codes]).sum(axis=1)
    ends = np.cumsum(lengths + LENGTH_BYTES)
    written = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    begin_of = np.concatenate(([0], ends)).astype(np.int64)
    bits = numbers.view(np.uint64)
    write_keys(coded, numbers, bits, codes, blob, begins, lengths.astype(np.int64), begin_of, written)
    return written, begin_of


def concat(parts: Sequence[Samples]) -> Samples:
    """The samples of several parts of one form, one part after the other; hashes that all parts know stay known."""
    first = parts[0]
    if len(parts) == 1:
        return first
    whole: Samples
    if isinstance(first, NumberSamples):
        whole = NumberSamples(np.concatenate([part.values for part in parts]))  # type: ignore[attr-defined]
    elif isinstance(first, TextSamples):
        whole = TextSamples(np.concatenate([part.texts for part in parts]))  # type: ignore[attr-defined]
    elif isinstance(first, SparseSamples):
        from scipy.sparse import vstack

        matrices = [part.matrix.copy() for part in parts]  # type: ignore[attr-defined]
        for matrix in matrices:  # the split may declare fewer, and then the rest of a row does not count
            matrix.resize(matrix.shape[0], max(part.n_features for part in parts))
        whole = SparseSamples(narrow(vstack(matrices, format="csr")))
    else:
        tables = [part for part in parts if isinstance(part, TableSamples)]
        columns = (_joined_columns([part.columns[at] for part in tables]) for at in range(first.n_features))
        whole = TableSamples(tuple(columns), sum(map(len, tables)))
    if all("content_hashes" in vars(part) for part in parts):
        vars(whole)["content_hashes"] = np.concatenate([part.content_hashes for part in parts])
    return whole


def _joined_columns(parts: Sequence[Column]) -> Column:
    first = parts[0]
    if all(part.codes is None for part in parts):
        return Column.of_numbers(first.name, np.concatenate([part.values for part in parts]), numeric=first.numeric)
    parts, n_unreadable = [part.coded for part in parts], sum(part.n_unreadable for part in parts)
    first = parts[0]
    codes = [part.codes for part in parts if part.codes is not None]
    cells = [part.cells.values.tolist() for part in parts]
    if all(one == cells[0] for one in cells):
        return replace(first, codes=np.concatenate(codes), n_unreadable=n_unreadable)
    known: dict[Any, int] = {}
    for at, one in enumerate(cells):
        places = [*(known.setdefault(cell, len(known)) for cell in one), MISSING]
        codes[at] = np.array(places, np.int32)[codes[at]]
    return Column.of_codes(
        first.name, np.concatenate(codes), list(known), categorical=first.categorical, n_unreadable=n_unreadable
    )


def canonical_rank(samples: Samples, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of each sample in an order that depends on content alone: hash, content, label.

    Any two samples compare by their own content, so the order inside a subset is a function of the
    subset. Samples of equal content and label are interchangeable. Hash order also keeps learners
    that read their rows in turn from meeting them sorted by a feature.
    """
    hashes = samples.content_hashes
    order = np.argsort(hashes, kind="stable")
    same = hashes[order[1:]] == hashes[order[:-1]]
    edges = np.flatnonzero(np.diff(np.concatenate(([False], same, [False])).astype(np.int8)))
    for start, stop in edges.reshape(-1, 2):
        run = order[start : stop + 1]
        keys = list(samples.each_key(run))
        places = {key: place for place, key in enumerate(sorted(set(keys)))}
        order[start : stop + 1] = run[np.lexsort((labels[run], np.array([places[key] for key in keys])))]
    rank = np.empty(len(samples), np.int64)
    rank[order] = np.arange(len(samples))
    return rank


def partition_digest(codes: NDArray[np.int64], keys: bytes) -> bytes:
    """SHA-256 of all that base classifiers are fed of a partition: label codes and keys, in canonical order."""
    return hashlib.sha256(np.concatenate(([len(codes)], codes)).astype("<i8").tobytes() + keys).digest()


def _pixels(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Whole numbers that can be added without overflow: rounded down, missing ones 0."""
    return np.clip(np.nan_to_num(np.floor(values)), -MOST_PIXEL, MOST_PIXEL).astype(np.int64)


def _check_whole(whole: NDArray[np.bool_]) -> None:
    if not whole.any():
        raise PoisonproofError(
            "The 'pixel-sum' split needs whole numbers, but X holds fractions; use 'content'.", code="split.pixel-sum"
        )


def _infinities(count: int) -> tuple[str, ...]:
    return (f"{count} numbers are infinite and count as missing",) if count else ()


def _all_finite(values: NDArray[Any]) -> NDArray[np.bool_]:
    if values.dtype.kind != "f":
        return np.ones(len(values), np.bool_)
    return ~np.isnan(values).any(axis=tuple(range(1, values.ndim)))


def _in_blocks(n_rows: int, n_features: int, cells: int | None = None, rows: int = 1) -> Iterator[slice]:
    """Rows, no more of them at once than so many cells (or `CELLS_AT_ONCE`) allow, but at least so many."""
    size = max(rows, (cells or CELLS_AT_ONCE) // max(n_features, 1))
    return (slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size))


def entries_by_row(X: Any) -> Any:
    """A new CSR matrix of float64 with every entry that X has, in its order, even if several stand in one place.

    An entry that is complex is missing; one that is so by type alone, because another row is complex, is not.
    """
    from scipy.sparse import csr_matrix

    if X.ndim != 2:
        raise PoisonproofError(
            f"Sparse samples are the rows of a matrix. Got an array of {X.ndim} dimension(s) instead.",
            code="samples.kind",
        )
    given = X if X.format == "csr" else X.tocoo()
    values = given.data
    with np.errstate(invalid="ignore", over="ignore"):
        if values.dtype.kind == "c":
            values = np.where(values.imag == 0, values.real, np.nan)
        values = values.astype(np.float64)
    if given.format == "csr":
        return csr_matrix((values, given.indices.copy(), given.indptr.copy()), given.shape)
    order = np.argsort(given.row, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(given.row, minlength=given.shape[0]))])
    return csr_matrix((values[order], given.col[order], starts), given.shape)


def summed(matrix: Any) -> Any:
    """The matrix with sorted indices and one entry in each place: a sum that is a function of that place's entries."""
    from scipy.sparse import csr_matrix

    matrix.sort_indices()
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    if not ((np.diff(rows) == 0) & (np.diff(matrix.indices) == 0)).any():
        return matrix
    order = np.lexsort((matrix.data, matrix.indices, rows))
    rows, columns, values = rows[order], matrix.indices[order], matrix.data[order]
    first = np.concatenate([[True], (np.diff(rows) != 0) | (np.diff(columns) != 0)])
    with np.errstate(invalid="ignore", over="ignore"):
        sums = np.bincount(np.cumsum(first) - 1, weights=values)  # added one after the other, in this order
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows[first], minlength=matrix.shape[0]))])
    return csr_matrix((sums, columns[first], starts), matrix.shape)


def is_sparse(X: Any) -> bool:
    """Whether X is a sparse matrix, without importing SciPy: who has one has imported it."""
    scipy = sys.modules.get("scipy.sparse")
    return scipy is not None and bool(scipy.issparse(X))


def narrow(matrix: Any) -> Any:
    """Indices in the type that this matrix alone asks for: int32 wherever that holds them.

    SciPy widens them to int64 for all rows when one part of a stack has them so, and some learners refuse that.
    """
    largest = max(matrix.nnz, *matrix.shape)
    kind = np.int32 if largest <= np.iinfo(np.int32).max else np.int64
    matrix.indices, matrix.indptr = matrix.indices.astype(kind, copy=False), matrix.indptr.astype(kind, copy=False)
    return matrix

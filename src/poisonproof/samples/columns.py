"""Columns of a table, encoded once for all who read them: numbers, or codes of the different cells.

What is hashed, compared and fed is a cell's own content. Codes are only how it is kept: which code a cell has depends
on the others, so no code ever leaves a column. A base classifier's categories are still those of its own subset.

Arrays less a few rows: what stays is copied in long stretches, not row by row.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import lt
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from poisonproof.samples.cells import cell_codes, cell_key, order_of_cell

Reader = Callable[[Any], tuple[float | str | None, bool]]
"""A value as a canonical cell, and whether it is missing because it could not be read."""

# Only these are read once for all equal ones: of other types, equal values need not be the same cell (moments of an
# hour that is repeated in autumn).
_READ_ONCE = (str, int, float, bool)
MISSING = -1
NUMBER, OBJECT = "number", "object"


def canonical_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """−0.0 as 0.0 and one NaN, in place."""
    if values.dtype == np.float64:
        with np.errstate(invalid="ignore"):
            values += 0.0
        values[np.isnan(values)] = np.nan
    return values


def finite_numbers(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same, with infinity as missing, in place."""
    values[np.isinf(values)] = np.nan
    return canonical_numbers(values)


@dataclass(frozen=True, eq=False)
class Cells:
    """The different cells of a column, numbers before texts, each in increasing order."""

    values: NDArray[np.object_]

    @classmethod
    def of(cls, cells: Sequence[float | str]) -> tuple[Self, NDArray[np.int32]]:
        """Different cells in their order, and the place of each; `MISSING` as a code stays `MISSING`."""
        values = np.empty(len(cells), object)
        if set(map(type, cells)) == {str} and all(map(lt, cells, cells[1:])):  # as files keep them
            values[:] = cells
            return cls(values), np.append(np.arange(len(cells), dtype=np.int32), np.int32(MISSING))
        order = sorted(range(len(cells)), key=lambda at: order_of_cell(cells[at]))
        values[:] = [cells[at] for at in order]
        places = np.full(len(cells) + 1, MISSING, np.int32)
        places[order] = np.arange(len(cells), dtype=np.int32)
        return cls(values), places

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def first_text(self) -> int:
        """How many of them are numbers."""
        return sum(isinstance(cell, float) for cell in self.values)

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """The number that each cell is, NaN for texts, and at the end for a missing one."""
        numbers = np.full(len(self) + 1, np.nan)
        numbers[: self.first_text] = self.values[: self.first_text]
        return numbers

    @cached_property
    def objects(self) -> NDArray[np.object_]:
        """The cells, and at the end None for a missing one."""
        objects = np.empty(len(self) + 1, object)
        objects[:-1] = self.values
        return objects

    @cached_property
    def words(self) -> NDArray[np.float64]:
        """64 bits for each cell (see `cell_codes`), and at the end for a missing one."""
        return np.append(cell_codes(self.values), np.nan)

    @cached_property
    def keys(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The whole content of all cells in a row, and where each begins; at the end that of a missing one."""
        keys = [cell_key(cell) for cell in (*self.values, None)]
        starts = np.concatenate(([0], np.cumsum([len(key) for key in keys])))
        return np.frombuffer(b"".join(keys), np.uint8), starts

    def places_in(self, others: Sequence[Any]) -> NDArray[np.int32]:
        """The place of each cell among others, `MISSING` if it is none of them, and at the end for a missing one."""
        places = {cell: place for place, cell in enumerate(others)}
        return np.array([*(places.get(cell, MISSING) for cell in self.values), MISSING], np.int32)


NO_CELLS = Cells(np.empty(0, object))


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table. A cell is a number, a text or missing.

    Attributes
    ----------
    name : object
    numbers : array of float64, or None
        NaN where missing. None where the column is kept by codes.
    codes : array of int32, or None
        Places in ``cells``, -1 where missing.
    cells : Cells
        Whatever the column may hold; a part of a column keeps the cells of the whole.
    categorical : bool
        Whether it was declared so.
    numeric : bool
        Whether it was declared to hold numbers; a column of dates holds numbers too.
    n_unreadable : int
        How many cells count as missing though they were something.
    """

    name: Any
    numbers: NDArray[np.float64] | None
    codes: NDArray[np.int32] | None = None
    cells: Cells = NO_CELLS
    categorical: bool = False
    numeric: bool = False
    n_unreadable: int = 0

    @classmethod
    def of_numbers(
        cls, name: Any, numbers: NDArray[np.float64], *, numeric: bool = True, n_unreadable: int = 0
    ) -> Self:
        """Of canonical numbers."""
        return cls(name, numbers, numeric=numeric, n_unreadable=n_unreadable)

    @classmethod
    def of_codes(
        cls, name: Any, codes: NDArray[Any], cells: Sequence[float | str], *, categorical: bool, n_unreadable: int = 0
    ) -> Self:
        """Of places in different canonical cells, in any order; -1 where missing."""
        ordered, places = Cells.of(cells)
        return cls(name, None, places[codes], ordered, categorical, n_unreadable=n_unreadable)

    @classmethod
    def read(cls, name: Any, values: Iterable[Any], read: Reader, *, categorical: bool) -> Self:
        """Of values that are read one by one; equal texts and numbers of one type once."""
        cells: dict[float | str, int] = {}
        known: dict[Any, tuple[int, bool]] = {}
        codes, n_unreadable = [], 0
        for value in values:
            kind = value.__class__
            mark = value if kind is str else (kind, value) if kind in _READ_ONCE else None
            code = known.get(mark) if mark is not None else None
            if code is None:
                cell, odd = read(value)
                code = (MISSING if cell is None else cells.setdefault(cell, len(cells)), odd)
                if mark is not None:
                    known[mark] = code
            codes.append(code[0])
            n_unreadable += code[1]
        taken = np.array(codes, np.int32)
        return cls.of_codes(name, taken, list(cells), categorical=categorical, n_unreadable=n_unreadable)

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def _kept(self) -> NDArray[Any]:
        kept = self.numbers if self.codes is None else self.codes
        assert kept is not None
        return kept

    @property
    def values(self) -> NDArray[Any]:
        """Its numbers, or its cells as objects, None where missing; made anew each time."""
        return self._kept if self.codes is None else self.cells.objects[self.codes]

    @property
    def n_bytes(self) -> int:
        """How much memory it takes, with the texts of its cells."""
        return int(self._kept.nbytes + self.cells.values.nbytes) + sum(map(sys.getsizeof, self.cells.values))

    def cell(self, row: int) -> Any:
        """One cell: a number (NaN if missing), a text, or None."""
        return self._kept[row] if self.codes is None else self.cells.objects[self.codes[row]]

    def take(self, rows: NDArray[Any]) -> Column:
        """These rows, in this order."""
        if self.codes is None:
            return replace(self, numbers=self._kept[rows])
        return replace(self, codes=self.codes[rows])

    def words(self, rows: Any = slice(None)) -> NDArray[np.float64]:
        """64 bits for each cell, from its value alone; what is hashed."""
        return self._kept[rows] if self.codes is None else self.cells.words[self.codes[rows]]

    def texts_like_numbers(self) -> bool:
        """Whether most texts of the column write numbers: a sign that one cell turned them all to text."""
        if self.codes is None or self.categorical:
            return False
        first = self.cells.first_text
        numbers = [code for code, text in enumerate(self.cells.values[first:], first) if _writes_number(text)]
        if not numbers:
            return False
        texts = self.codes[self.codes >= first]
        return 2 * int(np.bincount(texts, minlength=len(self.cells))[numbers].sum()) > len(texts)

    def form_of(self, rows: NDArray[Any]) -> Any:
        """How these cells are fed: as numbers, as objects, or by which categories, which are those they have."""
        if self.codes is None:
            return NUMBER
        codes = self.codes[rows]
        if not self.categorical:
            return OBJECT if (codes >= self.cells.first_text).any() else NUMBER
        present = np.bincount(codes[codes >= 0], minlength=len(self.cells)) if len(self.cells) <= len(codes) else None
        held = np.unique(codes[codes >= 0]) if present is None else np.flatnonzero(present)
        return tuple(self.cells.values[held])

    def as_numbers(self, rows: Any = slice(None)) -> NDArray[np.float64]:
        """The cells that are numbers; NaN for others."""
        return self._kept[rows] if self.codes is None else self.cells.numbers[self.codes[rows]]

    @cached_property
    def coded(self) -> Column:
        """The same by codes."""
        if self.codes is not None:
            return self
        cells, codes = np.unique(self._kept, return_inverse=True)  # NaN is one of them at most, and stands last
        n_cells = len(cells) - bool(len(cells) and np.isnan(cells[-1]))
        places = np.where(codes < n_cells, codes, MISSING).astype(np.int32)
        return replace(self, numbers=None, codes=places, cells=Cells(cells[:n_cells].astype(object)))

    def places_in(self, categories: Sequence[Any], rows: Any = slice(None)) -> NDArray[np.int32]:
        """The place of each cell among categories; -1 if it is none of them."""
        coded = self.coded
        assert coded.codes is not None
        return coded.cells.places_in(categories)[coded.codes[rows]]

    def fed(self, rows: NDArray[Any], form: Any) -> Any:
        """These rows as a column of pandas, in a form."""
        import pandas as pd

        if form == NUMBER:
            return self.as_numbers(rows)
        if form == OBJECT:
            cells = self.coded.cells.objects.copy()
            cells[-1] = np.nan
            return pd.Series(cells[self.coded._kept[rows]], dtype=object)
        return pd.Categorical.from_codes(self.places_in(form, rows), categories=pd.Index(list(form)))


def _writes_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

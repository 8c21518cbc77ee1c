"""Columns of a table, encoded once for all who read them: numbers, or codes of the different cells.

What is hashed, compared and fed is a cell's own content. Codes are only how it is kept: which code a cell has depends
on the others, so no code ever leaves a column. A base classifier's categories are still those of its own subset.

Arrays less a few rows: what stays is copied in long stretches, not row by row.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import lt
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from poisonproof.samples.cells import cell_codes, cell_key, drop_missing, number_cell, order_of_cell, text_cell

Reader = Callable[[Any], tuple[float | str | None, bool]]
"""A value as a canonical cell, and whether it is missing because it could not be read."""
Typed = tuple[NDArray[np.float64], Callable[[int], str]]
"""The numbers of a column whose type holds nothing else, NaN where missing, and the text of the cell in a row."""

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


def occurring(codes: NDArray[Any], n_codes: int) -> NDArray[np.int64]:
    """Which of so many codes there are, in increasing order; -1 is none."""
    codes = codes[codes >= 0]
    return np.unique(codes) if len(codes) < n_codes else np.flatnonzero(np.bincount(codes, minlength=n_codes))


class RawCells(ABC):
    """The cells of one column as a file or a frame has them: what they are as numbers and as texts, by one rule."""

    @abstractmethod
    def different(self) -> tuple[NDArray[Any], Sequence[Any]]:
        """The place of each cell among different values, -1 where missing."""

    @abstractmethod
    def part(self, start: int, stop: int) -> RawCells:
        """The cells from and up to a row."""

    def typed(self) -> Typed | None:
        """What there is to say of a column whose type holds numbers or times and nothing else."""
        return None

    def numbers(self, missing: frozenset[str], decimal: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Numbers, NaN where a cell is none; and which of these are not missing but something else.

        Decimal commas are a matter of texts.
        """
        if (typed := self.typed()) is not None:
            numbers, text_at = typed
            odd = np.isnan(numbers) if "" not in missing else np.zeros(len(numbers), np.bool_)
            drop_missing(numbers, missing, text_at)
            return numbers, odd
        places, values = self.different()
        read = [number_cell(value, missing, decimal) for value in (*values, "")]
        numbers = np.array([np.nan if number is None else number for number, _ in read], np.float64)
        return numbers[places], np.array([odd for _, odd in read], np.bool_)[places]

    def texts(self, missing: frozenset[str]) -> tuple[NDArray[np.int32], list[str]]:
        """Codes of the different texts that the cells are, blanks around them aside, and these; -1 where missing."""
        places, values = self.different()
        known: dict[str, int] = {}
        absent = [""] if (places < 0).any() else []
        cells = (text_cell(value, missing)[0] for value in (*values, *absent))
        codes = [MISSING if cell is None else known.setdefault(cell, len(known)) for cell in cells]
        return np.array([*codes, MISSING][: len(values) + 1], np.int32)[places], list(known)

    def written(self) -> list[str]:
        """The text of every cell."""
        places, values = self.different()
        texts = [value if isinstance(value, str) else text_cell(value, frozenset())[0] or "" for value in values]
        return [texts[place] if place >= 0 else "" for place in places.tolist()]

    def holds_numbers(self, rows: int) -> bool | None:
        """Whether there are numbers among so many cells, of a type that holds nothing else; None of another type."""
        return None


class ObjectCells(RawCells):
    """Cells that are Python objects, each read by itself."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values

    def different(self) -> tuple[NDArray[Any], Sequence[Any]]:
        """Equal texts and numbers of one type once: of other types, equal values need not be the same cell (moments of
        an hour that is repeated in autumn)."""
        known: dict[Any, int] = {}
        places, values = np.empty(len(self.values), np.int64), list[Any]()
        for row, value in enumerate(self.values):
            kind = value.__class__
            mark = value if kind is str else (kind, value) if kind in (int, float, bool) else None
            place = len(values) if mark is None else known.setdefault(mark, len(values))
            if place == len(values):
                values.append(value)
            places[row] = place
        return places, values

    def part(self, start: int, stop: int) -> ObjectCells:
        """Some of these cells."""
        return ObjectCells(self.values[start:stop])


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
    def read(
        cls, name: Any, places: NDArray[Any], values: Sequence[Any], read: Reader, *, categorical: bool = False
    ) -> Self:
        """Of the places of cells among different values, -1 for None; a value that no cell has is not read."""
        cells: dict[float | str, int] = {}
        codes, odd = np.full(len(values) + 1, MISSING, np.int32), np.zeros(len(values) + 1, np.bool_)
        for at in [*occurring(places, len(values)).tolist(), *([-1] if (places < 0).any() else [])]:
            cell, odd[at] = read(None if at < 0 else values[at])
            if cell is not None:
                codes[at] = cells.setdefault(cell, len(cells))
        n_unreadable = int(odd[places].sum())
        return cls.of_codes(name, codes[places], list(cells), categorical=categorical, n_unreadable=n_unreadable)

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
        return tuple(self.cells.values[occurring(codes, len(self.cells))])

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

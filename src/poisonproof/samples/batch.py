"""Rows of a table as columns of numbers and of places among categories: what a learner that reads columns is fed.

It holds what the frame of `TableSamples.take` holds, without pandas between. A learner says that it takes one by an
attribute, ``takes_columns``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.samples.columns import NUMBER, OBJECT, Column

MARK = "takes_columns"
MISSING_NAME = "m"


def takes_columns(learner: Any) -> bool:
    """Whether a learner's own class says so; a class derived from it may have a `fit` that knows frames only."""
    return MARK in vars(type(learner)) and bool(getattr(learner, MARK))


def name_of(cell: Any) -> str:
    """A category as a text that tells numbers, texts and missing apart."""
    if isinstance(cell, str):
        return "t" + cell
    return MISSING_NAME if cell is None or cell != cell else f"n{cell!r}"


@dataclass(frozen=True, eq=False)
class TableBatch:
    """These rows of these columns, in a form (see `Samples.form_of`)."""

    columns: Sequence[Column]
    rows: NDArray[np.int64]
    form: Sequence[Any]
    outline: Any
    """A frame of such columns without a row."""

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, part: slice) -> TableBatch:
        return TableBatch(self.columns, self.rows[part], self.form, self.outline)

    def copy(self) -> TableBatch:
        """Itself: what it gives out is made anew each time, so nobody can change it."""
        return self

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.rows), len(self.columns)

    def is_number(self, at: int) -> bool:
        """Whether a column is fed as numbers."""
        return bool(self.form[at] == NUMBER)

    def numbers(self, at: Sequence[int]) -> NDArray[np.float64]:
        """These columns as numbers, NaN where missing; column after column in memory, as pandas keeps them."""
        numbers = np.empty((len(at), len(self)))
        for place, column in enumerate(at):
            numbers[place] = self.columns[column].as_numbers(self.rows)
        return numbers.T

    def categories(self, at: int) -> tuple[NDArray[np.int32], list[str]]:
        """The cells of a column as places in names (see `name_of`), of which missing is the last."""
        column, form = self.columns[at].coded, self.form[at]
        assert column.codes is not None
        cells = column.cells.values.tolist() if form == OBJECT else list(form)
        places = column.codes[self.rows] if form == OBJECT else column.places_in(form, self.rows)
        return places, [*map(name_of, cells), MISSING_NAME]

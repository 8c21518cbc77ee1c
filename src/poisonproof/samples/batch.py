"""Rows of a table as columns of numbers and of places among categories: what a learner that reads columns is fed.

It holds what the frame of `TableSamples.take` holds, without pandas between. A learner says that it takes one by an
attribute, ``takes_columns``; and ``takes_texts``, where a sample is a text (`poisonproof.samples.texts`). Such marks
hold for the class that declares them and not for its children.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.samples.columns import MISSING, NUMBER, OBJECT, Column
from poisonproof.samples.texts import Encode, Shared, encoded_texts

MISSING_NAME = "m"
ONE_BY_ONE = "answers_one_by_one"
"""The mark of learners and maps whose answer about a sample does not depend, to the bit, on the samples beside it."""


def declares(thing: Any, mark: str) -> bool:
    """Whether the own class of a learner or a map bears this mark; a class derived from it may do other things."""
    return mark in vars(type(thing)) and bool(getattr(thing, mark))


def takes_columns(learner: Any) -> bool:
    """Whether a learner can be fed a `TableBatch`."""
    return declares(learner, "takes_columns")


def takes_texts(learner: Any) -> bool:
    """Whether a learner can be fed a `TextBatch`."""
    return declares(learner, "takes_texts")


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
    shared: Shared = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, part: Any) -> TableBatch:
        return replace(self, rows=self.rows[part])

    def of_columns(self, at: Sequence[int]) -> TableBatch:
        """These columns only."""
        columns, form = [self.columns[column] for column in at], [self.form[column] for column in at]
        return replace(self, columns=columns, form=form)

    @property
    def names(self) -> list[Any]:
        """Of the columns."""
        return [column.name for column in self.columns]

    def copy(self) -> TableBatch:
        """Itself: what it gives out is made anew each time, so nobody can change it."""
        return self

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.rows), len(self.columns)

    @property
    def outline(self) -> Any:
        """A frame of such columns without a row."""
        import pandas as pd

        return pd.DataFrame(columns=pd.Index([column.name for column in self.columns]))

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

    def encoded(self, name: Any, encode: Encode) -> Any:
        """The texts of the column of this name, as a function encodes them; a cell that is no text counts as none."""
        if self.names.count(name) != 1:
            raise PoisonproofError(f"There must be one column '{name}' of texts; there are {self.names.count(name)}.")
        at = self.names.index(name)
        column, form = self.columns[at], self.form[at]
        if form == NUMBER:
            numbers = np.full(len(self), MISSING, np.int32)
        else:
            column = column.coded
            assert column.codes is not None
            held = column.codes[self.rows]
            numbers = held if form == OBJECT else np.where(column.places_in(form, self.rows) >= 0, held, MISSING)
        return encoded_texts(encode, name, column.cells.values, numbers, self.shared)

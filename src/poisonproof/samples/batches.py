"""Rows of a table as columns of numbers and of places among categories: what a learner that reads columns is fed.

It holds what the frame of `TableSamples.take` holds, without pandas between. A learner says that it takes one by an
attribute, ``takes_columns``; and ``takes_texts``, where a sample is a text (`poisonproof.samples.batches`). Such marks
hold for the class that declares them and not for its children.

Texts as a fixed function writes them in numbers, once for all who read them.

The row of a text is a function of that text alone, so it is the same whoever else is read with it. A base classifier
takes the rows of its own subset and sees no other. A learner says that it takes texts as a `TextBatch` by an attribute,
``takes_texts``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.samples.columns import MISSING, NUMBER, OBJECT, Column

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
            raise PoisonproofError(
                f"There must be one column '{name}' of texts; there are {self.names.count(name)}.", code="samples.kind"
            )
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


Encode = Callable[[Sequence[Any]], Any]
"""A fixed function from texts to sparse rows, one for each, that can be the key of a dict; "" is a row of nothing."""


@dataclass(frozen=True, eq=False)
class EncodedTexts:
    """Rows of some texts; that of no text, whose number is -1, stands last.

    Attributes
    ----------
    rows : sparse matrix
    places : array
        The row of the text of each number, -1 for one that was not asked for or that the function cannot read; and at
        the end that of no text.
    """

    rows: Any
    places: NDArray[np.int64]

    @classmethod
    def of(cls, encode: Encode, texts: NDArray[np.object_], numbers: NDArray[Any]) -> Self:
        """Of the texts of these numbers, each of them once."""
        places = np.full(len(texts) + 1, -1)
        asked = np.unique(numbers[numbers >= 0])
        try:
            rows = encode([*texts[asked], ""])
        except MemoryError:
            raise
        except Exception:  # one text that cannot be read must not keep others from being read
            asked = asked[can_be_read(encode, texts[asked])]
            rows = encode([*texts[asked], ""])
        places[asked] = np.arange(len(asked))
        places[-1] = len(asked)
        return cls(rows, places)

    @property
    def n_bytes(self) -> int:
        """How much memory it takes."""
        rows = self.rows
        return int(rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes + self.places.nbytes)

    def covers(self, numbers: NDArray[Any]) -> bool:
        """Whether all of these were asked for, and can be read."""
        return bool((self.places[numbers] >= 0).all())

    def __getitem__(self, numbers: NDArray[Any]) -> Any:
        return self.rows[self.places[numbers]]


Shared = dict[tuple[Any, Encode], EncodedTexts]
"""What was read once for all: by the name of a column, None where a sample is a text, and the function."""


def encoded_texts(encode: Encode, name: Any, texts: NDArray[np.object_], numbers: NDArray[Any], shared: Shared) -> Any:
    """The rows of the texts of these numbers, which may repeat; taken from what is shared, if they are all there.

    Where one of them cannot be read, this raises what the function raises on them.
    """
    known = shared.get((name, encode))
    if known is None or not known.covers(numbers):
        known = EncodedTexts.of(encode, texts, numbers)
    if not known.covers(numbers):
        return encode([texts[number] if number >= 0 else "" for number in numbers.tolist()])
    return known[numbers]


def can_be_read(read: Callable[[Any], Any], things: Any) -> NDArray[np.bool_]:
    """On which of these a function of each alone does not raise; few that are odd are found among many by halving."""
    try:
        read(things)
    except MemoryError:
        raise
    except Exception:
        if len(things) == 1:
            return np.zeros(1, np.bool_)
        half = len(things) // 2
        return np.concatenate([can_be_read(read, things[:half]), can_be_read(read, things[half:])])
    return np.ones(len(things), np.bool_)


@dataclass(frozen=True, eq=False)
class TextBatch:
    """These rows of some texts, for learners that encode texts by a fixed function: each text once, however often."""

    texts: NDArray[np.object_]
    rows: NDArray[np.int64]
    shared: Shared

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, part: Any) -> TextBatch:
        return TextBatch(self.texts, self.rows[part], self.shared)

    def copy(self) -> TextBatch:
        """Itself: what it gives out is made anew each time, so nobody can change it."""
        return self

    @property
    def shape(self) -> tuple[int]:
        """Rows."""
        return (len(self.rows),)

    def encoded(self, encode: Encode) -> Any:
        """The rows, as this function encodes them."""
        if (None, encode) not in self.shared:
            self.shared[None, encode] = EncodedTexts.of(encode, self.texts, np.arange(len(self.texts)))
        return encoded_texts(encode, None, self.texts, self.rows, self.shared)

"""Base classifiers that are sums of columns and words, asked all at once (`poisonproof.learners.table_stack`).

What they say is what `vote_of` says of each alone, to the bit; where that cannot be promised (weights that are not
finite), they are asked alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.votes import vote_dtype
from poisonproof.errors import PoisonproofError
from poisonproof.learners.lanes import chosen, is_sum, lane_of, reading_of
from poisonproof.learners.table_stack import CATEGORIES, NUMBERS, OBJECTS, TEXTS, TableStack, Words
from poisonproof.learners.text import TextClassifier, WordReading
from poisonproof.samples.batches import MISSING_NAME, can_be_read, name_of
from poisonproof.samples.columns import NUMBER, OBJECT
from poisonproof.samples.kinds import NumberSamples, Samples, SparseSamples, TableSamples, TextSamples
from poisonproof.system.compiled import njit
from poisonproof.system.determinism import in_threads
from poisonproof.training.member import Member

LANES = 64
ROWS_PER_TASK = 1 << 9
MIXED = "texts among categories"
ROWS_OF_TEXTS = 1 << 12  # whose words are in memory at a time, unless they are shared


def stacked(members: Sequence[Member]) -> Stacked | None:
    """The same base classifiers as arrays; None if they are of another learner, or would answer otherwise."""
    if not all(member.model is None or is_sum(member.model) for member in members):
        return None
    whole = Stacked.of(members)
    return whole if whole is not None and whole.finite else None


@dataclass(frozen=True, eq=False)
class Lot:
    """A stack, which places its lanes have among the base classifiers, and the codes of their classes."""

    stack: TableStack
    places: NDArray[np.int64]
    codes: NDArray[np.int64]
    """(lanes, classes): the class codes that each lane's subset holds; what it lacks is never asked for."""


@dataclass(frozen=True, eq=False)
class Stacked:
    """Some base classifiers: those that answer, in lots, and what the others say."""

    lots: tuple[Lot, ...]
    fallbacks: NDArray[np.int64]
    """What each says that has no model, -1 for one that abstains; those in lots are not asked for it."""

    @classmethod
    def of(cls, members: Sequence[Member]) -> Stacked | None:
        """Of base classifiers that can be stacked; None if one of them reads texts by categories of its own."""
        alike: dict[Any, list[int]] = {}
        for place, member in enumerate(members):
            if member.model is None:
                continue
            model = chosen(member.model)
            kinds = kinds_of(member.form, model)
            if MIXED in (kinds or ()):
                return None
            alike.setdefault((kinds, reading_of(model), type(model), len(member.codes) > 2), []).append(place)
        lots = []
        for (kinds, reading, _, _), places in alike.items():
            for start in range(0, len(places), LANES):
                lanes = places[start : start + LANES]
                lots.append(_lot([members[place] for place in lanes], lanes, kinds, reading))
        fallbacks = [-1 if member.fallback is None else member.fallback for member in members]
        return cls(tuple(lots), np.array(fallbacks, np.int64))

    @classmethod
    def joined(cls, parts: Sequence[Stacked]) -> Stacked:
        """Several as one, in this order."""
        firsts = np.cumsum([0, *map(len, parts)])
        lots = tuple(
            replace(lot, places=lot.places + first)
            for part, first in zip(parts, firsts, strict=False)
            for lot in part.lots
        )
        return cls(lots, np.concatenate([part.fallbacks for part in parts]))

    def __len__(self) -> int:
        return len(self.fallbacks)

    @property
    def n_trained(self) -> int:
        """How many of them have a model."""
        return sum(len(lot.places) for lot in self.lots)

    @property
    def finite(self) -> bool:
        """Whether votes are those of each alone; see `TableStack.finite`."""
        return all(lot.stack.finite for lot in self.lots)

    def readable(self, samples: Samples) -> NDArray[np.bool_]:
        """Samples whose words can be read; a text may hold what no encoding has."""
        readings = {lot.stack.reading for lot in self.lots if lot.stack.reading is not None}

        def read(rows: NDArray[np.int64]) -> None:
            part = Read(samples.subset(rows))
            for reading in readings:
                part.words_of(reading)

        return can_be_read(read, np.arange(len(samples)))

    def votes(self, read: Read, n_classes: int, n_jobs: int | None = None) -> NDArray[Any]:
        """The votes (samples, members); raises if words of a sample cannot be read (see `readable`)."""
        votes = np.empty((len(read), len(self)), vote_dtype(n_classes))
        votes[:] = np.where(self.fallbacks < 0, n_classes, self.fallbacks)
        step = max(1, len(read))
        if not read.samples.shared_texts and any(lot.stack.reading is not None for lot in self.lots):
            step = ROWS_OF_TEXTS
        for start in range(0, len(read), step):
            part = read if len(read) <= step else read.part(start, start + step)
            for lot in self.lots:
                rows = part.for_stack(lot.stack)
                in_threads(
                    len(part),
                    ROWS_PER_TASK,
                    lambda first, last, lot=lot, rows=rows, here=votes[start : start + step]: _vote(  # type: ignore[misc]
                        lot, rows, here, slice(first, last)
                    ),
                    1 if n_jobs is None else n_jobs,
                )
        return votes


@dataclass(frozen=True, eq=False)
class Rows:
    """Samples as one stack reads them.

    Attributes
    ----------
    numbers : array, or sparse rows
    codes : array (rows, columns)
        The number of each cell's name, -1 for one that nobody has.
    words : Words, or None
    """

    numbers: Any
    codes: NDArray[np.int64]
    words: Words | None = None


def _vote(lot: Lot, rows: Rows, votes: NDArray[Any], part: slice) -> None:
    if lot.stack.sparse:
        best = lot.stack.best_of_sparse(rows.numbers[part])
    else:
        words = None if rows.words is None else rows.words[part]
        best = lot.stack.best(rows.numbers[part], rows.codes[part], words)
    _place(best, lot.codes, lot.places, votes[part])


@njit(nogil=True, cache=True)
def _place(
    best: NDArray[np.uint16], codes: NDArray[np.int64], places: NDArray[np.int64], votes: NDArray[np.generic]
) -> None:
    for row in range(len(best)):
        for lane in range(len(places)):
            votes[row, places[lane]] = codes[lane, best[row, lane]]


def _lot(
    members: Sequence[Member], places: Sequence[int], kinds: tuple[str, ...] | None, reading: WordReading | None
) -> Lot:
    codes = np.zeros((len(members), max(len(member.codes) for member in members)), np.int64)
    for lane, member in enumerate(members):
        codes[lane, : len(member.codes)] = member.codes
    lanes = [lane_of(chosen(member.model)) for member in members]
    return Lot(TableStack.of(lanes, kinds, reading), np.array(places, np.int64), codes)


def kinds_of(form: Any, model: Any) -> tuple[str, ...] | None:
    """How a model reads columns of this form; None for samples without columns.

    A base classifier whose subset has only numbers in a column of texts has no words of it, so it is read as the others
    read it. One to which texts came as categories knows those of its subset alone: that is no kind of a stack.
    """
    if form is None:
        return None
    kinds = [NUMBERS if how == NUMBER else OBJECTS if how == OBJECT else CATEGORIES for how in form]
    if isinstance(model, TextClassifier):
        others = set(model.others_)
        kinds = [kind if at in others else MIXED if kind == CATEGORIES else TEXTS for at, kind in enumerate(kinds)]
    return tuple(kinds)


class Read:
    """Samples as stacks read them; what several need is made once."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self._numbers: dict[Any, Any] = {}
        self._words: dict[WordReading, tuple[Any, NDArray[Any], NDArray[np.int64]]] = {}

    def __len__(self) -> int:
        return len(self.samples)

    def part(self, start: int, stop: int) -> Read:
        """Of these samples."""
        return Read(self.samples.subset(np.arange(start, min(stop, len(self)))))

    def for_stack(self, stack: TableStack) -> Rows:
        """Numbers (or sparse rows), the number of each cell's name, and words."""
        if stack.kinds not in self._numbers:
            self._numbers[stack.kinds] = self._numbers_of(stack)
        if self._numbers[stack.kinds].shape[1] != len(stack.weights):
            raise PoisonproofError(
                f"The base classifiers were trained on {len(stack.weights)} numbers for each sample, and these samples "
                f"have {self._numbers[stack.kinds].shape[1]}; ask about samples like those they were trained on."
            )
        codes = np.empty((len(self), len(stack.names)), np.int64)
        for at, (column, places) in enumerate(zip(stack.category_columns, stack.places, strict=True)):
            names, cells = self.names[column]
            codes[:, at] = np.array([places.get(name, -1) for name in names])[cells]
        if stack.reading is None:
            return Rows(self._numbers[stack.kinds], codes)
        rows, features, numbers = self.words_of(stack.reading)
        words = Words(rows.indptr.astype(np.int64), numbers, rows.data, stack.places_of(features))
        return Rows(self._numbers[stack.kinds], codes, words)

    def words_of(self, reading: WordReading) -> tuple[Any, NDArray[Any], NDArray[np.int64]]:
        """The words of all samples, the features that there are, and the number among them of each that is held."""
        if reading not in self._words:
            samples, every = self.samples, np.arange(len(self))
            if isinstance(samples, TableSamples):
                rows = reading.rows(samples.by_column(every, (OBJECT,) * len(samples.columns)))
            else:
                assert isinstance(samples, TextSamples)
                rows = reading.rows(samples.batch(every))
            features, numbers = np.unique(rows.indices, return_inverse=True)
            self._words[reading] = rows, features, numbers
        return self._words[reading]

    def _numbers_of(self, stack: TableStack) -> Any:
        if isinstance(self.samples, SparseSamples):
            return self.samples.matrix
        if isinstance(self.samples, NumberSamples):
            flat = self.samples.values.reshape(len(self), -1)
            return np.ascontiguousarray(flat, np.float64)
        if isinstance(self.samples, TextSamples):
            return np.empty((len(self), 0))
        assert isinstance(self.samples, TableSamples)
        columns = [
            column for column, kind in zip(self.samples.columns, stack.kinds or (), strict=True) if kind == NUMBERS
        ]
        numbers = np.empty((len(self), len(columns)))
        for at, column in enumerate(columns):
            numbers[:, at] = column.as_numbers()
        return numbers

    @cached_property
    def names(self) -> _Names:
        """For each column the names of its different cells, that of a missing one last, and the place of each cell."""
        return _Names(self.samples)


class _Names(dict[int, tuple[list[str], NDArray[np.int32]]]):
    def __init__(self, samples: Samples) -> None:
        self.samples = samples

    def __missing__(self, at: int) -> tuple[list[str], NDArray[np.int32]]:
        assert isinstance(self.samples, TableSamples)
        column = self.samples.columns[at].coded
        assert column.codes is not None
        self[at] = ([*map(name_of, column.cells.values), MISSING_NAME], column.codes)
        return self[at]

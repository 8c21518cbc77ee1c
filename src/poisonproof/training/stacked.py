"""Base classifiers of the `table` learner, asked all at once (`poisonproof.learners.table_stack`).

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

from poisonproof.errors import PoisonproofError
from poisonproof.learners.table import TableClassifier
from poisonproof.learners.table_stack import CATEGORIES, NUMBERS, OBJECTS, TableStack
from poisonproof.samples.batch import MISSING_NAME, name_of
from poisonproof.samples.columns import NUMBER, OBJECT
from poisonproof.samples.kinds import NumberSamples, Samples, SparseSamples, TableSamples
from poisonproof.system.compiled import njit
from poisonproof.system.threads import in_threads
from poisonproof.training.member import Member
from poisonproof.votes.votes import vote_dtype

LANES = 64
ROWS_PER_TASK = 1 << 9


def stacks(learner: Any) -> bool:
    """Whether base classifiers of this learner can be asked all at once: its very own class, nothing derived."""
    return type(learner) is TableClassifier


def stacked(members: Sequence[Member]) -> Stacked | None:
    """The same base classifiers as arrays; None if they are of another learner, or would answer otherwise."""
    if not all(member.model is None or stacks(member.model) for member in members):
        return None
    whole = Stacked.of(members)
    return whole if whole.finite else None


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
    def of(cls, members: Sequence[Member]) -> Stacked:
        """Of base classifiers that `stacks`."""
        alike: dict[Any, list[int]] = {}
        for place, member in enumerate(members):
            if member.model is not None:
                alike.setdefault((kinds_of(member.form), len(member.codes) > 2), []).append(place)
        lots = []
        for (kinds, _), places in alike.items():
            for start in range(0, len(places), LANES):
                lanes = places[start : start + LANES]
                lots.append(_lot([members[place] for place in lanes], lanes, kinds))
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

    def votes(self, read: Read, n_classes: int, n_jobs: int | None = None) -> NDArray[Any]:
        """The votes (samples, members)."""
        votes = np.empty((len(read), len(self)), vote_dtype(n_classes))
        votes[:] = np.where(self.fallbacks < 0, n_classes, self.fallbacks)
        for lot in self.lots if len(read) else ():
            numbers, codes = read.for_stack(lot.stack)
            in_threads(
                len(read),
                ROWS_PER_TASK,
                lambda start, stop, lot=lot, numbers=numbers, codes=codes: _vote(  # type: ignore[misc]
                    lot, numbers, codes, votes, start, stop
                ),
                1 if n_jobs is None else n_jobs,
            )
        return votes


def _vote(lot: Lot, numbers: Any, codes: NDArray[np.int64], votes: NDArray[Any], start: int, stop: int) -> None:
    if lot.stack.sparse:
        best = lot.stack.best_of_sparse(numbers[start:stop])
    else:
        best = lot.stack.best(numbers[start:stop], codes[start:stop])
    _place(best, lot.codes, lot.places, votes[start:stop])


@njit(nogil=True, cache=True)
def _place(
    best: NDArray[np.uint16], codes: NDArray[np.int64], places: NDArray[np.int64], votes: NDArray[np.generic]
) -> None:
    for row in range(len(best)):
        for lane in range(len(places)):
            votes[row, places[lane]] = codes[lane, best[row, lane]]


def _lot(members: Sequence[Member], places: Sequence[int], kinds: tuple[str, ...] | None) -> Lot:
    codes = np.zeros((len(members), max(len(member.codes) for member in members)), np.int64)
    for lane, member in enumerate(members):
        codes[lane, : len(member.codes)] = member.codes
    return Lot(TableStack.of([member.model for member in members], kinds), np.array(places, np.int64), codes)


def kinds_of(form: Any) -> tuple[str, ...] | None:
    """How columns of this form are read; None for samples without columns."""
    if form is None:
        return None
    return tuple(NUMBERS if how == NUMBER else OBJECTS if how == OBJECT else CATEGORIES for how in form)


class Read:
    """Samples as stacks read them; what several need is made once."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self._numbers: dict[Any, Any] = {}

    def __len__(self) -> int:
        return len(self.samples)

    def for_stack(self, stack: TableStack) -> tuple[Any, NDArray[np.int64]]:
        """Numbers (or sparse rows), and the number of each cell's name."""
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
        return self._numbers[stack.kinds], codes

    def _numbers_of(self, stack: TableStack) -> Any:
        if isinstance(self.samples, SparseSamples):
            return self.samples.matrix
        if isinstance(self.samples, NumberSamples):
            flat = self.samples.values.reshape(len(self), -1)
            return np.ascontiguousarray(flat, np.float64)
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

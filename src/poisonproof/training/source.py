"""Where base classifiers are trained from: a source gives each of them its training set, and nothing else.

In memory (`ArraySource`), in partitions on disk (`poisonproof.data.out_of_core.StoredSource`) or drawn at random
(`poisonproof.stochastic`): what a base classifier is fed is the same to the bit. A source travels to workers whole,
once if the backend can hold on to it, with arrays mapped from a file or as the name of a folder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from poisonproof.samples.batches import EncodedTexts, Shared, takes_texts
from poisonproof.samples.kinds import Samples, TableSamples, TextSamples, TrainingSet

if TYPE_CHECKING:
    from poisonproof.learners.text import WordReading


class TrainingSource(Protocol):
    """Training samples, and which of them feed which base classifier; number i is trained on subset i."""

    @property
    def samples(self) -> Samples:
        """All training samples, in memory or not."""

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many samples each subset holds."""

    @property
    def n_bytes(self) -> int:
        """About how many bytes of samples the largest subset holds."""

    @property
    def whole_bytes(self) -> int:
        """The same of all training samples."""

    def __len__(self) -> int: ...

    def subset(self, i: int, /) -> TrainingSet:
        """What base classifier i is trained on, in canonical order."""

    def seed(self, i: int, /) -> int:
        """What base classifier i is seeded with."""


class IndexLists(Protocol):
    """The rows of each subset in canonical order, and its seed."""

    def __len__(self) -> int: ...

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many samples each subset holds."""

    def rows(self, subset: int, /) -> NDArray[np.int64]:
        """The samples of one subset."""

    def seed(self, subset: int, /) -> int:
        """The seed of the base classifier of that subset."""


@dataclass(frozen=True, eq=False)
class ArraySource:
    """Training samples in memory, with the codes of their labels, and the rows of each subset."""

    samples: Samples
    codes: NDArray[np.int64]
    subsets: IndexLists

    def __len__(self) -> int:
        return len(self.subsets)

    def __sizeof__(self) -> int:
        return self.samples.__sizeof__() + self.codes.nbytes  # what Dask goes by when it moves data

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many samples each subset holds."""
        return self.subsets.sizes

    @property
    def n_bytes(self) -> int:
        """About how many bytes of samples the largest subset holds."""
        return int(self.sizes.max(initial=0) / max(1, len(self.samples)) * self.samples.n_bytes)

    @property
    def whole_bytes(self) -> int:
        """Bytes of all training samples."""
        return self.samples.n_bytes

    def rows(self, i: int) -> NDArray[np.int64]:
        """The samples of subset i, in canonical order."""
        return self.subsets.rows(i)

    def subset(self, i: int) -> TrainingSet:
        """What base classifier i is trained on."""
        return TrainingSet(self.samples, self.codes, self.rows(i))

    def seed(self, i: int) -> int:
        """What base classifier i is seeded with."""
        return self.subsets.seed(i)


MOST_BYTES = 1 << 28  # of words that are shared; beyond, each base classifier reads its own texts
OF_WORDS, OF_PIECES = 8, 48  # bytes for each character, from above: words and pairs of words, and pieces of words


def with_shared_texts(learner: Any, samples: Samples, rows: Callable[[], NDArray[np.int64]]) -> Samples:
    """The same samples, of which words of these rows are read; as they are, if the learner reads none.

    A text reaches d base classifiers and, where one of them chooses its learner, several folds of each. Its words are
    hashed once, before any of them is trained, and each base classifier takes the rows of its own subset: those that it
    would have made itself, to the bit. Workers map them, as they map numbers.
    """
    readings: tuple[WordReading, ...] = learner.readings if takes_texts(learner) else ()
    if isinstance(samples, TextSamples):
        wanted = [(None, reading) for reading in readings if not reading.columns]
    elif isinstance(samples, TableSamples):
        names = [column.name for column in samples.columns]
        wanted = [(name, reading) for reading in readings for name in reading.columns if names.count(name) == 1]
    else:
        wanted = []
    if not wanted or not len(samples):
        return samples
    shared: Shared = {}
    room, asked = MOST_BYTES, rows()
    for name, reading in wanted:
        texts, numbers = _texts(samples, name, asked)
        room -= (OF_PIECES if reading.pieces else OF_WORDS) * sum(map(_length, texts[numbers]))
        if room < 0:
            return samples
        shared[name, reading] = EncodedTexts.of(reading, texts, numbers)
    same = copy(samples)
    vars(same)["shared"] = shared
    return same


def source_with_texts(learner: Any, source: TrainingSource, indices: Sequence[int]) -> TrainingSource:
    """The same source, with words that these base classifiers are fed read once.

    Where training samples are on disk, memory is bounded, and each base classifier reads its own.
    """
    if not isinstance(source, ArraySource):
        return source

    def rows() -> NDArray[np.int64]:
        return np.unique(np.concatenate([np.zeros(0, np.int64), *(source.rows(i) for i in indices)]))

    samples = with_shared_texts(learner, source.samples, rows)
    return source if samples is source.samples else replace(source, samples=samples)


def _texts(samples: Samples, name: Any, rows: NDArray[np.int64]) -> tuple[NDArray[np.object_], NDArray[Any]]:
    """The different texts of a column, or all texts, and the numbers of those that these rows hold."""
    if isinstance(samples, TextSamples):
        return samples.texts, rows
    assert isinstance(samples, TableSamples)
    column = next(column for column in samples.columns if column.name == name).coded
    assert column.codes is not None
    held = np.unique(column.codes[rows])
    return column.cells.values, held[held >= 0]


def _length(cell: Any) -> int:
    return len(cell) if isinstance(cell, str) else 0

"""Words read once for all base classifiers, where a learner reads them by a fixed function.

A text reaches d base classifiers and, where one of them chooses its learner, several folds of each. Its words are
hashed once, before any of them is trained, and each base classifier takes the rows of its own subset: those that it
would have made itself, to the bit. Workers map them, as they map numbers. More than `MOST_BYTES` are not kept: then
each base classifier reads its own texts.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.learners.word_reading import WordReading
from poisonproof.samples.batches import EncodedTexts, Shared, takes_texts
from poisonproof.samples.kinds import Samples, TableSamples, TextSamples

MOST_BYTES = 1 << 28
OF_WORDS, OF_PIECES = 8, 48  # bytes for each character, from above: words and pairs of words, and pieces of words


def with_shared_texts(learner: Any, samples: Samples, rows: Callable[[], NDArray[np.int64]]) -> Samples:
    """The same samples, of which words of these rows are read; as they are, if the learner reads none."""
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

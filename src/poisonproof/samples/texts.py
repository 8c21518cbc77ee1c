"""Texts as a fixed function writes them in numbers, once for all who read them.

The row of a text is a function of that text alone, so it is the same whoever else is read with it. A base classifier
takes the rows of its own subset and sees no other. A learner says that it takes texts as a `TextBatch` by an attribute,
``takes_texts``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

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

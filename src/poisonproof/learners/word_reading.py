"""Texts as sparse rows of hashed words: a fixed function of each text, nothing of which is learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import scipy.sparse as sp

from poisonproof.samples.batches import TableBatch, TextBatch
from poisonproof.samples.frames import is_frame

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import HashingVectorizer


@dataclass(frozen=True)
class WordReading:
    """How a learner reads the words of its samples.

    Attributes
    ----------
    weight : float
        What rows of length 1 are multiplied by.
    n_hashed : int
        How many features words are hashed into.
    columns : tuple
        The columns of a table that hold texts; without any, a sample is one text.
    pieces : bool
        Whether a text is a set of words, pairs of words and pieces of words of three to five characters, which are
        hashed into as many features again. If not, it is words and pairs of words with signs, as often as they occur.
    """

    weight: float
    n_hashed: int
    columns: tuple[Any, ...] = ()
    pieces: bool = False

    @property
    def width(self) -> int:
        """How many features a sample has."""
        return self.n_hashed * (1 + self.pieces) * max(1, len(self.columns))

    def __call__(self, texts: Sequence[Any]) -> Any:
        """A row for each of the texts of one column; a cell that is no text counts as an empty one."""
        cells = [cell if isinstance(cell, str) else "" for cell in texts]
        return (
            _side_by_side([how.transform(cells) for how in _vectorizers(self.n_hashed, pieces=self.pieces)])
            * self.weight
        )

    def rows(self, X: Any) -> Any:
        """Texts, or the columns of a table that hold them side by side, in CSR with sorted indices."""
        if isinstance(X, TextBatch):
            parts = [X.encoded(self)]
        elif isinstance(X, TableBatch):
            parts = [X.encoded(name, self) for name in self.columns]
        else:
            parts = [self(X[name]) for name in self.columns] if self.columns else [self(X)]
        rows = _side_by_side(parts)
        rows.sort_indices()
        return rows


def is_table(X: Any) -> bool:
    """Whether samples have columns."""
    return is_frame(X) or isinstance(X, TableBatch)


def _side_by_side(parts: Sequence[Any]) -> Any:
    return sp.csr_matrix(sp.hstack(parts, format="csr")) if len(parts) > 1 else parts[0]


@lru_cache(maxsize=8)
def _vectorizers(n_hashed: int, *, pieces: bool) -> tuple[HashingVectorizer, ...]:
    from sklearn.feature_extraction.text import HashingVectorizer

    if not pieces:
        return (HashingVectorizer(n_features=n_hashed, ngram_range=(1, 2)),)
    as_set = {"n_features": n_hashed, "binary": True, "alternate_sign": False}
    return (
        HashingVectorizer(ngram_range=(1, 2), **as_set),
        HashingVectorizer(ngram_range=(3, 5), analyzer="char_wb", **as_set),
    )

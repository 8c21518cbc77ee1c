"""Texts and sparse rows as short vectors of whole numbers, by a fixed hash: no vocabulary is learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.feature_extraction.text import HashingVectorizer

from poisonproof.errors import PoisonproofError
from poisonproof.maps.vectors import VectorFeatures

ROWS_AT_ONCE = 1 << 10
SPREADING = 0x9E3779B97F4A7C15  # 2⁶⁴ divided by the golden ratio


@dataclass(frozen=True)
class HashedFeatures:
    """Words and pairs of words of texts, or the columns of sparse rows, hashed into a fixed number of places.

    Parameters
    ----------
    width : int
        Places, and so the length of a feature vector. What falls into the same place is added, with signs from the
        hash, so that on average it cancels. Sparse rows of at most so many columns are taken as they are.
    scale : float
        Steps per unit. A text has length 1; a sparse row its own, divided by ``unit``.
    unit : float
        What counts as length 1 in a sparse row. Declared, never taken from the data.
    """

    width: int = 1024
    scale: float = 1024.0
    unit: float = 1.0
    takes_missing = True
    answers_one_by_one = True  # see poisonproof.samples.batches

    def __call__(self, X: Any, *, training: bool = False) -> NDArray[np.int16]:
        """Features (n, 1, width) of texts or sparse rows."""
        if self.width < 2:
            raise PoisonproofError(f"The 'width' of hashed features must be at least 2. Got {self.width!r} instead.")
        n = X.shape[0] if sp.issparse(X) else len(X)
        hashed = self._columns(sp.csr_matrix(X)) if sp.issparse(X) else self._words(X)
        whole = VectorFeatures(1.0 if not sp.issparse(X) else self.unit, self.scale, limit=4095)
        out = np.zeros((n, 1, hashed.shape[1]), np.int16)
        for start in range(0, n, ROWS_AT_ONCE):
            out[start : start + ROWS_AT_ONCE] = whole(hashed[start : start + ROWS_AT_ONCE].toarray())
        return out

    def _words(self, texts: Any) -> Any:
        hashing = HashingVectorizer(n_features=self.width, ngram_range=(1, 2))
        return hashing.transform([text if isinstance(text, str) else "" for text in texts])

    def _columns(self, rows: Any) -> Any:
        rows.data = np.nan_to_num(rows.data)
        n_columns = rows.shape[1]
        if n_columns <= self.width:
            return rows
        with np.errstate(over="ignore"):
            hashes = (np.arange(1, n_columns + 1, dtype=np.uint64) * np.uint64(SPREADING)) >> np.uint64(31)
        signs = np.where(hashes & np.uint64(1), 1.0, -1.0)
        places = ((hashes >> np.uint64(1)) % np.uint64(self.width)).astype(np.int64)
        return rows @ sp.csr_matrix((signs, (np.arange(n_columns), places)), shape=(n_columns, self.width))

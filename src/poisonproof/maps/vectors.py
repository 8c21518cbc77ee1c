"""Plain numbers as small integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError

LONGEST = 4095  # its square is below 2**24, up to which sums of integers are exact in single precision


@dataclass(frozen=True)
class VectorFeatures:
    """Rows of numbers, divided by a declared unit and rounded to multiples of 1/scale.

    Parameters
    ----------
    unit : float
        What counts as length 1 in the kernel. Declared, never taken from the data.
    scale : float
        Steps per unit.
    limit : int
        Larger values are clipped to ±limit steps, so that one extreme cell stays a number. A row that is longer than
        4095 steps all the same is shortened to that, so that products stay exact and no row can stop training.
    """

    unit: float = 1.0
    scale: float = 64.0
    limit: int = 1000
    takes_missing = True  # what is no number counts as 0
    answers_one_by_one = True  # see poisonproof.samples.batches

    def __call__(self, X: Any, *, training: bool = False) -> NDArray[np.int16]:
        """Features (n, 1, n_features) of rows (n, …)."""
        if not 1 <= self.limit <= LONGEST:
            raise PoisonproofError(
                f"The 'limit' of vector features must be from 1 to {LONGEST}. Got {self.limit!r} instead."
            )
        rows = np.asarray(X, dtype=np.float64)
        with np.errstate(over="ignore"):
            steps = np.rint(rows.reshape(len(rows), 1, -1) * (self.scale / self.unit))
        steps = np.clip(np.nan_to_num(steps), -self.limit, self.limit)
        squares = np.square(steps).sum(axis=2, keepdims=True)  # whole numbers, exact in any order
        shorter = LONGEST / np.sqrt(np.maximum(squares, LONGEST**2))
        return np.trunc(steps * shorter).astype(np.int16)

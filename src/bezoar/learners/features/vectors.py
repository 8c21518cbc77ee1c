"""Plain numbers as small integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


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
        Larger values are clipped to ±limit steps, so that one extreme cell stays a number.
    """

    unit: float = 1.0
    scale: float = 64.0
    limit: int = 1000

    def __call__(self, X: Any, *, training: bool = False) -> NDArray[np.int16]:
        """Features (n, 1, n_features) of rows (n, …)."""
        rows = np.asarray(X, dtype=np.float64)
        steps = np.rint(rows.reshape(len(rows), 1, -1) * (self.scale / self.unit))
        return np.clip(np.nan_to_num(steps), -self.limit, self.limit).astype(np.int16)

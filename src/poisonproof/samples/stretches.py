"""Arrays less a few rows: what stays is copied in long stretches, not row by row."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

FEW = 64


def less_rows(values: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """A copy of an array without these rows, which increase."""
    if len(rows) > FEW:
        return np.delete(values, rows, axis=0)
    ends = [-1, *rows.tolist(), len(values)]
    return np.concatenate([values[before + 1 : row] for before, row in pairwise(ends)])

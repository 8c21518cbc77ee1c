"""Counting votes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.system.compiled import njit


@njit(nogil=True, cache=True)
def count_rows(votes: NDArray[Any], counts: NDArray[np.int64]) -> None:
    """counts[t, c] = number of votes for c on test sample t (the last column counts abstentions)."""
    for t in range(votes.shape[0]):
        line = counts[t]
        for vote in votes[t]:
            line[vote] += 1

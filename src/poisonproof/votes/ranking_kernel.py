"""Whether rankings are rankings of their votes, compiled; `poisonproof.votes.rankings` loads it when there are some."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.system.compiled import njit


@njit(nogil=True, cache=True)
def first_wrong(rankings: NDArray[Any], votes: NDArray[Any], n_classes: int) -> tuple[int, int, int]:
    """Number of the broken rule (0 if none is), base classifier and place."""
    n, n_places = rankings.shape
    named_by = np.full(n_classes, -1, np.int64)
    for i in range(n):
        ended = False
        for place in range(n_places):
            named = np.int64(rankings[i, place])
            if named < 0 or named > n_classes:
                return 1, i, place
            if named == n_classes:
                ended = True
                continue
            if ended:
                return 3, i, place
            if named_by[named] == i:
                return 2, i, place
            named_by[named] = i
        if np.int64(rankings[i, 0]) != np.int64(votes[i]):
            return 4, i, 0
    return 0, 0, 0

"""Counting votes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.system.compiled import njit

FEW = 16  # classes; so many are counted one by one sooner than all at once
LANES = 256  # bytes that are counted side by side


@njit(nogil=True, cache=True)
def how_many(values: NDArray[Any], value: int, ticks: NDArray[np.uint8]) -> int:
    """How many values are this one, in byte lanes side by side."""
    n, code = len(values), values.dtype.type(value)
    total = 0
    for start in range(0, n, 255 * LANES):  # a byte counts to 255
        stop = min(n, start + 255 * LANES)
        whole = start + (stop - start) // LANES * LANES
        ticks[:] = 0
        for at in range(start, whole, LANES):
            part = values[at : at + LANES]
            for lane in range(LANES):
                ticks[lane] += part[lane] == code
        for lane in range(LANES):
            total += ticks[lane]
        for at in range(whole, stop):
            total += values[at] == code
    return total


@njit(nogil=True, cache=True)
def tally(votes: NDArray[Any], ticks: NDArray[np.uint8], counts: NDArray[np.int64]) -> None:
    """Votes of each class, and abstentions last, class by class: quicker than a histogram where classes are few."""
    rest = len(votes)
    for c in range(len(counts) - 1):
        counts[c] = how_many(votes, c, ticks)
        rest -= counts[c]
    counts[-1] = rest


@njit(nogil=True, cache=True)
def count_rows(votes: NDArray[Any], counts: NDArray[np.int64]) -> None:
    """counts[t, c] = number of votes for c on test sample t (the last column counts abstentions).

    Votes are the caller's array, who may write into it after it was checked: what is no class is an abstention, here
    and in every kernel that indexes by a vote.
    """
    if counts.shape[1] - 1 <= FEW:
        ticks = np.empty(LANES, np.uint8)
        for t in range(votes.shape[0]):
            tally(votes[t], ticks, counts[t])
        return
    for t in range(votes.shape[0]):
        line, abstention = counts[t], counts.shape[1] - 1
        for vote in votes[t]:
            line[vote if 0 <= vote < abstention else abstention] += 1

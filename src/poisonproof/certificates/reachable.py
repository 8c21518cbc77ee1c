"""Which partitions an attacker can poison, when the sources of all others are trusted (Theorem 4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.premises import Premise


def reachable_partitions(reachable: ArrayLike, n_partitions: int) -> NDArray[np.int64]:
    """The partitions in increasing order, from indices or a boolean mask; one sentence if they are none."""
    given = np.asarray(reachable)
    if given.ndim != 1:
        raise PoisonproofError(
            f"'reachable' must be a list of partitions or a mask. Got an array of shape {given.shape}."
        )
    if given.dtype == np.bool_:
        if len(given) != n_partitions:
            raise PoisonproofError(f"A mask of reachable partitions needs {n_partitions} entries. Got {len(given)}.")
        return np.flatnonzero(given)
    if len(given) == 0:
        return np.empty(0, np.int64)
    if given.dtype.kind not in "iu":
        raise PoisonproofError(f"Reachable partitions must be whole numbers or a mask. Got dtype {given.dtype}.")
    if given.min() < 0 or given.max() >= n_partitions:
        wrong = given.min() if given.min() < 0 else given.max()
        raise PoisonproofError(f"Reachable partitions must lie in 0 … {n_partitions - 1}. Got {wrong}.")
    return np.unique(given).astype(np.int64)


def reachable_premise(partitions: NDArray[np.int64], n_partitions: int) -> Premise:
    """The premise: how many, and which, all of them, so that a reader can compute the radii again."""
    runs = np.split(partitions, np.flatnonzero(np.diff(partitions) > 1) + 1) if len(partitions) else []
    names = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs) or "none"
    return Premise("reachable partitions", f"{len(partitions)} of {n_partitions}: {names}", declared=True)

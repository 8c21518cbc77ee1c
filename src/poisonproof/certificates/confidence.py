"""Clopper–Pearson bounds on probabilities, rounded outward to a grid of whole numbers.

From here on a probability p is a whole number of 1/GRID, so that everything a certificate does with
bounds is exact. A lower bound is on or below the true Clopper–Pearson bound, an upper bound on or above.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv

from poisonproof.errors import PoisonproofError

GRID = 1 << 32
# betainc is good to a few units in the last place; a bound must pass with this much to spare.
SLACK = 1e-9


class Interval(NamedTuple):
    """Lower and upper bounds, in units of 1/GRID."""

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]


def clopper_pearson(successes: ArrayLike, trials: ArrayLike, level: float) -> Interval:
    """Bounds that each fail with probability at most ``level``, whatever the true probability is.

    With X ~ Binomial(trials, p), the lower bound is the largest p with P(X ≥ successes) ≤ level (0 without
    successes), and the upper bound its mirror image. Each side has the whole level: an interval of both
    fails with probability at most twice that.
    """
    hits, tries = np.broadcast_arrays(np.asarray(successes, np.int64), np.asarray(trials, np.int64))
    if hits.size and not ((hits >= 0) & (hits <= tries)).all():
        raise PoisonproofError("There must be 0 … trials successes; votes for a class cannot be more than draws.")
    if not 0 < level < 1:
        raise PoisonproofError(
            f"The level of a confidence bound must lie strictly between 0 and 1. Got {level!r} instead."
        )
    return Interval(_lower(hits, tries, level), GRID - _lower(tries - hits, tries, level))


def _lower(successes: NDArray[np.int64], trials: NDArray[np.int64], level: float) -> NDArray[np.int64]:
    base = int(trials.max(initial=0)) + 1
    different, where = np.unique(successes.ravel() * base + trials.ravel(), return_inverse=True)
    return _lower_of_pairs(different // base, different % base, level)[where].reshape(successes.shape)


def _lower_of_pairs(hits: NDArray[np.int64], trials: NDArray[np.int64], level: float) -> NDArray[np.int64]:
    """The guess of `betaincinv`, taken down the grid until the tail probability is seen to be small enough."""
    some = hits > 0
    a, b = np.where(some, hits, 1).astype(np.float64), np.where(some, trials - hits + 1, 1).astype(np.float64)
    guess = np.nan_to_num(betaincinv(a, b, level), nan=1.0)
    bound = np.where(some, np.floor(np.nextafter(guess, 0.0) * GRID), 0).astype(np.int64)
    step = 1
    while True:
        fails = (bound > 0) & ~(betainc(a, b, bound / GRID) <= level * (1 - SLACK))
        if not fails.any():
            return bound
        bound[fails] = np.maximum(bound[fails] - step, 0)
        step *= 2

"""Radii against being turned to one class; the mathematics is in `poisonproof.certificates.theorem2`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.samples.labels import label_cells, places_of
from poisonproof.system.threads import in_threads
from poisonproof.votes.ballots import Ballots
from poisonproof.votes.neighbours import Neighbours
from poisonproof.votes.votes import Votes

ROWS_PER_TASK = 512


class TargetRadii(NamedTuple):
    """What a method proves against one target."""

    prediction: NDArray[np.int64]
    margin: NDArray[np.int64]
    radius: NDArray[np.int64]
    exact: NDArray[np.bool_] | None = None  # where samples vote


def target_code(votes: Votes | Ballots | Neighbours, target: Any) -> int:
    """The class index of a label that the attacker wants; one sentence if it is no class."""
    code = int(places_of(label_cells([target]), label_cells(votes.classes.tolist()))[0])
    if code < 0:
        raise PoisonproofError(
            f"The 'target' of certify must be one of the {len(votes.classes)} classes, as a label. Got {target!r} "
            "instead."
        )
    return code


def by_the_bound(votes: Votes, target: int) -> TargetRadii:
    """⌊m / 2d⌋ with m the prediction's lead over the target."""
    counts = votes.counts()
    prediction, rows = counts.argmax(axis=1), np.arange(votes.n_test)
    margin = counts[rows, prediction] - counts[:, target] - (target < prediction)
    margin[prediction == target] = 0
    return TargetRadii(prediction, margin, margin // (2 * votes.spread.d))


def by_votes(votes: Votes, target: int, n_jobs: int, within: NDArray[np.int64] | None = None) -> TargetRadii:
    """Theorem 2 for every class that must be overtaken, and the fewest base classifiers with which that is done."""
    from poisonproof.certificates.theorem2 import target_rows

    spread = votes.spread
    reached = spread.arrays if within is None else spread.arrays.within(within)
    small = np.empty(0, np.min_scalar_type(2 * spread.d))
    prediction, margin, radius = (np.empty(votes.n_test, np.int64) for _ in range(3))

    def work(start: int, stop: int) -> None:
        rows = np.ascontiguousarray(votes.matrix[start:stop])
        parts = (array[start:stop] for array in (prediction, margin, radius))
        target_rows(rows, reached, len(votes.classes), target, small, *parts)

    in_threads(votes.n_test, ROWS_PER_TASK, work, n_jobs)
    if within is not None and len(within) == 0:
        radius[prediction != target] = spread.n_partitions
    return TargetRadii(prediction, margin, radius)

"""What a run will cost in time, memory and disk, from what a pilot's base classifiers cost.

Seconds are those that a run's manifest calls "train and vote". What depends on the size of a subset is read off between
the pilot's sizes along a straight line in logarithms; bytes follow from what the code allocates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from poisonproof.core.votes import vote_dtype
from poisonproof.planning.pilot import Pilot, PooledTiming
from poisonproof.system.determinism import n_cores
from poisonproof.training.member_files import MEMBERS_PER_FILE
from poisonproof.training.pooled import KERNEL_BYTES

INDEX_BYTES = 8
COEFFICIENT_BYTES = 4
SOLVE_BYTES = 12  # of one number of a subset's kernel matrix, with the products it is made from


@dataclass(frozen=True)
class Bill:
    """Seconds to train and vote, and bytes of memory at most and of disk in the end."""

    seconds: float
    memory: float
    disk: float


@dataclass(frozen=True)
class Site:
    """The data and the machine that a bill is for.

    Attributes
    ----------
    n_train, n_test, n_classes : int
    sample_bytes : float
        One sample in memory.
    workers : int
        Worker processes of learners that are not pooled.
    start : float
        Seconds to start them.
    resident : int
        Bytes that a process takes before it has any samples.
    """

    n_train: int
    n_test: int
    n_classes: int
    sample_bytes: float
    workers: int
    start: float
    resident: int


def bill(pilots: Sequence[Pilot], n_members: int, k: float, site: Site) -> Bill:
    """What an ensemble of this many base classifiers costs, each on 1/k of the samples."""
    size = site.n_train / k
    votes = float(site.n_test) * n_members * vote_dtype(site.n_classes)().itemsize
    samples = (site.n_train + site.n_test) * site.sample_bytes
    if isinstance(pilots[0].timing, PooledTiming):
        return _pooled(pilots, n_members, size, site, votes, samples)
    fit, vote, save, kept = (_along(pilots, size, name) for name in ("fit", "vote", "save", "bytes_kept"))
    together = max(n_members / site.workers, min(n_members, MEMBERS_PER_FILE))
    processes = 1 + (site.workers if site.workers > 1 else 0)
    in_flight = MEMBERS_PER_FILE * (2 * site.workers + 1) * (kept + site.n_test)
    return Bill(
        site.start + together * (fit + vote + save),
        processes * site.resident + 2 * samples + 2 * votes + in_flight,
        2 * votes + n_members * kept,
    )


def _pooled(pilots: Sequence[Pilot], n_members: int, size: float, site: Site, votes: float, samples: float) -> Bill:
    timing = pilots[0].timing
    assert isinstance(timing, PooledTiming)
    solve, kernel, score = (_along(pilots, size, name) for name in ("solve", "kernel", "score"))
    pool_rows, own_rows = site.n_train * timing.copies, size * timing.copies
    seconds = site.n_train * _along(pilots, size, "share") + n_members * solve
    seconds += site.n_test * (_along(pilots, size, "ask") + pool_rows * kernel + n_members * own_rows * score)
    held = n_members * own_rows * (INDEX_BYTES + COEFFICIENT_BYTES * site.n_classes)
    solving = n_cores() * own_rows * (own_rows * SOLVE_BYTES + 2 * timing.row_bytes)
    chunk = max(16 * 4 * pool_rows, min(KERNEL_BYTES, 4 * pool_rows * site.n_test))
    memory = site.resident + 2 * samples + 2 * pool_rows * timing.row_bytes + 2 * held + max(solving, chunk + votes)
    return Bill(seconds, memory, 2 * votes)


def _along(pilots: Sequence[Pilot], size: float, name: str) -> float:
    """A cost at a size of subset, between those of the pilots; beyond them, that of the nearest slope."""
    points = sorted((pilot.subset_size, max(float(getattr(pilot.timing, name)), 1e-15)) for pilot in pilots)
    sizes, values = np.log(np.array(points).T)
    if len(points) == 1:
        return float(np.exp(values[0]))
    at = int(np.clip(np.searchsorted(sizes, np.log(size)), 1, len(points) - 1))
    slope = (values[at] - values[at - 1]) / (sizes[at] - sizes[at - 1])
    return float(np.exp(values[at] + slope * (np.log(size) - sizes[at])))

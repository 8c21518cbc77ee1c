"""Counting here, in threads, or across the workers of a cluster, by joblib's door.

Each worker is sent a shard of the voters, once, and the features of the test samples; it gives back counts, or the
nearest of its own voters, and nothing else travels. What is added up or merged is whole numbers, so the result is the
same to the bit, however the voters are shared out.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from joblib._parallel_backends import (
    LokyBackend,
    MultiprocessingBackend,
    SequentialBackend,
    ThreadingBackend,
)
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed

from poisonproof.system.workers import dead_workers_told
from poisonproof.votes.nearness import Nearness
from poisonproof.votes.voters import Described, Nearest, Voters, count_cells, merged, nearest_voters

ON_THIS_MACHINE = (LokyBackend, MultiprocessingBackend, SequentialBackend, ThreadingBackend)


def count_everywhere(
    voters: Voters,
    cells: NDArray[np.int64],
    n_cells: int,
    test: Described,
    nearness: Nearness,
    limit: int,
    n_jobs: int | None = None,
) -> NDArray[np.int64]:
    """As `count_cells`, on every worker that joblib has."""
    shards = _shares(len(voters), n_jobs)
    if len(shards) < 2:
        return count_cells(voters, cells, n_cells, test, nearness, limit)
    tasks = (
        delayed(_count)(*_sent(voters.part(start, stop)), cells[start:stop], n_cells, *test, nearness, limit)
        for start, stop in shards
    )
    parts: list[NDArray[np.int64]] = _run(tasks, n_jobs)
    return np.sum(parts, axis=0)


def nearest_everywhere(
    voters: Voters,
    test: Described,
    nearness: Nearness,
    most: int,
    *,
    one_per_owner: bool = False,
    n_jobs: int | None = None,
) -> Nearest:
    """As `nearest_voters`, on every worker that joblib has; a contributor's samples are never shared out."""
    shards = [] if one_per_owner else _shares(len(voters), n_jobs)
    if len(shards) < 2:
        return nearest_voters(voters, test, nearness, most, one_per_owner=one_per_owner)
    tasks = (delayed(_nearest)(*_sent(voters.part(start, stop)), *test, nearness, most) for start, stop in shards)
    return merged([Nearest(*part) for part in _run(tasks, n_jobs)], most)


def _shares(n_voters: int, n_jobs: int | None) -> list[tuple[int, int]]:
    """Shards for the workers of a cluster; none where our own threads do the work."""
    if isinstance(get_active_backend()[0], ON_THIS_MACHINE):
        return []
    count = min(effective_n_jobs(n_jobs), max(1, n_voters))
    edges = np.linspace(0, n_voters, count + 1).astype(int).tolist()
    return list(pairwise(edges))


def _run(tasks: Any, n_jobs: int | None) -> list[Any]:
    with dead_workers_told():
        return list(Parallel(n_jobs=n_jobs)(tasks))


def _sent(shard: Voters) -> tuple[NDArray[Any], ...]:
    """Plain arrays, which a cluster's backend sends once and by themselves."""
    return shard.rows, shard.lengths, shard.codes, shard.hashes, shard.owners


def _count(*sent: Any) -> NDArray[np.int64]:
    rows, lengths, codes, hashes, owners, cells, n_cells, *test, nearness, limit = sent
    voters = Voters(rows, lengths, codes, hashes, owners, len(codes))
    return count_cells(voters, cells, n_cells, Described(*test), nearness, limit)


def _nearest(*sent: Any) -> tuple[NDArray[Any], ...]:
    rows, lengths, codes, hashes, owners, *test, nearness, most = sent
    voters = Voters(rows, lengths, codes, hashes, owners, len(codes))
    return tuple(nearest_voters(voters, Described(*test), nearness, most))

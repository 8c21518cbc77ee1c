"""Blocks: whether a spread's partitions fall into blocks that overlap inside and never across.

Found in the map itself, never taken from a label: a wrong answer here would make radii wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poisonproof.partition.spread import Spread

PAIRS = 200_000_000  # shared base classifiers that may be looked at; a larger spread counts as not grouped


@dataclass(frozen=True, eq=False)
class Blocks:
    """Two partitions of block g share at least ``overlap[g]`` ≥ 1 base classifiers; of different blocks, none.

    A block of P partitions has P base classifiers, because every partition reaches d of them and every one is fed by d.

    Attributes
    ----------
    starts : array (n_blocks + 1,)
        Block g is ``partitions[starts[g]:starts[g + 1]]`` and ``classifiers[starts[g]:starts[g + 1]]``.
    partitions, classifiers : arrays (n,)
        All partitions and all base classifiers, block by block.
    overlap : array (n_blocks,)
        λ: the fewest base classifiers that two partitions of the block share.
    exactly_one : array (n_blocks,) of bool
        Whether any two partitions of the block share exactly one.
    """

    starts: NDArray[np.int64]
    partitions: NDArray[np.int64]
    classifiers: NDArray[np.int64]
    overlap: NDArray[np.int64]
    exactly_one: NDArray[np.bool_]

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.overlap)


def find_blocks(spread: Spread) -> Blocks | None:
    """The blocks of a spread, or None if two partitions of a would-be block share nothing.

    None too if every block would hold one partition (d = 1), where there is no overlap to count, and if looking would
    take more than `PAIRS` steps. Shifts are looked at once for all partitions: j and j + δ share as many base
    classifiers as δ is a difference of two shifts.
    """
    n, d = spread.n_subsets, spread.d
    if d == 1 or (d * d if spread.shifts else n * d * d) > PAIRS:
        return None
    return _blocks_of_shifts(n, np.array(spread.shifts)) if spread.shifts else _blocks_of_table(spread)


def _blocks_of_shifts(n: int, shifts: NDArray[np.int64]) -> Blocks | None:
    """The neighbours of partition 0 are the differences of shifts; they are its block if they are closed under +."""
    shared = np.zeros(n, np.int64)
    for shift in shifts:
        shared += np.bincount((shift - shifts) % n, minlength=n)
    neighbours = np.flatnonzero(shared)
    step = n // len(neighbours)
    if not np.array_equal(neighbours, np.arange(0, n, step)):
        return None
    partitions = np.arange(n).reshape(-1, step).T
    times = shared[neighbours[1:]]
    return Blocks(
        starts=np.arange(step + 1) * len(neighbours),
        partitions=partitions.ravel(),
        classifiers=((partitions + shifts[0]) % n).ravel(),
        overlap=np.full(step, times.min()),
        exactly_one=np.full(step, bool((times == 1).all())),
    )


def _blocks_of_table(spread: Spread) -> Blocks | None:
    """Each partition must be a neighbour of exactly the same partitions as the first of its block."""
    table = spread.as_table()
    feeding = np.array([spread.partitions_of(i) for i in range(spread.n_subsets)])
    block_of = np.full(spread.n_partitions, -1)
    members: list[NDArray[np.int64]] = []
    fewest: list[int] = []
    most: list[int] = []
    for j in range(spread.n_partitions):
        neighbours, shared = np.unique(feeding[table[j]], return_counts=True)
        if block_of[j] < 0:
            if (block_of[neighbours] >= 0).any():
                return None
            block_of[neighbours] = len(members)
            members.append(neighbours)
            fewest.append(spread.d)
            most.append(0)
        g = block_of[j]
        if not np.array_equal(neighbours, members[g]):
            return None
        others = shared[neighbours != j]
        fewest[g] = min([fewest[g], *others.tolist()])
        most[g] = max([most[g], *others.tolist()])
    return Blocks(
        starts=np.cumsum([0, *(len(block) for block in members)]),
        partitions=np.concatenate(members),
        classifiers=np.concatenate([np.unique(table[block]) for block in members]),
        overlap=np.array(fewest),
        exactly_one=np.array([low == high == 1 for low, high in zip(fewest, most, strict=True)]),
    )

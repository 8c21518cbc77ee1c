"""Covers of base classifiers by partitions: a greedy attacker, and branch and bound (T2).

cov(H) = Σ w_i over the union of spread(j), j ∈ H. ``gain[j]`` is what partition j would add to the cover now; a base
classifier that is covered for the first time leaves the gains of all partitions that feed it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poisonproof.certificates.theorem2 import sum_of_largest
from poisonproof.system.compiled import copy_into, njit

SAFE, ATTACK, UNKNOWN = 0, 1, 2


@njit(nogil=True, cache=True)
def sum_of_largest_values(values: NDArray[np.int64], how_many: int, histogram: NDArray[np.int64]) -> int:
    """Sum of the largest values; negative ones do not count. ``histogram`` covers every value."""
    histogram[:] = 0
    for value in values:
        if value > 0:
            histogram[value] += 1
    return sum_of_largest(histogram, how_many)


@njit(nogil=True, cache=True)
def _cover(
    partition: int,
    weight: NDArray[np.int64],
    table: NDArray[np.int64],
    feeding: NDArray[np.int64],
    covered: NDArray[np.int64],
    gain: NDArray[np.int64],
) -> int:
    """Cover what a partition reaches: every base classifier covered for the first time leaves all gains it was in."""
    added = 0
    for i in table[partition]:
        covered[i] += 1
        if covered[i] == 1 and weight[i] > 0:
            added += weight[i]
            for j in feeding[i]:
                gain[j] -= weight[i]
    return added


@njit(nogil=True, cache=True)
def _uncover(
    partition: int,
    weight: NDArray[np.int64],
    table: NDArray[np.int64],
    feeding: NDArray[np.int64],
    covered: NDArray[np.int64],
    gain: NDArray[np.int64],
) -> int:
    """Undo `_cover`."""
    removed = 0
    for i in table[partition]:
        covered[i] -= 1
        if covered[i] == 0 and weight[i] > 0:
            removed += weight[i]
            for j in feeding[i]:
                gain[j] += weight[i]
    return removed


@njit(nogil=True, cache=True)
def greedy_attack(
    most: int,
    lead: int,
    weight: NDArray[np.int64],
    delta: NDArray[np.int64],
    table: NDArray[np.int64],
    feeding: NDArray[np.int64],
    covered: NDArray[np.int64],
    gain: NDArray[np.int64],
) -> int:
    """Size of the attack that always takes the largest gain; ``most + 1`` if that needs more than ``most``."""
    covered[:] = 0
    copy_into(gain, delta)
    total = 0
    for size in range(1, most + 1):
        total += _cover(int(np.argmax(gain)), weight, table, feeding, covered, gain)
        if total > lead:
            return size
    return most + 1


@njit(nogil=True, cache=True)
def branch_and_bound(
    size: int,
    lead: int,
    weight: NDArray[np.int64],
    delta: NDArray[np.int64],
    table: NDArray[np.int64],
    feeding: NDArray[np.int64],
    nodes: int,
    covered: NDArray[np.int64],
    gain: NDArray[np.int64],
    allowed: NDArray[np.int64],
    histogram: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Whether a cover above the lead by this many partitions exists: SAFE, ATTACK, or UNKNOWN when nodes run out.

    With S chosen and X excluded, any H ⊇ S that avoids X has cov(H) ≤ cov(S) + the size − |S| largest gains of the
    rest, since gains only shrink as S grows. Branch on the largest gain: first with it, then without.
    Also returns the cover found (ATTACK, the rest of it chosen greedily) and the number of nodes used.
    """
    n = len(weight)
    covered[:] = 0
    copy_into(gain, delta)
    excluded = np.zeros(n, np.bool_)
    picks = np.zeros(size + 1, np.int64)
    exclusions = np.zeros(n + 1, np.int64)
    n_exclusions = 0
    first_exclusion = np.zeros(size + 1, np.int64)
    depth = total = 0
    for node in range(nodes):
        best, largest = -1, 0
        for j in range(n):
            allowed[j] = -1 if excluded[j] else gain[j]
            if allowed[j] > largest:
                best, largest = j, allowed[j]
        bound = total + sum_of_largest_values(allowed, size - depth, histogram)
        if bound > lead and depth < size and best >= 0:
            total += _cover(best, weight, table, feeding, covered, gain)
            if total > lead:
                for _ in range(depth + 1, size):
                    total += _cover(int(np.argmax(gain)), weight, table, feeding, covered, gain)
                return ATTACK, total, node + 1
            picks[depth] = best
            depth += 1
            first_exclusion[depth] = n_exclusions
            continue
        while n_exclusions > first_exclusion[depth]:
            n_exclusions -= 1
            excluded[exclusions[n_exclusions]] = False
        if depth == 0:
            return SAFE, 0, node + 1
        depth -= 1
        total -= _uncover(picks[depth], weight, table, feeding, covered, gain)
        excluded[picks[depth]] = True
        exclusions[n_exclusions] = picks[depth]
        n_exclusions += 1
    return UNKNOWN, 0, nodes

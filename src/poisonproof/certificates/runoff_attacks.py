"""Attacks on a run-off election that are looked for, so that a radius can be called exact.

Greedy, and checked by the conditions of `poisonproof.certificates.runoff`: what is found is an attack, and nothing
follows from finding none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.system.compiled import njit


@njit(nogil=True, cache=True)
def gap_between(above: int, below: int, counts: NDArray[np.int64]) -> int:
    """What class ``below`` lacks to stand above ``above`` in round 1; the code of no class is a new label."""
    n_classes = len(counts) - 1
    votes = counts[below] if below < n_classes else 0
    return counts[above] - votes + (above < below < n_classes)


@njit(nogil=True, cache=True)
def greedy_attack(
    size: int, gaps: NDArray[np.int64], weights: NDArray[np.int64], table: NDArray[np.int64], feeding: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """The base classifiers reached by ``size`` partitions, each chosen for what it adds towards all gaps.

    None of them if the cover of every row of ``weights`` does not come to its gap.
    """
    n = len(table)
    reached = np.zeros(n, np.bool_)
    rest = gaps.copy()
    gains = np.zeros((len(gaps), n), np.int64)
    for q in range(len(gaps)):
        for j in range(n):
            for i in table[j]:
                gains[q, j] += weights[q, i]
    for _ in range(size):
        best, most = 0, -1.0
        for j in range(n):
            value = 0.0
            for q in range(len(gaps)):
                if rest[q] > 0:
                    value += min(gains[q, j], rest[q]) / gaps[q]
            if value > most:
                best, most = j, value
        for i in table[best]:
            if reached[i]:
                continue
            reached[i] = True
            for q in range(len(gaps)):
                rest[q] -= weights[q, i]
                for j in feeding[i]:
                    gains[q, j] -= weights[q, i]
    if rest.max() > 0:
        reached[:] = False
    return reached


@njit(nogil=True, cache=True)
def attack_on_round_1(
    size: int,
    p: int,
    a: int,
    b: int,
    votes: NDArray[Any],
    counts: NDArray[np.int64],
    table: NDArray[np.int64],
    feeding: NDArray[np.int64],
) -> bool:
    """Whether an attack of this size was found that pushes p out of round 1 by a and b."""
    n_classes = len(counts) - 1
    gaps = np.array(
        [gap_between(p, a, counts), gap_between(p, b, counts), gap_between(p, a, counts) + gap_between(p, b, counts)]
    )
    weights = np.ones((3, len(votes)), np.int64)
    for i in range(len(votes)):
        for_p, for_a, for_b = int(votes[i] == p), int(votes[i] == a < n_classes), int(votes[i] == b < n_classes)
        weights[0, i] += for_p - for_a
        weights[1, i] += for_p - for_b
        weights[2, i] += 2 * for_p - for_a - for_b
    return bool(greedy_attack(size, gaps, weights, table, feeding).any())


@njit(nogil=True, cache=True)
def attack_on_round_2(
    size: int,
    p: int,
    s: int,
    c: int,
    lead: int,
    relation: NDArray[Any],
    votes: NDArray[Any],
    counts: NDArray[np.int64],
    table: NDArray[np.int64],
    feeding: NDArray[np.int64],
) -> bool:
    """Whether an attack of this size was found after which c stands above every class but p, and beats p."""
    n_classes = len(counts) - 1
    gaps = np.array([lead, 0 if c == s else gap_between(s, c, counts)])
    weights = np.ones((2, len(votes)), np.int64)
    for i in range(len(votes)):
        weights[0, i] = relation[i]
        weights[1, i] += int(votes[i] == s < n_classes) - int(votes[i] == c < n_classes)
    reached = greedy_attack(size, gaps, weights, table, feeding)
    if not reached.any():
        return False
    after = counts.copy()
    for i in range(len(votes)):
        if reached[i]:
            after[votes[i]] -= 1
    ours = reached.sum() + (after[c] if c < n_classes else 0)
    stands_above = 0
    for x in range(n_classes):
        stands_above += x not in (p, c) and after[x] + (x < c < n_classes) > ours
    return stands_above == 0

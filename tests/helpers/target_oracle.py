"""Radii against one target, slowly: the formulas word for word, and attackers who try everything.

Nothing here shares code with the kernels.
"""

from __future__ import annotations

from itertools import combinations, product
from math import inf

import numpy as np
from numba import njit

from oracle import reached_by, winner


def theorem_2_against(votes, table, n_classes, c):
    """The largest r for which one class provably stays above c, or too few base classifiers are reached."""
    if winner(votes, n_classes) == c:
        return 0
    radii = []
    for x in range(n_classes):
        m = votes.count(x) - votes.count(c) - (c < x)
        if x == c or m < 0:
            continue
        weight = [1 + (v == x) - (v == c) for v in votes]
        delta = sorted((sum(weight[i] for i in row) for row in table), reverse=True)
        radii.append(max(r for r in range(len(delta) + 1) if sum(delta[:r]) <= m))
    fewest = next(
        size
        for size in range(len(votes) + 1)
        if sum(max(0, votes.count(x) - votes.count(c) + (x < c) - size) for x in range(n_classes) if x != c) <= size
    )
    return max(*radii, (fewest - 1) // len(table[0]))


def smallest_attack_trying_everything(votes, table, n_classes, c):
    """Fewest poisoned partitions after which c can win, over every rewriting of the votes they reach."""
    for size in range(len(table) + 1):
        for partitions in combinations(range(len(table)), size):
            reached = reached_by(partitions, table)
            for said in product(range(n_classes + 1), repeat=len(reached)):
                after = list(votes)
                for i, vote in zip(reached, said, strict=True):
                    after[i] = vote
                if winner(after, n_classes) == c:
                    return size
    return inf


@njit
def smallest_attack(votes, table, n_classes, c):
    """The same for an attacker who makes everything reached vote for c; partitions as bit masks, all of them tried."""
    n = len(votes)
    best = n + 1
    reached = np.zeros(n, np.bool_)
    counts = np.zeros(n_classes + 1, np.int64)
    for chosen in range(1 << n):
        size = 0
        reached[:] = False
        for j in range(n):
            if (chosen >> j) & 1:
                size += 1
                for i in table[j]:
                    reached[i] = True
        if size >= best:
            continue
        counts[:] = 0
        for i in range(n):
            counts[c if reached[i] else votes[i]] += 1
        wins = True
        for x in range(n_classes):
            if x != c and (counts[x] > counts[c] or (counts[x] == counts[c] and x < c)):
                wins = False
        if wins:
            best = size
    return best

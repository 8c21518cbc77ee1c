"""Slow, obvious references of what the package computes fast, and attackers who try everything.

Nothing here shares code with the kernels.
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
from numba import njit

UNSEEN = -1  # a class nobody has seen: no votes yet, and it wins ties


def winner(votes: list[int], n_classes: int) -> int:
    """The most voted class, ties to the smallest index; UNSEEN sorts first, abstentions do not count."""
    candidates = [UNSEEN, *range(n_classes)] if UNSEEN in votes else list(range(n_classes))
    return max(candidates, key=lambda c: (votes.count(c), -c))


def theorem_2(votes: list[int], table: np.ndarray, n_classes: int, unseen: bool = False) -> dict[str, int]:
    """Theorem 2, word for word, in integers (both sides times k·d)."""
    p = winner(votes, n_classes)
    rivals = [c for c in range(n_classes) if c != p] + ([UNSEEN] if unseen else [])
    outcomes = []
    for c in rivals:
        m = votes.count(p) - votes.count(c) - (1 if c < p else 0)
        weight = np.array([1 + (v == p) - (v == c) for v in votes])
        delta = sorted((int(weight[row].sum()) for row in table), reverse=True)
        r, total = 0, 0
        while r < len(delta) and total + delta[r] <= m:
            total += delta[r]
            r += 1
        outcomes.append((r, m, n_classes if c == UNSEEN else c))
    radius, _, runner_up = min(outcomes)
    margin = max(0, min(m for _, m, _ in outcomes))
    return {"prediction": p, "radius": radius, "runner_up": runner_up, "margin": margin}


def reached_by(partitions: tuple[int, ...], table: np.ndarray) -> list[int]:
    return sorted({i for j in partitions for i in table[j].tolist()})


def smallest_attack_trying_everything(votes: list[int], table: np.ndarray, n_classes: int, unseen: bool = False) -> int:
    """Fewest poisoned partitions that can change the prediction, over every rewriting of the votes they reach."""
    p = winner(votes, n_classes)
    codes = [*range(n_classes + 1), *([UNSEEN] if unseen else [])]
    for size in range(1, len(table) + 1):
        for partitions in combinations(range(len(table)), size):
            reached = reached_by(partitions, table)
            for said in product(codes, repeat=len(reached)):
                after = list(votes)
                for i, vote in zip(reached, said, strict=True):
                    after[i] = vote
                if winner(after, n_classes) != p:
                    return size
    return len(table) + 1


def smallest_attack_for_one_rival(votes: list[int], table: np.ndarray, n_classes: int, unseen: bool = False) -> int:
    """The same for an attacker who makes all reached base classifiers vote for one rival."""
    p = winner(votes, n_classes)
    rivals = [c for c in range(n_classes) if c != p] + ([UNSEEN] if unseen else [])
    for size in range(1, len(table) + 1):
        for partitions in combinations(range(len(table)), size):
            reached = reached_by(partitions, table)
            for c in rivals:
                after = [c if i in reached else vote for i, vote in enumerate(votes)]
                if winner(after, n_classes) != p:
                    return size
    return len(table) + 1


@njit
def _count(votes, mask, code):
    total = 0
    for i in range(len(votes)):
        if votes[i] == code and not (mask >> i) & 1:
            total += 1
    return total


@njit
def smallest_attack_fast(votes, table, n_classes, unseen):
    """smallest_attack_for_one_rival for thousands of cases: partitions and base classifiers as bit masks."""
    n = len(votes)
    counts = np.zeros(n_classes, np.int64)
    for v in votes:
        if v < n_classes:
            counts[v] += 1
    p = np.argmax(counts)
    spread = np.zeros(len(table), np.int64)
    for j in range(len(table)):
        for i in table[j]:
            spread[j] |= 1 << i
    best = n + 1
    for chosen in range(1, 1 << n):
        size = 0
        mask = 0
        for j in range(n):
            if (chosen >> j) & 1:
                size += 1
                mask |= spread[j]
        if size >= best:
            continue
        reached = 0
        for i in range(n):
            reached += (mask >> i) & 1
        left = _count(votes, mask, p)
        for c in range(n_classes + (1 if unseen else 0)):
            if c == p:
                continue
            gained = reached + (_count(votes, mask, c) if c < n_classes else 0)
            if gained > left or (gained == left and (c < p or c == n_classes)):
                best = size
                break
    return best


@njit
def largest_covers(weight, table):
    """cov*(m) for m = 0 … n: the largest weight that m partitions reach, over all 2^n sets of partitions."""
    n = len(table)
    best = np.zeros(n + 1, np.int64)
    times = np.zeros(len(weight), np.int64)
    chosen = np.zeros(n, np.bool_)
    size = total = 0
    for step in range(1, 1 << n):
        j = 0
        while not (step >> j) & 1:  # Gray code: one partition enters or leaves
            j += 1
        change = -1 if chosen[j] else 1
        chosen[j] = not chosen[j]
        size += change
        for i in table[j]:
            if times[i] == (0 if change > 0 else 1):
                total += change * weight[i]
            times[i] += change
        best[size] = max(best[size], total)
    for m in range(1, n + 1):
        best[m] = max(best[m], best[m - 1])
    return best

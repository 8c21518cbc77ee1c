"""The tight certificate: overlap between spreads counted once.

Write w_i = 1 + [v_i = p] − [v_i = c] ∈ {0, 1, 2} and cov(H) = Σ w_i over the union of spread(j), j ∈ H. An attacker
who poisons the partitions H can make every reached base classifier vote c, and can do no worse; so m poisons are
harmless for rival c **if and only if** cov(H) ≤ m_c for every H of at most m partitions. Theorem 2 bounds cov(H) by
Σ_{j ∈ H} Δ_j, which counts a base classifier as often as it is reached. Here, for m = radius + 1, radius + 2, …:

1. *Theorem 2.* If the m largest Δ_j sum to at most m_c, m is harmless.
2. *Greedy attack.* Take m partitions one after the other, each with the largest residual gain. If their cover exceeds
   m_c, it is an attack of size m: the radius is m − 1, and **exact**.
3. *Dual bound (T1).* For any 0 ≤ u ≤ w: cov(H) ≤ Σ_i (w_i − u_i) + the m largest of U_j = Σ_{i ∈ spread(j)} u_i,
   because cov_w = cov_{w−u} + cov_u, the first is at most its total, the second at most a sum over H. The left side is
   an integer, so the bound may be floored. A projected subgradient looks for a good u; u lies on a grid of 1/256 and
   the bound is computed in integers, so a poor u costs radius and never soundness.
4. *Branch and bound (T2).* With S chosen and X excluded, any H ⊇ S that avoids X has cov(H) ≤ cov(S) + the
   m − |S| largest residual gains of the rest, since gains only shrink as S grows (submodularity). Branch on the
   largest gain: first with it, then without. Exhausted: no attack of size m exists. A cover above m_c: an attack,
   exact. Out of nodes: m is not certified, and the radius is not claimed to be exact.

Every step starts from Theorem 2's radius, so the result is never below it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bezoar.certificates.kernels import sum_of_largest

GRID = 256
SAFE, ATTACK, UNKNOWN = 0, 1, 2


@njit(nogil=True, cache=True)
def _sum_of_largest(values: NDArray[np.int64], how_many: int, histogram: NDArray[np.int64]) -> int:
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
def _greedy_finds_attack(
    size: int,
    lead: int,
    weight: NDArray[np.int64],
    delta: NDArray[np.int64],
    table: NDArray[np.int64],
    feeding: NDArray[np.int64],
    covered: NDArray[np.int64],
    gain: NDArray[np.int64],
) -> bool:
    covered[:] = 0
    gain[:] = delta
    total = 0
    for _ in range(size):
        total += _cover(int(np.argmax(gain)), weight, table, feeding, covered, gain)
        if total > lead:
            return True
    return total > lead


@njit(nogil=True, cache=True)
def _dual_proves_safe(
    size: int,
    lead: int,
    weight: NDArray[np.int64],
    table: NDArray[np.int64],
    iterations: int,
    u: NDArray[np.int64],
    sums: NDArray[np.int64],
    times: NDArray[np.int64],
) -> bool:
    """Whether the dual bound with some u on the grid is at most the lead."""
    n = len(weight)
    for i in range(n):
        u[i] = GRID * weight[i]
    for _ in range(iterations):
        rest = 0
        for i in range(n):
            rest += GRID * weight[i] - u[i]
        for j in range(n):
            total = 0
            for i in table[j]:
                total += u[i]
            sums[j] = total
        least = np.partition(sums, n - size)[n - size] if size < n else np.int64(0)
        bound = rest
        times[:] = 0
        chosen = 0
        for j in range(n):
            if sums[j] > least:
                chosen += 1
                bound += sums[j]
                for i in table[j]:
                    times[i] += 1
        for j in range(n):
            if chosen < size and sums[j] == least:
                chosen += 1
                bound += sums[j]
                for i in table[j]:
                    times[i] += 1
        if bound // GRID <= lead:
            return True
        length = 0
        for i in range(n):
            length += (times[i] - 1) * (times[i] - 1)
        if length == 0:
            return False
        step = (bound - GRID * lead) / length
        for i in range(n):
            moved = int(np.round(u[i] - step * (times[i] - 1)))
            u[i] = min(max(moved, 0), GRID * weight[i])
    return False


@njit(nogil=True, cache=True)
def _branch_and_bound(
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
) -> int:
    """Whether an attack of this size exists: SAFE, ATTACK, or UNKNOWN when the nodes are used up."""
    n = len(weight)
    covered[:] = 0
    gain[:] = delta
    excluded = np.zeros(n, np.bool_)
    picks = np.zeros(size + 1, np.int64)
    exclusions = np.zeros(n + 1, np.int64)
    n_exclusions = 0
    first_exclusion = np.zeros(size + 1, np.int64)
    depth = total = 0
    for _ in range(nodes):
        best, largest = -1, 0
        for j in range(n):
            allowed[j] = -1 if excluded[j] else gain[j]
            if allowed[j] > largest:
                best, largest = j, allowed[j]
        bound = total + _sum_of_largest(allowed, size - depth, histogram)
        if bound > lead and depth < size and best >= 0:
            total += _cover(best, weight, table, feeding, covered, gain)
            if total > lead:
                return ATTACK
            picks[depth] = best
            depth += 1
            first_exclusion[depth] = n_exclusions
            continue
        while n_exclusions > first_exclusion[depth]:
            n_exclusions -= 1
            excluded[exclusions[n_exclusions]] = False
        if depth == 0:
            return SAFE
        depth -= 1
        total -= _uncover(picks[depth], weight, table, feeding, covered, gain)
        excluded[picks[depth]] = True
        exclusions[n_exclusions] = picks[depth]
        n_exclusions += 1
    return UNKNOWN


@njit(nogil=True, cache=True)
def tighten_rows(
    votes: NDArray[Any],
    table: NDArray[np.int64],
    feeding: NDArray[np.int64],
    n_classes: int,
    unseen_class: bool,
    iterations: int,
    nodes: int,
    prediction: NDArray[np.int64],
    runner_up: NDArray[np.int64],
    radius: NDArray[np.int64],
    exact: NDArray[np.bool_],
) -> None:
    """Raise Theorem 2's radii where no larger attack exists; say where an attack one larger was found.

    ``prediction`` and ``runner_up`` come from Theorem 2; ``runner_up``, ``radius`` and ``exact`` are filled.
    """
    n, d = table.shape
    counts = np.zeros(n_classes + 1, np.int64)
    weight = np.empty(n, np.int64)
    delta = np.empty(n, np.int64)
    gain, covered, allowed = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    u, sums, times = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    histogram = np.zeros(2 * d + 1, np.int64)
    for t in range(votes.shape[0]):
        row = votes[t]
        counts[:] = 0
        for vote in row:
            counts[vote] += 1
        p = prediction[t]
        # Theorem 2's runner-up first: it usually sets this radius too, and bounds the work on the others.
        first = runner_up[t]
        best_radius = n
        for step in range(-1, n_classes + unseen_class):
            c = first if step < 0 else step
            if c == p or step == first:
                continue
            hits = counts[c] if c < n_classes else 0
            lead = counts[p] - hits - (c < p or c == n_classes)
            if step >= 0 and lead // (2 * d) >= best_radius:
                continue
            for i in range(n):
                weight[i] = 1 + (row[i] == p) - (row[i] == c and c < n_classes)
            for j in range(n):
                total = 0
                for i in table[j]:
                    total += weight[i]
                delta[j] = total
            size = 0
            found = False
            while size < best_radius:
                trial = size + 1
                if lead >= 0 and _sum_of_largest(delta, trial, histogram) <= lead:
                    size = trial
                    continue
                if lead < 0 or _greedy_finds_attack(trial, lead, weight, delta, table, feeding, covered, gain):
                    found = True
                    break
                if _dual_proves_safe(trial, lead, weight, table, iterations, u, sums, times):
                    size = trial
                    continue
                outcome = _branch_and_bound(
                    trial, lead, weight, delta, table, feeding, nodes, covered, gain, allowed, histogram
                )
                if outcome != SAFE:
                    found = outcome == ATTACK
                    break
                size = trial
            if step < 0 or size < best_radius:
                best_radius = size
                runner_up[t] = c
                exact[t] = found
        radius[t] = best_radius

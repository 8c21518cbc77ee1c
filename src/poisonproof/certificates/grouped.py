"""The grouped bound (T3): spreads whose partitions overlap by design.

Partitions fall into blocks (`poisonproof.certificates.overlap`): two partitions of one block share at least λ ≥ 1 base
classifiers, of different blocks none. Every base classifier is fed by d partitions. Notation as in
`poisonproof.certificates.tight`.

*Blocks.* They touch different base classifiers, so cov(H) is the sum over blocks of the cover inside each, and

    max cov(H) over |H| = m  =  max { Σ_g F*_g(t_g) : Σ_g t_g = m },   F*_g(t) = the largest cover by t picks in g.

(Fewer than m picks cover no more than m.) With upper bounds F_g ≥ F*_g this bounds every attack of size m.

*T3.* Let S be t picks of a block, t_i the number of them that feed base classifier i, τ = min(d, t). Then
cov(S) = Σ_{j ∈ S} Σ_{i ∈ spread(j)} w_i / t_i. Put a_i = t_i − 1. For i ∈ spread(j), j ∈ S: 0 ≤ a_i ≤ τ − 1, and
Σ_{i ∈ spread(j)} a_i ≥ λ(t − 1), because every other pick shares at least λ base classifiers with j. By concavity
1 − 1/(1 + a) ≥ a/τ on 0 ≤ a ≤ τ − 1 (equal at both ends). So the share of j in cov(S) is at most Δ_j − pen_j(t)/τ with

    pen_j(t) = min { Σ_{i ∈ spread(j)} w_i a_i : Σ a_i ≥ λ(t − 1), 0 ≤ a_i ≤ τ − 1 },

found by filling the cheapest base classifiers first, and cov(S) ≤ ⌊(sum of the t largest τΔ_j − pen_j(t)) / τ⌋.

*Exactly one shared (planes).* Since 1 = t − C(t, 2) + C(t − 1, 2) for every t ≥ 1,
cov(S) = Σ_{j ∈ S} Δ_j − Σ_i w_i C(t_i, 2) + Σ_i w_i C(t_i − 1, 2) over the i that S reaches. The second term is
½ Σ_{j ∈ S} Σ_{i ∈ spread(j)} w_i a_i ≥ ½ Σ_{j ∈ S} pen_j(t). In the third, w_i ≤ 2 and
C(t_i − 1, 2) = C(t_i, 2)·(t_i − 2)/t_i ≤ C(t_i, 2)·(t − 2)/t; the C(t_i, 2) add up to the C(t, 2) pairs of picks, so
it is at most 2·C(t − 1, 2). Hence cov(S) ≤ ⌊(sum of the t largest 2Δ_j − pen_j(t)) / 2⌋ + 2·C(t − 1, 2). All t − 1
overlaps of a pick may fall on *one* cheap base classifier, which is why pen_j(t) is the same as above.

*Any bounds.* F*_g(t) is at most the block's total weight and at most F*_g(t + 1); and F*_g(t) ≤ F*_g(t − 1)·t/(t − 1):
the parts of a cover that only one of its t picks reaches sum to at most the cover, so leaving out the pick with the
smallest part costs at most a t-th. All are applied in integers, rounded down, because covers are integers.

*The best allocation of m picks.* For any μ ≥ 0, with V_g = max_t (F_g(t) − μt), an allocation is worth
μm + Σ_g V_g − Σ_g slack_g(t_g) where slack_g(t) = V_g − F_g(t) + μt ≥ 0. Only those t whose slack is at most
μm + Σ_g V_g − lead − 1 can be part of an allocation worth more than the lead; the dynamic programme over blocks, which
finds the allocation with the least slack, looks at no others.

*Exact.* If the best allocation is worth more than the lead, branch and bound inside the blocks looks for covers that
are worth that much: either one block cannot keep its promise, its F_g(t) is lowered and the allocation is made anew; or
every block keeps it, and the covers together are an attack. Out of nodes: undecided, which costs radius and never
soundness.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poisonproof.certificates.cover import (
    ATTACK,
    SAFE,
    UNKNOWN,
    branch_and_bound,
)
from poisonproof.certificates.theorem2 import sum_of_largest
from poisonproof.system.compiled import njit


@njit(nogil=True, cache=True)
def picks_to_bound(most: int, n_blocks: int) -> int:
    """Up to how many picks in one block T3 is worked out, when ``most`` picks are shared out; far above the average."""
    return 4 * (most // n_blocks + 1) + 4


@njit(nogil=True, cache=True)
def bound_blocks(
    picks: int,
    weight: NDArray[np.int64],
    table: NDArray[np.int64],
    starts: NDArray[np.int64],
    overlap: NDArray[np.int64],
    exactly_one: NDArray[np.bool_],
    bounds: NDArray[np.int64],
    covers: NDArray[np.int64],
) -> None:
    """Fill bounds[starts[g] + g + t] ≥ F*_g(t) for t = 0 … the size of block g, by T3 for t ≤ picks; covers with 0.

    Partitions and base classifiers are numbered block by block; row j of the table holds positions inside j's block.
    """
    d = table.shape[1]
    zeros = np.empty(len(table), np.int64)
    ones = np.empty(len(table), np.int64)
    histogram = np.empty(2 * d * max(d, 2) + 1, np.int64)
    covers[:] = 0
    for g in range(len(overlap)):
        start, stop = starts[g], starts[g + 1]
        inside = weight[start:stop]
        for j in range(start, stop):
            zeros[j] = ones[j] = 0
            for i in table[j]:
                zeros[j] += inside[i] == 0
                ones[j] += inside[i] == 1
        total = inside.sum()
        line = bounds[start + g : stop + g + 1]
        line[0] = 0
        for t in range(1, len(line)):
            if t > picks:
                line[t] = min(total, line[t - 1] * t // (t - 1))
                continue
            tau = min(d, t)
            shares = _sum_of_shares(tau, t, overlap[g], d, zeros[start:stop], ones[start:stop], histogram)
            line[t] = min(total, shares // tau)
            spare = (t - 1) * (t - 2)
            if exactly_one[g] and spare < line[t]:
                shares = _sum_of_shares(2, t, overlap[g], d, zeros[start:stop], ones[start:stop], histogram)
                line[t] = min(line[t], shares // 2 + spare)
        _close(line)


@njit(nogil=True, cache=True)
def _sum_of_shares(
    scale: int,
    t: int,
    overlap: int,
    d: int,
    zeros: NDArray[np.int64],
    ones: NDArray[np.int64],
    histogram: NDArray[np.int64],
) -> int:
    """Sum of the t largest scale·Δ_j − pen_j(t), negative ones counted as 0."""
    values = histogram[: 2 * d * scale + 1]
    values[:] = 0
    room = min(d, t) - 1
    for j in range(len(zeros)):
        delta = 2 * (d - zeros[j]) - ones[j]
        dear = overlap * (t - 1) - zeros[j] * room
        cheap = min(max(dear, 0), ones[j] * room)
        dear = min(max(dear - cheap, 0), (d - zeros[j] - ones[j]) * room)
        values[max(scale * delta - cheap - 2 * dear, 0)] += 1
    return sum_of_largest(values, t)


@njit(nogil=True, cache=True)
def _close(line: NDArray[np.int64]) -> None:
    """Lower a block's bounds to what follows from one another."""
    for t in range(len(line) - 2, 0, -1):
        line[t] = min(line[t], line[t + 1])
    for t in range(2, len(line)):
        line[t] = min(line[t], line[t - 1] * t // (t - 1))


@njit(nogil=True, cache=True)
def _relaxed(
    mu: int, size: int, bounds: NDArray[np.int64], starts: NDArray[np.int64], best: NDArray[np.int64]
) -> tuple[int, int]:
    """μ·size + Σ_g V_g with best[g] = V_g, and the fewest picks that attain all V_g."""
    worth, picks = mu * size, 0
    for g in range(len(starts) - 1):
        line = bounds[starts[g] + g : starts[g + 1] + g + 1]
        best[g] = at = 0
        for t in range(1, min(len(line) - 1, size) + 1):
            if line[t] - mu * t > best[g]:
                best[g], at = line[t] - mu * t, t
            if line[-1] - mu * t <= best[g]:
                break
        worth += best[g]
        picks += at
    return worth, picks


@njit(nogil=True, cache=True)
def allocate(
    size: int,
    lead: int,
    d: int,
    bounds: NDArray[np.int64],
    starts: NDArray[np.int64],
    allocation: NDArray[np.int64],
) -> bool:
    """Whether picks t_g with Σ t_g = size and Σ_g bounds of t_g > lead exist; then the best are in ``allocation``."""
    n_blocks = len(starts) - 1
    best = np.empty(n_blocks, np.int64)
    low, high = 0, 2 * d
    while low < high:
        mu = (low + high) // 2
        if _relaxed(mu, size, bounds, starts, best)[1] > size:
            low = mu + 1
        else:
            high = mu
    mu = low
    if mu > 0 and _relaxed(mu - 1, size, bounds, starts, best)[0] < _relaxed(mu, size, bounds, starts, best)[0]:
        mu -= 1
    excess = _relaxed(mu, size, bounds, starts, best)[0] - lead - 1
    if excess < 0:
        return False

    least = np.full(size + 1, excess + 1, np.int64)
    after = np.empty(size + 1, np.int64)
    choice = np.empty((n_blocks, size + 1), np.int32)
    least[0] = 0
    first = last = 0
    for g in range(n_blocks):
        line = bounds[starts[g] + g : starts[g + 1] + g + 1]
        after[:] = excess + 1
        for t in range(min(len(line) - 1, size) + 1):
            slack = best[g] - line[t] + mu * t
            if slack <= excess:
                for x in range(first, min(last, size - t) + 1):
                    if least[x] + slack < after[x + t]:
                        after[x + t] = least[x] + slack
                        choice[g, x + t] = t
        least, after = after, least
        first, last = size + 1, -1
        for x in range(size + 1):
            if least[x] <= excess:
                first, last = min(first, x), x
    if least[size] > excess:
        return False
    x = size
    for g in range(n_blocks - 1, -1, -1):
        allocation[g] = choice[g, x]
        x -= choice[g, x]
    return True


@njit(nogil=True, cache=True)
def _share(
    g: int,
    weight: NDArray[np.int64],
    starts: NDArray[np.int64],
    twin: NDArray[np.int64],
    bounds: NDArray[np.int64],
    covers: NDArray[np.int64],
) -> None:
    """Tell what is known of a block to all blocks with the same map and the same weights."""
    start, size = starts[g], starts[g + 1] - starts[g]
    for h in range(len(twin)):
        if h != g and twin[h] == twin[g]:
            same = True
            for i in range(size):
                if weight[start + i] != weight[starts[h] + i]:
                    same = False
                    break
            if same:
                for t in range(size + 1):
                    bounds[starts[h] + h + t] = bounds[start + g + t]
                    covers[starts[h] + h + t] = covers[start + g + t]


@njit(nogil=True, cache=True)
def _settle(
    lead: int,
    nodes: int,
    weight: NDArray[np.int64],
    delta: NDArray[np.int64],
    table: NDArray[np.int64],
    feeding: NDArray[np.int64],
    starts: NDArray[np.int64],
    twin: NDArray[np.int64],
    bounds: NDArray[np.int64],
    covers: NDArray[np.int64],
    allocation: NDArray[np.int64],
    covered: NDArray[np.int64],
    gain: NDArray[np.int64],
    allowed: NDArray[np.int64],
    histogram: NDArray[np.int64],
) -> tuple[int, int]:
    """Hold an allocation to its promise: SAFE (a bound was lowered), ATTACK (every block keeps it) or UNKNOWN.

    Also returns how many nodes are left.
    """
    promised = most = 0
    n_blocks = len(allocation)
    for g in range(n_blocks):
        promised += bounds[starts[g] + g + allocation[g]]
        most = max(most, allocation[g])
    for turn in range(n_blocks * (most + 1)):  # few picks first: they are settled fastest
        t, g = divmod(turn, n_blocks)
        if allocation[g] != t:
            continue
        start, stop = starts[g], starts[g + 1]
        at = start + g + t
        harmless = lead - promised + bounds[at]
        while covers[at] < bounds[at]:
            sought = max(harmless, covers[at])
            outcome, cover, used = branch_and_bound(
                t,
                sought,
                weight[start:stop],
                delta[start:stop],
                table[start:stop],
                feeding[start:stop],
                nodes,
                covered[start:stop],
                gain[start:stop],
                allowed[start:stop],
                histogram,
            )
            nodes -= used
            if outcome == UNKNOWN:
                return UNKNOWN, nodes
            if outcome == ATTACK:
                covers[at] = cover
            else:
                bounds[at] = sought
                _close(bounds[start + g : stop + g + 1])
            _share(g, weight, starts, twin, bounds, covers)
            if outcome == SAFE:
                return SAFE, nodes
    return ATTACK, nodes


@njit(nogil=True, cache=True)
def raise_by_blocks(
    size: int,
    ceiling: int,
    lead: int,
    nodes: int,
    weight: NDArray[np.int64],
    delta: NDArray[np.int64],
    table: NDArray[np.int64],
    feeding: NDArray[np.int64],
    starts: NDArray[np.int64],
    twin: NDArray[np.int64],
    bounds: NDArray[np.int64],
    covers: NDArray[np.int64],
    covered: NDArray[np.int64],
    gain: NDArray[np.int64],
    allowed: NDArray[np.int64],
    histogram: NDArray[np.int64],
) -> tuple[int, int]:
    """The largest size below the ceiling proved harmless, and the ceiling, lowered to an attack if one was found.

    ``size`` is known to be harmless. ``bounds`` and ``covers`` come from `bound_blocks`; bounds are lowered and covers
    raised in place, and stay true for these weights whatever the lead. Blocks with the same ``twin`` have the same map.
    """
    d = table.shape[1]
    allocation = np.empty(len(starts) - 1, np.int64)
    if size + 1 < ceiling and not allocate(ceiling - 1, lead, d, bounds, starts, allocation):
        return ceiling - 1, ceiling
    while size + 1 < ceiling:
        if not allocate(size + 1, lead, d, bounds, starts, allocation):
            size += 1
            continue
        outcome, nodes = _settle(
            lead,
            nodes,
            weight,
            delta,
            table,
            feeding,
            starts,
            twin,
            bounds,
            covers,
            allocation,
            covered,
            gain,
            allowed,
            histogram,
        )
        if outcome == ATTACK:
            return size, size + 1
        if outcome == UNKNOWN:
            break
    return size, ceiling

"""The grouped bound (T3): spreads whose partitions overlap by design.

Partitions fall into blocks: two partitions of one block share at least λ ≥ 1 base
classifiers, of different blocks none. Every base classifier is fed by d partitions. Notation as in
`poisonproof.core.tight`.

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

Whether partitions fall into such blocks is found in the map itself, never taken from a label: a wrong answer would make
radii wrong.

*Branch and bound (T2).* ``gain[j]`` is what partition j would add to the cover now; a base classifier that is covered
for the first time leaves the gains of all partitions that feed it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.spread import Spread
from poisonproof.core.theorem2 import sum_of_largest
from poisonproof.system.compiled import copy_into, njit

PAIRS = 200_000_000  # shared base classifiers that may be looked at; a larger spread counts as not grouped
SAFE, ATTACK, UNKNOWN = 0, 1, 2


class Covering(NamedTuple):
    """Weights w, their sums Δ, who reaches whom; and scratch: how often each is covered, gains, a count."""

    weight: NDArray[np.int64]
    delta: NDArray[np.int64]
    table: NDArray[np.int64]
    feeding: NDArray[np.int64]
    covered: NDArray[np.int64]
    gain: NDArray[np.int64]
    histogram: NDArray[np.int64]


class Groups(NamedTuple):
    """Blocks as kernels take them: partitions and base classifiers are numbered block by block.

    Block g is ``starts[g] … starts[g + 1] − 1``; two of its partitions share at least ``overlap[g]`` base classifiers,
    or ``exactly_one[g]``. Blocks of equal ``same_map`` have one map. The tables hold positions inside a block.
    """

    starts: NDArray[np.int64]
    overlap: NDArray[np.int64]
    exactly_one: NDArray[np.bool_]
    same_map: NDArray[np.int64]
    table: NDArray[np.int64]
    feeding: NDArray[np.int64]


class Known(NamedTuple):
    """What is known of the covers in each block g by t picks, at ``starts[g] + g + t``: a bound, and one found."""

    bounds: NDArray[np.int64]
    covers: NDArray[np.int64]


@njit(nogil=True, cache=True)
def line_of(values: NDArray[np.int64], starts: NDArray[np.int64], g: int) -> NDArray[np.int64]:
    """Those of block g, by the number of picks."""
    return values[starts[g] + g : starts[g + 1] + g + 1]


@njit(nogil=True, cache=True)
def picks_to_bound(most: int, n_blocks: int) -> int:
    """Up to how many picks in one block T3 is worked out, when ``most`` picks are shared out; far above the average."""
    return 4 * (most // n_blocks + 1) + 4


@njit(nogil=True, cache=True)
def bound_blocks(picks: int, weight: NDArray[np.int64], groups: Groups, known: Known) -> None:
    """Fill bounds ≥ F*_g(t) for t = 0 … the size of each block g, by T3 for t ≤ picks; covers with 0."""
    d, starts = groups.table.shape[1], groups.starts
    zeros = np.zeros(len(groups.table), np.int64)
    ones = np.zeros(len(groups.table), np.int64)
    histogram = np.empty(2 * d * max(d, 2) + 1, np.int64)
    known.covers[:] = 0
    for g in range(len(groups.overlap)):
        start, stop = starts[g], starts[g + 1]
        inside = weight[start:stop]
        for j in range(start, stop):
            for i in groups.table[j]:
                zeros[j] += inside[i] == 0
                ones[j] += inside[i] == 1
        total = inside.sum()
        line = line_of(known.bounds, starts, g)
        line[0] = 0
        for t in range(1, len(line)):
            if t > picks:
                line[t] = min(total, line[t - 1] * t // (t - 1))
                continue
            tau = min(d, t)
            shares = _sum_of_shares(tau, t, groups.overlap[g], d, zeros[start:stop], ones[start:stop], histogram)
            line[t] = min(total, shares // tau)
            spare = (t - 1) * (t - 2)
            if groups.exactly_one[g] and spare < line[t]:
                shares = _sum_of_shares(2, t, groups.overlap[g], d, zeros[start:stop], ones[start:stop], histogram)
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
        line = line_of(bounds, starts, g)
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
        line = line_of(bounds, starts, g)
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
def _share(g: int, weight: NDArray[np.int64], groups: Groups, known: Known) -> None:
    """Tell what is known of a block to all blocks with the same map and the same weights."""
    starts = groups.starts
    own = weight[starts[g] : starts[g + 1]]
    for h in range(len(groups.same_map)):
        if h != g and groups.same_map[h] == groups.same_map[g]:
            other = weight[starts[h] : starts[h + 1]]
            same = True
            for i in range(len(own)):
                same &= own[i] == other[i]
            if same:
                copy_into(line_of(known.bounds, starts, h), line_of(known.bounds, starts, g))
                copy_into(line_of(known.covers, starts, h), line_of(known.covers, starts, g))


@njit(nogil=True, cache=True)
def _settle(
    lead: int, nodes: int, whole: Covering, groups: Groups, known: Known, allocation: NDArray[np.int64]
) -> tuple[int, int]:
    """Hold an allocation to its promise: SAFE (a bound was lowered), ATTACK (every block keeps it) or UNKNOWN.

    Also returns how many nodes are left.
    """
    starts = groups.starts
    promised = most = 0
    n_blocks = len(allocation)
    for g in range(n_blocks):
        promised += known.bounds[starts[g] + g + allocation[g]]
        most = max(most, allocation[g])
    for turn in range(n_blocks * (most + 1)):  # few picks first: they are settled fastest
        t, g = divmod(turn, n_blocks)
        if allocation[g] != t:
            continue
        start, stop = starts[g], starts[g + 1]
        bounds, covers = line_of(known.bounds, starts, g), line_of(known.covers, starts, g)
        inside = Covering(
            whole.weight[start:stop],
            whole.delta[start:stop],
            groups.table[start:stop],
            groups.feeding[start:stop],
            whole.covered[start:stop],
            whole.gain[start:stop],
            whole.histogram,
        )
        harmless = lead - promised + bounds[t]
        while covers[t] < bounds[t]:
            sought = max(harmless, covers[t])
            outcome, cover, used = branch_and_bound(t, sought, nodes, inside)
            nodes -= used
            if outcome == UNKNOWN:
                return UNKNOWN, nodes
            if outcome == ATTACK:
                covers[t] = cover
            else:
                bounds[t] = sought
                _close(bounds)
            _share(g, whole.weight, groups, known)
            if outcome == SAFE:
                return SAFE, nodes
    return ATTACK, nodes


@njit(nogil=True, cache=True)
def raise_by_blocks(
    size: int, ceiling: int, lead: int, nodes: int, whole: Covering, groups: Groups, known: Known
) -> tuple[int, int]:
    """The largest size below the ceiling proved harmless, and the ceiling, lowered to an attack if one was found.

    ``size`` is known to be harmless. ``known`` comes from `bound_blocks`; its bounds are lowered and covers raised in
    place, and stay true for these weights whatever the lead.
    """
    d, starts = groups.table.shape[1], groups.starts
    allocation = np.empty(len(starts) - 1, np.int64)
    if size + 1 < ceiling and not allocate(ceiling - 1, lead, d, known.bounds, starts, allocation):
        return ceiling - 1, ceiling
    while size + 1 < ceiling:
        if not allocate(size + 1, lead, d, known.bounds, starts, allocation):
            size += 1
            continue
        outcome, nodes = _settle(lead, nodes, whole, groups, known, allocation)
        if outcome == ATTACK:
            return size, size + 1
        if outcome == UNKNOWN:
            break
    return size, ceiling


class Blocks(NamedTuple):
    """Two partitions of block g share at least ``overlap[g]`` ≥ 1 base classifiers; of different blocks, none.

    A block of P partitions has P base classifiers, because every partition reaches d of them and every one is fed by d.
    Block g is ``partitions[starts[g]:starts[g + 1]]`` and ``classifiers[starts[g]:starts[g + 1]]``, all of them block
    by block; ``exactly_one[g]``: whether any two partitions of the block share exactly one.
    """

    starts: NDArray[np.int64]
    partitions: NDArray[np.int64]
    classifiers: NDArray[np.int64]
    overlap: NDArray[np.int64]
    exactly_one: NDArray[np.bool_]


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
    """What shares a subset with partition 0 are the differences of shifts; its block, if they are closed under +."""
    shared = np.zeros(n, np.int64)
    for shift in shifts:
        shared += np.bincount((shift - shifts) % n, minlength=n)
    sharing = np.flatnonzero(shared)
    step = n // len(sharing)
    if not np.array_equal(sharing, np.arange(0, n, step)):
        return None
    partitions = np.arange(n).reshape(-1, step).T
    times = shared[sharing[1:]]
    return Blocks(
        starts=np.arange(step + 1) * len(sharing),
        partitions=partitions.ravel(),
        classifiers=((partitions + shifts[0]) % n).ravel(),
        overlap=np.full(step, times.min()),
        exactly_one=np.full(step, bool((times == 1).all())),
    )


def _blocks_of_table(spread: Spread) -> Blocks | None:
    """Each partition must share a subset with exactly the same partitions as the first of its block."""
    table, feeding, d = spread.as_table(), spread.feeding, spread.d
    block_of = np.full(spread.n_partitions, -1)
    members: list[NDArray[np.int64]] = []
    limits: list[tuple[int, int]] = []  # the fewest and the most that two of a block share
    for j in range(spread.n_partitions):
        sharing, shared = np.unique(feeding[table[j]], return_counts=True)
        if block_of[j] < 0:
            if (block_of[sharing] >= 0).any():
                return None
            block_of[sharing] = len(members)
            members.append(sharing)
            limits.append((d, 0))
        g = block_of[j]
        if not np.array_equal(sharing, members[g]):
            return None
        others = shared[sharing != j]
        limits[g] = min(limits[g][0], int(others.min(initial=d))), max(limits[g][1], int(others.max(initial=0)))
    return Blocks(
        starts=np.cumsum([0, *map(len, members)]),
        partitions=np.concatenate(members),
        classifiers=np.concatenate([np.unique(table[block]) for block in members]),
        overlap=np.array([fewest for fewest, _ in limits]),
        exactly_one=np.array([limit == (1, 1) for limit in limits]),
    )


@njit(nogil=True, cache=True)
def _cover(partition: int, step: int, state: Covering) -> int:
    """Cover what a partition reaches (1) or undo it (−1); what that adds to the cover.

    Every base classifier covered for the first time leaves all gains it was in.
    """
    added = 0
    for i in state.table[partition]:
        before = state.covered[i]
        state.covered[i] += step
        if before + state.covered[i] == 1 and state.weight[i] > 0:
            moved = step * state.weight[i]
            added += moved
            for j in state.feeding[i]:
                state.gain[j] -= moved
    return added


@njit(nogil=True, cache=True)
def greedy_attack(most: int, lead: int, state: Covering) -> int:
    """Size of the attack that always takes the largest gain; ``most + 1`` if that needs more than ``most``."""
    state.covered[:] = 0
    copy_into(state.gain, state.delta)
    total = 0
    for size in range(1, most + 1):
        total += _cover(int(np.argmax(state.gain)), 1, state)
        if total > lead:
            return size
    return most + 1


@njit(nogil=True, cache=True)
def branch_and_bound(size: int, lead: int, nodes: int, state: Covering) -> tuple[int, int, int]:
    """Whether a cover above the lead by this many partitions exists: SAFE, ATTACK, or UNKNOWN when nodes run out.

    With S chosen and X excluded, any H ⊇ S that avoids X has cov(H) ≤ cov(S) + the size − |S| largest gains of the
    rest, since gains only shrink as S grows. Branch on the largest gain: first with it, then without.
    Also returns the cover found (ATTACK, the rest of it chosen greedily) and the number of nodes used.
    """
    n, gain = len(state.weight), state.gain
    state.covered[:] = 0
    copy_into(gain, state.delta)
    excluded = np.zeros(n, np.bool_)
    picks = np.zeros(size + 1, np.int64)
    exclusions = np.zeros(n + 1, np.int64)
    n_exclusions = 0
    first_exclusion = np.zeros(size + 1, np.int64)
    depth = total = 0
    for node in range(nodes):
        best, largest = -1, 0
        state.histogram[:] = 0
        for j in range(n):
            if gain[j] > 0 and not excluded[j]:
                state.histogram[gain[j]] += 1
                if gain[j] > largest:
                    best, largest = j, gain[j]
        bound = total + sum_of_largest(state.histogram, size - depth)
        if bound > lead and depth < size and best >= 0:
            total += _cover(best, 1, state)
            if total > lead:
                for _ in range(depth + 1, size):
                    total += _cover(int(np.argmax(gain)), 1, state)
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
        total += _cover(picks[depth], -1, state)
        excluded[picks[depth]] = True
        exclusions[n_exclusions] = picks[depth]
        n_exclusions += 1
    return UNKNOWN, 0, nodes

"""Run-Off Election: two rounds over rankings, and how many poisons the winner withstands, in integers.

Round 1: the two classes with the most votes. Round 2: of these, the one that more base classifiers rank above the
other (see `poisonproof.votes.rankings`). Ties go to the smaller class in both rounds. Write v_i for the vote of base
classifier i, N_c for the votes of class c, P(a, b) for the number of base classifiers that rank a above b, p for the
winner, s for the other finalist, and gap(a, b) = N_a − N_b + [b > a] for what b lacks to stand above a in round 1.

An attacker who poisons the partitions H gives the base classifiers they reach, R(H), any rankings. The winner changes
**if and only if** one of these holds (cover(w) is the sum of w over R(H)):

- *p is pushed out of round 1* by two classes a and b. Both must be raised above p; a reached base classifier votes for
  one of them. That can be done exactly when cover(1 + [v=p] − [v=a]) ≥ gap(p, a), the same for b, and
  cover(1 + 2[v=p] − [v=a] − [v=b]) ≥ gap(p, a) + gap(p, b). The two gaps are not clipped at 0: votes that a has to
  spare may go to b.
- *p loses round 2* to a class c. Nothing serves c better than to be ranked first by all of R(H); that is enough exactly
  when cover(1 + [v=x] − [v=c]) ≥ gap(x, c) for every class x besides p and c, and
  cover(1 + [p above c] − [c above p]) ≥ P(p, c) − P(c, p) + [c > p].

cover(w) is at most the sum over H of w's sums over spread(j). So, with need(g, w) the fewest partitions whose sums
reach g (0 if g ≤ 0), an attack is at least as large as the need of each of its conditions:

- R1 = min over pairs {a, b} of the largest need of the three conditions (Rezaei et al., ICML 2023, for d = 1).
- R2 = min over c of the largest of: the need of the last condition; that of the first with x = s (nothing if c = s);
  and ⌈T_c / d⌉, T_c being the fewest base classifiers, of any partition, that fulfil all conditions at once (ours).
  They count by their kinds: T of them give 1 each to every x, 1 more to the x they vote for, and 0, 1 or 2 to the last
  condition. So take from the voters of each x those it still lacks, the ones with most to give first, and fill up with
  the best of all.

radius = min(R1, R2) − 1. With d = 1 both are **exact**: T_c is an attack, and for R1 the p-voters, then those who vote
for neither a nor b, serve all three conditions best. With d > 1 a greedy search looks for an attack of size radius + 1,
checked by the conditions above; where it finds one the radius is exact.

Inferred classes. An attacker may invent labels. A new one has no votes, no base classifier out of reach ranks it, and
it wins every tie (its name may sort first). One of them is a rival in both rounds. A second one, to fill both places of
round 1, buys nothing: it takes |R(H)| ≥ 2u, u being the votes that p keeps. If another class keeps a vote, it lacks at
most u and can have the second place; if none does, one new label in first place of R(H) beats p in round 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.certificates.kernels import (
    _add_reach,
    _count,
    _subtract_hits,
    how_many_fit,
)
from poisonproof.system.compiled import njit


@njit(nogil=True, cache=True)
def _need(gap: int, histogram: NDArray[np.int64], n: int) -> int:
    """Fewest of n values, given by their histogram, that sum to at least the gap; n + 1 if all of them do not."""
    return 0 if gap <= 0 else how_many_fit(histogram, n, gap - 1) + 1


@njit(nogil=True, cache=True)
def _gap(above: int, below: int, counts: NDArray[np.int64]) -> int:
    """What class ``below`` lacks to stand above ``above`` in round 1; the code of no class is a new label."""
    n_classes = len(counts) - 1
    votes = counts[below] if below < n_classes else 0
    return counts[above] - votes + (above < below < n_classes)


@njit(nogil=True, cache=True)
def _finalists(rankings: NDArray[Any], counts: NDArray[np.int64]) -> tuple[int, int]:
    """Winner and loser of round 2; with a single class, the loser is a new label."""
    n, n_classes = rankings.shape
    if n_classes == 1:
        return 0, 1
    first = int(np.argmax(counts[:n_classes]))
    second = -1
    for c in range(n_classes):
        if c != first and (second < 0 or counts[c] > counts[second]):
            second = c
    lead = 0
    for i in range(n):
        for c in rankings[i]:
            if c in (first, second):
                lead += 1 if c == first else -1
                break
    if lead > 0 or (lead == 0 and first < second):
        return first, second
    return second, first


@njit(nogil=True, cache=True)
def _relate(rankings: NDArray[Any], p: int, relation: NDArray[np.uint8]) -> None:
    """relation[c, i] = 1 + [i ranks p above c] − [i ranks c above p]; the last row is a new label, ranked nowhere."""
    n, n_classes = rankings.shape
    for i in range(n):
        place = 0
        while place < n_classes and rankings[i, place] != p and rankings[i, place] != n_classes:
            place += 1
        relation[:, i] = 2 if place < n_classes and rankings[i, place] == p else 1
        for above in range(place):
            relation[rankings[i, above], i] = 0


@njit(nogil=True, cache=True)
def _enough_members(
    how_many: int, p: int, c: int, lead: int, kinds: NDArray[np.int64], counts: NDArray[np.int64]
) -> bool:
    """Whether some ``how_many`` base classifiers, wherever they are, could make c win round 2 against p.

    ``kinds[v, g]``: base classifiers that vote v (the last: abstain) and give g to the lead to be made up.
    """
    n_classes = len(counts) - 1
    chosen = given = ones = twos = 0
    for v in range(n_classes + 1):
        if v == c and c < n_classes:
            continue
        lacking = 0
        if v != p and v < n_classes:
            lacking = max(0, _gap(v, c, counts) - how_many)
            if lacking > counts[v]:
                return False
        from_twos = min(lacking, kinds[v, 2])
        from_ones = min(lacking - from_twos, kinds[v, 1])
        chosen += lacking
        given += 2 * from_twos + from_ones
        twos += kinds[v, 2] - from_twos
        ones += kinds[v, 1] - from_ones
    if chosen > how_many:
        return False
    filled = min(twos, how_many - chosen)
    given += 2 * filled + min(ones, how_many - chosen - filled)
    return given >= lead


@njit(nogil=True, cache=True)
def _sums_histogram(
    weight: NDArray[Any],
    shifts: NDArray[np.int64],
    table: NDArray[np.int64],
    delta: NDArray[Any],
    lanes: NDArray[np.int64],
    histogram: NDArray[np.int64],
) -> None:
    """Histogram of the sums of a weight over spread(j); ``weight`` is written twice in a row."""
    _add_reach(weight, shifts, table, delta)
    _count(delta, lanes, histogram)


@njit(nogil=True, cache=True)
def _greedy_attack(
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
def _attack_on_round_1(
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
    gaps = np.array([_gap(p, a, counts), _gap(p, b, counts), _gap(p, a, counts) + _gap(p, b, counts)])
    weights = np.ones((3, len(votes)), np.int64)
    for i in range(len(votes)):
        for_p, for_a, for_b = int(votes[i] == p), int(votes[i] == a < n_classes), int(votes[i] == b < n_classes)
        weights[0, i] += for_p - for_a
        weights[1, i] += for_p - for_b
        weights[2, i] += 2 * for_p - for_a - for_b
    return bool(_greedy_attack(size, gaps, weights, table, feeding).any())


@njit(nogil=True, cache=True)
def _attack_on_round_2(
    size: int,
    p: int,
    s: int,
    c: int,
    lead: int,
    relation: NDArray[np.uint8],
    votes: NDArray[Any],
    counts: NDArray[np.int64],
    table: NDArray[np.int64],
    feeding: NDArray[np.int64],
) -> bool:
    """Whether an attack of this size was found after which c stands above every class but p, and beats p."""
    n_classes = len(counts) - 1
    gaps = np.array([lead, 0 if c == s else _gap(s, c, counts)])
    weights = np.ones((2, len(votes)), np.int64)
    for i in range(len(votes)):
        weights[0, i] = relation[c, i]
        weights[1, i] += int(votes[i] == s < n_classes) - int(votes[i] == c < n_classes)
    reached = _greedy_attack(size, gaps, weights, table, feeding)
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


@njit(nogil=True, cache=True)
def certify_runoff_rows(
    rankings: NDArray[Any],
    shifts: NDArray[np.int64],
    table: NDArray[np.int64],
    feeding: NDArray[np.int64],
    unseen_class: bool,
    small: NDArray[Any],
    prediction: NDArray[np.int64],
    runner_up: NDArray[np.int64],
    margin: NDArray[np.int64],
    radius: NDArray[np.int64],
    exact: NDArray[np.bool_],
) -> None:
    """Fill winner, the class that sets the radius, lead in round 2, radius, and whether it was shown to be exact.

    ``table`` is the spread, ``feeding`` its inverse, and ``shifts`` describe it too or are empty. ``unseen_class``
    reckons with a new label, whose code is the number of classes. ``small`` is an empty array whose dtype holds 3d.
    """
    n, n_classes = rankings.shape[1:]
    d = table.shape[1]
    counts = np.zeros(n_classes + 1, np.int64)
    row = np.empty(2 * n, rankings.dtype)
    weight = np.empty(2 * n, small.dtype)
    reach, reach_s = np.empty(n, small.dtype), np.empty(n, small.dtype)
    both, delta = np.empty(n, small.dtype), np.empty(n, small.dtype)
    reach_histogram, both_histogram = np.zeros(2 * d + 1, np.int64), np.zeros(3 * d + 1, np.int64)
    histogram = np.zeros(3 * d + 1, np.int64)
    lanes = np.zeros((4, max(n_classes, 3 * d) + 1), np.int64)
    relation = np.empty((n_classes + 1, n), np.uint8)
    kinds = np.zeros((n_classes + 1, 3), np.int64)
    pushers, pushers_need = np.empty(n_classes + 1, np.int64), np.empty(n_classes + 1, np.int64)

    for t in range(rankings.shape[0]):
        row[:n] = rankings[t, :, 0]
        row[n:] = row[:n]
        _count(row[:n], lanes, counts)
        p, s = _finalists(rankings[t], counts)
        _relate(rankings[t], p, relation)
        if s < n_classes:
            for i in range(2 * n):
                weight[i] = 1 + (row[i] == s)
            _add_reach(weight, shifts, table, reach_s)

        # p loses round 2. The other finalist first: it usually sets the radius and prunes the rest.
        best, setter, partner = n + 1, s, -1
        for step in range(-1, n_classes + unseen_class):
            c = s if step < 0 else step
            if c == p or step == s:
                continue
            lead = int(p < c < n_classes) - n
            for i in range(n):
                lead += relation[c, i]
            if step < 0:
                margin[t] = max(lead - 1, 0)
            entry = 0 if c == s else _gap(s, c, counts)
            if max(lead, entry) > 2 * d * (best - 1):
                continue
            weight[:n] = relation[c]
            weight[n:] = weight[:n]
            _sums_histogram(weight, shifts, table, delta, lanes, histogram)
            needed = _need(lead, histogram, n)
            if entry > 0 and needed < best:
                delta[:] = reach_s
                if c < n_classes and counts[c] > 0:
                    _subtract_hits(row, c, shifts, table, delta)
                _count(delta, lanes, histogram)
                needed = max(needed, _need(entry, histogram, n))
            if needed < best:
                kinds[:] = 0
                for i in range(n):
                    kinds[row[i], relation[c, i]] += 1
                while needed < best and not _enough_members(needed * d, p, c, lead, kinds, counts):
                    needed += 1
            if needed < best:
                best, setter = needed, c

        # p is pushed out of round 1 by two classes.
        for i in range(2 * n):
            weight[i] = 1 + (row[i] == p)
        _sums_histogram(weight, shifts, table, reach, lanes, reach_histogram)
        for j in range(n):
            both[j] = 2 * reach[j] - d
        _count(both, lanes, both_histogram)
        n_pushers = 0
        for c in range(n_classes + unseen_class):
            gap = _gap(p, c, counts)
            if c == p or _need(gap, reach_histogram, n) >= best:
                continue
            delta[:] = reach
            if c < n_classes and counts[c] > 0:
                _subtract_hits(row, c, shifts, table, delta)
            _count(delta, lanes, histogram)
            pushers[n_pushers], pushers_need[n_pushers] = c, _need(gap, histogram, n)
            n_pushers += 1
        for first in range(n_pushers):
            for second in range(first + 1, n_pushers):
                a, b = pushers[first], pushers[second]
                gap_a, gap_b = _gap(p, a, counts), _gap(p, b, counts)
                needed = max(pushers_need[first], pushers_need[second])
                if needed >= best or _need(gap_a + gap_b, both_histogram, n) >= best:
                    continue
                delta[:] = both
                for c in (a, b):
                    if c < n_classes and counts[c] > 0:
                        _subtract_hits(row, c, shifts, table, delta)
                _count(delta, lanes, histogram)
                needed = max(needed, _need(gap_a + gap_b, histogram, n))
                if needed < best:
                    best = needed
                    setter, partner = (a, b) if gap_a >= gap_b else (b, a)

        prediction[t], runner_up[t], radius[t] = p, setter, max(best - 1, 0)
        size = radius[t] + 1
        exact[t] = d == 1
        if d > 1 and partner >= 0:
            exact[t] = _attack_on_round_1(size, p, setter, partner, row[:n], counts, table, feeding)
        for c in range(n_classes + unseen_class):
            if c == p or exact[t]:
                continue
            lead = int(p < c < n_classes) - n
            for i in range(n):
                lead += relation[c, i]
            if max(lead, 0 if c == s else _gap(s, c, counts)) <= 2 * d * size:
                exact[t] = _attack_on_round_2(size, p, s, c, lead, relation, row[:n], counts, table, feeding)

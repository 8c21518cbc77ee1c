"""Run-Off Election: two rounds over rankings, and how many poisons the winner withstands, in integers.

Round 1: the two classes with the most votes. Round 2: of these, the one that more base classifiers rank above the
other (see `poisonproof.core.votes`). Ties go to the smaller class in both rounds. Write v_i for the vote of base
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

Cut rankings. Of many classes only the first places are kept. Where a base classifier names neither p nor c,
1 + [p above c] − [c above p] is unknown; let l be the least it can be, 0, or 1 if c is a new label, and 2 the most. The
last condition and T_c reckon with l. The need of the last condition reckons with l in the lead and with
l + ⌈(2 − l)(d − 1)/d⌉ in the sums: if the truth is l + e and m ≤ d of the partitions reach the base classifier, whole
rankings give it m·(l + e) in the sums and e more in the lead, and m·(l + e) − e ≤ m·l + (m − 1)⁺·(2 − l), which is no
more. So every need is at most what it is with whole rankings, however these go on: the radius holds for all of them
and is never above theirs. If they would elect another class, that is s, whose need is 0, and the radius is 0.
Exactness is claimed only where nothing unknown takes part. Proof: docs/proofs/run-off.md.

Inferred classes. An attacker may invent labels. A new one has no votes, no base classifier out of reach ranks it, and
it wins every tie (its name may sort first). One of them is a rival in both rounds. A second one, to fill both places of
round 1, buys nothing: it takes |R(H)| ≥ 2u, u being the votes that p keeps. If another class keeps a vote, it lacks at
most u and can have the second place; if none does, one new label in first place of R(H) beats p in round 2.

Whether rankings are rankings of their votes, compiled; `poisonproof.core.votes` loads it when there are some.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.spread import SpreadArrays
from poisonproof.core.theorem2 import (
    Workspace,
    count_values,
    count_votes,
    degree,
    how_many_fit,
    how_many_largest_fit,
    lead_over,
    pair_radius,
    sums_over_spread,
    weigh,
    workspace,
)
from poisonproof.system.compiled import copy_into, njit


@njit(nogil=True, cache=True)
def gap_between(above: int, below: int, counts: NDArray[np.int64]) -> int:
    """What class ``below`` lacks to stand above ``above`` in round 1; the code of no class is a new label."""
    return lead_over(above, below, counts) + 1


@njit(nogil=True, cache=True)
def _need_by(gap: int, histogram: NDArray[np.int64], n: int) -> int:
    """Fewest of n values, given by their histogram, that sum to at least the gap; n + 1 if all of them do not."""
    return 0 if gap <= 0 else how_many_fit(histogram, n, gap - 1) + 1


@njit(nogil=True, cache=True)
def _need(gap: int, spread: SpreadArrays, space: Workspace) -> int:
    """Fewest partitions over which the weights sum to at least the gap; n + 1 if all of them do not."""
    if gap <= 0:
        return 0
    sums_over_spread(space.weight, spread, space.delta)
    n = len(space.delta)
    return how_many_largest_fit(space.delta, n, gap - 1, space.ticks, space.lanes, space.histogram) + 1


@njit(nogil=True, cache=True)
def _need_of_pair(above: int, below: int, spread: SpreadArrays, space: Workspace) -> int:
    """Fewest partitions that raise one class above another in round 1."""
    gap = gap_between(above, below, space.counts)
    return 0 if gap <= 0 else pair_radius(above, below, gap - 1, spread, space) + 1


@njit(nogil=True, cache=True)
def _finalists(rankings: NDArray[Any], counts: NDArray[np.int64]) -> tuple[int, int]:
    """Winner and loser of round 2 by the places kept; with a single class, the loser is a new label."""
    n_classes = len(counts) - 1
    if n_classes == 1:
        return 0, 1
    first = int(np.argmax(counts[:n_classes]))
    second = -1
    for c in range(n_classes):
        if c != first and (second < 0 or counts[c] > counts[second]):
            second = c
    lead = 0
    for i in range(len(rankings)):
        for c in rankings[i]:
            if c in (first, second):
                lead += 1 if c == first else -1
                break
    if lead > 0 or (lead == 0 and first < second):
        return first, second
    return second, first


@njit(nogil=True, cache=True)
def _raise(rankings: NDArray[Any], p: int, n_classes: int, up: int, raised: NDArray[np.uint8]) -> None:
    """raised[c, i] = up where base classifier i puts class c above p; what is not written is 0."""
    for i in range(len(rankings)):
        for c in rankings[i]:
            if c in (p, n_classes):
                break
            raised[c, i] = up


@njit(nogil=True, cache=True)
def _relate(rankings: NDArray[Any], p: int, n_classes: int, d: int, least: NDArray[Any], most: NDArray[Any]) -> int:
    """1 + [i ranks p above c] − [i ranks c above p] for classes that i does not put above p; how many are unknown.

    Row 0 speaks of classes, row 1 of a new label. ``least`` is the smallest it can be, whatever was not kept, and
    ``most`` what i has to give to the sums over partitions (see the module's text).
    """
    n_places = rankings.shape[1]
    unknown = 0
    for i in range(len(rankings)):
        place = 0
        while place < n_places and rankings[i, place] != p and rankings[i, place] != n_classes:
            place += 1
        if place == n_places and place < n_classes:
            unknown += 1
            least[0, i], most[0, i] = 0, min(2, d - 1)
            least[1, i], most[1, i] = 1, min(2, d)
        else:
            value = 2 if place < n_places and rankings[i, place] == p else 1
            least[:, i] = value
            most[:, i] = value
    return unknown


@njit(nogil=True, cache=True)
def _given(c: int, relation: NDArray[Any], raised: NDArray[np.uint8], given: NDArray[Any]) -> int:
    """What every base classifier gives to class c against p, and the sum; ``relation`` as `_relate` wrote it."""
    n_classes = len(raised)
    total = 0
    for i in range(len(given)):
        given[i] = relation[1, i] if c == n_classes else relation[0, i] * (1 - raised[c, i])
        total += given[i]
    return total


@njit(nogil=True, cache=True)
def _leads(
    rankings: NDArray[Any],
    p: int,
    s: int,
    n_classes: int,
    unseen_class: bool,
    least: NDArray[Any],
    rivals: NDArray[np.int64],
    rivals_lead: NDArray[np.int64],
) -> int:
    """The rivals in round 2 and how far p is ahead of them at least: s, then the others in order; how many they are.

    Of the classes that nobody puts above p the first is the strongest: all of them have no votes and the same standing
    towards p, and ties go to the smaller class. So it speaks for the others, however many there are.
    """
    lowered = np.zeros(n_classes + 1, np.int64)
    named = np.zeros(n_classes + 1, np.bool_)
    for i in range(len(rankings)):
        for c in rankings[i]:
            if c in (p, n_classes):
                break
            named[c] = True
            lowered[c] += least[0, i]
    n_rivals = unnamed = 0
    of_classes, of_new_label = np.int64(least[0].sum()), np.int64(least[1].sum())
    for step in range(-1, n_classes + unseen_class):
        c = s if step < 0 else step
        if c == p or step == s:
            continue
        if step >= 0 and c < n_classes and not named[c]:
            unnamed += 1
            if unnamed > 1:
                continue
        lead = (of_new_label if c == n_classes else of_classes) - lowered[c] - len(rankings)
        rivals[n_rivals], rivals_lead[n_rivals] = c, lead + (p < c < n_classes)
        n_rivals += 1
    return n_rivals


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
            lacking = max(0, gap_between(v, c, counts) - how_many)
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


# Attacks that are looked for, so that a radius can be called exact: greedy, and checked by the conditions above.
# What is found is an attack, and nothing follows from finding none.


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


@njit(nogil=True, cache=True)
def certify_runoff_rows(
    rankings: NDArray[Any],
    n_classes: int,
    spread: SpreadArrays,
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

    ``rankings`` hold the first places, all of them or fewer. ``feeding`` is the inverse of the spread. ``unseen_class``
    reckons with a new label, whose code is the number of classes. ``small`` is an empty array whose dtype holds 3d.
    """
    n, d, table = rankings.shape[1], degree(spread), spread.table
    space = workspace(rankings[:, :, 0], spread, n_classes, small, 3)
    counts, row, weight, votes = space.counts, space.row, space.weight, space.row[:n]
    both = np.empty(n, small.dtype)
    reach_histogram, both_histogram = np.zeros(3 * d + 1, np.int64), np.zeros(3 * d + 1, np.int64)
    raised = np.zeros((n_classes, n), np.uint8)
    least, most = np.empty((2, n), small.dtype), np.empty((2, n), small.dtype)
    given = np.empty(n, small.dtype)
    kinds = np.zeros((n_classes + 1, 3), np.int64)
    rivals, rivals_lead = np.empty(n_classes + 1, np.int64), np.empty(n_classes + 1, np.int64)
    pushers, pushers_need = np.empty(n_classes + 1, np.int64), np.empty(n_classes + 1, np.int64)

    for t in range(rankings.shape[0]):
        count_votes(rankings[t, :, 0], space)
        p, s = _finalists(rankings[t], counts)
        unknown = _relate(rankings[t], p, n_classes, d, least, most)
        _raise(rankings[t], p, n_classes, 1, raised)
        n_rivals = _leads(rankings[t], p, s, n_classes, unseen_class, least, rivals, rivals_lead)

        # p loses round 2. The other finalist first: it usually sets the radius and prunes the rest.
        best, setter, partner = n + 1, s, -1
        margin[t] = max(rivals_lead[0] - 1, 0)
        for at in range(n_rivals):
            c, lead = rivals[at], rivals_lead[at]
            entry = 0 if c == s else gap_between(s, c, counts)
            if max(lead, entry) > 2 * d * (best - 1):
                continue
            _given(c, most, raised, weight[:n])
            copy_into(weight[n:], weight[:n])
            needed = _need(lead, spread, space)
            if entry > 0 and needed < best:
                needed = max(needed, _need_of_pair(s, c, spread, space))
            if needed < best:
                kinds[:] = 0
                _given(c, least, raised, given)
                for i in range(n):
                    kinds[row[i], given[i]] += 1
                while needed < best and not _enough_members(needed * d, p, c, lead, kinds, counts):
                    needed += 1
            if needed < best:
                best, setter = needed, c

        # p is pushed out of round 1 by two classes. Of those without votes the first two are the strongest.
        weigh(row, p, p, weight)
        sums_over_spread(weight, spread, space.delta)
        count_values(space.delta, space.lanes, reach_histogram)
        for j in range(n):
            both[j] = 2 * space.delta[j] - d
        count_values(both, space.lanes, both_histogram)
        n_pushers = without_votes = 0
        for c in range(n_classes + unseen_class):
            if c < n_classes and counts[c] == 0 and c != p:
                without_votes += 1
                if without_votes > 2:
                    continue
            if c == p or _need_by(gap_between(p, c, counts), reach_histogram, n) >= best:
                continue
            pushers[n_pushers], pushers_need[n_pushers] = c, _need_of_pair(p, c, spread, space)
            n_pushers += 1
        for first in range(n_pushers):
            for second in range(first + 1, n_pushers):
                a, b = pushers[first], pushers[second]
                gap_a, gap_b = gap_between(p, a, counts), gap_between(p, b, counts)
                needed = max(pushers_need[first], pushers_need[second])
                if needed >= best or _need_by(gap_a + gap_b, both_histogram, n) >= best:
                    continue
                for i in range(2 * n):
                    weight[i] = 1 + 2 * (row[i] == p) - (row[i] == a < n_classes) - (row[i] == b < n_classes)
                needed = max(needed, _need(gap_a + gap_b, spread, space))
                if needed < best:
                    best = needed
                    setter, partner = (a, b) if gap_a >= gap_b else (b, a)

        prediction[t], runner_up[t], radius[t] = p, setter, max(best - 1, 0)
        size = radius[t] + 1
        exact[t] = d == 1 and (unknown == 0 or partner >= 0)
        if d > 1 and partner >= 0:
            exact[t] = attack_on_round_1(size, p, setter, partner, votes, counts, table, feeding)
        for at in range(n_rivals):
            c, lead = rivals[at], rivals_lead[at]
            if exact[t] or unknown > 0:  # an attack on places that were not kept shows nothing
                break
            if max(lead, 0 if c == s else gap_between(s, c, counts)) <= 2 * d * size:
                _given(c, least, raised, given)
                exact[t] = attack_on_round_2(size, p, s, c, lead, given, votes, counts, table, feeding)
        _raise(rankings[t], p, n_classes, 0, raised)


@njit(nogil=True, cache=True)
def first_wrong(rankings: NDArray[Any], votes: NDArray[Any], n_classes: int) -> tuple[int, int, int]:
    """Number of the broken rule (0 if none is), base classifier and place."""
    n, n_places = rankings.shape
    named_by = np.full(n_classes, -1, np.int64)
    for i in range(n):
        ended = False
        for place in range(n_places):
            named = np.int64(rankings[i, place])
            if named < 0 or named > n_classes:
                return 1, i, place
            if named == n_classes:
                ended = True
                continue
            if ended:
                return 3, i, place
            if named_by[named] == i:
                return 2, i, place
            named_by[named] = i
        if np.int64(rankings[i, 0]) != np.int64(votes[i]):
            return 4, i, 0
    return 0, 0, 0

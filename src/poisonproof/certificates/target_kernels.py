"""How many poisons until the prediction could become one given class, on many test samples, in integers.

Notation as in `poisonproof.certificates.kernels` and `poisonproof.certificates.runoff`; c is the target, p ≠ c the
prediction, cover(w) the sum of w over the base classifiers R(H) that the poisoned partitions H reach.

*Votes.* After an attack c is the prediction **if and only if** it stands above *every* other class x. Nothing serves c
better than the vote of everything reached, so that is possible exactly when cover(1 + [v=x] − [v=c]) > m_x for all
x ≠ c, with m_x = N_x − N_c − [c < x]. Hence two bounds from below, and the larger one holds:

- Theorem 2 for each x: r poisons are harmless if the r largest sums of 1 + [v=x] − [v=c] over a spread come to at most
  m_x. *One* class that stays above c is enough, so the largest r over all x counts. With x = p this is the r_c of
  Theorem 2, so the result is never below it.
- T, the fewest base classifiers of any partition with which c wins: T votes raise c by T, and each x must lose
  N_x − N_c + [x < c] − T of its own voters, so T is the least number with Σ_x max(0, N_x − N_c + [x < c] − T) ≤ T.
  r poisons reach at most r·d base classifiers, so they are harmless as long as r·d < T. With d = 1 this is **exact**.

A class x is looked at only if its bound could be the larger one: the r largest of n sums come to at least r times their
mean, which is d·(n + N_x − N_c)/n.

*Run-off.* After an attack c is the prediction if and only if, for some other class y, both are in the final and c beats
y. Let a of the base classifiers in R(H) vote for c and b for y (what else they might say serves c no better than a vote
for c). Every x besides c and y must stand below both, and c must beat y:

    gap(x, c) ≤ cover([v=x] − [v=c]) + a,      gap(x, y) ≤ cover([v=x] − [v=y]) + b,
    lead = P(y, c) − P(c, y) + [c > y] ≤ cover([y above c] − [c above y]) + a − b,      a + b ≤ |R(H)|.

Dropping a or b, and adding the inequalities, gives conditions without them, each of which an attack must fulfil:

    A  cover(1 + [v=x] − [v=c]) ≥ gap(x, c)                B  cover(1 + [v=x] − [v=y]) ≥ gap(x, y)
    C  cover(1 + 2[v=x] − [v=c] − [v=y]) ≥ gap(x, c) + gap(x, y)
    D  cover(1 + [y above c] − [c above y]) ≥ lead
    E  cover(1 + 2[v=x] − 2[v=y] + [y above c] − [c above y]) ≥ 2·gap(x, y) + lead

No weight is negative (who votes y ranks y above c). So an attack that brings c into the final against y and lets it win
is at least as large as the need of each condition, and as ⌈T/d⌉, T being the fewest base classifiers that fulfil A and
D at once with b = 0 (see `poisonproof.certificates.runoff`). The smallest such bound over all y, less one, is the
radius; where the radius against any change is larger, it is that one, because to become c the prediction must change.
y may be a label that the attacker invents (inferred classes): it has no votes, wins ties, and nobody out of reach
ranks it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.certificates.kernels import _add_reach, _count, _how_many_largest_fit, _twice, _weigh
from poisonproof.certificates.runoff import _enough_members, _need, _sums_histogram
from poisonproof.certificates.runoff_attacks import gap_between, greedy_attack
from poisonproof.system.compiled import copy_into, njit
from poisonproof.votes.counting import FEW, LANES, tally


@njit(nogil=True, cache=True)
def fewest_members(counts: NDArray[np.int64], n_classes: int, target: int) -> int:
    """T: the fewest base classifiers whose votes, all given to the target, make it the most voted class."""
    fewest = 0
    while True:
        lacking = 0
        for x in range(n_classes):
            if x != target:
                lacking += max(0, counts[x] - counts[target] + (x < target) - fewest)
        if lacking <= fewest:
            return fewest
        fewest += 1


@njit(nogil=True, cache=True)
def target_rows(
    votes: NDArray[Any],
    shifts: NDArray[np.int64],
    table: NDArray[np.int64],
    n_classes: int,
    target: int,
    small: NDArray[Any],
    prediction: NDArray[np.int64],
    margin: NDArray[np.int64],
    strongest: NDArray[np.int64],
    radius: NDArray[np.int64],
) -> None:
    """Fill prediction, its lead over the target, the class that Theorem 2 keeps above it longest, and the radius.

    ``shifts`` or, if it is empty, ``table`` is the spread; a table may lack the rows of partitions that cannot be
    poisoned (Theorem 4). ``small`` is an empty array whose dtype holds 2d. Where the target is predicted already,
    margin and radius are 0.
    """
    n = votes.shape[1]
    d = len(shifts) if len(shifts) else table.shape[1]
    n_reachable = n if len(shifts) else len(table)
    counts = np.zeros(n_classes + 1, np.int64)
    row = np.empty(2 * n, votes.dtype)
    weight = np.empty(2 * n, small.dtype)
    delta = np.empty(n_reachable, small.dtype)
    histogram = np.zeros(2 * d + 1, np.int64)
    lanes = np.zeros((4, max(n_classes, 2 * d) + 1), np.int64)
    ticks = np.empty(LANES, np.uint8)
    todo = np.empty(n_classes, np.bool_)

    for t in range(votes.shape[0]):
        _twice(votes[t], row)
        if n_classes <= FEW:
            tally(row[:n], ticks, counts)
        else:
            _count(row[:n], lanes, counts)
        p = int(np.argmax(counts[:n_classes]))
        prediction[t], strongest[t] = p, p
        margin[t] = radius[t] = 0
        if p == target:
            continue
        margin[t] = counts[p] - counts[target] - (target < p)
        todo[:] = True
        todo[target] = False
        best = -1
        for _ in range(n_classes - 1):
            x = -1  # most votes first: it usually sets the radius and spares us the rest
            for c in range(n_classes):
                if todo[c] and (x < 0 or counts[c] > counts[x]):
                    x = c
            todo[x] = False
            lead = counts[x] - counts[target] - (target < x)
            if lead < 0 or (n_reachable == n and lead * n // (d * (n + counts[x] - counts[target])) <= best):
                continue
            _weigh(row, x, target, weight)
            _add_reach(weight, shifts, table, delta)
            fitted = _how_many_largest_fit(delta, n, lead, ticks, lanes, histogram)
            if fitted > best:
                best, strongest[t] = fitted, x
        members = fewest_members(counts, n_classes, target)
        radius[t] = max(best, (members - 1) // d)


@njit(nogil=True, cache=True)
def attacked_rows(
    votes: NDArray[Any],
    table: NDArray[np.int64],
    feeding: NDArray[np.int64],
    n_classes: int,
    target: int,
    prediction: NDArray[np.int64],
    radius: NDArray[np.int64],
    exact: NDArray[np.bool_],
) -> None:
    """Where a greedy attack of size radius + 1 makes the target the most voted class, so that the radius is exact."""
    n = votes.shape[1]
    counts = np.zeros(n_classes + 1, np.int64)
    for t in range(votes.shape[0]):
        exact[t] = False
        if prediction[t] == target:
            continue
        counts[:] = 0
        for vote in votes[t]:
            counts[vote] += 1
        gaps = np.empty(n_classes, np.int64)
        weights = np.empty((n_classes, n), np.int64)
        n_gaps = 0
        for x in range(n_classes):
            if x == target or counts[x] - counts[target] + (x < target) <= 0:
                continue  # the target stands above x, and every vote it gains only helps
            gaps[n_gaps] = counts[x] - counts[target] + (x < target)
            for i in range(n):
                weights[n_gaps, i] = 1 + (votes[t, i] == x) - (votes[t, i] == target)
            n_gaps += 1
        exact[t] = greedy_attack(radius[t] + 1, gaps[:n_gaps], weights[:n_gaps], table, feeding).any()


@njit(nogil=True, cache=True)
def target_runoff_rows(
    rankings: NDArray[Any],
    shifts: NDArray[np.int64],
    table: NDArray[np.int64],
    unseen_class: bool,
    target: int,
    small: NDArray[Any],
    prediction: NDArray[np.int64],
    margin: NDArray[np.int64],
    radius: NDArray[np.int64],
) -> None:
    """Raise the run-off radii to those against being turned to the target; fill the lead over it in a final.

    ``prediction`` and ``radius`` come from `certify_runoff_rows`. ``small`` is an empty array whose dtype holds 4d.
    Where the target is predicted already, margin and radius are 0.
    """
    n, n_classes = rankings.shape[1:]
    d = table.shape[1]
    c = target
    counts = np.zeros(n_classes + 1, np.int64)
    row = np.empty(n, np.int64)
    weight = np.empty(2 * n, small.dtype)
    delta = np.empty(n, small.dtype)
    histogram = np.zeros(4 * d + 1, np.int64)
    lanes = np.zeros((4, max(n_classes, 4 * d) + 1), np.int64)
    place = np.empty((n, n_classes + 1), np.int64)
    relation = np.empty(n, np.int64)
    kinds = np.zeros((n_classes + 1, 3), np.int64)

    for t in range(rankings.shape[0]):
        p = prediction[t]
        margin[t] = 0
        if p == c:
            radius[t] = 0
            continue
        counts[:] = 0
        place[:] = n_classes
        for i in range(n):
            row[i] = rankings[t, i, 0]
            counts[row[i]] += 1
            for at in range(n_classes):
                if rankings[t, i, at] < n_classes:
                    place[i, rankings[t, i, at]] = at
        best = n + 1
        for step in range(-1, n_classes + unseen_class):
            y = p if step < 0 else step  # the winner first: to meet it in the final is usually the cheapest
            if y == c or step == p:
                continue
            lead = int(y < c or y == n_classes)
            for i in range(n):
                difference = int(place[i, y] < place[i, c]) - int(place[i, c] < place[i, y])
                relation[i] = 1 + difference
                lead += difference
            if step < 0:
                margin[t] = max(lead - 1, 0)
            for i in range(n):
                weight[i] = relation[i]
            copy_into(weight[n:], weight[:n])
            _sums_histogram(weight, shifts, table, delta, lanes, histogram)
            needed = _need(lead, histogram, n)
            for x in range(n_classes):
                if x in (c, y):
                    continue
                to_target, to_other = gap_between(x, c, counts), gap_between(x, y, counts)
                for condition in range(4):
                    gap, of_rival, of_target, of_other, of_relation = to_target, 1, 1, 0, 0
                    if condition == 1:
                        gap, of_rival, of_target, of_other, of_relation = to_other, 1, 0, 1, 0
                    elif condition == 2:
                        gap, of_rival, of_target, of_other, of_relation = to_target + to_other, 2, 1, 1, 0
                    elif condition == 3:
                        gap, of_rival, of_target, of_other, of_relation = 2 * to_other + lead, 2, 0, 2, 1
                    if gap <= 0 or needed >= best:
                        continue
                    total = 0
                    for i in range(n):
                        value = (
                            (relation[i] if of_relation else 1) + of_rival * (row[i] == x) - of_target * (row[i] == c)
                        )
                        weight[i] = value - of_other * (row[i] == y and y < n_classes)
                        total += weight[i]
                    if total > 0 and gap * n <= needed * d * total:
                        continue  # as many average sums as are needed anyway come to the gap
                    copy_into(weight[n:], weight[:n])
                    _sums_histogram(weight, shifts, table, delta, lanes, histogram)
                    needed = max(needed, _need(gap, histogram, n))
            if needed < best:
                kinds[:] = 0
                for i in range(n):
                    kinds[row[i], relation[i]] += 1
                while needed < best and not _enough_members(needed * d, y, c, lead, kinds, counts):
                    needed += 1
            best = min(best, needed)
        radius[t] = max(radius[t], best - 1)

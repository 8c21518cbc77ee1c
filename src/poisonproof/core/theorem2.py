"""Theorem 2 on many test samples, in integers.

Notation (that of the paper): n base classifiers, votes v_i, p the prediction, c a rival,
m_c = N_p − N_c − [c < p], Δ_j = Σ_{i ∈ spread(j)} (1 + [v_i = p] − [v_i = c]) ∈ {0 … 2d}.
The rival c needs more than r_c poisons, r_c being the largest t whose t largest Δ_j sum to at most m_c.

`pair_radius` is that r for one class above another; everything else here is a fold over classes.

*Against any change* (`certify_rows`): the smallest r over all rivals of the prediction.

*Against one target c* (`target_rows`): after an attack c is the prediction **if and only if** it stands above *every*
other class x. Nothing serves c better than the vote of everything reached, so that is possible exactly when
cover(1 + [v=x] − [v=c]) > m_x for all x ≠ c, with m_x = N_x − N_c − [c < x] and cover(w) the sum of w over the base
classifiers that the poisoned partitions reach. Hence two bounds from below, and the larger one holds:

- *One* class that stays above c is enough, so the largest r over all x counts. With x = p this is the r_c of the
  prediction, so the result is never below it.
- T, the fewest base classifiers of any partition with which c wins: T votes raise c by T, and each x must lose
  N_x − N_c + [x < c] − T of its own voters, so T is the least number with Σ_x max(0, N_x − N_c + [x < c] − T) ≤ T.
  r poisons reach at most r·d base classifiers, so they are harmless as long as r·d < T. With d = 1 this is **exact**.

How the work is kept small, without changing any result:

- Values are at most 2d, so a histogram replaces the sort, and often the largest values alone exceed the lead.
- The rival with the smallest lead comes first. Σ (1 + [v_i = p]) over spread(j) is at least Δ_j and at most 2d, so t
  poisons take at most 2d·t of another rival's lead, which mostly shows that it cannot beat the best (r, m, c) so far;
  only where it does not, these sums are computed, once, and say the same more sharply.
- Against a target the r largest of n sums come to at least r times their mean, which is d·(n + N_x − N_c)/n: a class x
  is looked at only if its r could be the larger one.
- Bytes are copied and compared in loops of their own, which the compiler turns into wide instructions.

The kernels release the GIL and touch only their own rows and scratch, so callers may run them on row blocks in any
number of threads with the same result.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.spread import SpreadArrays
from poisonproof.system.compiled import njit

BLOCK = 8192  # bytes of a view that stay in the first-level cache while d views are added


class Workspace(NamedTuple):
    """What one call of a kernel writes into, row after row; ``row`` and ``weight`` hold their values twice."""

    row: NDArray[Any]
    weight: NDArray[Any]
    delta: NDArray[Any]
    counts: NDArray[np.int64]
    histogram: NDArray[np.int64]
    lanes: NDArray[np.int64]
    ticks: NDArray[np.uint8]


@njit(nogil=True, cache=True)
def how_many_fit(histogram: NDArray[np.int64], n: int, budget: int) -> int:
    """Largest t whose t largest values sum to at most the budget; n if all n of them do."""
    if budget < 0:
        return 0
    fitted = 0
    for value in range(len(histogram) - 1, 0, -1):
        count = histogram[value]
        if count == 0:
            continue
        affordable = budget // value
        if affordable < count:
            return fitted + affordable
        fitted += count
        budget -= count * value
    return n


@njit(nogil=True, cache=True)
def sum_of_largest(histogram: NDArray[np.int64], how_many: int) -> int:
    """Sum of the ``how_many`` largest values."""
    total = 0
    for value in range(len(histogram) - 1, 0, -1):
        taken = min(how_many, histogram[value])
        total += taken * value
        how_many -= taken
        if how_many == 0:
            break
    return total


@njit(nogil=True, cache=True)
def sums_over_spread(weight: NDArray[Any], spread: SpreadArrays, sums: NDArray[Any]) -> None:
    """sums_j = Σ_{i ∈ spread(j)} weight_i; ``weight`` is written twice in a row, so that no index wraps."""
    shifts = spread.shifts
    sums[:] = 0
    if len(shifts) == 0:
        for j in range(len(sums)):
            total = 0
            for i in spread.table[j]:
                total += weight[i]
            sums[j] = total
        return
    fours = len(shifts) // 4 * 4
    for start in range(0, len(sums), BLOCK):
        stop = min(start + BLOCK, len(sums))
        part = sums[start:stop]
        for at in range(0, fours, 4):
            view0 = weight[shifts[at] + start : shifts[at] + stop]
            view1 = weight[shifts[at + 1] + start : shifts[at + 1] + stop]
            view2 = weight[shifts[at + 2] + start : shifts[at + 2] + stop]
            view3 = weight[shifts[at + 3] + start : shifts[at + 3] + stop]
            for j in range(stop - start):
                part[j] += view0[j] + view1[j] + view2[j] + view3[j]
        for at in range(fours, len(shifts)):
            view0 = weight[shifts[at] + start : shifts[at] + stop]
            for j in range(stop - start):
                part[j] += view0[j]


@njit(nogil=True, cache=True)
def count_values(values: NDArray[Any], lanes: NDArray[np.int64], histogram: NDArray[np.int64]) -> None:
    """Histogram of small values, in four lanes: equal values in a row would otherwise wait for each other."""
    size = len(histogram)
    lanes[:, :size] = 0
    quarter = len(values) // 4
    values0, values1 = values[:quarter], values[quarter : 2 * quarter]
    values2, values3 = values[2 * quarter : 3 * quarter], values[3 * quarter : 4 * quarter]
    lane0, lane1, lane2, lane3 = lanes[0], lanes[1], lanes[2], lanes[3]
    for i in range(quarter):
        lane0[values0[i]] += 1
        lane1[values1[i]] += 1
        lane2[values2[i]] += 1
        lane3[values3[i]] += 1
    for i in range(4 * quarter, len(values)):
        lane0[values[i]] += 1
    for value in range(size):
        histogram[value] = lane0[value] + lane1[value] + lane2[value] + lane3[value]


@njit(nogil=True, cache=True)
def how_many_largest_fit(
    values: NDArray[Any],
    n: int,
    budget: int,
    ticks: NDArray[np.uint8],
    lanes: NDArray[np.int64],
    histogram: NDArray[np.int64],
) -> int:
    """`how_many_fit` of values that are not counted yet: first the largest are, and all only if these are too few."""
    if budget < 0:
        return 0
    largest = values.dtype.type(0)
    for value in values:
        largest = max(largest, value)
    fitted, left = 0, budget
    for value in range(int(largest), max(int(largest) - FEW, 0), -1):
        affordable = left // value
        count = how_many(values, value, ticks)
        if affordable < count:
            return fitted + affordable
        fitted += count
        left -= count * value
    count_values(values, lanes, histogram)
    return how_many_fit(histogram, n, budget)


@njit(nogil=True, cache=True)
def _hopeless(lead: int, c: int, best_margin: int, best: int, enough_to_tie: int, enough_to_lose: int) -> bool:
    """Whether a rival with this lead to make up cannot come before the best one by (radius, lead, class)."""
    if lead >= enough_to_lose:
        return True
    return lead >= enough_to_tie and (lead > best_margin or (lead == best_margin and c > best))


@njit(nogil=True, cache=True)
def write_twice(votes: NDArray[Any], n_classes: int, row: NDArray[Any]) -> None:
    """The votes, twice in a row, so that no index wraps; whatever is no class abstains (see `count_rows`)."""
    n, abstention = len(votes), row.dtype.type(n_classes)
    first, second = row[:n], row[n:]
    for i in range(n):
        first[i] = min(votes[i], abstention)
    for i in range(n):
        second[i] = first[i]


@njit(nogil=True, cache=True)
def weigh(row: NDArray[Any], winner: int, rival: int, weight: NDArray[Any]) -> None:
    """weight_i = 1 + [v_i = winner] − [v_i = rival], twice in a row; the winner as rival takes nothing away."""
    n = len(weight) // 2
    votes, first, second = row[:n], weight[:n], weight[n:]
    one, plus, minus = weight.dtype.type(1), row.dtype.type(winner), row.dtype.type(rival)
    if winner == rival:
        for i in range(n):
            first[i] = one + (votes[i] == plus)
    else:
        for i in range(n):
            first[i] = one + (votes[i] == plus) - (votes[i] == minus)
    for i in range(n):
        second[i] = first[i]


@njit(nogil=True, cache=True)
def degree(spread: SpreadArrays) -> int:
    """The spread degree d."""
    return len(spread.shifts) if len(spread.shifts) else spread.table.shape[1]


@njit(nogil=True, cache=True)
def workspace(
    votes: NDArray[Any], spread: SpreadArrays, n_classes: int, small: NDArray[Any], heaviest: int = 2
) -> Workspace:
    """Scratch for votes of this type and width; ``small`` is an empty array whose dtype holds d times the heaviest."""
    n, most = votes.shape[1], heaviest * degree(spread)
    return Workspace(
        np.empty(2 * n, votes.dtype),
        np.empty(2 * n, small.dtype),
        np.empty(n if len(spread.shifts) else len(spread.table), small.dtype),
        np.zeros(n_classes + 1, np.int64),
        np.zeros(most + 1, np.int64),
        np.zeros((4, max(n_classes, most) + 1), np.int64),
        np.empty(LANES, np.uint8),
    )


@njit(nogil=True, cache=True)
def count_votes(votes: NDArray[Any], space: Workspace) -> int:
    """Fill ``row`` and ``counts``, and give the most voted class, ties to the smaller.

    The last count belongs to a class that nobody has seen, and is 0: its code is that of abstentions.
    """
    n_classes = len(space.counts) - 1
    write_twice(votes, n_classes, space.row)
    if n_classes <= FEW:
        tally(space.row[: len(votes)], space.ticks, space.counts)
    else:
        count_values(space.row[: len(votes)], space.lanes, space.counts)
    space.counts[n_classes] = 0
    return int(np.argmax(space.counts[:n_classes]))


@njit(nogil=True, cache=True)
def lead_over(above: int, below: int, counts: NDArray[np.int64]) -> int:
    """How many votes ``above`` may lose to ``below`` and still stand above it; an unseen class wins every tie."""
    return counts[above] - counts[below] - (below < above or below == len(counts) - 1)


@njit(nogil=True, cache=True)
def pair_radius(above: int, below: int, lead: int, spread: SpreadArrays, space: Workspace) -> int:
    """Theorem 2 for a pair: the largest r whose r largest Δ_j sum to at most the lead (n if all of them do)."""
    weigh(space.row, above, below if space.counts[below] else above, space.weight)
    sums_over_spread(space.weight, spread, space.delta)
    n = len(space.row) // 2
    return how_many_largest_fit(space.delta, n, lead, space.ticks, space.lanes, space.histogram)


@njit(nogil=True, cache=True)
def certify_rows(
    votes: NDArray[Any],
    spread: SpreadArrays,
    n_classes: int,
    unseen_class: bool,
    small: NDArray[Any],
    prediction: NDArray[np.int64],
    runner_up: NDArray[np.int64],
    margin: NDArray[np.int64],
    radius: NDArray[np.int64],
) -> None:
    """Fill prediction, runner-up, margin and Theorem 2 radius for each row of votes.

    A table that lacks the rows of partitions that cannot be poisoned gives Theorem 4. ``unseen_class`` adds one rival
    without votes that wins ties; its code is ``n_classes``.
    """
    n, d, rivals = votes.shape[1], degree(spread), n_classes + unseen_class
    space = workspace(votes, spread, n_classes, small)
    most = np.zeros(2 * d + 1, np.int64)  # histogram of Σ (1 + [v_i = p]), which no Δ_j exceeds
    for t in range(votes.shape[0]):
        p = count_votes(votes[t], space)
        first, smallest = -1, 0  # the rival that leads by votes usually sets the radius and prunes the rest
        for c in range(rivals):
            lead = lead_over(p, c, space.counts)
            if c != p and (first < 0 or lead < smallest):
                first, smallest = c, lead
        best, best_lead, best_radius = first, smallest, n
        most_known = False
        enough_to_tie = enough_to_lose = 0  # leads that no rival's largest Δ_j exceed, as far as we know
        for step in range(-1, rivals):
            c = first if step < 0 else step
            if c == p or step == first:
                continue
            lead = lead_over(p, c, space.counts)
            if step >= 0:
                if _hopeless(lead, c, best_lead, best, enough_to_tie, enough_to_lose):
                    continue
                if not most_known:
                    most_known = True
                    weigh(space.row, p, p, space.weight)
                    sums_over_spread(space.weight, spread, space.delta)
                    count_values(space.delta, space.lanes, most)
                    enough_to_tie = sum_of_largest(most, best_radius)
                    enough_to_lose = sum_of_largest(most, best_radius + 1)
                    if _hopeless(lead, c, best_lead, best, enough_to_tie, enough_to_lose):
                        continue
            fitted = pair_radius(p, c, lead, spread, space)
            if step < 0 or (fitted, lead, c) < (best_radius, best_lead, best):
                best, best_lead, best_radius = c, lead, fitted
                enough_to_tie, enough_to_lose = 2 * d * fitted, 2 * d * (fitted + 1)
                if most_known:
                    enough_to_tie, enough_to_lose = sum_of_largest(most, fitted), sum_of_largest(most, fitted + 1)
        prediction[t], runner_up[t], margin[t], radius[t] = p, best, max(smallest, 0), best_radius


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
    spread: SpreadArrays,
    n_classes: int,
    target: int,
    small: NDArray[Any],
    prediction: NDArray[np.int64],
    margin: NDArray[np.int64],
    radius: NDArray[np.int64],
) -> None:
    """Fill prediction, its lead over the target, and the radius against being turned to it (0 where it is predicted).

    As in `certify_rows`, a table may lack partitions.
    """
    n, d = votes.shape[1], degree(spread)
    space = workspace(votes, spread, n_classes, small)
    counts, whole = space.counts, len(space.delta) == n
    for t in range(votes.shape[0]):
        p = count_votes(votes[t], space)
        prediction[t] = p
        margin[t] = radius[t] = 0
        if p == target:
            continue
        margin[t] = lead_over(p, target, counts)
        best = -1
        for x in np.argsort(-counts[:n_classes], kind="mergesort"):  # most votes first: it usually sets the radius
            lead = lead_over(x, target, counts)
            if x == target or lead < 0:
                continue
            if whole and lead * n // (d * (n + counts[x] - counts[target])) <= best:
                continue
            best = max(best, pair_radius(x, target, lead, spread, space))
        radius[t] = max(best, (fewest_members(counts, n_classes, target) - 1) // d)


FEW = 16  # classes; so many are counted one by one sooner than all at once
LANES = 256  # bytes that are counted side by side


@njit(nogil=True, cache=True)
def how_many(values: NDArray[Any], value: int, ticks: NDArray[np.uint8]) -> int:
    """How many values are this one, in byte lanes side by side."""
    n, code = len(values), values.dtype.type(value)
    total = 0
    for start in range(0, n, 255 * LANES):  # a byte counts to 255
        stop = min(n, start + 255 * LANES)
        whole = start + (stop - start) // LANES * LANES
        ticks[:] = 0
        for at in range(start, whole, LANES):
            part = values[at : at + LANES]
            for lane in range(LANES):
                ticks[lane] += part[lane] == code
        for lane in range(LANES):
            total += ticks[lane]
        for at in range(whole, stop):
            total += values[at] == code
    return total


@njit(nogil=True, cache=True)
def tally(votes: NDArray[Any], ticks: NDArray[np.uint8], counts: NDArray[np.int64]) -> None:
    """Votes of each class, and abstentions last, class by class: quicker than a histogram where classes are few."""
    rest = len(votes)
    for c in range(len(counts) - 1):
        counts[c] = how_many(votes, c, ticks)
        rest -= counts[c]
    counts[-1] = rest


@njit(nogil=True, cache=True)
def count_rows(votes: NDArray[Any], counts: NDArray[np.int64]) -> None:
    """counts[t, c] = number of votes for c on test sample t (the last column counts abstentions).

    Votes are the caller's array, who may write into it after it was checked: what is no class is an abstention, here
    and in every kernel that indexes by a vote.
    """
    if counts.shape[1] - 1 <= FEW:
        ticks = np.empty(LANES, np.uint8)
        for t in range(votes.shape[0]):
            tally(votes[t], ticks, counts[t])
        return
    for t in range(votes.shape[0]):
        line, abstention = counts[t], counts.shape[1] - 1
        for vote in votes[t]:
            line[vote if 0 <= vote < abstention else abstention] += 1

"""Theorem 2 on many test samples, in integers.

Notation (DESIGN, the paper): n base classifiers, votes v_i, p the prediction, c a rival,
m_c = N_p − N_c − [c < p], Δ_j = Σ_{i ∈ spread(j)} (1 + [v_i = p] − [v_i = c]) ∈ {0 … 2d}.
The rival c needs more than r_c poisons, r_c being the largest t whose t largest Δ_j sum to at most m_c.

How the work is kept small, without changing any result:

- Write Δ_j = reach_j − hits_j with reach_j = Σ (1 + [v_i = p]) and hits_j = Σ [v_i = c]. Reach
  depends on the prediction alone and is computed once at most, as d contiguous byte
  additions of shifted views.
- Values are at most 2d, so a histogram replaces the sort.
- The rival with the smallest lead comes first; its Δ is one round of additions. Δ_j ≤ reach_j ≤ 2d, so t poisons take
  at most 2d·t of another rival's lead, which mostly shows that it cannot beat the best (r, m, c) so far; only where it
  does not, reach is computed and says the same more sharply. A rival without votes has Δ = reach.
- Bytes are copied and compared in loops of their own, which the compiler turns into wide instructions.

The functions release the GIL and touch only their own rows and scratch, so callers may run them on
row blocks in any number of threads with the same result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.system.compiled import copy_into, njit
from poisonproof.votes.counting import FEW, LANES, how_many, tally

BLOCK = 8192  # bytes of a view that stay in the first-level cache while d views are added


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
def _add_reach(weight: NDArray[Any], shifts: NDArray[np.int64], table: NDArray[np.int64], reach: NDArray[Any]) -> None:
    """reach_j = Σ_{i ∈ spread(j)} weight_i; ``weight`` is written twice in a row, so that no index wraps."""
    reach[:] = 0
    if len(shifts) == 0:
        for j in range(len(reach)):
            total = 0
            for i in table[j]:
                total += weight[i]
            reach[j] = total
        return
    fours = len(shifts) // 4 * 4
    for start in range(0, len(reach), BLOCK):
        stop = min(start + BLOCK, len(reach))
        part = reach[start:stop]
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
def _subtract_hits(
    row: NDArray[Any], rival: int, shifts: NDArray[np.int64], table: NDArray[np.int64], delta: NDArray[Any]
) -> None:
    """delta_j −= Σ_{i ∈ spread(j)} [row_i = rival]; ``row`` is written twice in a row."""
    code = row.dtype.type(rival)
    if len(shifts) == 0:
        for j in range(len(delta)):
            hits = 0
            for i in table[j]:
                hits += row[i] == code
            delta[j] -= hits
        return
    fours = len(shifts) // 4 * 4
    for start in range(0, len(delta), BLOCK):
        stop = min(start + BLOCK, len(delta))
        part = delta[start:stop]
        for at in range(0, fours, 4):
            view0 = row[shifts[at] + start : shifts[at] + stop]
            view1 = row[shifts[at + 1] + start : shifts[at + 1] + stop]
            view2 = row[shifts[at + 2] + start : shifts[at + 2] + stop]
            view3 = row[shifts[at + 3] + start : shifts[at + 3] + stop]
            for j in range(stop - start):
                part[j] -= (view0[j] == code) + (view1[j] == code) + (view2[j] == code) + (view3[j] == code)
        for at in range(fours, len(shifts)):
            view0 = row[shifts[at] + start : shifts[at] + stop]
            for j in range(stop - start):
                part[j] -= view0[j] == code


@njit(nogil=True, cache=True)
def _count(values: NDArray[Any], lanes: NDArray[np.int64], histogram: NDArray[np.int64]) -> None:
    """Histogram of small values, in four lanes: equal neighbours would otherwise wait for each other."""
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
def _how_many_largest_fit(
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
    _count(values, lanes, histogram)
    return how_many_fit(histogram, n, budget)


@njit(nogil=True, cache=True)
def _hopeless(lead: int, c: int, best_margin: int, best: int, enough_to_tie: int, enough_to_lose: int) -> bool:
    """Whether a rival with this lead to make up cannot come before the best one by (radius, lead, class)."""
    if lead >= enough_to_lose:
        return True
    return lead >= enough_to_tie and (lead > best_margin or (lead == best_margin and c > best))


@njit(nogil=True, cache=True)
def _twice(votes: NDArray[Any], row: NDArray[Any]) -> None:
    """The votes, written twice in a row, so that no index wraps."""
    n = len(votes)
    first, second = row[:n], row[n:]
    for i in range(n):
        first[i] = votes[i]
    for i in range(n):
        second[i] = first[i]


@njit(nogil=True, cache=True)
def _weigh(row: NDArray[Any], winner: int, rival: int, weight: NDArray[Any]) -> None:
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
def certify_rows(
    votes: NDArray[Any],
    shifts: NDArray[np.int64],
    table: NDArray[np.int64],
    n_classes: int,
    unseen_class: bool,
    small: NDArray[Any],
    prediction: NDArray[np.int64],
    runner_up: NDArray[np.int64],
    margin: NDArray[np.int64],
    radius: NDArray[np.int64],
) -> None:
    """Fill prediction, runner-up, margin and Theorem 2 radius for each row of votes.

    ``shifts`` or, if it is empty, ``table`` is the spread; a table may lack the rows of partitions that cannot be
    poisoned (Theorem 4). ``unseen_class`` adds one rival without
    votes that wins ties; its code is ``n_classes``. ``small`` is an empty array whose dtype holds 2d.
    """
    n = votes.shape[1]
    d = len(shifts) if len(shifts) else table.shape[1]
    counts = np.zeros(n_classes + 1, np.int64)
    row = np.empty(2 * n, votes.dtype)
    weight = np.empty(2 * n, small.dtype)
    n_reachable = n if len(shifts) else len(table)
    reach = np.empty(n_reachable, small.dtype)
    delta = np.empty(n_reachable, small.dtype)
    reach_histogram = np.zeros(2 * d + 1, np.int64)
    histogram = np.zeros(2 * d + 1, np.int64)
    lanes = np.zeros((4, max(n_classes, 2 * d) + 1), np.int64)
    ticks = np.empty(LANES, np.uint8)

    for t in range(votes.shape[0]):
        _twice(votes[t], row)
        if n_classes <= FEW:
            tally(row[:n], ticks, counts)
        else:
            _count(row[:n], lanes, counts)
        winner = 0
        for c in range(1, n_classes):
            if counts[c] > counts[winner]:
                winner = c
        reach_known = False

        # Begin with the rival that leads by votes: it usually sets the radius and prunes the rest.
        first = -1
        first_margin = 0
        for c in range(n_classes + unseen_class):
            if c != winner:
                lead = counts[winner] - (counts[c] if c < n_classes else 0) - (c < winner or c == n_classes)
                if first < 0 or lead < first_margin:
                    first, first_margin = c, lead

        best_radius, best_margin, best = n, first_margin, first
        enough_to_tie = enough_to_lose = 0  # as far as we know: leads that all rivals' largest Δ_j do not exceed
        for step in range(-1, n_classes + unseen_class):
            c = first if step < 0 else step
            if c == winner or step == first:
                continue
            hits = counts[c] if c < n_classes else 0
            lead = counts[winner] - hits - (c < winner or c == n_classes)
            if step >= 0 and _hopeless(lead, c, best_margin, best, enough_to_tie, enough_to_lose):
                continue
            if step >= 0 and not reach_known:
                reach_known = True
                _weigh(row, winner, winner, weight)
                _add_reach(weight, shifts, table, reach)
                _count(reach, lanes, reach_histogram)
                enough_to_tie = sum_of_largest(reach_histogram, best_radius)
                enough_to_lose = sum_of_largest(reach_histogram, best_radius + 1)
                if _hopeless(lead, c, best_margin, best, enough_to_tie, enough_to_lose):
                    continue
            if step < 0:
                _weigh(row, winner, c if hits else winner, weight)
                _add_reach(weight, shifts, table, delta)
                fitted = _how_many_largest_fit(delta, n, lead, ticks, lanes, histogram)
            elif hits == 0:
                fitted = how_many_fit(reach_histogram, n, lead)
            else:
                copy_into(delta, reach)
                _subtract_hits(row, c, shifts, table, delta)
                _count(delta, lanes, histogram)
                fitted = how_many_fit(histogram, n, lead)
            if (
                step < 0
                or fitted < best_radius
                or (fitted == best_radius and (lead < best_margin or (lead == best_margin and c < best)))
            ):
                best_radius, best_margin, best = fitted, lead, c
                enough_to_tie, enough_to_lose = 2 * d * fitted, 2 * d * (fitted + 1)
                if reach_known:
                    enough_to_tie = sum_of_largest(reach_histogram, fitted)
                    enough_to_lose = sum_of_largest(reach_histogram, fitted + 1)
        prediction[t] = winner
        runner_up[t] = best
        margin[t] = max(first_margin, 0)
        radius[t] = best_radius

"""What one attack does to many test samples, in integers (the certified accuracy's kernels).

A *rival row* is a test sample with one of the rivals that might beat its prediction. With w_i = 1 + [v_i = p] −
[v_i = c] and cov(H) = Σ w_i over the union of spread(j), j ∈ H, the rival can win under the poisoned partitions H
exactly when cov(H) ≥ need, need = N_p − N_c − [c < p] + 1. A test sample flips when one of its rivals can win.

*Gains.* Given poisoned partitions F, gain(j) = cov(F ∪ {j}) − cov(F); gains only shrink as F grows, so
cov(F ∪ R) ≤ cov(F) + Σ_{j ∈ R} gain(j).

*Hinges.* Let g > 0 be what a rival row still needs and r the number of partitions still to be chosen. For every whole
s ≥ 0 with g > r·s and every R of r partitions: if Σ_{j ∈ R} gain(j) ≥ g, then
Σ_{j ∈ R} min(1, (gain(j) − s)⁺ / (g − r·s)) ≥ 1 (subtract s from each of the r terms; if one term is capped, the sum is
at least 1). So the hinge bounds the flip; so does the largest hinge of a test sample's rival rows, and so does the
constant 1. Summed over test samples, each with a bound of its own choice:

    flips(F ∪ R) ≤ constant + Σ_{j ∈ R} column_j ≤ constant + the r largest column_j.

Hinges are rounded up to a grid of 1/GRID. Weights that choose s and where the constant is better are floating point: a
poor choice costs tightness and never soundness.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.spread import SpreadArrays
from poisonproof.core.theorem2 import count_votes, degree, lead_over, pair_radius, workspace
from poisonproof.system.compiled import njit

GRID = 1 << 14
CONSTANT = -1  # in place of an s: the bound 1


class RivalRows(NamedTuple):
    """Test samples that an attack of a size might flip, with their rival rows.

    The rows of sample t are starts[t] … starts[t + 1] − 1; columns of ``delta`` are partitions in some order, rows of
    ``table`` too, and ``feeding`` holds positions in that order.
    """

    size: int
    starts: NDArray[np.int64]
    need: NDArray[np.int64]
    weight: NDArray[Any]
    delta: NDArray[Any]
    tops: NDArray[np.int64]
    table: NDArray[np.int64]
    feeding: NDArray[np.int64]

    @property
    def n_samples(self) -> int:
        """Number of test samples."""
        return len(self.starts) - 1

    @property
    def n(self) -> int:
        """Number of partitions."""
        return len(self.table)

    @property
    def d(self) -> int:
        """Spread degree."""
        return int(self.table.shape[1])

    def columns(self) -> NDArray[Any]:
        """Zeros of a type that holds every sum of hinges."""
        fits = max(self.n_samples, 2 * self.d) * GRID <= np.iinfo(np.int32).max
        return np.zeros(self.n, np.int32 if fits else np.int64)

    def in_order(self, order: NDArray[np.int64]) -> RivalRows:
        """The same with partition order[position] at each position."""
        position = np.empty(self.n, np.int64)
        position[order] = np.arange(self.n)
        return self._replace(
            delta=np.ascontiguousarray(self.delta[:, order]),
            table=np.ascontiguousarray(self.table[order]),
            feeding=position[self.feeding],
        )

    def cut(self, bundle: int, start: int, stop: int, at: NDArray[np.float64]) -> Cut:
        """A cut for a bundle of samples that is small at the fractional attack ``at``."""
        rows, column = slice(self.starts[start], self.starts[stop]), self.columns()
        starts = self.starts[start : stop + 1] - self.starts[start]
        part = self._replace(starts=starts, need=self.need[rows], delta=self.delta[rows])
        return Cut(bundle, cut_at(at, part, self.columns(), column), column)

    def gains(self, chosen: Sequence[int]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Gains and cover after some partitions."""
        gains, cover = np.empty_like(self.delta), np.empty(len(self.need), np.int64)
        gains_after(np.array(chosen, np.int64), self, gains, cover)
        return gains, cover

    def flips_with_each(self, chosen: Sequence[int]) -> NDArray[np.int64]:
        """Exactly how many samples flip under the chosen partitions and one more, for each."""
        flips = np.empty(self.n, np.int64)
        flips_with_each(self, *self.gains(chosen), flips)
        return flips


class Cut(NamedTuple):
    """Flips among the samples of a bundle ≤ constant + Σ over the poisoned partitions of column / GRID."""

    bundle: int
    constant: int
    column: NDArray[Any]


@njit(nogil=True, cache=True)
def find_rivals(
    votes: NDArray[Any],
    spread: SpreadArrays,
    n_classes: int,
    prediction: NDArray[np.int64],
    size: int,
    small: NDArray[Any],
    needs: NDArray[np.int64],
    possible: NDArray[np.bool_],
) -> None:
    """For each test sample and rival: what it needs, and whether Theorem 2 leaves ``size`` partitions a chance.

    ``needs`` and ``possible`` have a column per class, and one more if there is an unseen class. ``small`` is an empty
    array whose dtype holds 2d.
    """
    d, space = degree(spread), workspace(votes, spread, n_classes, small)
    for t in range(len(votes)):
        count_votes(votes[t], space)
        p = prediction[t]
        for c in range(needs.shape[1]):
            if c != p:
                lead = lead_over(p, c, space.counts)
                needs[t, c] = lead + 1
                possible[t, c] = lead < 2 * d * size and pair_radius(p, c, lead, spread, space) < size


@njit(nogil=True, cache=True)
def fill_rows(
    votes: NDArray[Any],
    spread: SpreadArrays,
    n_classes: int,
    prediction: NDArray[np.int64],
    sample: NDArray[np.int64],
    rival: NDArray[np.int64],
    small: NDArray[Any],
    weight: NDArray[Any],
    delta: NDArray[Any],
    tops: NDArray[Any],
) -> None:
    """w_i, Δ_j and the sums of the 0, 1, 2, … largest Δ_j of each rival row."""
    n, space = votes.shape[1], workspace(votes, spread, n_classes, small)
    for at in range(len(sample)):
        count_votes(votes[sample[at]], space)
        pair_radius(prediction[sample[at]], rival[at], 0, spread, space)
        weight[at], delta[at] = space.weight[:n], space.delta
        largest = np.sort(space.delta)[::-1]
        tops[at, 0] = 0
        for taken in range(1, tops.shape[1]):
            tops[at, taken] = tops[at, taken - 1] + largest[taken - 1]


@njit(nogil=True, cache=True)
def gains_after(chosen: NDArray[np.int64], rows: RivalRows, gains: NDArray[Any], cover: NDArray[Any]) -> None:
    """cov(F) and the gain of every partition given F, for every rival row."""
    weight, table, feeding = rows.weight, rows.table, rows.feeding
    reached = np.zeros(weight.shape[1], np.bool_)
    subsets = np.empty(min(len(reached), len(chosen) * table.shape[1]), np.int64)
    n_subsets = 0
    for j in chosen:
        for i in table[j]:
            if not reached[i]:
                reached[i] = True
                subsets[n_subsets] = i
                n_subsets += 1
    for row in range(len(weight)):
        gains[row] = rows.delta[row]
        total = 0
        for i in subsets[:n_subsets]:
            lost = weight[row, i]
            if lost > 0:
                total += lost
                for j in feeding[i]:
                    gains[row, j] -= lost
        cover[row] = total


@njit(nogil=True, cache=True)
def flips_with_each(rows: RivalRows, gains: NDArray[Any], cover: NDArray[Any], flips: NDArray[np.int64]) -> None:
    """Exactly how many test samples flip under F ∪ {j}, for every j."""
    starts, n, most = rows.starts, gains.shape[1], 2 * rows.table.shape[1]  # no gain is larger
    flipped = np.empty(n, np.bool_)
    flips[:] = 0
    for t in range(len(starts) - 1):
        flipped[:] = False
        for row in range(starts[t], starts[t + 1]):
            missing = gains.dtype.type(min(max(rows.need[row] - cover[row], 0), most + 1))
            line = gains[row]
            for j in range(n):
                flipped[j] |= line[j] >= missing
        for j in range(n):
            flips[j] += flipped[j]


@njit(nogil=True, cache=True)
def _best_hinge(mass: NDArray[np.float64], moment: NDArray[np.float64], missing: int, remaining: int) -> int:
    """The s with the least expected hinge, or CONSTANT if none is expected below 1.

    ``mass[v]`` and ``moment[v]`` are the weights of gains ≥ v, and these weights times their gains.
    """
    top = len(mass) - 2
    best, least = CONSTANT, 1.0
    for s in range(min((missing - 1) // remaining, top - 1) + 1):
        width = missing - remaining * s
        capped = min(s + width, top + 1)
        slope = moment[s + 1] - moment[capped] - s * (mass[s + 1] - mass[capped]) if capped > s + 1 else 0.0
        expected = mass[capped] + slope / width
        if expected < least:
            best, least = s, expected
    return best


@njit(nogil=True, cache=True)
def _cumulate(
    line: NDArray[Any],
    weights: NDArray[np.float64],
    mass: NDArray[np.float64],
    moment: NDArray[np.float64],
) -> None:
    mass[:] = 0.0
    for j in range(len(line)):
        mass[line[j]] += weights[j]
    for value in range(len(mass)):
        moment[value] = value * mass[value]
    for value in range(len(mass) - 2, -1, -1):
        mass[value] += mass[value + 1]
        moment[value] += moment[value + 1]


@njit(nogil=True, cache=True)
def choose_hinges(rows: RivalRows, weights: NDArray[np.float64], remaining: int, hinges: NDArray[Any]) -> None:
    """hinges[row, g]: the s that a rival row takes when it still needs g from ``remaining`` partitions."""
    mass, moment = np.empty(2 * rows.table.shape[1] + 2), np.empty(2 * rows.table.shape[1] + 2)
    for row in range(len(rows.delta)):
        _cumulate(rows.delta[row], weights, mass, moment)
        for missing in range(1, rows.tops[row, remaining] + 1):
            hinges[row, missing] = _best_hinge(mass, moment, missing, remaining)


@njit(nogil=True, cache=True)
def _put_hinge(gains: NDArray[Any], s: int, width: int, column: NDArray[Any], add: bool) -> None:
    """Add a hinge to a column, or raise the column to it."""
    grid = column.dtype.type(GRID)
    zero = column.dtype.type(0)
    steep = column.dtype.type((GRID + width - 1) // width)
    less = column.dtype.type(s)
    if add:
        for j in range(len(gains)):
            column[j] += min(grid, steep * max(zero, gains[j] - less))
    else:
        for j in range(len(gains)):
            column[j] = max(column[j], min(grid, steep * max(zero, gains[j] - less)))


@njit(nogil=True, cache=True)
def _sum_of_largest_columns(column: NDArray[Any], how_many: int, largest: NDArray[np.int64]) -> int:
    """Sum of the largest entries; ``largest`` is scratch for at least as many."""
    filled = 0
    for value in column:
        if filled < how_many:
            at = filled
            filled += 1
        elif how_many > 0 and value > largest[how_many - 1]:
            at = how_many - 1
        else:
            continue
        while at > 0 and largest[at - 1] < value:
            largest[at] = largest[at - 1]
            at -= 1
        largest[at] = value
    total = 0
    for at in range(filled):
        total += largest[at]
    return total


@njit(nogil=True, cache=True)
def bound_children(
    first: int,
    stop: int,
    remaining: int,
    rows: RivalRows,
    hinges: NDArray[Any],
    gains: NDArray[Any],
    cover: NDArray[Any],
    column: NDArray[Any],
    joint: NDArray[Any],
    bounds: NDArray[np.int64],
) -> None:
    """At most how many test samples flip under F ∪ {j} ∪ R, R any ``remaining`` ≥ 1 partitions after j.

    Filled for j = first … stop − 1, stop ≤ n − remaining; ``column`` and ``joint`` are scratch of n entries.
    """
    starts, need, tops, largest = rows.starts, rows.need, rows.tops, np.empty(remaining, np.int64)
    for j in range(first, stop):
        constant = 0
        rest = column[j + 1 :]
        both = joint[j + 1 :]
        rest[:] = 0
        for t in range(len(starts) - 1):
            open_rows, last_open = 0, 0
            flipped = False
            for row in range(starts[t], starts[t + 1]):
                missing = need[row] - cover[row] - gains[row, j]
                if missing <= 0:
                    flipped = True
                    break
                if missing <= tops[row, remaining]:
                    if hinges[row, missing] == CONSTANT:
                        flipped = True
                        break
                    open_rows += 1
                    last_open = row
            if flipped:
                constant += 1
                continue
            if open_rows == 0:
                continue
            if open_rows == 1:
                missing = need[last_open] - cover[last_open] - gains[last_open, j]
                s = hinges[last_open, missing]
                _put_hinge(gains[last_open, j + 1 :], s, missing - remaining * s, rest, True)
                continue
            both[:] = 0
            for row in range(starts[t], starts[t + 1]):
                missing = need[row] - cover[row] - gains[row, j]
                if missing <= tops[row, remaining]:
                    s = hinges[row, missing]
                    _put_hinge(gains[row, j + 1 :], s, missing - remaining * s, both, False)
            for at in range(len(rest)):
                rest[at] += both[at]
        bounds[j] = constant + _sum_of_largest_columns(rest, remaining, largest) // GRID


@njit(nogil=True, cache=True)
def cut_at(weights: NDArray[np.float64], rows: RivalRows, joint: NDArray[Any], column: NDArray[Any]) -> int:
    """flips(H) ≤ constant + Σ_{j ∈ H} column_j / GRID, small at the fractional attack ``weights``.

    Fills ``column`` and returns the constant, a number of test samples.
    """
    starts, need, delta, size = rows.starts, rows.need, rows.delta, rows.size
    mass, moment = np.empty(2 * rows.table.shape[1] + 2), np.empty(2 * rows.table.shape[1] + 2)
    column[:] = 0
    constant = 0
    for t in range(len(starts) - 1):
        joint[:] = 0
        certain = False
        for row in range(starts[t], starts[t + 1]):
            if need[row] <= 0:
                certain = True
                break
            _cumulate(delta[row], weights, mass, moment)
            s = _best_hinge(mass, moment, need[row], size)
            if s == CONSTANT:
                certain = True
                break
            _put_hinge(delta[row], s, need[row] - size * s, joint, False)
        expected = 0.0
        if not certain:
            for j in range(len(joint)):
                expected += weights[j] * joint[j]
        if certain or expected >= GRID:
            constant += 1
            continue
        for j in range(len(joint)):
            column[j] += joint[j]
    return constant

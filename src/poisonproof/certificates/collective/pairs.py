"""What two partitions do together: a second, sharper bound on the flips of one attack.

Let a rival row need g > 0 from r ≥ 2 partitions R, and let P_ab = gain(a) + gain(b). Each partition of R is in r − 1 of
its r(r − 1)/2 pairs, so Σ P_ab = (r − 1)·Σ gain over the pairs of R. For every whole s ≥ 0 with 2g > r·s: if
Σ_{j ∈ R} gain(j) ≥ g, then

    Σ_{a < b ∈ R} 2 (P_ab − s)⁺ / ((r − 1)(2g − r·s)) ≥ 1

(subtract s from each of the r(r − 1)/2 terms). This *pair hinge* bounds the flip; so does, for each pair, the largest
of a test sample's rival rows; so does the constant 1, and any mean of these. Pairs vary less, for their size, than
single partitions do, so less is lost than with a hinge of single partitions. Summed over test samples,

    flips(R) ≤ constant + Σ_{a < b ∈ R} pair_ab ≤ constant + ½ · the r largest of "the r − 1 largest pair_ab of a".

Slopes are rounded up to a grid and everything is counted in whole numbers below 2²⁴, which float32 holds exactly, eight
to a register. The choice of s and of the share of the constant is floating point: a poor choice costs tightness, never
soundness. It is found by gradient descent on the bound itself, each step of which is a bound.

*Chains.* The same with the first partition of an attack (in the order of positions) fixed and its gains taken: a bound
for each first partition, n times the work, about as much sharper again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.certificates.collective.kernels import sum_of_largest_columns
from poisonproof.system.compiled import njit
from poisonproof.system.threads import in_threads

if TYPE_CHECKING:
    from poisonproof.certificates.collective.search import Flippable

PAIR_GRID = 1 << 16
EXACT = 1 << 24  # whole numbers below that are exact in float32
MOST_PARTITIONS = 4096  # a matrix of all pairs is held in memory
MOST_WORK = 1 << 35  # pairs times rival rows of one step
LEAST_SIZE = 4  # attacks of fewer partitions, and …
FEWEST_ATTACKS = 1 << 16  # … fewer attacks than that are faster by branch and bound alone
STEPS = 60
PATIENCE = 12  # steps without a quarter of a test sample gained
REMEMBERED = 15  # steps whose worst attacks are the mixture that the next step is for
MIXTURE = 8000  # pairs that thresholds of chains are chosen for
BLOCK = 8


@njit(nogil=True, cache=True)
def _slope(grid: int, share: int, missing: int, s: int, remaining: int) -> int:
    """2 · share / ((r − 1)(2g − r·s)), rounded up; the share is a part of the grid."""
    width = PAIR_GRID * (remaining - 1) * (2 * missing - remaining * s)
    return (2 * share * grid + width - 1) // width


@njit(nogil=True, cache=True)
def add_pair_hinges(
    edges: NDArray[np.int64], scaled: NDArray[np.float32], less: NDArray[np.float32], pairs: NDArray[np.float32]
) -> None:
    """pairs[a, b] += the largest max(0, scaled[a] + scaled[b] − less) of a test sample's rows, for each and a < b.

    The rows of test sample t are edges[t] … edges[t + 1] − 1.
    """
    n = scaled.shape[1]
    zero = np.float32(0)
    joint = np.empty(n, np.float32)
    for first in range(0, n, BLOCK):
        for t in range(len(edges) - 1):
            if edges[t + 1] == edges[t]:
                continue
            for a in range(first, min(first + BLOCK, n)):
                into = pairs[a]
                line = scaled[edges[t]]
                base = line[a] - less[edges[t]]
                if edges[t + 1] == edges[t] + 1:
                    for b in range(a + 1, n):
                        into[b] += max(zero, base + line[b])
                    continue
                for b in range(a + 1, n):
                    joint[b] = max(zero, base + line[b])
                for row in range(edges[t] + 1, edges[t + 1]):
                    line = scaled[row]
                    base = line[a] - less[row]
                    for b in range(a + 1, n):
                        joint[b] = max(joint[b], base + line[b])
                for b in range(a + 1, n):
                    into[b] += joint[b]


@njit(nogil=True, cache=True)
def sum_of_worst_pairs(pairs: NDArray[np.float32], size: int, rows: NDArray[np.int64]) -> int:
    """The ``size`` largest of "the size − 1 largest entries of a row", summed; at least twice any attack's pairs.

    Fills the lower triangle of ``pairs``, whose diagonal is 0, and the value of every row.
    """
    n = len(pairs)
    largest = np.empty(size, np.int64)
    for a in range(n):
        for b in range(a):
            pairs[a, b] = pairs[b, a]
        rows[a] = 0
    for a in range(n):
        rows[a] = sum_of_largest_columns(pairs[a], size - 1, largest)
    return sum_of_largest_columns(rows, size, largest)


@njit(nogil=True, cache=True)
def _fitting_grid(
    live: NDArray[np.int64],
    missing: NDArray[Any],
    s: NDArray[Any],
    share: NDArray[Any],
    remaining: int,
    highest: NDArray[Any],
) -> int:
    """The finest grid on which no sum of pair hinges reaches 2²⁴; 0 if there is none."""
    grid = PAIR_GRID
    while grid > 0:
        total = 0
        for row in live:
            slope = _slope(grid, share[row], missing[row], s[row], remaining)
            total += slope * max(2 * highest[row], s[row])
        if total < EXACT:
            return grid
        grid //= 2
    return 0


@njit(nogil=True, cache=True)
def pair_bound(
    remaining: int,
    first: int,
    constant: int,
    live: NDArray[np.int64],
    edges: NDArray[np.int64],
    missing: NDArray[Any],
    s: NDArray[Any],
    share: NDArray[Any],
    gains: NDArray[Any],
    highest: NDArray[Any],
    pairs: NDArray[np.float32],
    rows: NDArray[np.int64],
) -> int:
    """At most how many flip, in parts of PAIR_GRID, under any ``remaining`` partitions from position ``first`` on.

    ``constant`` is in parts of PAIR_GRID; rival rows that are not ``live`` are in it or cannot win; ``edges`` divides
    the live ones among their test samples. −1: nothing proved.
    """
    grid = _fitting_grid(live, missing, s, share, remaining, highest)
    if grid == 0:
        return -1
    n = gains.shape[1] - first
    scaled = np.empty((len(live), n), np.float32)
    less = np.empty(len(live), np.float32)
    for at in range(len(live)):
        row = live[at]
        slope = _slope(grid, share[row], missing[row], s[row], remaining)
        less[at] = slope * s[row]
        for j in range(n):
            scaled[at, j] = slope * gains[row, first + j]
    pairs[:] = 0
    add_pair_hinges(edges, scaled, less, pairs)
    twice = sum_of_worst_pairs(pairs, remaining, rows)
    return constant + (twice * (PAIR_GRID // grid) + 1) // 2


@njit(nogil=True, cache=True)
def _expectations(
    starts: NDArray[np.int64],
    delta: NDArray[Any],
    s: NDArray[np.float64],
    spans: NDArray[np.float64],
    a: NDArray[np.int64],
    b: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means of (P_ab − s)⁺ and [P_ab > s] over some pairs, for each rival row where it is its test sample's largest."""
    excess, above = np.zeros(len(delta)), np.zeros(len(delta))
    for t in range(len(starts) - 1):
        for at in range(len(a)):
            highest, where = 0.0, -1
            for row in range(starts[t], starts[t + 1]):
                over = (delta[row, a[at]] + delta[row, b[at]] - s[row]) / spans[row]
                if over > highest:
                    highest, where = over, row
            if where >= 0:
                excess[where] += highest * spans[where]
                above[where] += 1.0
    return excess / len(a), above / len(a)


@njit(nogil=True, cache=True)
def choose_thresholds(
    delta: NDArray[Any],
    tops: NDArray[Any],
    a: NDArray[np.int64],
    b: NDArray[np.int64],
    weight: NDArray[np.float64],
    remaining: int,
    thresholds: NDArray[Any],
    expected: NDArray[np.float32],
) -> None:
    """thresholds[row, g]: the s with the least expected pair hinge when g is missing, and that expectation.

    The weights are of pairs of an attack of ``remaining`` partitions.
    """
    excess = np.empty(thresholds.shape[1] * 2 + 2)
    for row in range(len(delta)):
        excess[:] = 0
        line, highest = delta[row], 0
        for at in range(len(a)):
            value = line[a[at]] + line[b[at]]
            highest = max(highest, value)
            if value < len(excess):
                excess[value] += weight[at]
        highest = min(highest, len(excess) - 1)
        above, total = 0.0, 0.0
        for value in range(highest, -1, -1):  # excess[s] becomes Σ weight (P − s)⁺
            mass = excess[value]
            excess[value] = total
            above += mass
            total += above
        for missing in range(1, tops[row, remaining] + 1):
            best, least = 0, np.inf
            for s in range(min((2 * missing - 1) // remaining, highest) + 1):
                value_there = 2 * excess[s] / ((remaining - 1) * (2 * missing - remaining * s))
                if value_there < least:
                    best, least = s, value_there
            thresholds[row, missing] = best
            expected[row, missing] = least


@njit(nogil=True, cache=True)
def _bound_chain(
    position: int,
    remaining: int,
    starts: NDArray[np.int64],
    need: NDArray[Any],
    tops: NDArray[Any],
    thresholds: NDArray[Any],
    expected: NDArray[np.float32],
    gains: NDArray[Any],
    cover: NDArray[Any],
) -> int:
    """At most how many flip under one partition and any ``remaining`` after it; −1: nothing is proved."""
    n = gains.shape[1] - position - 1
    missing = need - cover
    live, n_live = np.empty(len(need), np.int64), 0
    edges, n_edges = np.zeros(len(starts), np.int64), 1
    s, share = np.zeros(len(need), np.int64), np.full(len(need), PAIR_GRID, np.int64)
    highest = np.zeros(len(need), np.int64)
    constant = 0
    for t in range(len(starts) - 1):
        total, largest, n_before = 0.0, 0.0, n_live
        for row in range(starts[t], starts[t + 1]):
            if missing[row] <= 0:
                largest = 2.0
                break
            if missing[row] <= tops[row, remaining]:
                total += expected[row, missing[row]]
                largest = max(largest, expected[row, missing[row]])
                s[row] = thresholds[row, missing[row]]
                live[n_live] = row
                n_live += 1
        if total + largest >= 2.0:  # the expectation of the largest row is taken to lie halfway
            n_live = n_before
            constant += 1
        elif n_live > n_before:
            edges[n_edges] = n_live
            n_edges += 1
    for row in live[:n_live]:
        for j in range(position + 1, gains.shape[1]):
            highest[row] = max(highest[row], gains[row, j])
    pairs, rows = np.empty((n, n), np.float32), np.empty(n, np.int64)
    given = constant * PAIR_GRID, live[:n_live], edges[:n_edges], missing, s, share, gains, highest, pairs, rows
    bound = pair_bound(remaining, position + 1, *given)
    return bound // PAIR_GRID if bound >= 0 else -1


@dataclass(frozen=True)
class PairBound:
    """At most ``most`` samples flip; (a, b) are the pairs of a wide mixture of the worst attacks against that bound."""

    most: int
    a: NDArray[np.int64]
    b: NDArray[np.int64]

    def weights(self, size: int) -> NDArray[np.float64]:
        """How often each pair is in an attack of that size of the mixture."""
        return np.full(len(self.a), size * (size - 1) / 2 / len(self.a))


def worth_pairs(problem: Flippable) -> bool:
    """Whether pairs are looked at: not if few attacks are possible, or if a matrix of all pairs is too large."""
    n, size = problem.n, problem.size
    fits = n <= MOST_PARTITIONS and len(problem.need) * n**2 <= MOST_WORK
    return size >= LEAST_SIZE and n > size and fits and math.comb(n, size) >= FEWEST_ATTACKS


class _Choice:
    """Thresholds and shares of the constant, moved by Adam along the gradient of the bound at a mixture of attacks."""

    def __init__(self, problem: Flippable) -> None:
        self.starts, self.delta, self.need = problem.starts, problem.delta, problem.need
        self.size, self.n_samples = problem.size, len(problem)
        self.sample = np.repeat(np.arange(self.n_samples), np.diff(problem.starts))
        self.deviation = np.sqrt(self.size * self.delta.var(axis=1, dtype=np.float64)) + 1e-3
        gap = (self.need - self.size * self.delta.mean(axis=1, dtype=np.float64)) / self.deviation
        nearest = np.full(self.n_samples, np.inf)
        np.minimum.at(nearest, self.sample, gap)
        # g − s·r/2 is exp(width) deviations; the constant's share is a logistic function of twice the lean.
        self.width = np.log(np.maximum(gap + 0.5 * np.sqrt(self.size / 2), 0.5))
        self.lean = np.clip(-nearest, -3, 3)
        self.first, self.second = [0.0, 0.0], [0.0, 0.0]
        self.step = 0

    @property
    def spans(self) -> NDArray[np.float64]:
        """g − s·r/2 of each rival row."""
        return np.asarray(np.exp(self.width) * self.deviation)

    @property
    def part(self) -> NDArray[np.float64]:
        """Share of the constant, for each test sample."""
        part = 1 / (1 + np.exp(-2 * self.lean))
        return np.where(part > 0.98, 1.0, np.where(part < 0.02, 0.0, part))

    def whole(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Thresholds of the rival rows and parts of the test samples in whole numbers."""
        s = np.clip(np.rint(2 * (self.need - self.spans) / self.size), 0, (2 * self.need - 1) // self.size)
        return s.astype(np.int64), np.ceil(self.part * PAIR_GRID).astype(np.int64)

    def move(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> None:
        """One step down, at a mixture of attacks of which these are the pairs."""
        r, spans, part = self.size, self.spans, self.part
        thresholds = 2 * (self.need - spans) / r
        excess, above = _expectations(self.starts, self.delta, thresholds, spans, a, b)
        value = r / 2 * excess / spans  # of the r(r − 1)/2 pairs of an attack
        slope = above / spans - value / spans
        flips = np.bincount(self.sample, value, minlength=self.n_samples)
        gradients = (1 - part)[self.sample] * slope * spans, 2 * part * (1 - part) * (1 - flips)
        self.step += 1
        pace = 1.0 if self.step < 0.6 * STEPS else 0.3
        moving = (self.width, 0.06), (self.lean, 0.2)
        for at, ((parameter, rate), gradient) in enumerate(zip(moving, gradients, strict=True)):
            first = self.first[at] = 0.8 * self.first[at] + 0.2 * gradient  # type: ignore[call-overload]
            second = self.second[at] = 0.99 * self.second[at] + 0.01 * gradient**2  # type: ignore[call-overload]
            first, second = first / (1 - 0.8**self.step), second / (1 - 0.99**self.step)
            parameter -= pace * rate * first / (np.sqrt(second) + 1e-4)
        np.clip(self.lean, -4, 4, out=self.lean)


def bound_by_pairs(problem: Flippable, deadline: float) -> PairBound | None:
    """A bound on every attack, from pairs; None if the time does not allow one."""
    r, n = problem.size, problem.n
    choice = _Choice(problem)
    highest = problem.delta.max(axis=1).astype(np.int64)
    pairs, rows = np.zeros((n, n), np.float32), np.zeros(n, np.int64)
    best, reached = len(problem) * PAIR_GRID, 0
    recent: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    wide: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    for step in range(STEPS):
        if monotonic() >= deadline or step - reached > PATIENCE:
            break
        s, constants = choice.whole()
        share = PAIR_GRID - constants[choice.sample]
        live = np.flatnonzero(share > 0)
        edges = np.concatenate([[0], np.cumsum(np.diff(problem.starts)[constants < PAIR_GRID])])
        given = int(constants.sum()), live, edges, problem.need, s, share, problem.delta, highest, pairs, rows
        bound = pair_bound(r, 0, *given)
        if 0 <= bound < best - PAIR_GRID // 4:
            reached = step
        if bound >= 0:
            best = min(best, bound)
        recent = [*recent[1 - REMEMBERED :], _worst(pairs, rows, 2 * r, r - 1)]
        wide = [*wide[1 - REMEMBERED // 2 :], _worst(pairs, rows, n // 2, 3 * (r - 1))]
        choice.move(*(np.concatenate(side) for side in zip(*recent, strict=True)))
    if not wide:
        return None
    a, b = (np.concatenate(side) for side in zip(*wide, strict=True))
    some = slice(None, None, max(1, len(a) // MIXTURE))
    return PairBound(best // PAIR_GRID, a[some], b[some])


def _worst(
    pairs: NDArray[np.float32], rows: NDArray[np.int64], n_rows: int, n_partners: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pairs of the worst rows with their worst partners."""
    n = len(rows)
    n_rows, n_partners = min(n_rows, n), min(n_partners, n - 1)
    worst = np.argpartition(-rows, n_rows - 1)[:n_rows]
    partners = np.argpartition(-pairs[worst], n_partners - 1, axis=1)[:, :n_partners]
    return np.repeat(worst, n_partners), partners.ravel()


def bound_chains(problem: Flippable, known: PairBound, deadline: float, n_jobs: int) -> NDArray[np.int64]:
    """For each position, at most how many flip under an attack that begins there; 0 where none can.

    What the time does not allow keeps the bound that is known.
    """
    n, remaining = problem.n, problem.size - 1
    bounds = np.zeros(n, np.int64)
    bounds[: n - remaining] = known.most
    shape = (len(problem.need), int(problem.tops[:, remaining].max()) + 1)
    thresholds, expected = np.zeros(shape, np.int16), np.zeros(shape, np.float32)
    weights = known.weights(remaining)
    choose_thresholds(problem.delta, problem.tops, known.a, known.b, weights, remaining, thresholds, expected)

    def work(position: int, _: int) -> None:
        if monotonic() >= deadline:
            return
        gains, cover = problem.gains((position,))
        rows = problem.starts, problem.need, problem.tops, thresholds, expected, gains, cover
        bound = _bound_chain(position, remaining, *rows)
        if bound >= 0:
            bounds[position] = min(bounds[position], bound)

    in_threads(n - remaining, 1, work, n_jobs)
    return bounds

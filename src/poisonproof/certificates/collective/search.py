"""One attack on many test samples: how many predictions it can flip, from above and from below.

From above, any number of seconds gives a sound bound:

1. *Root.* HiGHS maximises Σ θ_g over fractional attacks 0 ≤ w ≤ 1, Σ w ≤ size, with θ_g, the flips of a bundle of test
   samples, below cuts "constant + column · w" that the kernels make at one w after another. Its number is not used:
   its multipliers are rounded to a grid, and the weighted sum of the cuts is a bound in whole numbers, whatever the
   multipliers are.
2. *Branch and bound.* Partitions are put in a fixed order; an attack is a chain j₁ < j₂ < … of positions. A node is the
   beginning of a chain, its bound that of its last partition (`bound_children`), and the node with the largest bound
   is opened next. A chain that lacks one partition is counted exactly. The largest bound among unopened nodes and
   counted attacks is a bound on all attacks at every moment; when no node exceeds the best attack found, it is exact.

From below: an explicit attack, by local search (exchange one partition for the best other one).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from poisonproof.certificates.collective.kernels import (
    CONSTANT,
    GRID,
    bound_children,
    choose_hinges,
    cut_at,
    fill_rows,
    find_rivals,
    flips_with_each,
    gains_after,
    sum_of_largest_columns,
)
from poisonproof.partition.spread import Spread
from poisonproof.system.threads import in_threads

MULTIPLIER_GRID = 1 << 10
GROUPS = 20
ROUNDS = 20
MASTER_CELLS = 1_000_000  # of the linear programme's matrix
CELLS_PER_TASK = 1 << 27
NODES_AT_ONCE = 16
RESTARTS = 40  # in a row that find nothing better
SMALL = 1 << 14  # cells; below that threads cost more than they bring


@dataclass(frozen=True)
class Flippable:
    """Test samples that an attack of a size might flip, with their rival rows (see `shared_kernels`).

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

    def __len__(self) -> int:
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
        fits = max(len(self), 2 * self.d) * GRID <= np.iinfo(np.int32).max
        return np.zeros(self.n, np.int32 if fits else np.int64)

    def in_order(self, order: NDArray[np.int64]) -> Flippable:
        """The same with partition order[position] at each position."""
        position = np.empty(self.n, np.int64)
        position[order] = np.arange(self.n)
        return replace(
            self,
            delta=np.ascontiguousarray(self.delta[:, order]),
            table=np.ascontiguousarray(self.table[order]),
            feeding=position[self.feeding],
        )

    def part(self, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
        """starts, need and delta of some samples."""
        rows = slice(self.starts[start], self.starts[stop])
        return self.starts[start : stop + 1] - self.starts[start], self.need[rows], self.delta[rows]

    def gains(self, chosen: Sequence[int]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Gains and cover after some partitions."""
        gains, cover = np.empty_like(self.delta), np.empty(len(self.need), np.int64)
        gains_after(np.array(chosen, np.int64), self.weight, self.delta, self.table, self.feeding, gains, cover)
        return gains, cover

    def flips_with_each(self, chosen: Sequence[int]) -> NDArray[np.int64]:
        """Exactly how many samples flip under the chosen partitions and one more, for each."""
        flips = np.empty(self.n, np.int64)
        flips_with_each(self.starts, self.need, *self.gains(chosen), 2 * self.d, flips)
        return flips


def possible_rivals(
    matrix: NDArray[Any],
    prediction: NDArray[np.int64],
    n_classes: int,
    unseen: bool,
    spread: Spread,
    size: int,
    n_jobs: int,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """What every rival needs, and whether Theorem 2 leaves it a chance; a column more for an unseen class."""
    needs = np.zeros((len(matrix), n_classes + unseen), np.int64)
    possible = np.zeros(needs.shape, np.bool_)
    table = spread.as_table()

    def work(start: int, stop: int) -> None:
        part = slice(start, stop)
        find_rivals(matrix[part], table, n_classes, prediction[part], size, needs[part], possible[part])

    in_threads(len(matrix), 64, work, n_jobs)
    return needs, possible


def flippable(
    matrix: NDArray[Any],
    prediction: NDArray[np.int64],
    n_classes: int,
    spread: Spread,
    size: int,
    needs: NDArray[np.int64],
    possible: NDArray[np.bool_],
    n_jobs: int,
) -> Flippable:
    """The rival rows of some test samples."""
    sample, rival = (np.ascontiguousarray(index, np.int64) for index in np.nonzero(possible))
    table = np.array(spread.as_table())
    shape = (len(sample), spread.n_partitions)
    weight = np.empty(shape, np.uint8)
    delta = np.empty(shape, np.int16 if 2 * spread.d < np.iinfo(np.int16).max else np.int32)
    tops = np.empty((len(sample), size + 1), np.int64)

    def work(start: int, stop: int) -> None:
        part = slice(start, stop)
        outputs = weight[part], delta[part], tops[part]
        fill_rows(matrix, table, n_classes, prediction, sample[part], rival[part], *outputs)

    in_threads(len(sample), 64, work, n_jobs)
    feeding = np.array([spread.partitions_of(i) for i in range(spread.n_subsets)], np.int64)
    starts = np.searchsorted(sample, np.arange(len(matrix) + 1))
    return Flippable(size, starts, needs[sample, rival], weight, delta, tops, table, feeding)


@dataclass(frozen=True)
class Bracket:
    """At most ``most`` samples flip; the attack flips ``found`` of them."""

    most: int
    found: int
    attack: tuple[int, ...]
    opened: int = 0


def bracket(problem: Flippable, deadline: float, seed: int, n_jobs: int) -> Bracket:
    """Bounds from both sides, as good as the time allows."""
    started = monotonic()
    most, weights = _root(problem, deadline)
    order = np.argsort(-weights, kind="stable")
    problem, weights = problem.in_order(order), weights[order]
    found, attack = _local_search(problem, started + 2 * (deadline - started) / 5, seed)
    result = _branch(problem, weights, Bracket(max(most, found), found, attack), deadline, n_jobs)
    return replace(result, attack=tuple(sorted(order[list(result.attack)].tolist())))


def _root(problem: Flippable, deadline: float) -> tuple[int, NDArray[np.float64]]:
    """A bound from HiGHS's multipliers, recomputed in whole numbers, and weights that say which partitions matter."""
    n, size = problem.n, problem.size
    n_rounds = min(ROUNDS, max(1, MASTER_CELLS // n))
    edges = np.linspace(0, len(problem), min(GROUPS, len(problem), max(1, MASTER_CELLS // (n * n_rounds))) + 1)
    bundles = [(int(a), int(b)) for a, b in pairwise(edges)]
    sizes = np.array([stop - start for start, stop in bundles])
    most, at = len(problem), np.full(n, size / n)
    weights = at
    constants: list[int] = []
    columns: list[NDArray[Any]] = []
    owner: list[int] = []
    for _ in range(n_rounds):
        value = 0.0
        for bundle, (start, stop) in enumerate(bundles):
            column = problem.columns()
            constants.append(cut_at(at, size, problem.d, *problem.part(start, stop), problem.columns(), column))
            columns.append(column)
            owner.append(bundle)
            value += constants[-1] + float(column @ at) / GRID
        seconds = deadline - monotonic()
        if seconds <= 0:
            break
        answer = _solve_master(constants, columns, owner, sizes, size, seconds)
        if answer is None:
            break
        weights, multipliers, ceiling = answer
        most = min(most, _bound_from(multipliers, constants, columns, owner, sizes, size))
        if ceiling - value < 0.5:
            break
        at = 0.7 * at + 0.3 * weights
    # The last cuts break ties between partitions that the solution leaves out.
    last = np.sum(columns[-len(bundles) :], axis=0, dtype=np.float64)
    return most, weights + 1e-6 * last / max(last.max(), 1.0)


def _solve_master(
    constants: list[int], columns: list[NDArray[Any]], owner: list[int], sizes: NDArray[Any], size: int, seconds: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], float] | None:
    """max Σ θ_g, θ_g ≤ its cuts: the fractional attack, one multiplier per cut, the value; None if time ran out."""
    n, n_bundles, n_cuts = len(columns[0]), len(sizes), len(owner)
    rows = np.zeros((n_cuts + 1, n + n_bundles))
    rows[:n_cuts, :n] = np.array(columns) / -GRID
    rows[np.arange(n_cuts), n + np.array(owner)] = 1.0
    rows[n_cuts, :n] = 1.0
    limits = np.array([[0.0, 1.0]] * n + [[0.0, float(members)] for members in sizes])
    answer = linprog(
        np.concatenate([np.zeros(n), np.full(n_bundles, -1.0)]),
        A_ub=rows,
        b_ub=np.array([*constants, size], np.float64),
        bounds=limits,
        method="highs",
        options={"time_limit": seconds},
    )
    if answer.status != 0:
        return None
    return np.clip(answer.x[:n], 0, 1), -answer.ineqlin.marginals[:n_cuts], -float(answer.fun)


def _bound_from(
    multipliers: NDArray[np.float64],
    constants: list[int],
    columns: list[NDArray[Any]],
    owner: list[int],
    sizes: NDArray[Any],
    size: int,
) -> int:
    """⌊Σ multiplier · cut⌋ at the worst attack; what a bundle's multipliers lack of 1 goes to "all of its samples".

    Each cut holds for every attack, so any multipliers ≥ 0 that sum to at most 1 in each bundle are sound.
    """
    left = [MULTIPLIER_GRID] * len(sizes)
    constant, column = 0, np.zeros(len(columns[0]), np.int64)
    for cut, multiplier in enumerate(multipliers):
        parts = min(left[owner[cut]], max(0, int(MULTIPLIER_GRID * multiplier + 0.5)))
        left[owner[cut]] -= parts
        constant += parts * constants[cut]
        column += parts * columns[cut].astype(np.int64)
    constant += sum(rest * int(members) for rest, members in zip(left, sizes, strict=True))
    worst = sum_of_largest_columns(column, size, np.empty(size, np.int64))
    return (constant * GRID + worst) // (GRID * MULTIPLIER_GRID)


def _local_search(problem: Flippable, deadline: float, seed: int) -> tuple[int, tuple[int, ...]]:
    """The best attack found: the leading partitions, improved one by one, and restarts near the best."""
    rng = np.random.default_rng(seed)
    best, best_found = list(range(problem.size)), -1
    in_vain = 0
    while in_vain < RESTARTS:
        attack = list(best)
        if best_found >= 0:
            for slot in rng.choice(problem.size, -(-problem.size // 3), replace=False):
                free = np.setdiff1d(np.arange(problem.n), attack)
                if len(free):
                    attack[slot] = int(rng.choice(free))
        found, stale, slot = -1, 0, 0
        while stale < problem.size and (found < 0 or monotonic() < deadline):
            others = attack[:slot] + attack[slot + 1 :]
            flips = problem.flips_with_each(others)
            flips[others] = -1
            if flips.max() > found:
                found, attack[slot], stale = int(flips.max()), int(flips.argmax()), 0
            else:
                stale += 1
            slot = (slot + 1) % problem.size
        in_vain += 1
        if found > best_found:
            best, best_found, in_vain = attack, found, 0
        if monotonic() >= deadline or best_found == len(problem):
            break
    return best_found, tuple(best)


def _branch(
    problem: Flippable,
    weights: NDArray[np.float64],
    known: Bracket,
    deadline: float,
    n_jobs: int,
) -> Bracket:
    """Branch and bound, best first, until the bracket closes or the time is up."""
    if monotonic() >= deadline:
        return known
    even = 0.5 * weights / max(weights.sum(), 1e-9) + 0.5 / problem.n
    hinges: dict[int, NDArray[Any]] = {}
    number = count()
    opened = 0
    # (−bound, number, chain, positions that continue it, their bounds, largest first)
    heap: list[tuple[int, int, tuple[int, ...], NDArray[Any], NDArray[Any]]] = []
    chains: list[tuple[tuple[int, ...], int]] = [((), known.most)]
    while chains and known.most > known.found:
        for remaining in {problem.size - len(chain) - 1 for chain, _ in chains} - {0} - hinges.keys():
            hinges[remaining] = _hinges(problem, even, remaining)
        bounds = _open(problem, hinges, chains, deadline, n_jobs)
        opened += len(chains)
        for (chain, _), below in zip(chains, bounds, strict=True):
            if len(chain) == problem.size - 1 and monotonic() < deadline and below.max() > known.found:
                known = replace(known, found=int(below.max()), attack=(*chain, int(below.argmax())))
        for (chain, _), below in zip(chains, bounds, strict=True):
            positions = np.flatnonzero(below > known.found)
            if len(positions):
                positions = positions[np.argsort(-below[positions], kind="stable")]
                entry = (-int(below[positions[0]]), next(number), chain, positions, below[positions])
                heapq.heappush(heap, entry)
        known = replace(known, most=max(known.found, min(known.most, -heap[0][0] if heap else 0)))
        if monotonic() >= deadline:
            break
        chains = []
        while heap and len(chains) < NODES_AT_ONCE and -heap[0][0] > known.found:
            bound, _, chain, positions, below = heapq.heappop(heap)
            chains.append(((*chain, int(positions[0])), -bound))
            if len(positions) > 1:
                heapq.heappush(heap, (-int(below[1]), next(number), chain, positions[1:], below[1:]))
    if not chains:
        known = replace(known, most=known.found)
    return replace(known, opened=opened)


def _hinges(problem: Flippable, even: NDArray[np.float64], remaining: int) -> NDArray[Any]:
    width = int(problem.tops[:, remaining].max()) + 1
    hinges = np.full(
        (len(problem.need), width), CONSTANT, np.int16 if 2 * problem.d <= np.iinfo(np.int16).max else np.int32
    )
    choose_hinges(problem.delta, problem.tops, even * remaining, remaining, problem.d, hinges)
    return hinges


def _open(
    problem: Flippable,
    hinges: dict[int, NDArray[Any]],
    chains: list[tuple[tuple[int, ...], int]],
    deadline: float,
    n_jobs: int,
) -> list[NDArray[np.int64]]:
    """For each chain, the bound of every partition that may continue it (0 elsewhere).

    What the time does not allow keeps the bound of the chain.
    """
    results, tasks = [], []
    width = max(1, CELLS_PER_TASK // problem.delta.size)
    for at, (chain, bound) in enumerate(chains):
        first, stop = (chain[-1] + 1 if chain else 0), problem.n - (problem.size - len(chain) - 1)
        below = np.zeros(problem.n, np.int64)
        below[first:stop] = bound
        results.append(below)
        step = width if len(chain) < problem.size - 1 else problem.n
        tasks += [(at, start, min(start + step, stop)) for start in range(first, stop, step)]

    def work(number: int, _: int) -> None:
        if monotonic() >= deadline:
            return
        at, start, stop = tasks[number]
        chain, bound = chains[at]
        remaining = problem.size - len(chain) - 1
        if remaining == 0:
            results[at][start:stop] = problem.flips_with_each(chain)[start:stop]
            return
        below = np.empty(problem.n, np.int64)
        gains, cover = problem.gains(chain)
        rows = problem.starts, problem.need, problem.tops, hinges[remaining], gains, cover
        bound_children(start, stop, remaining, *rows, problem.columns(), problem.columns(), below)
        results[at][start:stop] = np.minimum(below[start:stop], bound)

    in_threads(len(tasks), 1, work, n_jobs if problem.delta.size > SMALL else 1)
    return results

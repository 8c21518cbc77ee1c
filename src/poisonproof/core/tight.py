"""The tight certificate: overlap between spreads counted once.

Write w_i = 1 + [v_i = p] − [v_i = c] ∈ {0, 1, 2} and cov(H) = Σ w_i over the union of spread(j), j ∈ H. An attacker
who poisons the partitions H can make every reached base classifier vote c, and can do no worse; so m poisons are
harmless for rival c **if and only if** cov(H) ≤ m_c for every H of at most m partitions. Theorem 2 bounds cov(H) by
Σ_{j ∈ H} Δ_j, which counts a base classifier as often as it is reached. Here, rival by rival:

1. *Theorem 2.* If the m largest Δ_j sum to at most m_c, m is harmless: a first radius, from below.
2. *Greedy attack.* Take partitions one after the other, each with the largest residual gain. As soon as their cover
   exceeds m_c, it is an attack: a first limit, from above. Where both meet, the radius is **exact**.
3. *Grouped bound (T3)*, only where the spread falls into blocks that overlap by design, found in the spread itself
   (see `poisonproof.core.grouped`).

and then for m = radius + 1, radius + 2, … until an attack is met or both of the following fail:

4. *Dual bound (T1).* For any 0 ≤ u ≤ w: cov(H) ≤ Σ_i (w_i − u_i) + the m largest of U_j = Σ_{i ∈ spread(j)} u_i,
   because cov_w = cov_{w−u} + cov_u, the first is at most its total, the second at most a sum over H. The left side is
   an integer, so the bound may be floored. A projected subgradient looks for a good u; u lies on a grid of 1/256 and
   the bound is computed in integers, so a poor u costs radius and never soundness.
5. *Branch and bound (T2)*, see `poisonproof.core.grouped`. Exhausted: no attack of size m exists. A cover above m_c: an
   attack, exact. Out of nodes: m is not certified, and the radius is not claimed to be exact.

Every step starts from Theorem 2's radius, so the result is never below it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.grouped import (
    ATTACK,
    SAFE,
    Covering,
    Groups,
    Known,
    allocate,
    bound_blocks,
    branch_and_bound,
    find_blocks,
    greedy_attack,
    picks_to_bound,
    raise_by_blocks,
)
from poisonproof.core.spread import Spread, SpreadArrays
from poisonproof.core.theorem2 import count_votes, lead_over, pair_radius, weigh, workspace
from poisonproof.system.compiled import njit, nth_smallest

GRID = 256


@njit(nogil=True, cache=True)
def _dual_proves_safe(
    size: int, lead: int, weight: NDArray[np.int64], table: NDArray[np.int64], iterations: int
) -> bool:
    """Whether the dual bound with some u on the grid is at most the lead."""
    n = len(weight)
    u, sums, times = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        u[i] = GRID * weight[i]
    for _ in range(iterations):
        bound = 0
        for i in range(n):
            bound += GRID * weight[i] - u[i]
        for j in range(n):
            total = 0
            for i in table[j]:
                total += u[i]
            sums[j] = total
        least = nth_smallest(sums, n - size) if size < n else np.int64(0)
        level = size  # how many of those at the least are among the largest
        for j in range(n):
            level -= sums[j] > least
        times[:] = 0
        for j in range(n):
            if sums[j] > least or (sums[j] == least and level > 0):
                level -= sums[j] == least
                bound += sums[j]
                for i in table[j]:
                    times[i] += 1
        if bound // GRID <= lead:
            return True
        length = 0
        for i in range(n):
            length += (times[i] - 1) * (times[i] - 1)
        if length == 0:
            return False
        step = (bound - GRID * lead) / length
        for i in range(n):
            moved = int(np.round(u[i] - step * (times[i] - 1)))
            u[i] = min(max(moved, 0), GRID * weight[i])
    return False


@njit(nogil=True, cache=True)
def tighten_rows(
    votes: NDArray[Any],
    table: NDArray[np.int64],
    feeding: NDArray[np.int64],
    groups: Groups,
    n_classes: int,
    unseen_class: bool,
    iterations: int,
    nodes: int,
    block_nodes: int,
    prediction: NDArray[np.int64],
    runner_up: NDArray[np.int64],
    radius: NDArray[np.int64],
    exact: NDArray[np.bool_],
) -> None:
    """Raise Theorem 2's radii where no larger attack exists; say where an attack one larger was found.

    ``prediction`` and ``runner_up`` come from Theorem 2; ``runner_up``, ``radius`` and ``exact`` are filled.
    For a grouped spread, partitions and base classifiers come block by block; else there are no blocks.
    """
    n, d = table.shape
    n_blocks = len(groups.overlap)
    spread = SpreadArrays(np.empty(0, np.int64), table)
    space = workspace(votes, spread, n_classes, np.empty(0, np.int64))
    weight, row = space.weight[:n], space.row
    whole = Covering(
        weight, space.delta, table, feeding, np.empty(n, np.int64), np.empty(n, np.int64), np.zeros(2 * d + 1, np.int64)
    )
    of_rival = Known(np.empty(n + n_blocks, np.int64), np.empty(n + n_blocks, np.int64))
    of_unseen = Known(np.empty(n + n_blocks, np.int64), np.empty(n + n_blocks, np.int64))
    allocation = np.empty(n_blocks, np.int64)
    for t in range(votes.shape[0]):
        count_votes(votes[t], space)
        p = prediction[t]
        # Theorem 2's runner-up first: it usually sets this radius too, and bounds the work on the others.
        first = runner_up[t]
        best_radius = n
        unseen_known = False
        for step in range(-1, n_classes + unseen_class):
            c = first if step < 0 else step
            if c == p or step == first:
                continue
            hits, lead = space.counts[c], lead_over(p, c, space.counts)
            if step >= 0 and lead // (2 * d) >= best_radius:
                continue
            if n_blocks and step >= 0:
                # A rival with votes has no larger weights than one without, so its covers are no larger.
                if not unseen_known:
                    weigh(row, p, p, space.weight)
                    bound_blocks(picks_to_bound(best_radius, n_blocks), weight, groups, of_unseen)
                    unseen_known = True
                if not allocate(best_radius, lead, d, of_unseen.bounds, groups.starts, allocation):
                    continue
            size = min(pair_radius(p, c, lead, spread, space), best_radius)
            ceiling = best_radius + 1 if lead >= 0 else 1
            if size + 1 < ceiling:
                ceiling = greedy_attack(best_radius, lead, whole)
            if n_blocks and size + 1 < ceiling:
                known = of_rival if hits else of_unseen
                if hits or not unseen_known:
                    bound_blocks(picks_to_bound(ceiling, n_blocks), weight, groups, known)
                    unseen_known |= hits == 0
                size, ceiling = raise_by_blocks(size, ceiling, lead, block_nodes, whole, groups, known)
            while size + 1 < ceiling:
                trial = size + 1
                if not _dual_proves_safe(trial, lead, weight, table, iterations):
                    outcome, _, _ = branch_and_bound(trial, lead, nodes, whole)
                    if outcome == ATTACK:
                        ceiling = trial
                    if outcome != SAFE:
                        break
                size = trial
            if step < 0 or size < best_radius:
                best_radius = size
                runner_up[t] = c
                exact[t] = size + 1 == ceiling
        radius[t] = best_radius


class TightTables(NamedTuple):
    """``tables`` as `tighten_rows` takes them, for votes whose columns come in the order of ``columns``."""

    columns: NDArray[np.int64]
    tables: tuple[NDArray[np.int64], NDArray[np.int64], Groups]
    block_size: int


def tight_tables(spread: Spread) -> TightTables:
    """The spread and its inverse, block by block if it falls into blocks that overlap by design."""
    table, n = np.ascontiguousarray(spread.as_table()), spread.n_subsets
    blocks, columns = find_blocks(spread), np.arange(n)
    starts, overlap, exactly_one = np.zeros(1, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_)
    same_map, origin, block_size = overlap, np.zeros((n, 1), np.int64), n
    if blocks is not None:
        columns, starts, overlap, exactly_one = blocks.classifiers, blocks.starts, blocks.overlap, blocks.exactly_one
        table = np.sort(np.argsort(columns)[table[blocks.partitions]], axis=1)
        origin, block_size = np.repeat(starts[:-1], np.diff(starts))[:, None], int(np.diff(starts).max())
        maps = [rows.tobytes() for rows in np.split(table - origin, starts[1:-1])]
        same_map = np.array([maps.index(rows) for rows in maps])
    feeding = np.argsort(table.ravel(), kind="stable").reshape(table.shape) // spread.d
    groups = Groups(starts, overlap, exactly_one, same_map, table - origin, feeding - origin)
    return TightTables(columns, (table, feeding, groups), block_size)

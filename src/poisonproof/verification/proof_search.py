"""Looking for proofs of radii: thresholds, dual vectors, trees, and bounds for spreads that overlap by design.

Nothing here needs to be believed: `theorem.proves` and the machine-checked checker refuse a wrong proof, and it costs a
radius its proof. Groups follow what that checker computes (proofs/Groups.v).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.verification.theorem import GRID, Branch, Dual, Largest, SpreadMap, Tree

DUAL_STEPS = 150
# Trees whose leaves are Theorem 2 are looked for first: a node of them costs a fraction of one with a dual bound.
VISITS = 4_000_000  # partitions looked at by such a search: no tree that certify walks through is larger
STEPS_AT_NODES, NODES_WITH_DUALS = 40, 300


class HarmfulError(Exception):
    """An attack was met while looking for a proof that there is none; ``cover`` is what it covers."""

    def __init__(self, cover: int) -> None:
        super().__init__(cover)
        self.cover = cover


class GivenUpError(Exception):
    """No proof was found in the time allowed."""


def threshold(values: NDArray[Any], size: int) -> int:
    """The size-th largest value, never below 0; above all of them for size 0."""
    if size < 1:
        return max(0, int(values.max(initial=0)))
    if size >= len(values):
        return 0
    return max(0, int(np.partition(values, len(values) - size)[len(values) - size]))


def sum_of_largest(values: NDArray[Any], size: int) -> int:
    """Sum of the ``size`` largest values, negative ones left out."""
    limit = threshold(values, size)
    return int(size * limit + np.maximum(values.astype(np.int64) - limit, 0).sum())


class Partitions(NamedTuple):
    """Some partitions, by number, and the members that each of them reaches."""

    numbers: NDArray[np.int64]
    table: NDArray[np.int64]
    whole: SpreadMap | None = None  # if these are all partitions of a spread, which adds up faster

    def sums(self, weight: NDArray[np.int64]) -> NDArray[np.int64]:
        """What each partition reaches."""
        return self.whole.sums(weight) if self.whole is not None else weight[self.table].sum(axis=1)


def prove(
    weight: NDArray[np.int64], partitions: Partitions, allowed: NDArray[np.bool_], size: int, lead: int
) -> Tree | None:
    """A tree that proves that no ``size`` allowed partitions cover more than the lead; None if none was found.

    `HarmfulError` if some do.
    """
    gains = np.where(allowed, partitions.sums(weight), 0)
    if sum_of_largest(gains, size) <= lead:
        return Largest(threshold(gains, size))
    if (cover := greedy_cover(weight, partitions, allowed, size)) > lead:
        raise HarmfulError(cover)
    dual = _dual(weight, partitions, allowed, size, lead, DUAL_STEPS)
    if dual is not None:
        return dual
    for dual_steps, nodes in ((0, max(VISITS // len(weight), 1_000)), (STEPS_AT_NODES, NODES_WITH_DUALS)):
        try:
            return Search(weight, partitions, dual_steps, nodes).tree(weight, allowed, size, lead)
        except (GivenUpError, RecursionError):
            continue
    return None


def greedy_cover(weight: NDArray[np.int64], partitions: Partitions, allowed: NDArray[np.bool_], size: int) -> int:
    """What an attacker covers who always takes the partition that adds most: more than the lead is past proving."""
    rest, cover = weight.copy(), 0
    for _ in range(min(size, len(partitions.table))):
        gains = np.where(allowed, partitions.sums(rest), 0)
        best = int(gains.argmax())
        if gains[best] == 0:
            break
        cover += int(gains[best])
        rest[partitions.table[best]] = 0
    return cover


def _dual(
    weight: NDArray[np.int64],
    partitions: Partitions,
    allowed: NDArray[np.bool_],
    size: int,
    lead: int,
    steps: int,
) -> Dual | None:
    """Move u down the subgradient until the bound, in integers, is within the lead."""
    full = GRID * weight
    u = full.copy()
    for _ in range(steps):
        sums = np.where(allowed, partitions.sums(u), 0)
        limit = threshold(sums, size)
        bound = int((full - u).sum()) + size * limit + int(np.maximum(sums - limit, 0).sum())
        if bound < GRID * (lead + 1):
            return Dual(limit, u)
        chosen = np.argpartition(sums, -size)[-size:] if 0 < size < len(sums) else np.arange(len(sums))
        slope = np.bincount(partitions.table[chosen].ravel(), minlength=len(weight)) - 1
        length = int((slope * slope).sum())
        if length == 0:
            return None
        u = np.clip(np.rint(u - (bound - GRID * lead) / length * slope), 0, full).astype(np.int64)
    return None


class Search:
    """Branch and bound that keeps its tree; ``dual_steps`` 0 leaves dual bounds out."""

    def __init__(self, weight: NDArray[np.int64], partitions: Partitions, dual_steps: int, nodes: int) -> None:
        self.partitions, self.dual_steps, self.nodes = partitions, dual_steps, nodes
        self.total = int(weight.sum())

    def tree(self, weight: NDArray[np.int64], allowed: NDArray[np.bool_], size: int, bound: int) -> Tree:
        """A proof that ``size`` of the allowed partitions cover at most the bound."""
        branches: list[tuple[int, Tree]] = []
        while True:
            self.nodes -= 1
            if self.nodes < 0:
                raise GivenUpError
            gains = np.where(allowed, self.partitions.sums(weight), 0)
            best = int(gains.argmax())
            leaf: Tree | None = None
            if sum_of_largest(gains, size) <= bound:
                leaf = Largest(threshold(gains, size))
            elif size < 1 or gains[best] > bound:
                raise HarmfulError(self.total - int(weight.sum()) + int(gains[best]))
            elif self.dual_steps:
                leaf = _dual(weight, self.partitions, allowed, size, bound, self.dual_steps)
            if leaf is not None:
                break
            rest = weight.copy()
            rest[self.partitions.table[best]] = 0
            allowed = allowed.copy()
            allowed[best] = False
            tree = self.tree(rest, allowed, size - 1, bound - int(gains[best]))
            branches.append((int(self.partitions.numbers[best]), tree))
        for partition, tree in reversed(branches):
            leaf = Branch(partition, tree, leaf)
        return leaf


LARGEST_TABLE = 4_000
ROUNDS = 200
NODES_IN_GROUP = 20_000


class Groups(NamedTuple):
    """Two partitions of a group share at least ``overlap`` members, or exactly one; of different groups, none."""

    members: tuple[NDArray[np.int64], ...]
    overlap: int
    exactly_one: bool


class Searched(NamedTuple):
    """A search inside a group: so many picks cover at most the bound."""

    group: int
    picks: int
    bound: int
    tree: Tree


def find_groups(spread: SpreadMap) -> Groups | None:
    """The groups that a spread falls into, if all partitions of each share members and no others do."""
    if spread.d == 1:
        return None
    if spread.shifts is not None:
        shifts = np.array(spread.shifts)
        first = np.bincount(((shifts[:, None] - shifts) % spread.n).ravel(), minlength=spread.n)
        sharing = np.flatnonzero(first)
        step = spread.n // len(sharing)
        if not np.array_equal(sharing, np.arange(0, spread.n, step)) or len(sharing) == 1:
            return None
        groups = tuple(np.arange(g, spread.n, step) for g in range(step))
        shared = first[sharing[1:]]
        return Groups(groups, int(shared.min()), bool((shared == 1).all()))
    if spread.n > LARGEST_TABLE:
        return None
    reach = np.zeros((spread.n, spread.n), np.int32)
    np.put_along_axis(reach, spread.table, 1, axis=1)
    common = reach @ reach.T
    kinds = np.unique(common > 0, axis=0)
    if int(kinds.sum()) != spread.n or (kinds.sum(axis=0) != 1).any() or len(kinds) == spread.n:
        return None
    inside = common[(common > 0) & ~np.eye(spread.n, dtype=bool)]
    return Groups(tuple(np.flatnonzero(kind) for kind in kinds), int(inside.min()), bool((inside == 1).all()))


def prove_by_groups(
    weight: NDArray[np.int64], spread: SpreadMap, groups: Groups, size: int, lead: int
) -> list[Searched] | None:
    """Searches that, with T3, prove that no ``size`` partitions cover more than the lead; None if that failed."""
    everywhere = Partitions(np.arange(spread.n), spread.table, spread)
    if lead < 0 or greedy_cover(weight, everywhere, np.ones(spread.n, np.bool_), size) > lead:
        return None
    lines = _lines(weight, spread, groups, size)
    searches: dict[tuple[int, int], Searched] = {}
    exact: set[tuple[int, int]] = set()
    for _ in range(ROUNDS):
        worth, allocation = _best_sharing(lines, size)
        if worth <= lead:
            return list(searches.values())
        lowered = False
        for g in sorted(range(len(lines)), key=lambda g: allocation[g]):
            picks = allocation[g]
            if picks < 2 or (g, picks) in exact:
                continue
            searched = _largest_cover(weight, spread, groups.members[g], g, picks)
            if searched is None:
                return None
            exact.add((g, picks))
            if searched.bound < lines[g][picks]:
                lines[g][picks] = searched.bound
                searches[g, picks] = searched
                lowered = True
                break
        if not lowered:
            return None
    return None


def _lines(weight: NDArray[np.int64], spread: SpreadMap, groups: Groups, size: int) -> list[NDArray[np.int64]]:
    """For every group, what 0, 1, 2, … picks can cover at most, by T3, the bound for planes, and the group's total."""
    delta, short_of_1, short_of_2 = (
        spread.sums(values) for values in (weight, np.maximum(1 - weight, 0), np.maximum(2 - weight, 0))
    )
    lines = []
    for members in groups.members:
        total = int(weight[np.unique(spread.table[members])].sum())
        line = [0]
        for t in range(1, min(len(members), size) + 1):
            tau = min(spread.d, t) if spread.shifts is not None else t
            shared = groups.overlap * (t - 1)
            penalty = np.maximum(
                np.maximum(shared - (tau - 1) * short_of_1[members], 2 * shared - (tau - 1) * short_of_2[members]), 0
            )
            bound = min(total, sum_of_largest(tau * delta[members] - penalty, t) // tau)
            if groups.exactly_one:
                plane = sum_of_largest(2 * delta[members] - penalty, t) // 2 + (t - 1) * (t - 2)
                bound = min(bound, plane)
            line.append(bound)
        lines.append(np.array(line, np.int64))
    return lines


def _best_sharing(lines: list[NDArray[np.int64]], size: int) -> tuple[int, list[int]]:
    """The most that ``size`` picks can be worth by these bounds, and how many of them then fall into each group."""
    best = np.zeros(size + 1, np.int64)
    choices = []
    for line in lines:
        after = best + line[0]
        choice = np.zeros(size + 1, np.int64)
        for t in range(1, len(line)):
            value = best[: size + 1 - t] + line[t]
            better = value > after[t:]
            after[t:][better] = value[better]
            choice[t:][better] = t
        best = after
        choices.append(choice)
    allocation, left = [], size
    for choice in reversed(choices):
        allocation.append(int(choice[left]))
        left -= int(choice[left])
    return int(best[size]), allocation[::-1]


def _largest_cover(
    weight: NDArray[np.int64], spread: SpreadMap, members: NDArray[np.int64], group: int, picks: int
) -> Searched | None:
    """The largest cover by so many picks in a group, with the tree that proves it."""
    partitions = Partitions(members, spread.table[members])
    inside = np.zeros_like(weight)
    reached = np.unique(partitions.table)
    inside[reached] = weight[reached]
    allowed = np.ones(len(members), np.bool_)
    bound = greedy_cover(inside, partitions, allowed, picks)
    while True:
        try:
            tree = Search(inside, partitions, 0, NODES_IN_GROUP).tree(inside, allowed, picks, bound)
        except HarmfulError as error:
            bound = max(error.cover, bound + 1)
        except (GivenUpError, RecursionError):
            return None
        else:
            return Searched(group, picks, bound, tree)

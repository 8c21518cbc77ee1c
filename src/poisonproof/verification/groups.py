"""Hints for spreads that overlap by design: the groups, T3's bounds, and searches inside groups where T3 is not enough.

A twin of what the machine-checked checker computes (proofs/Groups.v): whatever this file gets wrong, the checker
computes again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.verification.hints import (
    GivenUpError,
    HarmfulError,
    Partitions,
    Search,
    Tree,
    greedy_cover,
    sum_of_largest,
)
from poisonproof.verification.theorem import SpreadMap

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
        neighbours = np.flatnonzero(first)
        step = spread.n // len(neighbours)
        if not np.array_equal(neighbours, np.arange(0, spread.n, step)) or len(neighbours) == 1:
            return None
        groups = tuple(np.arange(g, spread.n, step) for g in range(step))
        shared = first[neighbours[1:]]
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

"""Hints for the machine-checked checker: thresholds, dual vectors and proof trees, found in plain NumPy.

Nothing here needs to be believed: a wrong hint is refused by the checker, and costs a radius its proof. With weights
w_i = 1 + [v_i = p] − [v_i = c] and at most m poisoned partitions, a cover stays within the lead if

- *largest t*: m·t + Σ_j max(0, Δ_j − t) does; the m-th largest Δ_j is the best t;
- *dual t, u*: the same for u on a grid of 1/256 in place of w, plus what u leaves of w;
- *branch j*: both the covers with partition j and those without it do.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.verification.theorem import SpreadMap

GRID = 256
DUAL_STEPS = 150
# Trees whose leaves are Theorem 2 are looked for first: a node of them costs a fraction of one with a dual bound.
VISITS = 4_000_000  # partitions looked at by such a search: no tree that certify walks through is larger
STEPS_AT_NODES, NODES_WITH_DUALS = 40, 300


class Largest(NamedTuple):
    """Theorem 2 with its threshold."""

    threshold: int


class Dual(NamedTuple):
    """The dual bound."""

    threshold: int
    u: NDArray[np.int64]


class Branch(NamedTuple):
    """Covers with a partition, and covers without it."""

    partition: int
    with_it: Any
    without_it: Any


Tree = Largest | Dual | Branch


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
    """A tree that proves that no ``size`` allowed partitions cover more than the lead; None if none was found."""
    gains = np.where(allowed, partitions.sums(weight), 0)
    if lead < 0:
        return None
    if sum_of_largest(gains, size) <= lead:
        return Largest(threshold(gains, size))
    if greedy_cover(weight, partitions, allowed, size) > lead:
        return None
    dual = _dual(weight, partitions, allowed, size, lead, DUAL_STEPS)
    if dual is not None:
        return dual
    for dual_steps, nodes in ((0, max(VISITS // len(weight), 1_000)), (STEPS_AT_NODES, NODES_WITH_DUALS)):
        try:
            return Search(weight, partitions, dual_steps, nodes).tree(weight, allowed, size, lead)
        except (GivenUpError, RecursionError):
            continue
        except HarmfulError:
            break
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

"""The whole arithmetic of a certificate, slowly and in plain NumPy; nothing of it is shared with what it checks.

n base classifiers vote v_1 … v_n; N_c is the number of votes for class c; p is the most voted class, the smaller
index on ties. Partition j reaches the d base classifiers spread(j). A rival c ≠ p has the lead
m_c = N_p − N_c − [c < p] against it, and a poison in partition j costs at most
Δ_j = Σ_{i ∈ spread(j)} (1 + [v_i = p] − [v_i = c]) = d + #(votes for p in spread(j)) − #(votes for c in spread(j)).
Theorem 2 (Wang, Levine and Feizi, 2022): r poisons cannot make c win if the r largest Δ_j sum to at most m_c.

Radii above Theorem 2 (method "tight") come with a proof tree, which `proof_search` looks for and `proves` judges: with
weights w_i = 1 + [v_i = p] − [v_i = c] ≥ 0, r poisons are harmless if no r partitions reach base classifiers of more
weight than m_c. `proves` is that of proofs/Trees.v, whose soundness is a Coq theorem.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.verification.verdict import CheckFailed


@dataclass(frozen=True)
class SpreadMap:
    """A balanced map (Definition 1): row j of ``table`` lists the d subsets that partition j reaches.

    ``shifts`` describe the map if row j is (j + shift) mod n for all of them; otherwise None.
    """

    table: NDArray[np.int64]
    shifts: tuple[int, ...] | None

    @property
    def n(self) -> int:
        """Number of subsets, and of partitions."""
        return len(self.table)

    @property
    def d(self) -> int:
        """How many subsets a partition reaches."""
        return int(self.table.shape[1])

    @property
    def k(self) -> float:
        """n / d, an int if it is whole."""
        return self.n / self.d if self.n % self.d else self.n // self.d

    @property
    def digest(self) -> str:
        """SHA-256 of the map in its shortest form."""
        form: dict[str, Any] = {"n_subsets": self.n}
        form |= {"table": self.table.tolist()} if self.shifts is None else {"shifts": list(self.shifts)}
        return hashlib.sha256(json.dumps(form, sort_keys=True).encode()).hexdigest()

    def sums(self, values: NDArray[Any]) -> NDArray[Any]:
        """For every partition, the sum of the values of the subsets it reaches."""
        if self.shifts is None:
            return values[self.table].sum(axis=1, dtype=values.dtype)
        twice = np.concatenate([values, values])
        total = np.zeros(self.n, values.dtype)
        for shift in self.shifts:
            total += twice[shift : shift + self.n]
        return total


def read_spread(record: dict[str, Any], n: int, where: str) -> SpreadMap:
    """The map that a record {n_subsets, shifts or table} describes, if it is balanced and has n subsets."""
    if set(record) not in ({"n_subsets", "shifts"}, {"n_subsets", "table"}):
        raise CheckFailed(f"{where}: a spread is described by shifts or by a table, and by nothing else.")
    if type(record.get("n_subsets")) is not int or record["n_subsets"] != n:
        raise CheckFailed(
            f"{where} has a spread over {record.get('n_subsets')} subsets, but the votes have {n} columns."
        )
    if "shifts" in record:
        shifts = record["shifts"]
        if not shifts or not all(type(s) is int and 0 <= s < n for s in shifts) or sorted(set(shifts)) != shifts:
            raise CheckFailed(f"{where}: the shifts are not different numbers in 0 … {n - 1}, in increasing order.")
        table = np.sort((np.arange(n)[:, None] + np.array(shifts, np.int64)) % n, axis=1)
    else:
        table = np.array(record["table"])
    if table.ndim != 2 or len(table) != n or table.shape[1] < 1 or table.dtype.kind not in "iu":
        raise CheckFailed(f"{where}: the spread's table does not have one row of whole numbers per partition.")
    table = np.sort(table.astype(np.int64), axis=1)
    if table.min() < 0 or table.max() >= n or (table[:, 1:] == table[:, :-1]).any():
        raise CheckFailed(f"{where}: a partition of the spread does not reach d different subsets.")
    if (np.bincount(table.ravel(), minlength=n) != table.shape[1]).any():
        raise CheckFailed(
            f"{where}: the spread is not balanced (Definition 1): not every subset is fed by d partitions."
        )
    circulant = np.array_equal(table, np.sort((np.arange(n)[:, None] + table[0]) % n, axis=1))
    return SpreadMap(table, tuple(table[0].tolist()) if circulant else None)


class Leads(NamedTuple):
    """The prediction p, the smallest lead (0 if negative), and the votes for each class."""

    prediction: int
    margin: int
    counts: NDArray[np.int64]


class Rival(NamedTuple):
    """How many poisons Theorem 2 proves harmless against one class, the lead m_c, and the class."""

    radius: int
    lead: int
    code: int


class Row(NamedTuple):
    """What one row of votes proves. ``rivals``: the classes with votes, the first without any, and the unseen one.

    Classes without votes are alike but for the tie-break, which favours the first of them; so no other is needed.
    """

    prediction: int
    runner_up: int
    radius: int
    rivals: list[Rival]


def leads(votes: NDArray[Any], n_classes: int, unseen: bool) -> Leads:
    """One row, counted. ``unseen`` adds a rival without votes that wins ties; its code is ``n_classes``."""
    counts = np.bincount(votes, minlength=n_classes + 1)[:n_classes]
    p = int(counts.argmax())
    lead = counts[p] - counts
    lead[:p] -= 1
    others = [int(part.min()) for part in (lead[:p], lead[p + 1 :]) if len(part)]
    if unseen:
        others.append(int(counts[p]) - 1)
    return Leads(p, max(0, min(others)), counts)


def theorem_2(
    votes: NDArray[Any], spread: SpreadMap, n_classes: int, unseen: bool, reachable: NDArray[np.bool_] | None = None
) -> Row:
    """One row, certified; the runner-up is the first by (its radius, its lead, its code).

    With ``reachable`` only those partitions can be poisoned (Theorem 4); if all of them together cannot make a rival
    win, its radius is the number of partitions.
    """
    allowed = slice(None) if reachable is None else reachable
    p, _, counts = leads(votes, n_classes, unseen)
    small = np.min_scalar_type(-2 * spread.d - 1)  # holds every Δ
    reach = spread.sums((votes == p).astype(small)) + small.type(spread.d)
    alone = _worst(reach[allowed])
    rivals = []
    for c in _rivals(p, counts, unseen):
        has_votes = c < n_classes and counts[c] > 0
        lead = lead_of(p, c, counts)
        worst = _worst((reach - spread.sums((votes == c).astype(small)))[allowed]) if has_votes else alone
        harmless = int(np.searchsorted(worst, lead, side="right"))
        rivals.append(Rival(harmless if harmless < len(worst) else spread.n, lead, c))
    radius, _, runner_up = min(rivals)
    return Row(p, runner_up, radius, rivals)


def lead_of(prediction: int, rival: int, counts: NDArray[np.int64]) -> int:
    """m_c; a class without a number of its own, the unseen one, has no votes and wins ties."""
    unseen = rival == len(counts)
    against = 0 if unseen else int(counts[rival])
    return int(counts[prediction]) - against - (rival < prediction or unseen)


def _rivals(prediction: int, counts: NDArray[np.int64], unseen: bool) -> list[int]:
    with_votes = [int(c) for c in np.flatnonzero(counts) if c != prediction]
    without = [int(c) for c in np.flatnonzero(counts == 0)[:2] if c != prediction][:1]
    return [*with_votes, *without, *([len(counts)] if unseen else [])]


def dpa_bound(row: Row, d: int) -> Row:
    """The bound that counts 2d votes for every poison: ⌊m / 2d⌋ with m the smallest lead."""
    lead, runner_up = min((rival.lead, rival.code) for rival in row.rivals)
    return row._replace(runner_up=runner_up, radius=max(lead, 0) // (2 * d))


def weights(votes: NDArray[Any], prediction: int, rival: Rival, n_classes: int) -> NDArray[np.int64]:
    """1 + [v_i = p] − [v_i = c]: what turning base classifier i to c costs."""
    against = (votes == rival.code) & (rival.code < n_classes)
    return 1 + (votes == prediction).astype(np.int64) - against


def _worst(delta: NDArray[Any]) -> NDArray[np.int64]:
    """Sums of the 1, 2, … n largest values."""
    return np.cumsum(np.sort(delta)[::-1], dtype=np.int64)


GRID = 256  # of dual vectors, as in proofs/Trees.v


class Largest(NamedTuple):
    """Theorem 2 with its threshold t: size·t + Σ_j max(0, Δ_j − t) is at most the lead."""

    threshold: int


class Dual(NamedTuple):
    """The same for u on a grid of 1/256 in place of the weights, plus what u leaves of them."""

    threshold: int
    u: NDArray[np.int64]


class Branch(NamedTuple):
    """Covers with a partition, and covers without it."""

    partition: int
    with_it: Any
    without_it: Any


Tree = Largest | Dual | Branch


def proves(
    tree: Tree, weight: NDArray[np.int64], spread: SpreadMap, allowed: NDArray[np.bool_], size: int, lead: int
) -> bool:
    """Whether the tree shows that no ``size`` allowed partitions cover more weight than the lead."""
    while isinstance(tree, Branch):
        if not 0 <= tree.partition < spread.n:
            return False
        allowed, rest = allowed.copy(), weight.copy()
        allowed[tree.partition] = False
        rest[spread.table[tree.partition]] = 0
        if not proves(tree.with_it, rest, spread, allowed, size - 1, lead - int(weight.sum() - rest.sum())):
            return False
        tree = tree.without_it
    grid, u = (1, weight) if isinstance(tree, Largest) else (GRID, tree.u)
    if tree.threshold < 0 or u.shape != weight.shape or (u < 0).any() or (u > grid * weight).any():
        return False
    excess = int(np.maximum(spread.sums(u)[allowed] - tree.threshold, 0).sum())
    return int((grid * weight - u).sum()) + size * tree.threshold + excess < grid * (lead + 1)

"""Spread: which subsets a partition reaches.

A spread is the balanced map h_spread of Definition 1: every partition reaches d different subsets,
and every subset is fed by d different partitions. It is data, not code: it is stored and digested
with the votes, and a certificate is worth nothing without the spread the votes were made with.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import operator
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, SupportsIndex

import numpy as np
import xxhash
from numpy.typing import ArrayLike, NDArray

from poisonproof.errors import DamagedFileError, PoisonproofError, WrongTypeError
from poisonproof.system.files import open_arrays, reading, write_arrays

if TYPE_CHECKING:
    from poisonproof.core.designs import Design


PAPER_SEED = 999999999 + 208


def _at_least_one(name: str, value: SupportsIndex) -> int:
    """The parameter as a Python integer, or one sentence that names it."""
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, bool | np.bool_):
        raise PoisonproofError(
            f"The '{name}' parameter of a spread must be a whole number ≥ 1. Got {value!r} instead.",
            code="spread.parameter",
        )
    return number


class SpreadArrays(NamedTuple):
    """A spread as kernels take it: its shifts or, if there are none, rows of its table, which may lack partitions."""

    shifts: NDArray[np.int64]
    table: NDArray[np.int64]

    def within(self, partitions: NDArray[np.int64]) -> SpreadArrays:
        """These partitions alone."""
        return SpreadArrays(np.empty(0, np.int64), np.array(self.table[partitions]))


@dataclass(frozen=True, eq=False)
class Spread:
    """Map from partition to the d subsets it reaches: spread(j) = {(j + r) mod n : r in shifts}.

    There are as many partitions as subsets. ``k = n_subsets / d`` is the inverse sensitivity: one
    training sample reaches 1/k of the base classifiers. It need not be an integer.

    Parameters
    ----------
    n_subsets : int
        Number of subsets, and of partitions.
    shifts : sequence of int
        The d different shifts, each in ``0 … n_subsets - 1``; kept in increasing order.
        None only for a spread made by `from_table` that no shifts describe.
    """

    n_subsets: int
    shifts: tuple[int, ...] | None
    table: NDArray[np.int64] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_subsets", _at_least_one("n_subsets", self.n_subsets))
        if self.table is not None:
            if self.shifts is not None:
                raise PoisonproofError(
                    "A spread takes shifts or a table, not both; use Spread.from_table for a table.",
                    code="spread.parameter",
                )
            table = _balanced_table(np.asarray(self.table), self.n_subsets)
            circulant = np.sort((np.arange(self.n_subsets)[:, None] + table[0]) % self.n_subsets, axis=1)
            described = np.array_equal(table, circulant)  # by shifts: one map has one form, and so one digest
            object.__setattr__(self, "table", None if described else table)
            object.__setattr__(self, "shifts", tuple(table[0].tolist()) if described else None)
            return
        if self.shifts is None:
            raise PoisonproofError(
                "A spread needs shifts; use Spread.from_table for a map that no shifts describe.",
                code="spread.parameter",
            )
        try:
            shifts = tuple(sorted(operator.index(shift) for shift in self.shifts))
        except TypeError:
            raise PoisonproofError(
                f"The shifts of a spread must be whole numbers. Got {self.shifts!r} instead.", code="spread.parameter"
            ) from None
        if not shifts:
            raise PoisonproofError("A spread needs at least one shift. Got none.", code="spread.parameter")
        if shifts[0] < 0 or shifts[-1] >= self.n_subsets:
            wrong = shifts[0] if shifts[0] < 0 else shifts[-1]
            raise PoisonproofError(
                f"The shifts of a spread over {self.n_subsets} subsets must lie in 0 … {self.n_subsets - 1}. "
                f"Got {wrong} instead.",
                code="spread.parameter",
            )
        twice = sorted({a for a, b in itertools.pairwise(shifts) if a == b})
        if twice:
            raise PoisonproofError(
                f"The shifts of a spread must be different, so that a partition reaches d subsets. "
                f"Got {twice[0]} more than once.",
                code="spread.parameter",
            )
        object.__setattr__(self, "shifts", shifts)

    @classmethod
    def random(cls, k: int, d: int, seed: int = 0) -> Self:
        """k·d subsets and d pseudo-random shifts, the same on every machine and in every version.

        The shifts are the d residues with the smallest xxh64 hashes (so no library's random stream
        is part of the definition). With d = 1 the map is the identity.
        """
        k, d = _at_least_one("k", k), _at_least_one("d", d)
        if d == 1:
            return cls(k, (0,))
        salt = f"bezoar spread {operator.index(seed)} ".encode()
        ranked = sorted(range(k * d), key=lambda r: (xxhash.xxh64_intdigest(salt + str(r).encode()), r))
        return cls(k * d, tuple(ranked[:d]))

    @classmethod
    def paper(cls, k: int, d: int) -> Self:
        """The authors' published shifts, for votes made with their code."""
        k, d = _at_least_one("k", k), _at_least_one("d", d)
        return cls(k * d, tuple(random.Random(PAPER_SEED).sample(range(k * d), d)))

    @classmethod
    def from_difference_set(cls, v: int, residues: Sequence[int], blocks: int) -> Self:
        """n = blocks·v subsets and the shifts blocks·x for x in a cyclic (v, d, λ) difference set.

        Two partitions that are equal modulo ``blocks`` share exactly λ subsets, any others none: overlap that
        ``certify(votes, "tight")`` turns into radius (see `poisonproof.core.designs`). k = blocks·v/d is
        seldom whole.
        """
        from poisonproof.core.designs import checked_overlap

        blocks = _at_least_one("blocks", blocks)
        checked_overlap(v, residues)
        return cls(blocks * v, tuple(blocks * x for x in residues))

    @classmethod
    def planes(cls, q: int, blocks: int) -> Self:
        """Singer's planes for a prime power q: blocks of q² + q + 1 subsets, d = q + 1, λ = 1."""
        from poisonproof.core.designs import plane

        return cls.from_difference_set(*plane(q), blocks)

    @classmethod
    def quartic(cls, p: int, blocks: int) -> Self:
        """Quartic residues for a prime p = 4x² + 1, x odd: blocks of p subsets, d = (p − 1)/4, λ = (p − 5)/16."""
        from poisonproof.core.designs import quartic

        return cls.from_difference_set(*quartic(p), blocks)

    @classmethod
    def designed(cls, design: Design) -> Self:
        """The spread that a suggestion describes."""
        make = cls.planes if design.kind == "plane" else cls.quartic
        return make(design.order, design.blocks)

    @staticmethod
    def suggest(k: float, d: float) -> tuple[Design, ...]:
        """The designed spreads nearest to k and d, best first, with what k, d and the number of subsets become."""
        from poisonproof.core.designs import suggest

        return suggest(k, d)

    @classmethod
    def from_table(cls, table: ArrayLike) -> Self:
        """Any balanced map; row j lists the d subsets that partition j reaches.

        A table that shifts describe gives the spread with these shifts.
        """
        rows = np.asarray(table)
        if rows.ndim != 2:
            raise PoisonproofError(
                f"A spread table must have two dimensions (partitions, d). Got an array of shape {rows.shape}.",
                code="spread.table",
            )
        return cls(len(rows), None, rows)

    @property
    def n_partitions(self) -> int:
        """Number of partitions; always the number of subsets."""
        return self.n_subsets

    @property
    def d(self) -> int:
        """Spread degree: how many subsets each partition reaches."""
        if self.shifts is not None:
            return len(self.shifts)
        assert self.table is not None
        return int(self.table.shape[1])

    @property
    def k(self) -> float:
        """Inverse sensitivity, n_subsets / d; an int whenever it is whole."""
        whole, rest = divmod(self.n_subsets, self.d)
        return self.n_subsets / self.d if rest else whole

    def subsets_of(self, partition: int) -> NDArray[np.int64]:
        """The d subsets that a partition reaches, in increasing order."""
        partition = self._checked("partition", partition)
        if self.table is not None:
            return self.table[partition]
        return np.sort((partition + np.asarray(self.shifts)) % self.n_subsets)

    def partitions_of(self, subset: int) -> NDArray[np.int64]:
        """The d partitions that feed a subset, in increasing order."""
        subset = self._checked("subset", subset)
        if self.table is not None:
            return self.feeding[subset]
        return np.sort((subset - np.asarray(self.shifts)) % self.n_subsets)

    def as_table(self) -> NDArray[np.int64]:
        """The whole map as an array (n_partitions, d), rows in increasing order."""
        if self.table is not None:
            return self.table
        return np.sort((np.arange(self.n_subsets)[:, None] + np.asarray(self.shifts)) % self.n_subsets, axis=1)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the map: equal exactly when two spreads are the same map."""
        return hashlib.sha256(json.dumps(self.as_dict(), sort_keys=True).encode()).hexdigest()

    def as_dict(self) -> dict[str, Any]:
        """The map as plain numbers, for a file; `from_dict` reads it back."""
        if self.table is not None:
            return {"n_subsets": self.n_subsets, "table": self.table.tolist()}
        assert self.shifts is not None
        return {"n_subsets": self.n_subsets, "shifts": list(self.shifts)}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Self:
        """The spread that `as_dict` wrote, checked anew."""
        if "table" in record:
            spread = cls.from_table(record["table"])
            if spread.n_subsets != record.get("n_subsets"):
                raise PoisonproofError("A spread's table and its number of subsets disagree.", code="spread.table")
            return spread
        if not {"n_subsets", "shifts"} <= set(record):
            raise PoisonproofError(
                "A spread record must hold 'n_subsets' and 'shifts' or 'table'.", code="spread.record"
            )
        return cls(record["n_subsets"], tuple(record["shifts"]))

    def save(self, path: str | Path) -> None:
        """Write the spread as an npz file with its digest."""
        shape = {"table": self.table} if self.table is not None else {"shifts": np.asarray(self.shifts, np.int64)}
        write_arrays(path, {"n_subsets": np.int64(self.n_subsets), **shape}, {"spread": self.digest})

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a spread, also of what `split` wrote, and refuse one whose digest does not agree."""
        arrays, facts = open_arrays(path)
        with reading(path):
            if isinstance(facts.get("spread"), dict):
                spread, facts = cls.from_dict(facts["spread"]), {"spread": facts["spread_digest"]}
            elif "table" in arrays:
                spread = cls.from_table(arrays["table"])
            elif "shifts" in arrays:
                spread = cls(int(arrays["n_subsets"]), tuple(arrays["shifts"].tolist()))
            else:
                raise DamagedFileError(f"{path} holds neither shifts nor a table; it is not a spread.")
        if facts.get("spread") != spread.digest:
            raise DamagedFileError(f"{path} is altered: its spread does not have the digest that the file states.")
        return spread

    @property
    def facts(self) -> dict[str, Any]:
        """What tells it from others, for a premise."""
        return {"k": self.k, "d": self.d, "digest": self.digest}

    def __str__(self) -> str:
        return f"k = {self.k:g}, d = {self.d}, digest {self.digest[:16]}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spread) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def arrays(self) -> SpreadArrays:
        """The map as kernels take it."""
        return SpreadArrays(np.array(self.shifts or (), np.int64), np.array(self.as_table()))

    @cached_property
    def feeding(self) -> NDArray[np.int64]:
        """Row i lists the partitions that feed subset i, in increasing order."""
        flat = self.as_table().ravel()
        return np.argsort(flat, kind="stable").reshape(self.n_subsets, self.d) // self.d

    def _checked(self, name: str, number: int) -> int:
        if not 0 <= number < self.n_subsets:
            raise IndexError(f"There is no {name} {number}: this spread has 0 … {self.n_subsets - 1}.")
        return number


def _balanced_table(table: NDArray[Any], n_subsets: int) -> NDArray[np.int64]:
    """The table with sorted rows, read-only, or one sentence that says why it is not a spread."""
    if not np.issubdtype(table.dtype, np.integer):
        raise PoisonproofError(f"A spread table must hold whole numbers. Got dtype {table.dtype}.", code="spread.table")
    if table.shape[0] != n_subsets or table.shape[0] == 0 or table.shape[1] == 0:
        raise PoisonproofError(
            f"A spread table must have one row per subset and at least one column. Got {table.shape}.",
            code="spread.table",
        )
    rows = np.sort(table.astype(np.int64), axis=1)
    if rows.min() < 0 or rows.max() >= n_subsets:
        raise PoisonproofError(
            f"A spread table over {n_subsets} subsets must hold numbers in 0 … {n_subsets - 1}.", code="spread.table"
        )
    repeated = np.flatnonzero((rows[:, 1:] == rows[:, :-1]).any(axis=1))
    if len(repeated):
        raise PoisonproofError(
            f"Row {repeated[0]} of the spread table names a subset twice; it must name d different ones.",
            code="spread.table",
        )
    fed = np.bincount(rows.ravel(), minlength=n_subsets)
    uneven = np.flatnonzero(fed != rows.shape[1])
    if len(uneven):
        raise PoisonproofError(
            f"The spread table is not balanced: subset {uneven[0]} is fed by {fed[uneven[0]]} partitions, "
            f"not by d = {rows.shape[1]}.",
            code="spread.table",
        )
    rows.flags.writeable = False
    return rows


def resolve_spread(
    spread: Spread | None, k: SupportsIndex, d: SupportsIndex, *, unless: Sequence[SupportsIndex] = ()
) -> Spread:
    """The spread to use: the given one, or `Spread.random(k, d)`.

    Raises when a given spread disagrees with k or d, unless (k, d) are the values in ``unless``
    (a caller's defaults, which nobody asked for).
    """
    if spread is None:
        return Spread.random(_at_least_one("k", k), _at_least_one("d", d))
    if not isinstance(spread, Spread):
        raise WrongTypeError(f"The 'spread' parameter must be a poisonproof.Spread or None. Got {spread!r} instead.")
    default_k, default_d = unless or (None, None)
    for name, asked, default, has in (("k", k, default_k, spread.k), ("d", d, default_d, spread.d)):
        if asked != default and asked != has:
            raise PoisonproofError(
                f"The spread has {name} = {has:g} but {name} = {asked} was given too; "
                "give one of them, or make them agree.",
                code="spread.two-ks",
            )
    return spread

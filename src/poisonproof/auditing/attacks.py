"""Attacks that an audit carries out: training samples removed, crafted, relabelled, rewritten.

An attack aims at one test sample. It knows everything: the training data, the split, the spread, every vote.
It picks the partitions whose base classifiers matter most for its target (the certificate's own worst case)
and crafts samples until their hash falls into them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from poisonproof.core.certify import Certificate
from poisonproof.core.split import Split
from poisonproof.samples.convert import count_rows, join_rows, take_rows
from poisonproof.samples.frames import is_frame
from poisonproof.samples.kinds import NumberSamples
from poisonproof.samples.labels import label_cells

CANDIDATES_PER_PARTITION = 8
ROUNDS = 40
FLOOD = 10
ROWS_PER_CONTRIBUTOR = 12
TRIGGER_SHARE = 0.05
NOBODY = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Poison:
    """One attack: rows removed, samples added (with labels and contributors), and its size in units of the radius."""

    size: int
    removed: NDArray[np.int64]
    added: Any = None
    labels: tuple[Any, ...] = ()
    groups: tuple[Any, ...] | None = None


class Rows(NamedTuple):
    """Training samples with their labels, and the contributor of each if there are any."""

    X: Any
    labels: list[Any]
    groups: list[Any] | None


def apply_poison(rows: Rows, poison: Poison, split: Split) -> Rows:
    """The training data after the attack: what was added stands at the end."""
    stay = np.setdiff1d(np.arange(len(rows.labels)), poison.removed)
    X, labels = take_rows(rows.X, stay), [rows.labels[row] for row in stay]
    groups = None if rows.groups is None else [rows.groups[row] for row in stay]
    if poison.added is None:
        return Rows(X, labels, groups)
    more = None if groups is None else [*groups, *(poison.groups or ())]
    return Rows(join_rows(X, poison.added, split.samples), [*labels, *poison.labels], more)


@dataclass(frozen=True, eq=False)
class AttackContext:
    """What the attacker sees: training data, split, votes and certificate of the targets."""

    X: Any
    labels: list[Any]
    groups: list[Any] | None
    targets: Any
    split: Split
    partition: NDArray[np.int64]
    votes: NDArray[Any]
    certificate: Certificate
    rng: np.random.Generator

    @property
    def n_partitions(self) -> int:
        """Partitions of the split."""
        return self.certificate.ensemble.n_partitions

    @property
    def dense(self) -> bool:
        """Whether samples are plain numbers, so that they can be mixed and measured."""
        return isinstance(self.X, np.ndarray) and self.X.dtype.kind in "iufb"

    def rival(self, target: int) -> Any:
        """The label the attacker would like to see."""
        code = int(self.certificate.runner_up[target])
        classes = self.certificate.classes.tolist()
        if code < len(classes):
            return classes[code]
        return next(label for label in reversed(classes) if label != classes[self.certificate.prediction[target]])

    def worst_partitions(self, target: int, count: int) -> list[int]:
        """Partitions in the order in which a greedy attacker takes them: most votes won first, each vote once."""
        table = self.certificate.ensemble.as_table()
        votes, certificate = self.votes[target], self.certificate
        weight = 1 + (votes == certificate.prediction[target]).astype(np.int64)
        weight -= votes == certificate.runner_up[target]
        chosen: list[int] = []
        left = np.ones(len(table), np.bool_)
        while len(chosen) < min(count, len(table)):
            gain = np.where(left, weight[table].sum(axis=1), -1)
            best = int(gain.argmax())
            chosen.append(best)
            left[best] = False
            weight[table[best]] = 0
        return chosen

    def rows_of(self, label: Any) -> NDArray[np.int64]:
        """The training samples of a label."""
        return np.flatnonzero([one == label for one in self.labels])

    def owners(self, rows: NDArray[np.int64]) -> tuple[Any, ...] | None:
        """The contributors of these training samples, if there are any."""
        return None if self.groups is None else tuple(self.groups[row] for row in rows)

    @property
    def flood(self) -> int:
        """Ten times as many samples as a partition usually holds."""
        return FLOOD * max(1, len(self.labels) // self.n_partitions)

    def nearest(self, target: int, rows: NDArray[np.int64]) -> int:
        """Of these training samples the one most like the target, or any where likeness is not defined."""
        if not self.dense or len(rows) == 1:
            return int(rows[0])
        flat = self.X[rows].reshape(len(rows), -1).astype(np.float64)
        aim = self.targets[target].reshape(-1).astype(np.float64)
        with np.errstate(all="ignore"):
            return int(rows[np.nan_to_num(((flat - aim) ** 2).sum(axis=1), nan=np.inf).argmin()])

    def supporters(self, target: int, count: int) -> list[NDArray[np.int64]]:
        """What to take away, one unit each: a sample of the predicted class (or a whole contributor) per partition."""
        label = self.certificate.classes.tolist()[self.certificate.prediction[target]]
        units = []
        for j in self.worst_partitions(target, self.n_partitions):
            rows = np.flatnonzero(self.partition == j)
            if len(rows) == 0:
                continue
            friends = np.intersect1d(rows, self.rows_of(label))
            best = self.nearest(target, friends if len(friends) else rows)
            if self.groups is None:
                units.append(np.array([best]))
            else:
                units.append(np.flatnonzero([group == self.groups[best] for group in self.groups]))
            if len(units) == count:
                break
        return units

    def craft(self, base: Any, label: Any, partitions: Sequence[int]) -> tuple[Any, tuple[Any, ...] | None] | None:
        """Variants of one sample, one for each of these partitions; None if the search does not find them.

        ``base`` is one row. With contributors the id is searched, and each brings several copies.
        """
        if self.groups is not None:
            return self._craft_contributors(base, partitions)
        landed: dict[int, Any] = {}
        count = min(4096, CANDIDATES_PER_PARTITION * self.n_partitions)
        for attempt in range(ROUNDS):
            variants = self._variants(base, count, attempt)
            where = self.split.partitions(self.split.samples(variants), self.n_partitions, label_cells([label] * count))
            for j in set(partitions) - set(landed):
                hits = np.flatnonzero(where == j)
                if len(hits):
                    landed[j] = take_rows(variants, [int(hits[0])])
            if len(landed) == len(set(partitions)):
                return reduce(self._join, [landed[j] for j in partitions]), None
        return None

    def _craft_contributors(self, base: Any, partitions: Sequence[int]) -> tuple[Any, tuple[Any, ...]] | None:
        names = [f"attacker {number}" for number in range(ROUNDS * self.n_partitions)]
        where = self.split.partitions(NumberSamples(np.zeros((len(names), 1))), self.n_partitions, groups=names)
        rows, groups = [], []
        for j in partitions:
            hits = np.flatnonzero(where == j)
            if len(hits) == 0:
                return None
            copies = take_rows(self._variants(base, ROWS_PER_CONTRIBUTOR, 0), list(range(ROWS_PER_CONTRIBUTOR)))
            rows.append(copies)
            groups += [names[int(hits[0])]] * ROWS_PER_CONTRIBUTOR
        return reduce(self._join, rows), tuple(groups)

    def _join(self, X: Any, more: Any) -> Any:
        return join_rows(X, more, self.split.samples)

    def _variants(self, base: Any, count: int, attempt: int) -> Any:
        """Rows that a person or a learner would hardly tell from ``base`` and that all hash differently."""
        number = attempt * count + np.arange(count)
        if is_frame(base):
            return _frame_variants(base, number)
        if sp.issparse(base):
            rows = sp.vstack([base] * count, format="lil")
            columns = self.rng.integers(0, base.shape[1], count)
            rows[np.arange(count), columns] = 1e-6 * (1.0 + number)
            return rows.tocsr()
        if isinstance(base, list):
            return [f"{base[0]} {at}" for at in number]
        rows = np.repeat(np.asarray(base), count, axis=0)
        flat = rows.reshape(count, -1)
        touched = self.rng.integers(0, flat.shape[1], (count, 12))
        if flat.dtype == np.uint8:
            noise = self.rng.integers(0, min(255, 2 << attempt), touched.shape)
            values = flat[np.arange(count)[:, None], touched].astype(np.int64)
            flat[np.arange(count)[:, None], touched] = np.where(values >= 128, values - noise, values + noise)
        elif self.split.kind == "pixel-sum":
            flat[np.arange(count), touched[:, 0]] += self.rng.integers(0, 2 + 2 * attempt, count)
        else:
            column = touched[:, 0]
            here = flat[np.arange(count), column]
            known = np.nan_to_num(here)
            flat[np.arange(count), column] = known + 1e-7 * (1 + np.abs(known)) * (1 + number)
        return rows


def remove(context: AttackContext, target: int, size: int) -> Poison | None:
    """Take away the samples that hold the prediction."""
    units = context.supporters(target, size)
    return Poison(len(units), np.concatenate(units)) if units else None


def insert(context: AttackContext, target: int, size: int) -> Poison | None:
    """Add the target itself, all but unchanged, under the rival's label, where it counts most."""
    return _inserted(context, target, size, take_rows(context.targets, [target]))


def flip(context: AttackContext, target: int, size: int) -> Poison | None:
    """Give the samples that hold the prediction the rival's label."""
    cost = context.split.cost("label_flip")
    units = context.supporters(target, size // cost)
    if not units:
        return None
    rows = np.concatenate(units)
    labels = (context.rival(target),) * len(rows)
    return Poison(cost * len(units), rows, take_rows(context.X, rows), labels, context.owners(rows))


def modify(context: AttackContext, target: int, size: int) -> Poison | None:
    """Turn samples that hold the prediction into the target under the rival's label, in other partitions."""
    cost = context.split.cost("modify")
    units = context.supporters(target, size // cost)
    if not units:
        return None
    rows = np.concatenate(units)
    if context.groups is not None:
        added = context._variants(take_rows(context.targets, [target]), len(rows), 0)
        return Poison(len(units), rows, added, (context.rival(target),) * len(rows), context.owners(rows))
    landed = insert(context, target, len(units))
    return None if landed is None else Poison(cost * len(units), rows, landed.added, landed.labels)


def collide(context: AttackContext, target: int, size: int) -> Poison | None:
    """Samples of the rival's class pulled over to the target until they nearly collide with it."""
    rows = context.rows_of(context.rival(target))
    if not context.dense or len(rows) == 0:
        return None
    base = context.X[[context.nearest(target, rows)]]
    mixed = 0.7 * context.targets[[target]].astype(np.float64) + 0.3 * base.astype(np.float64)
    if context.split.kind == "pixel-sum":
        mixed = np.round(mixed)
    return _inserted(context, target, size, mixed.astype(context.X.dtype))


def backdoor(context: AttackContext, target: int, size: int) -> Poison | None:
    """Training samples that carry a trigger, under the rival's label; meant for targets that carry it too."""
    rows = np.setdiff1d(np.arange(len(context.labels)), context.rows_of(context.rival(target)))
    if not context.dense or len(rows) == 0:
        return None
    return _inserted(context, target, size, with_trigger(context.X[[int(context.rng.choice(rows))]]))


def degenerate(context: AttackContext, target: int, size: int) -> Poison | None:
    """Rows that break careless learners: all zero, constant, or as large as numbers get; an empty or endless text."""
    base: Any = take_rows(context.X, [0])
    choice = int(context.rng.integers(3))
    if is_frame(base):
        base = base.copy()
        for column in base.columns:
            if base[column].dtype.kind == "f":
                base[column] = (0.0, 1e300, np.nan)[choice]
    elif sp.issparse(base):
        base = base * 0 if choice == 0 else base * (1e300 if choice == 1 else -1.0)
    elif isinstance(base, list):
        base = ["" if choice == 0 else "poison " * (1 if choice == 1 else 2000)]
    elif not context.dense:
        return None
    elif base.dtype == np.uint8:
        base = np.full_like(base, (0, 255, 128)[choice])
    else:
        largest = 2.0**40 if context.split.kind == "pixel-sum" else 1e150
        base = np.full(base.shape, (0.0, largest, -largest)[choice])
    return _inserted(context, target, size, base)


def duplicates(context: AttackContext, target: int, size: int) -> Poison | None:
    """One rival sample over and over: ten times as many copies as a partition holds, all in one partition."""
    rows = context.rows_of(context.rival(target))
    if len(rows) == 0:
        return None
    copies = [context.nearest(target, rows)] * context.flood
    labels = (context.labels[copies[0]],) * len(copies)
    groups = None if context.groups is None else ("attacker",) * len(copies)
    return Poison(len(copies) if groups is None else 1, NOBODY, take_rows(context.X, copies), labels, groups)


def flood(context: AttackContext, target: int, size: int) -> Poison | None:
    """The worst partition filled with the target under the rival's label, to ten times its size."""
    partition = context.worst_partitions(target, 1)
    poison = _inserted(context, target, 1, take_rows(context.targets, [target]), partition)
    if poison is None:
        return None
    copies = list(range(len(poison.labels))) * (context.flood // len(poison.labels) + 1)
    groups = None if poison.groups is None else tuple(poison.groups[at] for at in copies)
    added, labels = take_rows(poison.added, copies), poison.labels[:1] * len(copies)
    return Poison(len(copies) if groups is None else 1, NOBODY, added, labels, groups)


ATTACKS: dict[str, Callable[[AttackContext, int, int], Poison | None]] = {
    "remove": remove,
    "insert": insert,
    "flip": flip,
    "modify": modify,
    "collide": collide,
    "backdoor": backdoor,
    "degenerate": degenerate,
    "duplicates": duplicates,
    "flood": flood,
}


def with_trigger(images: NDArray[Any]) -> NDArray[Any]:
    """Images (or vectors) whose last values, a twentieth of them, are as bright as they get."""
    triggered = images.copy()
    flat = triggered.reshape(len(images), -1)
    width = max(1, int(TRIGGER_SHARE * flat.shape[1]))
    flat[:, -width:] = 255 if images.dtype == np.uint8 else np.abs(flat).max(axis=1, keepdims=True)
    return triggered


def _inserted(
    context: AttackContext, target: int, size: int, base: Any, partitions: Sequence[int] | None = None
) -> Poison | None:
    wanted = partitions or context.worst_partitions(target, size)
    label = context.rival(target)
    landed = context.craft(base, label, wanted) if wanted else None
    if landed is None:
        return None
    added, groups = landed
    return Poison(len(wanted), NOBODY, added, (label,) * count_rows(added), groups)


def _frame_variants(base: Any, number: NDArray[np.int64]) -> Any:
    import pandas as pd

    rows = base.iloc[[0] * len(number)].reset_index(drop=True)
    numeric = [column for column in rows.columns if pd.api.types.is_float_dtype(rows[column].dtype)]
    finite = [column for column in numeric if np.isfinite(base[column].iloc[0]) and abs(base[column].iloc[0]) < 1e300]
    if finite:
        here = float(base[finite[0]].iloc[0])
        return rows.assign(**{finite[0]: here + 1e-7 * (1 + abs(here)) * (1 + number)})
    if numeric:
        return rows.assign(**{numeric[0]: 1e-7 * (1.0 + number)})
    return rows.assign(**{rows.columns[0]: [f"{base.iloc[0, 0]} {at}" for at in number]})

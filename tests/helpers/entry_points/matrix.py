"""Every entry point for rows, every odd row we know, and one question: does the row reach anybody but its own?

`ENTRY_POINTS` and `odd_rows` are two tables of small named functions. `faults_of` takes one case (an entry point, an
odd row, an act and a place), reads the data before and after the act, and says what moved that had no right to: at most
the row itself may come or go, every other row keeps its cells, its label, its partition and its side of the held-out
set; the schema stays; a base classifier moves only if the row's partition feeds it; and `update` gives what a fresh fit
gives.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from entry_points.arrays import EntryPoint, Inputs, objects
from entry_points.rows import N_TEST, SHARE, Odd, Row, honest_rows, odd_row, odd_rows
from entry_points.table import ENTRY_POINTS
from poisonproof import FiniteAggregationClassifier
from poisonproof.data.dataset import held_out
from poisonproof.errors import PoisonproofError
from poisonproof.estimators.prepared import Prepared, prepare, split_of
from poisonproof.samples.convert import count_rows, take_rows
from poisonproof.samples.frames import as_values
from poisonproof.samples.labels import label_cells

ACTS = ("insert", "remove", "replace", "remove another")
PLACES = ("first", "middle", "last")
OF_SCIKIT_LEARN = ("Expected 2D array", "Expected a 2-dim", "Found array with", "Unknown label type", "Input y")
STOP, MANY = "stop", "all"  # the act that asks for nothing but whether anything stops; odd rows alone, or most of them


@dataclass(frozen=True)
class Case:
    """One act with one odd row at one entry point; ``train`` trains, votes and updates besides comparing digests."""

    entry: EntryPoint
    odd: str
    act: str = "insert"
    place: str = "middle"
    train: bool = False

    def __str__(self) -> str:
        return f"{self.entry.name} | {self.odd} | {self.act} {self.place}"


@dataclass(frozen=True)
class Reading:
    """What an entry point made of some rows: every row with its content, label, partition and side, and the digests."""

    inputs: Inputs
    rows: Counter[Any]
    aside: dict[int, bool]
    digests: np.ndarray
    schema: str
    ensemble: Prepared


@dataclass(frozen=True)
class Change:
    """The rows before and after an act, and by how many they may differ."""

    before: tuple[Row, ...]
    after: tuple[Row, ...]
    removed: tuple[int, ...] = ()
    added: tuple[Row, ...] = ()


def change_of(act: str, place: str, honest: tuple[Row, ...], make: Odd) -> Change:
    at = {"first": 0, "middle": len(honest) // 2, "last": len(honest) - 1}[place]
    odd = make(honest[at], honest)
    at_end = at + (place == "last")
    with_odd = (*honest[:at_end], odd, *honest[at_end:])
    if act == "insert":
        return Change(honest, with_odd, (), (odd,))
    if act == "remove":
        return Change(with_odd, honest, (at_end,))
    if act == "replace":
        return Change(honest, (*honest[:at], odd, *honest[at + 1 :]), (at,), (odd,))
    gone = (at + 13) % len(honest)
    return Change(with_odd, (*with_odd[:gone], *with_odd[gone + 1 :]), (gone,))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def read(entry: EntryPoint, rows: tuple[Row, ...]) -> Reading:
    """Load rows through an entry point, as far as digests: nothing is trained."""
    with quiet(), tempfile.TemporaryDirectory(prefix="entry-point", dir=_fast()) as folder:
        inputs = entry.load(rows, Path(folder))
        prepared = prepare(inputs.model, inputs.X, inputs.y, inputs.groups)
        source, partition, classes = prepared.source, prepared.subsets.partition, _names(prepared.classes)
        names = [classes[code] for code in source.codes]
        keys = [source.samples.key(row) for row in range(len(source.samples))]
        counted = Counter(zip(["trained"] * len(keys), keys, names, partition.tolist(), strict=True))
        counted.update(_tested(inputs))
        schema = f"{source.samples.layout} {inputs.schema}"
        return Reading(inputs, counted, _aside(inputs, rows), prepared.digests, schema, prepared)


def _fast() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _tested(inputs: Inputs) -> Counter[Any]:
    """The rows that a reader held out."""
    if inputs.tested is None:
        return Counter()
    X, y = inputs.tested
    samples = split_of(inputs.model).samples(X)
    return Counter(("held out", samples.key(row), str(label), None) for row, label in enumerate(y))


def _aside(inputs: Inputs, rows: tuple[Row, ...]) -> dict[int, bool]:
    """Where no reader held rows out: whether `held_out` would, for each row."""
    if inputs.tested is not None:
        return {}
    aside = held_out(inputs.X, SHARE, groups=as_values(inputs.groups), dtype=split_of(inputs.model).dtype)
    return {id(row): bool(out) for row, out in zip(rows, aside, strict=True)}


@cache
def _honest(name: str) -> Reading:
    entry = ENTRY_POINTS[name]
    return read(entry, honest_rows(entry.rows))


def _reading(entry: EntryPoint, rows: tuple[Row, ...]) -> Reading:
    return (
        _honest(entry.name)
        if rows is honest_rows(entry.rows) and ENTRY_POINTS.get(entry.name) is entry
        else read(entry, rows)
    )


def stopped_by(case: Case, make: Odd) -> list[str]:
    """Whether odd rows stop the reading: one in a place; or one alone, as many as all, and two for each honest row.

    Only nothing left is an error, and that is one sentence of ours, or of scikit-learn's.
    """
    entry, honest = case.entry, honest_rows(case.entry.rows)
    if case.place != MANY:
        lots = {"one row": change_of("insert", case.place, honest, make).after}
    else:
        odd = tuple(make(row, honest) for row in honest)
        lots = {"most rows": (*odd, *honest, *odd), "all rows": odd, "a row alone": odd[:1]}
    faults = []
    for what, rows in lots.items():
        try:
            read(entry, rows)
        except Exception as error:
            some_left = what in ("one row", "most rows") and not (what == "most rows" and case.odd in entry.chosen)
            sentence = isinstance(error, PoisonproofError) or str(error).startswith(OF_SCIKIT_LEARN)
            if some_left or not sentence:
                faults.append(f"{what} stop the training: {type(error).__name__}: {' '.join(str(error).split())[:150]}")
    return faults


def faults_of(case: Case, make: Odd | None = None) -> list[str]:
    """What this act moved that it had no right to; nothing, if the entry point is sound."""
    if case.act == STOP:
        return stopped_by(case, make or odd_row(case.odd))
    entry, honest = case.entry, honest_rows(case.entry.rows)
    change = change_of(case.act, case.place, honest, make or odd_row(case.odd))
    try:
        before, after = _reading(entry, change.before), _reading(entry, change.after)
    except Exception as error:
        return [f"one row stops the training: {type(error).__name__}: {' '.join(str(error).split())[:150]}"]
    train = case.train or _classes_moved(before, after)
    return [*_moved(case, change, before, after), *(_retrained(case, change, before, after) if train else [])]


def _moved(case: Case, change: Change, before: Reading, after: Reading) -> list[str]:
    """By content and digests: what came, what went, and which base classifiers noticed."""
    faults = []
    if before.schema != after.schema:
        if case.odd in case.entry.chosen and not after.inputs.schema_declared:
            return []  # chosen from this data, and the certificate says so
        faults.append(f"the schema moved: {before.schema} became {after.schema}")
    lost, gained = before.rows - after.rows, after.rows - before.rows
    for what, moved, most in (("went", lost, len(change.removed)), ("came", gained, len(change.added))):
        if moved.total() > most:
            faults.append(f"{moved.total()} rows {what} where at most {most} may: {[*moved][:2]}")
    crossed = [row for row, out in before.aside.items() if after.aside.get(row, out) != out]
    if crossed:
        faults.append(f"{len(crossed)} other rows moved into the held-out set or out of it")
    if _classes_moved(before, after):
        return (
            faults  # inferred classes are a premise, and a certificate reckons with one more; votes are asked by name
        )
    noticed = set(np.flatnonzero((before.digests != after.digests).any(axis=1)).tolist())
    if not noticed <= _may_notice(before, after):
        faults.append(f"base classifiers {sorted(noticed)} moved, and only {sorted(_may_notice(before, after))} may")
    return faults


def _classes_moved(before: Reading, after: Reading) -> bool:
    """Whether inferred classes differ, be it in their type alone: digests name them."""
    lists = {repr(reading.ensemble.classes.tolist()) for reading in (before, after)}
    return before.inputs.model.classes is None and len(lists) > 1


def _may_notice(before: Reading, after: Reading) -> set[int]:
    """The base classifiers that the rows which came or went feed."""
    spread = before.ensemble.spread
    moved = [*(before.rows - after.rows), *(after.rows - before.rows)]
    return {int(i) for row in moved if row[0] == "trained" for i in spread.subsets_of(row[3])}


def _retrained(case: Case, change: Change, before: Reading, after: Reading) -> list[str]:
    """By training: votes on fixed test samples, to the bit; and `update` against a fresh fit."""
    with quiet():
        try:
            test = _test_samples(case.entry)
            fitted, fresh = (_fitted(reading) for reading in (before, after))
            said, said_then = (_votes(model, test) for model in (fitted, fresh))
            moved = set(np.flatnonzero((said != said_then).any(axis=0)).tolist())
            faults = []
            if not moved <= _may_notice(before, after):
                faults.append(f"votes of {sorted(moved)} moved, and only {sorted(_may_notice(before, after))} may")
            updated = _updated(case, change, fitted, before, after)
            same_type = repr(updated.classes_.tolist()) == repr(
                fresh.classes_.tolist()
            )  # of 1 and 1.0 the first stands
            if same_type and not np.array_equal(updated.subset_digests_, fresh.subset_digests_):
                faults.append("update gives other digests than a fresh fit")
            if not np.array_equal(_votes(updated, test), said_then):
                faults.append("update gives other votes than a fresh fit")
            return faults
        except Exception as error:
            return [
                f"one row stops training, votes or update: {type(error).__name__}: {' '.join(str(error).split())[:150]}"
            ]


def _fitted(reading: Reading) -> FiniteAggregationClassifier:
    """A model of its own: what the honest rows gave is kept for other cases, and `update` changes a model."""
    inputs = reading.inputs
    return copy(inputs.model).fit(inputs.X, inputs.y, inputs.groups)


def _votes(model: FiniteAggregationClassifier, test: Any) -> np.ndarray:
    """Votes as the names of classes, so that another list of classes does not count as another vote."""
    votes = model.votes(test)
    return np.array([*_names(votes.classes), "abstains"])[votes.matrix]


def _names(classes: Any) -> list[str]:
    """Classes by their value: an odd one among them may turn the others to floats or objects."""
    return [repr(cell) for cell in label_cells(list(classes))]


def _test_samples(entry: EntryPoint) -> Any:
    inputs = _reading(entry, honest_rows(entry.rows)).inputs
    samples = inputs.X if inputs.tested is None else inputs.tested[0]
    return take_rows(samples, np.arange(min(N_TEST, count_rows(samples))))


def _updated(
    case: Case, change: Change, fitted: FiniteAggregationClassifier, before: Reading, after: Reading
) -> FiniteAggregationClassifier:
    if case.entry.alone:
        remove, add = list(change.removed), None
        if change.added:
            more = case.entry.load(change.added, Path())
            y = objects(more.y) if isinstance(more.y, list) else more.y  # [[1]] would be a column of labels
            add = (more.X, y) if more.groups is None else (more.X, y, more.groups)
    else:
        remove, come = _differing(before.inputs, after.inputs), _differing(after.inputs, before.inputs)
        more = after.inputs
        add = None
        if come:
            parts = (take_rows(more.X, come), more.y[come], None if more.groups is None else more.groups[come])
            add = parts[:2] if more.groups is None else parts
    fitted.update(add=add, remove=remove)
    return fitted


def _differing(here: Inputs, there: Inputs) -> list[int]:
    """Rows of one that the other does not have."""
    known = Counter(_identities(there))
    rows = []
    for row, identity in enumerate(_identities(here)):
        if known[identity]:
            known[identity] -= 1
        else:
            rows.append(row)
    return rows


def _identities(inputs: Inputs) -> list[Any]:
    samples = split_of(inputs.model).samples(inputs.X)
    groups = [None] * len(samples) if inputs.groups is None else list(inputs.groups)
    return [(samples.key(row), str(inputs.y[row]), str(groups[row])) for row in range(len(samples))]


# Many cases


def here(entry: EntryPoint) -> bool:
    """Whether the library that an entry point needs is installed."""
    return entry.needs is None or find_spec(entry.needs) is not None


@cache
def odd_names(name: str) -> tuple[str, ...]:
    """The odd rows that can come through an entry point."""
    entry = ENTRY_POINTS[name]
    honest = honest_rows(entry.rows)
    return tuple(
        odd for kind in entry.takes for odd, make in odd_rows()[kind].items() if entry.holds(make(honest[3], honest))
    )


def pairs() -> list[tuple[EntryPoint, str]]:
    return [(entry, odd) for entry in ENTRY_POINTS.values() if here(entry) for odd in odd_names(entry.name)]


def some_cases(count: int, seed: int = 0, trained: float = 0.02, stops: float = 0.1) -> Iterator[Case]:
    """Every entry point with every odd row in turn, acts and places drawn; a share really trained, another asked only
    whether anything stops."""
    rng = np.random.default_rng(seed)
    every = pairs()
    while count > 0:
        for at in rng.permutation(len(every))[:count]:
            entry, odd = every[at]
            case = Case(entry, odd, str(rng.choice(ACTS)), str(rng.choice(PLACES)), bool(rng.random() < trained))
            yield (
                replace(case, act=STOP, place=str(rng.choice([*PLACES, MANY])), train=False)
                if (rng.random() < stops)
                else case
            )
        count -= len(every)

"""Schemas guessed from tables by votes: one for each row, or one for each contributor where there are contributors.

So an attacker who has a few of them moves a guess as little as anything else, and every guess says how many could have
turned it. It stays a premise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from poisonproof.data.dataset import ReadReport
from poisonproof.data.tables import RawBatch, TableReader
from poisonproof.display import nearest
from poisonproof.errors import PoisonproofError
from poisonproof.samples.cells import number_in
from poisonproof.samples.labels import label_cells
from poisonproof.samples.schema import MISSING, WORDS_OF_A_TEXT, Decimal, TableSchema, closeness

ROWS_TO_GUESS_FROM = 20_000
FEW = 20
UNKNOWN = frozenset(MISSING)


def guess_schema(
    table: TableReader,
    label: str,
    group: str | None,
    delimiter: str = ",",
    *,
    lines: bool = False,
    report: ReadReport | None = None,
) -> TableSchema:
    """Roles by what most units hold: rows, or contributors, whose rows vote by their majority (ties as odd).

    Numbers have decimal commas if that makes numbers of more columns than points do, and cells are not separated by
    commas: there they would be thousands. A column is numbers if nine in ten units have them (missing cells aside); a
    text if more than half have four words; ignored if it has no name, no cell, or if more than half of the units have a
    cell, the smallest of theirs, that is nobody else's (an id); a category otherwise. Of rows the first 20,000 count,
    and contributors by all of their rows. The report is told which columns are ignored, and why.
    """
    _check_keys(table, label, group)
    poll = _Poll(table, [name for name in table.header if name and name not in (label, group)], group)
    numbers: dict[Decimal, dict[str, _Numbers]] = {}
    for mark in get_args(Decimal):  # numbers that a file types are written with points, by us
        if mark != delimiter and not any(count.typed for counts in numbers.values() for count in counts.values()):
            numbers[mark] = poll.of_numbers(mark)
    decimal = max(numbers, key=lambda mark: sum(count.lead >= 0 for count in numbers[mark].values()))
    others = poll.of_texts([name for name, count in numbers[decimal].items() if count.lead < 0 and not count.typed])
    keys, guessed = {label: "label", group: "group"}, {}
    for name, count in numbers[decimal].items():
        guessed[name] = _role(count, others.get(name), poll.steps)
        if guessed[name][0] == "ignore" and report is not None:
            report.add(table.path.name, f"column.{'all-different' if name in others else 'empty'}", column=name)
    turns = {name: turned for name, (_, turned) in guessed.items()}
    for mark in numbers.keys() - {decimal}:  # a column that these marks make numbers of might turn the choice of marks
        turns |= {name: min(turns[name], _turned(c.lead, poll.steps[0])) for name, c in numbers[mark].items()}
    closest = min(turns, key=lambda name: turns[name], default=None)
    why = (
        "nothing was guessed"
        if closest is None
        else closeness(
            f"column '{closest}' as {guessed[closest][0]}", turns[closest], "contributor" if group else "row"
        )
    )
    roles = {name: keys.get(name) or guessed.get(name, ("ignore",))[0] for name in table.header}
    return TableSchema(tuple(roles.items()), MISSING, delimiter, lines, decimal, guessed=why)


def _check_keys(table: TableReader, label: str, group: str | None) -> None:
    for name in (label, group):
        if name is not None and name not in table.header:
            looks_like_data = any(number_in(cell) is not None for cell in table.header)
            remedy = (
                "its first line looks like data, so put a line with the names of the columns before it."
                if looks_like_data
                else nearest(name, table.header)
            )
            raise PoisonproofError(f"{table.path} has no column '{name}'; {remedy}", code="schema.unknown-column")
    if label == group:
        raise PoisonproofError(
            f"The column '{label}' cannot be both the label and the contributor.", code="schema.role"
        )


class _Numbers(NamedTuple):
    """How many units have a cell in a column, and how many of these have numbers; ``typed``: its file says which."""

    units: int
    numbers: int
    typed: bool

    @property
    def lead(self) -> int:
        """At least 0 if the column is numbers: nine in ten, or any where the file types them."""
        return self.numbers - 1 if self.typed else 10 * self.numbers - 9 * self.units if self.units else -1


class _Texts(NamedTuple):
    """How many units have texts, and how many a cell that nobody else has."""

    texts: int
    alone: int


def _role(count: _Numbers, other: _Texts | None, steps: Sequence[int]) -> tuple[str, int]:
    """The role of a column, and how many units must come, go or change until it could be another; never too many."""
    if count.typed or not count.units:
        return ("number", count.numbers) if count.numbers else ("ignore", 1)
    if other is None:
        return "number", _turned(count.lead, steps[0])
    leads = (count.lead, 2 * other.texts - count.units - 1, 2 * other.alone - count.units - 1, count.units - FEW - 1)
    number, text, *both = (_turned(lead, step) for lead, step in zip(leads, steps, strict=True))
    if leads[1] >= 0:
        return "text", min(number, text)
    if min(leads[2:]) >= 0:
        return "ignore", min(number, text, *both)
    return "category", min(number, text, max(turned for turned, lead in zip(both, leads[2:], strict=True) if lead < 0))


def _turned(lead: int, step: int) -> int:
    """How many steps it takes until a lead of at least 0 is below, or another at least 0."""
    return lead // step + 1 if lead >= 0 else -(lead // step)


class _Poll:
    """The cells of a table, unit by unit.

    ``steps`` are the most that one unit changes the leads of numbers, texts, ids and units by. A row comes or goes; a
    contributor may change all its rows too, and so may a row where it pushes another behind the last that counts.
    """

    def __init__(self, table: TableReader, names: Sequence[str], group: str | None) -> None:
        self.table, self.names, self.group, self.steps = table, names, group, (9, 1, 3, 1)
        self.contributors: dict[object, int] = {}
        if group is not None:
            self.steps = (10, 2, 4, 1)

    def of_numbers(self, mark: str) -> dict[str, _Numbers]:
        """How many units have numbers, with these marks, in each column."""
        held, numbers = ({name: _Tally() for name in self.names} for _ in range(2))
        typed: dict[str, bool] = {}
        for units, batch in self._batches(self.names):
            for name, column in batch.columns.items():
                if (holds := column.holds_numbers(len(units))) is not None:
                    typed[name] = holds or typed.get(name, False)
                values, odd = (part[: len(units)] for part in column.numbers(UNKNOWN, mark))
                are_numbers = ~np.isnan(values)
                held[name].add(units[are_numbers | odd])
                numbers[name].add(units[are_numbers])
        counts = {}
        for name in self.names:
            cells, theirs = held[name].counts, numbers[name].counts_of(len(held[name].counts))
            most = theirs > 0 if name in typed else 2 * theirs > cells
            counts[name] = _Numbers(int((cells > 0).sum()), int(most.sum()), name in typed)
        return counts

    def of_texts(self, names: Sequence[str]) -> dict[str, _Texts]:
        """How many units have texts in these columns, and how many a cell that nobody else has."""
        held, texts = ({name: _Tally() for name in names} for _ in range(2))
        smallest: dict[str, dict[int, str]] = {name: {} for name in names}
        for units, batch in self._batches(names) if names else ():
            for name, column in batch.columns.items():
                codes, cells = column.texts(UNKNOWN)
                codes = codes[: len(units)]
                here = (codes >= 0) & (units >= 0)
                codes, who = codes[here], units[here]
                wordy = np.array([len(cell.split()) >= WORDS_OF_A_TEXT for cell in cells], np.bool_)
                held[name].add(who)
                texts[name].add(who[wordy[codes]])
                ranks = np.argsort(np.argsort(np.array(cells, object)))
                order = np.lexsort((ranks[codes], who))
                first = order[np.unique(who[order], return_index=True)[1]]
                for unit, code in zip(who[first].tolist(), codes[first].tolist(), strict=True):
                    before = smallest[name].setdefault(unit, cells[code])
                    smallest[name][unit] = min(before, cells[code])
        counts = {}
        for name in names:
            cells_held, theirs = held[name].counts, texts[name].counts_of(len(held[name].counts))
            alone = sum(count == 1 for count in Counter(smallest[name].values()).values())
            counts[name] = _Texts(int((2 * theirs > cells_held).sum()), alone)
        return counts

    def _batches(self, names: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], RawBatch]]:
        """The rows that count in batches, and the unit of each; rows of no contributor have none and do not count."""
        seen, wanted = 0, [*names, *([] if self.group is None else [self.group])]
        for batch in self.table.raw_batches(wanted, ReadReport()):
            if self.group is not None:
                units = self._contributors(batch)
            else:
                units = np.arange(seen, min(seen + len(batch.rows), ROWS_TO_GUESS_FROM))
                seen += len(batch.rows)
            yield units, RawBatch(batch.rows, {name: batch.columns[name] for name in names})
            if seen > ROWS_TO_GUESS_FROM:
                self.steps = (10, 2, 4, 1)
                return

    def _contributors(self, batch: RawBatch) -> NDArray[np.int64]:
        assert self.group is not None
        codes, ids = batch.columns[self.group].texts(UNKNOWN)
        cells = label_cells(ids)
        known = [self.contributors.setdefault((type(cell), cell), len(self.contributors)) for cell in cells]
        return np.array([*known, -1], np.int64)[codes]


class _Tally:
    """How many rows of each unit were counted."""

    def __init__(self) -> None:
        self.counts = np.zeros(0, np.int64)

    def add(self, units: NDArray[np.int64]) -> None:
        """One for each of these; -1 is none."""
        units = units[units >= 0]
        if (more := int(units.max(initial=-1)) + 1) > len(self.counts):
            self.counts = self.counts_of(2 * more)
        np.add.at(self.counts, units, 1)

    def counts_of(self, n: int) -> NDArray[np.int64]:
        """Of so many units."""
        return np.concatenate([self.counts, np.zeros(max(0, n - len(self.counts)), np.int64)])[:n]

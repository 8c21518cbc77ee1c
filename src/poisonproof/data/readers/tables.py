"""Tables read by a schema, cell by cell; and schemas guessed from tables."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, get_args

import numpy as np

from poisonproof.data.readers.part import Part, notes_of, texts
from poisonproof.display.text import nearest
from poisonproof.errors import PoisonproofError, missing_extra
from poisonproof.samples.schema import (
    FEATURES,
    MISSING,
    Decimal,
    Quotes,
    TableSchema,
    number_in,
)

ROWS_TO_GUESS_FROM = 20_000
SHARE_OF_NUMBERS = 0.9
WORDS_OF_A_TEXT = 4
SHARE_OF_IDS = 0.5
FEW = 20


class Table(Protocol):
    """A file whose rows are cells of text."""

    path: Path
    header: list[str]
    unreadable: list[str]

    def records(self, faults: Counter[str]) -> Iterator[tuple[int, list[str]]]:
        """Number and cells of every good row; the others are counted."""


class Tally:
    """Counts of what was left out or could not be read, over as many reads as it is given to."""

    def __init__(self) -> None:
        self.faults, self.odd = Counter[str](), Counter[str]()

    def notes(self, table: Table) -> tuple[str, ...]:
        """One sentence for each kind of fault."""
        notes = notes_of(table.path, self.faults)
        for name in (name for name, count in self.odd.items() if count):
            notes += (f"{table.path.name}: {self.odd[name]} cells of '{name}' are not numbers and count as missing",)
        if table.unreadable:
            notes += (f"{table.path.name}: columns of lists or raw bytes are ignored: {', '.join(table.unreadable)}",)
        return notes


def read_table(table: Table, schema: TableSchema, *, labelled: bool, tally: Tally | None = None) -> Part:
    """The samples of a table. How a row is read is a function of that row and the schema.

    A cell that is not the number it should be is missing, in its own row only. A row without a label, or without
    a contributor where the schema asks for one, is left out. Who reads a table in pieces gives a ``tally`` of all.
    """
    at = {name: place for place, name in enumerate(table.header)}
    wanted = (*FEATURES, "label", "group") if labelled else FEATURES
    for name in schema.named(*wanted):
        if name not in at:
            raise PoisonproofError(
                f"{table.path} has no column '{name}', which the schema reads; {nearest(name, table.header)}"
            )
    if not schema.named(*FEATURES):
        if schema.guessed and next(table.records(Counter()), None) is None:
            raise PoisonproofError(f"{table.path} has no rows after the line that names the columns; give it some.")
        raise PoisonproofError(
            f"No column of {table.path} is a number, a category or a text; there is nothing to learn from."
        )
    missing = frozenset(schema.missing)
    by_us = table.path.suffix.lower() == ".parquet" or table.path.is_dir()  # numbers of Parquet are written out by us
    decimal = "." if by_us else schema.decimal
    features = [
        _Numbers(at[name], missing, decimal) if role == "number" else _Texts(at[name], missing)
        for name, role in schema.columns
        if role in FEATURES
    ]
    columns = {"label": schema.label, "contributor": schema.group} if labelled else {}
    keys = {what: _Texts(at[name], missing) for what, name in columns.items() if name is not None}
    tally, faults = tally or Tally(), Counter[str]()
    names: list[int] = []
    for number, cells in table.records(faults):
        absent = next((what for what, key in keys.items() if cells[key.place].strip() in missing), None)
        if absent is not None:
            faults[f"without a {absent}"] += 1
            continue
        for column in (*keys.values(), *features):
            column.read(cells[column.place].strip())
        names.append(number)
    tally.faults.update(faults)
    for name, column in zip(schema.named(*FEATURES), features, strict=True):
        tally.odd[name] += column.odd
    held = {what: texts(key.values) for what, key in keys.items()}
    return Part(_samples(schema, features), held.get("label"), held.get("contributor"), names, tally.notes(table))


def guess_schema(
    table: Table, label: str, group: str | None, delimiter: str = ",", quotes: Quotes = "lines"
) -> TableSchema:
    """Roles by what most of the first rows hold, so that one odd row does not decide.

    Numbers have decimal commas if that makes numbers of more columns than points do, and cells are not separated by
    commas: there they would be thousands. A column is numbers if nine in ten cells are (missing ones aside); a text if
    its cells have four words on average; ignored if it has no name, no cell, or if more than half of its cells occur
    once (an id); a category otherwise.
    """
    for name in (label, group):
        if name is not None and name not in table.header:
            looks_like_data = any(number_in(cell) is not None for cell in table.header)
            remedy = (
                "its first line looks like data, so put a line with the names of the columns before it."
                if looks_like_data
                else nearest(name, table.header)
            )
            raise PoisonproofError(f"{table.path} has no column '{name}'; {remedy}")
    if label == group:
        raise PoisonproofError(f"The column '{label}' cannot be both the label and the contributor.")
    seen = [Counter[str]() for _ in table.header]
    for _, cells in islice(table.records(Counter()), ROWS_TO_GUESS_FROM):
        for counter, cell in zip(seen, cells, strict=True):
            counter[cell.strip()] += 1
    keys = {label: "label", group: "group"}
    by_mark: dict[Decimal, list[str]] = {
        mark: [keys.get(name) or _role(name, cells, mark) for name, cells in zip(table.header, seen, strict=True)]
        for mark in get_args(Decimal)
        if mark != delimiter
    }
    decimal = max(by_mark, key=lambda mark: by_mark[mark].count("number"))
    columns = tuple(zip(table.header, by_mark[decimal], strict=True))
    return TableSchema(columns, MISSING, delimiter, quotes, decimal, guessed=True)


def _role(name: str, cells: Counter[str], decimal: Decimal) -> str:
    for word in MISSING:
        del cells[word]
    total = cells.total()
    if not name or not total:
        return "ignore"
    numbers = sum(count for cell, count in cells.items() if number_in(cell, decimal) is not None)
    if numbers >= SHARE_OF_NUMBERS * total:
        return "number"
    if sum(len(cell.split()) * count for cell, count in cells.items()) >= WORDS_OF_A_TEXT * total:
        return "text"
    once = sum(count == 1 for count in cells.values())
    return "ignore" if total > FEW and once > SHARE_OF_IDS * total else "category"


class _Numbers:
    """A column of numbers, as it is read."""

    def __init__(self, place: int, missing: frozenset[str], decimal: str) -> None:
        self.place, self.missing, self.decimal, self.odd = place, missing, decimal, 0
        self.values: Any = array("d")

    def read(self, cell: str) -> None:
        number = None if cell in self.missing else number_in(cell, self.decimal)
        if number is None:
            self.odd += cell not in self.missing
            number = np.nan
        self.values.append(number)


class _Texts:
    """A column of texts, as it is read; equal cells are kept once."""

    odd = 0

    def __init__(self, place: int, missing: frozenset[str]) -> None:
        self.place, self.missing = place, missing
        self.values: Any = []
        self.known: dict[str, str] = {}

    def read(self, cell: str) -> None:
        self.values.append(None if cell in self.missing else self.known.setdefault(cell, cell))


def _samples(schema: TableSchema, features: Sequence[_Numbers | _Texts]) -> Any:
    """Numbers alone as an array, one text alone as a list, anything else as a DataFrame."""
    if schema.only_texts:
        return [text or "" for text in features[0].values]
    roles = [role for _, role in schema.columns if role in FEATURES]
    if set(roles) == {"number"}:
        samples = np.empty((len(features[0].values), len(features)))
        for place, column in enumerate(features):
            samples[:, place] = column.values
        return samples
    try:
        import pandas as pd
    except ImportError:
        raise missing_extra("A table with categories", "pandas", "tables") from None
    made: dict[str, Any] = {}
    for name, role, column in zip(schema.named(*FEATURES), roles, features, strict=True):
        if role == "number":
            made[name] = np.array(column.values)
        elif role == "category":
            made[name] = pd.Categorical(column.values)
        else:
            made[name] = pd.Series(column.values, dtype=object)
    return pd.DataFrame(made)

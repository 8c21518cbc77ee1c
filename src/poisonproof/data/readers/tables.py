"""Tables read by a schema, cell by cell; and schemas guessed from tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from poisonproof.data.readers.part import Part, notes_of
from poisonproof.data.readers.pieces import ABSENT, ROWS_PER_PIECE, Piece, PieceColumn, Vocabulary, pieces_of
from poisonproof.display.text import nearest
from poisonproof.errors import PoisonproofError, missing_extra
from poisonproof.samples.columns import Column, finite_numbers
from poisonproof.samples.kinds import TableSamples
from poisonproof.samples.schema import (
    FEATURES,
    MISSING,
    WORDS_OF_A_TEXT,
    Decimal,
    Quotes,
    TableSchema,
    number_in,
)

ROWS_TO_GUESS_FROM = 20_000
SHARE_OF_NUMBERS = 0.9
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


def read_table(
    table: Table, schema: TableSchema, *, labelled: bool, tally: Tally | None = None, framed: bool = True
) -> Part:
    """The samples of a table. How a row is read is a function of that row and the schema.

    A cell that is not the number it should be is missing, in its own row only. A row without a label, or without
    a contributor where the schema asks for one, is left out. Who reads a table in pieces gives a ``tally`` of all.
    What is neither numbers nor one text alone is a DataFrame; unless ``framed``, its canonical form stands for it.
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
    features = {
        name: _Numbers(missing, decimal) if role == "number" else _Texts(missing)
        for name, role in schema.columns
        if role in FEATURES
    }
    columns = {"label": schema.label, "contributor": schema.group} if labelled else {}
    keys = {what: (name, _Texts(missing)) for what, name in columns.items() if name is not None}
    tally, faults = tally or Tally(), Counter[str]()
    names: list[int] = []
    for piece in pieces_of(table, faults, [*features, *(name for name, _ in keys.values())]):
        stay = np.ones(len(piece.rows), np.bool_)
        read = {what: key.codes(piece.columns[name]) for what, (name, key) in keys.items()}
        for what, codes in read.items():
            if absent := int((stay & (codes < 0)).sum()):
                faults[f"without a {what}"] += absent
            stay &= codes >= 0
        for what, (_, key) in keys.items():
            key.parts.append(read[what][stay])
        for name, column in features.items():
            column.read(piece.columns[name], stay)
        names.extend(np.asarray(piece.rows)[stay].tolist())
    tally.faults.update(faults)
    for name, column in features.items():
        tally.odd[name] += column.odd
    held = {what: key.texts() for what, (_, key) in keys.items()}
    X, samples = _samples(schema, features, framed)
    return Part(X, held.get("label"), held.get("contributor"), names, tally.notes(table), samples)


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
    seen, typed = _counted(table, delimiter)
    keys = {label: "label", group: "group"}
    by_mark: dict[Decimal, list[str]] = {
        mark: [keys.get(name) or typed.get(name) or _role(name, seen[name], mark) for name in table.header]
        for mark in get_args(Decimal)
        if mark != delimiter and not (typed and mark == ",")  # numbers that are typed are written with points, by us
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


def _counted(table: Table, delimiter: str) -> tuple[dict[str, Counter[str]], dict[str, str]]:
    """How often each cell of the first rows occurs, by column; and the roles of columns that are told sooner.

    Those are columns whose types say them; and, where commas separate cells, so that numbers have points, columns of
    numbers: these need not be counted one by one.
    """
    seen = {name: Counter[str]() for name in table.header}
    typed: dict[str, bool] = {}
    shares = {name: np.zeros(2, np.int64) for name in table.header}  # numbers, and all that is not missing
    pieces: list[tuple[Piece, int]] = []
    left = ROWS_TO_GUESS_FROM
    for piece in pieces_of(table, Counter(), table.header, min(ROWS_PER_PIECE, ROWS_TO_GUESS_FROM)):
        pieces.append((piece, left))
        for name, column in piece.columns.items():
            holds = column.holds_numbers(left)
            if holds is not None:
                typed[name] = holds or typed.get(name, False)
            elif delimiter == ",":
                values, odd = column.numbers(frozenset(MISSING), ".")
                n_numbers = int((~np.isnan(values[:left])).sum())
                shares[name] += n_numbers, n_numbers + int(odd[:left].sum())
        left -= len(piece.rows)
        if left <= 0:
            break
    roles = {name: "number" if any_of_them and name else "ignore" for name, any_of_them in typed.items()}
    told = {name for name, (n, total) in shares.items() if name and total and n >= SHARE_OF_NUMBERS * total} - set(
        typed
    )
    for piece, rows in pieces:
        for name, column in piece.columns.items():
            if name in told or column.holds_numbers(rows) is not None:
                continue
            vocabulary = Vocabulary(frozenset())
            counts = np.bincount(column.codes(vocabulary)[:rows], minlength=len(vocabulary.cells))
            seen[name].update({cell: int(n) for cell, n in zip(vocabulary.cells, counts, strict=True) if n})
    return seen, roles | dict.fromkeys(told, "number")


class _Numbers:
    """A column of numbers, as it is read."""

    def __init__(self, missing: frozenset[str], decimal: str) -> None:
        self.missing, self.decimal, self.odd = missing, decimal, 0
        self.parts: list[NDArray[np.float64]] = []

    def read(self, column: PieceColumn, stay: NDArray[np.bool_]) -> None:
        values, odd = column.numbers(self.missing, self.decimal)
        self.odd += int((odd & stay).sum())
        self.parts.append(values[stay])

    def values(self) -> NDArray[np.float64]:
        """All of them; what they were read in is given up."""
        return _joined(self.parts, np.float64)

    def column(self, name: str, role: str) -> Column:
        """The same as a column of samples."""
        return Column.of_numbers(name, finite_numbers(self.values()))


class _Texts:
    """A column of texts, as it is read; different cells are kept once."""

    odd = 0

    def __init__(self, missing: frozenset[str]) -> None:
        self.vocabulary = Vocabulary(missing)
        self.parts: list[NDArray[np.int32]] = []

    def codes(self, column: PieceColumn) -> NDArray[np.int32]:
        return column.codes(self.vocabulary)

    def read(self, column: PieceColumn, stay: NDArray[np.bool_]) -> None:
        self.parts.append(self.codes(column)[stay])

    def texts(self) -> NDArray[np.object_]:
        """All of them, None where missing."""
        cells = np.empty(len(self.vocabulary.cells) + 1, object)
        cells[:-1] = list(self.vocabulary.cells)
        return cells[_joined(self.parts, np.int32)]

    def column(self, name: str, role: str) -> Column:
        """The same as a column of samples."""
        codes, cells = _joined(self.parts, np.int32), list(self.vocabulary.cells)
        held = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(cells)))  # some may be of rows left out
        places = np.full(len(cells) + 1, ABSENT, np.int32)
        places[held] = np.arange(len(held))
        return Column.of_codes(name, places[codes], [cells[at] for at in held], categorical=role == "category")


def _joined(parts: list[NDArray[Any]], kind: Any) -> NDArray[Any]:
    whole = np.concatenate(parts) if parts else np.empty(0, kind)
    parts.clear()
    return whole


def _samples(
    schema: TableSchema, features: Mapping[str, _Numbers | _Texts], framed: bool
) -> tuple[Any, TableSamples | None]:
    """Numbers alone as an array, one text alone as a list, anything else as a DataFrame and in canonical form."""
    roles = dict(schema.columns)
    if schema.only_texts:
        return [
            text or "" for column in features.values() if isinstance(column, _Texts) for text in column.texts()
        ], None
    if {roles[name] for name in features} == {"number"}:
        return np.column_stack([column.values() for column in features.values() if isinstance(column, _Numbers)]), None
    try:
        import pandas as pd
    except ImportError:
        raise missing_extra("A table with categories", "pandas", "tables") from None
    samples = TableSamples.of(feature.column(name, roles[name]) for name, feature in features.items())
    if not framed:
        return samples, samples
    made: dict[str, Any] = {}
    for each in samples.columns:
        if each.codes is None:
            made[each.name] = each.numbers
        elif each.categorical:
            made[each.name] = pd.Categorical.from_codes(each.codes, categories=pd.Index(list(each.cells.values)))
        else:
            made[each.name] = pd.Series(each.values, dtype=object)
    return pd.DataFrame(made, copy=False), samples

"""Tables read by a schema, cell by cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from poisonproof.data.readers.part import LeftOut, Part, notes_of
from poisonproof.data.readers.pieces import ABSENT, Piece, PieceColumn, Vocabulary
from poisonproof.display import nearest
from poisonproof.errors import PoisonproofError, missing_extra
from poisonproof.samples.columns import Column, finite_numbers
from poisonproof.samples.kinds import TableSamples
from poisonproof.samples.schema import FEATURES, TableSchema


class Table(Protocol):
    """A file of rows with a header."""

    path: Path
    header: list[str]
    unreadable: list[str]

    def pieces(self, faults: LeftOut, wanted: Sequence[str]) -> Iterator[Piece]:
        """The good rows by column, of these columns only; the others are counted."""


class Tally:
    """Counts of what was left out or could not be read, over as many reads as it is given to."""

    def __init__(self, *, listed: bool = False) -> None:
        self.faults, self.odd = LeftOut(listed=listed), Counter[str]()

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
        if schema.guessed and next(table.pieces(LeftOut(), table.header), None) is None:
            raise PoisonproofError(f"{table.path} has no rows after the line that names the columns; give it some.")
        raise PoisonproofError(
            f"No column of {table.path} is a number, a category or a text; there is nothing to learn from."
        )
    missing = frozenset(schema.missing)
    features = {
        name: _Numbers(missing, schema.decimal) if role == "number" else _Texts(missing)
        for name, role in schema.columns
        if role in FEATURES
    }
    columns = {"label": schema.label, "contributor": schema.group} if labelled else {}
    keys = {what: (name, _Texts(missing)) for what, name in columns.items() if name is not None}
    tally, faults = tally or Tally(), LeftOut()
    names: list[int] = []
    for piece in table.pieces(faults, [*features, *(name for name, _ in keys.values())]):
        stay = np.ones(len(piece.rows), np.bool_)
        read = {what: key.codes(piece.columns[name]) for what, (name, key) in keys.items()}
        for what, codes in read.items():
            if len(absent := np.flatnonzero(stay & (codes < 0))):
                faults.add(f"without a {what}", int(piece.rows[absent[0]]), len(absent))
            stay &= codes >= 0
        for what, (_, key) in keys.items():
            key.parts.append(read[what][stay])
        for name, column in features.items():
            column.read(piece.columns[name], stay)
        names.extend(np.asarray(piece.rows)[stay].tolist())
    tally.faults.join(faults)
    for name, column in features.items():
        tally.odd[name] += column.odd
    held = {what: key.texts() for what, (_, key) in keys.items()}
    X, samples = _samples(schema, features, framed)
    return Part(X, held.get("label"), held.get("contributor"), names, tally.notes(table), samples)


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

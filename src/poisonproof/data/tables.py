"""Tables: rows by column as a file has them, read by a schema, cell by cell.

A format of tables is one class, a `TableReader`: it says which columns there are and gives rows in batches, whose cells
say what they are as numbers and as texts. Everything else is here, once for all formats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from poisonproof.data.dataset import LabelledSamples, ReadReport
from poisonproof.data.files import Opens
from poisonproof.display import nearest
from poisonproof.errors import PoisonproofError, missing_extra
from poisonproof.samples.cells import text_cell
from poisonproof.samples.columns import MISSING, Column, ObjectCells, RawCells, finite_numbers
from poisonproof.samples.kinds import NumberSamples, Samples, TableSamples, TextSamples
from poisonproof.samples.schema import FEATURES, TableSchema


class RawBatch(NamedTuple):
    """What some rows are called (their lines, or their numbers), and their cells by column."""

    rows: Sequence[int] | NDArray[np.int64]
    columns: Mapping[str, RawCells]

    def part(self, start: int, stop: int) -> RawBatch:
        """The rows from and up to a place."""
        return RawBatch(self.rows[start:stop], {name: cells.part(start, stop) for name, cells in self.columns.items()})

    def cells(self) -> list[list[str]]:
        """The text of every cell, row by row."""
        return [list(row) for row in zip(*(column.written() for column in self.columns.values()), strict=True)]


class TableReader(Protocol):
    """A file of rows with named columns: all that a format of tables has to say.

    Its class has ``kind = "table"`` and a class method ``open(path, options)``, and stands in the registry of readers
    by the ending of its files.
    """

    header: list[str]
    unreadable: list[str]

    @property
    def path(self) -> Opens:
        """The file."""

    def raw_batches(self, columns: Sequence[str], report: ReadReport) -> Iterator[RawBatch]:
        """The good rows, these columns of them, a bounded number at a time; what is left out is reported."""


class Batch(NamedTuple):
    """Some samples of a file, and the cells that they were read from, if a file has cells."""

    samples: LabelledSamples
    raw: RawBatch | None = None


class Folder:
    """Files with the same columns as one table, in the order of their names."""

    kind = "table"

    def __init__(self, path: Path, tables: Sequence[TableReader]) -> None:
        self.path, self.tables = path, tables
        self.header, self.unreadable = tables[0].header, tables[0].unreadable
        for table in tables[1:]:
            for name in self.header:
                if name not in table.header:
                    raise PoisonproofError(_lacking(table, name, tables[0]), code="schema.unknown-column")

    def raw_batches(self, columns: Sequence[str], report: ReadReport) -> Iterator[RawBatch]:
        """The rows by column, each file by its own types."""
        first = 1
        for table in self.tables:
            for rows, cells in table.raw_batches(columns, report):
                yield RawBatch(range(first, first + len(rows)), cells)
                first += len(rows)


def table_batches(
    table: TableReader, schema: TableSchema, *, labelled: bool, report: ReadReport, rows: int | None = None
) -> Iterator[Batch]:
    """The samples of a table, so many rows at a time or as the file gives them; one batch at least, perhaps empty.

    How a row is read is a function of that row and the schema. A cell that is not the number it should be is missing,
    in its own row only. A row without a label, or without a contributor where the schema asks for one, is left out.
    Where there are no labels, each batch has all its cells, for who shows them beside the answers.
    """
    _check_columns(table, schema, labelled=labelled)
    for name in table.unreadable:
        report.add(table.path.name, "column.unreadable", column=name)
    wanted = schema.named(*FEATURES, "label", "group") if labelled else table.header
    given = False
    for raw in table.raw_batches(wanted, report):
        for start in range(0, len(raw.rows), rows or max(1, len(raw.rows))):
            some = raw if rows is None else raw.part(start, min(start + rows, len(raw.rows)))
            yield Batch(_read(table, some, schema, labelled=labelled, report=report), some)
            given = True
    if not given:
        nothing = RawBatch([], {name: ObjectCells([]) for name in wanted})
        yield Batch(_read(table, nothing, schema, labelled=labelled, report=report), nothing)


def read_table(
    table: TableReader, schema: TableSchema, *, labelled: bool, report: ReadReport | None = None
) -> LabelledSamples:
    """All samples of a table; see `table_batches`."""
    batches = table_batches(table, schema, labelled=labelled, report=report or ReadReport())
    return LabelledSamples.joined([batch.samples for batch in batches])


def _check_columns(table: TableReader, schema: TableSchema, *, labelled: bool) -> None:
    for name in schema.named(*FEATURES, "label", "group") if labelled else schema.named(*FEATURES):
        if name not in table.header:
            raise PoisonproofError(
                f"{table.path} has no column '{name}', which the schema reads; {nearest(name, table.header)}",
                code="schema.unknown-column",
            )
    if not schema.named(*FEATURES):
        if schema.guessed and next(table.raw_batches(table.header, ReadReport()), None) is None:
            raise PoisonproofError(
                f"{table.path} has no rows after the line that names the columns; give it some.", code="data.empty"
            )
        raise PoisonproofError(
            f"No column of {table.path} is a number, a category or a text; there is nothing to learn from.",
            code="schema.no-feature",
        )
    mixed = schema.named(*FEATURES) != schema.named("number") and not schema.only_texts
    if mixed and find_spec("pandas") is None:
        raise missing_extra("A table with categories", "pandas", "tables")


def _read(
    table: TableReader, raw: RawBatch, schema: TableSchema, *, labelled: bool, report: ReadReport
) -> LabelledSamples:
    """The rows of a batch that have a label and a contributor, if they must."""
    file, missing, numbers = table.path.name, frozenset(schema.missing), np.asarray(raw.rows)
    stay, keys = np.ones(len(numbers), np.bool_), dict[str, NDArray[np.object_]]()
    for what, name in (("label", schema.label), ("contributor", schema.group)) if labelled else ():
        if name is not None:
            codes, cells = raw.columns[name].texts(missing)
            absent = np.flatnonzero(stay & (codes < 0))
            if len(absent):
                report.add(file, f"row.no-{what}", int(numbers[absent[0]]), len(absent))
            stay &= codes >= 0
            keys[what] = np.array([*cells, None], object)[codes]
    columns, read = [], partial(text_cell, missing=missing)
    for name, role in schema.columns:
        if role == "number":
            values, odd = raw.columns[name].numbers(missing, schema.decimal)
            if len(places := np.flatnonzero(odd & stay)):
                report.add(file, "cell.not-a-number", int(numbers[places[0]]), len(places), name)
            columns.append(Column.of_numbers(name, finite_numbers(values[stay])))
        elif role in FEATURES:
            places, different = raw.columns[name].different()
            columns.append(Column.read(name, places[stay], different, read, categorical=role == "category"))
    labels, groups = (keys[what][stay] if what in keys else None for what in ("label", "contributor"))
    return LabelledSamples(samples_of(schema, columns), labels, groups, numbers[stay].tolist())


def samples_of(schema: TableSchema, columns: Sequence[Column]) -> Samples:
    """By the schema alone: numbers as an array, one text alone as a text, anything else as a table."""
    if schema.only_texts:
        cells = columns[0].values
        cells[columns[0].codes == MISSING] = ""
        return TextSamples(cells)
    if schema.named(*FEATURES) == schema.named("number"):
        return NumberSamples(np.column_stack([column.values for column in columns]))
    return TableSamples.of(columns)


def checked_names(names: list[str], path: Opens) -> list[str]:
    """Column names, unless two are equal: which of the two was meant would be a guess."""
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise PoisonproofError(
            f"{path} has {names.count(twice)} columns named '{twice}'; give every column its own name.",
            code="table.equal-columns",
        )
    return names


def _lacking(table: TableReader, name: str, other: TableReader) -> str:
    if name in table.unreadable:
        return (
            f"{table.path} holds column '{name}' as lists or raw bytes, which cannot be read as in {other.path.name}; "
            "write it as numbers, texts or times in every file, or give it the role 'ignore'."
        )
    return f"{table.path} has no column '{name}', which {other.path.name} has; all files must have the same columns."

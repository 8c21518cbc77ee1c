"""New samples a block at a time: what is in memory does not grow with the file.

Every block is read by the reader that reads whole files, and how a row is read is a function of that row and the
schema; so the samples are the same, however they are cut into blocks.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from poisonproof.data.options import ReadOptions
from poisonproof.data.readers.folder import notes_of_bad, pictures_in, read_pictures
from poisonproof.data.readers.lines import is_gzip
from poisonproof.data.readers.npz import by_schema, names_in
from poisonproof.data.readers.part import LeftOut, Part
from poisonproof.data.readers.pieces import Piece
from poisonproof.data.readers.svmlight import notes_of_sparse, sparse_part, svmlight_rows
from poisonproof.data.readers.tables import Table, Tally, read_table
from poisonproof.data.user_files import kind_of, open_table
from poisonproof.errors import PoisonproofError
from poisonproof.samples.schema import ArraySchema, ImageSchema, Schema, SparseSchema, TableSchema
from poisonproof.system.archives import npy_rows, open_zip
from poisonproof.system.files import reading

FEWEST_ROWS = 512  # what base classifiers are asked at a time
MOST_CELLS = {"table": 1 << 20, "images": 1 << 26, "arrays": 1 << 23, "sparse": 1 << 12}  # in a block
T = TypeVar("T")
NO_BOUND = 1 << 62  # a plain file may have any size, because it is never in memory; a packed one may be a bomb


class Unread(NamedTuple):
    """A sample that cannot be read: how many others of its lot come before it, what it is called, and why."""

    before: int
    name: int | str
    reason: str


def in_place(entries: Iterable[T], unread: Sequence[Unread], of_unread: Callable[[Unread], T]) -> Iterator[T]:
    """What there is to say of each sample, in the order of the file, those that cannot be read in their places."""
    waiting = deque(unread)
    for before, entry in enumerate(entries):
        while waiting and waiting[0].before <= before:
            yield of_unread(waiting.popleft())
        yield entry
    yield from map(of_unread, waiting)


@dataclass(frozen=True)
class RowBlock:
    """Some samples of a file: as the reader gives them, the cells of each as the file has them, if it has cells, and
    those among them that cannot be read."""

    part: Part
    cells: list[list[str]]
    unread: Sequence[Unread] = ()


class RowStream:
    """The samples of one file or folder without labels, block by block; ``notes`` is known after the last one.

    Attributes
    ----------
    columns : tuple of str
        What the cells of a block stand under; empty where a file has no columns.
    notes : tuple of str
        What a reader should know: how many rows were left out, and why.
    """

    def __init__(self, path: Path, schema: Schema, options: ReadOptions, rows: int) -> None:
        kind = kind_of(path, schema)
        if kind != schema.kind:
            raise PoisonproofError(
                f"{path} holds {kind}, but the schema reads {schema.kind}; give data of the same kind."
            )
        self.columns: tuple[str, ...] = ()
        self.notes: tuple[str, ...] = ()
        most_bytes = options.most_bytes or (None if is_gzip(path) else NO_BOUND)
        if isinstance(schema, TableSchema):
            table = open_table(path, schema, options, most_bytes)
            self.columns = tuple(table.header)
            self._blocks = self._of_table(table, schema, _rows(rows, schema, len(table.header)))
        elif isinstance(schema, ImageSchema):
            pixels = schema.width * schema.height * (3 if schema.colour else 1)
            self._blocks = self._of_folder(path, schema, options, _rows(rows, schema, pixels))
        elif isinstance(schema, SparseSchema):
            self._blocks = self._of_svmlight(path, schema, most_bytes, _rows(rows, schema, 1))
        else:
            self._blocks = self._of_npz(path, schema, _rows(rows, schema, prod(schema.shape)))

    def __iter__(self) -> Iterator[RowBlock]:
        return self._blocks

    def _of_table(self, table: Table, schema: TableSchema, rows: int) -> Iterator[RowBlock]:
        tally = Tally(listed=True)
        for block in _blocks(table, tally.faults, rows):
            part = read_table(block, schema, labelled=False, tally=tally)  # also of no rows: it checks the columns
            self.notes = tally.notes(table)
            unread = _taken(tally.faults, part.names)
            if unread or len(part):
                yield RowBlock(part, block.cells(), unread)

    def _of_folder(self, folder: Path, schema: ImageSchema, options: ReadOptions, rows: int) -> Iterator[RowBlock]:
        paths, bad = pictures_in(folder, labelled=False), dict[Path, str]()
        for start in range(0, len(paths), rows):
            samples, bad_here = read_pictures(paths[start : start + rows], folder, schema, resize=True)
            bad |= bad_here
            names, unread = list[str](), list[Unread]()
            for path in paths[start : start + rows]:
                name = str(path.relative_to(folder))
                if path in bad_here:
                    unread.append(Unread(len(names), name, bad_here[path]))
                else:
                    names.append(name)
            self.notes = notes_of_bad(folder, bad, len(paths))
            yield RowBlock(Part(samples, None, None, names), [], unread)

    def _of_svmlight(self, path: Path, schema: SparseSchema, most_bytes: int | None, rows: int) -> Iterator[RowBlock]:
        faults, beyond = LeftOut(listed=True), Counter[int]()
        entries = svmlight_rows(path, most_bytes, faults)
        while (block := list(islice(entries, rows))) or faults.each:
            part = sparse_part(block, schema, beyond, labelled=False)
            yield RowBlock(part, [], _taken(faults, part.names))
        self.notes = notes_of_sparse(path, faults, beyond)

    def _of_npz(self, path: Path, schema: ArraySchema, rows: int) -> Iterator[RowBlock]:
        name, start = "X" if "X" in names_in(path) else "x_test", 0
        blocks = _arrays(path, name, rows)
        while True:
            with reading(path, f"is not a whole npz file with {name}"):
                samples = next(blocks, None)
            if samples is None:
                return
            samples = by_schema(samples, schema, path, name)
            yield RowBlock(Part(samples, None, None, range(start, start + len(samples))), [])
            start += len(samples)


def _taken(faults: LeftOut, names: Sequence[int | str]) -> list[Unread]:
    """The rows that were left out before the last of these, or all of them if these are none."""
    each, last = faults.each or [], names[-1] if len(names) else None
    now = [one for one in each if last is None or one[0] < last]  # type: ignore[operator]
    each[: len(now)] = []
    return [Unread(bisect(names, name), name, reason) for name, reason in now]


def _rows(wanted: int, schema: Schema, width: int) -> int:
    """So many rows, or fewer where they are wide."""
    return min(wanted, max(FEWEST_ROWS, MOST_CELLS[schema.kind] // max(1, width)))


class _SomeRows:
    """Some rows of a table, as a table."""

    def __init__(self, table: Table, held: list[Piece]) -> None:
        self.path, self.header, self.unreadable, self.held = table.path, table.header, table.unreadable, held

    def pieces(self, faults: LeftOut, wanted: Sequence[str]) -> Iterator[Piece]:
        """The rows by column."""
        for rows, columns in self.held:
            yield Piece(rows, {name: columns[name] for name in wanted})

    def cells(self) -> list[list[str]]:
        """The text of every cell."""
        columns = [column.written() for piece in self.held for column in piece.columns.values()]
        return [list(row) for row in zip(*columns, strict=True)]


def _blocks(table: Table, faults: LeftOut, rows: int) -> Iterator[_SomeRows]:
    """So many rows at a time, as tables; at the end one of no rows."""
    for numbers, columns in table.pieces(faults, table.header):
        for start in range(0, len(numbers), rows):
            stop = min(start + rows, len(numbers))
            some = {name: column.part(start, stop) for name, column in columns.items()}
            yield _SomeRows(table, [Piece(numbers[start:stop], some)])
    yield _SomeRows(table, [])


def _arrays(path: Path, name: str, rows: int) -> Iterator[Any]:
    with open_zip(path) as archive:
        info = archive.getinfo(f"{name}.npy")
        with archive.open(info) as file:
            yield from npy_rows(file, info.file_size, name, rows)

"""Tables that may be larger than memory: a folder of files as one table, and any table chunk by chunk.

A chunk is read exactly as the whole would be: how a row is read depends on that row and the schema, so it makes no
difference where a chunk ends.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, cast

from poisonproof.data.readers.part import LeftOut, Part
from poisonproof.data.readers.pieces import Piece
from poisonproof.data.readers.tables import Table, read_table
from poisonproof.errors import PoisonproofError
from poisonproof.samples.schema import FEATURES, TableSchema

CELLS_PER_CHUNK = 1 << 19
FIRST = "; the first is "
COUNTED = re.compile(r"(.*?: )(\d+)( .*?)(; the first is (?:line|row) \d+)?", re.DOTALL)


class Position(NamedTuple):
    """How far tables were read: so many whole ones, and so many good rows of the next."""

    table: int = 0
    rows: int = 0


class Chunk(NamedTuple):
    """Some rows of several tables, and where the next chunk begins."""

    part: Part
    end: Position


class SeveralTables:
    """Files with the same columns as one table, in the order of their names."""

    def __init__(self, path: Path, tables: Sequence[Table]) -> None:
        self.path, self.tables = path, tables
        self.header = tables[0].header
        self.unreadable = tables[0].unreadable
        for table in tables[1:]:
            for name in self.header:
                if name not in table.header:
                    raise PoisonproofError(_lacking(table, name, tables[0]))

    def pieces(self, faults: LeftOut, wanted: Sequence[str]) -> Iterator[Piece]:
        """The rows by column, each file by its own types."""
        first = 1
        for table in self.tables:
            for rows, columns in table.pieces(faults, wanted):
                yield Piece(range(first, first + len(rows)), columns)
                first += len(rows)


def check_columns(tables: Sequence[Table], schema: TableSchema) -> None:
    """Refuse files that lack a column which the schema reads, before any of them is read."""
    for table in tables:
        for name in schema.named(*FEATURES, "label", "group"):
            if name not in table.header:
                raise PoisonproofError(_lacking(table, name, next((t for t in tables if name in t.header), table)))


def chunks_of(tables: Sequence[Table], schema: TableSchema, start: Position, notes: Notes) -> Iterator[Chunk]:
    """The rows of several tables from a position on, a bounded number of cells at a time.

    ``notes`` are told what was left out; who starts in the middle brings what was noted up to there.
    """
    wanted = schema.named(*FEATURES, "label", "group")
    for number, table in enumerate(tables[start.table :], start.table):
        rows = max(1, CELLS_PER_CHUNK // len(table.header))
        seen = LeftOut()
        pieces = table.pieces(seen, wanted)
        done = skipped = start.rows if number == start.table else 0
        while skipped > 0:
            skipped -= len(next(pieces).rows)  # read before
        earlier = Counter(seen)
        while True:
            chunk = _Chunk(table, pieces, rows, seen, earlier, done == 0)
            part = read_table(cast(Table, chunk), schema, labelled=True, framed=False)
            notes.add(part.notes)
            done += chunk.taken
            ended = chunk.taken < rows
            yield Chunk(part, Position(number + 1) if ended else Position(number, done))
            if ended:
                break


class _Chunk:
    """The next pieces of a table that is being read."""

    def __init__(
        self,
        table: Table,
        pieces: Iterator[Piece],
        rows: int,
        seen: LeftOut,
        earlier: Counter[str],
        first: bool,
    ) -> None:
        self.path, self.header = table.path, table.header
        self.unreadable = table.unreadable if first else []
        self._pieces, self._rows, self._seen, self._told = pieces, rows, seen, earlier
        self.taken = 0

    def pieces(self, faults: LeftOut, wanted: Sequence[str]) -> Iterator[Piece]:
        """As many whole pieces as give the rows that are asked for."""
        while self.taken < self._rows and (piece := next(self._pieces, None)) is not None:
            self.taken += len(piece.rows)
            yield piece
        new = LeftOut()
        new.update(self._seen - self._told)
        new.first = {reason: self._seen.first[reason] for reason in new if reason in self._seen.first}
        faults.join(new)
        self._told.update(new)


class Notes:
    """What was noted about several chunks: sentences of one kind once, with their counts added."""

    def __init__(self, counts: dict[str, int] | None = None) -> None:
        self.said = dict(counts or {})

    def add(self, notes: Sequence[str]) -> None:
        """Take in what was noted about one chunk."""
        for note in notes:
            counted = COUNTED.fullmatch(note)
            pattern, count = (note, 0) if counted is None else (f"{counted[1]}\0{counted[3]}", int(counted[2]))
            known = next((one for one in self.said if one.partition(FIRST)[0] == pattern), None)
            if known is None:
                known = pattern + ((counted[4] or "") if counted else "")
            self.said[known] = self.said.get(known, 0) + count

    def sentences(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(pattern.replace("\0", str(count)) for pattern, count in self.said.items())


def _lacking(table: Table, name: str, other: Table) -> str:
    if name in table.unreadable:
        return (
            f"{table.path} holds column '{name}' as lists or raw bytes, which cannot be read as in {other.path.name}; "
            "write it as numbers, texts or times in every file, or give it the role 'ignore'."
        )
    return f"{table.path} has no column '{name}', which {other.path.name} has; all files must have the same columns."

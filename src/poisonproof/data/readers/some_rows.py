"""Some rows of a table by their numbers, read as the whole would be: how a row is read depends on that row alone.

Lines of CSV are found by counting line feeds, and only those that are wanted are parsed. Parquet is decoded by column,
as it must be, and only the rows that are wanted become cells.
"""

from __future__ import annotations

import hashlib
import mmap
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.data.readers.csvfile import CsvTable
from poisonproof.data.readers.lines import BLOCK
from poisonproof.data.readers.parquet import ParquetTable
from poisonproof.data.readers.pieces import Piece
from poisonproof.data.readers.several import SeveralTables
from poisonproof.data.readers.tables import Table
from poisonproof.errors import PoisonproofError
from poisonproof.system.files import sha256_of

BYTES_AT_ONCE = 1 << 24
LINE_FEED = 10


class Stretch(NamedTuple):
    """Rows of a table, by the number of each, in increasing order, and the number after its last one.

    A number is that of the first line of a row of CSV, or of a row of Parquet, from 1.
    """

    first: NDArray[np.int64]
    after: NDArray[np.int64]


def only_rows(table: Table, rows: Stretch) -> Table:
    """A table with these rows of another; rows that lie between them are passed over."""
    if isinstance(table, CsvTable) and not table.path.name.lower().endswith(".gz"):
        return _Lines(table, rows)
    if isinstance(table, ParquetTable):
        return _ParquetRows(table, rows.first)
    if isinstance(table, SeveralTables):
        parts: list[Table] = []
        before = 0
        for part in table.tables:
            if not isinstance(part, ParquetTable):
                break
            here = rows.first[(rows.first > before) & (rows.first <= before + part.n_rows)] - before
            parts.append(_ParquetRows(part, here))
            before += part.n_rows
        else:
            return SeveralTables(table.path, parts)
    raise PoisonproofError(f"Single rows of {table.path} cannot be read.")


class _Lines(CsvTable):
    """A CSV file of which some lines are read."""

    def __init__(self, table: CsvTable, rows: Stretch) -> None:
        self.path, self.delimiter, self.most_bytes = table.path, table.delimiter, table.most_bytes
        self.quotes, self.header, self.unreadable = table.quotes, table.header, table.unreadable
        self.lines = rows

    def _behind_header(self, faults: Counter[str]) -> Iterator[tuple[int, bytes | None]]:
        if not len(self.lines.first):
            return
        with _mapped(self.path) as body:
            starts, stops = _bounds(self.path, self.lines)
            apart = starts[1:] != stops[:-1]  # rows that follow each other are taken together
            starts, stops = starts[np.append(True, apart)], stops[np.append(apart, True)]
            cuts = np.flatnonzero(np.diff(np.cumsum(stops - starts) // BLOCK)) + 1
            for first, last in pairwise([0, *cuts.tolist(), len(starts)]):
                pieces = zip(starts[first:last].tolist(), stops[first:last].tolist(), strict=True)
                block = b"".join([body[start:stop] for start, stop in pieces])
                yield 1, block if block.endswith(b"\n") else block + b"\n"  # the last line of a file may lack its end


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as body:
        yield body


def _bounds(path: Path, rows: Stretch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each of these rows begins and ends."""
    status = path.stat()
    starts = _line_starts(str(path), status.st_size, status.st_mtime_ns)
    first, last = rows.first - 1, np.minimum(rows.after - 1, len(starts) - 1)
    if len(first) and first[-1] >= len(starts) - 1:
        raise PoisonproofError(f"{path} is shorter than it was.")
    return starts[first], starts[last]


@lru_cache(maxsize=2)
def _line_starts(path: str, size: int, time: int) -> NDArray[np.int64]:
    """Where each line begins, and at last where the file ends."""
    parts = [np.zeros(1, np.int64)]
    with _mapped(Path(path)) as body:
        for start in range(0, len(body), BYTES_AT_ONCE):
            piece = np.frombuffer(body[start : start + BYTES_AT_ONCE], np.uint8)
            parts.append(np.flatnonzero(piece == LINE_FEED) + (start + 1))
        starts = np.concatenate(parts)
        return np.append(starts[starts < len(body)], len(body))


class _ParquetRows(ParquetTable):
    """A Parquet file of which some rows are read."""

    def __init__(self, table: ParquetTable, rows: NDArray[np.int64]) -> None:
        vars(self).update(vars(table))
        self.rows = rows

    def pieces(self, faults: Counter[str], wanted: Sequence[str]) -> Iterator[Piece]:
        """Those of every batch that are wanted."""
        for first, batch in self.batches(wanted):
            here = self.rows[(self.rows >= first) & (self.rows < first + len(batch))] - first
            if len(here):
                yield self.piece(batch.take(here), (here + first).tolist(), faults, wanted)


def table_files(path: Path) -> list[Path]:
    """The files of a table: the file itself, or the Parquet files of a folder, by name."""
    if not path.is_dir():
        return [path]
    return sorted(item for item in path.glob("*.parquet") if item.is_file() and not item.name.startswith("."))


def single_rows_of(path: Path) -> bool:
    """Whether single rows of such a file can be read."""
    return path.is_dir() or not path.name.lower().endswith(".gz")


def digests_without(files: Sequence[Path], rows: Stretch) -> dict[str, str]:
    """SHA-256 of each file by its name: of its bytes, or, where it holds some of these rows, of all else in it.

    The files are those of one table, and rows are numbered through them.
    """
    digests, before = {}, 0
    for file in files:
        is_parquet = file.name.lower().endswith(".parquet")
        here = rows
        if len(files) > 1 and len(rows.first):
            n_rows = ParquetTable(file, 1 << 60).n_rows
            inside = (rows.first > before) & (rows.first <= before + n_rows)
            here, before = Stretch(rows.first[inside] - before, rows.after[inside] - before), before + n_rows
        if not len(here.first):
            digests[file.name] = sha256_of(file)
        else:
            digests[file.name] = _of_other_rows(file, here.first) if is_parquet else _of_other_lines(file, here)
    return digests


def _of_other_lines(path: Path, rows: Stretch) -> str:
    digest, done = hashlib.sha256(), 0
    with _mapped(path) as body:
        bounds = zip(*(part.tolist() for part in _bounds(path, rows)), strict=True)
        for start, stop in (*bounds, (len(body), len(body))):
            for at in range(done, start, BYTES_AT_ONCE):
                digest.update(body[at : min(start, at + BYTES_AT_ONCE)])
            done = stop
    return digest.hexdigest()


def _of_other_rows(path: Path, rows: NDArray[np.int64]) -> str:
    """Of the cells as Arrow writes them out; another version may write others, and then everything is read."""
    import pyarrow as pa

    table, digest = ParquetTable(path, 1 << 60), hashlib.sha256()
    for first, batch in table.batches(table.header):
        stays = np.ones(len(batch), np.bool_)
        stays[rows[(rows >= first) & (rows < first + len(batch))] - first] = False
        left = batch.filter(pa.array(stays))
        columns = [
            column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in left.columns
        ]
        plain = pa.RecordBatch.from_arrays(columns, names=table.header)
        digest.update(plain.schema.serialize())
        digest.update(plain.serialize())
    return digest.hexdigest()

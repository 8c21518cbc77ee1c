"""New samples a block at a time: what is in memory does not grow with the file.

Every block is read by the reader that reads whole files, and how a row is read is a function of that row and the
schema; so the samples are the same, however they are cut into blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any

from poisonproof.data.options import ReadOptions
from poisonproof.data.readers.folder import notes_of_bad, pictures_in, read_pictures
from poisonproof.data.readers.npz import by_schema, names_in
from poisonproof.data.readers.part import Part
from poisonproof.data.readers.svmlight import notes_of_sparse, sparse_part, svmlight_rows
from poisonproof.data.readers.tables import Table, Tally, read_table
from poisonproof.data.user_files import kind_of, open_table
from poisonproof.errors import PoisonproofError
from poisonproof.samples.schema import ArraySchema, ImageSchema, Schema, SparseSchema, TableSchema
from poisonproof.system.archives import npy_rows, open_zip
from poisonproof.system.files import reading

FEWEST_ROWS = 512  # what base classifiers are asked at a time
MOST_CELLS = {"table": 1 << 20, "images": 1 << 26, "arrays": 1 << 23, "sparse": 1 << 12}  # in a block
NO_BOUND = 1 << 62  # a plain file may have any size, because it is never in memory; a packed one may be a bomb


@dataclass(frozen=True)
class RowBlock:
    """Some samples of a file: as the reader gives them, and the cells of each as the file has them, if it has cells."""

    part: Part
    cells: list[list[str]]


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
        kind = kind_of(path)
        if kind != schema.kind:
            raise PoisonproofError(
                f"{path} holds {kind}, but the schema reads {schema.kind}; give data of the same kind."
            )
        self.columns: tuple[str, ...] = ()
        self.notes: tuple[str, ...] = ()
        packed = path.suffix == ".gz"
        most_bytes = options.most_bytes or (None if packed else NO_BOUND)
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
        tally = Tally()
        records = table.records(tally.faults)
        while True:
            block = _Records(table, list(islice(records, rows)))
            part = read_table(block, schema, labelled=False, tally=tally)  # also of no rows: it checks the columns
            self.notes = tally.notes(table)
            if not block.held:
                return
            yield RowBlock(part, [cells for _, cells in block.held])

    def _of_folder(self, folder: Path, schema: ImageSchema, options: ReadOptions, rows: int) -> Iterator[RowBlock]:
        paths, bad = pictures_in(folder, labelled=False), list[str]()
        for start in range(0, len(paths), rows):
            samples, good, not_good = read_pictures(paths[start : start + rows], folder, schema, resize=True)
            bad += not_good
            self.notes = notes_of_bad(bad, len(paths), skip_bad=options.skip_bad)
            if good:
                yield RowBlock(Part(samples, None, None, [str(path.relative_to(folder)) for path in good]), [])

    def _of_svmlight(self, path: Path, schema: SparseSchema, most_bytes: int | None, rows: int) -> Iterator[RowBlock]:
        faults, beyond = Counter[str](), Counter[int]()
        entries = svmlight_rows(path, most_bytes, faults)
        while block := list(islice(entries, rows)):
            yield RowBlock(sparse_part(block, schema, beyond, labelled=False), [])
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


def _rows(wanted: int, schema: Schema, width: int) -> int:
    """So many rows, or fewer where they are wide."""
    return min(wanted, max(FEWEST_ROWS, MOST_CELLS[schema.kind] // max(1, width)))


class _Records:
    """Some rows of a table, as a table."""

    def __init__(self, table: Table, held: list[tuple[int, list[str]]]) -> None:
        self.path, self.header, self.unreadable, self.held = table.path, table.header, table.unreadable, held

    def records(self, faults: Counter[str]) -> Iterator[tuple[int, list[str]]]:
        """Number and cells of every row, which were counted when they were read."""
        return iter(self.held)


def _arrays(path: Path, name: str, rows: int) -> Iterator[Any]:
    with open_zip(path) as archive:
        info = archive.getinfo(f"{name}.npy")
        with archive.open(info) as file:
            yield from npy_rows(file, info.file_size, name, rows)

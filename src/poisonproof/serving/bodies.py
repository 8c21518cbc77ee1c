"""Rows in the body of a request: JSON, CSV, svmlight or an image, read by the readers that read files.

A body that is CSV or svmlight is read as a file is; the cells of JSON are read each by itself. So a sample has one
answer, by whatever entry point it comes, and one that cannot be read costs no other its answer.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from poisonproof.data.arrays import by_schema, sparse_samples
from poisonproof.data.dataset import ReadReport, Unread
from poisonproof.data.files import Body
from poisonproof.data.images import BadImageError, pixels
from poisonproof.data.options import ReadOptions
from poisonproof.data.reading import RowStream
from poisonproof.data.tables import ObjectCells, RawBatch, read_table
from poisonproof.errors import PoisonproofError
from poisonproof.samples.schema import FEATURES, ArraySchema, ImageSchema, Schema, SparseSchema, TableSchema

JSON, CSV, SVMLIGHT = "application/json", "text/csv", "text/plain"
IMAGES = ("image/png", "image/jpeg", "image/bmp", "image/x-portable-pixmap", "image/x-portable-graymap")


class RefusedError(Exception):
    """A request that gets no answer: a status of HTTP, and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class UnreadError(Exception):
    """Why one row of a request cannot be read, in words that follow its name."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The samples of one request: what each is called, what they hold, what a sender should know, and which samples
    besides cannot be read."""

    names: Sequence[int | str]
    held: Any
    notes: tuple[str, ...] = ()
    unread: Sequence[Unread] = ()

    def __len__(self) -> int:
        return len(self.names)


class BodyReader:
    """Reads bodies by one schema, and joins what several of them hold into samples for one question."""

    def __init__(self, schema: Schema, most_rows: int) -> None:
        self.schema, self.most_rows = schema, most_rows
        self.columns = tuple(schema.named(*FEATURES)) if isinstance(schema, TableSchema) else ()

    @property
    def types(self) -> tuple[str, ...]:
        """The types of content that it reads."""
        more: dict[str, tuple[str, ...]] = {"table": (CSV,), "sparse": (SVMLIGHT,), "images": IMAGES}
        return (JSON, *more.get(self.schema.kind, ()))

    def rows(self, body: bytes, content_type: str) -> Rows:
        """The samples of a body; raises `RefusedError`."""
        kind = content_type.partition(";")[0].strip().lower() or JSON
        if kind not in self.types:
            raise RefusedError(415, f"The body is of type '{kind[:60]}'; this run reads {', '.join(self.types)}.")
        try:
            rows = self._of_json(_parsed(body)) if kind == JSON else self._of_file(body, kind)
        except PoisonproofError as error:
            raise RefusedError(422, str(error)) from None
        if not len(rows):
            why = [f"Row {one.name} {one.reason}." for one in rows.unread[:1]]
            raise RefusedError(422, " ".join(["There is no row that can be read.", *why]))
        self._check_number(len(rows) + len(rows.unread))
        return rows

    def joined(self, parts: Sequence[Rows]) -> Any:
        """The samples of several requests, as the model takes them."""
        held = [part.held for part in parts]
        if isinstance(self.schema, TableSchema):
            rows = [cells for part in held for cells in part]
            return read_table(_Cells(list(self.columns), rows), self.schema, labelled=False).X
        if isinstance(self.schema, SparseSchema):
            return sp.vstack(held, format="csr")
        return np.concatenate(held)

    def _check_number(self, n_rows: int) -> None:
        if n_rows > self.most_rows:
            raise RefusedError(413, f"There are {n_rows} rows; at most {self.most_rows} are taken in one request.")

    def _of_json(self, rows: list[Any]) -> Rows:
        """Row by row: one that cannot be read costs itself and no other."""
        self._check_number(len(rows))
        readers: dict[type, Callable[[Any], Any]] = {
            TableSchema: self._cells,
            SparseSchema: self._entries,
            ImageSchema: self._picture,
            ArraySchema: lambda row: _numbers(row, cast(ArraySchema, self.schema)),
        }
        names, held, unread = list[int | str](), [], list[Unread]()
        for at, row in enumerate(rows):
            try:
                held.append(readers[type(self.schema)](row))
                names.append(at)
            except UnreadError as error:
                unread.append(Unread(len(held), at, str(error)))
        return Rows(names, self._whole(held), (), unread)

    def _whole(self, held: list[Any]) -> Any:
        """Rows of JSON as one: cells of tables as they are, everything else as the model takes it."""
        if isinstance(self.schema, TableSchema) or not held:
            return held
        if isinstance(self.schema, SparseSchema):
            return sparse_samples(held, self.schema.n_features).take(np.arange(len(held)))
        return np.stack(held)

    def _cells(self, row: Any) -> list[Any]:
        """The cells of one row, by name or in the order of the features."""
        if isinstance(row, str) and len(self.columns) == 1:
            return [row]
        if isinstance(row, list) and len(row) == len(self.columns):
            row = dict(zip(self.columns, row, strict=True))
        if not isinstance(row, dict):
            raise UnreadError(f"must be an object by column, or a list of {len(self.columns)} cells in their order")
        for name in self.columns:
            if name not in row:
                raise UnreadError(f"has no '{name}'; null stands for a missing cell")
        return [row[name] for name in self.columns]

    def _entries(self, row: Any) -> list[tuple[int, float]]:
        try:
            if all(name.isascii() and name.isdigit() and len(name) < 19 and _is_number(row[name]) for name in row):
                return [(int(name), float(value)) for name, value in row.items()]
        except (AttributeError, TypeError, OverflowError):
            pass
        raise UnreadError('must be an object of indices and numbers, such as {"3": 1.5}')

    def _picture(self, row: Any) -> NDArray[np.uint8]:
        assert isinstance(self.schema, ImageSchema)
        if isinstance(row, list):
            shape = (self.schema.height, self.schema.width, *([3] if self.schema.colour else []))
            return _numbers(row, ArraySchema(shape, "uint8"))
        try:
            return pixels(io.BytesIO(base64.b64decode(row, validate=True)), self.schema, resize=True)
        except (binascii.Error, TypeError, ValueError) as error:
            why = str(error) if isinstance(error, BadImageError) else "must be an image in base64, or rows of pixels"
            raise UnreadError(why) from None

    def _of_file(self, body: bytes, kind: str) -> Rows:
        if isinstance(self.schema, ImageSchema):
            try:
                return Rows([0], pixels(io.BytesIO(body), self.schema, resize=True)[None])
            except BadImageError as error:
                return Rows([], [], (), [Unread(0, 0, str(error))])
        sent = Body(body, "body.csv" if kind == CSV else "body.svm")
        try:
            stream = RowStream(sent, self.schema, ReadOptions(most_bytes=max(1, len(body))), self.most_rows + 1)
            blocks = list(stream)
        except PoisonproofError as error:
            raise RefusedError(422, str(error)) from None
        names = [name for block in blocks for name in block.part.names]
        starts = accumulate((len(block.part) for block in blocks), initial=0)
        unread = [
            one._replace(before=start + one.before)
            for start, block in zip(starts, blocks, strict=False)
            for one in block.unread
        ]
        notes = tuple(note.replace(sent.name, "the body") for note in stream.notes)
        if not isinstance(self.schema, TableSchema):
            held = sp.vstack([block.part.X for block in blocks], format="csr") if blocks else []
            return Rows(names, held, notes, unread)
        places = [stream.columns.index(name) for name in self.columns]
        cells = [[row[place] for place in places] for block in blocks for row in block.cells]
        return Rows(names, cells, notes, unread)


class _Cells:
    """Cells from requests, as a table: texts, numbers, truth values or nothing."""

    path = Body(b"", "the body")
    unreadable: list[str] = []  # noqa: RUF012 - of nobody

    def __init__(self, header: list[str], rows: list[list[Any]]) -> None:
        self.header, self.rows = header, rows

    def raw_batches(self, columns: Sequence[str], report: ReadReport) -> Iterator[RawBatch]:
        """All of them; they are good."""
        cells = dict(zip(self.header, map(ObjectCells, zip(*self.rows, strict=True)), strict=True))
        yield RawBatch(range(len(self.rows)), {name: cells[name] for name in columns})


def _parsed(body: bytes) -> list[Any]:
    """The rows of a body of JSON: a list, or an object with a list of ``rows``."""

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is no number of JSON")

    try:
        record = json.loads(body, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        words = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise RefusedError(400, f"The body is not JSON ({words}).") from None
    rows = record.get("rows") if isinstance(record, dict) else record
    if not isinstance(rows, list):
        raise RefusedError(422, 'The body must be a list of rows, or an object with "rows": […].')
    return rows


def _numbers(row: Any, schema: ArraySchema) -> NDArray[Any]:
    """A row of numbers; null is a missing one."""
    words = f"must hold {schema}"
    try:
        array = np.array(row)
        if array.dtype.kind == "O" and all(value is None or _is_number(value) for value in array.flat):
            array = array.astype(np.float64)
    except (ValueError, TypeError, OverflowError):
        raise UnreadError(f"{words}; it is of different lengths, or no numbers") from None
    if array.dtype.kind not in "iuf" or array.shape != schema.shape:
        got = "other things" if array.dtype.kind not in "iuf" else f"numbers of shape {array.shape}"
        raise UnreadError(f"{words}; it holds {got}")
    if schema.dtype == "uint8" and (array.dtype.kind == "f" or array.min() < 0 or array.max() > 255):
        raise UnreadError(f"{words}: whole numbers from 0 to 255")
    array = array.astype(schema.dtype)
    return by_schema(array[None], schema, Path("The body"), "rows")[0]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

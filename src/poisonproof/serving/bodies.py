"""Rows in the body of a request: JSON, CSV, svmlight or an image, read by the readers that read files.

A body that is CSV, svmlight or an image is laid into a file of its own for a moment, so that the same code reads it;
the cells of JSON are written out as CSV would hold them. So a sample has one answer, by whatever door it comes.
"""

from __future__ import annotations

import base64
import binascii
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from poisonproof.data.options import ReadOptions
from poisonproof.data.readers.folder import read_pictures
from poisonproof.data.readers.npz import by_schema
from poisonproof.data.readers.svmlight import sparse_part
from poisonproof.data.readers.tables import read_table
from poisonproof.data.streaming import RowStream
from poisonproof.errors import PoisonproofError
from poisonproof.samples.cells import text_of
from poisonproof.samples.schema import FEATURES, ArraySchema, ImageSchema, Schema, SparseSchema, TableSchema

JSON, CSV, SVMLIGHT = "application/json", "text/csv", "text/plain"
IMAGES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/bmp": ".bmp",
    "image/x-portable-pixmap": ".ppm",
    "image/x-portable-graymap": ".pgm",
}


class RefusedError(Exception):
    """A request that gets no answer: a status of HTTP, and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


@dataclass(frozen=True, eq=False)
class Rows:
    """The samples of one request: what each is called, what they hold, and what a sender should know."""

    names: Sequence[int | str]
    held: Any
    notes: tuple[str, ...] = ()

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
        more: dict[str, tuple[str, ...]] = {"table": (CSV,), "sparse": (SVMLIGHT,), "images": tuple(IMAGES)}
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
            raise RefusedError(422, "; ".join(["There is no row that can be read.", *rows.notes]))
        if len(rows) > self.most_rows:
            raise RefusedError(413, f"There are {len(rows)} rows; at most {self.most_rows} are taken in one request.")
        return rows

    def joined(self, parts: Sequence[Rows]) -> Any:
        """The samples of several requests, as the model takes them."""
        held = [part.held for part in parts]
        if isinstance(self.schema, TableSchema):
            records = [(0, cells) for part in held for cells in part]
            return read_table(_Cells(list(self.columns), records), self.schema, labelled=False).X
        if isinstance(self.schema, SparseSchema):
            return sp.vstack(held, format="csr")
        return np.concatenate(held)

    def _of_json(self, rows: list[Any]) -> Rows:
        if len(rows) > self.most_rows:
            raise RefusedError(413, f"There are {len(rows)} rows; at most {self.most_rows} are taken in one request.")
        readers: dict[type, Callable[[list[Any]], Any]] = {
            TableSchema: lambda some: [self._cells(row, at) for at, row in enumerate(some)],
            SparseSchema: self._entries,
            ImageSchema: self._pictures,
            ArraySchema: self._numbers,
        }
        return Rows(range(len(rows)), readers[type(self.schema)](rows) if rows else [])

    def _cells(self, row: Any, at: int) -> list[str]:
        """The cells of one row, by name or in the order of the features."""
        if isinstance(row, str) and len(self.columns) == 1:
            return [row]
        if isinstance(row, list) and len(row) == len(self.columns):
            row = dict(zip(self.columns, row, strict=True))
        if not isinstance(row, dict):
            raise RefusedError(
                422, f"Row {at} must be an object by column, or a list of {len(self.columns)} cells in their order."
            )
        for name in self.columns:
            if name not in row:
                raise RefusedError(422, f"Row {at} has no '{name}'; null stands for a missing cell.")
        return [text_of(row[name], f"'{name}' in row {at}") for name in self.columns]

    def _entries(self, rows: list[Any]) -> Any:
        some = []
        for at, row in enumerate(rows):
            good = isinstance(row, dict) and all(
                name.isascii() and name.isdigit() and len(name) < 19 and _is_number(value)
                for name, value in row.items()
            )
            if not good:
                raise RefusedError(422, f'Row {at} must be an object of indices and numbers, such as {{"3": 1.5}}.')
            some.append((at, "", [(int(name), float(value)) for name, value in row.items()]))
        assert isinstance(self.schema, SparseSchema)
        return sparse_part(some, self.schema, Counter(), labelled=False).X

    def _pictures(self, rows: list[Any]) -> NDArray[np.uint8]:
        assert isinstance(self.schema, ImageSchema)
        if all(isinstance(row, list) for row in rows):
            shape = (self.schema.height, self.schema.width, *([3] if self.schema.colour else []))
            return _numbers(rows, ArraySchema(shape, "uint8"))
        images = []
        for at, row in enumerate(rows):
            try:
                images.append(base64.b64decode(row, validate=True))
            except (binascii.Error, TypeError, ValueError):
                raise RefusedError(422, f"Row {at} must be an image in base64, or rows of pixels.") from None
        return self._decoded(images, ".png")

    def _numbers(self, rows: list[Any]) -> NDArray[Any]:
        assert isinstance(self.schema, ArraySchema)
        return _numbers(rows, self.schema)

    def _of_file(self, body: bytes, kind: str) -> Rows:
        if isinstance(self.schema, ImageSchema):
            return Rows([0], self._decoded([body], IMAGES[kind]))
        with tempfile.TemporaryDirectory(prefix="poisonproof-") as folder:
            path = Path(folder) / ("body.csv" if kind == CSV else "body.svm")
            path.write_bytes(body)
            try:
                stream = RowStream(path, self.schema, ReadOptions(most_bytes=max(1, len(body))), self.most_rows + 1)
                blocks = list(stream)
            except PoisonproofError as error:
                raise RefusedError(422, str(error).replace(str(path), "The body")) from None
        names = [name for block in blocks for name in block.part.names]
        notes = tuple(note.replace(path.name, "the body") for note in stream.notes)
        if not isinstance(self.schema, TableSchema):
            return Rows(names, sp.vstack([block.part.X for block in blocks], format="csr") if blocks else [], notes)
        places = [stream.columns.index(name) for name in self.columns]
        cells = [[row[place] for place in places] for block in blocks for row in block.cells]
        return Rows(names, cells, notes)

    def _decoded(self, images: Sequence[bytes], suffix: str) -> NDArray[np.uint8]:
        assert isinstance(self.schema, ImageSchema)
        with tempfile.TemporaryDirectory(prefix="poisonproof-") as folder:
            paths = [Path(folder) / f"{at}{suffix}" for at in range(len(images))]
            for path, image in zip(paths, images, strict=True):
                path.write_bytes(image)
            samples, good, _ = read_pictures(paths, Path(folder), self.schema, resize=True)
        if len(good) < len(paths):
            bad = next(at for at, path in enumerate(paths) if path not in good)
            raise RefusedError(422, f"Image {bad} is not a whole image (PNG, JPEG, PPM or BMP).")
        return samples


class _Cells:
    """Cells from requests, as a table."""

    path = Path("the body")
    unreadable: list[str] = []  # noqa: RUF012 - of nobody

    def __init__(self, header: list[str], held: list[tuple[int, list[str]]]) -> None:
        self.header, self.held = header, held

    def records(self, faults: Counter[str]) -> Iterator[tuple[int, list[str]]]:
        """All of them are good."""
        return iter(self.held)


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


def _numbers(rows: list[Any], schema: ArraySchema) -> NDArray[Any]:
    """Rows of numbers; null is a missing one."""
    words = f"Every row must hold {schema}"
    try:
        array = np.array(rows)
        if array.dtype.kind == "O" and all(value is None or _is_number(value) for value in array.flat):
            array = array.astype(np.float64)
    except (ValueError, TypeError, OverflowError):
        raise RefusedError(422, f"{words}; these are of different lengths, or no numbers.") from None
    if array.dtype.kind not in "iuf" or array.shape[1:] != schema.shape:
        got = "other things" if array.dtype.kind not in "iuf" else f"rows of shape {array.shape[1:]}"
        raise RefusedError(422, f"{words}; these are {got}.")
    if schema.dtype == "uint8":
        if array.dtype.kind == "f" or array.min(initial=0) < 0 or array.max(initial=0) > 255:
            raise RefusedError(422, f"{words}: whole numbers from 0 to 255.")
        array = array.astype(np.uint8)
    elif array.dtype == np.uint8:
        array = array.astype(np.float64)
    return by_schema(array, schema, Path("The body"), "rows")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

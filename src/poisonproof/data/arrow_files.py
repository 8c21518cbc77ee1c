"""Parquet by column, typed as the file is; a schema reads it exactly as it reads CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from poisonproof.data.dataset import ReadReport
from poisonproof.data.files import MOST_BYTES, Body, Opens, check_size, decoded, is_utf_8
from poisonproof.data.options import ReadOptions
from poisonproof.data.tables import RawBatch, checked_names
from poisonproof.errors import PoisonproofError, missing_extra
from poisonproof.samples.cells import floor_microseconds, text_of, text_of_microseconds
from poisonproof.samples.columns import MISSING, RawCells, Typed

ROWS_PER_BATCH = 1 << 15
BYTES_PER_CELL = 8


class ParquetTable:
    """A Parquet file. What a cell is as a number and as a text, `ArrowCells` says.

    Column types are the file's own; lists, structures and raw bytes cannot be read and count as columns to ignore.
    """

    kind = "table"

    def __init__(self, path: Opens, most_bytes: int | None = None) -> None:
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError:
            raise missing_extra("Reading Parquet", "pyarrow", "tables") from None
        self.path = path
        try:
            with pq.ParquetFile(_source(path)) as file:
                facts, schema = file.metadata, file.schema_arrow
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, FileNotFoundError | PermissionError):
                raise
            raise PoisonproofError(
                f"{path} is not a whole Parquet file ({_one_line(error)}).", code="file.damaged"
            ) from None
        stated = sum(facts.row_group(i).total_byte_size for i in range(facts.num_row_groups))
        check_size(path, max(stated, facts.num_rows * len(schema) * BYTES_PER_CELL), most_bytes or MOST_BYTES)
        readable = [field.name for field in schema if not _unreadable(pa, field.type)]
        self.unreadable = [field.name for field in schema if _unreadable(pa, field.type)]
        self.header = checked_names(readable, path)
        self._texts = [field.name for field in schema if field.type in (pa.string(), pa.large_string())]

    @classmethod
    def open(cls, path: Opens, options: ReadOptions) -> Self:
        """The table of a file."""
        return cls(path, options.most_bytes)

    def raw_batches(self, columns: Sequence[str], report: ReadReport) -> Iterator[RawBatch]:
        """The rows by column, typed as the file is; of these columns only."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        first = 1

        def not_utf_8(count: int) -> None:
            report.add(self.path.name, "cell.not-utf-8", None, count)

        try:
            with pq.ParquetFile(_source(self.path), read_dictionary=self._texts) as file:
                for batch in file.iter_batches(ROWS_PER_BATCH, columns=list(columns), use_threads=False):
                    cells = {name: ArrowCells(batch.column(name), name, not_utf_8) for name in columns}
                    yield RawBatch(range(first, first + len(batch)), cells)
                    first += len(batch)
        except (pa.ArrowException, OSError) as error:
            raise PoisonproofError(
                f"{self.path} is not a whole Parquet file ({_one_line(error)}).", code="file.damaged"
            ) from None


def _source(path: Opens) -> Any:
    return path.open() if isinstance(path, Body) else path


def _unreadable(pa: Any, kind: Any) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    types = pa.types
    plain = (
        types.is_integer(kind),
        types.is_floating(kind),
        types.is_boolean(kind),
        types.is_decimal(kind),
        types.is_string(kind),
        types.is_large_string(kind),
        types.is_null(kind),
        types.is_date(kind),
        types.is_timestamp(kind),
        types.is_duration(kind),
        types.is_time(kind),
    )
    return not any(plain)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


class ArrowCells(RawCells):
    """A column of an Arrow batch, typed from the file on: its cells as numbers and as texts, without writing them out.

    A cell is what its text would be (`text_of`), so a schema reads Parquet exactly as it reads CSV;
    `tests/data/test_typed_reading.py` compares. ``not_utf_8`` is told of so many cells that are not.
    """

    def __init__(self, column: Any, name: str, not_utf_8: Callable[[int], None]) -> None:
        import pyarrow as pa

        self.texts_once = pa.types.is_dictionary(column.type) and _is_text(pa, column.type.value_type)
        decode = pa.types.is_dictionary(column.type) and not self.texts_once
        self.column = column.dictionary_decode() if decode else column
        self.name, self.not_utf_8 = name, not_utf_8

    def part(self, start: int, stop: int) -> ArrowCells:
        """Some of these cells."""
        return ArrowCells(self.column.slice(start, stop - start), self.name, self.not_utf_8)

    def typed(self) -> Typed | None:
        """The numbers of a column of numbers, booleans or times."""
        if (held := self._held()) is None:
            return None
        values, gaps = held
        return np.where(gaps, np.nan, values.astype(np.float64) + 0.0), lambda row: self._text(values[row])

    def holds_numbers(self, rows: int) -> bool | None:
        """Whether there are numbers among so many cells, of a type that holds nothing else; None of another type."""
        import pyarrow as pa

        held = None if pa.types.is_boolean(self.column.type) else self._held()
        return None if held is None else not held[1][:rows].all()

    def _held(self) -> tuple[NDArray[Any], NDArray[np.bool_]] | None:
        """Whole numbers or float64 and which are missing, of a column whose type holds nothing else."""
        import pyarrow as pa

        kind, column = self.column.type, self.column
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            counts = whole_times(pa, column)
            if counts is None:
                return None
            column = counts
        gaps = column.is_null().to_numpy(zero_copy_only=False)
        if pa.types.is_floating(kind):
            values = column.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
            gaps = ~np.isfinite(values)
            return np.where(gaps, 0.0, values), gaps
        whole = column.cast(pa.int8()) if pa.types.is_boolean(kind) else column
        return whole.fill_null(0).to_numpy(zero_copy_only=False), gaps

    def different(self) -> tuple[NDArray[np.int64], list[str]]:
        """The place of each cell among different texts."""
        import pyarrow as pa

        kind, held = self.column.type, self._held()
        if held is not None:
            values, places = np.unique(held[0], return_inverse=True)
            return np.where(held[1], MISSING, places), [self._text(value) for value in values.tolist()]
        if not (self.texts_once or _is_text(pa, kind)):
            unit = unit_of(pa, kind)
            cells = (self.column if unit is None else _counts(pa, self.column)).to_pylist()
            if unit is not None:
                cells = [None if count is None else floor_microseconds(count, unit) for count in cells]
            return np.arange(len(cells)), ["" if cell is None else self._text(cell) for cell in cells]
        # Bytes that are not UTF-8 must not cost more than their own cell.
        encoded = self.column if self.texts_once else self.column.cast(pa.large_binary()).dictionary_encode()
        bodies = encoded.dictionary.cast(pa.large_binary()).to_pylist()
        places = encoded.indices.cast(pa.int64()).fill_null(MISSING).to_numpy(zero_copy_only=False)
        for place, body in enumerate(bodies):
            if body is not None and not is_utf_8(body):
                self.not_utf_8(int((places == place).sum()))
        return places, ["" if body is None else decoded(body) for body in bodies]

    def _text(self, value: Any) -> str:
        """The text of a cell, by its value, or by its number in a typed column: its microseconds, if it is a time."""
        import pyarrow as pa

        kind = self.column.type
        if unit_of(pa, kind) is not None:
            of_day, duration = pa.types.is_time(kind), pa.types.is_duration(kind)
            return text_of_microseconds(int(value), "time" if of_day else "duration" if duration else "date")
        return text_of(bool(value) if pa.types.is_boolean(kind) else value, f"Column '{self.name}'")


def _is_text(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def unit_of(pa: Any, kind: Any) -> str | None:
    """What a column of dates, moments (in UTC where it has a zone), times of day or durations counts."""
    if pa.types.is_date(kind):
        return "D" if pa.types.is_date32(kind) else "ms"
    types = pa.types
    return kind.unit if types.is_timestamp(kind) or types.is_duration(kind) or types.is_time(kind) else None


def _counts(pa: Any, column: Any) -> Any:
    """A column of times as the whole numbers that it holds."""
    return column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())


def whole_times(pa: Any, column: Any) -> Any:
    """A column of times as whole microseconds, rounded down; None of anything else, or of what int64 does not hold."""
    unit = unit_of(pa, column.type)
    if unit is None:
        return None
    counts = _counts(pa, column).cast(pa.int64())
    values, gaps = counts.fill_null(0).to_numpy(zero_copy_only=False), counts.is_null().to_numpy(zero_copy_only=False)
    if unit == "ns":
        whole = values // 1000
    else:
        step = floor_microseconds(1, unit)
        if len(values) and max(int(values.max()), -int(values.min())) > np.iinfo(np.int64).max // step:
            return None
        whole = values * step
    return pa.array(whole, pa.int64(), mask=gaps)

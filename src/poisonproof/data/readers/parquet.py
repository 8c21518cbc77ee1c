"""Parquet as rows of texts, so that a schema reads them exactly as it reads CSV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from poisonproof.data.readers.csvfile import checked_names
from poisonproof.data.readers.lines import MOST_BYTES, check_size, decoded
from poisonproof.errors import PoisonproofError, missing_extra
from poisonproof.samples.cells import text_of
from poisonproof.samples.moments import floor_microseconds

ROWS_PER_BATCH = 1 << 14
BYTES_PER_CELL = 8


class ParquetTable:
    """A Parquet file. Numbers are written out in full, times in whole microseconds, rounded down in integers.

    Column types are the file's own; lists, structures and raw bytes cannot be read and count as columns to ignore.
    """

    def __init__(self, path: Path, most_bytes: int | None = None) -> None:
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError:
            raise missing_extra("Reading Parquet", "pyarrow", "tables") from None
        self.path = path
        try:
            with pq.ParquetFile(path) as file:
                facts, schema = file.metadata, file.schema_arrow
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, FileNotFoundError | PermissionError):
                raise
            raise PoisonproofError(f"{path} is not a whole Parquet file ({_one_line(error)}).") from None
        stated = sum(facts.row_group(i).total_byte_size for i in range(facts.num_row_groups))
        check_size(path, max(stated, facts.num_rows * len(schema) * BYTES_PER_CELL), most_bytes or MOST_BYTES)
        readable = [field.name for field in schema if not _unreadable(pa, field.type)]
        self.unreadable = [field.name for field in schema if _unreadable(pa, field.type)]
        self.header = checked_names(readable, path)

    def records(self, faults: Counter[str]) -> Iterator[tuple[int, list[str]]]:
        """Row number (from 1) and cells of every row."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        number = 0
        try:
            with pq.ParquetFile(self.path) as file:
                for batch in file.iter_batches(ROWS_PER_BATCH, columns=self.header):
                    columns = [_texts(pa, batch.column(name), name, faults) for name in self.header]
                    for cells in zip(*columns, strict=True):
                        number += 1
                        yield number, list(cells)
        except (pa.ArrowException, OSError) as error:
            raise PoisonproofError(f"{self.path} is not a whole Parquet file ({_one_line(error)}).") from None


def _texts(pa: Any, column: Any, name: str, faults: Counter[str]) -> list[str]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        # Bytes that are not UTF-8 must not cost more than their own cell.
        cells = column.cast(pa.large_binary()).to_pylist()
        return ["" if cell is None else decoded(cell, faults) for cell in cells]
    if unit := _unit(pa, column.type):
        counts = column.view(pa.int32() if unit == "D" else pa.int64()).to_pylist()
        return ["" if count is None else str(floor_microseconds(count, unit)) for count in counts]
    return [text_of(value, f"Column '{name}'") for value in column.to_pylist()]


def _unit(pa: Any, kind: Any) -> str | None:
    """What a column of dates, moments (in UTC where it has a zone) or durations counts."""
    if pa.types.is_date(kind):
        return "D" if pa.types.is_date32(kind) else "ms"
    return kind.unit if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) else None


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
    )
    return not any(plain)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]

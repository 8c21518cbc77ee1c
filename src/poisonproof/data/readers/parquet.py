"""Parquet by column, typed as the file is; a schema reads it exactly as it reads CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from poisonproof.data.readers.arrow_cells import ArrowCells
from poisonproof.data.readers.csvfile import checked_names
from poisonproof.data.readers.lines import MOST_BYTES, check_size
from poisonproof.data.readers.part import LeftOut
from poisonproof.data.readers.pieces import Piece, PieceColumn
from poisonproof.errors import PoisonproofError, missing_extra

ROWS_PER_BATCH = 1 << 15
BYTES_PER_CELL = 8


class ParquetTable:
    """A Parquet file. What a cell is as a number and as a text, `ArrowCells` says.

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
        self._texts = [field.name for field in schema if field.type in (pa.string(), pa.large_string())]

    def pieces(self, faults: LeftOut, wanted: Sequence[str]) -> Iterator[Piece]:
        """The rows by column, typed as the file is; of these columns only."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        first = 1
        try:
            with pq.ParquetFile(self.path, read_dictionary=self._texts) as file:
                for batch in file.iter_batches(ROWS_PER_BATCH, columns=list(wanted), use_threads=False):
                    columns: dict[str, PieceColumn] = {
                        name: ArrowCells(batch.column(name), name, faults) for name in wanted
                    }
                    yield Piece(range(first, first + len(batch)), columns)
                    first += len(batch)
        except (pa.ArrowException, OSError) as error:
            raise PoisonproofError(f"{self.path} is not a whole Parquet file ({_one_line(error)}).") from None


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

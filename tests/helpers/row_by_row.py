"""The slow twin of reading by column: every row of a table as texts, every cell of it by itself."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from poisonproof.data.readers.lines import decoded
from poisonproof.samples.cells import text_of
from poisonproof.samples.moments import floor_microseconds
from poisonproof.samples.schema import FEATURES, TableSchema, number_in


def parquet_records(path: Path, faults: Counter[str]) -> Any:
    """Row number and cells of every row, written out as texts."""
    table = pq.read_table(path)
    columns = [_texts(table.column(name).combine_chunks(), name, faults) for name in table.column_names]
    return enumerate(map(list, zip(*columns, strict=True)), 1)


def _texts(column: Any, name: str, faults: Counter[str]) -> list[str]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return ["" if c is None else decoded(c, faults) for c in column.cast(pa.large_binary()).to_pylist()]
    unit = "D" if pa.types.is_date32(column.type) else "ms" if pa.types.is_date64(column.type) else None
    if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
        unit = column.type.unit
    if unit:
        counts = column.view(pa.int32() if unit == "D" else pa.int64()).to_pylist()
        return ["" if count is None else str(floor_microseconds(count, unit)) for count in counts]
    return [text_of(value, f"Column '{name}'") for value in column.to_pylist()]


def read(header: list[str], records: Any, schema: TableSchema, faults: Counter[str]) -> dict[str, Any]:
    """Columns, labels, contributors and numbers of the rows that stay, and how many cells were odd."""
    missing, at = frozenset(schema.missing), {name: place for place, name in enumerate(header)}
    wanted = [(name, role) for name, role in schema.columns if role in FEATURES]
    keys = [(what, name) for what, name in (("label", schema.label), ("contributor", schema.group)) if name]
    columns: dict[str, list[Any]] = {name: [] for name, _ in (*wanted, *((name, "") for _, name in keys))}
    odd, numbers = Counter[str](), []
    for number, cells in records:
        absent = next((what for what, name in keys if cells[at[name]].strip() in missing), None)
        if absent is not None:
            faults[f"without a {absent}"] += 1
            continue
        numbers.append(number)
        for _, name in keys:
            columns[name].append(cells[at[name]].strip())
        for name, role in wanted:
            cell = cells[at[name]].strip()
            if role != "number":
                columns[name].append(None if cell in missing else cell)
                continue
            value = None if cell in missing else number_in(cell, schema.decimal)
            odd[name] += value is None and cell not in missing
            columns[name].append(np.nan if value is None else value + 0.0)
    return {"columns": columns, "odd": odd, "rows": numbers}

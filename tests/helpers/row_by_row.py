"""The slow reference of reading by column: every row of a table as texts, every cell of it by itself."""

from __future__ import annotations

import csv
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from poisonproof.data.dataset import ReadReport
from poisonproof.data.files import decoded, is_utf_8
from poisonproof.samples.cells import floor_microseconds, number_in, text_of, text_of_microseconds
from poisonproof.samples.schema import FEATURES, TableSchema

BLANK = "".join(map(chr, range(33))) + "\ue000"
LONE_RETURN, STANDS_FOR_IT = re.compile(r"\r(?!\n|\Z)"), "\ue000"  # which no byte is read as


def csv_records(content: bytes, width: int, longest: int, delimiter: str, *, by_lines: bool) -> Any:
    """The records behind a header line, those left out, and how many span lines, by `csv.reader`, strict.

    Of a record that it finds faulty the first line is left out, and a new reader begins behind it; where ``by_lines``,
    each line has a reader of its own, or is cut at its delimiters.
    """
    csv.field_size_limit(sys.maxsize)
    lines = re.findall(r"[^\n]*\n|[^\n]+\Z", LONE_RETURN.sub(STANDS_FOR_IT, content.decode("latin-1")))
    rows, left_out, spanning, at = [], [], [], 1
    while at < len(lines):
        reader = csv.reader(lines[at : at + 1] if by_lines else lines[at:], delimiter=delimiter, strict=True)
        first, n_lines, quoted = at + 1, 1, True
        try:
            cells = next(reader)
            n_lines = reader.line_num
        except csv.Error:
            cells, quoted = lines[at].rstrip("\n").removesuffix("\r").split(delimiter), False
            if not by_lines:
                left_out.append((first, "faulty quotes"))
                at += 1
                continue
        raw, at = "".join(lines[at : at + n_lines]), at + n_lines
        if len(raw) > longest:
            left_out.append((first, "too long"))
        elif len(cells) < 2 and not raw.strip(BLANK):
            continue
        elif "\0" in raw:
            left_out.append((first, "NUL"))
        elif _holds_a_bare_return(raw, quoted, delimiter):
            left_out.append((first, "carriage return"))
        elif len(cells) != width:
            left_out.append((first, "number of cells"))
        else:
            texts = (cell.replace("\r\n", "\n").replace(STANDS_FOR_IT, "\r") for cell in cells)
            rows.append((first, [decoded(text.encode("latin-1")) for text in texts]))
        spanning += [first] if n_lines > 1 else []
    return rows, left_out, (len(spanning), spanning[0] if spanning else 0)


def _holds_a_bare_return(raw: str, quoted: bool, delimiter: str) -> bool:
    """Whether a carriage return stands outside of quotes: only there a delimiter in its place ends a cell."""
    if not quoted or STANDS_FOR_IT not in raw:
        return STANDS_FOR_IT in raw
    try:
        plain, cut = (
            next(csv.reader(re.findall(r"[^\n]*\n|[^\n]+\Z", text), delimiter=delimiter, strict=True))
            for text in (raw, raw.replace(STANDS_FOR_IT, delimiter))
        )
    except csv.Error:  # a quote stands behind it
        return True
    return cut != [cell.replace(STANDS_FOR_IT, delimiter) for cell in plain]


def parquet_records(path: Path, faults: Counter[str]) -> Any:
    """Row number and cells of every row, written out as texts."""
    table = pq.read_table(path)
    columns = [_texts(table.column(name).combine_chunks(), name, faults) for name in table.column_names]
    return enumerate(map(list, zip(*columns, strict=True)), 1)


def _texts(column: Any, name: str, faults: Counter[str]) -> list[str]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return ["" if c is None else _decoded(c, faults) for c in column.cast(pa.large_binary()).to_pylist()]
    unit = "D" if pa.types.is_date32(column.type) else "ms" if pa.types.is_date64(column.type) else None
    if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
        unit = column.type.unit
    if unit:
        counts = column.view(pa.int32() if unit == "D" else pa.int64()).to_pylist()
        kind = "duration" if pa.types.is_duration(column.type) else "date"
        return [
            "" if count is None else text_of_microseconds(floor_microseconds(count, unit), kind) for count in counts
        ]
    return [text_of(value, f"Column '{name}'") for value in column.to_pylist()]


def _decoded(body: bytes, faults: Counter[str]) -> str:
    faults["cell.not-utf-8"] += not is_utf_8(body)
    return decoded(body)


def records_of(table: Any, report: ReadReport) -> Any:
    """Number and texts of every row that a table has by column."""
    for batch in table.raw_batches(table.header, report):
        yield from zip(np.asarray(batch.rows).tolist(), batch.cells(), strict=True)


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
            faults[f"row.no-{absent}"] += 1
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

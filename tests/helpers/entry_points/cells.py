"""One table in every format: what its cells are must not depend on the format.

`cases` lists every format with every column, every role that the format can be read by, and two lists of words for
missing. `faults_of_cells` reads the column through the format and compares each cell with what the rule (`number_cell`,
`text_cell`) says of the Python value itself.
"""

from __future__ import annotations

import csv
import datetime
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from poisonproof import Split, read
from poisonproof.samples.cells import number_cell, text_cell, text_of
from poisonproof.samples.schema import MISSING, TableSchema
from poisonproof.serving.app import JSON, BodyReader

ZONE = datetime.timezone(datetime.timedelta(hours=5, minutes=30))
MOMENTS = [datetime.datetime(2026, 11, 16, 1, 2, 3, 456789), datetime.datetime(2026, 11, 16), None]
COLUMNS: dict[str, tuple[list[Any], Any]] = {
    "booleans": ([True, False, None, True], pa.bool_()),
    "whole numbers": ([7, -999, 0, None, 1], pa.int64()),
    "large whole numbers": ([2**53 + 1, 2**53, -(2**60) - 1, None], pa.int64()),
    "bytes": ([0, 255, None, 99], pa.uint8()),
    "real numbers": ([0.5, -999.0, 1e-9, 7.0, -0.0, None, 1e300], pa.float64()),
    "singles": ([0.5, 0.1, -999.0, None], pa.float32()),
    "decimals": ([Decimal("0.10"), Decimal("-999.00"), None], pa.decimal128(38, 2)),
    "dates": ([datetime.date(2026, 11, 16), datetime.date(1969, 12, 31), None], pa.date32()),
    "moments": ([*MOMENTS, datetime.datetime(1, 1, 1)], pa.timestamp("us")),
    "moments of a zone": ([m and m.replace(tzinfo=ZONE) for m in MOMENTS], pa.timestamp("us", "Asia/Kolkata")),
    "seconds": ([datetime.datetime(9999, 12, 31, 23, 59, 59), MOMENTS[1], None], pa.timestamp("s")),
    "times of day": ([datetime.time(1, 2, 3), datetime.time(23, 59, 59, 999999), None], pa.time64("us")),
    "durations": ([datetime.timedelta(days=3, microseconds=7), datetime.timedelta(-1), None], pa.duration("us")),
    "texts": (
        ["many", "1_000", "\u0663", " 7 ", "1e3", "-999", "NA", "", None, "True", "0x10", "1e400", "inf", "1,5", "+5"],
        pa.string(),
    ),
    "texts of dates": (
        ["2026-11-16", "2026-02-30", "2026-11-16T01:02:03.456789Z", "2026-11-16 01:02:03+05:30", "01:02:03", "1:2:3"],
        pa.string(),
    ),
}  # fmt: skip
WORDS = (*MISSING, "-999", "True", "0.5", "2026-11-16", "01:02:03", str(2**53 + 1), "many")
ROLES = ("number", "category", "text")


class CellCase(NamedTuple):
    form: str
    column: str
    role: str
    missing: tuple[str, ...]


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str | bool | int) else text_of(value, "a cell")  # as `csv.writer` writes it


def _csv(suffix: str, delimiter: str) -> Any:
    def write(values: list[Any], kind: Any, folder: Path, schema: TableSchema) -> Any:
        path = folder / f"rows{suffix}"
        with path.open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file, delimiter=delimiter)
            rows.writerows([("x", "more", "y"), *((_text(value), "m", "l") for value in values)])
        return _file(path, schema)

    return write


def _parquet(values: list[Any], kind: Any, folder: Path, schema: TableSchema) -> Any:
    table = pa.table({"x": pa.array(values, kind), "more": ["m"] * len(values), "y": ["l"] * len(values)})
    pq.write_table(table, folder / "rows.parquet")
    return _file(folder / "rows.parquet", schema)


def _file(path: Path, schema: TableSchema) -> Any:
    columns = (*schema.columns, ("more", "category"), ("y", "label"))
    return read(path, schema=TableSchema(columns, schema.missing), held_out=0).train.samples


def _arrow(make: Callable[[Any], Any]) -> Any:
    def load(values: list[Any], kind: Any, folder: Path, schema: TableSchema) -> Any:
        return Split(schema=schema).samples(make(pa.table({"x": pa.array(values, kind)})))

    return load


def _polars(table: Any) -> Any:
    import polars as pl

    return pl.from_arrow(table)


def _objects(values: list[Any], kind: Any, folder: Path, schema: TableSchema) -> Any:
    return Split(schema=schema).samples(pd.DataFrame({"x": pd.Series(values, dtype=object)}))


def _inferred(values: list[Any], kind: Any, folder: Path, schema: TableSchema) -> Any:
    """As pandas types the column of what is not missing."""
    held = pd.Series([value for value in values if value is not None])
    whole = pd.api.types.is_bool_dtype(held) or pd.api.types.is_integer_dtype(held)
    typed = held.astype({"b": "boolean", "u": "UInt64"}.get(held.dtype.kind, "Int64")) if whole else held
    places = np.cumsum([value is not None for value in values]) - 1
    at = [place if value is not None else -1 for place, value in zip(places, values, strict=True)]
    return Split(schema=schema).samples(pd.DataFrame({"x": typed.reindex(at).reset_index(drop=True)}))


def _lists(values: list[Any], kind: Any, folder: Path, schema: TableSchema) -> Any:
    return Split(schema=TableSchema((*schema.columns, ("more", "number")), schema.missing)).samples(
        [[value, 1.5] for value in values]
    )


def _requested(values: list[Any], kind: Any, folder: Path, schema: TableSchema) -> Any:
    plain = [
        value if isinstance(value, bool | int | float | str | None) else text_of(value, "a cell") for value in values
    ]
    schema = TableSchema((*schema.columns, ("more", "category")), schema.missing)
    reader = BodyReader(schema, 1000)
    rows = reader.rows(json.dumps([{"x": value, "more": "m"} for value in plain]).encode(), JSON)
    return Split().samples(reader.joined([rows]))


FORMS: dict[str, tuple[Any, tuple[str, ...]]] = {
    ".csv": (_csv(".csv", ","), ROLES),
    ".tsv": (_csv(".tsv", "\t"), ROLES),
    ".parquet": (_parquet, ROLES),
    "pyarrow": (_arrow(lambda table: table), ROLES),
    "polars": (_arrow(_polars), ROLES),
    "pandas of Arrow types": (_arrow(lambda table: table.to_pandas(types_mapper=pd.ArrowDtype)), ROLES),
    "pandas, inferred": (_inferred, ROLES),
    "pandas, objects": (_objects, ROLES),
    "list of lists": (_lists, ("number",)),
    "JSON to serve": (_requested, ROLES),
}


def cases() -> Iterator[CellCase]:
    for form, (_, roles) in FORMS.items():
        for column in COLUMNS:
            for role in roles:
                for missing in (MISSING, WORDS):
                    yield CellCase(form, column, role, missing)


def n_cells() -> int:
    """How many cells `cases` compares."""
    return sum(len(COLUMNS[case.column][0]) for case in cases())


def faults_of_cells(case: CellCase, folder: Path) -> list[str]:
    values, kind = COLUMNS[case.column]
    words = frozenset(case.missing)
    if kind == pa.float32():
        values = [None if value is None else float(np.float32(value)) for value in values]
    samples = FORMS[case.form][0](values, kind, folder, TableSchema((("x", case.role),), case.missing))
    if hasattr(samples, "columns"):
        read = [samples.columns[0].cell(row) for row in range(len(values))]
    else:
        read = samples.take(np.arange(len(values)))[:, 0].tolist()
    rule = number_cell if case.role == "number" else text_cell
    expected = [rule(value, words)[0] for value in values]
    return [
        f"{case.form} | {case.column} | {case.role} | {value!r} is {got!r}, not {wanted!r}"
        for value, got, wanted in zip(values, read, expected, strict=True)
        if (None if got is None or got != got else got) != wanted
    ]

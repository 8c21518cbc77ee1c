"""Entry points for frames (pandas, Polars, PyArrow) and texts."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from entry_points.arrays import Inputs, arrow_types, estimator, groups_of, is_number, labels, objects
from entry_points.rows import NUMBERS, SHARE, TABLE, Row, honest_rows
from poisonproof import Split, read
from poisonproof.samples.schema import TableSchema


def records(rows: tuple[Row, ...]) -> pd.DataFrame:
    """As pandas infers it from values."""
    return pd.DataFrame({name: inferred([row.cells[name] for row in rows]) for name in TABLE})


def inferred(values: list[Any]) -> pd.Series[Any]:
    """A column as pandas makes it; of objects where pandas 2 cannot: it raises at whole numbers above every float."""
    try:
        return pd.Series(values)
    except OverflowError:
        return pd.Series(values, dtype=object)


def converted(column: pd.Series[Any]) -> pd.Series[Any]:
    """With pandas' own missing values, if it can; the same exception."""
    try:
        return column.convert_dtypes()
    except OverflowError:
        return column


def typed(rows: tuple[Row, ...], types: dict[str, str] | None = None) -> pd.DataFrame:
    """Honest rows in frames of their own types, odd ones in frames of theirs, put together by pandas."""
    known = {id(row) for row in honest_rows("rows")}
    blocks = [tuple(block) for _, block in groupby(rows, lambda row: id(row) in known)]
    return pd.concat([records(block).astype(types or {}) for block in blocks], ignore_index=True)


def categories_of(rows: tuple[Row, ...]) -> pd.DataFrame:
    return records(rows).astype({"city": object}).astype({"city": "category"})


def object_frame(rows: tuple[Row, ...]) -> pd.DataFrame:
    return pd.DataFrame({name: objects([row.cells[name] for row in rows]) for name in TABLE}, dtype=object)


def nullable(rows: tuple[Row, ...]) -> pd.DataFrame:
    frame = records(rows)
    return pd.DataFrame({name: converted(frame[name]) for name in TABLE})


def by_arrow(rows: tuple[Row, ...]) -> pd.DataFrame:
    return arrow_table(rows, TABLE).to_pandas(types_mapper=pd.ArrowDtype)


def arrow_column(values: list[Any]) -> Any:
    """The narrowest Arrow type that holds all values, as a library would choose it; coarser times where one is far."""
    pa = arrow_types()
    present = [value for value in values if not _missing(value)]
    if all(isinstance(value, str) for value in present):
        return pa.array([None if _missing(value) else value for value in values], pa.string())
    if any(isinstance(value, pd.Timedelta | datetime.timedelta | np.timedelta64) for value in present):
        return _arrow_times(values, "m8", pa.duration)
    if any(isinstance(value, datetime.date | np.datetime64) for value in present):
        zoned = any(getattr(value, "tzinfo", None) is not None for value in present)
        return _arrow_times(values, "M8", lambda unit: pa.timestamp(unit, "UTC" if zoned else None))
    if all(isinstance(value, bool) for value in present):
        return pa.array([None if _missing(value) else value for value in values], pa.bool_())
    if all(isinstance(value, int) for value in present):
        kind = pa.int64() if all(-(2**63) <= value < 2**63 for value in present) else pa.uint64()
        if all(value >= 0 for value in present) or kind == pa.int64():
            return pa.array([None if _missing(value) else int(value) for value in values], kind)
    floats = np.empty(len(values))
    for at, value in enumerate(values):
        floats[at] = np.nan if value is None else value
    return pa.array(floats, mask=np.array([value is None for value in values]))


def _missing(value: Any) -> bool:
    return value is None or value is pd.NaT or (isinstance(value, np.datetime64 | np.timedelta64) and np.isnat(value))


def _arrow_times(values: list[Any], kind: str, of: Callable[[str], Any]) -> Any:
    pa = arrow_types()
    for unit in ("ns", "us", "s"):
        ticks = [_ticks(value, kind, unit) for value in values]
        if all(tick is None or -(2**63) < tick < 2**63 for tick in ticks):
            return pa.array(ticks, pa.int64()).cast(of(unit))
    raise AssertionError(values)


def _ticks(value: Any, kind: str, unit: str) -> int | None:
    """Whole units since the epoch, in integers."""
    if _missing(value):
        return None
    per = {"s": 1, "us": 10**6, "ns": 10**9}[unit]
    if isinstance(value, datetime.datetime) and not isinstance(value, pd.Timestamp):
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC if value.tzinfo else None)
        value = value - epoch
    elif isinstance(value, pd.Timestamp | pd.Timedelta):
        value = np.timedelta64(value.as_unit("ns").value, "ns")
    elif isinstance(value, datetime.date):
        value = np.datetime64(value, "s")
    if isinstance(value, datetime.timedelta):
        return (value // datetime.timedelta(microseconds=1)) * per // 10**6
    count, step = int(value.astype(np.int64)), np.datetime_data(value.dtype)[0]
    return count * per // {"s": 1, "us": 10**6, "ns": 10**9}[step]


def holds_typed(row: Row) -> bool:
    """What typed columns can hold without anybody turning them to text."""
    cells = row.cells
    moment = datetime.date | np.datetime64
    span = pd.Timedelta | datetime.timedelta | np.timedelta64
    sound = [all(is_number(cells[name]) for name in NUMBERS), is_number(cells["flag"])]
    sound.append(cells["city"] is None or (isinstance(cells["city"], str) and not surrogate(cells["city"])))
    sound.append(_missing(cells["when"]) or isinstance(cells["when"], moment))
    sound.append(_missing(cells["took"]) or isinstance(cells["took"], span))
    return all(sound) and _key_is_plain(row.label) and _key_is_plain(row.group)


def surrogate(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def _key_is_plain(value: Any) -> bool:
    """A label or contributor that a column of texts holds as such."""
    return value is None or (plain_name(value) and not (isinstance(value, str) and surrogate(value)))


def arrow_table(rows: tuple[Row, ...], names: tuple[str, ...]) -> Any:
    pa = arrow_types()
    return pa.table({name: arrow_column([row.cells[name] for row in rows]) for name in names})


def arrow_categories(rows: tuple[Row, ...]) -> Any:
    table = arrow_table(rows, TABLE)
    at = TABLE.index("city")
    return table.set_column(at, "city", table.column(at).dictionary_encode())


def arrow_batch(rows: tuple[Row, ...]) -> Any:
    return arrow_table(rows, TABLE).combine_chunks().to_batches()[0]


def polars(categories: bool) -> Callable[[tuple[Row, ...]], Any]:
    def make(rows: tuple[Row, ...]) -> Any:
        import polars as pl

        frame = pl.from_arrow(arrow_table(rows, TABLE))
        return frame.with_columns(pl.col("city").cast(pl.Categorical)) if categories else frame

    return make


def polars_column(values: list[Any]) -> Any:
    import polars as pl

    return pl.Series([None if value is None else str(value) for value in values], dtype=pl.String)


def arrow_keys(values: list[Any]) -> Any:
    pa = arrow_types()
    if all(value is None or type(value) is int for value in values):
        return pa.chunked_array([pa.array(values, pa.int64())])
    return pa.chunked_array([pa.array([None if value is None else str(value) for value in values], pa.string())])


ROLES = TableSchema(tuple((name, "category" if name == "city" else "number") for name in TABLE))


def of_frames(
    make: Any,
    grouped: bool,
    column: Callable[[list[Any]], Any] = list,
    classes: Any = (0, 1),
    schema: TableSchema | None = None,
) -> Callable[[tuple[Row, ...], Path], Inputs]:
    def load(rows: tuple[Row, ...], folder: Path) -> Inputs:
        groups = column(groups_of(rows)) if grouped else None
        split = Split("group" if grouped else "content", schema=schema)
        return Inputs(make(rows), column(labels(rows)), groups, estimator(None, split, classes))

    return load


def of_read(make: Any, grouped: bool, schema: TableSchema | None = None) -> Callable[[tuple[Row, ...], Path], Inputs]:
    """Frames with their labels and contributors in columns, by `read`."""

    def load(rows: tuple[Row, ...], folder: Path) -> Inputs:
        keys = {"class": objects(labels(rows)), **({"maker": objects(groups_of(rows))} if grouped else {})}
        frame = make(rows).assign(**keys)
        of = {"schema": schema, "held_out": SHARE, "classes": (0, 1), "group": "maker" if grouped else None}
        data = read(frame, label="class", **of)
        assert any(premise.code == "label-types" for premise in data.premises)
        split = Split("group" if grouped else "content", schema=schema)
        tested = (data.test.X, data.test.labels)
        return Inputs(data.train.X, data.train.labels, data.train.groups, estimator(None, split), tested)

    return load


def concatenated_categories(rows: tuple[Row, ...]) -> pd.DataFrame:
    """Categories that differ make pandas give the categorical type up, for all rows; a declared schema does not."""
    return typed(rows, {"city": "category"})


# Texts


def texts_of(rows: tuple[Row, ...]) -> list[Any]:
    return [row.cells["words"] for row in rows]


def plain_name(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and abs(value) < 2**63)

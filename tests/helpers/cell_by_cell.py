"""The slow reference of columns: a frame read, hashed, written down and fed cell by cell, as it was before columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from poisonproof.samples.cells import canonical_cell, cell_key, number_in, order_of_cell, text_of, utf8
from poisonproof.samples.frames import as_frame, python_values
from poisonproof.samples.hashing import hash_bytes, hash_numbers


class SlowColumn(NamedTuple):
    """float64 numbers (NaN where missing), or cells that are float, str or None."""

    name: Any
    values: np.ndarray
    categorical: bool = False
    n_unreadable: int = 0

    @property
    def numeric(self) -> bool:
        return self.values.dtype == np.float64


def read_frame(X: Any) -> list[SlowColumn]:
    X, columns = as_frame(X), []
    for at, name in enumerate(X.columns):
        series = X.iloc[:, at]
        if pd.api.types.is_complex_dtype(series.dtype):
            series = series.astype(object)
        if pd.api.types.is_numeric_dtype(series.dtype) and not isinstance(series.dtype, pd.CategoricalDtype):
            if isinstance(series.dtype, pd.SparseDtype):
                series = series.sparse.to_dense()
            with np.errstate(invalid="ignore", over="ignore"):
                values = series.to_numpy(dtype=np.float64, na_value=np.nan, copy=True) + 0.0
            values[~np.isfinite(values)] = np.nan
            columns.append(SlowColumn(name, values))
            continue
        cells, n_unreadable = np.empty(len(series), object), 0
        for row, value in enumerate(python_values(series)):
            categorical = isinstance(series.dtype, pd.CategoricalDtype)
            try:
                truth = categorical and isinstance(value, bool | np.bool_)
                cells[row] = str(bool(value)) if truth else canonical_cell(value, "a table")
            except TypeError:
                n_unreadable += 1
        columns.append(SlowColumn(name, cells, isinstance(series.dtype, pd.CategoricalDtype), n_unreadable))
    return columns


def read_by_roles(X: Any, roles: dict[str, str], missing: tuple[str, ...]) -> list[SlowColumn]:
    """The same by the roles of a schema."""
    X, columns = as_frame(X), []
    for name, role in roles.items():
        cells, n_unreadable = np.empty(len(X), object), 0
        for row, value in enumerate(python_values(X[name])):
            cells[row], odd = (_number if role == "number" else _text)(value, missing)
            n_unreadable += odd
        if role == "number":
            cells = np.array([np.nan if cell is None else cell for cell in cells], np.float64)
        columns.append(SlowColumn(name, cells, role == "category", n_unreadable))
    return columns


def _number(value: Any, missing: tuple[str, ...]) -> tuple[float | None, bool]:
    try:
        cell = canonical_cell(value, "a table")
    except TypeError:
        return None, True
    if not isinstance(cell, str):
        return (None if text_of(value, "a table") in missing else cell), False
    text = cell.strip()
    number = None if text in missing else number_in(text)
    return (None if number is None else number + 0.0), number is None and text not in missing


def _text(value: Any, missing: tuple[str, ...]) -> tuple[str | None, bool]:
    try:
        text = text_of(value, "a table").strip()
    except TypeError:
        return None, True
    return (None if text in missing else text), False


def hashes(columns: list[SlowColumn], seed: int = 0) -> list[int]:
    codes = np.empty((len(columns[0].values), len(columns)))
    for at, column in enumerate(columns):
        codes[:, at] = [_code(cell) for cell in column.values.tolist()]
    return hash_numbers(codes, seed).tolist()


def _code(cell: Any) -> float:
    if isinstance(cell, str):
        return float((hash_bytes([utf8(cell)], 1) & np.uint64(0xFFFFFFFFFFFFFFFF ^ (1 << 62))).view(np.float64)[0])
    return np.nan if cell is None else cell


def key(columns: list[SlowColumn], row: int) -> bytes:
    return b"".join(cell_key(column.values[row]) for column in columns)


def keys(columns: list[SlowColumn], rows: Any) -> bytes:
    whole = [key(columns, int(row)) for row in rows]
    return b"".join(len(one).to_bytes(8, "little") + one for one in whole)


def form_of(columns: list[SlowColumn], rows: Any) -> tuple[Any, ...]:
    return tuple(_form_of(column, rows) for column in columns)


def _form_of(column: SlowColumn, rows: Any) -> Any:
    if column.numeric:
        return "number"
    present = {cell for cell in column.values[rows] if cell is not None}
    if column.categorical:
        return tuple(sorted(present, key=order_of_cell))
    return "object" if any(isinstance(cell, str) for cell in present) else "number"


def take(columns: list[SlowColumn], rows: Any, form: tuple[Any, ...]) -> pd.DataFrame:
    fed = {at: _fed(column, rows, how) for at, (column, how) in enumerate(zip(columns, form, strict=True))}
    frame = pd.DataFrame(fed, index=pd.RangeIndex(len(rows)))
    frame.columns = pd.Index([column.name for column in columns])
    return frame


def _fed(column: SlowColumn, rows: Any, form: Any) -> Any:
    cells = column.values[rows]
    if form == "number":
        if column.numeric:
            return cells
        return np.array([cell if isinstance(cell, float) else np.nan for cell in cells], np.float64)
    if column.numeric:
        cells = np.array([None if cell != cell else cell for cell in cells.tolist()], object)
    if form == "object":
        return pd.Series([np.nan if cell is None else cell for cell in cells], dtype=object)
    known = set(form)
    return pd.Categorical([cell if cell in known else None for cell in cells], categories=list(form))

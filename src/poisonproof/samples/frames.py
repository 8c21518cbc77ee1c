"""Frames of other libraries, read through the Arrow interface: Polars, PyArrow, and whoever else speaks it.

A cell of the pandas frame made here has the value it had there: whole numbers and booleans stay whole, others are
float64, missing ones NaN; moments and durations keep their resolution; texts and decimals stand as they are. The
column's type never enters, so an integer column that one row turned to floats, or one missing cell made nullable, reads
the same for every other row.

The columns of a pandas frame in canonical form, each by its values; a column's type only says how to read them fast.

Whatever a type allows to be read at once (numbers, categories, times, texts) gives the cells that reading one by one
gives; `tests/samples/test_columns.py` holds the two against each other.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError, missing_extra
from poisonproof.samples.cells import canonical_cell, floor_microseconds, text_of, whole_microseconds
from poisonproof.samples.columns import Column, ObjectCells, RawCells, Typed, finite_numbers, occurring

_OF_DATES = {"date32[day]": "s", "date64[ms]": "ms"}


def is_frame(X: Any) -> bool:
    """Whether X is a pandas DataFrame, without importing pandas."""
    has_types = hasattr(type(X), "dtypes") or hasattr(X, "dtypes")  # of a frame itself they are put together first
    return has_types and hasattr(X, "iloc") and hasattr(X, "columns")


def is_arrow_frame(X: Any) -> bool:
    """Whether X is a frame that speaks Arrow and is not pandas' own, without importing any library."""
    return _speaks_arrow(X) and hasattr(X, "columns") and not hasattr(X, "iloc")


def is_arrow_column(values: Any) -> bool:
    """Whether values are one column that speaks Arrow and is not pandas' own."""
    return _speaks_arrow(values) and not hasattr(values, "columns") and not hasattr(values, "iloc")


def as_frame(X: Any) -> Any:
    """A pandas frame with the cells of a frame that speaks Arrow, a list of a column's; anything else as it came."""
    if is_arrow_column(X):
        return as_values(X)
    if not is_arrow_frame(X):
        return X
    try:
        import pandas as pd
        import pyarrow as pa
    except ImportError:
        raise missing_extra(f"A {_name(X)}", "pandas and pyarrow", "tables") from None
    try:
        table = pa.table(X)
    except pa.ArrowException as error:
        raise PoisonproofError(
            f"This {_name(X)} cannot be read as an Arrow table ({str(error)[:200]}).", code="frames.arrow"
        ) from None
    columns = {at: _column(pa, pd, column) for at, column in enumerate(table.columns)}
    frame = pd.DataFrame(columns, index=pd.RangeIndex(table.num_rows))
    frame.columns = pd.Index(table.column_names)
    return frame


def as_values(values: Any) -> Any:
    """Python values of a column that speaks Arrow, none touched by a missing one; anything else as it came."""
    if not is_arrow_column(values):
        return values
    return _cells(values) if hasattr(values, "to_pylist") else values.to_list()


def _cells(column: Any) -> list[Any]:
    """The values of a column of Arrow; a text that is not UTF-8 is read as Latin-1, by itself, as in a file."""
    import pyarrow as pa

    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        bodies = column.cast(kind).cast(pa.large_binary()).to_pylist()
        return [None if body is None else _decoded(body) for body in bodies]


def _decoded(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body.decode("latin-1")


def python_values(column: Any) -> Any:
    """The cells of a column of pandas as objects, in a column of objects; each as it is, whatever the others are.

    Times that Python cannot hold stay NumPy's.
    """
    if type(getattr(column, "dtype", None)).__name__ == "ArrowDtype":
        import pandas as pd
        import pyarrow as pa

        given = (
            pa.chunked_array([pa.array(column)]) if len(column) else pa.chunked_array([], column.dtype.pyarrow_dtype)
        )
        if _is_time(pa, given.type) or pa.types.is_time(given.type):
            cells = np.empty(len(column), object)
            cells[:] = _times_of_day(pa, given) if pa.types.is_time(given.type) else list(_times(pa, given))
            return pd.Series(cells, dtype=object)
        kind = given.type.value_type if pa.types.is_dictionary(given.type) else given.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return pd.Series(_cells(given), dtype=object)
    return column.astype(object)


def _speaks_arrow(X: Any) -> bool:
    return hasattr(X, "__arrow_c_stream__") or hasattr(X, "__arrow_c_array__")


def _name(X: Any) -> str:
    return f"{type(X).__module__.partition('.')[0]} {type(X).__name__}"


def _column(pa: Any, pd: Any, column: Any) -> Any:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return pd.Categorical(_cells(column))
    if pa.types.is_floating(kind):
        return column.cast(pa.float64(), safe=False).to_numpy()
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):  # whole, for they may be names
        array = pd.arrays.BooleanArray if pa.types.is_boolean(kind) else pd.arrays.IntegerArray
        filled = column.fill_null(False if pa.types.is_boolean(kind) else 0).to_numpy()
        return array(filled, np.asarray(column.is_null().to_numpy()))
    if _is_time(pa, kind):
        return _times(pa, column)
    if pa.types.is_time(kind):
        return pd.Series(_times_of_day(pa, column), dtype=object)
    return pd.Series(_cells(column), dtype=object)


def _times_of_day(pa: Any, column: Any) -> list[datetime.time | None]:
    """Times of day, rounded down to microseconds."""
    kind = column.type
    counts = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
    midnight = datetime.datetime.min
    whole = [None if count is None else floor_microseconds(count, kind.unit) for count in counts]
    return [None if count is None else (midnight + datetime.timedelta(microseconds=count)).time() for count in whole]


def _is_time(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_date(kind))


def _times(pa: Any, column: Any) -> NDArray[Any]:
    """Moments (of UTC, where there is a zone) or durations as integers of their own resolution, NaT where missing."""
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp(_OF_DATES[str(column.type)]))
    kind = "m8" if pa.types.is_duration(column.type) else "M8"
    missing = np.iinfo(np.int64).min
    counts = column.cast(pa.int64()).fill_null(missing).to_numpy()
    return np.asarray(counts).view(f"{kind}[{column.type.unit}]")


def columns_of(X: Any) -> tuple[Column, ...]:
    """The columns of a frame."""
    return tuple(_column_of_values(name, SeriesCells(series)) for name, series in X.items())


def numbers_of(series: Any) -> NDArray[np.float64] | None:
    """Canonical numbers of a column whose type holds numbers and nothing else; None of any other."""
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "biuf":
        with np.errstate(invalid="ignore", over="ignore"):
            return finite_numbers(np.array(series.to_numpy(), np.float64))
    import pandas as pd

    if not pd.api.types.is_numeric_dtype(series.dtype) or pd.api.types.is_complex_dtype(series.dtype):
        return None  # one cell may have made it complex; the others are still numbers
    if isinstance(series.dtype, pd.SparseDtype):
        series = series.sparse.to_dense()
    with np.errstate(invalid="ignore", over="ignore"):
        values = series.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
    return finite_numbers(values)


def times_of(series: Any) -> NDArray[np.float64] | None:
    """Whole microseconds of a column of NumPy's or pandas' moments or durations; None of any other."""
    import pandas as pd

    if isinstance(series.dtype, pd.DatetimeTZDtype):
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    if not isinstance(series.dtype, np.dtype) or series.dtype.kind not in "mM":
        return None
    return whole_microseconds(series.to_numpy())


class SeriesCells(RawCells):
    """The cells of a column of pandas."""

    def __init__(self, series: Any) -> None:
        self.series = series

    def typed(self) -> Typed | None:
        """The numbers of a column of numbers, moments or durations."""
        for typed in (numbers_of(self.series), times_of(self.series)):
            if typed is not None:
                return typed, lambda row: text_of(python_values(self.series.iloc[row : row + 1]).iloc[0], "a table")
        return None

    @property
    def categorical(self) -> bool:
        """Whether the column was declared so."""
        import pandas as pd

        return isinstance(self.series.dtype, pd.CategoricalDtype)

    def different(self) -> tuple[NDArray[Any], Sequence[Any]]:
        """Each category, and each text of a column of texts, once."""
        import pandas as pd

        series = self.series
        if isinstance(series.dtype, pd.StringDtype):
            codes, values = pd.factorize(series)
            return codes, list(python_values(pd.Series(values)))
        if not self.categorical:
            return ObjectCells(python_values(series).tolist()).different()
        codes, categories = np.asarray(series.array.codes), series.dtype.categories
        if categories.dtype == object or isinstance(categories.dtype, pd.StringDtype):
            if len(codes) >= len(categories):
                return codes, categories.tolist()
            held = occurring(codes, len(categories))  # of a frame that few rows were taken from
            return np.where(codes < 0, -1, np.searchsorted(held, codes)), [categories[at] for at in held]
        values = pd.Categorical.from_codes(np.arange(len(categories)), dtype=series.dtype)
        return codes, list(python_values(pd.Series(values)))

    def part(self, start: int, stop: int) -> SeriesCells:
        """Some of these cells."""
        return SeriesCells(self.series.iloc[start:stop])


def _column_of_values(name: Any, cells: SeriesCells) -> Column:
    if cells.categorical:
        return Column.read(name, *cells.different(), _category, categorical=True)
    if (numbers := numbers_of(cells.series)) is not None:
        return Column.of_numbers(name, numbers)
    if (times := times_of(cells.series)) is not None:
        return Column.of_numbers(name, times, numeric=False)
    return Column.read(name, *cells.different(), _cell)


def _cell(value: Any) -> tuple[float | str | None, bool]:
    try:
        return canonical_cell(value, "a table"), False
    except TypeError:
        return None, True


def _category(value: Any) -> tuple[float | str | None, bool]:
    return (text_of(value, "a table"), False) if isinstance(value, bool | np.bool_) else _cell(value)

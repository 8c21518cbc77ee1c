"""Frames of other libraries, read through the Arrow interface: Polars, PyArrow, and whoever else speaks it.

A cell of the pandas frame made here has the value it had there: numbers are float64, missing ones NaN; moments and
durations keep their resolution; texts and decimals stand as they are. The column's type never enters, so an integer
column that one row turned to floats, or one missing cell made nullable, reads the same for every other row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError, missing_extra

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


def as_frame(X: Any, *, exact: bool = False) -> Any:
    """A pandas frame with the cells of a frame that speaks Arrow, a list of a column's; anything else as it came.

    ``exact`` keeps whole numbers whole, for columns whose numbers may be names.
    """
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
        raise PoisonproofError(f"This {_name(X)} cannot be read as an Arrow table ({str(error)[:200]}).") from None
    columns = {at: _column(pa, pd, column, exact) for at, column in enumerate(table.columns)}
    frame = pd.DataFrame(columns, index=pd.RangeIndex(table.num_rows))
    frame.columns = pd.Index(table.column_names)
    return frame


def as_values(values: Any) -> Any:
    """Python values of a column that speaks Arrow, none touched by a missing one; anything else as it came."""
    if not is_arrow_column(values):
        return values
    return values.to_pylist() if hasattr(values, "to_pylist") else values.to_list()


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
        if _is_time(pa, given.type):
            cells = np.empty(len(column), object)
            cells[:] = list(_times(pa, given))
            return pd.Series(cells, dtype=object)
    return column.astype(object)


def _speaks_arrow(X: Any) -> bool:
    return hasattr(X, "__arrow_c_stream__") or hasattr(X, "__arrow_c_array__")


def _name(X: Any) -> str:
    return f"{type(X).__module__.partition('.')[0]} {type(X).__name__}"


def _column(pa: Any, pd: Any, column: Any, exact: bool) -> Any:
    kind = column.type
    if exact and pa.types.is_integer(kind):
        return pd.Series(column.to_pylist(), dtype=object)
    if pa.types.is_dictionary(kind):
        return pd.Categorical(column.to_pylist())
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return column.cast(pa.float64(), safe=False).to_numpy()
    if _is_time(pa, kind):
        return _times(pa, column)
    return pd.Series(column.to_pylist(), dtype=object)


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

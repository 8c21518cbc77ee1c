"""The columns of a pandas frame in canonical form, each by its values; a column's type only says how to read them fast.

Whatever a type allows to be read at once (numbers, categories, times, texts) gives the cells that reading one by one
gives; `tests/samples/test_columns.py` holds the two against each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.samples.cells import canonical_cell, text_of
from poisonproof.samples.columns import MISSING, Column, Reader, finite_numbers
from poisonproof.samples.frames import python_values
from poisonproof.samples.moments import whole_microseconds

FEW = 64  # rows


def columns_of(X: Any) -> tuple[Column, ...]:
    """The columns of a frame."""
    return tuple(_column(name, series) for name, series in X.items())


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


def read_column(name: Any, series: Any, read: Reader, *, categorical: bool) -> Column:
    """A column whose values are read one by one; each category, and each text of a column of texts, once."""
    import pandas as pd

    if isinstance(series.dtype, pd.CategoricalDtype):
        codes, categories = np.asarray(series.array.codes), series.dtype.categories
        plain = categories.dtype == object or isinstance(categories.dtype, pd.StringDtype)
        if plain and len(codes) < min(FEW, len(categories)):  # taken from a frame, whose categories they have
            held = np.unique(codes[codes >= 0])
            codes = np.where(codes >= 0, np.searchsorted(held, codes), MISSING)
            different = [categories[at] for at in held]
        elif plain:
            different = categories.tolist()
        else:
            values = pd.Categorical.from_codes(np.arange(len(categories)), dtype=series.dtype)
            different = list(python_values(pd.Series(values)))
    elif isinstance(series.dtype, pd.StringDtype):
        codes, values = pd.factorize(series)
        different = list(python_values(pd.Series(values)))
    else:
        return Column.read(name, python_values(series), read, categorical=categorical)
    once = Column.read(name, different, read, categorical=categorical)
    assert once.codes is not None
    n_unreadable = 0
    if once.n_unreadable:
        odd = np.array([read(value)[1] for value in different], np.bool_)
        n_unreadable = int(odd[codes[codes >= 0]].sum())
    places = np.append(once.codes, np.int32(MISSING))
    return Column(name, None, places[codes], once.cells, categorical, n_unreadable=n_unreadable)


def _column(name: Any, series: Any) -> Column:
    import pandas as pd

    if isinstance(series.dtype, pd.CategoricalDtype):
        return read_column(name, series, _category, categorical=True)
    if (numbers := numbers_of(series)) is not None:
        return Column.of_numbers(name, numbers)
    if (times := times_of(series)) is not None:
        return Column.of_numbers(name, times, numeric=False)
    return read_column(name, series, _cell, categorical=False)


def _cell(value: Any) -> tuple[float | str | None, bool]:
    try:
        return canonical_cell(value, "a table"), False
    except TypeError:
        return None, True


def _category(value: Any) -> tuple[float | str | None, bool]:
    return (text_of(value, "a table"), False) if isinstance(value, bool | np.bool_) else _cell(value)

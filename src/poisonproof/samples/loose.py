"""Loose rows: lists, and arrays of objects, as numbers.

NumPy gives a list one type for all its cells, and a single odd one turns every other to text or stops the reading. So
here each cell is read by itself, as a cell of a table is: a number, a text that writes one, a date, or missing. A row
of another length than most has no cell that could be told to belong to a column: all of it is missing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.samples.cells import number_cell
from poisonproof.samples.schema import MISSING


class LooseNumbers(NamedTuple):
    """Numbers, NaN where missing, and how many cells are missing because they were no numbers."""

    values: NDArray[np.float64]
    n_unreadable: int


def read_loose(
    X: Any, n_features: int | None = None, missing: frozenset[str] = frozenset(MISSING), decimal: str = "."
) -> LooseNumbers | None:
    """The numbers of a list of rows, or of an array of anything else; None of what NumPy reads as numbers by itself.

    A cell is read as in a column of numbers of any other table (`number_cell`). Refused only where no cell is a number.
    Rows have the shape that most have, of those that ``n_features`` allows.
    """
    cells = _cells(X, n_features)
    if cells is None:
        return None
    values, n_unreadable, example = np.full(cells.size, np.nan), 0, None
    for at, cell in enumerate(cells.ravel().tolist()):
        if isinstance(cell, float) and math.isinf(cell):
            values[at] = cell  # counted with those of other arrays
            continue
        number, odd = number_cell(cell, missing, decimal)
        n_unreadable += odd
        if number is not None:
            values[at] = number
        elif odd and example is None:
            example = cell
    if example is not None and np.isnan(values).all():
        reason = "Complex data not supported" if isinstance(example, complex) else "No cell of X is a number"
        raise PoisonproofError(
            f"{reason}, such as {str(example)[:40]!r} of type {type(example).__name__}; "
            "bring texts as a list of strings, and categories as a DataFrame."
        )
    return LooseNumbers(values.reshape(cells.shape), n_unreadable)


def as_objects(array: NDArray[Any]) -> NDArray[np.object_]:
    """One object for each cell: times stay NumPy's, which tell their unit; bytes are texts, as NumPy reads them."""
    cells = np.empty(array.shape, object)
    flat = array.ravel()
    if array.dtype.kind == "S":
        cells.ravel()[:] = [cell.decode("latin-1") for cell in flat.tolist()]
    elif array.dtype.kind in "mM":
        cells.ravel()[:] = list(flat)
    else:
        for at, cell in enumerate(flat.tolist()):
            cells.ravel()[at] = cell
    return cells


def _cells(X: Any, n_features: int | None) -> NDArray[np.object_] | None:
    """One object for each cell, if the rows are loose."""
    if isinstance(X, np.ndarray):
        if X.dtype.names is not None:
            raise PoisonproofError(
                f"X is an array of records ({', '.join(X.dtype.names[:5])}); bring it as a DataFrame, with columns."
            )
        if X.dtype.kind in "biuf" or X.ndim == 0 or len(X) == 0:
            return None
        if X.ndim == 1:
            return _of_lists(X.tolist() if X.dtype == object else list(X), n_features)
        return X if X.dtype == object else as_objects(X)
    if not isinstance(X, list | tuple) or not X:
        return None
    try:
        array = np.asarray(X)
    except (ValueError, TypeError, OverflowError):  # rows of several lengths, or types that NumPy cannot join
        return _of_lists(X, n_features)
    if array.dtype.kind in "biuf":
        return None
    return _of_lists(X, n_features)


def _of_lists(rows: Sequence[Any], n_features: int | None) -> NDArray[np.object_]:
    shapes = [_shape(row) for row in rows]
    counted = Counter(shape for shape in shapes if shape and 0 not in shape)
    if not counted:
        raise PoisonproofError(
            f"No sample of X is a row of numbers or a text; the first is of type {type(rows[0]).__name__}. Expected 2D "
            "array, got 1D array instead: bring rows as an array (n_samples, n_features), texts as a list of strings."
        )
    fitting = [shape for shape in counted if math.prod(shape) == n_features] or list(counted)
    most = min(fitting, key=lambda shape: (-counted[shape], shape))
    cells = np.empty((len(rows), math.prod(most)), object)
    for at, (row, shape) in enumerate(zip(rows, shapes, strict=True)):
        if shape == most:
            for place, cell in enumerate(_flat(row, len(most))):
                cells[at, place] = cell
    return cells.reshape(len(rows), *most)


def _shape(row: Any) -> tuple[int, ...]:
    """The shape of a row by itself; of lists within, only where all have one. Lists of several lengths have none."""
    if isinstance(row, np.ndarray):
        return row.shape
    if not isinstance(row, list | tuple):
        return ()
    inner = {_shape(cell) for cell in row}
    if len(inner) > 1 and () not in inner:
        return ()
    return (len(row), *(inner.pop() if len(inner) == 1 else ()))


def _flat(row: Any, depth: int) -> Iterator[Any]:
    if not depth:
        yield row
    elif isinstance(row, np.ndarray):
        yield from as_objects(row).ravel()
    else:
        for cell in row:
            yield from _flat(cell, depth - 1)

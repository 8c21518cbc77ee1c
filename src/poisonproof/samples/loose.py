"""Loose rows: lists, and arrays of objects, as numbers.

NumPy gives a list one type for all its cells, and a single odd one turns every other to text or stops the reading. So
here each cell is read by itself, as a cell of a table is: a number, a text that writes one, a date, or missing. A row
of another length than most has no cell that could be told to belong to a column: all of it is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.samples.cells import canonical_cell


class LooseNumbers(NamedTuple):
    """Numbers, NaN where missing, and how many cells are missing because they were no numbers."""

    values: NDArray[np.float64]
    n_unreadable: int


def read_loose(X: Any) -> LooseNumbers | None:
    """The numbers of a list of rows or an array of objects; None of anything that NumPy reads as numbers by itself.

    Refused where most cells are no numbers: then it is not a row that is odd.
    """
    cells = _cells(X)
    if cells is None:
        return None
    values = np.empty(cells.size)
    n_unreadable = 0
    for at, cell in enumerate(cells.ravel().tolist()):
        number = _number(cell)
        n_unreadable += number is None
        values[at] = np.nan if number is None else number
    if 2 * n_unreadable > cells.size:
        example = next(cell for cell in cells.ravel().tolist() if _number(cell) is None)
        raise PoisonproofError(
            f"Most cells of X are not numbers, such as {str(example)[:40]!r} of type {type(example).__name__}; "
            "bring texts as a list of strings, and categories as a DataFrame."
        )
    return LooseNumbers(values.reshape(cells.shape), n_unreadable)


def _cells(X: Any) -> NDArray[np.object_] | None:
    """One object for each cell, if the rows are loose."""
    if isinstance(X, np.ndarray):
        return X if X.dtype == object and X.ndim > 1 else None
    if not isinstance(X, list | tuple) or not X:
        return None
    try:
        array = np.asarray(X)
    except (ValueError, TypeError, OverflowError):  # rows of several lengths, or types that NumPy cannot join
        return _of_lists(X)
    if array.dtype.kind in "biuf":
        return None
    return _of_lists(X)


def _of_lists(rows: Sequence[Any]) -> NDArray[np.object_] | None:
    lengths = Counter(len(row) for row in rows if _is_row(row))
    if not lengths or 2 * lengths.total() <= len(rows):
        return None
    width = min(lengths, key=lambda length: (-lengths[length], length))
    cells = np.empty((len(rows), width), object)
    for at, row in enumerate(rows):
        if _is_row(row) and len(row) == width:
            for place, cell in enumerate(row):
                cells[at, place] = cell
    return cells


def _is_row(row: Any) -> bool:
    return isinstance(row, list | tuple) or (isinstance(row, np.ndarray) and row.ndim == 1)


def _number(cell: Any) -> float | None:
    """The number that a cell is or writes, NaN if it is missing; None if it is something else."""
    if isinstance(cell, str):
        try:
            return float(cell) if cell.strip() else np.nan
        except ValueError:
            return None
    if isinstance(cell, float):
        return cell
    try:
        number = canonical_cell(cell, "X")
    except TypeError:
        return None
    return np.nan if number is None else float(number)

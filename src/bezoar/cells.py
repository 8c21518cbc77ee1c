"""Cells: a value that came in any type, as a number, a text or missing.

Tables, contributor ids and labels are read cell by cell, so that nothing about one cell depends on
the dtype that the others forced on a column.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bezoar.hashing import hash_bytes

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)

# Clears one exponent bit, so that the hash of a text never reads as a NaN.
_TEXT_MASK = np.uint64(0xFFFFFFFFFFFFFFFF ^ (1 << 62))


def cell_codes(cells: Sequence[Any] | NDArray[Any]) -> NDArray[np.float64]:
    """64 bits for each cell, from its value alone: a number is itself, a text its hash, missing is NaN."""
    codes: dict[Any, float] = {None: np.nan}
    for cell in cells:
        if cell not in codes:
            text = isinstance(cell, str)
            codes[cell] = float((hash_bytes([utf8(cell)], 1) & _TEXT_MASK).view(np.float64)[0]) if text else cell
    return np.fromiter((codes[cell] for cell in cells), np.float64, len(cells))


def canonical_cell(value: Any, where: str) -> float | str | None:
    """A cell as a number, a text or None for missing, whatever type it came in.

    Dates and durations are numbers, in microseconds; infinity counts as missing.
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, datetime.timedelta):
        return value / _MICROSECOND
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return (value - _EPOCH) / _MICROSECOND
    if isinstance(value, np.timedelta64 | np.datetime64 | datetime.date):
        moment = np.array(value)
        microseconds = moment.astype(f"{moment.dtype.kind}8[us]" if moment.dtype.kind in "mM" else "M8[us]")
        return None if np.isnat(microseconds) else float(microseconds.astype(np.int64))
    if isinstance(value, np.bool_ | Real | Decimal):
        try:
            number = float(value)
        except OverflowError:
            return None
        return number + 0.0 if math.isfinite(number) else None
    raise TypeError(
        f"{where} holds a value of type {type(value).__name__}; cells must be numbers, strings, dates or missing."
    )


def cell_key(cell: Any) -> bytes:
    """The whole content of a cell: equal exactly for equal cells."""
    if cell is None or cell != cell:
        return b"m"
    if isinstance(cell, str):
        text = utf8(cell)
        return b"t" + len(text).to_bytes(8, "little") + text
    return b"n" + np.float64(cell + 0.0).astype("<f8").tobytes()


def utf8(text: str) -> bytes:
    """UTF-8, for any string that Python can hold."""
    return text.encode("utf-8", "surrogatepass")


def order_of_cell(cell: Any) -> tuple[bool, Any]:
    """A key that puts numbers before texts, so that one odd cell does not reorder the rest."""
    return isinstance(cell, str), cell

"""Cells: a value that came in any type, as a number, a text or missing.

Tables, contributor ids and labels are read cell by cell, so that nothing about one cell depends on
the dtype that the others forced on a column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import WrongTypeError
from poisonproof.samples.hashing import hash_bytes
from poisonproof.samples.moments import is_moment, microseconds

LENGTH_BYTES = 8  # before each of several keys that stand one after the other
# Clears one exponent bit, so that the hash of a text never reads as a NaN.
_TEXT_MASK = np.uint64(0xFFFFFFFFFFFFFFFF ^ (1 << 62))


def cell_codes(cells: Sequence[Any] | NDArray[Any]) -> NDArray[np.float64]:
    """64 bits for each cell, from its value alone: a number is itself, a text its hash, missing is NaN.

    A whole number that float64 cannot hold (see `exact_cell`) is the hash of "i" and its digits.
    """
    codes: dict[Any, float] = {None: np.nan}
    texts: dict[Any, str] = {}
    for cell in cells:
        if cell in codes or cell in texts:
            continue
        if isinstance(cell, float):
            codes[cell] = cell
        else:
            texts[cell] = cell if isinstance(cell, str) else f"i{cell}"
    hashed = (hash_bytes(map(utf8, texts.values()), len(texts)) & _TEXT_MASK).view(np.float64)
    codes |= dict(zip(texts, hashed.tolist(), strict=True))
    return np.fromiter((codes[cell] for cell in cells), np.float64, len(cells))


def canonical_cell(value: Any, where: str) -> float | str | None:
    """A cell of a table as a float64 number, a text or None for missing, whatever type it came in.

    Dates and durations are numbers, in whole microseconds; infinity counts as missing.
    """
    cell = exact_cell(value, where)
    return float(cell) if isinstance(cell, int) else cell


def exact_cell(value: Any, where: str) -> float | int | str | None:
    """The same for labels and ids, which must not merge: a whole number that float64 cannot hold stays an int."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, str):
        return str(value)
    if is_moment(value):
        value = microseconds(value)
        return None if value is None else _number(value)
    if isinstance(value, complex | np.complexfloating) and value.imag == 0:
        value = value.real
    if isinstance(value, np.bool_ | Real | Decimal):
        return _number(value)
    raise WrongTypeError(
        f"{where} holds a value of type {type(value).__name__}; cells must be numbers, strings, dates or missing."
    )


def _number(value: Any) -> float | int | None:
    """A number as float64, or as an int if it is whole and float64 cannot hold it; None if it is not finite."""
    value = int(value) if isinstance(value, np.integer) else value  # NumPy would compare it as a float
    if isinstance(value, Decimal) and not value.is_finite():
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    if not math.isfinite(number):
        return None
    if not isinstance(value, float) and value != number and value == int(value):
        return int(value)
    return number + 0.0


def cell_key(cell: Any) -> bytes:
    """The whole content of a cell: equal exactly for equal cells."""
    if cell is None or cell != cell:
        return b"m"
    if isinstance(cell, str):
        text = utf8(cell)
        return b"t" + len(text).to_bytes(8, "little") + text
    if isinstance(cell, int):
        digits = str(cell).encode()
        return b"i" + len(digits).to_bytes(8, "little") + digits
    return b"n" + np.float64(cell + 0.0).astype("<f8").tobytes()


def utf8(text: str) -> bytes:
    """UTF-8, for any string that Python can hold."""
    return text.encode("utf-8", "surrogatepass")


def order_of_cell(cell: Any) -> tuple[bool, Any]:
    """A key that puts numbers before texts, so that one odd cell does not reorder the rest."""
    return isinstance(cell, str), cell


def text_of(value: Any, where: str) -> str:
    """A value as a cell of CSV would hold it: whole numbers without a point, others in full, missing as nothing.

    Different numbers have different texts: nothing is rounded to what float64 holds.
    """
    if isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64):
        return str(int(value))
    cell = exact_cell(value, where)
    if cell is None:
        return ""
    if isinstance(cell, float):
        if isinstance(value, Decimal) and Decimal(repr(cell)) != value:
            return format(value.normalize(), "f")
        return str(int(cell)) if cell.is_integer() and abs(cell) < 2**53 else repr(cell)
    return str(cell)

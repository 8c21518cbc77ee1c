"""Cells: a value that came in any type, as a number, a text or missing.

Tables, contributor ids and labels are read cell by cell, so that nothing about one cell depends on
the dtype that the others forced on a column.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import WrongTypeError
from poisonproof.samples.datetimes import is_moment, microseconds, moment_text
from poisonproof.samples.hashing import hash_bytes
from poisonproof.samples.schema import number_in

_SURROGATE = re.compile("[\ud800-\udfff]")
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
    try:
        return float(cell) if isinstance(cell, int) else cell
    except OverflowError:
        return None


def exact_cell(value: Any, where: str) -> float | int | str | None:
    """The same for labels and ids, which must not merge: a whole number that float64 cannot hold stays an int."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, str):
        return valid_text(str(value))
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
        return value if isinstance(value, int) else None
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


def valid_text(text: str) -> str:
    """A text with U+FFFD for each surrogate, which no UTF-8 holds: the one rule for text from wherever it comes."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def utf8(text: str) -> bytes:
    """UTF-8 of a text by `valid_text`."""
    return valid_text(text).encode()


def order_of_cell(cell: Any) -> tuple[bool, Any]:
    """A key that puts numbers before texts, so that one odd cell does not reorder the rest."""
    return isinstance(cell, str), cell


def text_of(value: Any, where: str) -> str:
    """A value as a cell of CSV holds it: "True" and "False", whole numbers without a point, others in full, dates and
    times by ISO 8601 in UTC, durations in whole microseconds, missing as nothing.

    Different numbers have different texts: nothing is rounded to what float64 holds.
    """
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if is_moment(value):
        return moment_text(value)
    if isinstance(value, int | np.integer):
        return str(int(value))
    cell = exact_cell(value, where)
    if cell is None:
        return ""
    if isinstance(cell, float):
        if isinstance(value, Decimal) and Decimal(repr(cell)) != value:
            return format(value.normalize(), "f")
        return str(int(cell)) if cell.is_integer() and abs(cell) < 2**53 else repr(cell)
    return str(cell)


def number_cell(value: Any, missing: frozenset[str], decimal: str = ".") -> tuple[float | None, bool]:
    """A cell of a column of numbers, by any entry point: a number or None, and whether it is not missing but odd.

    A cell whose text (`text_of`) is one of the words for missing is missing, of whatever type it is.
    """
    try:
        cell = canonical_cell(value, "a table")
        text = text_of(value, "a table").strip()
    except (TypeError, ValueError):  # Python writes no number of thousands of digits
        return None, True
    number = number_in(text, decimal) if isinstance(cell, str) else cell
    if text in missing or number is None:
        return None, cell is not None and text not in missing
    return number + 0.0, False


def text_cell(value: Any, missing: frozenset[str]) -> tuple[str | None, bool]:
    """A cell of a column of categories or texts, by any entry point, likewise."""
    try:
        text = text_of(value, "a table").strip()
    except (TypeError, ValueError):
        return None, True
    return (None if text in missing else text), False


def drop_missing(numbers: NDArray[np.float64], missing: frozenset[str], text_at: Callable[[int], str]) -> None:
    """Set to NaN what words for missing stand for, in the canonical numbers of a column of one type.

    ``text_at`` gives the text of the cell in a row; equal numbers that float64 holds exactly have equal texts.
    """
    for word in missing:
        number = number_in(word)
        rows = np.flatnonzero(numbers == number) if number is not None else np.zeros(0, np.int64)
        if len(rows) and number is not None:
            alike = abs(number) < 2**53
            gone = [text_at(int(row)) == word for row in (rows[:1] if alike else rows)]
            numbers[rows[np.broadcast_to(gone, len(rows))]] = np.nan

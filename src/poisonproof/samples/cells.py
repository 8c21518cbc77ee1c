"""Cells: a value that came in any type, as a number, a text or missing.

Tables, contributor ids and labels are read cell by cell, so that nothing about one cell depends on
the dtype that the others forced on a column.

A time comes in many types and resolutions, and which one is often decided for a whole column: one odd cell may turn
nanoseconds to microseconds for everybody. So there is one rule for all of them, the floor of the time in microseconds,
which any coarser reading that rounds down leaves as it is. It is counted in integers from beginning to end.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import WrongTypeError
from poisonproof.samples.hashing import hash_bytes

_SURROGATE = re.compile("[\ud800-\udfff]")
BOOLEANS = ("False", "True")
LENGTH_BYTES = 8  # before each of several keys that stand one after the other
# Clears one exponent bit, so that the hash of a text never reads as a NaN.
_TEXT_MASK = np.uint64(0xFFFFFFFFFFFFFFFF ^ (1 << 62))

_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=datetime.UTC)
_SECOND = 10**18
_ISO_DATE = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(?:Z|([+-])(\d\d):?(\d\d))?)?", re.ASCII
)
_ISO_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?", re.ASCII)
_ATTOSECONDS = {
    "as": 1,
    "fs": 10**3,
    "ps": 10**6,
    "ns": 10**9,
    "us": 10**12,
    "ms": 10**15,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
    "D": 86400 * _SECOND,
    "W": 7 * 86400 * _SECOND,
    "M": 2629746 * _SECOND,  # the mean length of a month and a year, for durations only
    "Y": 31556952 * _SECOND,
    "generic": 10**12,
}


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


def number_in(text: str, decimal: str = ".") -> float | None:
    """The number that a text is in a column of numbers; None if it is none.

    Plain digits (`plain_number`), a date, moment or time of day of ISO 8601 as its microseconds (`time_in`), or a
    boolean, "True" as 1 and "False" as 0: what the same cell is where a file or a library types its columns.
    """
    number = plain_number(text, decimal)
    if number is None and text in BOOLEANS:
        return float(BOOLEANS.index(text))
    if number is None and (count := time_in(text)) is not None:
        return float(count)
    return number


def plain_number(text: str, decimal: str = ".") -> float | None:
    """The finite number that a text writes in plain digits; None if it is anything else."""
    if not text.isascii() or "_" in text:
        return None
    if decimal == ",":
        if "." in text:
            return None
        text = text.replace(",", ".")
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


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
        text = (valid_text(value) if type(value) is str else text_of(value, "a table")).strip()
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


# Times


def is_moment(value: Any) -> bool:
    """Whether a value is a date, a time or a duration of Python, NumPy or pandas."""
    return isinstance(
        value, datetime.timedelta | datetime.date | datetime.time | np.datetime64 | np.timedelta64
    )  # a datetime is a date; pandas' own types are Python's


def microseconds(value: Any) -> int | None:
    """Whole microseconds, rounded down; None for NaT.

    A moment is counted from 1970, in UTC where its zone is known, a time of day from midnight.
    """
    if type(value).__name__ == "NaTType":
        return None
    value = getattr(value, "asm8", value)  # pandas counts in units of its own, and NumPy tells them
    if isinstance(value, np.datetime64 | np.timedelta64):
        return None if np.isnat(value) else _counted(value)
    if isinstance(value, datetime.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond
    if isinstance(value, datetime.datetime):
        value = value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)
    elif isinstance(value, datetime.date):
        value = value - _EPOCH.date()
    return (value.days * 86400 + value.seconds) * 10**6 + value.microseconds


def time_in(text: str) -> int | None:
    """Whole microseconds, rounded down, of a date, moment or time of day written by ISO 8601; None of any other text.

    Dates are YYYY-MM-DD, alone or with a time of day behind "T" or a blank and perhaps a zone; a time of day by itself
    is HH:MM:SS.
    """
    try:
        if (found := _ISO_TIME.fullmatch(text)) is not None:
            *parts, fraction = found.groups()
            hour, minute, second = map(int, parts)
            return microseconds(datetime.time(hour, minute, second, _millionths(fraction)))
        if (found := _ISO_DATE.fullmatch(text)) is None:
            return None
        *parts, fraction, sign, hours, minutes = found.groups()
        year, month, day, hour, minute, second = (int(part or 0) for part in parts)
        count = microseconds(datetime.datetime(year, month, day, hour, minute, second, _millionths(fraction)))
        offset = (int(hours or 0) * 60 + int(minutes or 0)) * 60 * 10**6
    except ValueError:  # the thirtieth of February
        return None
    assert count is not None
    return count + offset if sign == "-" else count - offset


def _millionths(fraction: str | None) -> int:
    return int((fraction or "0")[:6].ljust(6, "0"))


def moment_text(value: Any) -> str:
    """A moment or a time of day as ISO 8601 writes it, a duration in microseconds (see `text_of_microseconds`)."""
    count = microseconds(value)
    kind = "duration"
    if isinstance(value, datetime.time):
        kind = "time"
    elif isinstance(value, datetime.date | np.datetime64):
        kind = "date"
    return "" if count is None else text_of_microseconds(count, kind)


def text_of_microseconds(count: int, kind: str) -> str:
    """The text by whole microseconds: of a "date" (a moment; at midnight the date alone), a "time" or a "duration".

    What Python's calendar does not hold is written as its microseconds.
    """
    try:
        moment = _EPOCH + datetime.timedelta(microseconds=count)
    except OverflowError:
        return str(count)
    if kind == "time":
        return moment.time().isoformat()
    if kind == "duration":
        return str(count)
    midnight = moment.time() == datetime.time()
    return moment.date().isoformat() if midnight else moment.isoformat(" ")


def floor_microseconds(count: int, unit: str) -> int:
    """A count of units ("s", "ms", "us", "ns", …) in whole microseconds, rounded down."""
    return count * _ATTOSECONDS[unit] // _ATTOSECONDS["us"]


def whole_microseconds(times: NDArray[Any]) -> NDArray[np.float64] | None:
    """The same for an array of NumPy's times at once, NaN for NaT; None where their unit asks for more than int64."""
    unit, multiple = np.datetime_data(times.dtype)
    if unit not in ("s", "ms", "us", "ns") or multiple != 1:
        return None
    counts, missing = times.view(np.int64) if times.dtype.isnative else times.astype(np.int64), np.isnat(times)
    step, least = _ATTOSECONDS[unit], _ATTOSECONDS["us"]
    if step < least:
        counts = counts // (least // step)
    elif (np.abs(counts[~missing]) > np.iinfo(np.int64).max // (step // least)).any():
        return None
    else:
        counts = np.where(missing, 0, counts) * (step // least)
    return np.where(missing, np.nan, counts.astype(np.float64))


def _counted(value: np.datetime64 | np.timedelta64) -> int:
    unit, multiple = np.datetime_data(value.dtype)
    count = int(value.astype(np.int64)) * multiple
    if unit in ("Y", "M") and value.dtype.kind == "M":
        count, unit = _days_to(count * 12 if unit == "Y" else count), "D"
    return floor_microseconds(count, unit)


def _days_to(months: int) -> int:
    """Days from 1970 to the first day of a month, in the Gregorian calendar without end on either side."""
    year, month = 1970 + months // 12, months % 12 + 1
    years = year - (month <= 2)
    day = (153 * ((month + 9) % 12) + 2) // 5  # of a year that begins in March
    return 365 * years + years // 4 - years // 100 + years // 400 + day - 719468

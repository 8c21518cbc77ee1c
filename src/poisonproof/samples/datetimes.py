"""Moments and durations as whole microseconds, in integers from beginning to end.

A time comes in many types and resolutions, and which one is often decided for a whole column: one odd cell may turn
nanoseconds to microseconds for everybody. So there is one rule for all of them, the floor of the time in microseconds,
which any coarser reading that rounds down leaves as it is. Floating point has no part in it.
"""

from __future__ import annotations

import datetime
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

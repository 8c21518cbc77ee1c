"""Rows for the entry points: honest ones, and every odd one that we know, by name."""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image, PngImagePlugin

K, D = 5, 2
N_ROWS = 30
N_TEST = 8
SHARE = 0.25
BIG = 2**60  # above what a float64 counts
NUMBERS = ("a", "b", "c", "big")
TABLE = (*NUMBERS, "flag", "city", "when", "took")
FILE_TABLE = (*NUMBERS, "city", "words")
N_FEATURES = 6
PIXELS = 4


@dataclass(frozen=True)
class Row:
    """A sample before it is loaded; ``line`` is how it stands in a file of lines, if nobody wrote it well."""

    cells: dict[str, Any]
    label: Any
    group: Any
    line: bytes | None = None

    def having(self, **cells: Any) -> Row:
        return replace(self, cells={**self.cells, **cells})


# What stands between the words of a text: blanks, or what quotes must hold for it; `records` has whole rows in quotes.
BREAKS = dict.fromkeys(("rows", "big", "images"), [" "] * 6) | {
    "breaks": [" ", "\n", '"\n', "\n\n", '""\n ', ',\n "x"'],
    "records": [" ", "\n", ',"\n', "\n1,2,3,4,Rome,w,u1,1\n", '\n"\n', '\n1,2,3,4,Rome,"w\n'],
}


@cache
def honest_rows(kind: str) -> tuple[Row, ...]:
    """The same rows each time; a fifth of the c cells are missing."""
    rng = np.random.default_rng(20)
    rows = []
    for i in range(N_ROWS):
        target = i % 2
        a = float(rng.normal(2.0 * target))
        cells: dict[str, Any] = {
            "a": a,
            "b": int(rng.integers(0, 9)),
            "c": None if rng.random() < 0.2 else float(rng.integers(0, 99)) / 7,
            "big": 2**53 + 1 + 2 * i,
            "flag": bool(rng.integers(2)),
            "city": ("Rome", "Oslo", "São Paulo")[int(rng.integers(3))],
            "when": pd.Timestamp(1_700_000_000_000_000_000 + int(rng.integers(10**15)), unit="ns"),
            "took": pd.Timedelta(int(rng.integers(10**13)), unit="ns"),
            "words": BREAKS[kind][i % 6].join(f"w{word}" for word in rng.integers(0, 30, 6)),
            "entries": [(int(at), float(rng.integers(1, 9))) for at in sorted(rng.permutation(N_FEATURES)[:3])],
            "pixels": rng.integers(0, 256, (PIXELS, PIXELS), np.uint8),
        }
        cells["entries"][0] = (cells["entries"][0][0], float(1 + 3 * target))
        if kind == "images":
            cells = {"file": _png(cells["pixels"]), "name": f"{i:03}.png"}
        contributor = int(rng.integers(24))
        big = kind == "big"
        rows.append(Row(cells, BIG + target if big else target, BIG + contributor if big else f"u{contributor}"))
    return tuple(rows)


def _png(pixels: np.ndarray, mode: str | None = None, form: str = "PNG", **more: Any) -> bytes:
    file = io.BytesIO()
    picture = Image.fromarray(pixels)
    (picture if mode is None else picture.convert(mode)).save(file, form, **more)
    return file.getvalue()


# Odd rows: a table of functions that make one of a row that is none


def _nan(bits: int) -> float:
    return float(np.frombuffer(np.uint64(bits).tobytes(), np.float64)[0])


SIGNALLING = _nan(0x7FF0000000000001)
ZONE = datetime.timezone(datetime.timedelta(hours=5, minutes=30))

ODD_NUMBERS: dict[str, Any] = {
    "NaN": np.nan,
    "NaN with a payload": _nan(0x7FF8DEADBEEF0001),
    "negative NaN": _nan(0xFFF8000000000000),
    "signalling NaN": SIGNALLING,
    "infinity": np.inf,
    "minus infinity": -np.inf,
    "minus zero": -0.0,
    "huge": 1.7e308,
    "subnormal": 5e-324,
    "a fraction": 0.5,
    "above 2**53": 2**53 + 1,
    "above 2**63": 2**63 + 1025,
    "below -2**62": -(2**62) - 1,
    "above every float": 10**400,
    "a bool": True,
    "missing": None,
}
ODD_CELLS: dict[str, Any] = {
    **ODD_NUMBERS,
    "pandas' NA": pd.NA,
    "NaT": pd.NaT,
    "NaT of NumPy": np.datetime64("NaT"),
    "single precision": np.float32(0.1),
    "half precision": np.float16(0.1),
    "long double": np.longdouble("0.1"),
    "a NumPy bool": np.bool_(True),
    "a byte": np.uint8(255),
    "Decimal": Decimal("1.1"),
    "Decimal NaN": Decimal("NaN"),
    "Decimal signalling NaN": Decimal("sNaN"),
    "Decimal infinity": Decimal("-Infinity"),
    "Fraction": Fraction(1, 3),
    "a text": "many",
    "a number as text": "1e3",
    "an empty text": "",
    "a date": datetime.date(2026, 11, 16),
    "a moment": datetime.datetime(2026, 11, 16, 1, 2, 3, 456789),
    "a moment with a zone": datetime.datetime(2026, 11, 16, 1, 2, 3, 456789, tzinfo=ZONE),
    "a moment in days": np.datetime64("2026-11-16"),
    "a moment in attoseconds": np.datetime64(10**18 + 1, "as"),
    "a duration": datetime.timedelta(days=3, microseconds=7),
    "a duration in nanoseconds": np.timedelta64(1_234_567, "ns"),
    "a duration without unit": np.timedelta64(7),
    "a time of day": datetime.time(1, 2, 3),
    "complex": 1 + 2j,
    "bytes": b"\xff\x00",
    "a list": [1, 2],
    "a dict": {"a": 1},
    "an array": np.arange(3.0),
    "an object": object,
}
ODD_TIMES: dict[str, Any] = {
    "moments: missing": ("when", pd.NaT),
    "moments: a date": ("when", datetime.date(2026, 11, 16)),
    "moments: microseconds": ("when", datetime.datetime(2026, 11, 16, 1, 2, 3, 456789)),
    "moments: a zone": ("when", datetime.datetime(2026, 11, 16, 1, 2, 3, 456789, tzinfo=ZONE)),
    "moments: a zone of pandas": ("when", pd.Timestamp("2026-11-16 01:02:03.123456789", tz="America/New_York")),
    "moments: seconds": ("when", np.datetime64("2026-11-16T01:02:03", "s")),
    "moments: the year 1": ("when", datetime.datetime(1, 1, 1)),
    "moments: the year 9999": ("when", np.datetime64("9999-12-31T23:59:59", "s")),
    "moments: the year 30000": ("when", np.datetime64("30000-01-01T00:00:00", "s")),
    "moments: a number": ("when", 3.25),
    "moments: a text": ("when", "yesterday"),
    "moments: a duration": ("when", pd.Timedelta(5, unit="us")),
    "durations: missing": ("took", pd.NaT),
    "durations: microseconds": ("took", datetime.timedelta(days=1, microseconds=1)),
    "durations: seconds": ("took", np.timedelta64(86_401, "s")),
    "durations: ten thousand years": ("took", np.timedelta64(10_000 * 366 * 86_400, "s")),
    "durations: negative": ("took", pd.Timedelta(-1, unit="ns")),
    "durations: a number": ("took", 3.25),
    "durations: a text": ("took", "a while"),
    "durations: a moment": ("took", pd.Timestamp("2026-11-16")),
}
ODD_TEXTS: dict[str, Any] = {
    "unknown": "Zürich",
    "empty": "",
    "blank": "  ",
    "NA": "NA",
    "a number": "1",
    "a number with a point": "1.0",
    "a date": "2026-11-16",
    "quotes": 'he said "no"',
    "a lone quote": '"',
    "a delimiter": "a,b;c\td|e",
    "a line break": "a\nb",
    "a carriage return": "a\rb",
    "line separators": "a\u2028b\x85c\x0bd",
    "NUL": "a\0b",
    "an escape": "\x1b[2J\x1b[1;1H",
    "bidirectional": "\u202eRome\u202c",
    "a surrogate": "\ud800",
    "decomposed": "Sa\u0303o Paulo",
    "a byte order mark": "\ufeffRome",
    "zero width": "Ro\u200bme",
    "beyond the BMP": "\U0001f480",
    "a formula": "=1+1",
    "long": "x" * 20_000,
}
ODD_CATEGORIES: dict[str, Any] = {
    **{f"category: {name}": value for name, value in ODD_TEXTS.items()},
    "category: missing": None,
    "category: NaN": np.nan,
    "category: a number for a text": 1.0,
    "category: a bool for a text": True,
    "category: above 2**53": 2**53 + 1,
    "category: a moment": pd.Timestamp("2026-11-16"),
}
ODD_LABELS: dict[str, Any] = {
    "undeclared": "eleven",
    "a fraction": 0.5,
    "a neighbour above 2**53": BIG + 2,
    "a float equal to one": 1.0,
    "a text of one": "1",
    "a bool": True,
    "missing": None,
    "NaN": np.nan,
    "infinity": np.inf,
    "NA": pd.NA,
    "NaT": pd.NaT,
    "empty": "",
    "a surrogate": "\ud800",
    "above every float": 10**400,
    "a moment": pd.Timestamp("2026-11-16"),
    "Decimal signalling NaN": Decimal("sNaN"),
    "bytes": b"1",
    "a list": [1],
    "a dict": {},
}
ODD_GROUPS: dict[str, Any] = {
    "unknown": "Eve",
    "that of another": "u3",
    "a neighbour above 2**53": BIG + 100,
    "a float": 3.0,
    "a bool": True,
    "missing": None,
    "NaN": np.nan,
    "infinity": -np.inf,
    "NA": pd.NA,
    "NaT": pd.NaT,
    "empty": "",
    "blank": " ",
    "a surrogate": "\udfff",
    "bidirectional": "\u202eu3",
    "long": "u" * 20_000,
    "above every float": 10**400,
    "a moment": datetime.datetime(2026, 11, 16),
    "Decimal signalling NaN": Decimal("sNaN"),
    "bytes": b"u3",
    "a list": ["u3"],
}
ODD_ENTRIES: dict[str, list[tuple[int, float]]] = {
    "nothing": [],
    "an explicit zero": [(0, 0.0), (2, 3.0)],
    "twice": [(1, 2.0), (1, 2.5)],
    "twice, cancelling": [(1, 2.0), (1, -2.0)],
    "unsorted": [(5, 1.0), (0, 2.0), (3, 3.0)],
    "minus zero": [(1, -0.0)],
    "NaN": [(1, np.nan)],
    "signalling NaN": [(1, SIGNALLING)],
    "infinity": [(1, np.inf)],
    "infinities that cancel": [(1, np.inf), (1, -np.inf)],
    "huge": [(1, 1.7e308), (1, 1.7e308)],
    "subnormal": [(1, 5e-324)],
    "everything": [(at, 1.0) for at in range(N_FEATURES)],
    "needs a double": [(1, 0.1)],
    "above a byte": [(1, 300.0)],
    "beyond": [(0, 1.0), (N_FEATURES + 3, 7.0)],
    "only beyond": [(N_FEATURES, 7.0)],
}
INNER = b'"w1\n' + b"1DELIMITER2DELIMITER3DELIMITER4DELIMITERRomeDELIMITERw1DELIMITERu1DELIMITER1\n" * 20 + b'w2"'
ODD_LINES: dict[str, bytes] = {  # {} stands for the label, DELIMITER for what separates cells
    "too few cells": b"1DELIMITER2",
    "too many cells": b"DELIMITER".join([b"1"] * 30),
    "one cell": b"1",
    "only delimiters": b"DELIMITER" * 7,
    "blank": b"   ",
    "nothing": b"",
    "an open quote": b'"1DELIMITER2DELIMITER3DELIMITER4DELIMITERRomeDELIMITERw1DELIMITERu1DELIMITER1',
    "a quote inside": b'1DELIMITER2"3DELIMITER3DELIMITER4DELIMITERRomeDELIMITERw1DELIMITERu1DELIMITER1',
    "more after a quote": b'"1"xDELIMITER2DELIMITER3DELIMITER4DELIMITERRomeDELIMITERw1DELIMITERu1DELIMITER1',
    "quoted line break": b'1DELIMITER2DELIMITER3DELIMITER4DELIMITER"Ro\rme"DELIMITERw1DELIMITERu1DELIMITER1',
    "NUL": b"1\0DELIMITER2DELIMITER3DELIMITER4DELIMITERRomeDELIMITERw1DELIMITERu1DELIMITER1",
    "not UTF-8": b"1DELIMITER2DELIMITER3DELIMITER4DELIMITERK\xf6lnDELIMITERw1DELIMITERu1DELIMITER1",
    "UTF-16": "1DELIMITER2".encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf1DELIMITER2DELIMITER3DELIMITER4DELIMITERRomeDELIMITERw1DELIMITERu1DELIMITER1",
    "the header": b"DELIMITER".join(name.encode() for name in (*FILE_TABLE, "maker", "class")),
    "a carriage return at the end": b"1DELIMITER2DELIMITER3DELIMITER4DELIMITERRomeDELIMITERwDELIMITERu1DELIMITER1\r",
    "carriage returns": b"1DELIMITER2\r3DELIMITER4",
    "the start of a text": b'1DELIMITER2DELIMITER3DELIMITER4DELIMITERRomeDELIMITER"w1 w2',
    "the start of a text with nothing": b'1DELIMITER2DELIMITER3DELIMITER4DELIMITERRomeDELIMITER"',
    "the start of the first cell": b'"',
    "the middle of a text": b"w1 w2",
    "the end of a text": b'w3"DELIMITERu1DELIMITER1',
    "the end of a text with nothing": b'"DELIMITERu1DELIMITER1',
    "the end of a text and the start of another": b'w3"DELIMITER"u1',
    "doubled quotes": b'""""""',
    "a comment": b"# 1DELIMITER2",
    "above 4 MiB": b"1" * ((1 << 22) + 5),
    "rows in quotes": b"1DELIMITER2DELIMITER3DELIMITER4DELIMITERRomeDELIMITER" + INNER + b"DELIMITERu1DELIMITER1",
    "rows in quotes, too many cells": b"1DELIMITER" * 9 + INNER,
    "rows in quotes, too few cells": INNER + b"DELIMITER2",
    "rows in quotes, NUL": b"1DELIMITER2DELIMITER3DELIMITER4DELIMITER\0DELIMITER" + INNER + b"DELIMITERu1DELIMITER1",
    "rows in quotes, a carriage return outside": b"1\r2DELIMITER" + INNER,
    "rows in quotes, above 4 MiB": b"1" * (1 << 22) + b"DELIMITER" + INNER,
    "svmlight: no entries": b"1",
    "svmlight: twice": b"1 1:2 1:2.5",
    "svmlight: backwards": b"1 5:1 0:2 3:3",
    "svmlight: explicit zero": b"1 0:0 2:-0.0",
    "svmlight: beyond": b"1 0:1 9:7",
    "svmlight: far beyond": b"1 0:1 9999999999999999999999:7",
    "svmlight: above a million": b"1 0:1 2000000:7",
    "svmlight: NaN": b"1 0:nan 1:inf 2:-inf 3:1e400 4:1",
    "svmlight: negative index": b"1 -1:4",
    "svmlight: no value": b"1 1:",
    "svmlight: no index": b"1 :4",
    "svmlight: three parts": b"1 1:2:3",
    "svmlight: query": b"1 qid:7 1:2",
    "svmlight: remark": b"1 1:2 # 2:3",
    "svmlight: no label": b"1:2 2:3",
    "svmlight: another label": b"seven 1:2 2:3",
    "svmlight: several labels": b"0,1 1:2",
    "svmlight: digits of another script": "1 \u0661:2 1:\u0662".encode(),
    "svmlight: separators": "1\u20281:2\x852:3\x1c3:4".encode(),
}


ODD_MOMENTS: dict[str, Any] = {
    "nanoseconds": np.datetime64(1_700_000_000_123_456_789, "ns"),
    "microseconds": np.datetime64(1_700_000_000_123_456, "us"),
    "days": np.datetime64("2026-11-16"),
    "missing": np.datetime64("NaT"),
    "the year 30000": np.datetime64("30000-01-01T00:00:00", "s"),
}
ODD_SHAPES: dict[str, Any] = {
    "another shape": np.zeros((PIXELS, PIXELS - 1)),
    "flat": np.zeros(PIXELS * PIXELS),
    "deeper": np.zeros((PIXELS, PIXELS, 1)),
    "ragged": [[1.0], [2.0, 3.0]],
    "empty": [],
    "missing": None,
    "a number": 7.0,
    "a text": "black",
    "texts": [["1"] * PIXELS, *[["black"] * PIXELS] * (PIXELS - 1)],
    "moments": np.full((PIXELS, PIXELS), np.datetime64("2026-11-16")),
    "infinite": np.full((PIXELS, PIXELS), np.inf),
    "complex": np.full((PIXELS, PIXELS), 1 + 2j),
}


def _odd_pictures() -> dict[str, tuple[bytes, str]]:
    grey = np.random.default_rng(3).integers(0, 256, (PIXELS, PIXELS), np.uint8)
    colour = np.random.default_rng(4).integers(0, 256, (PIXELS, PIXELS, 3), np.uint8)
    whole = _png(grey)
    remark = PngImagePlugin.PngInfo()
    remark.add_text("note", "x" * 1000)
    huge = whole[:16] + (100_000).to_bytes(4, "big") * 2 + whole[24:]
    return {
        "another size": (_png(np.zeros((9, 5), np.uint8)), "odd.png"),
        "one pixel": (_png(np.zeros((1, 1), np.uint8)), "odd.png"),
        "colour": (_png(colour), "odd.png"),
        "transparent": (_png(colour, "RGBA"), "odd.png"),
        "grey and transparent": (_png(grey, "LA"), "odd.png"),
        "a palette": (_png(colour, "P"), "odd.png"),
        "bits": (_png(grey, "1"), "odd.png"),
        "sixteen bits": (_png(grey.astype(np.uint16) * 257), "odd.png"),
        "JPEG": (_png(grey, form="JPEG"), "odd.jpg"),
        "JPEG in print colours": (_png(colour, "CMYK", "JPEG"), "odd.jpeg"),
        "JPEG turned by EXIF": (_png(colour, form="JPEG", exif=_turned()), "odd.jpg"),
        "JPEG by another name": (_png(grey, form="JPEG"), "odd.png"),
        "GIF by another name": (_png(grey, form="GIF"), "odd.png"),
        "BMP": (_png(colour, form="BMP"), "odd.bmp"),
        "PPM": (_png(colour, form="PPM"), "odd.ppm"),
        "PGM": (_png(grey, form="PPM"), "odd.pgm"),
        "with a remark": (_png(grey, pnginfo=remark), "odd.png"),
        "cut off": (whole[: len(whole) * 2 // 3], "odd.png"),
        "altered": (whole[:45] + b"\x00\xff" + whole[47:], "odd.png"),
        "states too many pixels": (huge, "odd.png"),
        "empty": (b"", "odd.png"),
        "a text": (b"not an image", "odd.png"),
        "a folder of its own name": (b"", "odd.png/"),
        "hidden": (whole, ".odd.png"),
        "an odd name": (whole, "odd \u202egnp\n.png"),
        "capitals": (whole, "ODD.PNG"),
        "another kind of file": (b"a,b\n1,2\n", "odd.csv"),
        "a link to another": (b"", "odd.png@class"),
        "a link that leads out": (b"", "odd.png@/etc/hostname"),
        "a link to nothing": (b"", "odd.png@nothing"),
        "a link to itself": (b"", "odd.png@odd.png"),
        "a pipe": (b"", "odd.png|"),
        "several frames": (_frames(), "odd.png"),
    }


def _frames() -> bytes:
    file = io.BytesIO()
    frames = [Image.fromarray(np.full((PIXELS, PIXELS), grey, np.uint8)) for grey in (9, 99, 199)]
    frames[0].save(file, "PNG", save_all=True, append_images=frames[1:])
    return file.getvalue()


def _turned() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


def _other(label: int) -> int:
    return label ^ 1


Odd = Callable[[Row, tuple[Row, ...]], Row]


def _into(name: str, value: Any) -> Odd:
    return lambda row, rows: row.having(**{name: value})


def _labelled(value: Any) -> Odd:
    return lambda row, rows: replace(row.having(a=row.cells.get("a", 0.0)), label=value)


def _from_group(value: Any) -> Odd:
    return lambda row, rows: replace(row, group=value)


def _as_line(line: bytes) -> Odd:
    return lambda row, rows: replace(row, line=line)


def _pictured(content: bytes, name: str) -> Odd:
    return lambda row, rows: row.having(file=content, name=name)


def _all_numbers(value: Any) -> Odd:
    return lambda row, rows: row.having(**dict.fromkeys(NUMBERS, value))


@cache
def odd_rows() -> dict[str, dict[str, Odd]]:
    """Kind of oddity → its name → what makes such a row of an honest one; entry points say which kinds they take."""
    return {
        "row": {
            "a copy of another": lambda row, rows: rows[7],
            "a copy under another label": lambda row, rows: replace(rows[7], label=_other(rows[7].label)),
            "a copy by another contributor": lambda row, rows: replace(rows[7], group="u5"),
            "its label flipped": lambda row, rows: replace(row, label=_other(row.label)),
        },
        "numbers": {
            "numbers: all missing": _all_numbers(None),
            "numbers: all zero": _all_numbers(0.0),
            "numbers: all huge": _all_numbers(1.7e308),
        },
        "cell": {
            f"cell {name}: {odd}": _into(name, value) for odd, value in ODD_CELLS.items() for name in ("a", "b", "big")
        },
        "category": {odd: _into("city", value) for odd, value in ODD_CATEGORIES.items()},
        "flag": {f"flag: {odd}": _into("flag", value) for odd, value in ODD_CELLS.items()},
        "time": {odd: _into(name, value) for odd, (name, value) in ODD_TIMES.items()},
        "text": {f"text: {odd}": _into("words", value) for odd, value in ODD_TEXTS.items()},
        "sample": {f"sample: {odd}": _into("words", value) for odd, value in ODD_CELLS.items()},
        "label": {f"label: {odd}": _labelled(value) for odd, value in ODD_LABELS.items()},
        "group": {f"group: {odd}": _from_group(value) for odd, value in ODD_GROUPS.items()},
        "entries": {f"entries: {odd}": _into("entries", value) for odd, value in ODD_ENTRIES.items()},
        "line": {f"line: {odd}": _as_line(value) for odd, value in ODD_LINES.items()},
        "picture": {f"picture: {odd}": _pictured(*value) for odd, value in _odd_pictures().items()},
        "shape": {f"shape: {odd}": _into("pixels", value) for odd, value in ODD_SHAPES.items()},
        "moment": {f"moment: {odd}": _into("when", value) for odd, value in ODD_MOMENTS.items()},
        "moment of a contributor": {
            f"moment of a contributor: {odd}": _from_group(value) for odd, value in ODD_MOMENTS.items()
        },
        "digits": {
            f"digits: {odd}": _into("a", value)
            for odd, value in {"a text": "1.2345678901234567890123", "infinite": np.inf, "missing": None}.items()
        },
        "pixels": {
            f"pixels: all {value}": _into("pixels", np.full((PIXELS, PIXELS), value, np.uint8)) for value in (0, 1, 255)
        },
    }


def odd_row(name: str) -> Odd:
    return next(table[name] for table in odd_rows().values() if name in table)

"""Every door by which rows come in, every odd row we know, and one question: does the row reach anybody but its own?

`DOORS` and `ODD_ROWS` are two tables of small named functions. `faults_of` takes one case (a door, an odd row, an act
and a place), reads the data before and after the act, and says what moved that had no right to: at most the row itself
may come or go, every other row keeps its cells, its label, its partition and its side of the held-out set; the schema
stays; a base classifier moves only if the row's partition feeds it; and `update` gives what a fresh fit gives.
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import io
import json
import os
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from PIL import Image, PngImagePlugin
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

from poisonproof import FiniteAggregationClassifier, Split
from poisonproof.data import ReadOptions, open_files
from poisonproof.data.dataset import held_out
from poisonproof.estimators.prepared import Prepared, prepare, split_of
from poisonproof.samples.frames import as_values
from poisonproof.samples.labels import label_cells
from poisonproof.samples.rows import count_rows, take_rows
from poisonproof.samples.schema import TableSchema

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


# Rows


@dataclass(frozen=True)
class Row:
    """A sample before it goes through a door; ``line`` is how it stands in a file of lines, if nobody wrote it well."""

    cells: dict[str, Any]
    label: Any
    group: Any
    line: bytes | None = None

    def having(self, **cells: Any) -> Row:
        return replace(self, cells={**self.cells, **cells})


# What stands between the words of a text: blanks, or what quotes must hold for it; `records` has whole lines in quotes.
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
    """Kind of oddity → its name → what makes such a row of an honest one; a door says which kinds can come through."""
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


# Doors


@dataclass(frozen=True)
class Brought:
    """What came through a door: training data for the estimator, and what was held out and decided on the way."""

    X: Any
    y: Any
    groups: Any
    model: FiniteAggregationClassifier
    tested: tuple[Any, Any] | None = None  # held out by the reader; otherwise `held_out` is asked beside
    schema: str = ""
    schema_declared: bool = True


@dataclass(frozen=True)
class Door:
    """One way in.

    ``takes`` names the kinds of odd rows that can come this way at all, ``holds`` says which of them (a column of
    floats cannot hold a text: whoever made it one of texts decided that for all rows, before this door).
    """

    name: str
    bring: Callable[[tuple[Row, ...], Path], Brought]
    takes: tuple[str, ...]
    rows: str = "rows"
    holds: Callable[[Row], bool] = lambda row: True
    needs: str | None = None
    alone: bool = True  # a single row can be brought by itself, for `update`
    chosen: tuple[str, ...] = ()  # odd rows that may change what was chosen from the data, if a premise says so


STUMP = DecisionTreeClassifier(max_depth=1)
TEXT_LEARNER = make_pipeline(HashingVectorizer(n_features=16, alternate_sign=False), MultinomialNB())


def flattened(X: Any) -> Any:
    return X.reshape(len(X), -1)


IMAGE_LEARNER = make_pipeline(FunctionTransformer(flattened), STUMP)
BIG_CLASSES = (BIG, BIG + 1)


def estimator(
    learner: Any = STUMP, split: Split | str = "content", classes: Any = (0, 1)
) -> FiniteAggregationClassifier:
    return FiniteAggregationClassifier(learner, k=K, d=D, split=split, classes=classes, n_jobs=1)


def _matrix(rows: tuple[Row, ...], names: tuple[str, ...] = NUMBERS) -> list[list[Any]]:
    return [[row.cells[name] for name in names] for row in rows]


def _floats(rows: tuple[Row, ...]) -> np.ndarray:
    """Rows of floats, signalling NaNs untouched."""
    values = np.empty((len(rows), len(NUMBERS)))
    for at, row in enumerate(_matrix(rows)):
        for place, cell in enumerate(row):
            values[at, place] = np.nan if cell is None else cell
    return values


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, bool | int | float) and (value != value or abs(value) < 2**1023))


def _numeric(row: Row) -> bool:
    return all(_is_number(row.cells[name]) for name in NUMBERS)


def _whole(row: Row) -> bool:
    return all(isinstance(row.cells[name], int) and abs(row.cells[name]) < 2**63 for name in ("b", "big"))


def _objects(values: list[Any]) -> np.ndarray:
    array = np.empty(len(values), object)
    for at, value in enumerate(values):
        array[at] = value
    return array


def _rows_of_objects(rows: tuple[Row, ...]) -> np.ndarray:
    array = np.empty((len(rows), len(NUMBERS)), object)
    for at, row in enumerate(_matrix(rows)):
        for place, cell in enumerate(row):
            array[at, place] = cell
    return array


def _labels(rows: tuple[Row, ...]) -> list[Any]:
    return [row.label for row in rows]


def _groups(rows: tuple[Row, ...]) -> list[Any]:
    return [row.group for row in rows]


def _of_arrays(make: Callable[[tuple[Row, ...]], Any], grouped: bool, learner: Any = STUMP, **options: Any) -> Any:
    def bring(rows: tuple[Row, ...], folder: Path) -> Brought:
        split = Split("group" if grouped else "content", options.get("dtype", "float64"), options.get("n_features"))
        classes = options.get("classes", (0, 1))
        return Brought(
            make(rows), _labels(rows), _groups(rows) if grouped else None, estimator(learner, split, classes)
        )

    return bring


def _in_a_column(grouped: bool) -> Any:
    def bring(rows: tuple[Row, ...], folder: Path) -> Brought:
        brought = _of_arrays(_matrix, grouped)(rows, folder)
        return replace(brought, y=[[label] for label in brought.y])

    return bring


def _by_contributors(keys: Callable[[tuple[Row, ...]], Any], classes: Any = (0, 1)) -> Any:
    def bring(rows: tuple[Row, ...], folder: Path) -> Brought:
        brought = _of_arrays(_floats, True, classes=classes)(rows, folder)
        return replace(brought, groups=keys(rows))

    return bring


def _sparse(form: str) -> Callable[[tuple[Row, ...]], Any]:
    def make(rows: tuple[Row, ...]) -> Any:
        entries = [(at, index, value) for at, row in enumerate(rows) for index, value in row.cells["entries"]]
        width = max([N_FEATURES, *(index + 1 for _, index, _ in entries)])
        starts = np.cumsum([0, *(len(row.cells["entries"]) for row in rows)])
        columns, values = np.array([e[1] for e in entries]), np.array([e[2] for e in entries])
        places = np.array([e[0] for e in entries])
        if form == "coo":
            return sp.coo_matrix((values, (places, columns)), (len(rows), width))
        if form == "csc":
            order = np.argsort(columns, kind="stable")
            begin = np.concatenate([[0], np.cumsum(np.bincount(columns, minlength=width))])
            return sp.csc_matrix((values[order], places[order], begin), (len(rows), width))
        matrix = sp.csr_array if form == "csr array" else sp.csr_matrix
        made = matrix((values, columns.astype(np.int32), starts.astype(np.int32)), shape=(len(rows), width))
        if form == "csr int64":
            made.indices, made.indptr = made.indices.astype(np.int64), made.indptr.astype(np.int64)
        return made

    return make


def _in_parts(form: str) -> Callable[[tuple[Row, ...]], Any]:
    """Every entry in twelve parts, whose sum depends on the order or the type in which they are added.

    The matrix is as narrow as can be, unless one of the rows needs more.
    """

    def make(rows: tuple[Row, ...]) -> Any:
        honest = {id(row) for row in honest_rows("rows")}
        cells = [
            [(index, part) for index, value in row.cells["entries"] for part in _parts(index, value, form)]
            if id(row) in honest
            else row.cells["entries"]
            for row in rows
        ]
        whole = _sparse(form.split(",")[0])(
            tuple(row.having(entries=own) for row, own in zip(rows, cells, strict=True))
        )
        values = whole.data
        for narrow in (np.uint8, np.float32):
            with np.errstate(all="ignore"):
                if np.array_equal(values.astype(narrow).astype(np.float64), values):
                    whole.data = values.astype(narrow)
                    break
        return whole

    return make


def _parts(index: int, value: float, form: str) -> list[float]:
    rng = np.random.default_rng(100 * index + int(value))
    if form.endswith("bytes"):
        return rng.integers(50, 250, 12).astype(float).tolist()
    return rng.normal(size=12).astype(np.float32 if form == "coo" else float).tolist()


def _moments(rows: tuple[Row, ...]) -> np.ndarray:
    """Two columns of moments, put together by NumPy, which gives all of them the finest unit that one row has."""
    return np.concatenate([np.array([[_moment(row.cells["when"])] * 2]) for row in rows])


def _durations(rows: tuple[Row, ...]) -> np.ndarray:
    return _moments(rows) - np.datetime64("1970-01-01", "D")


def _moment(value: Any) -> np.datetime64:
    return value if isinstance(value, np.datetime64) else np.datetime64(value.value // 10**9, "s")


def _moments_of_contributors(rows: tuple[Row, ...]) -> np.ndarray:
    """Contributors named by moments."""
    days = [np.datetime64(int(row.group[1:]), "D") if isinstance(row.group, str) else row.group for row in rows]
    return np.concatenate([[day] for day in days])


def _written(rows: tuple[Row, ...]) -> np.ndarray:
    """An array of texts that write numbers."""
    return np.array([["" if cell is None else _said(cell) for cell in row] for row in _matrix(rows)])


def _complex(rows: tuple[Row, ...]) -> np.ndarray:
    """As NumPy infers it."""
    return np.array([[np.nan if cell is None else cell for cell in row] for row in _matrix(rows)])


def _numeric_or_complex(row: Row) -> bool:
    return all(isinstance(row.cells[name], complex) or _is_number(row.cells[name]) for name in NUMBERS)


def _images_of(form: str) -> Callable[[tuple[Row, ...]], list[Any]]:
    """Images one by one, in nested lists or arrays, whatever the shape of each."""

    def make(rows: tuple[Row, ...]) -> list[Any]:
        images = [row.cells["pixels"] for row in rows]
        if form == "arrays":
            return images
        return [image.tolist() if isinstance(image, np.ndarray) else image for image in images]

    return make


def _decimals(rows: tuple[Row, ...]) -> Any:
    """A column of decimals with as many digits as the longest of them needs, beside one of texts."""
    pa = _arrow_types()
    cells = [row.cells["a"] for row in rows]
    written = [
        None if cell is None or cell == np.inf else Decimal(cell if isinstance(cell, str) else f"{cell:.6f}")
        for cell in cells
    ]
    scale = max(-int(value.as_tuple().exponent) for value in written if value is not None) if any(written) else 0
    column = pa.array(written, pa.decimal128(38, scale))
    return pa.table({"a": column, "b": [row.cells["b"] for row in rows], "city": [row.cells["city"] for row in rows]})


def _inside(row: Row) -> bool:
    return all(index < N_FEATURES for index, _ in row.cells["entries"])


# Frames


def _records(rows: tuple[Row, ...]) -> pd.DataFrame:
    """As pandas infers it from values."""
    return pd.DataFrame({name: pd.Series([row.cells[name] for row in rows]) for name in TABLE})


def _typed(rows: tuple[Row, ...], types: dict[str, str] | None = None) -> pd.DataFrame:
    """Honest rows in frames of their own types, odd ones in frames of theirs, put together by pandas."""
    known = {id(row) for row in honest_rows("rows")}
    blocks = [tuple(block) for _, block in groupby(rows, lambda row: id(row) in known)]
    return pd.concat([_records(block).astype(types or {}) for block in blocks], ignore_index=True)


def _categories(rows: tuple[Row, ...]) -> pd.DataFrame:
    return _records(rows).astype({"city": object}).astype({"city": "category"})


def _object_frame(rows: tuple[Row, ...]) -> pd.DataFrame:
    return pd.DataFrame({name: _objects([row.cells[name] for row in rows]) for name in TABLE}, dtype=object)


def _nullable(rows: tuple[Row, ...]) -> pd.DataFrame:
    return _records(rows).convert_dtypes()


def _by_arrow(rows: tuple[Row, ...]) -> pd.DataFrame:
    return arrow_table(rows, TABLE).to_pandas(types_mapper=pd.ArrowDtype)


def _arrow_types() -> Any:
    import pyarrow as pa

    return pa


def arrow_column(values: list[Any]) -> Any:
    """The narrowest Arrow type that holds all values, as a library would choose it; coarser times where one is far."""
    pa = _arrow_types()
    present = [value for value in values if not _missing(value)]
    if all(isinstance(value, str) for value in present):
        return pa.array([None if _missing(value) else value for value in values], pa.string())
    if any(isinstance(value, pd.Timedelta | datetime.timedelta | np.timedelta64) for value in present):
        return _arrow_times(values, "m8", pa.duration)
    if any(isinstance(value, datetime.date | np.datetime64) for value in present):
        zoned = any(getattr(value, "tzinfo", None) is not None for value in present)
        return _arrow_times(values, "M8", lambda unit: pa.timestamp(unit, "UTC" if zoned else None))
    if all(isinstance(value, bool) for value in present):
        return pa.array([None if _missing(value) else value for value in values], pa.bool_())
    if all(isinstance(value, int) for value in present):
        kind = pa.int64() if all(-(2**63) <= value < 2**63 for value in present) else pa.uint64()
        if all(value >= 0 for value in present) or kind == pa.int64():
            return pa.array([None if _missing(value) else int(value) for value in values], kind)
    floats = np.empty(len(values))
    for at, value in enumerate(values):
        floats[at] = np.nan if value is None else value
    return pa.array(floats, mask=np.array([value is None for value in values]))


def _missing(value: Any) -> bool:
    return value is None or value is pd.NaT or (isinstance(value, np.datetime64 | np.timedelta64) and np.isnat(value))


def _arrow_times(values: list[Any], kind: str, of: Callable[[str], Any]) -> Any:
    pa = _arrow_types()
    for unit in ("ns", "us", "s"):
        ticks = [_ticks(value, kind, unit) for value in values]
        if all(tick is None or -(2**63) < tick < 2**63 for tick in ticks):
            return pa.array(ticks, pa.int64()).cast(of(unit))
    raise AssertionError(values)


def _ticks(value: Any, kind: str, unit: str) -> int | None:
    """Whole units since the epoch, in integers."""
    if _missing(value):
        return None
    per = {"s": 1, "us": 10**6, "ns": 10**9}[unit]
    if isinstance(value, datetime.datetime) and not isinstance(value, pd.Timestamp):
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC if value.tzinfo else None)
        value = value - epoch
    elif isinstance(value, pd.Timestamp | pd.Timedelta):
        value = np.timedelta64(value.as_unit("ns").value, "ns")
    elif isinstance(value, datetime.date):
        value = np.datetime64(value, "s")
    if isinstance(value, datetime.timedelta):
        return (value // datetime.timedelta(microseconds=1)) * per // 10**6
    count, step = int(value.astype(np.int64)), np.datetime_data(value.dtype)[0]
    return count * per // {"s": 1, "us": 10**6, "ns": 10**9}[step]


def _holds_typed(row: Row) -> bool:
    """What typed columns can hold without anybody turning them to text."""
    cells = row.cells
    moment = datetime.date | np.datetime64
    span = pd.Timedelta | datetime.timedelta | np.timedelta64
    sound = [all(_is_number(cells[name]) for name in NUMBERS), _is_number(cells["flag"])]
    sound.append(cells["city"] is None or (isinstance(cells["city"], str) and not _surrogate(cells["city"])))
    sound.append(_missing(cells["when"]) or isinstance(cells["when"], moment))
    sound.append(_missing(cells["took"]) or isinstance(cells["took"], span))
    return all(sound) and _key_is_plain(row.label) and _key_is_plain(row.group)


def _surrogate(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def _key_is_plain(value: Any) -> bool:
    """A label or contributor that a column of texts holds as such."""
    return value is None or (_plain_name(value) and not (isinstance(value, str) and _surrogate(value)))


def arrow_table(rows: tuple[Row, ...], names: tuple[str, ...]) -> Any:
    pa = _arrow_types()
    return pa.table({name: arrow_column([row.cells[name] for row in rows]) for name in names})


def _arrow_categories(rows: tuple[Row, ...]) -> Any:
    table = arrow_table(rows, TABLE)
    at = TABLE.index("city")
    return table.set_column(at, "city", table.column(at).dictionary_encode())


def _arrow_batch(rows: tuple[Row, ...]) -> Any:
    return arrow_table(rows, TABLE).combine_chunks().to_batches()[0]


def _polars(categories: bool) -> Callable[[tuple[Row, ...]], Any]:
    def make(rows: tuple[Row, ...]) -> Any:
        import polars as pl

        frame = pl.from_arrow(arrow_table(rows, TABLE))
        return frame.with_columns(pl.col("city").cast(pl.Categorical)) if categories else frame

    return make


def _polars_column(values: list[Any]) -> Any:
    import polars as pl

    return pl.Series([None if value is None else str(value) for value in values], dtype=pl.String)


def _arrow_keys(values: list[Any]) -> Any:
    pa = _arrow_types()
    if all(value is None or type(value) is int for value in values):
        return pa.chunked_array([pa.array(values, pa.int64())])
    return pa.chunked_array([pa.array([None if value is None else str(value) for value in values], pa.string())])


ROLES = TableSchema(tuple((name, "category" if name == "city" else "number") for name in TABLE))


def _of_frames(
    make: Any,
    grouped: bool,
    column: Callable[[list[Any]], Any] = list,
    classes: Any = (0, 1),
    schema: TableSchema | None = None,
) -> Callable[[tuple[Row, ...], Path], Brought]:
    def bring(rows: tuple[Row, ...], folder: Path) -> Brought:
        groups = column(_groups(rows)) if grouped else None
        split = Split("group" if grouped else "content", schema=schema)
        return Brought(make(rows), column(_labels(rows)), groups, estimator(None, split, classes))

    return bring


def _concatenated_categories(rows: tuple[Row, ...]) -> pd.DataFrame:
    """Categories that differ make pandas give the categorical type up, for all rows; a declared schema does not."""
    return _typed(rows, {"city": "category"})


# Texts


def _texts(rows: tuple[Row, ...]) -> list[Any]:
    return [row.cells["words"] for row in rows]


# Files


def _line(row: Row, names: tuple[str, ...], delimiter: str, maker: bool = True) -> bytes:
    if row.line is not None:
        return row.line.replace(b"DELIMITER", delimiter.encode())
    file = io.StringIO()
    cells = [*(row.cells[name] for name in names), *([row.group] if maker else []), row.label]
    csv.writer(file, delimiter=delimiter, lineterminator="").writerow(
        ["" if cell is None else _said(cell) for cell in cells]
    )
    return file.getvalue().encode("utf-8", "surrogatepass")


def _said(cell: Any) -> str:
    return repr(cell) if isinstance(cell, float) else str(cell)


def _one_line(row: Row) -> bool:
    """Cells that a line can hold."""
    return b"\n" not in _line(row, FILE_TABLE, ",")


def _write_csv(
    suffix: str = ".csv", names: tuple[str, ...] = FILE_TABLE, delimiter: str = ",", maker: bool = True
) -> Callable[[tuple[Row, ...], Path], Path]:
    def write(rows: tuple[Row, ...], folder: Path) -> Path:
        path = folder / f"data{suffix}"
        header = delimiter.join((*names, *(["maker"] if maker else []), "class")).encode()
        path.write_bytes(b"\n".join([header, *(_line(row, names, delimiter, maker) for row in rows)]) + b"\n")
        return path

    return write


def _write_windows_csv(rows: tuple[Row, ...], folder: Path) -> Path:
    """Lines that end as on Windows, after a byte order mark."""
    path = _write_csv()(rows, folder)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    return path


def _write_parquet(rows: tuple[Row, ...], folder: Path) -> Path:
    import pyarrow.parquet as pq

    table = arrow_table(rows, (*TABLE, "words"))
    for name, values in (("maker", _groups(rows)), ("class", _labels(rows))):
        table = table.append_column(name, _arrow_keys(values))
    pq.write_table(table, folder / "data.parquet")
    return folder / "data.parquet"


def _holds_parquet(row: Row) -> bool:
    return _holds_typed(row) and isinstance(row.cells["words"], str) and not _surrogate(row.cells["words"])


def _write_npz(dtype: str) -> Any:
    def write(rows: tuple[Row, ...], folder: Path) -> Path:
        if dtype == "uint8":
            X: Any = np.array([row.cells["pixels"] for row in rows])
        else:
            X = _floats(rows)
            X = X.astype(np.float32).astype(np.float64) if dtype == "float32" else X
            if dtype == "float32" and all(_single(row) for row in rows):
                X = X.astype(np.float32)
            if dtype == "big endian":
                X = np.asfortranarray(X.astype(">f8"))
        np.savez(folder / "data.npz", X=X, y=np.array(_labels(rows)), maker=np.array(_groups(rows)))
        return folder / "data.npz"

    return write


def _single(row: Row) -> bool:
    return all(cell is None or cell != cell or abs(cell) < 1e38 for cell in _matrix((row,))[0])


def _plain_name(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and abs(value) < 2**63)


def _npz_keys(row: Row) -> bool:
    return _plain_name(row.label) and isinstance(row.group, str) and "\0" not in f"{row.label}{row.group}"


def _write_svm(rows: tuple[Row, ...], folder: Path) -> Path:
    lines = []
    for row in rows:
        entries = " ".join(f"{index}:{value!r}" for index, value in row.cells["entries"])
        lines.append(
            row.line.replace(b"DELIMITER", b" ") if row.line is not None else f"{row.label} {entries}".encode()
        )
    (folder / "data.svm").write_bytes(b"\n".join(lines) + b"\n")
    return folder / "data.svm"


def _write_folder(rows: tuple[Row, ...], folder: Path) -> Path:
    home = folder / "pictures"
    for at, row in enumerate(rows):
        name, _, target = row.cells["name"].partition("@")
        place = home / str(row.label) / (name if name[0] == "." or "odd" in name.lower() else f"{at:03}{name}")
        place.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            (home / str(row.label) / name).mkdir()
        elif name.endswith("|"):
            os.mkfifo(place.with_name(name.removesuffix("|")))
        elif target:
            siblings = sorted(item.name for item in place.parent.iterdir())
            linked = siblings[0] if target == "class" and siblings else target
            place.symlink_to(linked)
        else:
            place.write_bytes(row.cells["file"])
    return home


def _folder_name(row: Row) -> bool:
    return (
        isinstance(row.label, int | str)
        and len(str(row.label)) < 200
        and str(row.label) not in ("", ".")
        and ("\0" not in str(row.label) and "/" not in str(row.label) and not _surrogate(str(row.label)))
    )


def _of_files(
    write: Any, how: dict[str, Any], learner: Any, *, grouped: bool = False, declared: str | None = None
) -> Any:
    """Files read by `open_files`; ``declared`` names the rows from which the schema was declared beforehand."""

    def bring(rows: tuple[Row, ...], folder: Path) -> Brought:
        options = {**how, **({"group_column": "maker"} if grouped else {})}
        if declared is not None:
            options["schema"] = folder / "schema.json"
            options["schema"].write_text(_schema(write, tuple(sorted(how.items())), grouped, declared))
        dataset = open_files(write(rows, folder), ReadOptions(**options, held_out=SHARE, classes=["0", "1"]))
        split = Split("group" if grouped else "content", dataset.dtype, dataset.n_features)
        model = estimator(learner, split, dataset.classes.tolist())
        return _brought(dataset, model)

    return bring


@cache
def _schema(write: Any, how: tuple[tuple[str, Any], ...], grouped: bool, kind: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = write(honest_rows(kind), Path(folder))
        options = {**dict(how), **({"group_column": "maker"} if grouped else {})}
        return json.dumps(open_files(path, ReadOptions(**options)).schema.as_dict())


def _of_commands(write: Any, how: dict[str, Any], *, grouped: bool = False) -> Any:
    """Files read as `poisonproof run` reads them: what stands behind the command, in this process."""

    def bring(rows: tuple[Row, ...], folder: Path) -> Brought:
        from poisonproof.cli.run import EnsembleOptions, prepare

        options = {"held_out": SHARE, "classes": ["0", "1"], **how, **({"group_column": "maker"} if grouped else {})}
        path = str(write(rows, folder))
        asked = prepare(EnsembleOptions(path, k=K, d=D, n_jobs=1), ReadOptions(**options))
        dataset, model, _ = asked.what
        return _brought(dataset, model)

    return bring


def _brought(dataset: Any, model: FiniteAggregationClassifier) -> Brought:
    premise = next(premise for premise in dataset.premises if premise.what == "schema")
    tested = (dataset.x_test, dataset.y_test)
    schema = json.dumps(dataset.schema.as_dict())
    return Brought(dataset.x_train, dataset.y_train, dataset.groups, model, tested, schema, premise.declared)


# The table of doors


def _doors() -> Iterator[Door]:
    both = ((False, "", ()), (True, ", contributors", ("group",)))
    kinds = ("row", "numbers", "label")
    for grouped, by, more in both:
        numbers = (*kinds, "cell", *more)
        yield Door(f"array float64{by}", _of_arrays(_floats, grouped), numbers, holds=_numeric)
        yield Door(
            f"array float32{by}",
            _of_arrays(lambda rows: _floats(rows).astype(np.float32), grouped),
            numbers,
            holds=lambda row: _numeric(row) and _single(row),
        )
        yield Door(
            f"array in Fortran's order{by}",
            _of_arrays(lambda rows: np.asfortranarray(_floats(rows)), grouped),
            numbers,
            holds=_numeric,
        )
        yield Door(
            f"array int64{by}",
            _of_arrays(lambda rows: np.array(_matrix(rows, ("b", "big")), np.int64), grouped),
            numbers,
            holds=_whole,
        )
        yield Door(
            f"array uint8{by}",
            _of_arrays(
                lambda rows: np.array([row.cells["pixels"] for row in rows]), grouped, IMAGE_LEARNER, dtype="uint8"
            ),
            ("row", "pixels", "label", *more),
        )
        yield Door(f"array of objects{by}", _of_arrays(_rows_of_objects, grouped), numbers)
        yield Door(f"list of lists{by}", _of_arrays(_matrix, grouped), numbers)
        yield Door(
            f"array, learner without missing values{by}",
            _of_arrays(_filled, grouped, GaussianNB()),
            numbers,
            holds=_numeric,
        )
        for form in ("csr", "csr int64", "csr array", "csc", "coo"):
            wide = {"n_features": N_FEATURES}
            yield Door(
                f"sparse {form}{by}", _of_arrays(_sparse(form), grouped, **wide), ("row", "entries", "label", *more)
            )
        yield Door(
            f"sparse csr, width inferred{by}",
            _of_arrays(_sparse("csr"), grouped),
            ("row", "entries", "label", *more),
            holds=_inside,
        )
        for form in ("csr", "coo", "csc", "csr, bytes", "coo, bytes"):
            yield Door(
                f"sparse {form}, in parts{by}",
                _of_arrays(_in_parts(form), grouped, n_features=N_FEATURES),
                ("row", "entries", "label", *more),
            )
        yield Door(f"array of moments{by}", _of_arrays(_moments, grouped), ("row", "moment", "label", *more))
        yield Door(f"array of durations{by}", _of_arrays(_durations, grouped), ("row", "moment", "label", *more))
        yield Door(f"array of texts{by}", _of_arrays(_written, grouped), numbers)
        yield Door(f"array, complex{by}", _of_arrays(_complex, grouped), numbers, holds=_numeric_or_complex)
        for form in ("arrays", "lists"):
            yield Door(
                f"list of images, {form}{by}",
                _of_arrays(_images_of(form), grouped, IMAGE_LEARNER),
                ("row", "pixels", "shape", "label", *more),
            )
        yield Door(f"list of lists, labels in a column{by}", _in_a_column(grouped), numbers)
        yield Door(f"pyarrow, decimals{by}", _of_frames(_decimals, grouped), ("row", "digits", "label", *more))
        yield Door(
            f"pandas, decimals of Arrow{by}",
            _of_frames(lambda rows: _decimals(rows).to_pandas(types_mapper=pd.ArrowDtype), grouped),
            ("row", "digits", "label", *more),
        )
        yield Door(
            f".csv of Windows{by}",
            _of_files(_write_windows_csv, {"label": "class"}, None, grouped=grouped),
            (*kinds, "cell", "category", "text", "line", *more),
            holds=_one_line,
            alone=False,
        )
        for how in ("inferred", "command"):
            bring = _of_files if how == "inferred" else _of_commands
            more_of = (None,) if how == "inferred" else ()
            yield Door(
                f".csv with line breaks, {how}{by}",
                bring(_write_csv(), {"label": "class"}, *more_of, grouped=grouped),
                (*kinds, "cell", "category", "text", "line", *more),
                rows="breaks",
                alone=False,
            )
        yield Door(
            f".csv of Windows with line breaks{by}",
            _of_files(_write_windows_csv, {"label": "class"}, None, grouped=grouped),
            (*kinds, "cell", "category", "text", "line", *more),
            rows="breaks",
            alone=False,
        )
        yield Door(
            f".csv, multiline{by}",
            _of_files(_write_csv(), {"label": "class", "quotes": "records"}, None, grouped=grouped),
            (*kinds, "cell", "category", "text", *more),
            rows="records",
            alone=False,
        )
        yield Door(
            f".csv, no quotes{by}",
            _of_files(_write_csv(), {"label": "class", "quotes": "none"}, None, grouped=grouped),
            (*kinds, "cell", "category", "text", "line", *more),
            holds=_one_line,
            alone=False,
        )
        frame = (*kinds, "cell", "category", "flag", "time", *more)
        yield Door(f"pandas, inferred{by}", _of_frames(_records, grouped), frame, holds=_in_pandas_text)
        yield Door(f"pandas, concatenated{by}", _of_frames(_typed, grouped), frame, holds=_concatenable)
        yield Door(f"pandas, categories{by}", _of_frames(_categories, grouped), frame, holds=_in_pandas_text)
        yield Door(f"pandas, objects{by}", _of_frames(_object_frame, grouped, _objects), frame)
        yield Door(f"pandas, nullable{by}", _of_frames(_nullable, grouped), frame, holds=_in_pandas_text)
        yield Door(f"pandas, of Arrow types{by}", _of_frames(_by_arrow, grouped), frame, holds=_holds_typed)
        for name, make, holds in (
            ("pandas, declared", _records, _in_pandas_text),
            ("pandas, objects, declared", _object_frame, lambda row: True),
            ("pandas, concatenated categories, declared", _concatenated_categories, _concatenable),
            ("pandas, of Arrow types, declared", _by_arrow, _holds_typed),
            ("pyarrow, declared", lambda rows: arrow_table(rows, TABLE), _holds_typed),
        ):
            yield Door(f"{name}{by}", _of_frames(make, grouped, schema=ROLES), frame, holds=holds)
        texts = {"column": _polars_column, "classes": ("0", "1")}
        for categories, name in ((False, "polars"), (True, "polars, categories")):
            yield Door(
                f"{name}{by}",
                _of_frames(_polars(categories), grouped, **texts),
                frame,
                holds=_holds_typed,
                needs="polars",
            )
        yield Door(
            f"pyarrow{by}",
            _of_frames(lambda rows: arrow_table(rows, TABLE), grouped, _arrow_keys),
            frame,
            holds=lambda row: _holds_typed(row) and _arrow_key(row.label) and isinstance(row.group, str | None),
        )
        yield Door(f"pyarrow, dictionary{by}", _of_frames(_arrow_categories, grouped), frame, holds=_holds_typed)
        yield Door(f"pyarrow, batch{by}", _of_frames(_arrow_batch, grouped), frame, holds=_holds_typed)
        texts_too = ("row", "text", "sample", "label", *more)
        yield Door(f"texts, list{by}", _of_arrays(_texts, grouped, TEXT_LEARNER), texts_too)
        yield Door(
            f"texts, array{by}", _of_arrays(lambda rows: _objects(_texts(rows)), grouped, TEXT_LEARNER), texts_too
        )
        yield Door(
            f"texts, pandas{by}",
            _of_arrays(lambda rows: pd.Series(_texts(rows)), grouped, TEXT_LEARNER),
            texts_too,
            holds=_text_of_pandas,
        )
        lines = (*kinds, "cell", "category", "text", "line", *more)
        for suffix, delimiter in ((".csv", ","), (".tsv", "\t")):
            table = {"label": "class"}
            write = _write_csv(suffix, delimiter=delimiter)
            yield Door(
                f"{suffix}, inferred{by}",
                _of_files(write, table, None, grouped=grouped),
                lines,
                holds=_one_line,
                alone=False,
            )
            yield Door(
                f"{suffix}, declared{by}",
                _of_files(write, table, None, grouped=grouped, declared="rows"),
                lines,
                holds=_one_line,
                alone=False,
            )
            yield Door(
                f"{suffix}, command{by}",
                _of_commands(write, table, grouped=grouped),
                lines,
                holds=_one_line,
                alone=False,
            )
        numbers_only = _write_csv(names=NUMBERS, maker=grouped)
        yield Door(
            f".csv of numbers, inferred{by}",
            _of_files(numbers_only, {"label": "class"}, STUMP, grouped=grouped),
            (*kinds, "cell", *more),
            holds=_one_line,
            alone=False,
        )
        texts_only = _write_csv(names=("words",), maker=grouped)
        yield Door(
            f".csv of texts, inferred{by}",
            _of_files(texts_only, {"label": "class"}, TEXT_LEARNER, grouped=grouped),
            ("row", "text", "label", *more),
            holds=_one_line,
            alone=False,
        )
        columns = (*kinds, "cell", "category", "flag", "time", "text", *more)
        for how, make in (
            ("inferred", _of_files(_write_parquet, {"label": "class"}, None, grouped=grouped)),
            ("declared", _of_files(_write_parquet, {"label": "class"}, None, grouped=grouped, declared="rows")),
            ("command", _of_commands(_write_parquet, {"label": "class"}, grouped=grouped)),
        ):
            yield Door(f".parquet, {how}{by}", make, columns, holds=_holds_parquet, alone=False)
        for dtype in ("float64", "float32", "big endian", "uint8"):
            learner = IMAGE_LEARNER if dtype == "uint8" else STUMP
            odd = ("row", "pixels", "label", *more) if dtype == "uint8" else numbers
            holds = {"uint8": _npz_keys, "float32": lambda row: _numeric(row) and _single(row) and _npz_keys(row)}.get(
                dtype, lambda row: _numeric(row) and _npz_keys(row)
            )
            yield Door(
                f".npz {dtype}, inferred{by}",
                _of_files(_write_npz(dtype), {}, learner, grouped=grouped),
                odd,
                holds=holds,
                alone=False,
            )
            yield Door(
                f".npz {dtype}, command{by}",
                _of_commands(_write_npz(dtype), {}, grouped=grouped),
                odd,
                holds=holds,
                alone=False,
            )
    for name, make in (
        ("array float64, classes inferred", _of_arrays(_floats, False, classes=None)),
        ("pandas, classes inferred", _of_frames(_records, False, classes=None)),
    ):
        yield Door(name, make, ("row", "label"))
    yield Door(
        "list of lists, labels above 2**53",
        _of_arrays(_matrix, False, classes=BIG_CLASSES),
        ("row", "label"),
        rows="big",
    )
    yield Door(
        "array float64, contributors by moment",
        _by_contributors(_moments_of_contributors),
        ("row", "moment of a contributor", "label"),
    )
    for name, keys in (
        ("a categorical", pd.Categorical),
        ("an array of pandas", lambda groups: pd.array(groups, dtype="Int64")),
        ("a column of pandas", lambda groups: pd.Series(groups, dtype="Int64").astype("category")),
    ):
        yield Door(
            f"array float64, contributors above 2**53 in {name}",
            _by_contributors(lambda rows, keys=keys: keys(_groups(rows)), BIG_CLASSES),
            ("row", "group"),
            rows="big",
            holds=lambda row: _whole_key(row.group),
        )
    yield Door(
        "pandas, contributors above 2**53",
        _of_frames(_object_frame, True, _objects, BIG_CLASSES),
        ("row", "group", "label"),
        rows="big",
    )
    yield Door(
        "pyarrow, contributors above 2**53",
        _of_frames(lambda rows: arrow_table(rows, TABLE), True, _arrow_keys, BIG_CLASSES),
        ("row", "group", "label"),
        rows="big",
        holds=lambda row: _whole_key(row.label) and _whole_key(row.group),
    )
    lines = ("row", "entries", "label", "line")
    for how, said, chosen in (
        ("inferred", {}, ("entries: beyond", "entries: only beyond", "line: svmlight: beyond")),
        ("declared", {"n_features": N_FEATURES}, ()),
    ):
        yield Door(f".svm, {how}", _of_files(_write_svm, said, STUMP), lines, holds=_word, alone=False, chosen=chosen)
    yield Door(".svm, command", _of_commands(_write_svm, {"n_features": N_FEATURES}), lines, holds=_word, alone=False)
    pictures = ("row", "picture", "label")
    for how, make in (
        ("inferred", _of_files(_write_folder, {"skip_bad": True}, IMAGE_LEARNER)),
        ("declared", _of_files(_write_folder, {"skip_bad": True}, IMAGE_LEARNER, declared="images")),
        (
            "in colour",
            _of_files(_write_folder, {"skip_bad": True, "image_size": (3, 5), "colour": True}, IMAGE_LEARNER),
        ),
        ("command", _of_commands(_write_folder, {"skip_bad": True, "image_size": (4, 4), "colour": False})),
    ):
        yield Door(f"image folder, {how}", make, pictures, rows="images", holds=_folder_name, alone=False)


def _filled(rows: tuple[Row, ...]) -> np.ndarray:
    """Honest cells that are missing are zero; an odd row keeps its own."""
    values = _floats(rows)
    honest = np.array([any(row is other for other in honest_rows("rows")) for row in rows])
    values[honest] = np.nan_to_num(values[honest])
    return values


def _in_pandas_text(row: Row) -> bool:
    """Whether the cells are hashable, and no text is one that pandas' own type of texts cannot hold."""
    return _hashable(row) and not (isinstance(row.cells["city"], str) and _surrogate(row.cells["city"]))


def _text_of_pandas(row: Row) -> bool:
    return not (isinstance(row.cells["words"], str) and _surrogate(row.cells["words"]))


def _concatenable(row: Row) -> bool:
    """pandas itself refuses to put times together that nanoseconds cannot count."""
    when, took = row.cells["when"], row.cells["took"]
    year = (
        when.year
        if isinstance(when, datetime.date)
        else int(str(when)[:5].strip("-"))
        if _is_numpy_time(when)
        else 2000
    )
    return (
        _in_pandas_text(row)
        and 1700 < year < 2200
        and not (_is_numpy_time(took) and took > np.timedelta64(9 * 10**9, "s"))
    )


def _is_numpy_time(value: Any) -> bool:
    return isinstance(value, np.datetime64 | np.timedelta64) and not np.isnat(value)


def _hashable(row: Row) -> bool:
    """Whether categories can be made of the cities; and no duration lacks a unit, for pandas gives it one by itself."""
    unitless = [cell for cell in row.cells.values() if isinstance(cell, np.timedelta64) and cell.dtype == "m8"]
    return not unitless and not isinstance(row.cells["city"], list | dict | np.ndarray)


def _arrow_key(value: Any) -> bool:
    return value is None or (type(value) is int and abs(value) < 2**63)


def _whole_key(value: Any) -> bool:
    return value is None or (type(value) is int and abs(value) < 2**63)


def _word(row: Row) -> bool:
    """A label that is one word, as svmlight has it."""
    return row.line is not None or (str(row.label).split() == [str(row.label)] and not _surrogate(str(row.label)))


DOORS = {door.name: door for door in _doors()}


# One case


ACTS = ("insert", "remove", "replace", "remove another")
PLACES = ("first", "middle", "last")


@dataclass(frozen=True)
class Case:
    """One act with one odd row at one door; ``train`` really trains, votes and updates besides comparing digests."""

    door: Door
    odd: str
    act: str = "insert"
    place: str = "middle"
    train: bool = False

    def __str__(self) -> str:
        return f"{self.door.name} | {self.odd} | {self.act} {self.place}"


@dataclass(frozen=True)
class Reading:
    """What a door made of some rows: every row with its content, label, partition and side, and the digests."""

    brought: Brought
    rows: Counter[Any]
    aside: dict[int, bool]
    digests: np.ndarray
    schema: str
    ensemble: Prepared


@dataclass(frozen=True)
class Change:
    """The rows before and after an act, and by how many they may differ."""

    before: tuple[Row, ...]
    after: tuple[Row, ...]
    removed: tuple[int, ...] = ()
    added: tuple[Row, ...] = ()


def change_of(act: str, place: str, honest: tuple[Row, ...], make: Odd) -> Change:
    at = {"first": 0, "middle": len(honest) // 2, "last": len(honest) - 1}[place]
    odd = make(honest[at], honest)
    at_end = at + (place == "last")
    with_odd = (*honest[:at_end], odd, *honest[at_end:])
    if act == "insert":
        return Change(honest, with_odd, (), (odd,))
    if act == "remove":
        return Change(with_odd, honest, (at_end,))
    if act == "replace":
        return Change(honest, (*honest[:at], odd, *honest[at + 1 :]), (at,), (odd,))
    gone = (at + 13) % len(honest)
    return Change(with_odd, (*with_odd[:gone], *with_odd[gone + 1 :]), (gone,))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def read(door: Door, rows: tuple[Row, ...]) -> Reading:
    """Bring rows through a door, as far as digests: nothing is trained."""
    with quiet(), tempfile.TemporaryDirectory(prefix="door", dir=_fast()) as folder:
        brought = door.bring(rows, Path(folder))
        prepared = prepare(brought.model, brought.X, brought.y, brought.groups)
        training, partition, classes = prepared.training, prepared.subsets.partition, _names(prepared.classes)
        names = [classes[code] for code in training.codes]
        keys = [training.samples.key(row) for row in range(len(training.samples))]
        counted = Counter(zip(["trained"] * len(keys), keys, names, partition.tolist(), strict=True))
        counted.update(_tested(brought))
        schema = f"{training.samples.layout} {brought.schema}"
        return Reading(brought, counted, _aside(brought, rows), prepared.digests, schema, prepared)


def _fast() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _tested(brought: Brought) -> Counter[Any]:
    """The rows that a reader held out."""
    if brought.tested is None:
        return Counter()
    X, y = brought.tested
    samples = split_of(brought.model).samples(X)
    return Counter(("held out", samples.key(row), str(label), None) for row, label in enumerate(y))


def _aside(brought: Brought, rows: tuple[Row, ...]) -> dict[int, bool]:
    """Where no reader held rows out: whether `held_out` would, for each row."""
    if brought.tested is not None:
        return {}
    aside = held_out(brought.X, SHARE, groups=as_values(brought.groups), dtype=split_of(brought.model).dtype)
    return {id(row): bool(out) for row, out in zip(rows, aside, strict=True)}


@cache
def _honest(name: str) -> Reading:
    door = DOORS[name]
    return read(door, honest_rows(door.rows))


def _reading(door: Door, rows: tuple[Row, ...]) -> Reading:
    return _honest(door.name) if rows is honest_rows(door.rows) and DOORS.get(door.name) is door else read(door, rows)


def faults_of(case: Case, make: Odd | None = None) -> list[str]:
    """What this act moved that it had no right to; nothing, if the door is sound."""
    door, honest = case.door, honest_rows(case.door.rows)
    change = change_of(case.act, case.place, honest, make or odd_row(case.odd))
    try:
        before, after = _reading(door, change.before), _reading(door, change.after)
    except Exception as error:
        return [f"one row stops the training: {type(error).__name__}: {' '.join(str(error).split())[:150]}"]
    train = case.train or _classes_moved(before, after)
    return [*_moved(case, change, before, after), *(_retrained(case, change, before, after) if train else [])]


def _moved(case: Case, change: Change, before: Reading, after: Reading) -> list[str]:
    """By content and digests: what came, what went, and which base classifiers noticed."""
    faults = []
    if before.schema != after.schema:
        if case.odd in case.door.chosen and not after.brought.schema_declared:
            return []  # chosen from this data, and the certificate says so
        faults.append(f"the schema moved: {before.schema} became {after.schema}")
    lost, gained = before.rows - after.rows, after.rows - before.rows
    for what, moved, most in (("went", lost, len(change.removed)), ("came", gained, len(change.added))):
        if moved.total() > most:
            faults.append(f"{moved.total()} rows {what} where at most {most} may: {[*moved][:2]}")
    crossed = [row for row, out in before.aside.items() if after.aside.get(row, out) != out]
    if crossed:
        faults.append(f"{len(crossed)} other rows moved into the held-out set or out of it")
    if _classes_moved(before, after):
        return (
            faults  # inferred classes are a premise, and a certificate reckons with one more; votes are asked by name
        )
    noticed = set(np.flatnonzero((before.digests != after.digests).any(axis=1)).tolist())
    if not noticed <= _may_notice(before, after):
        faults.append(f"base classifiers {sorted(noticed)} moved, and only {sorted(_may_notice(before, after))} may")
    return faults


def _classes_moved(before: Reading, after: Reading) -> bool:
    """Whether inferred classes differ, be it in their type alone: digests name them."""
    lists = {repr(reading.ensemble.classes.tolist()) for reading in (before, after)}
    return before.brought.model.classes is None and len(lists) > 1


def _may_notice(before: Reading, after: Reading) -> set[int]:
    """The base classifiers that the rows which came or went feed."""
    spread = before.ensemble.spread
    moved = [*(before.rows - after.rows), *(after.rows - before.rows)]
    return {int(i) for row in moved if row[0] == "trained" for i in spread.subsets_of(row[3])}


def _retrained(case: Case, change: Change, before: Reading, after: Reading) -> list[str]:
    """By training: votes on fixed test samples, to the bit; and `update` against a fresh fit."""
    with quiet():
        try:
            test = _test_samples(case.door)
            fitted, fresh = (_fitted(reading) for reading in (before, after))
            said, said_then = (_votes(model, test) for model in (fitted, fresh))
            moved = set(np.flatnonzero((said != said_then).any(axis=0)).tolist())
            faults = []
            if not moved <= _may_notice(before, after):
                faults.append(f"votes of {sorted(moved)} moved, and only {sorted(_may_notice(before, after))} may")
            updated = _updated(case, change, fitted, before, after)
            same_type = repr(updated.classes_.tolist()) == repr(
                fresh.classes_.tolist()
            )  # of 1 and 1.0 the first stands
            if same_type and not np.array_equal(updated.subset_digests_, fresh.subset_digests_):
                faults.append("update gives other digests than a fresh fit")
            if not np.array_equal(_votes(updated, test), said_then):
                faults.append("update gives other votes than a fresh fit")
            return faults
        except Exception as error:
            return [
                f"one row stops training, votes or update: {type(error).__name__}: {' '.join(str(error).split())[:150]}"
            ]


def _fitted(reading: Reading) -> FiniteAggregationClassifier:
    """A model of its own: what the honest rows gave is kept for other cases, and `update` changes a model."""
    brought = reading.brought
    return copy(brought.model).fit(brought.X, brought.y, brought.groups)


def _votes(model: FiniteAggregationClassifier, test: Any) -> np.ndarray:
    """Votes as the names of classes, so that another list of classes does not count as another vote."""
    votes = model.votes(test)
    return np.array([*_names(votes.classes), "abstains"])[votes.matrix]


def _names(classes: Any) -> list[str]:
    """Classes by their value: an odd one among them may turn the others to floats or objects."""
    return [repr(cell) for cell in label_cells(list(classes))]


def _test_samples(door: Door) -> Any:
    brought = _reading(door, honest_rows(door.rows)).brought
    samples = brought.X if brought.tested is None else brought.tested[0]
    return take_rows(samples, np.arange(min(N_TEST, count_rows(samples))))


def _updated(
    case: Case, change: Change, fitted: FiniteAggregationClassifier, before: Reading, after: Reading
) -> FiniteAggregationClassifier:
    if case.door.alone:
        remove, add = list(change.removed), None
        if change.added:
            more = case.door.bring(change.added, Path())
            y = _objects(more.y) if isinstance(more.y, list) else more.y  # [[1]] would be a column of labels
            add = (more.X, y) if more.groups is None else (more.X, y, more.groups)
    else:
        remove, come = _differing(before.brought, after.brought), _differing(after.brought, before.brought)
        more = after.brought
        add = None
        if come:
            parts = (take_rows(more.X, come), more.y[come], None if more.groups is None else more.groups[come])
            add = parts[:2] if more.groups is None else parts
    fitted.update(add=add, remove=remove)
    return fitted


def _differing(here: Brought, there: Brought) -> list[int]:
    """Rows of one that the other does not have."""
    known = Counter(_identities(there))
    rows = []
    for row, identity in enumerate(_identities(here)):
        if known[identity]:
            known[identity] -= 1
        else:
            rows.append(row)
    return rows


def _identities(brought: Brought) -> list[Any]:
    samples = split_of(brought.model).samples(brought.X)
    groups = [None] * len(samples) if brought.groups is None else list(brought.groups)
    return [(samples.key(row), str(brought.y[row]), str(groups[row])) for row in range(len(samples))]


# Many cases


def here(door: Door) -> bool:
    """Whether the library that a door needs is installed."""
    return door.needs is None or find_spec(door.needs) is not None


@cache
def odd_names(name: str) -> tuple[str, ...]:
    """The odd rows that can come through a door."""
    door = DOORS[name]
    honest = honest_rows(door.rows)
    return tuple(
        odd for kind in door.takes for odd, make in odd_rows()[kind].items() if door.holds(make(honest[3], honest))
    )


def pairs() -> list[tuple[Door, str]]:
    return [(door, odd) for door in DOORS.values() if here(door) for odd in odd_names(door.name)]


def some_cases(count: int, seed: int = 0, trained: float = 0.02) -> Iterator[Case]:
    """Every door with every odd row in turn, acts and places drawn; a share of them really trained."""
    rng = np.random.default_rng(seed)
    every = pairs()
    while count > 0:
        for at in rng.permutation(len(every))[:count]:
            door, odd = every[at]
            yield Case(door, odd, str(rng.choice(ACTS)), str(rng.choice(PLACES)), bool(rng.random() < trained))
        count -= len(every)

"""The split and the digests of the data, recomputed with xxhash's own package from each sample's canonical bytes.

Canonical bytes (docs/files.md): dense numbers as float64 (or uint8 where declared) in C order, little endian, −0.0 as
0.0, and one NaN for what is missing or infinite; sparse rows as column indices (int64), then values (float64), those of
one place added, the smallest first; texts as UTF-8; a table row as 8 bytes a cell, a number as float64, a time as its
whole microseconds, missing or infinite as NaN, a text as its xxh64 with bit 62 cleared; U+FFFD for each surrogate. A
label or contributor is such a cell too, but True and False are texts; a text of ASCII digits without a leading zero,
perhaps a minus before and a point and zeros behind, is that whole number; what has more than 1,000 characters is
missing; and a whole number that float64 cannot hold is the hash of "i" and its digits.

xxh64 can be solved for, so digests of the data go by whole contents: the same bytes, but a cell is "m" if missing, "n"
and float64, or "t" and "i" with the length in 8 bytes and then a text or the digits of a large whole number.
"""

from __future__ import annotations

import datetime
import hashlib
import math
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from poisonproof.verification.files import sha256_of_array
from poisonproof.verification.verdict import CheckSkipped

_WITHOUT_BIT_62 = (1 << 64) - 1 - (1 << 62)
_MIDNIGHT_OF_1970 = datetime.datetime(1970, 1, 1)
_LARGEST_PIXEL = 2**40
_LONGEST_LABEL = 1_000
# NumPy's units in microseconds; a duration of months or years counts mean ones of the Gregorian calendar.
_UNITS = {"as": Fraction(1, 10**12), "fs": Fraction(1, 10**9), "ps": Fraction(1, 10**6), "ns": Fraction(1, 1000)} | {
    unit: Fraction(10**6) * seconds
    for unit, seconds in {
        "generic": Fraction(1, 10**6),
        "us": Fraction(1, 10**6),
        "ms": Fraction(1, 1000),
        "s": Fraction(1),
        "m": Fraction(60),
        "h": Fraction(3600),
        "D": Fraction(86400),
        "W": Fraction(604800),
        "M": Fraction(31556952, 12),
        "Y": Fraction(31556952),
    }.items()
}


def data_digests(data: Any, groups: Any = None) -> dict[str, str]:
    """SHA-256 over those of the whole contents of samples, labels and contributors, in the order given."""
    contents: dict[str, Iterable[bytes]] = {
        f"x_{part}": _contents(getattr(data, part).X, data.dtype) for part in ("train", "test")
    }
    labels = {part: labels_of(getattr(data, part).labels) for part in ("train", "test")}
    contents |= {f"y_{part}": _cell_contents(cells, _exactly) for part, cells in labels.items()}
    if groups is not None:
        contents["groups"] = _cell_contents(labels_of(groups), _exactly)
    return {name: _digest_of(rows) for name, rows in contents.items()}


def _digest_of(contents: Iterable[bytes]) -> str:
    rows = [hashlib.sha256(content).digest() for content in contents]
    return sha256_of_array(np.array(rows, "V32"))


def _contents(X: Any, dtype: str) -> Iterable[bytes]:
    """The whole content of each sample."""
    if not hasattr(X, "columns"):
        return _canonical_rows(X, dtype)
    columns = [_cell_contents(X.iloc[:, at].astype(object), float) for at in range(X.shape[1])]
    return (b"".join(row) for row in zip(*columns, strict=True))


def _cell_contents(cells: Iterable[Any], number: Any) -> list[bytes]:
    """The whole content of each cell: missing, a number, a text, or a whole number that no float is."""
    contents = []
    for cell in cells:
        value = cell if isinstance(cell, Fraction) else _read(cell)  # a label that was read may be beyond float64
        exact = value if value is None or isinstance(value, str) else number(value)
        if exact is None:
            contents.append(b"m")
        elif isinstance(exact, str):
            large = not isinstance(value, str)
            letters = exact[1:].encode() if large else exact.encode()
            contents.append((b"i" if large else b"t") + len(letters).to_bytes(8, "little") + letters)
        else:
            contents.append(b"n" + _canonical(np.array([exact], "<f8")).tobytes())
    return contents


def partitions(split: dict[str, Any], n: int, X: Any, y: Any, groups: Any = None) -> NDArray[np.int64]:
    """The partition of each sample: a hash, or the sum of its values, modulo n."""
    if split["kind"] == "group":
        if groups is None:
            raise CheckSkipped("the split is by contributor; give groups= to recompute it.")
        return _modulo(_xxh64(row.tobytes() for row in label_codes(groups)), n)
    if split["kind"] == "pixel-sum":
        dense = np.asarray(X.toarray() if hasattr(X, "tocsr") else X)
        rows = dense.reshape(len(dense), -1)
        if dense.dtype == np.uint8:
            return rows.astype(np.int64).sum(axis=1) % n
        return np.array([_pixel_sum(row) % n for row in rows], np.int64)
    schema = split.get("schema")
    if schema is not None and hasattr(X, "columns"):
        hashes = _by_schema(X, schema)
    else:
        hashes = content_hashes(X, split["dtype"], split["n_features"])
    if split["hash_labels"]:
        pairs = zip(hashes.astype("<u8"), label_codes(y), strict=True)
        hashes = _xxh64(content.tobytes() + label.tobytes() for content, label in pairs)
    return _modulo(hashes, n)


def content_hashes(X: Any, dtype: str, n_features: int | None = None) -> NDArray[np.uint64]:
    """xxh64 of each sample's canonical bytes."""
    if hasattr(X, "columns"):
        cells = [_codes(X.iloc[:, at].astype(object), float) for at in range(X.shape[1])]
        return _xxh64(row.tobytes() for row in np.column_stack(cells))
    return _xxh64(_canonical_rows(X, dtype, n_features))


def _canonical_rows(X: Any, dtype: str, n_features: int | None = None) -> Iterable[bytes]:
    """The canonical bytes of sparse rows, texts or dense numbers."""
    if hasattr(X, "tocsr"):
        return _sparse_rows(X, n_features)
    if _are_texts(X):
        return (_valid(text).encode() if isinstance(text, str) else b"" for text in X)
    values = _dense(X).astype("u1" if dtype == "uint8" else "<f8", copy=False)
    return (_canonical(row).tobytes() for row in values)


def label_codes(labels: Iterable[Any]) -> NDArray[np.float64]:
    """8 bytes for each label or contributor: a number is itself, a text its hash, missing is NaN."""
    return _codes(labels_of(labels), _exactly)


def labels_of(labels: Iterable[Any]) -> list[Fraction | str | None]:
    """Each label or contributor as an exact number, a text, or None for what is missing or no label."""
    return [_label(label) for label in labels]


def places_among(classes: Iterable[Any], labels: Iterable[Any]) -> NDArray[np.int64]:
    """The place of each label in a class list; −1 for none."""
    places: dict[Any, int] = {label: at for at, label in enumerate(labels_of(classes)) if label is not None}
    return np.array([places.get(label, -1) for label in labels_of(labels)], np.int64)


def _label(label: Any) -> Fraction | str | None:
    if isinstance(label, bool | np.bool_):
        return "True" if label else "False"
    read = Fraction(label) if isinstance(label, int) else _read(label)
    if isinstance(read, Fraction):
        read = read if read.denominator == 1 else Fraction(float(read))
        return None if abs(read) >= 10**_LONGEST_LABEL else read
    if read is None or len(read) > _LONGEST_LABEL:
        return None
    head, point, zeros = read.removeprefix("-").partition(".")
    whole = head.isascii() and head.isdigit() and (head == "0" or head[0] != "0") and set(zeros) <= {"0"}
    return Fraction(int(head) * (-1 if read[0] == "-" else 1)) if whole and bool(point) == bool(zeros) else read


def _valid(text: str) -> str:
    return "".join("\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in text)


def complete(X: Any) -> NDArray[np.bool_]:
    """Which samples hold no missing or infinite number; tables and texts have other ways to be missing."""
    if hasattr(X, "columns") or _are_texts(X):
        return np.ones(len(X), np.bool_)
    if hasattr(X, "tocsr"):
        matrix = X.tocsr()
        parts = [matrix.data[matrix.indptr[row] : matrix.indptr[row + 1]] for row in range(matrix.shape[0])]
        return np.array([bool(np.isfinite(part).all()) for part in parts], np.bool_)
    return np.array([bool(np.isfinite(row).all()) for row in _dense(X).astype(np.float64)], np.bool_)


def _dense(X: Any) -> NDArray[Any]:
    """Times by their own rule, whatever the unit of the array."""
    values = np.asarray(X)
    if values.dtype.kind not in "mM":
        return values
    return np.array(_codes(list(values.ravel()), float)).reshape(values.shape)


def _by_schema(X: Any, schema: dict[str, Any]) -> NDArray[np.uint64]:
    """The same of a table read by a schema: each cell by the role of its column, whatever dtype that has."""
    columns, missing, comma = [], schema["missing"], schema.get("decimal") == ","
    for name, role in schema["columns"].items():
        if role in ("number", "category", "text"):
            cells = X[name].astype(object)
            read = (
                [_written_number(cell, missing, comma) for cell in cells]
                if role == "number"
                else [_written_text(cell, missing) for cell in cells]
            )
            columns.append(_codes(read, float))
    return _xxh64(row.tobytes() for row in np.column_stack(columns))


def _written_number(cell: Any, missing: list[str], comma: bool) -> Any:
    if not isinstance(cell, str):
        return cell
    word = cell.strip()
    if word in missing or "_" in word or not word.isascii() or (comma and "." in word):
        return None
    word = word.replace(",", ".") if comma else word
    try:
        return float(word)
    except ValueError:
        return None


def _written_text(cell: Any, missing: list[str]) -> str | None:
    if isinstance(cell, float | np.floating):
        number = float(cell)
        whole = number.is_integer() and abs(number) < 2**53
        word = "" if not math.isfinite(number) else str(int(number)) if whole else repr(number)
    elif isinstance(cell, bool | np.bool_ | int | str):
        word = str(cell).strip()
    elif _read(cell) is None:
        return None
    else:
        raise CheckSkipped(f"a value of type {type(cell).__name__} in a column of texts is beyond this checker.")
    return None if word in missing else word


def _are_texts(X: Any) -> bool:
    """Whether more samples are texts than rows."""
    rows, texts = ([isinstance(sample, kind) for sample in X] for kind in (list | tuple | np.ndarray, str))
    return sum(texts) > sum(rows)


def _codes(cells: Iterable[Any], number: Any) -> NDArray[np.float64]:
    codes = []
    for cell in cells:
        value = cell if isinstance(cell, Fraction) else _read(cell)
        value = value if value is None or isinstance(value, str) else number(value)
        codes.append(np.nan if value is None else _hash_of(value) if isinstance(value, str) else value)
    return _canonical(np.array(codes, "<f8"))


def _hash_of(text: str) -> float:
    bits = xxhash.xxh64_intdigest(text.encode()) & _WITHOUT_BIT_62
    return float(np.uint64(bits).view(np.float64))


def _exactly(value: Any) -> float | str:
    """A finite number as a float, or as a text if it is whole and no float is it."""
    held = abs(value) < 2**1024 - 2**970 and Fraction(float(value)) == value
    return f"i{int(value)}" if value.denominator == 1 and not held else float(value)


def _read(cell: Any) -> Fraction | str | None:
    """A cell as an exact number, a text, or None for what is missing, infinite or anything else."""
    if isinstance(cell, str):
        return _valid(cell)
    if isinstance(cell, np.datetime64 | np.timedelta64) or hasattr(cell, "asm8"):  # to NumPy a duration is an integer
        return _units(getattr(cell, "asm8", cell))
    if isinstance(cell, bool | np.bool_ | np.integer):
        return Fraction(int(cell))
    if isinstance(cell, datetime.timedelta | datetime.date | datetime.time):
        return _of_python(cell)
    if isinstance(cell, Rational | float | np.floating | Decimal):
        try:
            exact = Fraction(float(cell) if isinstance(cell, np.floating) else cell)
            return exact if math.isfinite(float(exact)) else None
        except (OverflowError, ValueError):  # infinite, not a number, or beyond float64
            return None
    return None


def _units(moment: np.datetime64 | np.timedelta64) -> Fraction | None:
    if np.isnat(moment):
        return None
    if moment.dtype.kind == "M" and np.datetime_data(moment.dtype)[0] in ("Y", "M"):
        moment = moment.astype("M8[D]")
    unit, multiple = np.datetime_data(moment.dtype)
    return Fraction(math.floor(int(moment.astype(np.int64)) * multiple * _UNITS[unit]))


def _of_python(moment: Any) -> Fraction:
    if isinstance(moment, datetime.time):
        moment = datetime.datetime.combine(_MIDNIGHT_OF_1970, moment.replace(tzinfo=None))
    if isinstance(moment, datetime.datetime):
        offset = moment.utcoffset() or datetime.timedelta(0)
        moment = moment.replace(tzinfo=None) - _MIDNIGHT_OF_1970 - offset
    elif isinstance(moment, datetime.date):
        moment = datetime.timedelta(moment.toordinal() - _MIDNIGHT_OF_1970.toordinal())
    return Fraction(moment // datetime.timedelta(microseconds=1))


def _pixel_sum(row: NDArray[Any]) -> int:
    """The sum of the values, each rounded down and kept within bounds; missing and infinite ones are 0."""
    values = (math.floor(value) for value in row.tolist() if math.isfinite(value))
    return sum(min(max(value, -_LARGEST_PIXEL), _LARGEST_PIXEL) for value in values)


def _sparse_rows(X: Any, n_features: int | None) -> Iterable[bytes]:
    """Entries of one place are added as float64, the smallest first."""
    entries = X.tocoo()
    rows: list[dict[int, list[float]]] = [{} for _ in range(X.shape[0])]
    for row, index, value in zip(entries.row.tolist(), entries.col.tolist(), entries.data.tolist(), strict=True):
        if n_features is None or index < n_features:
            rows[row].setdefault(index, []).append(float(value))
    for sample in rows:
        sums = _canonical(np.array([_sum(sample[index]) for index in sorted(sample)], np.float64))
        indices = np.array(sorted(sample), "<i8")
        yield indices[sums != 0].tobytes() + sums[sums != 0].tobytes()


def _sum(values: list[float]) -> float:
    """NaN if one of them is."""
    total = 0.0
    for value in sorted(values) if all(value == value for value in values) else [math.nan]:
        total += value
    return total


def _canonical(values: NDArray[Any]) -> NDArray[Any]:
    """0.0 for −0.0, and one NaN, for infinity too."""
    if values.dtype.kind != "f":
        return values
    return np.where(np.isfinite(values), np.where(values == 0, 0.0, values), np.nan).astype("<f8")


def _xxh64(pieces: Iterable[bytes]) -> NDArray[np.uint64]:
    return np.array([xxhash.xxh64_intdigest(piece) for piece in pieces], np.uint64)


def _modulo(hashes: NDArray[np.uint64], n: int) -> NDArray[np.int64]:
    return (hashes % np.uint64(n)).astype(np.int64)

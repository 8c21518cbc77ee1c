"""The table of entry points: every way by which rows come in."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
from sklearn.naive_bayes import GaussianNB

from entry_points.arrays import (
    BIG_CLASSES,
    IMAGE_LEARNER,
    STUMP,
    TEXT_LEARNER,
    EntryPoint,
    by_contributors,
    complex_of,
    decimals,
    durations,
    floats_of,
    groups_of,
    images_of,
    in_a_column,
    in_parts,
    inside,
    matrix_of,
    moments,
    moments_of_contributors,
    numeric,
    numeric_or_complex,
    objects,
    of_arrays,
    rows_of_objects,
    sparse,
    whole_of,
    written_of,
)
from entry_points.files import (
    folder_name,
    holds_parquet,
    npz_keys,
    of_commands,
    of_files,
    one_line,
    one_record,
    single,
    write_csv,
    write_folder,
    write_npz,
    write_parquet,
    write_svm,
    write_windows_csv,
)
from entry_points.frames import (
    ROLES,
    arrow_batch,
    arrow_categories,
    arrow_keys,
    arrow_table,
    by_arrow,
    categories_of,
    concatenated_categories,
    holds_typed,
    inferred,
    nullable,
    object_frame,
    of_frames,
    of_read,
    polars,
    polars_column,
    records,
    surrogate,
    texts_of,
    typed,
)
from entry_points.rows import N_FEATURES, NUMBERS, TABLE, Row, honest_rows


def _anything(row: Row) -> bool:
    return True


ENTRY_POINTS: dict[str, EntryPoint] = {}


def _add(name: str, load: Any, takes: tuple[str, ...], holds: Any = _anything, **more: Any) -> None:
    ENTRY_POINTS[name] = EntryPoint(name, load, takes, holds=holds, **more)


def _add_arrays(grouped: bool, by: str, more: tuple[str, ...]) -> None:
    numbers, entries = ("row", "numbers", "label", "cell", *more), ("row", "entries", "label", *more)
    pixels = ("row", "pixels", "label", *more)

    def add(name: str, make: Any, holds: Any = _anything, takes: Any = numbers, *of: Any, **options: Any) -> None:
        _add(f"{name}{by}", of_arrays(make, grouped, *of, **options), takes, holds)

    add("array float64", floats_of, numeric)
    add("array float32", lambda rows: floats_of(rows).astype(np.float32), lambda row: numeric(row) and single(row))
    add("array in Fortran's order", lambda rows: np.asfortranarray(floats_of(rows)), numeric)
    add("array int64", lambda rows: np.array(matrix_of(rows, ("b", "big")), np.int64), whole_of)
    add("array uint8", pixels_of, _anything, pixels, IMAGE_LEARNER, dtype="uint8")
    add("array of objects", rows_of_objects)
    add("list of lists", matrix_of)
    add("array, learner without missing values", _filled, numeric, numbers, GaussianNB())
    for form in ("csr", "csr int64", "csr array", "csc", "coo"):
        add(f"sparse {form}", sparse(form), _anything, entries, n_features=N_FEATURES)
    add("sparse csr, width inferred", sparse("csr"), inside, entries)
    for form in ("csr", "coo", "csc", "csr, bytes", "coo, bytes"):
        add(f"sparse {form}, in parts", in_parts(form), _anything, entries, n_features=N_FEATURES)
    for name, make in (("moments", moments), ("durations", durations)):
        add(f"array of {name}", make, _anything, ("row", "moment", "label", *more))
    add("array of texts", written_of)
    add("array, complex", complex_of, numeric_or_complex)
    for form in ("arrays", "lists"):
        add(f"list of images, {form}", images_of(form), _anything, (*pixels, "shape"), IMAGE_LEARNER)
    _add(f"list of lists, labels in a column{by}", in_a_column(grouped), numbers)
    texts = ("row", "text", "sample", "label", *more)
    add("texts, list", texts_of, _anything, texts, TEXT_LEARNER)
    add("texts, array", lambda rows: objects(texts_of(rows)), _anything, texts, TEXT_LEARNER)
    add("texts, pandas", lambda rows: inferred(texts_of(rows)), _text_of_pandas, texts, TEXT_LEARNER)


def _add_frames(grouped: bool, by: str, more: tuple[str, ...]) -> None:
    frame = ("row", "numbers", "label", "cell", "category", "flag", "time", *more)

    def add(name: str, make: Any, holds: Any = _anything, *of: Any, takes: Any = frame, **options: Any) -> None:
        needs = "polars" if name.startswith("polars") else None
        _add(f"{name}{by}", of_frames(make, grouped, *of, **options), takes, holds, needs=needs)

    def table(rows: tuple[Row, ...]) -> Any:
        return arrow_table(rows, TABLE)

    digits = ("row", "digits", "label", *more)
    add("pyarrow, decimals", decimals, takes=digits)
    add(
        "pandas, decimals of Arrow",
        lambda rows: decimals(rows).to_pandas(types_mapper=pd.ArrowDtype),
        takes=digits,
    )
    add("pandas, inferred", records, _in_pandas_text)
    add("pandas, concatenated", typed, _concatenable)
    add("pandas, categories", categories_of, _in_pandas_text)
    add("pandas, objects", object_frame, _anything, objects)
    add("pandas, nullable", nullable, _in_pandas_text)
    add("pandas, of Arrow types", by_arrow, holds_typed)
    _add(f"pandas, read{by}", of_read(records, grouped), frame, _in_pandas_text, alone=False)
    _add(f"pandas, objects, read, declared{by}", of_read(object_frame, grouped, ROLES), frame, alone=False)
    add("pandas, declared", records, _in_pandas_text, schema=ROLES)
    add("pandas, objects, declared", object_frame, schema=ROLES)
    add("pandas, concatenated categories, declared", concatenated_categories, _concatenable, schema=ROLES)
    add("pandas, of Arrow types, declared", by_arrow, holds_typed, schema=ROLES)
    add("pyarrow, declared", table, holds_typed, schema=ROLES)
    for categories, name in ((False, "polars"), (True, "polars, categories")):
        add(name, polars(categories), holds_typed, polars_column, ("0", "1"))
    add(
        "pyarrow",
        table,
        lambda row: holds_typed(row) and _whole_key(row.label) and isinstance(row.group, str | None),
        arrow_keys,
    )
    add("pyarrow, dictionary", arrow_categories, holds_typed)
    add("pyarrow, batch", arrow_batch, holds_typed)


def _add_files(grouped: bool, by: str, more: tuple[str, ...]) -> None:
    kinds, label = ("row", "numbers", "label"), {"label": "class"}
    lines = (*kinds, "cell", "category", "text", "line", *more)
    columns = (*kinds, "cell", "category", "flag", "time", "text", *more)

    def add(name: str, write: Any, takes: Any, holds: Any, learner: Any = None, said: Any = label, **how: Any) -> None:
        rows = how.pop("rows", "rows")
        load = of_files(write, said, learner, grouped=grouped, **how)
        _add(f"{name}{by}", load, takes, holds, rows=rows, alone=False)

    def by_command(name: str, write: Any, takes: Any, holds: Any, said: Any = label, rows: str = "rows") -> None:
        _add(f"{name}, command{by}", of_commands(write, said, grouped=grouped), takes, holds, rows=rows, alone=False)

    for what, kind in (("", "rows"), (" with line breaks", "breaks"), (" with rows in quotes", "records")):
        for name, write in ((f".csv{what}", write_csv()), (f".csv of Windows{what}", write_windows_csv)):
            add(f"{name}, inferred", write, lines, one_record, rows=kind)
            if kind == "rows":
                add(f"{name} by lines, inferred", write, lines, one_line, said={**label, "lines": True})
        by_command(f".csv{what}", write_csv(), lines, one_record, rows=kind)
    tabs = write_csv(".tsv", delimiter="\t")
    add(".csv, declared", write_csv(), lines, one_record, declared="rows")
    add(".tsv, inferred", tabs, lines, one_record)
    add(".tsv, declared", tabs, lines, one_record, declared="rows")
    by_command(".tsv", tabs, lines, one_record)
    numbers_only = write_csv(names=NUMBERS, maker=grouped)
    add(".csv of numbers, inferred", numbers_only, (*kinds, "cell", *more), one_line, STUMP)
    texts_only = write_csv(names=("words",), maker=grouped)
    add(".csv of texts, inferred", texts_only, ("row", "text", "label", *more), one_line, TEXT_LEARNER)
    add(".parquet, inferred", write_parquet, columns, holds_parquet)
    add(".parquet, declared", write_parquet, columns, holds_parquet, declared="rows")
    by_command(".parquet", write_parquet, columns, holds_parquet)
    for dtype in ("float64", "float32", "big endian", "uint8"):
        if dtype == "uint8":
            learner, odd, holds = IMAGE_LEARNER, ("row", "pixels", "label", *more), npz_keys
        else:
            learner, odd = STUMP, (*kinds, "cell", *more)
            holds = _single_in_npz if dtype == "float32" else _numeric_in_npz
        add(f".npz {dtype}, inferred", write_npz(dtype), odd, holds, learner, {})
        by_command(f".npz {dtype}", write_npz(dtype), odd, holds, {})


def _add_others() -> None:
    """Inferred classes, other splits, contributors and labels above what floats count, svmlight, folders of images."""
    _add("array float64, classes inferred", of_arrays(floats_of, False, classes=None), ("row", "label"))
    _add("pandas, classes inferred", of_frames(records, False, classes=None), ("row", "label"))
    hashed = of_arrays(floats_of, False, hash_labels=True)
    _add("array float64, labels in the hash", hashed, ("row", "numbers", "label", "cell"), numeric)
    sums = of_arrays(pixels_of, False, IMAGE_LEARNER, kind="pixel-sum")
    _add("array uint8, pixel sums", sums, ("row", "pixels", "label"))
    big = of_arrays(matrix_of, False, classes=BIG_CLASSES)
    _add("list of lists, labels above 2**53", big, ("row", "label"), rows="big")
    moments = by_contributors(moments_of_contributors)
    _add("array float64, contributors by moment", moments, ("row", "moment of a contributor", "label"))
    for name, keys in (
        ("a categorical", pd.Categorical),
        ("an array of pandas", lambda groups: pd.array(groups, dtype="Int64")),
        ("a column of pandas", lambda groups: pd.Series(groups, dtype="Int64").astype("category")),
    ):
        load = by_contributors(lambda rows, keys=keys: keys(groups_of(rows)), BIG_CLASSES)
        name = f"array float64, contributors above 2**53 in {name}"
        _add(name, load, ("row", "group"), lambda row: _whole_key(row.group), rows="big")
    for name, load, holds in (
        ("pandas", of_frames(object_frame, True, objects, BIG_CLASSES), _anything),
        (
            "pyarrow",
            of_frames(lambda rows: arrow_table(rows, TABLE), True, arrow_keys, BIG_CLASSES),
            lambda row: _whole_key(row.label) and _whole_key(row.group),
        ),
    ):
        _add(f"{name}, contributors above 2**53", load, ("row", "group", "label"), holds, rows="big")
    lines, width = ("row", "entries", "label", "line"), {"n_features": N_FEATURES}
    beyond = ("entries: beyond", "entries: only beyond", "line: svmlight: beyond")
    _add(".svm, inferred", of_files(write_svm, {}, STUMP), lines, _word, alone=False, chosen=beyond)
    _add(".svm, declared", of_files(write_svm, width, STUMP), lines, _word, alone=False)
    _add(".svm, command", of_commands(write_svm, width), lines, _word, alone=False)
    sizes, colour = ("picture: another size", "picture: one pixel"), {"image_size": (3, 5), "colour": True}
    for how, load, chosen in (
        ("inferred", of_files(write_folder, {}, IMAGE_LEARNER), sizes),
        ("declared", of_files(write_folder, {}, IMAGE_LEARNER, declared="images"), ()),
        ("in colour", of_files(write_folder, colour, IMAGE_LEARNER), ()),
        ("command", of_commands(write_folder, {"image_size": (4, 4), "colour": False}), ()),
    ):
        pictures = ("row", "picture", "label")
        _add(f"image folder, {how}", load, pictures, folder_name, rows="images", alone=False, chosen=chosen)


def pixels_of(rows: tuple[Row, ...]) -> np.ndarray:
    return np.array([row.cells["pixels"] for row in rows])


def _numeric_in_npz(row: Row) -> bool:
    return numeric(row) and npz_keys(row)


def _single_in_npz(row: Row) -> bool:
    return _numeric_in_npz(row) and single(row)


def _filled(rows: tuple[Row, ...]) -> np.ndarray:
    """Honest cells that are missing are zero; an odd row keeps its own."""
    values = floats_of(rows)
    honest = np.array([any(row is other for other in honest_rows("rows")) for row in rows])
    values[honest] = np.nan_to_num(values[honest])
    return values


def _in_pandas_text(row: Row) -> bool:
    """Whether the cells are hashable, and no text is one that pandas' own type of texts cannot hold."""
    return _hashable(row) and not (isinstance(row.cells["city"], str) and surrogate(row.cells["city"]))


def _text_of_pandas(row: Row) -> bool:
    return not (isinstance(row.cells["words"], str) and surrogate(row.cells["words"]))


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


def _whole_key(value: Any) -> bool:
    return value is None or (type(value) is int and abs(value) < 2**63)


def _word(row: Row) -> bool:
    """One line, or a label that is one word, as svmlight has it."""
    if row.line is not None:
        return b"\n" not in row.line
    return str(row.label).split() == [str(row.label)] and not surrogate(str(row.label))


for _way in ((False, "", ()), (True, ", contributors", ("group",))):
    _add_arrays(*_way)
    _add_frames(*_way)
    _add_files(*_way)
_add_others()

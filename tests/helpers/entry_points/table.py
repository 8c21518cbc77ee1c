"""The table of entry points: every way by which rows come in."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
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


def _entry_points() -> Iterator[EntryPoint]:
    both = ((False, "", ()), (True, ", contributors", ("group",)))
    kinds = ("row", "numbers", "label")
    for grouped, by, more in both:
        numbers = (*kinds, "cell", *more)
        yield EntryPoint(f"array float64{by}", of_arrays(floats_of, grouped), numbers, holds=numeric)
        yield EntryPoint(
            f"array float32{by}",
            of_arrays(lambda rows: floats_of(rows).astype(np.float32), grouped),
            numbers,
            holds=lambda row: numeric(row) and single(row),
        )
        yield EntryPoint(
            f"array in Fortran's order{by}",
            of_arrays(lambda rows: np.asfortranarray(floats_of(rows)), grouped),
            numbers,
            holds=numeric,
        )
        yield EntryPoint(
            f"array int64{by}",
            of_arrays(lambda rows: np.array(matrix_of(rows, ("b", "big")), np.int64), grouped),
            numbers,
            holds=whole_of,
        )
        yield EntryPoint(
            f"array uint8{by}",
            of_arrays(
                lambda rows: np.array([row.cells["pixels"] for row in rows]), grouped, IMAGE_LEARNER, dtype="uint8"
            ),
            ("row", "pixels", "label", *more),
        )
        yield EntryPoint(f"array of objects{by}", of_arrays(rows_of_objects, grouped), numbers)
        yield EntryPoint(f"list of lists{by}", of_arrays(matrix_of, grouped), numbers)
        yield EntryPoint(
            f"array, learner without missing values{by}",
            of_arrays(_filled, grouped, GaussianNB()),
            numbers,
            holds=numeric,
        )
        for form in ("csr", "csr int64", "csr array", "csc", "coo"):
            wide = {"n_features": N_FEATURES}
            yield EntryPoint(
                f"sparse {form}{by}", of_arrays(sparse(form), grouped, **wide), ("row", "entries", "label", *more)
            )
        yield EntryPoint(
            f"sparse csr, width inferred{by}",
            of_arrays(sparse("csr"), grouped),
            ("row", "entries", "label", *more),
            holds=inside,
        )
        for form in ("csr", "coo", "csc", "csr, bytes", "coo, bytes"):
            yield EntryPoint(
                f"sparse {form}, in parts{by}",
                of_arrays(in_parts(form), grouped, n_features=N_FEATURES),
                ("row", "entries", "label", *more),
            )
        yield EntryPoint(f"array of moments{by}", of_arrays(moments, grouped), ("row", "moment", "label", *more))
        yield EntryPoint(f"array of durations{by}", of_arrays(durations, grouped), ("row", "moment", "label", *more))
        yield EntryPoint(f"array of texts{by}", of_arrays(written_of, grouped), numbers)
        yield EntryPoint(f"array, complex{by}", of_arrays(complex_of, grouped), numbers, holds=numeric_or_complex)
        for form in ("arrays", "lists"):
            yield EntryPoint(
                f"list of images, {form}{by}",
                of_arrays(images_of(form), grouped, IMAGE_LEARNER),
                ("row", "pixels", "shape", "label", *more),
            )
        yield EntryPoint(f"list of lists, labels in a column{by}", in_a_column(grouped), numbers)
        yield EntryPoint(f"pyarrow, decimals{by}", of_frames(decimals, grouped), ("row", "digits", "label", *more))
        yield EntryPoint(
            f"pandas, decimals of Arrow{by}",
            of_frames(lambda rows: decimals(rows).to_pandas(types_mapper=pd.ArrowDtype), grouped),
            ("row", "digits", "label", *more),
        )
        lines = (*kinds, "cell", "category", "text", "line", *more)
        for what, kind in (("", "rows"), (" with line breaks", "breaks"), (" with rows in quotes", "records")):
            written = {f".csv{what}": (write_csv(), {}), f".csv of Windows{what}": (write_windows_csv, {})}
            if kind == "rows":
                written |= {f"{name} by lines": (write, {"lines": True}) for name, (write, _) in written.items()}
            for name, (write, how) in written.items():
                yield EntryPoint(
                    f"{name}, inferred{by}",
                    of_files(write, {"label": "class", **how}, None, grouped=grouped),
                    lines,
                    rows=kind,
                    holds=one_line if how else one_record,
                    alone=False,
                )
            yield EntryPoint(
                f".csv{what}, command{by}",
                of_commands(write_csv(), {"label": "class"}, grouped=grouped),
                lines,
                rows=kind,
                holds=one_record,
                alone=False,
            )
        frame = (*kinds, "cell", "category", "flag", "time", *more)
        yield EntryPoint(f"pandas, inferred{by}", of_frames(records, grouped), frame, holds=_in_pandas_text)
        yield EntryPoint(f"pandas, concatenated{by}", of_frames(typed, grouped), frame, holds=_concatenable)
        yield EntryPoint(f"pandas, categories{by}", of_frames(categories_of, grouped), frame, holds=_in_pandas_text)
        yield EntryPoint(f"pandas, objects{by}", of_frames(object_frame, grouped, objects), frame)
        yield EntryPoint(f"pandas, nullable{by}", of_frames(nullable, grouped), frame, holds=_in_pandas_text)
        yield EntryPoint(f"pandas, of Arrow types{by}", of_frames(by_arrow, grouped), frame, holds=holds_typed)
        yield EntryPoint(f"pandas, read{by}", of_read(records, grouped), frame, holds=_in_pandas_text, alone=False)
        declared = of_read(object_frame, grouped, ROLES)
        yield EntryPoint(f"pandas, objects, read, declared{by}", declared, frame, alone=False)
        for name, make, holds in (
            ("pandas, declared", records, _in_pandas_text),
            ("pandas, objects, declared", object_frame, lambda row: True),
            ("pandas, concatenated categories, declared", concatenated_categories, _concatenable),
            ("pandas, of Arrow types, declared", by_arrow, holds_typed),
            ("pyarrow, declared", lambda rows: arrow_table(rows, TABLE), holds_typed),
        ):
            yield EntryPoint(f"{name}{by}", of_frames(make, grouped, schema=ROLES), frame, holds=holds)
        texts = {"column": polars_column, "classes": ("0", "1")}
        for categories, name in ((False, "polars"), (True, "polars, categories")):
            yield EntryPoint(
                f"{name}{by}",
                of_frames(polars(categories), grouped, **texts),
                frame,
                holds=holds_typed,
                needs="polars",
            )
        yield EntryPoint(
            f"pyarrow{by}",
            of_frames(lambda rows: arrow_table(rows, TABLE), grouped, arrow_keys),
            frame,
            holds=lambda row: holds_typed(row) and _arrow_key(row.label) and isinstance(row.group, str | None),
        )
        yield EntryPoint(f"pyarrow, dictionary{by}", of_frames(arrow_categories, grouped), frame, holds=holds_typed)
        yield EntryPoint(f"pyarrow, batch{by}", of_frames(arrow_batch, grouped), frame, holds=holds_typed)
        texts_too = ("row", "text", "sample", "label", *more)
        yield EntryPoint(f"texts, list{by}", of_arrays(texts_of, grouped, TEXT_LEARNER), texts_too)
        yield EntryPoint(
            f"texts, array{by}", of_arrays(lambda rows: objects(texts_of(rows)), grouped, TEXT_LEARNER), texts_too
        )
        yield EntryPoint(
            f"texts, pandas{by}",
            of_arrays(lambda rows: inferred(texts_of(rows)), grouped, TEXT_LEARNER),
            texts_too,
            holds=_text_of_pandas,
        )
        tabs = write_csv(".tsv", delimiter="\t")
        for name, make in (
            (".csv, declared", of_files(write_csv(), {"label": "class"}, None, grouped=grouped, declared="rows")),
            (".tsv, inferred", of_files(tabs, {"label": "class"}, None, grouped=grouped)),
            (".tsv, declared", of_files(tabs, {"label": "class"}, None, grouped=grouped, declared="rows")),
            (".tsv, command", of_commands(tabs, {"label": "class"}, grouped=grouped)),
        ):
            yield EntryPoint(f"{name}{by}", make, lines, holds=one_record, alone=False)
        numbers_only = write_csv(names=NUMBERS, maker=grouped)
        yield EntryPoint(
            f".csv of numbers, inferred{by}",
            of_files(numbers_only, {"label": "class"}, STUMP, grouped=grouped),
            (*kinds, "cell", *more),
            holds=one_line,
            alone=False,
        )
        texts_only = write_csv(names=("words",), maker=grouped)
        yield EntryPoint(
            f".csv of texts, inferred{by}",
            of_files(texts_only, {"label": "class"}, TEXT_LEARNER, grouped=grouped),
            ("row", "text", "label", *more),
            holds=one_line,
            alone=False,
        )
        columns = (*kinds, "cell", "category", "flag", "time", "text", *more)
        for how, make in (
            ("inferred", of_files(write_parquet, {"label": "class"}, None, grouped=grouped)),
            ("declared", of_files(write_parquet, {"label": "class"}, None, grouped=grouped, declared="rows")),
            ("command", of_commands(write_parquet, {"label": "class"}, grouped=grouped)),
        ):
            yield EntryPoint(f".parquet, {how}{by}", make, columns, holds=holds_parquet, alone=False)
        for dtype in ("float64", "float32", "big endian", "uint8"):
            learner = IMAGE_LEARNER if dtype == "uint8" else STUMP
            odd = ("row", "pixels", "label", *more) if dtype == "uint8" else numbers
            holds = {"uint8": npz_keys, "float32": lambda row: numeric(row) and single(row) and npz_keys(row)}.get(
                dtype, lambda row: numeric(row) and npz_keys(row)
            )
            yield EntryPoint(
                f".npz {dtype}, inferred{by}",
                of_files(write_npz(dtype), {}, learner, grouped=grouped),
                odd,
                holds=holds,
                alone=False,
            )
            yield EntryPoint(
                f".npz {dtype}, command{by}",
                of_commands(write_npz(dtype), {}, grouped=grouped),
                odd,
                holds=holds,
                alone=False,
            )
    for name, make in (
        ("array float64, classes inferred", of_arrays(floats_of, False, classes=None)),
        ("pandas, classes inferred", of_frames(records, False, classes=None)),
    ):
        yield EntryPoint(name, make, ("row", "label"))
    yield EntryPoint(
        "list of lists, labels above 2**53",
        of_arrays(matrix_of, False, classes=BIG_CLASSES),
        ("row", "label"),
        rows="big",
    )
    yield EntryPoint(
        "array float64, contributors by moment",
        by_contributors(moments_of_contributors),
        ("row", "moment of a contributor", "label"),
    )
    for name, keys in (
        ("a categorical", pd.Categorical),
        ("an array of pandas", lambda groups: pd.array(groups, dtype="Int64")),
        ("a column of pandas", lambda groups: pd.Series(groups, dtype="Int64").astype("category")),
    ):
        yield EntryPoint(
            f"array float64, contributors above 2**53 in {name}",
            by_contributors(lambda rows, keys=keys: keys(groups_of(rows)), BIG_CLASSES),
            ("row", "group"),
            rows="big",
            holds=lambda row: _whole_key(row.group),
        )
    yield EntryPoint(
        "pandas, contributors above 2**53",
        of_frames(object_frame, True, objects, BIG_CLASSES),
        ("row", "group", "label"),
        rows="big",
    )
    yield EntryPoint(
        "pyarrow, contributors above 2**53",
        of_frames(lambda rows: arrow_table(rows, TABLE), True, arrow_keys, BIG_CLASSES),
        ("row", "group", "label"),
        rows="big",
        holds=lambda row: _whole_key(row.label) and _whole_key(row.group),
    )
    lines = ("row", "entries", "label", "line")
    for how, said, chosen in (
        ("inferred", {}, ("entries: beyond", "entries: only beyond", "line: svmlight: beyond")),
        ("declared", {"n_features": N_FEATURES}, ()),
    ):
        yield EntryPoint(
            f".svm, {how}", of_files(write_svm, said, STUMP), lines, holds=_word, alone=False, chosen=chosen
        )
    yield EntryPoint(
        ".svm, command", of_commands(write_svm, {"n_features": N_FEATURES}), lines, holds=_word, alone=False
    )
    pictures = ("row", "picture", "label")
    for how, make in (
        ("inferred", of_files(write_folder, {}, IMAGE_LEARNER)),
        ("declared", of_files(write_folder, {}, IMAGE_LEARNER, declared="images")),
        (
            "in colour",
            of_files(write_folder, {"image_size": (3, 5), "colour": True}, IMAGE_LEARNER),
        ),
        ("command", of_commands(write_folder, {"image_size": (4, 4), "colour": False})),
    ):
        chosen = ("picture: another size", "picture: one pixel") if how == "inferred" else ()
        yield EntryPoint(
            f"image folder, {how}", make, pictures, rows="images", holds=folder_name, alone=False, chosen=chosen
        )


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


def _arrow_key(value: Any) -> bool:
    return value is None or (type(value) is int and abs(value) < 2**63)


def _whole_key(value: Any) -> bool:
    return value is None or (type(value) is int and abs(value) < 2**63)


def _word(row: Row) -> bool:
    """One line, or a label that is one word, as svmlight has it."""
    if row.line is not None:
        return b"\n" not in row.line
    return str(row.label).split() == [str(row.label)] and not surrogate(str(row.label))


ENTRY_POINTS = {entry.name: entry for entry in _entry_points()}

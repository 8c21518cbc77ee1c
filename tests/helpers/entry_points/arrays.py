"""Entry points for arrays, sparse matrices and what else NumPy and SciPy hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

from entry_points.rows import BIG, N_FEATURES, NUMBERS, D, K, Row, honest_rows
from poisonproof import FiniteAggregationClassifier, Split


@dataclass(frozen=True)
class Inputs:
    """What an entry point hands over: training data for the estimator, what was held out, and what was decided."""

    X: Any
    y: Any
    groups: Any
    model: FiniteAggregationClassifier
    tested: tuple[Any, Any] | None = None  # held out by the reader; otherwise `held_out` is asked as well
    schema: str = ""
    schema_declared: bool = True


@dataclass(frozen=True)
class EntryPoint:
    """One way in.

    ``takes`` names the kinds of odd rows that can come this way at all, ``holds`` says which of them (a column of
    floats cannot hold a text: whoever made it one of texts decided that for all rows, before this entry point).
    """

    name: str
    load: Callable[[tuple[Row, ...], Path], Inputs]
    takes: tuple[str, ...]
    rows: str = "rows"
    holds: Callable[[Row], bool] = lambda row: True
    needs: str | None = None
    alone: bool = True  # a single row can be inputs by itself, for `update`
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


def matrix_of(rows: tuple[Row, ...], names: tuple[str, ...] = NUMBERS) -> list[list[Any]]:
    return [[row.cells[name] for name in names] for row in rows]


def floats_of(rows: tuple[Row, ...]) -> np.ndarray:
    """Rows of floats, signalling NaNs untouched."""
    values = np.empty((len(rows), len(NUMBERS)))
    for at, row in enumerate(matrix_of(rows)):
        for place, cell in enumerate(row):
            values[at, place] = np.nan if cell is None else cell
    return values


def is_number(value: Any) -> bool:
    return value is None or (isinstance(value, bool | int | float) and (value != value or abs(value) < 2**1023))


def numeric(row: Row) -> bool:
    return all(is_number(row.cells[name]) for name in NUMBERS)


def whole_of(row: Row) -> bool:
    return all(isinstance(row.cells[name], int) and abs(row.cells[name]) < 2**63 for name in ("b", "big"))


def objects(values: list[Any]) -> np.ndarray:
    array = np.empty(len(values), object)
    for at, value in enumerate(values):
        array[at] = value
    return array


def rows_of_objects(rows: tuple[Row, ...]) -> np.ndarray:
    array = np.empty((len(rows), len(NUMBERS)), object)
    for at, row in enumerate(matrix_of(rows)):
        for place, cell in enumerate(row):
            array[at, place] = cell
    return array


def labels(rows: tuple[Row, ...]) -> list[Any]:
    return [row.label for row in rows]


def groups_of(rows: tuple[Row, ...]) -> list[Any]:
    return [row.group for row in rows]


def of_arrays(make: Callable[[tuple[Row, ...]], Any], grouped: bool, learner: Any = STUMP, **options: Any) -> Any:
    def load(rows: tuple[Row, ...], folder: Path) -> Inputs:
        kind, dtype = "group" if grouped else options.get("kind", "content"), options.get("dtype", "float64")
        split = Split(kind, dtype, options.get("n_features"), hash_labels=options.get("hash_labels", False))
        classes = options.get("classes", (0, 1))
        return Inputs(
            make(rows), labels(rows), groups_of(rows) if grouped else None, estimator(learner, split, classes)
        )

    return load


def in_a_column(grouped: bool) -> Any:
    def load(rows: tuple[Row, ...], folder: Path) -> Inputs:
        inputs = of_arrays(matrix_of, grouped)(rows, folder)
        return replace(inputs, y=[[label] for label in inputs.y])

    return load


def by_contributors(keys: Callable[[tuple[Row, ...]], Any], classes: Any = (0, 1)) -> Any:
    def load(rows: tuple[Row, ...], folder: Path) -> Inputs:
        inputs = of_arrays(floats_of, True, classes=classes)(rows, folder)
        return replace(inputs, groups=keys(rows))

    return load


def sparse(form: str) -> Callable[[tuple[Row, ...]], Any]:
    def make(rows: tuple[Row, ...]) -> Any:
        entries = [(at, index, value) for at, row in enumerate(rows) for index, value in row.cells["entries"]]
        width = max([N_FEATURES, *(index + 1 for _, index, _ in entries)])
        starts = np.cumsum([0, *(len(row.cells["entries"]) for row in rows)])
        columns, values = np.array([e[1] for e in entries], np.int64), np.array([e[2] for e in entries], float)
        places = np.array([e[0] for e in entries], np.int64)
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


def in_parts(form: str) -> Callable[[tuple[Row, ...]], Any]:
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
        whole = sparse(form.split(",")[0])(tuple(row.having(entries=own) for row, own in zip(rows, cells, strict=True)))
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


def moments(rows: tuple[Row, ...]) -> np.ndarray:
    """Two columns of moments, put together by NumPy, which gives all of them the finest unit that one row has."""
    return np.concatenate([np.array([[_moment(row.cells["when"])] * 2]) for row in rows])


def durations(rows: tuple[Row, ...]) -> np.ndarray:
    return moments(rows) - np.datetime64("1970-01-01", "D")


def _moment(value: Any) -> np.datetime64:
    return value if isinstance(value, np.datetime64) else np.datetime64(value.value // 10**9, "s")


def moments_of_contributors(rows: tuple[Row, ...]) -> np.ndarray:
    """Contributors named by moments."""
    days = [np.datetime64(int(row.group[1:]), "D") if isinstance(row.group, str) else row.group for row in rows]
    return np.concatenate([[day] for day in days])


def written_of(rows: tuple[Row, ...]) -> np.ndarray:
    """An array of texts that write numbers."""
    return np.array([["" if cell is None else said_of(cell) for cell in row] for row in matrix_of(rows)])


def complex_of(rows: tuple[Row, ...]) -> np.ndarray:
    """As NumPy infers it."""
    return np.array([[np.nan if cell is None else cell for cell in row] for row in matrix_of(rows)])


def numeric_or_complex(row: Row) -> bool:
    return all(isinstance(row.cells[name], complex) or is_number(row.cells[name]) for name in NUMBERS)


def images_of(form: str) -> Callable[[tuple[Row, ...]], list[Any]]:
    """Images one by one, in nested lists or arrays, whatever the shape of each."""

    def make(rows: tuple[Row, ...]) -> list[Any]:
        images = [row.cells["pixels"] for row in rows]
        if form == "arrays":
            return images
        return [image.tolist() if isinstance(image, np.ndarray) else image for image in images]

    return make


def decimals(rows: tuple[Row, ...]) -> Any:
    """A column of decimals with as many digits as the longest of them needs, beside one of texts."""
    pa = arrow_types()
    cells = [row.cells["a"] for row in rows]
    written = [
        None if cell is None or cell == np.inf else Decimal(cell if isinstance(cell, str) else f"{cell:.6f}")
        for cell in cells
    ]
    scale = max(-int(value.as_tuple().exponent) for value in written if value is not None) if any(written) else 0
    column = pa.array(written, pa.decimal128(38, scale))
    return pa.table({"a": column, "b": [row.cells["b"] for row in rows], "city": [row.cells["city"] for row in rows]})


def inside(row: Row) -> bool:
    return all(index < N_FEATURES for index, _ in row.cells["entries"])


def arrow_types() -> Any:
    import pyarrow as pa

    return pa


def said_of(cell: Any) -> str:
    return repr(cell) if isinstance(cell, float) else str(cell)

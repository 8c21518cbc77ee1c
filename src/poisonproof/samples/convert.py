"""Whatever a user brings in canonical form: arrays, sparse matrices, DataFrames, lists of rows or of texts.

Of one sample nothing depends on another. NumPy gives a list one type for all its cells, and a single odd one turns
every other to text or stops the reading. So lists, and arrays of objects, are read cell by cell, as tables are: a
number, a text that writes one, a date, or missing. A row of another length than most has no cell that could be told to
belong to a column: all of it is missing. By a schema, what a cell of a DataFrame means follows from that cell and the
role of its column; the dtype of the column is not asked, for whoever read the table chose it by looking at all rows.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.display import nearest
from poisonproof.errors import PoisonproofError
from poisonproof.samples.cells import drop_missing, number_cell, number_in, text_cell, text_of, valid_text
from poisonproof.samples.columns import Column, RawCells, canonical_numbers
from poisonproof.samples.frames import SeriesCells, as_frame, columns_of, is_frame
from poisonproof.samples.kinds import (
    NumberSamples,
    Samples,
    SparseSamples,
    TableSamples,
    TextSamples,
    concat,
    entries_by_row,
    is_sparse,
    narrow,
    summed,
)
from poisonproof.samples.schema import FEATURES, MISSING, TableSchema

DIGEST_OF_ALL = "digest of all"
ROWS_AT_ONCE = 1 << 14


def to_samples(X: Any, *, dtype: str = "float64", n_features: int | None = None) -> Samples:
    """The canonical form of whatever a user brings, or one sentence that says what is wrong with it.

    Parameters
    ----------
    X : array (n_samples, …), sparse matrix, DataFrame (pandas, Polars, PyArrow), or list of strings
    dtype : "float64" or "uint8"
        The declared form of dense numbers. Never taken from X: one row could change that for all.
    n_features : int, optional
        The declared number of features. Sparse entries beyond it are dropped, in their own row only;
        any other disagreement is refused.

    Infinity counts as missing, as does a cell of a table that is neither a number, a text nor a date: to
    refuse them would let one row stop everything. `Samples.oddities` counts them. Samples that are in canonical form
    already stay as they are, and must be of that form.
    """
    if isinstance(X, Samples):
        if isinstance(X, NumberSamples) and X.values.dtype != dtype:
            raise PoisonproofError(
                f"The samples were declared as {dtype}. Got numbers of dtype {X.values.dtype}.", code="samples.dtype"
            )
        return _of_width(X, n_features)
    X = as_frame(X)
    if is_frame(X) or _is_texts(X) or is_sparse(X):
        if dtype != "float64":
            raise PoisonproofError(
                f"Only a dense array can be declared as {dtype}. Got {type(X).__name__} instead.", code="samples.dtype"
            )
        if is_sparse(X):
            return _from_sparse(X, n_features)
        return _of_width(_from_frame(X) if is_frame(X) else _from_texts(X), n_features)
    from sklearn.utils.validation import check_array

    if dtype == "uint8":
        given = np.asarray(X)
        if given.dtype != np.uint8:
            raise PoisonproofError(
                f"The samples were declared as uint8. Got an array of dtype {given.dtype} instead.",
                code="samples.dtype",
            )
    loose = read_loose(X.to_numpy() if hasattr(X, "iloc") else X, n_features)
    with np.errstate(invalid="ignore", over="ignore"):  # a signalling NaN is a NaN like any other
        X = X if loose is None else loose.values
        values = check_array(X, dtype=dtype, order="C", ensure_all_finite=False, allow_nd=True, input_name="X")
    if values.dtype != np.float64:
        return _of_width(NumberSamples(values), n_features)
    values, n_infinite = _without_infinities(values)
    return _of_width(NumberSamples(values, n_infinite, 0 if loose is None else loose.n_unreadable), n_features)


def _of_width(samples: Samples, n_features: int | None) -> Samples:
    if n_features is not None and samples.n_features != n_features:
        raise PoisonproofError(
            f"X has {samples.n_features} features per sample, but {n_features} were declared.", code="samples.features"
        )
    return samples


def _is_texts(X: Any) -> bool:
    """A sequence of more texts than rows, so that no single sample decides, and nothing that is neither."""
    if not ((isinstance(X, np.ndarray) and X.ndim == 1) or isinstance(X, list | tuple) or hasattr(X, "iloc")):
        return False
    n_texts = sum(isinstance(sample, str) for sample in X)
    return n_texts > 0 and n_texts > sum(isinstance(sample, list | tuple | np.ndarray) for sample in X)


def _from_texts(X: Any) -> TextSamples:
    texts, n_odd = np.empty(len(X), object), 0
    for row, text in enumerate(X):
        texts[row] = valid_text(str(text)) if isinstance(text, str) else ""
        n_odd += not isinstance(text, str)
    return TextSamples(texts, n_odd)


def _from_sparse(X: Any, n_features: int | None) -> SparseSamples:
    from scipy.sparse import csr_matrix
    from sklearn.utils.validation import check_array

    matrix = csr_matrix(entries_by_row(X))
    check_array(matrix, accept_sparse="csr", ensure_all_finite=False, input_name="X")
    matrix = summed(matrix)
    if n_features is not None and matrix.shape[1] != n_features:
        matrix = matrix[:, :n_features] if matrix.shape[1] > n_features else matrix
        matrix.resize(matrix.shape[0], n_features)
    matrix.data, n_infinite = _without_infinities(matrix.data)
    matrix.data = canonical_numbers(matrix.data)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return SparseSamples(narrow(matrix), n_infinite)


def _from_frame(X: Any) -> TableSamples:
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise PoisonproofError(
            f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s); at least 1 is required.",
            code="samples.empty",
        )
    return TableSamples.of(columns_of(X))


def _without_infinities(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """Infinity as missing, each by itself, and how often; the caller's own array is not written to."""
    infinite = np.isinf(values)
    count = int(infinite.sum())
    return (np.where(infinite, np.nan, values) if count else values), count


def digest_of(samples: Samples) -> str:
    """SHA-256 of all samples, in their order; of a table worked out once, since nobody else holds its columns."""
    if not isinstance(samples, TableSamples):
        return _digest(samples)
    known = vars(samples)
    if DIGEST_OF_ALL not in known:
        known[DIGEST_OF_ALL] = _digest(samples)
    return str(known[DIGEST_OF_ALL])


def _digest(samples: Samples) -> str:
    digest = hashlib.sha256(samples.layout.encode())
    for start in range(0, len(samples), ROWS_AT_ONCE):
        digest.update(samples.keys(np.arange(start, min(start + ROWS_AT_ONCE, len(samples)))))
    return digest.hexdigest()


class LooseNumbers(NamedTuple):
    """Numbers, NaN where missing, and how many cells are missing because they were no numbers."""

    values: NDArray[np.float64]
    n_unreadable: int


def read_loose(
    X: Any, n_features: int | None = None, missing: frozenset[str] = frozenset(MISSING), decimal: str = "."
) -> LooseNumbers | None:
    """The numbers of a list of rows, or of an array of anything else; None of what NumPy reads as numbers by itself.

    A cell is read as in a column of numbers of any other table (`number_cell`). Refused only where no cell is a number.
    Rows have the shape that most have, of those that ``n_features`` allows.
    """
    cells = _cells(X, n_features)
    if cells is None:
        return None
    values, n_unreadable, example = np.full(cells.size, np.nan), 0, None
    for at, cell in enumerate(cells.ravel().tolist()):
        if isinstance(cell, float) and math.isinf(cell):
            values[at] = cell  # counted with those of other arrays
            continue
        number, odd = number_cell(cell, missing, decimal)
        n_unreadable += odd
        if number is not None:
            values[at] = number
        elif odd and example is None:
            example = cell
    if example is not None and np.isnan(values).all():
        reason = "Complex data not supported" if isinstance(example, complex) else "No cell of X is a number"
        raise PoisonproofError(
            f"{reason}, such as {str(example)[:40]!r} of type {type(example).__name__}; "
            "bring texts as a list of strings, and categories as a DataFrame.",
            code="samples.kind",
        )
    return LooseNumbers(values.reshape(cells.shape), n_unreadable)


def as_objects(array: NDArray[Any]) -> NDArray[np.object_]:
    """One object for each cell: times stay NumPy's, which tell their unit; bytes are texts, as NumPy reads them."""
    cells = np.empty(array.shape, object)
    flat = array.ravel()
    if array.dtype.kind == "S":
        cells.ravel()[:] = [cell.decode("latin-1") for cell in flat.tolist()]
    elif array.dtype.kind in "mM":
        cells.ravel()[:] = list(flat)
    else:
        for at, cell in enumerate(flat.tolist()):
            cells.ravel()[at] = cell
    return cells


def _cells(X: Any, n_features: int | None) -> NDArray[np.object_] | None:
    """One object for each cell, if the rows are loose."""
    if isinstance(X, np.ndarray):
        if X.dtype.names is not None:
            raise PoisonproofError(
                f"X is an array of records ({', '.join(X.dtype.names[:5])}); bring it as a DataFrame, with columns.",
                code="samples.kind",
            )
        if X.dtype.kind in "biuf" or X.ndim == 0 or len(X) == 0:
            return None
        if X.ndim == 1:
            return _of_lists(X.tolist() if X.dtype == object else list(X), n_features)
        return X if X.dtype == object else as_objects(X)
    if not isinstance(X, list | tuple) or not X:
        return None
    try:
        array = np.asarray(X)
    except (ValueError, TypeError, OverflowError):  # rows of several lengths, or types that NumPy cannot join
        return _of_lists(X, n_features)
    if array.dtype.kind in "biuf":
        return None
    return _of_lists(X, n_features)


def _of_lists(rows: Sequence[Any], n_features: int | None) -> NDArray[np.object_]:
    cells_of = [_cells_of(row) for row in rows]
    counted = Counter(cells.shape for cells in cells_of if cells.size and cells.ndim)
    if not counted:
        raise PoisonproofError(
            f"No sample of X is a row of numbers or a text; the first is of type {type(rows[0]).__name__}. Expected 2D "
            "array, got 1D array instead: bring rows as an array (n_samples, n_features), texts as a list of strings.",
            code="samples.kind",
        )
    fitting = [shape for shape in counted if math.prod(shape) == n_features] or list(counted)
    most = min(fitting, key=lambda shape: (-counted[shape], shape))
    array = np.empty((len(rows), *most), object)
    for at, cells in enumerate(cells_of):
        if cells.shape == most:
            array[at] = cells
    return array


def _cells_of(row: Any) -> NDArray[np.object_]:
    """The cells of a row by itself; of lists within, only where all have one shape. Otherwise it has none."""
    if isinstance(row, np.ndarray):
        return as_objects(row)
    within = isinstance(row, list | tuple) and [isinstance(cell, list | tuple | np.ndarray) for cell in row]
    if within and all(within):
        inner = [_cells_of(cell) for cell in row]
        return np.stack(inner) if len({cells.shape for cells in inner}) == 1 else np.empty(0, object)
    cells = np.empty(len(row) if within else 0, object)
    if within:
        cells[:] = [row] if len(row) == 1 else row
    return cells


def count_rows(X: Any) -> int:
    """How many samples there are."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def take_rows(X: Any, rows: Any) -> Any:
    """These rows, in this order."""
    if isinstance(X, Samples):
        return X.subset(rows)
    X = as_frame(X)
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if isinstance(X, list | tuple):
        return [X[row] for row in rows]
    return entries_by_row(X)[rows] if is_sparse(X) else X[rows]


def join_rows(X: Any, more: Any, read: Callable[[Any], Samples] = to_samples) -> Any:
    """The rows of ``X`` followed by those of ``more``, which must be of the same kind and, unless sparse, width.

    Lists and arrays stay what they are; other rows are given in canonical form, as ``read`` reads them.
    """
    X, more = as_frame(X), as_frame(more)
    if is_frame(X) or is_sparse(X) or isinstance(X, Samples):
        parts = read(X), read(more)
        names = [[c.name for c in part.columns] if isinstance(part, TableSamples) else part.kind for part in parts]
        if names[0] != names[1]:
            raise PoisonproofError(
                f"The added samples must be a DataFrame with the same columns as the others, or {parts[0].kind} as "
                f"they are. Got {type(more).__name__}.",
                code="samples.kind",
            )
        return concat(parts)
    if isinstance(X, list | tuple) or hasattr(X, "iloc"):
        return [*X, *more]
    X, more = np.asarray(X), np.asarray(more)
    if X.ndim != more.ndim or X.shape[1:] != more.shape[1:]:
        raise PoisonproofError(
            f"The added samples have shape {more.shape[1:]} each, the others {X.shape[1:]}.", code="samples.features"
        )
    if X.dtype != more.dtype and not {X.dtype.kind, more.dtype.kind} <= set("biuf"):
        return np.concatenate([as_objects(X), as_objects(more)])
    return np.concatenate([X, more])


def row_numbers(remove: Any, n_rows: int) -> NDArray[np.int64]:
    """The rows that an index array or a mask names."""
    chosen = np.asarray([] if remove is None else remove)
    if chosen.dtype == np.bool_:
        if chosen.shape != (n_rows,):
            raise PoisonproofError(
                f"The mask 'remove' has shape {chosen.shape}, but there are {n_rows} training samples.",
                code="update.rows",
            )
        return np.flatnonzero(chosen)
    rows = np.unique(chosen.ravel())
    if len(rows) == 0:
        return np.zeros(0, np.int64)
    if not np.issubdtype(rows.dtype, np.integer) or rows[0] < 0 or rows[-1] >= n_rows:
        raise PoisonproofError(
            f"'remove' must hold row numbers 0 … {n_rows - 1} or be a mask. Got {remove!r} instead.", code="update.rows"
        )
    return rows.astype(np.int64)


def read_by_schema(X: Any, schema: TableSchema) -> Samples:
    """The samples of a frame by its schema; of an array or a list of texts if the schema reads nothing else."""
    if is_frame(X):
        return _read_frame(X, schema)
    names, missing = schema.named(*FEATURES), frozenset(schema.missing)
    loose = read_loose(X, len(names), missing, schema.decimal)
    samples = to_samples(X if loose is None else loose.values)
    if loose is not None and isinstance(samples, NumberSamples):
        samples = replace(samples, n_unreadable=loose.n_unreadable)
    elif isinstance(samples, NumberSamples):
        samples = replace(samples, values=_less_missing(samples.values, np.asarray(X), missing))
    elif isinstance(samples, TextSamples):
        samples = replace(
            samples, texts=np.array([text_cell(text, missing)[0] or "" for text in samples.texts], object)
        )
    fits = schema.only_texts if isinstance(samples, TextSamples) else names == schema.named("number")
    if not fits or not isinstance(samples, TextSamples | NumberSamples):
        raise PoisonproofError(
            f"The schema reads a DataFrame ({schema}). Got {type(X).__name__} instead.", code="samples.kind"
        )
    if samples.n_features != len(names):
        raise PoisonproofError(
            f"X has {samples.n_features} features per sample, but the schema names {len(names)}.",
            code="samples.features",
        )
    return samples


def _less_missing(values: NDArray[Any], given: NDArray[Any], missing: frozenset[str]) -> NDArray[Any]:
    """Numbers of an array, but for those that words for missing stand for; the caller's own array stays as it is."""
    if values.dtype != np.float64 or all(number_in(word) is None for word in missing):
        return values
    values = values.copy()
    for column, cells in zip(values.reshape(len(values), -1).T, given.reshape(len(given), -1).T, strict=True):
        drop_missing(column, missing, lambda row, cells=cells: text_of(cells[row], "X"))  # type: ignore[misc]
    return values


def _read_frame(X: Any, schema: TableSchema) -> TableSamples:
    wanted, given = schema.named(*FEATURES), list(X.columns)
    roles = dict(schema.columns)
    for name in given:
        if roles.get(name) not in (*FEATURES, "ignore"):
            why = f"has the role '{roles[name]}' in the schema" if name in roles else "is not named by the schema"
            raise PoisonproofError(
                f"Column '{name}' of X {why}; leave it out of X, or give it the role 'ignore'.", code="schema.column"
            )
        if given.count(name) > 1:
            raise PoisonproofError(
                f"X has {given.count(name)} columns named '{name}'; give every column its own name.",
                code="schema.column",
            )
    for name in wanted:
        if name not in given:
            raise PoisonproofError(
                f"X has no column '{name}', which the schema reads; {nearest(name, list(map(str, given)))}",
                code="schema.unknown-column",
            )
    if not len(X) or not wanted:
        raise PoisonproofError(
            f"Found array with {len(X)} sample(s) and {len(wanted)} feature(s); at least 1 is required.",
            code="samples.empty",
        )
    missing = frozenset(schema.missing)
    columns = (_read_column(name, roles[name], SeriesCells(X[name]), missing, schema.decimal) for name in wanted)
    return TableSamples(tuple(columns), len(X))


def _read_column(name: str, role: str, cells: RawCells, missing: frozenset[str], decimal: str) -> Column:
    if role == "number":
        numbers, odd = cells.numbers(missing, decimal)
        return Column.of_numbers(name, numbers, n_unreadable=int(odd.sum()))
    read = partial(text_cell, missing=missing)
    return Column.read(name, *cells.different(), read, categorical=role == "category")

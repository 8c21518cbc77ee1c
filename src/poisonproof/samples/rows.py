"""Rows of whatever users bring: arrays, sparse matrices, DataFrames, lists of texts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.samples.frames import as_frame, is_frame, python_values
from poisonproof.samples.kinds import Samples
from poisonproof.samples.loose import as_objects
from poisonproof.samples.sparse import entries_by_row, is_sparse


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


def join_rows(X: Any, more: Any) -> Any:
    """The rows of ``X`` followed by those of ``more``, which must be of the same kind and width."""
    X, more = as_frame(X), as_frame(more)
    if is_frame(X):
        return _join_frames(X, more)
    if isinstance(X, list | tuple) or hasattr(X, "iloc"):
        return [*X, *more]
    if is_sparse(X):
        import scipy.sparse as sp

        X, more = entries_by_row(X), entries_by_row(more if is_sparse(more) else sp.csr_matrix(more))
        if X.shape[1] != more.shape[1]:
            raise PoisonproofError(f"The added samples have {more.shape[1]} features, the others {X.shape[1]}.")
        return sp.vstack([X, more], format="csr")
    X, more = np.asarray(X), np.asarray(more)
    if X.ndim != more.ndim or X.shape[1:] != more.shape[1:]:
        raise PoisonproofError(f"The added samples have shape {more.shape[1:]} each, the others {X.shape[1:]}.")
    if X.dtype != more.dtype and not {X.dtype.kind, more.dtype.kind} <= set("biuf"):
        return np.concatenate([as_objects(X), as_objects(more)])
    return np.concatenate([X, more])


def _join_frames(X: Any, more: Any) -> Any:
    import pandas as pd

    if not is_frame(more) or list(more.columns) != list(X.columns):
        raise PoisonproofError("The added samples must be a DataFrame with the same columns as the others.")
    joined = {}
    for at in range(X.shape[1]):
        parts = [X.iloc[:, at].reset_index(drop=True), more.iloc[:, at].reset_index(drop=True)]
        kinds = [part.dtype.categories.dtype for part in parts if isinstance(part.dtype, pd.CategoricalDtype)]
        if len(kinds) == 2 and kinds[0] == kinds[1]:
            joined[at] = pd.Series(pd.api.types.union_categoricals(parts, ignore_order=True))
        elif isinstance(parts[0].dtype, pd.CategoricalDtype):
            cells = pd.concat([python_values(part) for part in parts], ignore_index=True)
            joined[at] = cells.where(cells.map(_is_hashable), None).astype("category")
        elif parts[0].dtype == parts[1].dtype or all(pd.api.types.is_numeric_dtype(part.dtype) for part in parts):
            try:
                joined[at] = pd.concat(parts, ignore_index=True)
            except ValueError:  # Arrow's own: whole numbers beyond 2⁵³ beside fractions
                numbers = [pd.Series(part.to_numpy(np.float64, na_value=np.nan)) for part in parts]
                joined[at] = pd.concat(numbers, ignore_index=True)
        else:  # pandas would look for a common type, and times have not always one
            joined[at] = pd.concat([python_values(part) for part in parts], ignore_index=True)
    frame = pd.DataFrame(joined)
    frame.columns = X.columns
    return frame


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def row_numbers(remove: Any, n_rows: int) -> NDArray[np.int64]:
    """The rows that an index array or a mask names."""
    chosen = np.asarray([] if remove is None else remove)
    if chosen.dtype == np.bool_:
        if chosen.shape != (n_rows,):
            raise PoisonproofError(
                f"The mask 'remove' has shape {chosen.shape}, but there are {n_rows} training samples."
            )
        return np.flatnonzero(chosen)
    rows = np.unique(chosen.ravel())
    if len(rows) == 0:
        return np.zeros(0, np.int64)
    if not np.issubdtype(rows.dtype, np.integer) or rows[0] < 0 or rows[-1] >= n_rows:
        raise PoisonproofError(f"'remove' must hold row numbers 0 … {n_rows - 1} or be a mask. Got {remove!r} instead.")
    return rows.astype(np.int64)

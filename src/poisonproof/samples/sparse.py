"""Entries of sparse rows, each as it was given, and the sum of those that stand in one place.

SciPy adds entries of one place in the matrix's own type and in the order that sorting leaves, and whether it sorts or
widens is decided by all rows. Here entries are float64 before anything is added, and are added by size.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from poisonproof.errors import PoisonproofError


def entries_by_row(X: Any) -> Any:
    """A new CSR matrix of float64 with every entry that X has, in its order, even if several stand in one place.

    An entry that is complex is missing; one that is so by type alone, because another row is complex, is not.
    """
    from scipy.sparse import csr_matrix

    if X.ndim != 2:
        raise PoisonproofError(
            f"Sparse samples are the rows of a matrix. Got an array of {X.ndim} dimension(s) instead."
        )
    given = X if X.format == "csr" else X.tocoo()
    values = given.data
    with np.errstate(invalid="ignore", over="ignore"):
        if values.dtype.kind == "c":
            values = np.where(values.imag == 0, values.real, np.nan)
        values = values.astype(np.float64)
    if given.format == "csr":
        return csr_matrix((values, given.indices.copy(), given.indptr.copy()), given.shape)
    order = np.argsort(given.row, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(given.row, minlength=given.shape[0]))])
    return csr_matrix((values[order], given.col[order], starts), given.shape)


def summed(matrix: Any) -> Any:
    """The matrix with sorted indices and one entry in each place: a sum that is a function of that place's entries."""
    from scipy.sparse import csr_matrix

    matrix.sort_indices()
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    if not ((np.diff(rows) == 0) & (np.diff(matrix.indices) == 0)).any():
        return matrix
    order = np.lexsort((matrix.data, matrix.indices, rows))
    rows, columns, values = rows[order], matrix.indices[order], matrix.data[order]
    first = np.concatenate([[True], (np.diff(rows) != 0) | (np.diff(columns) != 0)])
    with np.errstate(invalid="ignore", over="ignore"):
        sums = np.bincount(np.cumsum(first) - 1, weights=values)  # added one after the other, in this order
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows[first], minlength=matrix.shape[0]))])
    return csr_matrix((sums, columns[first], starts), matrix.shape)


def is_sparse(X: Any) -> bool:
    """Whether X is a sparse matrix, without importing SciPy: who has one has imported it."""
    scipy = sys.modules.get("scipy.sparse")
    return scipy is not None and bool(scipy.issparse(X))


def narrow(matrix: Any) -> Any:
    """Indices in the type that this matrix alone asks for: int32 wherever that holds them.

    SciPy widens them to int64 for all rows when one part of a stack has them so, and some learners refuse that.
    """
    largest = max(matrix.nnz, *matrix.shape)
    kind = np.int32 if largest <= np.iinfo(np.int32).max else np.int64
    matrix.indices, matrix.indptr = matrix.indices.astype(kind, copy=False), matrix.indptr.astype(kind, copy=False)
    return matrix

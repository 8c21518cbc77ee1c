"""Symmetric positive definite systems, solved and inverted without Python's lock, so that threads work side by side.

SciPy's wrappers of LAPACK keep the lock; the same routines, called through ctypes, give it back. The numbers are the
same, to the bit.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.learners.kernel_ridge import Pool

LOWER = b"L"


class Factor:
    """Cholesky's factor of a matrix, symmetric and in C order, which is overwritten with it."""

    def __init__(self, matrix: NDArray[np.float64], n: int) -> None:
        if n == 0 or matrix.shape != (n, n) or matrix.dtype != np.float64 or not matrix.flags.carray:
            raise PoisonproofError(
                f"A system needs a square matrix of float64 in C order that may be overwritten. Got {matrix.shape}."
            )
        self._matrix, self._size = matrix, ctypes.c_int(n)
        info = ctypes.c_int(0)
        _routines().factor(LOWER, self._size, matrix.ctypes.data, self._size, info)
        if info.value != 0:
            raise np.linalg.LinAlgError(
                f"The kernel matrix of {n} rows is not positive definite (LAPACK {info.value})."
            )

    def solve(self, targets: NDArray[np.float64]) -> NDArray[np.float64]:
        """The solution X of matrix · X = targets."""
        solution = np.array(targets, np.float64, order="F")
        count, info = ctypes.c_int(targets.shape[1]), ctypes.c_int(0)
        _routines().solve(
            LOWER, self._size, count, self._matrix.ctypes.data, self._size, solution.ctypes.data, self._size, info
        )
        return solution

    def inverse(self) -> NDArray[np.float64]:
        """The inverse of the matrix, a third of the work of solving for every unit vector."""
        inverse, info = self._matrix.copy(), ctypes.c_int(0)
        _routines().invert(LOWER, self._size, inverse.ctypes.data, self._size, info)
        above = np.triu(inverse)  # LAPACK's lower half, since its columns are our rows
        return np.asarray(above + np.triu(above, 1).T)


class _Routines(NamedTuple):
    """Cholesky's factor (potrf), the solution with it (potrs) and the inverse (potri)."""

    factor: Any
    solve: Any
    invert: Any


@lru_cache(maxsize=1)
def _routines() -> _Routines:
    """From the LAPACK that SciPy brings."""
    from numba.extending import get_cython_function_address

    text, whole, place = ctypes.c_char_p, ctypes.POINTER(ctypes.c_int), ctypes.c_void_p
    factor = ctypes.CFUNCTYPE(None, text, whole, place, whole, whole)
    solve = ctypes.CFUNCTYPE(None, text, whole, whole, place, whole, place, whole, whole)
    return _Routines(
        factor(get_cython_function_address("scipy.linalg.cython_lapack", "dpotrf")),
        solve(get_cython_function_address("scipy.linalg.cython_lapack", "dpotrs")),
        factor(get_cython_function_address("scipy.linalg.cython_lapack", "dpotri")),
    )


def system(pool: Pool, samples: NDArray[np.int64], ridge: float) -> NDArray[np.float64]:
    """The matrix that the subset of these samples is solved with, at this ridge."""
    rows = pool.rows_of(samples)
    fed = pool._fed(pool.rows[rows])
    matrix = np.empty((len(rows), len(rows)))
    pool._kernel_of(fed, fed.T, pool.lengths[rows], pool.lengths[rows], matrix)
    matrix[np.diag_indices(len(rows))] += ridge
    return matrix

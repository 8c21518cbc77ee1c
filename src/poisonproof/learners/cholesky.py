"""Symmetric positive definite systems, solved without Python's lock, so that threads solve side by side.

SciPy's wrappers of LAPACK keep the lock; the same routines, called through ctypes, give it back. The numbers are the
same, to the bit.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError

LOWER = b"L"


def solve_in_place(matrix: NDArray[np.float64], targets: NDArray[np.float64]) -> NDArray[np.float64]:
    """The solution X of matrix · X = targets, by Cholesky; the matrix, symmetric and in C order, is overwritten."""
    n, n_targets = targets.shape
    if n == 0 or matrix.shape != (n, n) or matrix.dtype != np.float64 or not matrix.flags.carray:
        raise PoisonproofError(
            f"A system needs a square matrix of float64 in C order that may be overwritten. Got {matrix.shape}."
        )
    factor, solve = _routines()
    size, count, info = ctypes.c_int(n), ctypes.c_int(n_targets), ctypes.c_int(0)
    factor(LOWER, size, matrix.ctypes.data, size, info)
    if info.value != 0:
        raise np.linalg.LinAlgError(f"The kernel matrix of {n} rows is not positive definite (LAPACK {info.value}).")
    solution = np.array(targets, np.float64, order="F")
    solve(LOWER, size, count, matrix.ctypes.data, size, solution.ctypes.data, size, info)
    return solution


@lru_cache(maxsize=1)
def _routines() -> tuple[Any, Any]:
    """Cholesky's factor (potrf) and the solution with it (potrs), from the LAPACK that SciPy brings."""
    from numba.extending import get_cython_function_address

    text, whole, place = ctypes.c_char_p, ctypes.POINTER(ctypes.c_int), ctypes.c_void_p
    factor = ctypes.CFUNCTYPE(None, text, whole, place, whole, whole)
    solve = ctypes.CFUNCTYPE(None, text, whole, whole, place, whole, place, whole, whole)
    return (
        factor(get_cython_function_address("scipy.linalg.cython_lapack", "dpotrf")),
        solve(get_cython_function_address("scipy.linalg.cython_lapack", "dpotrs")),
    )

"""Kernels that Numba compiles, with its cache where there is a place for one.

Numba keeps compiled code beside the package, else in the user's cache folder, else where ``NUMBA_CACHE_DIR`` says; and
where it may write in none of them, as a service without a home in a read-only image, it refuses at import. There we
compile anew in every process instead. A folder for all in /tmp is no answer: Numba loads what it finds there with
pickle, and anybody may have put it there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])


def njit(*, cache: bool = False, **options: Any) -> Callable[[Function], Function]:
    """`numba.njit`; with ``cache=True`` the compiled code is kept if there is a folder for it, and works if not."""

    def compiled(function: Function) -> Function:
        try:
            return numba.njit(cache=cache, **options)(function)
        except (RuntimeError, OSError):  # "cannot cache function …: no locator available"
            if not cache:
                raise
            return numba.njit(cache=False, **options)(function)

    return compiled


# What NumPy has too. Numba compiles NumPy's with every check and its message, and a person waits for it the first time:
# 2.7 s for an array that is assigned to another, 5.7 s for `np.partition`.


@njit(nogil=True, cache=True)
def copy_into(target: NDArray[Any], source: NDArray[Any]) -> None:
    """``target[:] = source`` of arrays of one dimension and length."""
    for at in range(len(source)):
        target[at] = source[at]


@njit(nogil=True, cache=True)
def nth_smallest(values: NDArray[np.int64], nth: int) -> int:
    """``np.partition(values, nth)[nth]``."""
    held = np.empty(len(values), np.int64)
    copy_into(held, values)
    low, high = 0, len(held) - 1
    while low < high:
        pivot = held[(low + high) // 2]
        left, right = low, high
        while left <= right:
            while held[left] < pivot:
                left += 1
            while held[right] > pivot:
                right -= 1
            if left <= right:
                held[left], held[right] = held[right], held[left]
                left += 1
                right -= 1
        if nth <= right:
            high = right
        elif nth >= left:
            low = left
        else:
            break
    return held[nth]

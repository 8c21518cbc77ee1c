"""Kernels that Numba compiles, with its cache where there is a place for one.

Numba keeps compiled code beside the package, else in the user's cache folder, else where ``NUMBA_CACHE_DIR`` says; and
where it may write in none of them, as a service without a home in a read-only image, it refuses at import. There we
compile anew in every process instead. A folder for all in /tmp is no answer: Numba loads what it finds there with
pickle, and anybody may have put it there.

Numba takes compiled code for current while the kernel's own file is as it was. A kernel calls kernels of other files
and holds constants of other files, and a change there would go unnoticed, so compiled code is current here only while
all files with kernels, and the constants that the kernel names, are as they were.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])


def njit(*, cache: bool = False, **options: Any) -> Callable[[Function], Function]:
    """`numba.njit`; with ``cache=True`` the compiled code is kept if there is a folder for it, and works if not."""

    def compiled(function: Function) -> Function:
        if cache:
            try:
                kernel = numba.njit(cache=True, **options)(function)
                file = kernel._cache._cache_file
                file._source_stamp = (file._source_stamp, KERNEL_SOURCES, _named_constants(function))
                return kernel
            except (RuntimeError, OSError, AttributeError):  # no folder ("no locator available"), or another Numba
                pass
        return numba.njit(cache=False, **options)(function)

    return compiled


def digest_of_kernel_sources(package: Path) -> str:
    """SHA-256 over the source files below ``package`` that hold kernels, by name and content."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        source = path.read_bytes()
        if b"njit" in source:
            digest.update(f"{path.relative_to(package).as_posix()} {len(source)} ".encode() + source)
    return digest.hexdigest()


def _named_constants(function: Callable[..., Any]) -> str:
    """The numbers and texts that a function names, which Numba compiles into it: wherever they were imported from."""
    names = function.__globals__
    found = {name: names[name] for name in function.__code__.co_names if name in names}
    return repr({name: value for name, value in found.items() if isinstance(value, int | float | str | bytes | tuple)})


KERNEL_SOURCES = digest_of_kernel_sources(Path(__file__).parents[1])


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

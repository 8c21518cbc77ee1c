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

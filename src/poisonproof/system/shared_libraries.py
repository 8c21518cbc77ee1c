"""Whether shared libraries were loaded or unloaded since the last question, in microseconds.

The dynamic linker counts both. Systems whose linker does not say (macOS, Windows) get no answer, and whoever asks has
to look for libraries anew each time.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import NamedTuple


class Loads(NamedTuple):
    """How many libraries this process has loaded, and how many it has unloaded, since it started."""

    loaded: int
    unloaded: int


class _Entry(ctypes.Structure):
    """The linker's ``struct dl_phdr_info``, as far as it is asked."""

    _fields_ = (
        ("address", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("headers", ctypes.c_void_p),
        ("n_headers", ctypes.c_uint16),
        ("loaded", ctypes.c_ulonglong),
        ("unloaded", ctypes.c_ulonglong),
    )


_VISIT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Entry), ctypes.c_size_t, ctypes.c_void_p)


def loads() -> Loads | None:
    """Both counts; None where the linker does not keep them."""
    visited: list[Loads] = []

    def visit(entry: ctypes._Pointer[_Entry], size: int, _: int | None) -> int:
        if size >= ctypes.sizeof(_Entry):
            visited.append(Loads(entry.contents.loaded, entry.contents.unloaded))
        return 1  # the counts are the same in every entry: one is enough

    if _iterate is None:
        return None
    _iterate(_VISIT(visit), None)
    return visited[0] if visited else None


def _linker() -> Callable[..., int] | None:
    """The linker's walk over what is loaded. It is called with the interpreter's lock held.

    Without, another thread that imports (it holds that lock and waits for the linker's) would wait for us for ever.
    """
    if not sys.platform.startswith("linux"):
        return None
    try:
        return ctypes.PyDLL(None).dl_iterate_phdr
    except (AttributeError, OSError):  # linked statically
        return None


_iterate = _linker()

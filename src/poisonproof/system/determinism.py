"""Linear algebra at one thread, PyTorch and generators settled, for every base classifier alike.

A sum of floats depends on how many threads share it, so a base classifier runs with one BLAS and
OpenMP thread, wherever it runs. The limit belongs to the process, not to a base classifier: a
context manager per base classifier would race as soon as two of them run in threads. A library that a
base classifier brings in while it works comes without the limit: it gets it then, and the work is done again.

Looking for the libraries takes milliseconds, so it is done again only when the linker has loaded or unloaded one. It
counts both, and is asked in microseconds; where it does not say (macOS, Windows), libraries are looked for each time.

The generators of NumPy, Python and PyTorch and all other settings that belong to the process are those that every base
classifier finds, and are put back afterwards (`reproducible`).
"""

from __future__ import annotations

import ctypes
import os
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

MOST_REPETITIONS = 20

settings_lock = threading.RLock()
_kept = 0  # callers whose generators will be put back; read and changed by who holds that lock
_lock = threading.Lock()
_inside = 0
_limits: list[Any] = []
_libraries: tuple[tuple[int, int], ThreadpoolController] | None = None

Result = TypeVar("Result")


@contextmanager
def one_linear_algebra_thread() -> Iterator[None]:
    """One BLAS and OpenMP thread in this process until the last caller has left."""
    global _inside
    with _lock:
        if _inside == 0:
            _limits.append(_controller().limit(limits=1))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            while _inside == 0 and _limits:
                _limits.pop().restore_original_limits()


def _controller() -> ThreadpoolController:
    """All libraries with threads that are loaded now."""
    global _libraries
    counts = loads()  # before looking: what is loaded meanwhile is found next time
    if counts is None:
        return ThreadpoolController()
    if _libraries is None or _libraries[0] != counts:
        _libraries = counts, ThreadpoolController()
    return _libraries[1]


def with_limited_libraries(work: Callable[[], Result]) -> Result:
    """What ``work`` gives or raises, when no library takes part that is not held at one thread and seeded.

    Work that imports a library is done again, once the library is limited; so ``work`` must start from the beginning
    each time it is called. Raises OSError if libraries keep coming.
    """
    for _ in range(MOST_REPETITIONS):
        known = _modules()
        try:
            result = work()
        except Exception:
            if _brought_unlimited(known):
                continue
            raise
        if not _brought_unlimited(known):
            return result
    raise OSError(
        f"The base classifier brought libraries with threads of their own {MOST_REPETITIONS} times over, so its sums "
        "cannot be held to one order; import them before, or leave their numbers of threads alone."
    )


def _modules() -> tuple[int, str, bool]:
    """What tells cheaply that a module was brought in (it stands behind the others), and whether PyTorch is there."""
    return len(sys.modules), next(reversed(sys.modules)), "torch" in sys.modules


def _brought_unlimited(known: tuple[int, str, bool]) -> bool:
    """Whether modules beyond the known ones brought threads without a limit, which they get now, or PyTorch's seeds."""
    now = _modules()
    if now == known:
        return False
    unlimited = any(pool["num_threads"] > 1 for pool in threadpool_info())
    if unlimited:
        with _lock:
            limits = threadpool_limits(1)
            if _inside:
                _limits.append(limits)
    return unlimited or (now[2] and not known[2])


def caller() -> tuple[int, int]:
    """Who is asking: this process and this thread."""
    return os.getpid(), threading.get_ident()


def limit_worker(parent: tuple[int, int]) -> None:
    """In a worker, process or thread, hold linear algebra at one thread from now on; in the caller, do nothing.

    OpenMP keeps its limit per thread, so a thread of the same process needs it too.
    """
    if caller() != parent:
        threadpool_limits(1)


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


def loads() -> tuple[int, int] | None:
    """How many libraries this process has loaded and unloaded so far; None where the linker does not keep count."""
    visited: list[tuple[int, int]] = []

    def visit(entry: ctypes._Pointer[_Entry], size: int, _: int | None) -> int:
        if size >= ctypes.sizeof(_Entry):
            visited.append((entry.contents.loaded, entry.contents.unloaded))
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


@contextmanager
def seeded_if_loaded(seed: int) -> Iterator[None]:
    """PyTorch with one thread and its global generator seeded, for learners that use it by themselves.

    Nothing if nobody has imported PyTorch.
    """
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "default_generator"):
        yield
        return
    with setting(torch.get_num_threads, torch.set_num_threads, 1), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


@contextmanager
def setting(get: Callable[[], Any], put: Callable[[Any], Any], value: Any) -> Iterator[None]:
    """Within, a setting of the process has this value; put back afterwards. For holders of `settings_lock`."""
    before = get()
    put(value)
    try:
        yield
    finally:
        put(before)


@contextmanager
def reproducible(index: int) -> Iterator[None]:
    """The process's global settings as every base classifier finds them, put back afterwards.

    The generators of NumPy and Python, and PyTorch's if it is there, are seeded by index; joblib works
    one task after the other, whoever asks it; warnings are not shown and floating-point oddities do
    not raise, whatever the caller has set. These settings belong to the process, so in threads one
    base classifier runs at a time; processes run side by side.
    """
    from joblib import parallel_config  # votes are certified without it

    with (
        settings_lock,
        warnings.catch_warnings(),
        np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"),
        parallel_config("sequential", n_jobs=1),
        seeded_if_loaded(index),
        nullcontext() if _kept else preserve_rng(),
    ):
        warnings.simplefilter("ignore")
        np.random.seed(index)
        random.seed(index)
        yield


@contextmanager
def preserve_rng() -> Iterator[None]:
    """The caller's generators of NumPy and Python, put back at the end; other threads wait until then.

    Around many base classifiers, so that not every one of them has to put back what the next seeds anew.
    """
    global _kept
    with settings_lock:
        numpy_state, python_state = np.random.get_state(), random.getstate()
        _kept += 1
        try:
            yield
        finally:
            _kept -= 1
            np.random.set_state(numpy_state)
            random.setstate(python_state)

"""Threads: ours over blocks of rows, and the linear algebra's, held at one.

A sum of floats depends on how many threads share it, so a base classifier runs with one BLAS and
OpenMP thread, wherever it runs. The limit belongs to the process, not to a base classifier: a
context manager per base classifier would race as soon as two of them run in threads. A library that a
base classifier brings in while it works comes without the limit: it gets it then, and the work is done again.

Looking for the libraries takes milliseconds, so it is done again only when the linker has loaded or unloaded one.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from poisonproof.system.progress import counted
from poisonproof.system.shared_libraries import Loads, loads

MOST_REPETITIONS = 20

_lock = threading.Lock()
_inside = 0
_limits: list[Any] = []
_libraries: tuple[Loads, ThreadpoolController] | None = None
_most_threads: ContextVar[int | None] = ContextVar("most_threads", default=None)

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


@dataclass(frozen=True)
class _Modules:
    """What tells cheaply whether a module was brought in: it stands behind all others."""

    count: int
    last: str
    torch: bool


def _modules() -> _Modules:
    return _Modules(len(sys.modules), next(reversed(sys.modules)), "torch" in sys.modules)


def _brought_unlimited(known: _Modules) -> bool:
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
    return unlimited or (now.torch and not known.torch)


def caller() -> tuple[int, int]:
    """Who is asking: this process and this thread."""
    return os.getpid(), threading.get_ident()


def limit_worker(parent: tuple[int, int]) -> None:
    """In a worker, process or thread, hold linear algebra at one thread from now on; in the caller, do nothing.

    OpenMP keeps its limit per thread, so a thread of the same process needs it too.
    """
    if caller() != parent:
        threadpool_limits(1)


def n_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def at_most_threads(n_jobs: int | None) -> Iterator[None]:
    """Within, nobody who leaves the number of threads open uses more than this (-1: one per core, -2: one less, …).

    None leaves it as it is: one per core, unless somebody outside said otherwise.
    """
    if n_jobs is None:
        yield
        return
    token = _most_threads.set(n_jobs if n_jobs > 0 else max(1, n_cores() + 1 + n_jobs))
    try:
        yield
    finally:
        _most_threads.reset(token)


def in_threads(count: int, size: int, work: Callable[[int, int], None], n_jobs: int = -1) -> None:
    """Run ``work(start, stop)`` over 0 … count in blocks of a size, in threads (-1: what `at_most_threads` allows).

    ``work`` must release the GIL and write only to its own rows.
    """
    starts = range(0, count, size)
    threads = min(len(starts), (_most_threads.get() or n_cores()) if n_jobs == -1 else n_jobs)
    if threads <= 1:
        for start in counted(starts, len(starts)):
            work(start, min(start + size, count))
        return
    with ThreadPoolExecutor(threads) as pool:
        tasks = [pool.submit(copy_context().run, work, start, min(start + size, count)) for start in starts]
        try:
            for task in counted(tasks, len(tasks)):
                task.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise

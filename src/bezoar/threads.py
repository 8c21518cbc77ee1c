"""Threads: ours over blocks of rows, and the linear algebra's, held at one.

A sum of floats depends on how many threads share it, so a base classifier runs with one BLAS and
OpenMP thread, wherever it runs. The limit belongs to the process, not to a base classifier: a
context manager per base classifier would race as soon as two of them run in threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from threadpoolctl import threadpool_limits

from bezoar.progress import counted

_lock = threading.Lock()
_inside = 0
_limits: Any = None


@contextmanager
def one_linear_algebra_thread() -> Iterator[None]:
    """One BLAS and OpenMP thread in this process until the last caller has left."""
    global _inside, _limits
    with _lock:
        if _inside == 0:
            _limits = threadpool_limits(1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limits.restore_original_limits()


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


def in_threads(count: int, size: int, work: Callable[[int, int], None], n_jobs: int = -1) -> None:
    """Run ``work(start, stop)`` over 0 … count in blocks of a size, in threads (-1: one per core).

    ``work`` must release the GIL and write only to its own rows.
    """
    starts = range(0, count, size)
    threads = min(len(starts), n_cores() if n_jobs == -1 else n_jobs)
    if threads <= 1:
        for start in counted(starts, len(starts)):
            work(start, min(start + size, count))
        return
    with ThreadPoolExecutor(threads) as pool:
        tasks = [pool.submit(work, start, min(start + size, count)) for start in starts]
        try:
            for task in counted(tasks, len(tasks)):
                task.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise

"""Threads over blocks of rows, as many as there are cores or as somebody outside allows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context

from poisonproof.system.progress import counted

_most_threads: ContextVar[int | None] = ContextVar("most_threads", default=None)


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

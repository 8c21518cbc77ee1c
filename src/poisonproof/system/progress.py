"""Progress of long work, told to whoever watches. Nobody does unless asked to, and nothing else depends on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Thing = TypeVar("Thing")
_watcher: ContextVar[Callable[[int, int], None] | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(progress: Callable[[int, int], None]) -> Iterator[None]:
    """Within, ``progress(done, total)`` is told how far long work in this thread has come, stage by stage."""
    token = _watcher.set(progress)
    try:
        yield
    finally:
        _watcher.reset(token)


def progress(done: int, total: int) -> None:
    """Tell the watcher how much is done, of how much."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher(done, total)


def counted(things: Iterable[Thing], total: int) -> Iterator[Thing]:
    """The things as they come, each told to the watcher when it is done with."""
    for done, thing in enumerate(things, 1):
        yield thing
        progress(done, total)

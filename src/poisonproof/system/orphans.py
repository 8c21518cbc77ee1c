"""Worker processes end with the process that started them, however that one ends.

A worker runs `end_with` before anything else, so that one which never gets a task ends too. This module imports next to
nothing: a worker watches from its first moment, not after the libraries of its first task are loaded.
"""

from __future__ import annotations

import os
import threading
import time
from functools import cache

LOOK_SECONDS = 0.25


@cache
def end_with(parent: int, scratch: str = "") -> None:
    """End this process when it is no longer a child of this parent: at once if it is not, else soon after.

    ``scratch`` is the folder that it maps samples from, named so that workers of another folder are others.

    The watch is a thread, so a base classifier that keeps Python's lock for long is ended when it lets go of it.
    Linux could signal a parent's death by itself, but means the thread that started the worker, which may end earlier.
    """
    if os.getppid() != parent:
        os._exit(1)
    threading.Thread(target=_watch, args=(parent,), daemon=True, name="ends with its parent").start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os._exit(1)

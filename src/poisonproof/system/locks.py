"""One writer for a folder at a time, on every system."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from poisonproof.errors import PoisonproofError
from poisonproof.system.files import sweep


@contextmanager
def sole_writer(folder: Path, lock: str) -> Iterator[None]:
    """Hold the lock of a folder, made if it is absent; a second process is told so.

    What killed writers left in the folder is removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        held = FileLock(folder / lock).acquire(timeout=0)
    except Timeout:
        raise PoisonproofError(f"Another process is writing {folder}; wait for it or choose another --out.") from None
    with held:
        sweep(folder)
        yield

"""Where worker processes map samples from: files that are gone when the work is done, or soon after it was killed.

A run keeps them in its own folder, where its next command removes what a killed one left. Where that folder cannot be
used, and where there is no run, they lie in a folder of this process among the system's temporary ones; it is locked as
long as the process lives, and whoever needs such a folder removes those that nobody holds any more.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from filelock import FileLock, Timeout

from poisonproof.errors import PoisonproofError

PREFIX = "poisonproof-scratch-"
LOCK = "lock"
SHARED_MEMORY = Path("/dev/shm")
ENOUGH_SHARED_MEMORY = 2 << 30  # joblib's own bound
LONGEST = 300  # joblib tells the names of its files to a process of its own, in messages of at most 512 bytes
LOCK_SECONDS = 10


def scratch_folder(wanted: Path | None) -> Path:
    """The wanted folder, if joblib can use one of that name; else one of this process.

    joblib sends names through a pipe, in ASCII and not too long; names of other kinds would stop it.
    """
    if wanted is not None and _usable(wanted):
        return wanted
    return _own_folder(os.getpid())


def _usable(folder: Path) -> bool:
    name = str(folder.absolute())
    return name.isascii() and name.isprintable() and ":" not in name and len(name) <= LONGEST


@cache
def _own_folder(process: int) -> Path:
    """This process's folder; the number is its own, so that a fork makes another one."""
    sweep_scratch()
    for place in _places():
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        held = FileLock(folder / LOCK).acquire(timeout=LOCK_SECONDS)
        atexit.register(_remove, folder, held, process)
        return folder
    raise PoisonproofError(
        "Worker processes need a temporary folder with a short name in plain ASCII; "
        "set the environment variable TMPDIR to one, or use n_jobs=1."
    )


def _places() -> list[Path]:
    """Folders for temporary files that can be used, the quickest first."""
    places = [Path(named)] if (named := os.environ.get("JOBLIB_TEMP_FOLDER")) else []
    if not places and SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free > ENOUGH_SHARED_MEMORY:
        places.append(SHARED_MEMORY)
    places += [Path(tempfile.gettempdir()), Path("/tmp")]
    return [place for place in places if _usable(place) and place.is_dir() and os.access(place, os.W_OK)]


def sweep_scratch() -> None:
    """Remove scratch folders of ours that no living process holds."""
    for folder in (folder for place in _places() for folder in place.glob(f"{PREFIX}*")):
        lock = folder / LOCK
        if folder.is_symlink() or lock.is_symlink() or not lock.is_file() or not _ours(folder):
            continue
        try:
            with FileLock(lock).acquire(timeout=0):
                shutil.rmtree(folder, ignore_errors=True)
        except (Timeout, OSError):
            continue


def _ours(folder: Path) -> bool:
    return not hasattr(os, "getuid") or folder.lstat().st_uid == os.getuid()


def _remove(folder: Path, held: object, process: int) -> None:
    """At the end of the process that made it; forks of it leave it alone. ``held`` keeps the lock until then."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)

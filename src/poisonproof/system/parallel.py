"""Workers: processes of joblib's on this machine, which end with us, or those of a Dask cluster.

joblib's own processes map large arrays from a file, and a dead one raises. Data are sent to a Dask cluster once, and a
task whose worker died is told of.

Where worker processes map samples from: files that are gone when the work is done, or soon after it was killed.

A run keeps them in its own folder, where its next command removes what a killed one left. Where that folder cannot be
used, and where there is no run, they lie in a folder of this process among the system's temporary ones; it is locked as
long as the process lives, and whoever needs such a folder removes those that nobody holds any more.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from joblib import effective_n_jobs, parallel_config
from joblib._parallel_backends import LokyBackend, MultiprocessingBackend
from joblib.parallel import get_active_backend

from poisonproof.errors import PoisonproofError
from poisonproof.system.files import FULL


class WorkerDiedError(ChildProcessError):
    """A worker died; none of its base classifiers falls back, because that is no property of a subset."""


@contextmanager
def own_workers(scratch: Path | None, n_jobs: int | None) -> Iterator[dict[str, Any]]:
    """What a `joblib.Parallel` is made with, so that its processes end with this one and leave nothing behind.

    They map samples from files in ``scratch``, or in a folder of this process where joblib cannot use that name. It is
    among what processes are started with, so those of an earlier call that use another folder are not taken again.
    """
    backend = get_active_backend()[0]
    here = isinstance(backend, LokyBackend | MultiprocessingBackend)
    if not here or effective_n_jobs(n_jobs) == 1:
        yield {}
        return
    from poisonproof.system.orphans import end_with

    folder = scratch_folder(scratch)
    try:
        yield {"temp_folder": str(folder.absolute()), "initializer": end_with, "initargs": (os.getpid(), str(folder))}
    except Exception as error:
        if (full := full_disk(error)) is not None:
            raise OSError(full, os.strerror(full), str(folder)) from error
        raise
    finally:
        if folder == scratch:
            shutil.rmtree(folder, ignore_errors=True)


def full_disk(error: BaseException) -> int | None:
    """The number of the error, if what a backend raised comes of a full disk; it may stand in a text of a worker's."""
    seen: BaseException | None = error
    while seen is not None:
        for number in FULL:
            if getattr(seen, "errno", None) == number or f"[Errno {number}]" in str(seen):
                return number
        seen = seen.__cause__ or seen.__context__
    return None


def smallest_worker() -> tuple[int, str] | None:
    """The fewest bytes that a worker of the Dask cluster in use may take, and its name; None without a cluster."""
    backend = get_active_backend()[0]
    if type(backend).__name__ != "DaskDistributedBackend":
        return None
    workers = backend.client.scheduler_info(n_workers=-1)["workers"]
    return min(
        ((facts["memory_limit"], name) for name, facts in workers.items() if facts["memory_limit"]), default=None
    )


@contextmanager
def sent_once(shared: Sequence[Any]) -> Iterator[None]:
    """Within, a `joblib.Parallel` is made that does not send the shared objects with every task.

    A Dask cluster holds each as the result of a task, which it runs again when all workers that had the result died.
    Data sent by `Client.scatter` could be lost: Dask drops copies of them, and cannot make them again.
    """
    backend = get_active_backend()[0]
    if type(backend).__name__ != "DaskDistributedBackend":
        yield
        return
    from distributed.protocol import pickle

    telling = _telling(type(backend))(client=backend.client, **backend.submit_kwargs)
    pickled = [pickle.dumps(each) for each in shared]
    with warnings.catch_warnings(action="ignore"):  # that they are large
        futures = [backend.client.submit(pickle.loads, each, pure=False) for each in pickled]
    telling.data_futures = {id(each): future for each, future in zip(shared, futures, strict=True)}
    with parallel_config(telling):
        yield


@contextmanager
def dead_workers_told() -> Iterator[None]:
    """Whatever a backend raises when a worker dies becomes one error."""
    try:
        yield
    except Exception as error:
        if isinstance(error, BrokenExecutor) or type(error).__module__.partition(".")[0] == "distributed":
            raise WorkerDiedError(
                f"A worker process died, killed or out of memory ({type(error).__name__}), and its work with it."
            ) from error
        raise


def _telling(backend: type[Any]) -> type[Any]:
    """joblib's Dask backend, which would wait for ever for a task that Dask gave up because its workers died."""
    name = "submit" if hasattr(backend, "submit") else "apply_async"

    def submit(self: Any, func: Any, callback: Callable[[Any], None]) -> Future[Any]:
        future: Future[Any] = getattr(super(telling, self), name)(func, callback)

        def tell(done: Future[Any]) -> None:
            if (error := done.exception()) is not None:
                callback(error)

        future.add_done_callback(tell)
        return future

    telling = type(backend.__name__, (backend,), {name: submit})
    return telling


PREFIX = "poisonproof-scratch-"
LOCK = "lock"
SHARED_MEMORY = Path("/dev/shm")
ENOUGH_SHARED_MEMORY = 2 << 30  # joblib's own bound
LONGEST = 300  # joblib tells the names of its files to a process of its own, in messages of at most 512 bytes
LOCK_SECONDS = 10


def scratch_folder(wanted: Path | None) -> Path:
    """The wanted folder, if joblib can use one of that name; else one of this process."""
    return wanted if wanted is not None and _usable(wanted) else _own_folder(os.getpid())


def _usable(folder: Path) -> bool:
    """Whether joblib can use a folder of that name; it sends names through a pipe, in ASCII and not too long."""
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
        "set the environment variable TMPDIR to one, or use n_jobs=1.",
        code="workers.no-folder",
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


_lock = threading.Lock()
_tasks = 0  # that are under way in this process
at_rest: list[Callable[[], None]] = []  # what is called when none is under way any more


@contextmanager
def remembering() -> Iterator[None]:
    """A task in which a map is asked about a sample more than once; what may not outlive it is forgotten at its end."""
    global _tasks
    with _lock:
        _tasks += 1
    try:
        yield
    finally:
        with _lock:
            _tasks -= 1
            for forget in at_rest if not _tasks else ():
                forget()


def under_way() -> bool:
    """Whether a task is under way in this process."""
    return _tasks > 0

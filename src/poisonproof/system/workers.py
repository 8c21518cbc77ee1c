"""Workers: processes of joblib's on this machine, which end with us, or those of a Dask cluster.

joblib's own processes map large arrays from a file, and a dead one raises. Of Dask, data reach every worker once, and a
task whose worker died is told of.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from joblib import effective_n_jobs, parallel_config
from joblib._parallel_backends import LokyBackend, MultiprocessingBackend
from joblib.parallel import get_active_backend

from poisonproof.system.files import FULL
from poisonproof.system.orphans import end_with
from poisonproof.system.scratch import scratch_folder


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


class ClusterWorker(NamedTuple):
    """A worker of a cluster, and how many bytes it may take."""

    name: str
    memory: int


def smallest_worker() -> ClusterWorker | None:
    """The worker of the Dask cluster in use that may take the least memory; None without a cluster or its word."""
    backend = get_active_backend()[0]
    if type(backend).__name__ != "DaskDistributedBackend":
        return None
    workers = backend.client.scheduler_info(n_workers=-1)["workers"]
    known = [ClusterWorker(name, facts["memory_limit"]) for name, facts in workers.items() if facts["memory_limit"]]
    return min(known, key=lambda worker: worker.memory, default=None)


@contextmanager
def sent_once(shared: Sequence[Any]) -> Iterator[None]:
    """Within, a `joblib.Parallel` is made that does not send the shared objects with every task.

    All of Dask's workers hold them, so that the loss of one does not lose the data.
    """
    backend = get_active_backend()[0]
    if type(backend).__name__ != "DaskDistributedBackend":
        yield
        return
    kind = _telling(type(backend))
    with parallel_config(kind(client=backend.client, scatter=list(shared), **backend.submit_kwargs)):
        yield


@contextmanager
def copies_held() -> Iterator[None]:
    """Within, every worker of a Dask cluster goes on holding what it was sent.

    The cluster's memory manager rests: it drops every copy but one of what is shared, and that one may be the next
    dead worker's.
    """
    backend = get_active_backend()[0]
    manager = backend.client.amm if type(backend).__name__ == "DaskDistributedBackend" else None
    if manager is None or not manager.running():
        yield
        return
    manager.stop()
    try:
        yield
    finally:
        manager.start()


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

"""Dask by joblib's door: data reach every worker once, and a task whose worker died is told of.

joblib's own worker processes need none of this: large arrays are mapped from a file, and a dead worker raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager
from typing import Any

from joblib import parallel_config
from joblib.parallel import get_active_backend


class WorkerDiedError(ChildProcessError):
    """A worker died; none of its base classifiers falls back, because that is no property of a subset."""


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
def dead_workers_told() -> Iterator[None]:
    """Whatever a backend raises when a worker dies becomes one error."""
    try:
        yield
    except Exception as error:
        if isinstance(error, BrokenExecutor) or type(error).__module__.startswith("distributed"):
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

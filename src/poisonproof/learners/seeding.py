"""Every base classifier finds the same generators and settings, whatever the caller has set."""

from __future__ import annotations

import random
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from os import PathLike
from typing import Any

import numpy as np
from joblib import parallel_config
from sklearn.base import BaseEstimator, clone

from poisonproof.system.determinism import seeded_if_loaded

SEEDS = ("random_state", "seed", "random_seed", "rng")


JOBS = ("n_jobs", "n_threads", "nthread", "nthreads", "num_thread", "num_threads", "thread_count")


PLAIN = (type(None), bool, int, float, str)


_settings = threading.RLock()
_kept = 0  # callers whose generators will be put back; read and changed by who holds the lock


def seeded(estimator: Any, index: int) -> Any:
    """A clone that draws by the base classifier's index and works alone; see `Seeder`."""
    return Seeder(estimator)(index)


class Seeder:
    """Makes clones that draw by the base classifier's index and work alone, by one job and without a cache.

    Sums of threads depend on who is first, and a cache may hold what another base classifier, or another run, put
    there. Set are all parameters in it, however deep, whose names say so; they are looked for once.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator
        self.fixed: dict[str, Any] = {}
        self.seeds: list[str] = []
        self.generators: dict[str, Any] = {}
        parameters = estimator.get_params(deep=True)
        for path, value in parameters.items():
            prefix, _, name = path.rpartition("__")
            if name == "random_state" or (name in SEEDS and _is_plain_seed(value)):
                self.seeds.append(path)
            elif name in JOBS and not (value is None and _leaves_it_to_joblib(parameters.get(prefix, estimator))):
                self.fixed[path] = 1
            elif name == "memory" and _is_cache(value):
                self.fixed[path] = None
            elif _generator_like(value, 0) is not None:
                self.generators[path] = value
        self.plain = _plain_parameters(estimator)

    def __call__(self, index: int) -> Any:
        """The clone of this base classifier."""
        settings = self.fixed | dict.fromkeys(self.seeds, index)
        if self.plain is not None:
            return type(self.estimator)(**(self.plain | settings))
        model = clone(self.estimator)
        settings |= {path: _generator_like(value, index) for path, value in self.generators.items()}
        return model.set_params(**settings) if settings else model


def _plain_parameters(estimator: Any) -> dict[str, Any] | None:
    """The parameters of an estimator that is them and nothing else, so that a clone is its class called with them.

    scikit-learn looks for more than that in every clone, which takes as long as the fit of a small subset. None where
    there may be more: parameters that are objects, attributes besides, a way of its own to be cloned or set.
    """
    kind = type(estimator)
    overridden = any(
        getattr(kind, name, None) is not getattr(BaseEstimator, name)
        for name in ("__sklearn_clone__", "set_params", "get_params", "__setattr__", "__new__")
    )
    parameters = {} if overridden else estimator.get_params(deep=False)
    if overridden or vars(estimator).keys() != parameters.keys():
        return None
    if any(type(value) not in PLAIN for value in parameters.values()):
        return None
    try:
        copied = clone(estimator)
    except Exception:  # it is told of where base classifiers are made
        return None
    return parameters if vars(copied) == vars(estimator) else None


def _leaves_it_to_joblib(owner: Any) -> bool:
    """Whether no number of jobs means joblib's, which is 1 in `isolated`; some of scikit-learn's warn of any other."""
    return type(owner).__module__.startswith("sklearn.")


def _is_plain_seed(value: Any) -> bool:
    return value is None or (isinstance(value, int | np.integer) and not isinstance(value, bool))


def _is_cache(value: Any) -> bool:
    return isinstance(value, str | PathLike) or hasattr(value, "cache")


def _generator_like(value: Any, index: int) -> Any:
    """A generator of the same kind that starts at the index; None if the value is none."""
    if isinstance(value, np.random.Generator):
        return np.random.default_rng(index)
    if isinstance(value, np.random.RandomState):
        return np.random.RandomState(index)
    if type(value).__module__.startswith("torch") and type(value).__name__ == "Generator":
        return type(value)(device=value.device).manual_seed(index)
    return None


@contextmanager
def isolated(index: int) -> Iterator[None]:
    """The process's global settings as every base classifier finds them, put back afterwards.

    The generators of NumPy and Python, and PyTorch's if it is there, are seeded by index; joblib works
    one task after the other, whoever asks it; warnings are not shown and floating-point oddities do
    not raise, whatever the caller has set. These settings belong to the process, so in threads one
    base classifier runs at a time; processes run side by side.
    """
    with (
        _settings,
        warnings.catch_warnings(),
        np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"),
        parallel_config("sequential", n_jobs=1),
        seeded_if_loaded(index),
        nullcontext() if _kept else kept_generators(),
    ):
        warnings.simplefilter("ignore")
        np.random.seed(index)
        random.seed(index)
        yield


@contextmanager
def kept_generators() -> Iterator[None]:
    """The caller's generators of NumPy and Python, put back at the end; other threads wait until then.

    Around many base classifiers, so that not every one of them has to put back what the next seeds anew.
    """
    global _kept
    with _settings:
        numpy_state, python_state = np.random.get_state(), random.getstate()
        _kept += 1
        try:
            yield
        finally:
            _kept -= 1
            np.random.set_state(numpy_state)
            random.setstate(python_state)

"""Base classifiers of a pooled learner: trained and asked together, each still a function of its own subset.

A pooled learner has a method ``share(X)`` that does once whatever depends on single training samples, and
gives a pool that solves one subset at a time. Whether subsets are solved together or alone, in which blocks
and in how many threads, no vote can tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bezoar.learners.kernel_ridge import Pool, concatenated, vote_of_subsets
from bezoar.samples import Samples
from bezoar.subsets import TrainingSets
from bezoar.threads import in_threads, one_linear_algebra_thread

KERNEL_BYTES = 1 << 29
SUBSETS_PER_TASK = 32


def is_pooled(estimator: Any) -> bool:
    """Whether a learner can share work between subsets."""
    return hasattr(estimator, "share")


@dataclass(frozen=True)
class PooledMembers:
    """Fitted base classifiers that share their features.

    Rows, coefficients and class codes of all subsets stand in sequence; ``…_starts`` says where each begins.
    A subset of fewer than two classes has no coefficients: it says ``fallback``, or abstains (-1).
    """

    pool: Pool
    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    coefficients: NDArray[np.float32]
    coefficient_starts: NDArray[np.int64]
    codes: NDArray[np.int64]
    code_starts: NDArray[np.int64]
    fallback: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.fallback)

    @property
    def n_trained(self) -> int:
        """How many have a model of their own."""
        return int((np.diff(self.code_starts) >= 2).sum())

    def chunks(self, n_test: int) -> list[range]:
        """Test samples in runs whose kernel fits the memory set aside for it."""
        size = max(16, min(1024, KERNEL_BYTES // (4 * max(1, self.pool.n_rows)) // 16 * 16))
        return [range(start, min(start + size, n_test)) for start in range(0, n_test, size)]

    def votes(self, samples: Samples, n_classes: int, dtype: Any) -> NDArray[Any]:
        """The vote matrix (samples, members)."""
        parts = [self.votes_on(samples, chunk, n_classes, dtype) for chunk in self.chunks(len(samples))]
        return np.concatenate([np.empty((0, len(self)), dtype), *parts])

    def votes_on(self, samples: Samples, chunk: range, n_classes: int, dtype: Any) -> NDArray[Any]:
        """The votes on one run of samples: their kernel with all training rows, then every subset's scores."""
        votes = np.empty((len(chunk), len(self)), dtype)
        votes[:] = np.where(self.fallback < 0, n_classes, self.fallback)
        with one_linear_algebra_thread():
            kernel = self.pool.kernel_columns(self.pool.test_features(samples.take(np.asarray(chunk))))

            def work(start: int, stop: int) -> None:
                vote_of_subsets(
                    kernel,
                    self.rows,
                    self.starts[start : stop + 1],
                    self.coefficients,
                    self.coefficient_starts[start : stop + 1],
                    self.codes,
                    self.code_starts[start : stop + 1],
                    votes[:, start:stop],
                )

            in_threads(len(self), SUBSETS_PER_TASK, work)
        return votes


def fit_pooled(estimator: Any, samples: Samples, codes: NDArray[np.int64], subsets: TrainingSets) -> PooledMembers:
    """Train all base classifiers of a pooled learner."""
    pool = estimator.share(samples.take(np.arange(len(samples))))
    n = len(subsets)
    rows: list[Any] = [None] * n
    coefficients: list[Any] = [None] * n
    held: list[Any] = [None] * n
    fallback = np.full(n, -1, np.int64)

    def work(start: int, stop: int) -> None:
        for i in range(start, stop):
            own = subsets.rows(i)
            held[i], local = np.unique(codes[own], return_inverse=True)
            rows[i], coefficients[i] = np.zeros(0, np.int64), np.zeros(0, np.float32)
            if len(held[i]):
                fallback[i] = held[i][np.bincount(local).argmax()]
            if len(held[i]) >= 2:
                rows[i], coefficients[i] = pool.rows_of(own), pool.solve(own, local)

    with one_linear_algebra_thread():
        in_threads(n, 8, work)
    return PooledMembers(
        pool,
        *concatenated(rows, np.int64),
        *concatenated(coefficients, np.float32),
        *concatenated(held, np.int64),
        fallback,
    )

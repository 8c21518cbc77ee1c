"""Base classifiers of a pooled learner: trained and asked together, each still a function of its own subset.

A pooled learner has a method ``share(X)`` that does once whatever depends on single training samples, and
gives a pool that solves one subset at a time. Whether subsets are solved together or alone, in which blocks
and in how many threads, no vote can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.subsets import TrainingSets
from poisonproof.core.votes import vote_dtype
from poisonproof.errors import PoisonproofError
from poisonproof.learners.kernel_ridge import (
    Pool,
    Solution,
    concatenated,
    vote_of_subsets,
)
from poisonproof.samples.kinds import Samples
from poisonproof.system.determinism import at_most_threads, in_threads, one_linear_algebra_thread
from poisonproof.training.work import Kept, Training

KERNEL_BYTES = 1 << 29
FEWEST_AT_ONCE = 16
SUBSETS_PER_TASK = 32


@dataclass(frozen=True)
class PooledMembers:
    """Fitted base classifiers that share their features.

    Rows, coefficients and class codes of all subsets stand in sequence; ``…_starts`` says where each begins.
    A subset of fewer than two classes has no coefficients: it says ``fallback``, or abstains (-1). ``raised`` names the
    base classifiers whose kernel matrix was not positive definite, with the ridge that each was solved with instead.
    """

    pool: Pool
    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    coefficients: NDArray[np.float32]
    coefficient_starts: NDArray[np.int64]
    codes: NDArray[np.int64]
    code_starts: NDArray[np.int64]
    fallback: NDArray[np.int64]
    raised: dict[int, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.fallback)

    @property
    def trained(self) -> NDArray[np.bool_]:
        """Which of them have a model of their own."""
        return np.diff(self.code_starts) >= 2

    @property
    def n_trained(self) -> int:
        """How many have."""
        return int(self.trained.sum())

    def own_coefficients(self, i: int) -> NDArray[np.float32]:
        """The coefficients of base classifier i, in the canonical order of its rows."""
        return self.coefficients[self.coefficient_starts[i] : self.coefficient_starts[i + 1]]

    def solution(self, i: int) -> Solution:
        """The same, with the ridge they were found with."""
        return Solution(self.own_coefficients(i), self.raised.get(i, self.pool.ridge))

    def votes(
        self,
        samples: Samples,
        n_classes: int,
        *,
        rankings: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> NDArray[Any]:
        """The vote matrix (samples, members), or rankings (samples, members, n_classes), first places the votes."""
        with at_most_threads(n_jobs):
            return votes_together([self], samples, n_classes, [rankings])[0]

    def ask(self, samples: Samples, n_classes: int, *, rankings: bool = False) -> NDArray[Any]:
        """The same: they can answer any sample of their kind."""
        return self.votes(samples, n_classes, rankings=rankings)

    def misplaced(self, first: int) -> int | None:
        """None can: their places are their numbers."""
        return None

    def check_ranks(self, learner: Any) -> None:
        """All of them have scores."""

    def remarks(self) -> list[str]:
        """That some have another ridge than was asked for."""
        if not self.raised:
            return []
        most = max(self.raised.values())
        return [
            f"{len(self.raised)} of {len(self)} base classifiers have a kernel matrix that is not positive definite, "
            f"so their ridge was doubled until it was, from {self.pool.ridge:g} to at most {most:g}."
        ]

    def places(self, kernel: NDArray[np.float32], n_classes: int, dtype: Any, rankings: bool) -> NDArray[Any]:
        """The same on a run of samples, from their kernel with all rows of the pool."""
        places = np.full((kernel.shape[1], len(self), n_classes if rankings else 1), n_classes, dtype)
        places[..., 0] = np.where(self.fallback < 0, n_classes, self.fallback)

        def work(start: int, stop: int) -> None:
            vote_of_subsets(
                kernel,
                self.rows,
                self.starts[start : stop + 1],
                self.coefficients,
                self.coefficient_starts[start : stop + 1],
                self.codes,
                self.code_starts[start : stop + 1],
                places[:, start:stop],
            )

        in_threads(len(self), SUBSETS_PER_TASK, work)
        return places if rankings else places[..., 0]


def votes_together(
    members: Sequence[PooledMembers],
    samples: Samples,
    n_classes: int,
    rankings: Sequence[bool],
    kernel_bytes: int | None = None,
) -> list[NDArray[Any]]:
    """The votes (or rankings) of several ensembles on one pool, which so share its kernel.

    Computed by runs of samples whose kernel fits the memory set aside for it.
    """
    pool, dtype = members[0].pool, vote_dtype(n_classes)
    if any(other.pool is not pool for other in members):
        raise PoisonproofError("Ensembles that vote together must have been trained on one pool.")
    room = (KERNEL_BYTES if kernel_bytes is None else kernel_bytes) // (4 * max(1, pool.n_rows))
    size = max(FEWEST_AT_ONCE, min(1024, room // FEWEST_AT_ONCE * FEWEST_AT_ONCE))
    shapes = [
        (0, len(fitted), *([n_classes] if ranked else [])) for fitted, ranked in zip(members, rankings, strict=True)
    ]
    parts = [[np.empty(shape, dtype)] for shape in shapes]
    with one_linear_algebra_thread():
        for start in range(0, len(samples), size):
            chunk = np.arange(start, min(start + size, len(samples)))
            kernel = pool.kernel_columns(pool.test_features(samples.take(chunk)))
            for fitted, part, ranked in zip(members, parts, rankings, strict=True):
                part.append(fitted.places(kernel, n_classes, dtype, ranked))
    return [np.concatenate(part) for part in parts]


def fit_pooled(
    training: Training,
    earlier: Kept | None = None,
    only: Sequence[int] | None = None,
    pool: Pool | None = None,
) -> PooledMembers:
    """Train all base classifiers of a pooled learner, but for those that stay as they were.

    With ``only``, give just those of these subsets, on a pool of their own samples. ``pool`` may be one of all samples.
    """
    estimator, samples, codes, subsets = training
    indices = range(len(subsets)) if only is None else only
    used = np.arange(len(samples)) if only is None or pool is not None else _samples_of(subsets, only)
    used = used if len(used) else np.zeros(1, np.int64)  # a pool holds something, even if nobody uses it
    pool = estimator.share(samples.take(used)) if pool is None else pool
    place = np.full(len(samples), -1, np.int64)
    place[used] = np.arange(len(used))
    same = set() if earlier is None else set(earlier.indices.tolist())
    n = len(indices)
    rows: list[Any] = [None] * n
    coefficients: list[Any] = [None] * n
    held: list[Any] = [None] * n
    fallback = np.full(n, -1, np.int64)
    raised: dict[int, float] = {}

    def work(start: int, stop: int) -> None:
        for i in range(start, stop):
            subset = subsets.rows(indices[i])
            held[i], local = np.unique(codes[subset], return_inverse=True)
            subset = place[subset]
            rows[i], coefficients[i] = np.zeros(0, np.int64), np.zeros(0, np.float32)
            if len(held[i]):
                fallback[i] = held[i][np.bincount(local).argmax()]
            if len(held[i]) >= 2:
                rows[i] = pool.rows_of(subset)
                if earlier is not None and indices[i] in same:
                    coefficients[i], ridge = earlier.members.solution(indices[i])
                else:
                    coefficients[i], ridge = pool.solve(subset, local)
                if ridge != pool.ridge:
                    raised[i] = ridge

    with one_linear_algebra_thread():
        in_threads(n, 8, work)
    return PooledMembers(
        pool,
        *concatenated(rows, np.int64),
        *concatenated(coefficients, np.float32),
        *concatenated(held, np.int64),
        fallback,
        dict(sorted(raised.items())),
    )


def _samples_of(subsets: TrainingSets, indices: Sequence[int]) -> NDArray[np.int64]:
    """The samples of these subsets together, each once."""
    return np.unique(np.concatenate([np.zeros(0, np.int64), *(subsets.rows(i) for i in indices)]))

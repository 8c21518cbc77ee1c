"""The engine: subsets → base classifiers → votes, through joblib.

Work goes out in blocks of base classifiers. No result depends on the size of the blocks, on the
number of workers or on the backend; `joblib.parallel_config` chooses the latter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed

from bezoar.learners.member import Member, fit_member, vote_of
from bezoar.learners.pooled import PooledMembers, fit_pooled, is_pooled
from bezoar.samples import Samples
from bezoar.subsets import Subsets, TrainingSets
from bezoar.threads import caller, limit_worker, one_linear_algebra_thread
from bezoar.votes import vote_dtype

BLOCKS_PER_JOB = 8
MAX_BLOCK = 64


def fit_members(
    estimator: Any,
    samples: Samples,
    codes: NDArray[np.int64],
    subsets: TrainingSets,
    *,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> list[Member] | PooledMembers:
    """Train one base classifier per subset, on that subset; together if the learner is pooled."""
    if is_pooled(estimator):
        return fit_pooled(estimator, samples, codes, subsets)
    tasks = (
        delayed(_fit_block)(
            estimator, samples, codes, [subsets.seed(i) for i in block], [subsets.rows(i) for i in block], caller()
        )
        for block in blocks(range(len(subsets)), n_jobs)
    )
    return [member for part in _run(tasks, n_jobs, verbose) for member in part]


def collect_votes(
    members: Sequence[Member] | PooledMembers,
    samples: Samples,
    n_classes: int,
    *,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> NDArray[Any]:
    """The vote matrix (n_samples, members). Raises if no base classifier can answer a sample."""
    if isinstance(members, PooledMembers):
        return members.votes(samples, n_classes, vote_dtype(n_classes))
    tasks = (
        delayed(_vote_block)([members[i] for i in block], samples, n_classes, caller())
        for block in blocks(range(len(members)), n_jobs)
    )
    parts = list(_run(tasks, n_jobs, verbose))
    check_answered([refused for _, refused in parts], sum(member.model is not None for member in members))
    empty = np.empty((len(samples), 0), vote_dtype(n_classes))
    return np.concatenate([empty, *(votes for votes, _ in parts)], axis=1)


class Refusals(NamedTuple):
    """How many base classifiers of a block could not answer each sample, and what the first of them said."""

    per_sample: NDArray[np.int64]
    reason: str | None


def check_answered(refusals: Sequence[Refusals], n_trained: int) -> None:
    """Raise if there is a sample that no base classifier could answer: that is the caller's to know."""
    total = sum((part.per_sample for part in refusals), np.zeros(1, np.int64))
    if n_trained and (total >= n_trained).any():
        reason = next(part.reason for part in refusals if part.reason)
        raise ValueError(
            f"None of the {n_trained} base classifiers could answer sample {int(total.argmax())}; "
            f"the first said: {reason}"
        )


def train_and_vote(
    estimator: Any,
    samples: Samples,
    codes: NDArray[np.int64],
    subsets: Subsets,
    test: Samples,
    n_classes: int,
    wanted: Sequence[Sequence[int]],
    *,
    n_jobs: int | None = None,
) -> Iterator[tuple[list[Member], NDArray[Any], Refusals]]:
    """Members, votes and refusals (see `check_answered`) of each wanted block, in that order, as they are done."""
    tasks = (
        delayed(_train_and_vote_block)(
            estimator, samples, codes, block, [subsets.rows(i) for i in block], test, n_classes, caller()
        )
        for block in wanted
    )
    yield from _run(tasks, n_jobs, 0)


def blocks(indices: Sequence[int], n_jobs: int | None) -> list[Sequence[int]]:
    """Indices in runs that keep every worker busy to the end."""
    size = max(1, min(MAX_BLOCK, -(-len(indices) // (BLOCKS_PER_JOB * effective_n_jobs(n_jobs)))))
    return [indices[start : start + size] for start in range(0, len(indices), size)]


def _run(tasks: Any, n_jobs: int | None, verbose: int) -> Iterator[Any]:
    with one_linear_algebra_thread():
        yield from Parallel(n_jobs=n_jobs, verbose=verbose, return_as="generator")(tasks)


def _fit_block(
    estimator: Any,
    samples: Samples,
    codes: NDArray[np.int64],
    indices: Sequence[int],
    rows: list[NDArray[np.int64]],
    parent: tuple[int, int],
) -> list[Member]:
    limit_worker(parent)
    return [fit_member(estimator, i, samples, codes, own) for i, own in zip(indices, rows, strict=True)]


def _vote_block(
    members: list[Member], samples: Samples, n_classes: int, parent: tuple[int, int]
) -> tuple[NDArray[Any], Refusals]:
    limit_worker(parent)
    batches: dict[Any, Any] = {}
    votes = np.empty((len(samples), len(members)), vote_dtype(n_classes))
    refusals, first = np.zeros(len(samples), np.int64), None
    for column, member in enumerate(members):
        fed = None
        if member.model is not None:
            if member.form not in batches:
                batches[member.form] = samples.take(np.arange(len(samples)), member.form)
            fed = batches[member.form].copy()  # a base classifier may change what it is fed
        votes[:, column], refused, reason = vote_of(member, fed, len(samples), n_classes)
        refusals += refused
        first = first or reason
    return votes, Refusals(refusals, first)


def _train_and_vote_block(
    estimator: Any,
    samples: Samples,
    codes: NDArray[np.int64],
    indices: Sequence[int],
    rows: list[NDArray[np.int64]],
    test: Samples,
    n_classes: int,
    parent: tuple[int, int],
) -> tuple[list[Member], NDArray[Any], Refusals]:
    members = _fit_block(estimator, samples, codes, indices, rows, parent)
    return (members, *_vote_block(members, test, n_classes, parent))

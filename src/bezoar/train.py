"""The engine: subsets → base classifiers → votes, through joblib.

Work goes out in blocks of base classifiers. No result depends on the size of the blocks, on the
number of workers or on the backend; `joblib.parallel_config` chooses the latter.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray
from scipy.sparse import issparse

from bezoar.learners.member import Member, SampleRefusedError, fit_member, vote_of
from bezoar.samples import Samples, is_frame
from bezoar.subsets import Subsets
from bezoar.threads import limit_worker, one_linear_algebra_thread

BLOCKS_PER_JOB = 8
MAX_BLOCK = 64


def fit_members(
    estimator: Any,
    samples: Samples,
    codes: NDArray[np.int64],
    subsets: Subsets,
    *,
    indices: Sequence[int] | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> list[Member]:
    """Train the base classifiers of these subsets (all by default), each on its own subset."""
    wanted = range(len(subsets)) if indices is None else indices
    tasks = (
        delayed(_fit_block)(estimator, samples, codes, block, [subsets.rows(i) for i in block], os.getpid())
        for block in blocks(wanted, n_jobs)
    )
    return [member for part in _run(tasks, n_jobs, verbose) for member in part]


def collect_votes(
    members: Sequence[Member],
    samples: Samples,
    n_classes: int,
    *,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> NDArray[Any]:
    """The vote matrix (n_samples, members). Raises if no base classifier can answer a sample."""
    tasks = (
        delayed(_vote_block)([members[i] for i in block], samples, n_classes, os.getpid())
        for block in blocks(range(len(members)), n_jobs)
    )
    matrix = np.empty((len(samples), len(members)), vote_dtype(n_classes))
    refusals = np.zeros(len(samples), np.int64)
    at = 0
    for votes, refused in _run(tasks, n_jobs, verbose):
        matrix[:, at : at + votes.shape[1]] = votes
        refusals += refused
        at += votes.shape[1]
    check_answered(members, samples, refusals)
    return matrix


def check_answered(members: Sequence[Member], samples: Samples, refusals: NDArray[np.int64]) -> None:
    """Raise what a base classifier raises on a sample that none of them can answer."""
    answering = [member for member in members if member.model is not None]
    for row in np.flatnonzero(refusals >= len(answering))[:1] if answering else ():
        answering[0].model.predict(samples.take([row], answering[0].form))
        raise SampleRefusedError(f"No base classifier could answer test sample {row}.")


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
) -> Iterator[tuple[list[Member], NDArray[Any], NDArray[np.int64]]]:
    """Members, votes and refusals (see `check_answered`) of each wanted block, in that order, as they are done."""
    tasks = (
        delayed(_train_and_vote_block)(
            estimator, samples, codes, block, [subsets.rows(i) for i in block], test, n_classes, os.getpid()
        )
        for block in wanted
    )
    yield from _run(tasks, n_jobs, 0)


def blocks(indices: Sequence[int], n_jobs: int | None) -> list[Sequence[int]]:
    """Indices in runs that keep every worker busy to the end."""
    size = max(1, min(MAX_BLOCK, -(-len(indices) // (BLOCKS_PER_JOB * effective_n_jobs(n_jobs)))))
    return [indices[start : start + size] for start in range(0, len(indices), size)]


def vote_dtype(n_classes: int) -> type[np.unsignedinteger[Any]]:
    """The smallest type that holds every class code and the abstention."""
    return np.uint8 if n_classes <= 255 else np.uint16


def _run(tasks: Any, n_jobs: int | None, verbose: int) -> Iterator[Any]:
    with one_linear_algebra_thread():
        yield from Parallel(n_jobs=n_jobs, verbose=verbose, return_as="generator")(tasks)


def _fit_block(
    estimator: Any,
    samples: Samples,
    codes: NDArray[np.int64],
    indices: Sequence[int],
    rows: list[NDArray[np.int64]],
    parent: int,
) -> list[Member]:
    limit_worker(parent)
    return [fit_member(estimator, i, samples, codes, own) for i, own in zip(indices, rows, strict=True)]


def _vote_block(
    members: list[Member], samples: Samples, n_classes: int, parent: int
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    limit_worker(parent)
    batches: dict[Any, Any] = {}
    votes = np.empty((len(samples), len(members)), vote_dtype(n_classes))
    refusals = np.zeros(len(samples), np.int64)
    for column, member in enumerate(members):
        fed = None
        if member.model is not None:
            if member.form not in batches:
                batches[member.form] = _read_only(samples.take(np.arange(len(samples)), member.form))
            fed = batches[member.form].copy() if is_frame(batches[member.form]) else batches[member.form]
        votes[:, column], refused = vote_of(member, fed, len(samples), n_classes)
        refusals += refused
    return votes, refusals


def _train_and_vote_block(
    estimator: Any,
    samples: Samples,
    codes: NDArray[np.int64],
    indices: Sequence[int],
    rows: list[NDArray[np.int64]],
    test: Samples,
    n_classes: int,
    parent: int,
) -> tuple[list[Member], NDArray[Any], NDArray[np.int64]]:
    members = _fit_block(estimator, samples, codes, indices, rows, parent)
    return (members, *_vote_block(members, test, n_classes, parent))


def _read_only(fed: Any) -> Any:
    """A batch that one base classifier cannot change under the next one's feet."""
    for array in (fed.data, fed.indices, fed.indptr) if issparse(fed) else (fed,):
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
    return fed

"""The engine: subsets → base classifiers → votes, through joblib.

Work goes out in blocks of base classifiers. No result depends on the size of the blocks, on the
number of workers or on the backend; `joblib.parallel_config` chooses the latter.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed

from poisonproof.errors import PoisonproofError
from poisonproof.partition.subsets import Subsets, TrainingSets
from poisonproof.premises import PremiseWarning
from poisonproof.samples.kinds import Samples
from poisonproof.system.environment import environment
from poisonproof.system.progress import counted
from poisonproof.system.threads import caller, limit_worker, one_linear_algebra_thread
from poisonproof.system.workers import dead_workers_told, own_workers, sent_once
from poisonproof.training.member import (
    Member,
    fit_member,
    ranking_of,
    vote_of,
)
from poisonproof.training.pooled import (
    Kept,
    PooledMembers,
    fit_pooled,
    is_pooled,
)
from poisonproof.votes.votes import vote_dtype

BLOCKS_PER_JOB = 8
MAX_BLOCK = 64
MAPPED_BYTES = 1 << 16  # larger arrays reach joblib's processes as a file that is mapped, not with every task


def fit_members(
    estimator: Any,
    samples: Samples,
    codes: NDArray[np.int64],
    subsets: TrainingSets,
    *,
    earlier: Kept | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> list[Member] | PooledMembers:
    """Train one base classifier per subset, on that subset; together if the learner is pooled.

    ``earlier`` are base classifiers of other training data, of which those stay whose subset is the same.
    """
    if is_pooled(estimator):
        return fit_pooled(estimator, samples, codes, subsets, earlier)
    members: dict[int, Member] = {} if earlier is None else {int(i): earlier.members[i] for i in earlier.indices}
    wanted = [i for i in range(len(subsets)) if i not in members]
    planned = blocks(wanted, n_jobs)
    tasks = (
        delayed(_fit_block)(
            estimator, samples, codes, [subsets.seed(i) for i in block], [subsets.rows(i) for i in block], caller()
        )
        for block in planned
    )
    parts = counted(_run(tasks, (samples, codes), n_jobs, verbose), len(planned))
    fitted = (member for part in parts for member in part)
    members |= dict(zip(wanted, fitted, strict=True))
    return [members[i] for i in range(len(subsets))]


def collect_votes(
    members: Sequence[Member] | PooledMembers,
    samples: Samples,
    n_classes: int,
    *,
    rankings: bool = False,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> NDArray[Any]:
    """The vote matrix (n_samples, members), or rankings (n_samples, members, n_classes), first places the votes.

    Raises if no base classifier can answer any sample.
    """
    if isinstance(members, PooledMembers):
        return members.votes(samples, n_classes, vote_dtype(n_classes), rankings=rankings)
    planned = blocks(range(len(members)), n_jobs)
    tasks = (
        delayed(_vote_block)([members[i] for i in block], samples, n_classes, caller(), rankings) for block in planned
    )
    parts = list(counted(_run(tasks, (samples,), n_jobs, verbose), len(planned)))
    refusals = [refusal for _, refused in parts for refusal in refused.values()]
    check_answered(refusals, sum(member.model is not None for member in members))
    return np.concatenate([votes for votes, _ in parts], axis=1)


class Refusal(NamedTuple):
    """Which samples a base classifier could not answer, and what it said about the first of them."""

    samples: NDArray[np.bool_]
    reason: str


def check_answered(refusals: Sequence[Refusal], n_trained: int) -> None:
    """Warn of samples that no base classifier could answer; raise if there is no other sample.

    A held-out sample may be somebody's poison, so one that nobody can answer must not stop a run.
    """
    total = sum((refusal.samples.astype(np.int64) for refusal in refusals), np.zeros(1, np.int64))
    unanswered = total >= n_trained
    if not n_trained or not unanswered.any():
        return
    said = f"the first said: {refusals[0].reason}"
    if unanswered.all():
        raise PoisonproofError(
            f"None of the {n_trained} base classifiers could answer any of the {len(total)} samples; {said}"
        )
    warnings.warn(
        f"None of the {n_trained} base classifiers could answer {int(unanswered.sum())} of the {len(total)} samples, "
        f"sample {int(unanswered.argmax())} for one; there they say the most frequent class of their subset; {said}",
        PremiseWarning,
        stacklevel=3,
    )


class VotedBlock(NamedTuple):
    """Base classifiers, their votes (samples, members) or rankings, and what some could not answer, by index.

    ``environment`` is that of the worker that made them.
    """

    members: list[Member]
    votes: NDArray[Any]
    refusals: dict[int, Refusal]
    environment: dict[str, Any]


def train_and_vote(
    estimator: Any,
    samples: Samples,
    codes: NDArray[np.int64],
    subsets: Subsets,
    test: Samples,
    n_classes: int,
    wanted: Sequence[Sequence[int]],
    *,
    rankings: bool = False,
    n_jobs: int | None = None,
    scratch: Path | None = None,
) -> Iterator[VotedBlock]:
    """Each wanted block, in that order, as they are done; with rankings in place of votes if they are wanted.

    Worker processes map large arrays from files in ``scratch``, which nobody else may use.
    """
    tasks = (
        delayed(_train_and_vote_block)(
            estimator, samples, codes, block, [subsets.rows(i) for i in block], test, n_classes, caller(), rankings
        )
        for block in wanted
    )
    yield from _run(tasks, (samples, codes, test), n_jobs, 0, scratch)


def vote_again(
    members: list[Member], test: Samples, n_classes: int, rankings: bool
) -> tuple[NDArray[Any], dict[int, Refusal]]:
    """Votes (or rankings) and refusals of base classifiers that were trained before, on other test samples."""
    with one_linear_algebra_thread():
        return _vote_block(members, test, n_classes, caller(), rankings)


def blocks(indices: Sequence[int], n_jobs: int | None) -> list[Sequence[int]]:
    """Indices in runs that keep every worker busy to the end."""
    size = max(1, min(MAX_BLOCK, -(-len(indices) // (BLOCKS_PER_JOB * effective_n_jobs(n_jobs)))))
    return [indices[start : start + size] for start in range(0, len(indices), size)]


def _run(
    tasks: Any, shared: Sequence[Any], n_jobs: int | None, verbose: int, scratch: Path | None = None
) -> Iterator[Any]:
    with one_linear_algebra_thread(), dead_workers_told(), own_workers(scratch, n_jobs) as options:
        with sent_once(shared):
            streams = getattr(get_active_backend()[0], "supports_return_generator", True)
            how = "generator" if streams else "list"  # multiprocessing gives all parts at the end
            parallel = Parallel(n_jobs=n_jobs, verbose=verbose, return_as=how, max_nbytes=MAPPED_BYTES, **options)
        yield from parallel(tasks)


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
    members: list[Member], samples: Samples, n_classes: int, parent: tuple[int, int], rankings: bool
) -> tuple[NDArray[Any], dict[int, Refusal]]:
    limit_worker(parent)
    batches: dict[Any, Any] = {}
    shape = (len(samples), len(members), *([n_classes] if rankings else []))
    said = np.empty(shape, vote_dtype(n_classes))
    refusals = {}
    for column, member in enumerate(members):
        batch = None
        if member.model is not None:
            if member.form not in batches:
                batches[member.form] = samples.take(np.arange(len(samples)), member.form)
            batch = batches[member.form]
        votes, refused, reason = vote_of(member, batch, len(samples), n_classes)
        said[:, column] = ranking_of(member, batch, votes, n_classes) if rankings else votes
        if reason is not None:
            refusals[member.index] = Refusal(refused, reason)
    return said, refusals


def _train_and_vote_block(
    estimator: Any,
    samples: Samples,
    codes: NDArray[np.int64],
    indices: Sequence[int],
    rows: list[NDArray[np.int64]],
    test: Samples,
    n_classes: int,
    parent: tuple[int, int],
    rankings: bool,
) -> VotedBlock:
    members = _fit_block(estimator, samples, codes, indices, rows, parent)
    return VotedBlock(members, *_vote_block(members, test, n_classes, parent, rankings), environment())

"""Fitted base classifiers that were trained one by one: a list of them, or mapped files; asked together or alone."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
from joblib import effective_n_jobs
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed

from poisonproof.core.votes import vote_dtype
from poisonproof.errors import PoisonproofError
from poisonproof.learners.feature_maps import remembering
from poisonproof.learners.seeding import kept_generators
from poisonproof.premises import PremiseWarning
from poisonproof.samples.kinds import Samples
from poisonproof.system.determinism import caller, limit_worker, one_linear_algebra_thread
from poisonproof.system.parallel import copies_held, dead_workers_told, own_workers, sent_once
from poisonproof.system.progress import counted
from poisonproof.training.member import Member, check_gives_scores, fed_to, ranking_of, vote_of
from poisonproof.training.member_files import STACK, load_members
from poisonproof.training.stacked import Read, Stacked, stacked
from poisonproof.training.stacked_files import KeptStack, read_stack
from poisonproof.training.work import Refusal

BLOCKS_PER_JOB = 8
MAX_BLOCK = 64
MAPPED_BYTES = 1 << 16  # larger arrays reach joblib's processes as a file that is mapped, not with every task


class UnansweredError(PoisonproofError):
    """No base classifier could answer any of the samples that there are."""


class SomeMembers(Sequence[Member]):
    """Base classifiers that have nothing to do with each other."""

    @property
    @abstractmethod
    def stacked(self) -> Stacked | None:
        """The same as arrays, where they can be asked all at once."""

    @property
    @abstractmethod
    def n_trained(self) -> int:
        """How many have a model."""

    @property
    @abstractmethod
    def failures(self) -> list[str]:
        """What the learner raised on subsets."""

    @property
    @abstractmethod
    def indices(self) -> list[int]:
        """What each is seeded with."""

    def votes(
        self,
        samples: Samples,
        n_classes: int,
        *,
        rankings: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> NDArray[Any]:
        if not rankings and (whole := self.stacked) is not None:
            together, unread = votes_at_once(whole, self, samples, n_classes, effective_n_jobs(n_jobs))
            check_answered([*unread.values()], self.n_trained, len(samples))
            return together
        planned = planned_blocks(range(len(self)), n_jobs)
        tasks = (
            delayed(vote_block)([self[i] for i in block], samples, n_classes, caller(), rankings=rankings)
            for block in planned
        )
        parts = list(counted(run_tasks(tasks, (samples,), n_jobs, verbose), len(planned)))
        refusals = [refusal for _, refused in parts for refusal in refused.values()]
        check_answered(refusals, self.n_trained, len(samples))
        return np.concatenate([votes for votes, _ in parts], axis=1)

    def ask(self, samples: Samples, n_classes: int, *, rankings: bool = False) -> NDArray[Any]:
        return self.asked(samples, n_classes, rankings=rankings)[0]

    def asked(self, samples: Samples, n_classes: int, *, rankings: bool) -> tuple[NDArray[Any], dict[int, Refusal]]:
        """The same, and what each of them could not answer."""
        with one_linear_algebra_thread():
            if not rankings and (whole := self.stacked) is not None:
                return votes_at_once(whole, self, samples, n_classes)
            return vote_block(self, samples, n_classes, caller(), rankings=rankings)

    def remarks(self) -> list[str]:
        return told_failures(self.failures, self.n_trained, len(self))

    def misplaced(self, first: int) -> int | None:
        return next((at for at, index in enumerate(self.indices, first) if index != at), None)

    def check_ranks(self, learner: Any) -> None:
        check_gives_scores(next((member.model for member in self if member.model is not None), learner))


class MemberList(list[Member], SomeMembers):
    """Base classifiers as they were fitted."""

    @cached_property
    def stacked(self) -> Stacked | None:
        return stacked(self)

    @property
    def n_trained(self) -> int:
        return sum(member.model is not None for member in self)

    @property
    def failures(self) -> list[str]:
        return [member.failure for member in self if member.failure]

    @property
    def indices(self) -> list[int]:
        return [member.index for member in self]


class MappedMembers(SomeMembers):
    """Base classifiers in mapped files; one by itself is made of arrays when somebody asks for it."""

    def __init__(self, parts: Sequence[KeptStack]) -> None:
        self.parts = tuple(parts)
        self.starts = np.cumsum([0, *map(len, self.parts)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    @overload
    def __getitem__(self, at: int) -> Member: ...
    @overload
    def __getitem__(self, at: slice) -> list[Member]: ...
    def __getitem__(self, at: int | slice) -> Member | list[Member]:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        place = range(len(self))[at]
        part = int(np.searchsorted(self.starts, place, side="right")) - 1
        return self.parts[part].members[place - int(self.starts[part])]

    @cached_property
    def stacked(self) -> Stacked:
        return Stacked.joined([part.stacked for part in self.parts])

    @property
    def n_trained(self) -> int:
        return self.stacked.n_trained

    @property
    def failures(self) -> list[str]:
        return [failure for part in self.parts for failure in part.failures if failure]

    @property
    def indices(self) -> list[int]:
        return [index for part in self.parts for index in part.indices]


def load_member_files(paths: Sequence[Path], trusted: Sequence[str] = ()) -> SomeMembers:
    """Kept base classifiers: mapped, if all of them are stacked."""
    if paths and all(path.suffix == STACK for path in paths):
        return MappedMembers([read_stack(path) for path in paths])
    return MemberList(member for path in paths for member in load_members(path, trusted))


def told_failures(failures: Sequence[str], n_trained: int, n_members: int) -> list[str]:
    """What is to be said of base classifiers whose learner raised; raises if none of them could be trained."""
    if failures and not n_trained:
        raise PoisonproofError(
            f"The base classifier raised on every one of the {len(failures)} subsets that hold two classes or more; "
            f"the first said: {failures[0]}"
        )
    words = (
        f"{len(failures)} of {n_members} base classifiers raised on their subset and say its most frequent class "
        f"instead; the first said: "
    )
    return [words + failures[0]] if failures else []


def check_answered(refusals: Sequence[Refusal], n_trained: int, n_samples: int) -> None:
    """Warn of samples that no base classifier could answer; raise if there is no other sample.

    A held-out sample may be somebody's poison, so one that nobody can answer must not stop a run.
    """
    total = sum((refusal.samples.astype(np.int64) for refusal in refusals), np.zeros(n_samples, np.int64))
    unanswered = total >= n_trained
    if not n_trained or not unanswered.any():
        return
    first = f"the first said: {refusals[0].reason}"
    if unanswered.all():
        raise UnansweredError(
            f"None of the {n_trained} base classifiers could answer any of the {n_samples} samples; {first}"
        )
    warnings.warn(
        f"None of the {n_trained} base classifiers could answer {int(unanswered.sum())} of the {n_samples} samples, "
        f"sample {int(unanswered.argmax())} for one; there they say the most frequent class of their subset, or rank "
        f"classes in their order; {first}",
        PremiseWarning,
        stacklevel=3,
    )


def planned_blocks(indices: Sequence[int], n_jobs: int | None) -> list[Sequence[int]]:
    """Indices in runs that keep every worker busy to the end."""
    size = max(1, min(MAX_BLOCK, -(-len(indices) // (BLOCKS_PER_JOB * effective_n_jobs(n_jobs)))))
    return [indices[start : start + size] for start in range(0, len(indices), size)]


def run_tasks(
    tasks: Any, shared: Sequence[Any], n_jobs: int | None, verbose: int, scratch: Path | None = None
) -> Iterator[Any]:
    """The results of tasks in their order, by as many workers as are wanted; what is shared is sent to each once."""
    with (
        one_linear_algebra_thread(),
        remembering(),
        dead_workers_told(),
        copies_held(),
        own_workers(scratch, n_jobs) as options,
    ):
        with sent_once(shared):
            streams = getattr(get_active_backend()[0], "supports_return_generator", True)
            how = "generator" if streams else "list"  # multiprocessing gives all parts at the end
            parallel = Parallel(n_jobs=n_jobs, verbose=verbose, return_as=how, max_nbytes=MAPPED_BYTES, **options)
        yield from parallel(tasks)


@remembering()
def vote_block(
    members: Sequence[Member], samples: Samples, n_classes: int, parent: tuple[int, int], *, rankings: bool
) -> tuple[NDArray[Any], dict[int, Refusal]]:
    """What some base classifiers say in this process, votes or rankings, and what they could not answer."""
    limit_worker(parent)
    if not rankings and (whole := stacked(members)) is not None:
        return votes_at_once(whole, members, samples, n_classes)
    return votes_one_by_one(members, samples, n_classes, rankings=rankings)


def votes_at_once(
    whole: Stacked, members: Sequence[Member], samples: Samples, n_classes: int, n_jobs: int | None = None
) -> tuple[NDArray[Any], dict[int, Refusal]]:
    """What stacked base classifiers say; about samples whose words cannot be read each is asked alone."""
    try:
        return whole.votes(Read(samples), n_classes, n_jobs), {}
    except (PoisonproofError, MemoryError):
        raise
    except Exception:
        readable = whole.readable(samples)
        if readable.all():
            raise
    votes = np.empty((len(samples), len(whole)), vote_dtype(n_classes))
    votes[readable] = whole.votes(Read(samples.subset(np.flatnonzero(readable))), n_classes, n_jobs)
    odd = samples.subset(np.flatnonzero(~readable))
    votes[~readable], unread = votes_one_by_one(members, odd, n_classes, rankings=False)
    refusals = {}
    for index, (refused, reason) in unread.items():
        of_all = np.zeros(len(samples), np.bool_)
        of_all[~readable] = refused
        refusals[index] = Refusal(of_all, reason)
    return votes, refusals


def votes_one_by_one(
    members: Sequence[Member], samples: Samples, n_classes: int, *, rankings: bool
) -> tuple[NDArray[Any], dict[int, Refusal]]:
    """What each of them says by itself, and what it could not answer."""
    batches: dict[Any, Any] = {}
    shape = (len(samples), len(members), *([n_classes] if rankings else []))
    of_members = np.empty(shape, vote_dtype(n_classes))
    refusals = {}
    with kept_generators():
        for column, member in enumerate(members):
            batch = None
            if member.model is not None:
                if member.form not in batches:
                    batches[member.form] = fed_to(member.model, samples, np.arange(len(samples)), member.form)
                batch = batches[member.form]
            votes, refused, reason = vote_of(member, batch, len(samples), n_classes)
            if rankings:
                votes, unranked, why = ranking_of(member, batch, votes, n_classes)
                refused, reason = refused | unranked, reason or why
            of_members[:, column] = votes
            if reason is not None:
                refusals[member.index] = Refusal(refused, reason)
    return of_members, refusals

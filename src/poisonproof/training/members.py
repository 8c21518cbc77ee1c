"""The engine of most learners: every base classifier is trained by itself, on its subset and nothing else.

Work goes out in blocks of base classifiers, through joblib. No result depends on the size of the blocks, on the number
of workers or on the backend; `joblib.parallel_config` chooses the latter.
"""

from __future__ import annotations

import logging
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
from joblib import effective_n_jobs
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed

from poisonproof.core.votes import vote_dtype
from poisonproof.display import in_bytes
from poisonproof.errors import PoisonproofError
from poisonproof.learners.inspection import SeededClones
from poisonproof.premises import PremiseWarning
from poisonproof.samples.kinds import Samples
from poisonproof.system.determinism import caller, limit_worker, one_linear_algebra_thread, preserve_rng
from poisonproof.system.files import sha256_of
from poisonproof.system.machine import environment, is_a, resident_bytes
from poisonproof.system.parallel import (
    dead_workers_told,
    own_workers,
    remembering,
    sent_once,
    smallest_worker,
)
from poisonproof.system.progress import counted
from poisonproof.training.engine import (
    Block,
    Earlier,
    Environment,
    Known,
    Refusal,
    Resources,
    Saved,
    VoteBlock,
    VoteJob,
    each_once,
)
from poisonproof.training.member import (
    Member,
    check_gives_scores,
    fed_to,
    fit_member,
    gives_scores,
    ranking_of,
    vote_of,
)
from poisonproof.training.model_files import (
    BY_SKOPS,
    MEMBERS_PER_FILE,
    STACK,
    check_reopens,
    load_members,
    members_file,
    members_stem,
    save_members,
    types_of,
    unknown_types,
)
from poisonproof.training.source import TrainingSource, source_with_texts, with_shared_texts
from poisonproof.training.stacked import KeptStack, Read, Stacked, read_stack, stacked

log = logging.getLogger(__name__)
BLOCKS_PER_JOB = 8
MAX_BLOCK = 64
MAPPED_BYTES = 1 << 16  # larger arrays reach joblib's processes as a file that is mapped, not with every task
SOON_TRAINED = (("poisonproof.learners.table", "TableClassifier"), ("poisonproof.learners.text", "TextClassifier"))
SOON_ROWS = 50_000  # on which these learners take less time than a worker takes to start
TASKS_PER_JOB = 2  # of a run, at least: each of them reads the test samples once


class UnansweredError(PoisonproofError):
    """No base classifier could answer any of the samples that there are."""


class MemberEngine:
    """Every base classifier is trained by itself, on its subset and nothing else."""

    pooled = False
    uses_workers = True

    def fit(
        self,
        learner: Any,
        source: TrainingSource,
        *,
        earlier: Earlier | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> MemberList:
        members: dict[int, Member] = {} if earlier is None else {int(i): earlier.members[i] for i in earlier.indices}
        wanted = [i for i in range(len(source)) if i not in members]
        planned = planned_blocks(wanted, n_jobs)
        read = source_with_texts(learner, source, wanted)
        tasks = (delayed(_fit_block)(learner, read, block, caller()) for block in planned)
        parts = counted(run_tasks(tasks, (read,), n_jobs, verbose), len(planned))
        members |= dict(zip(wanted, (member for part in parts for member in part), strict=True))
        return MemberList(members[i] for i in range(len(source)))

    def votes(
        self,
        learner: Any,
        source: TrainingSource,
        indices: Sequence[int],
        test: Samples,
        n_classes: int,
        *,
        rankings: bool = False,
        n_jobs: int | None = None,
    ) -> NDArray[Any]:
        planned = planned_blocks(indices, n_jobs) or [indices]
        job = VoteJob(
            learner, source, np.zeros((0, 0), np.uint8), test, n_classes, rankings, resources=Resources(n_jobs)
        )
        parts = [part.votes for part in counted(train_and_vote(job, planned), len(planned))]
        return np.concatenate(parts, axis=1)

    def ranks(self, learner: Any) -> bool:
        return gives_scores(learner)

    def memory(
        self, learner: Any, source: TrainingSource, test: Samples, n_classes: int, *, rankings: bool = False
    ) -> MemberMemory:
        if rankings:
            check_gives_scores(learner)
        votes = len(test) * vote_dtype(n_classes)().itemsize * (n_classes if rankings else 1)
        return MemberMemory(
            resident_bytes() + 2 * votes * len(source),
            FED * source.n_bytes + 3 * test.n_bytes,
            MEMBERS_PER_FILE * votes,
            source.whole_bytes,
        )

    def grid(self, n_subsets: int, n_test: int) -> list[Block]:
        """All test samples, and as many base classifiers as a file holds."""
        starts = range(0, n_subsets, MEMBERS_PER_FILE)
        return [
            Block(number, range(start, min(start + MEMBERS_PER_FILE, n_subsets)), range(n_test))
            for number, start in enumerate(starts)
        ]

    def saved(self, job: VoteJob, known: Sequence[Known]) -> Saved:
        """Those of which the block of votes says what they are a function of, and their file's digest."""
        assert job.models is not None
        saved, vouched = Saved.nothing(len(job.digests)), types_of(job.learner)
        for votes, same in known:
            path = job.models / members_file(job.models, votes.block.number)
            if not path.exists() or sha256_of(path) != votes.members:
                log.warning("%s is damaged or missing. It is computed again.", path)
                continue
            if not same.all() and path.suffix == BY_SKOPS and (unknown := unknown_types(path, vouched)):
                log.warning("%s holds types nobody vouched for (%s): it is computed again.", path, ", ".join(unknown))
                continue
            saved.current[votes.block.subsets] = same
            saved.environments[votes.block.number] = votes.environments
        return saved

    def vote(self, job: VoteJob, missing: Mapping[Block, list[int]], saved: Saved) -> Iterator[VoteBlock]:
        """Block by block: saved base classifiers are asked, the others trained by workers, which ask them too."""
        reused = {block: [i for i in indices if saved.current[i]] for block, indices in missing.items()}
        others = {block: [i for i in indices if not saved.current[i]] for block, indices in missing.items()}
        wanted = [i for indices in others.values() for i in indices]
        jobs, size = job.resources.n_jobs, MEMBERS_PER_FILE
        if _soon_trained(job, wanted):
            jobs = 1  # they are done before a worker has started
        elif effective_n_jobs(jobs) > 1:
            size = max(1, min(size, -(-len(wanted) // (TASKS_PER_JOB * effective_n_jobs(jobs)))))
        pieces = {
            block: [indices[at : at + size] for at in range(0, len(indices), size)] for block, indices in others.items()
        }
        fresh = train_and_vote(job, [piece for parts in pieces.values() for piece in parts], jobs)
        if job.models is not None:
            fresh = _that_reopen(fresh, job.learner)
        test = (
            with_shared_texts(job.learner, job.test, lambda: np.arange(len(job.test)))
            if any(reused.values())
            else job.test
        )
        for block in missing:
            asked = _load_some(job, block, reused[block])
            lost = sorted(set(reused[block]) - {member.index for member in asked})
            trained = [*islice(fresh, len(pieces[block])), *(train_and_vote(job, [lost], 1) if lost else [])]
            parts = [(part.members, part.votes, part.refusals) for part in trained]
            environments = [part.environment for part in trained]
            if asked:
                parts.append((asked, *asked.asked(test, job.n_classes, rankings=job.rankings)))
                environments += [*saved.environments.get(block.number, []), environment()]
            if job.models is not None and trained:
                _save_block(job.models, block, [member for part in trained for member in part.members], job.learner)
            yield _joined(job, block, parts, environments)

    def save(self, members: Any, folder: Path, digests: NDArray[np.uint8]) -> None:
        for number, start in enumerate(range(0, len(members), MEMBERS_PER_FILE)):
            save_members(folder / members_stem(number), members[start : start + MEMBERS_PER_FILE])

    def files(self, n_subsets: int, folder: Path) -> list[str]:
        return [members_file(folder, block.number) for block in self.grid(n_subsets, 0)]

    def parts(
        self, folder: Path, files: Sequence[str], learner: Any, n_classes: int, trusted: Sequence[str] = ()
    ) -> Iterator[FittedMembers]:
        return (load_member_files([folder / name], trusted) for name in files)

    def load(
        self, folder: Path, n_subsets: int, learner: Any, n_classes: int, trusted: Sequence[str] = ()
    ) -> FittedMembers:
        return load_member_files([folder / name for name in self.files(n_subsets, folder)], trusted)


def _soon_trained(job: VoteJob, wanted: Sequence[int]) -> bool:
    """Whether these base classifiers are trained before a worker has started."""
    few = any(is_a(job.learner, *kind) for kind in SOON_TRAINED) and len(wanted) <= MEMBERS_PER_FILE
    return few and int(job.source.sizes[wanted].sum()) <= SOON_ROWS


def _that_reopen(fresh: Iterator[Trained], learner: Any) -> Iterator[Trained]:
    """The same; the first is refused at once where nobody could open it again."""
    for number, part in enumerate(fresh):
        if not number:
            check_reopens(learner, part.members)
        yield part


def _load_some(job: VoteJob, block: Block, indices: Sequence[int]) -> MemberList:
    """These saved base classifiers, which only have to be asked; none if they cannot be opened."""
    if not indices:
        return MemberList()
    assert job.models is not None
    try:
        members = load_members(job.models / members_file(job.models, block.number), types_of(job.learner))
    except ValueError as error:
        log.warning("%s It is computed again.", error)
        return MemberList()
    return MemberList(member for member in members if member.index in indices)


def _save_block(models: Path, block: Block, fresh: list[Member], learner: Any) -> None:
    """Write these base classifiers, and the block's others that are current."""
    members = {}
    if len(fresh) < len(block.subsets):
        path = models / members_file(models, block.number)
        members = {member.index: member for member in load_members(path, types_of(learner))}
    members |= {member.index: member for member in fresh}
    save_members(models / members_stem(block.number), [members[i] for i in sorted(members)])


def _joined(
    job: VoteJob,
    block: Block,
    parts: Sequence[tuple[Sequence[Member], NDArray[Any], dict[int, Refusal]]],
    environments: Sequence[Environment],
) -> VoteBlock:
    members = [member for part in parts for member in part[0]]
    return VoteBlock(
        block,
        [member.index for member in members],
        np.concatenate([part[1] for part in parts], axis=1),
        np.array([member.model is not None for member in members], np.bool_),
        each_once(environments),
        {member.index: member.failure for member in members if member.failure},
        {i: refusal for part in parts for i, refusal in part[2].items()},
        None if job.models is None else sha256_of(job.models / members_file(job.models, block.number)),
    )


class Trained(NamedTuple):
    """Base classifiers, their votes (samples, members) or rankings, and what some could not answer, by index.

    ``environment`` is that of the worker that trained them.
    """

    members: list[Member]
    votes: NDArray[Any]
    refusals: dict[int, Refusal]
    environment: Environment


def train_and_vote(job: VoteJob, wanted: Sequence[Sequence[int]], n_jobs: int | None = None) -> Iterator[Trained]:
    """Each wanted group of base classifiers, in that order, as they are done."""
    source = source_with_texts(job.learner, job.source, [i for indices in wanted for i in indices])
    test = with_shared_texts(job.learner, job.test, lambda: np.arange(len(job.test)))
    parent, jobs = caller(), job.resources.n_jobs if n_jobs is None else n_jobs
    tasks = (
        delayed(_train_and_vote_block)(job.learner, source, indices, test, job.n_classes, parent, rankings=job.rankings)
        for indices in wanted
    )
    yield from run_tasks(tasks, (source, test), jobs, 0, job.resources.scratch)


@remembering()
def _fit_block(learner: Any, source: TrainingSource, indices: Sequence[int], parent: tuple[int, int]) -> list[Member]:
    limit_worker(parent)
    with preserve_rng():
        make = SeededClones(learner)
        return [fit_member(learner, source.seed(i), source.subset(i), make) for i in indices]


@remembering()
def _train_and_vote_block(
    learner: Any,
    source: TrainingSource,
    indices: Sequence[int],
    test: Samples,
    n_classes: int,
    parent: tuple[int, int],
    *,
    rankings: bool,
) -> Trained:
    members = _fit_block(learner, source, indices, parent)
    votes, refusals = vote_block(members, test, n_classes, parent, rankings=rankings)
    return Trained(members, votes, refusals, environment())


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
        own_workers(scratch, n_jobs) as options,
    ):
        with sent_once(shared):
            streams = getattr(get_active_backend()[0], "supports_return_generator", True)
            how = "generator" if streams else "list"  # multiprocessing gives all parts at the end
            parallel = Parallel(n_jobs=n_jobs, verbose=verbose, return_as=how, max_nbytes=MAPPED_BYTES, **options)
        yield from parallel(tasks)


class FittedMembers(Sequence[Member]):
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

    def notices(self) -> list[str]:
        return failure_notices(self.failures, self.n_trained, len(self))

    def misplaced(self, first: int) -> int | None:
        return next((at for at, index in enumerate(self.indices, first) if index != at), None)

    def check_ranks(self, learner: Any) -> None:
        check_gives_scores(next((member.model for member in self if member.model is not None), learner))


class MemberList(list[Member], FittedMembers):
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


class MappedMembers(FittedMembers):
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


def load_member_files(paths: Sequence[Path], trusted: Sequence[str] = ()) -> FittedMembers:
    """Kept base classifiers: mapped, if all of them are stacked."""
    if paths and all(path.suffix == STACK for path in paths):
        return MappedMembers([read_stack(path) for path in paths])
    return MemberList(member for path in paths for member in load_members(path, trusted))


def failure_notices(failures: Sequence[str], n_trained: int, n_members: int) -> list[str]:
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
    with preserve_rng():
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


FED = 8  # a subset as it is read, in order, as it is fed, and what the learner makes of it
PROCESS_BYTES = 300_000_000  # of a worker that has imported what learners need
REMEDY = "a larger k makes subsets smaller, a smaller --held-out fewer votes"


@dataclass(frozen=True)
class MemberMemory:
    """Bytes, estimated from above.

    What a learner takes for itself nobody can tell beforehand; it is reckoned as a multiple of the samples it is fed.

    Attributes
    ----------
    held : int
        In this process: what it has taken so far, and the votes.
    trained : int
        Wherever a base classifier is trained and asked.
    flight : int
        Of the votes of one block of base classifiers, on their way.
    whole : int
        Of all training samples.
    """

    held: int
    trained: int
    flight: int
    whole: int = 0

    def at(self, jobs: int) -> int:
        """With so many workers; one is this process itself."""
        processes = 0 if jobs == 1 else jobs * PROCESS_BYTES
        return self.held + (2 * jobs + 1) * self.flight + jobs * self.trained + processes

    @property
    def undefended(self) -> int:
        """While one model is trained on all data."""
        return self.held + FED * self.whole

    def check_machine(self) -> None:
        """What a learner takes for itself nobody can tell, so nothing is refused."""

    def within(self, bound: int, n_jobs: int | None) -> Resources:
        """How many workers may be used, or one sentence that says how much is needed.

        Workers of a cluster have memory of their own: each of them must hold what one base classifier takes.
        """
        worker = smallest_worker()
        if worker is not None:
            need = PROCESS_BYTES + self.trained
            if worker.memory < need:
                raise PoisonproofError(
                    f"The worker {worker.name} may take {in_bytes(worker.memory)}, but a base classifier on its subset "
                    f"takes about {in_bytes(need, up=True)}; start workers with a memory_limit of at least that, or "
                    f"choose other subsets ({REMEDY})."
                )
            return Resources(n_jobs)
        wanted = effective_n_jobs(n_jobs)
        jobs = next((jobs for jobs in range(wanted, 0, -1) if self.at(jobs) <= bound), 0)
        if not jobs:
            raise PoisonproofError(
                f"--max-memory {in_bytes(bound, up=True)} is not enough: this needs about "
                f"{in_bytes(self.at(1), up=True)}, of which {in_bytes(self.trained)} for one base classifier on its "
                f"subset; give at least that, or choose other subsets ({REMEDY})."
            )
        if jobs < wanted:
            log.warning(
                "%d of %d workers are used: more would take more than --max-memory %s", jobs, wanted, in_bytes(bound)
            )
        return Resources(jobs)

    def spare(self, bound: int, n_jobs: int | None, *, undefended: bool) -> int:
        """How many bytes every process may use to hold partitions that it has read, whatever else it does.

        They stay until the end, so the models without a defence must fit beside them, where they are trained at all.
        Half of what is left is not given away: small arrays take more than their bytes.
        """
        worker = smallest_worker()
        jobs = effective_n_jobs(n_jobs) if worker is None else 1  # those of a cluster have memory of their own
        whole = self.undefended if undefended else 0
        taken = max(self.at(jobs), whole if whole <= bound else 0)
        here = max(0, bound - taken) // (2 * (1 if jobs == 1 else jobs + 1))
        return here if worker is None else min(here, max(0, worker.memory - PROCESS_BYTES - self.trained) // 2)

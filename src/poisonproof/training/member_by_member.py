"""The engine of most learners: subsets → base classifiers → votes, each by itself, through joblib.

Work goes out in blocks of base classifiers. No result depends on the size of the blocks, on the
number of workers or on the backend; `joblib.parallel_config` chooses the latter.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.utils.parallel import delayed

from poisonproof.core.subsets import TrainingSets
from poisonproof.data.store import StoredSubsets
from poisonproof.learners.feature_maps import remembering
from poisonproof.learners.seeding import Seeder, kept_generators
from poisonproof.learners.table import TableClassifier
from poisonproof.learners.text import TextClassifier
from poisonproof.samples.kinds import Samples, TextSamples
from poisonproof.system.determinism import caller, limit_worker
from poisonproof.system.files import sha256_of
from poisonproof.system.machine import environment
from poisonproof.system.progress import counted
from poisonproof.training.member import (
    Member,
    check_gives_scores,
    fit_made,
    gives_scores,
)
from poisonproof.training.member_files import (
    BY_SKOPS,
    MEMBERS_PER_FILE,
    check_reopens,
    load_members,
    members_file,
    members_stem,
    save_members,
    types_of,
    unknown_types,
)
from poisonproof.training.member_list import (
    MemberList,
    SomeMembers,
    load_member_files,
    planned_blocks,
    run_tasks,
    vote_block,
)
from poisonproof.training.provenance import made_by, made_here
from poisonproof.training.shared_texts import with_shared_texts
from poisonproof.training.work import (
    Answers,
    Block,
    Kept,
    Made,
    Missing,
    Order,
    Refusal,
    Resources,
    Standing,
    Training,
)

log = logging.getLogger(__name__)
NO_SAMPLES = TextSamples(np.empty(0, object))
SOON_TRAINED = {TableClassifier, TextClassifier}
SOON_ROWS = 50_000  # on which these learners take less time than a worker takes to start
TASKS_PER_JOB = 2  # of a run, at least: each of them reads the test samples once
SeededRows = list[tuple[int, NDArray[np.int64]]]
"""The seed and the rows of each of some base classifiers."""


class MemberByMember:
    """Every base classifier is trained by itself, on its subset and nothing else."""

    pooled = False
    uses_workers = True

    def fit(
        self, training: Training, *, earlier: Kept | None = None, n_jobs: int | None = None, verbose: int = 0
    ) -> MemberList:
        subsets = training.subsets
        members: dict[int, Member] = {} if earlier is None else {int(i): earlier.members[i] for i in earlier.indices}
        wanted = [i for i in range(len(subsets)) if i not in members]
        planned = planned_blocks(wanted, n_jobs)
        (estimator, samples, codes, _), _ = _read_once(training, wanted)
        tasks = (
            delayed(_fit_block)(estimator, samples, codes, _seeded_rows(subsets, block), caller()) for block in planned
        )
        parts = counted(run_tasks(tasks, (samples, codes), n_jobs, verbose), len(planned))
        members |= dict(zip(wanted, (member for part in parts for member in part), strict=True))
        return MemberList(members[i] for i in range(len(subsets)))

    def votes(
        self,
        training: Training,
        indices: Sequence[int],
        test: Samples,
        n_classes: int,
        *,
        rankings: bool = False,
        n_jobs: int | None = None,
    ) -> NDArray[Any]:
        planned = planned_blocks(indices, n_jobs) or [indices]
        training, test = _read_once(training, indices, test)
        parts = train_and_vote(training, test, n_classes, planned, rankings=rankings, resources=Resources(n_jobs))
        return np.concatenate([part.votes for part in counted(parts, len(planned))], axis=1)

    def ranks(self, learner: Any) -> bool:
        return gives_scores(learner)

    def memory(self, training: Training, n_classes: int, n_test: int, *, rankings: bool = False) -> None:
        if rankings:
            check_gives_scores(training.estimator)

    def blocks(self, n_subsets: int, n_test: int) -> list[Block]:
        """All test samples, and as many base classifiers as a file keeps."""
        starts = range(0, n_subsets, MEMBERS_PER_FILE)
        return [
            Block(number, range(start, min(start + MEMBERS_PER_FILE, n_subsets)), range(n_test))
            for number, start in enumerate(starts)
        ]

    def standing(
        self, order: Order, n_classes: int, known: Sequence[tuple[Block, NDArray[np.bool_], list[Made], str | None]]
    ) -> Standing:
        """Those of which the block of votes says what they are a function of, and their file's digest."""
        standing, vouched = Standing.nothing(len(order.digests)), types_of(order.training.estimator)
        for block, same, made, stated in known:
            path = order.models / members_file(order.models, block.number)
            if not path.exists() or sha256_of(path) != stated:
                log.warning("%s is damaged or missing. It is computed again.", path)
                continue
            if not same.all() and path.suffix == BY_SKOPS and (unknown := unknown_types(path, vouched)):
                log.warning("%s holds types nobody vouched for (%s): it is computed again.", path, ", ".join(unknown))
                continue
            standing.kept[block.subsets] = same
            standing.made[block.subsets.start : block.subsets.stop] = made
        return standing

    def answers(
        self, missing: Sequence[Missing], test: Samples, n_classes: int, resources: Resources
    ) -> Iterator[Answers]:
        """Order by order: kept base classifiers are asked, the others trained by workers, which ask them too."""
        for number, (order, standing, blocks) in enumerate(missing):
            kept = {block: [i for i in indices if standing.kept[i]] for block, indices in blocks.items()}
            others = {block: [i for i in indices if not standing.kept[i]] for block, indices in blocks.items()}
            wanted = [indices for indices in others.values() if indices]
            count = sum(map(len, wanted))
            training, read = _read_once(order.training, [i for indices in wanted for i in indices], test)
            train = partial(train_and_vote, training, read, n_classes, rankings=order.rankings, resources=resources)
            size = MEMBERS_PER_FILE
            if type(training.estimator) in SOON_TRAINED and count <= size and _n_fed(training, wanted) <= SOON_ROWS:
                # They are done before a worker has started, and asked all at once.
                together = partial(train, wanted=[[i for indices in wanted for i in indices]])
                fresh = _parted(together(resources=resources._replace(n_jobs=1)), wanted)
            else:
                if (jobs := effective_n_jobs(resources.n_jobs)) > 1:
                    size = max(1, min(size, -(-count // (TASKS_PER_JOB * jobs))))
                fresh = train(wanted=[piece for indices in wanted for piece in _pieces(indices, size)])
            fresh = _reopening(fresh, order)
            for block in blocks:
                asked = _kept_of(block, kept[block], order)
                lost = [i for i in kept[block] if i not in {member.index for member in asked}]
                tasks = len(_pieces(others[block], size))
                trained = [*islice(fresh, tasks), *(train(wanted=[lost]) if lost else [])]
                parts: list[Part] = [
                    (part.members, part.votes, part.refusals, [made_by(part.environment)] * len(part.members))
                    for part in trained
                ]
                if asked:
                    made = [standing.made[member.index] | made_here() for member in asked]
                    parts.append((asked, *asked.asked(read, n_classes, rankings=order.rankings), made))
                if order.keep and trained:
                    _keep(block, [member for part in trained for member in part.members], order)
                yield replace(_joined(block, parts, order), order=number)

    def save(self, members: Any, folder: Path, digests: NDArray[np.uint8]) -> None:
        for number, start in enumerate(range(0, len(members), MEMBERS_PER_FILE)):
            save_members(folder / members_stem(number), members[start : start + MEMBERS_PER_FILE])

    def files(self, n_subsets: int, folder: Path) -> list[str]:
        return [members_file(folder, block.number) for block in self.blocks(n_subsets, 0)]

    def parts(
        self, folder: Path, files: Sequence[str], learner: Any, n_classes: int, trusted: Sequence[str] = ()
    ) -> Iterator[SomeMembers]:
        return (load_member_files([folder / name], trusted) for name in files)

    def load(
        self, folder: Path, n_subsets: int, learner: Any, n_classes: int, trusted: Sequence[str] = ()
    ) -> SomeMembers:
        return load_member_files([folder / name for name in self.files(n_subsets, folder)], trusted)


def _read_once(training: Training, indices: Sequence[int], test: Samples = NO_SAMPLES) -> tuple[Training, Samples]:
    """The same, with words that these base classifiers are fed, or asked about, read once.

    Where training samples are on disk, memory is bounded, and each base classifier reads its own.
    """
    if isinstance(training.subsets, StoredSubsets):
        return training, test

    def rows() -> NDArray[np.int64]:
        fed = [training.subsets.rows(i) for i in indices]
        return np.unique(np.concatenate(fed)) if fed else np.zeros(0, np.int64)

    learner = training.estimator
    return (
        training._replace(samples=with_shared_texts(learner, training.samples, rows)),
        with_shared_texts(learner, test, lambda: np.arange(len(test))),
    )


def _reopening(fresh: Iterator[VotedBlock], order: Order) -> Iterator[VotedBlock]:
    """The same blocks; if they are to be kept, the first is refused at once where nobody could open it again."""
    for number, block in enumerate(fresh):
        if order.keep and not number:
            check_reopens(order.training.estimator, block.members)
        yield block


def _pieces(indices: Sequence[int], size: int) -> list[Sequence[int]]:
    return [indices[at : at + size] for at in range(0, len(indices), size)]


def _n_fed(training: Training, wanted: Sequence[Sequence[int]]) -> int:
    """How many training samples these base classifiers are fed, together."""
    return int(training.subsets.sizes[[i for indices in wanted for i in indices]].sum())


def _parted(voted: Iterator[VotedBlock], wanted: Sequence[Sequence[int]]) -> Iterator[VotedBlock]:
    """Base classifiers that were trained and asked together, block by block, as they are wanted."""
    if not wanted:
        return
    (whole,) = voted
    start = 0
    for indices in wanted:
        here = slice(start, start + len(indices))
        refusals = {i: refusal for i, refusal in whole.refusals.items() if i in indices}
        yield VotedBlock(whole.members[here], whole.votes[:, here], refusals, whole.environment)
        start = here.stop


def _kept_of(block: Block, indices: Sequence[int], order: Order) -> MemberList:
    """These kept base classifiers, which only have to be asked; none if they cannot be opened."""
    if not indices:
        return MemberList()
    try:
        members = load_members(
            order.models / members_file(order.models, block.number), types_of(order.training.estimator)
        )
    except ValueError as error:
        log.warning("%s It is computed again.", error)
        return MemberList()
    return MemberList(member for member in members if member.index in indices)


def _keep(block: Block, fresh: list[Member], order: Order) -> None:
    """Write these base classifiers, and the block's others that stand."""
    members = {}
    if len(fresh) < len(block.subsets):
        path = order.models / members_file(order.models, block.number)
        members = {member.index: member for member in load_members(path, types_of(order.training.estimator))}
    members |= {member.index: member for member in fresh}
    save_members(order.models / members_stem(block.number), [members[i] for i in sorted(members)])


Part = tuple[Sequence[Member], NDArray[Any], dict[int, Refusal], list[Made]]


def _joined(block: Block, parts: Sequence[Part], order: Order) -> Answers:
    members = [member for part in parts for member in part[0]]
    return Answers(
        block,
        [member.index for member in members],
        np.concatenate([part[1] for part in parts], axis=1),
        np.array([member.model is not None for member in members], np.bool_),
        [made for part in parts for made in part[3]],
        {member.index: member.failure for member in members if member.failure},
        {i: refusal for part in parts for i, refusal in part[2].items()},
        sha256_of(order.models / members_file(order.models, block.number)) if order.keep else None,
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
    training: Training,
    test: Samples,
    n_classes: int,
    wanted: Sequence[Sequence[int]],
    *,
    rankings: bool = False,
    resources: Resources = Resources(),  # noqa: B008 - frozen
) -> Iterator[VotedBlock]:
    """Each wanted block, in that order, as they are done; with rankings in place of votes if they are wanted."""
    estimator, samples, codes, subsets = training
    tasks = (
        delayed(_train_and_vote_block)(
            estimator, samples, codes, _seeded_rows(subsets, block), test, n_classes, caller(), rankings=rankings
        )
        for block in wanted
    )
    yield from run_tasks(tasks, (samples, codes, test), resources.n_jobs, 0, resources.scratch)


def _seeded_rows(subsets: TrainingSets, indices: Sequence[int]) -> SeededRows:
    return [(subsets.seed(i), subsets.rows(i)) for i in indices]


@remembering()
def _fit_block(
    estimator: Any, samples: Samples, codes: NDArray[np.int64], seeded_rows: SeededRows, parent: tuple[int, int]
) -> list[Member]:
    limit_worker(parent)
    with kept_generators():
        make = Seeder(estimator)
        return [fit_made(make, seed, *samples.portion(codes, rows)) for seed, rows in seeded_rows]


@remembering()
def _train_and_vote_block(
    estimator: Any,
    samples: Samples,
    codes: NDArray[np.int64],
    seeded_rows: SeededRows,
    test: Samples,
    n_classes: int,
    parent: tuple[int, int],
    *,
    rankings: bool,
) -> VotedBlock:
    members = _fit_block(estimator, samples, codes, seeded_rows, parent)
    votes, refusals = vote_block(members, test, n_classes, parent, rankings=rankings)
    return VotedBlock(members, votes, refusals, environment())

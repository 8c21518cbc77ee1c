"""The engine of most learners: every base classifier is trained by itself, on its subset and nothing else.

Any scikit-learn classifier will do. The vote of a base classifier on a sample is a function of its subset, its index
and the sample. So a clone is seeded by its index, held at one job, fed its subset in canonical order with labels coded
within the subset, and never told about other samples, other labels or the class list.

Work goes out in blocks of base classifiers, through joblib. No result depends on the size of the blocks, on the number
of workers or on the backend; `joblib.parallel_config` chooses the latter.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from joblib import effective_n_jobs
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed

from poisonproof.core.votes import vote_dtype
from poisonproof.errors import PoisonproofError, UnnamedFileError
from poisonproof.learners.inspection import SeededClones
from poisonproof.premises import PremiseWarning
from poisonproof.samples.batches import ONE_BY_ONE, declares, takes_columns, takes_texts
from poisonproof.samples.kinds import Samples, TableSamples, TextSamples, TrainingSet
from poisonproof.system.determinism import (
    caller,
    limit_worker,
    one_linear_algebra_thread,
    preserve_rng,
    reproducible,
    with_limited_libraries,
)
from poisonproof.system.files import sha256_of
from poisonproof.system.machine import environment, is_a
from poisonproof.system.parallel import (
    dead_workers_told,
    own_workers,
    remembering,
    sent_once,
)
from poisonproof.system.progress import counted
from poisonproof.training.engine import (
    MEMBERS_PER_FILE,
    Block,
    Earlier,
    Environment,
    Known,
    Member,
    MemoryEstimate,
    Refusal,
    Resources,
    Saved,
    TrainingSource,
    VoteBlock,
    VoteJob,
    check_gives_scores,
    each_once,
    source_with_texts,
    with_shared_texts,
)

if TYPE_CHECKING:  # arrays are trained on without the code that stacks base classifiers or saves them
    from poisonproof.training.stacked import KeptStack, Stacked

log = logging.getLogger(__name__)
BLOCKS_PER_JOB = 8
MAX_BLOCK = 64
MAPPED_BYTES = 1 << 16  # larger arrays reach joblib's processes as a file that is mapped, not with every task
SOON_TRAINED = (("poisonproof.learners.table", "TableClassifier"), ("poisonproof.learners.text", "TextClassifier"))
SOON_ROWS = 50_000  # on which these learners take less time than a worker takes to start
TASKS_PER_JOB = 2  # of a run, at least: each of them reads the test samples once
STACKED = {"poisonproof.learners.table", "poisonproof.learners.text"}  # where learners are defined that can be stacked
BATCH = 512
ONLY_CHOOSES = "only_chooses"
"""The mark of a learner that trains another, ``chosen_``, which says the same and is kept in its place."""
BY_ROW = {("sklearn.naive_bayes", "GaussianNB")}
"""Classes whose sums go along a row, and nowhere else: no bit of an answer knows how many rows there are."""
# What a learner may raise through no fault of its subset: falling back would hide it.
NOT_THE_SUBSETS_FAULT = (MemoryError, OSError, ImportError, RecursionError, BrokenExecutor, UnnamedFileError)


def fit_member(learner: Any, seed: int, subset: TrainingSet, make: Callable[[int], Any] | None = None) -> Member:
    """Train the base classifier of this seed on a subset in canonical order; ``make`` makes its clones.

    A learner that raises does not stop training, or one poisoned sample could; its base classifier
    says the most frequent class of its subset, which is a function of the subset too. Lack of memory,
    time-outs and the like are no property of the subset and are passed on.
    """
    samples, codes, rows = subset
    make = SeededClones(learner) if make is None else make
    fed = codes[rows]
    counts = np.bincount(fed)
    held = np.flatnonzero(counts)
    if len(held) == 0:
        return Member(seed, None, held, None)
    local = (np.cumsum(counts > 0) - 1)[fed]
    fallback = int(counts.argmax())
    if len(held) == 1:
        return Member(seed, None, held, fallback)
    form = samples.form_of(rows)

    def fitted() -> Any:
        model = make(seed)
        with reproducible(seed):
            model.fit(fed_to(model, samples, rows, form), local.copy())
        return model.chosen_ if declares(model, ONLY_CHOOSES) else model

    try:
        model = with_limited_libraries(fitted)
    except NOT_THE_SUBSETS_FAULT:
        raise
    except Exception as error:
        return Member(seed, None, held, fallback, failure=f"{type(error).__name__}: {error}")
    return Member(seed, model, held, fallback, form)


def fed_to(learner: Any, samples: Samples, rows: NDArray[np.int64], form: Any) -> Any:
    """These samples as a learner takes them: tables by column if it can, as a frame if not; texts likewise."""
    if isinstance(samples, TableSamples) and takes_columns(learner):
        return samples.by_column(rows, form)
    if isinstance(samples, TextSamples) and takes_texts(learner):
        return samples.batch(rows)
    return samples.take(rows, form)


def vote_of(
    member: Member, fed: Any, n_samples: int, abstention: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_], str | None]:
    """The base classifier's votes on samples it is fed, where it raised and fell back, and why.

    If it raises on the batch it is asked sample by sample, so that a sample it cannot answer does not
    decide the votes on the others.
    """
    refused = np.zeros(n_samples, np.bool_)
    if member.model is None:
        return np.full(n_samples, abstention if member.fallback is None else member.fallback), refused, None
    try:
        return member.codes[_answers(member, fed, n_samples)], refused, None
    except NOT_THE_SUBSETS_FAULT:
        raise
    except Exception:
        votes, reason = np.full(n_samples, member.fallback), None
    for row in range(n_samples):
        try:
            votes[row] = member.codes[_answers(member, _one(fed, row), 1)[0]]
        except NOT_THE_SUBSETS_FAULT:
            raise
        except Exception as error:
            refused[row] = True
            reason = reason or f"{type(error).__name__}: {error}"
    return votes, refused, reason


def ranking_of(
    member: Member, fed: Any, votes: NDArray[np.int64], n_classes: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_], str | None]:
    """The base classifier's rankings of the samples it is fed (see `poisonproof.core.votes`), with its votes in
    first place, where it gave no scores, and why.

    It ranks the classes of its subset, by score, the smaller class first among equals. Where it gives no score, they
    stand behind its vote in their order.
    """
    rankings, n_held = np.full((len(votes), n_classes), n_classes), len(member.codes)
    scores, reason = np.zeros((len(votes), n_held)), None
    if member.model is not None and n_held > 2:
        scores, reason = _scores_of(member, fed, len(votes))
    if member.fallback is not None:
        rankings[:, :n_held] = member.codes[ranked_by_score(scores, np.searchsorted(member.codes, votes))]
    return rankings, np.asarray(np.isnan(scores).any(axis=1)), reason


def _scores_of(member: Member, fed: Any, n_samples: int) -> tuple[NDArray[np.float64], str | None]:
    """Scores, an array (n_samples, classes of the subset), and why some are missing.

    They are NaN where it raises, found sample by sample as for votes.
    """
    reason = "a score is NaN"

    def ask(batch: Any) -> NDArray[np.float64]:
        return _scores(member, batch, batch.shape[0])

    try:
        scores = predict_in_batches(member.model, ask, fed, n_samples)
        return scores, reason if np.isnan(scores).any() else None
    except NOT_THE_SUBSETS_FAULT:
        raise
    except Exception:
        scores = np.full((n_samples, len(member.codes)), np.nan)
    for row in range(n_samples):
        try:
            scores[row] = predict_in_batches(member.model, ask, _one(fed, row), 1)[0]
        except NOT_THE_SUBSETS_FAULT:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
    return scores, reason


def _scores(member: Member, fed: Any, n_samples: int) -> NDArray[np.float64]:
    def asked() -> Any:
        with reproducible(member.index):
            ask = getattr(member.model, "decision_function", None) or member.model.predict_proba
            return ask(fed.copy())  # it may change what it is fed

    scores = np.asarray(with_limited_libraries(asked), np.float64)
    if scores.shape != (n_samples, len(member.codes)):
        raise PoisonproofError("the base classifier did not give one score for each label it was trained on")
    return scores


def _answers(member: Member, fed: Any, n_samples: int) -> NDArray[np.int64]:
    if _multiplies(member.model, fed):
        return _positions(_products(member.model, fed))
    return predict_in_batches(member.model, lambda batch: _predict(member, batch), fed, n_samples)


def _one(fed: Any, row: int) -> Any:
    return fed.iloc[row : row + 1] if hasattr(fed, "iloc") else fed[row : row + 1]


def _predict(member: Member, fed: Any) -> NDArray[np.int64]:
    def asked() -> Any:
        with reproducible(member.index):
            return member.model.predict(fed.copy())  # it may change what it is fed

    return _positions(np.asarray(with_limited_libraries(asked)))


def _positions(answers: NDArray[Any]) -> NDArray[np.int64]:
    positions = answers.astype(np.int64)
    if answers.ndim != 1 or not np.array_equal(positions, answers) or positions.min(initial=0) < 0:
        raise PoisonproofError("the base classifier did not predict one of the labels it was trained on")
    return positions


def predict_in_batches(model: Any, ask: Callable[[Any], NDArray[Any]], fed: Any, n_samples: int) -> NDArray[Any]:
    """The answers of ``ask`` on samples as they are fed, always `BATCH` at a time; the last one fills up.

    The last bits of a matrix product depend on how many rows there are and on which of them are left over by the
    processor's kernels. Somebody's poison may fall into the held-out set, and one test sample more would then move the
    last bits, and a tied vote, of others. In batches of one size, a multiple of what kernels take at once, no row is
    left over. A learner whose own class says ``answers_one_by_one`` is asked about all samples at once.
    """
    if declares(model, ONE_BY_ONE) or n_samples == 0:
        return ask(fed)
    if (type(model).__module__, type(model).__qualname__) in BY_ROW and isinstance(fed, np.ndarray):
        return np.concatenate([ask(fed[start : start + BATCH]) for start in range(0, n_samples, BATCH)])
    return np.concatenate([ask(batch)[: n_samples - start] for start, batch in batches(fed, n_samples)])


def batches(fed: Any, n_samples: int) -> Iterator[tuple[int, Any]]:
    """Where each batch starts, and its samples; the last one fills up with the last sample."""
    for start in range(0, n_samples, BATCH):
        if start + BATCH <= n_samples and isinstance(fed, np.ndarray) and fed.flags.c_contiguous:
            yield start, fed[start : start + BATCH]
        else:
            yield start, _rows_of(fed, np.minimum(np.arange(start, start + BATCH), n_samples - 1))


def _rows_of(fed: Any, rows: NDArray[np.int64]) -> Any:
    """These rows of what is fed, always in one layout of memory, on which the last bits of a product depend too.

    What pandas takes out of a frame has the layout of that frame, and a frame of one row has another than one of two.
    One that is put together anew has always the same.
    """
    if not hasattr(fed, "iloc"):
        return fed[rows]
    if len(set(fed.dtypes)) == 1 and isinstance(fed.dtypes.iloc[0], np.dtype):
        return type(fed)(np.array(fed.to_numpy()[rows], order="C"), columns=fed.columns)
    taken = fed.take(rows)
    columns = {at: taken.iloc[:, at].array for at in range(taken.shape[1])}
    return type(fed)(columns, index=range(len(rows))).set_axis(fed.columns, axis=1)


def _multiplies(model: Any, fed: Any) -> bool:
    """Whether what this model says of these samples is a product: its methods are scikit-learn's, nothing is odd.

    Most of what their `predict` takes on a batch is spent before it multiplies. What it does to finite numbers is one
    product, one sum and the place of the largest score; here the same is done on the same batches, to the same bits.
    """
    kind = type(model)
    if not kind.__module__.startswith("sklearn.") or not {"predict", "decision_function"}.isdisjoint(vars(model)):
        return False
    from sklearn.linear_model._base import LinearClassifierMixin

    if getattr(kind, "predict", None) is not LinearClassifierMixin.predict:
        return False
    if getattr(kind, "decision_function", None) is not LinearClassifierMixin.decision_function:
        return False
    if not (isinstance(fed, np.ndarray) and fed.ndim == 2 and fed.dtype == np.float64 and fed.flags.c_contiguous):
        return False
    coef, intercept = getattr(model, "coef_", None), getattr(model, "intercept_", None)
    if not (isinstance(coef, np.ndarray) and isinstance(intercept, np.ndarray)) or hasattr(model, "feature_names_in_"):
        return False
    if coef.shape[1:] != fed.shape[1:]:
        return False
    with np.errstate(all="ignore"):
        return bool(np.isfinite(fed.sum()) or np.isfinite(fed).all())


def _products(model: Any, fed: NDArray[np.float64]) -> NDArray[Any]:
    """What `predict` says of each batch, one after the other, where the model `multiplies`."""
    classes = np.empty(len(fed), model.classes_.dtype)
    with np.errstate(all="ignore"):
        for start, batch in batches(fed, len(fed)):
            scores = batch @ model.coef_.T + model.intercept_
            places = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
            classes[start : start + len(batch)] = model.classes_[places[: len(fed) - start]]
    return classes


def ranked_by_score(scores: NDArray[Any], heads: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions from best to worst, one row per sample: the head, then by (score, smaller position).

    Where a score is NaN, the positions behind the head stand in their order.
    """
    table = np.where(np.isnan(scores).any(axis=1, keepdims=True), 0.0, scores)
    order = np.argsort(-table, axis=1, kind="stable")
    behind = order[order != heads[:, None]].reshape(len(heads), scores.shape[1] - 1)
    return np.column_stack([heads, behind])


class UnansweredError(PoisonproofError):
    """No base classifier could answer any of the samples that there are."""


class MemberEngine:
    """Every base classifier is trained by itself, on its subset and nothing else."""

    pooled = False

    def fit(
        self,
        learner: Any,
        source: TrainingSource,
        *,
        earlier: Earlier | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> FittedMembers:
        members: dict[int, Member] = {} if earlier is None else {int(i): earlier.members[i] for i in earlier.indices}
        wanted = [i for i in range(len(source)) if i not in members]
        planned = planned_blocks(wanted, n_jobs)
        read = source_with_texts(learner, source, wanted)
        tasks = (delayed(_fit_block)(learner, read, block, caller()) for block in planned)
        parts = counted(run_tasks(tasks, (read,), n_jobs, verbose), len(planned))
        members |= dict(zip(wanted, (member for part in parts for member in part), strict=True))
        return FittedMembers(members[i] for i in range(len(source)))

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

    def memory(
        self, learner: Any, source: TrainingSource, test: Samples, n_classes: int, *, rankings: bool = False
    ) -> MemoryEstimate:
        from poisonproof.training.memory import member_memory

        if rankings:
            check_gives_scores(learner)
        return member_memory(source, test, n_classes, rankings=rankings)

    def grid(self, n_subsets: int, n_test: int) -> list[Block]:
        """All test samples, and as many base classifiers as a file holds."""
        starts = range(0, n_subsets, MEMBERS_PER_FILE)
        return [
            Block(number, range(start, min(start + MEMBERS_PER_FILE, n_subsets)), range(n_test))
            for number, start in enumerate(starts)
        ]

    def saved(self, job: VoteJob, known: Sequence[Known]) -> Saved:
        """Those of which the block of votes says what they are a function of, and their file's digest."""
        from poisonproof.training.model_files import BY_SKOPS, members_file, types_of, unknown_types

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
        for block in missing:
            asked = _load_some(job, block, reused[block])
            lost = sorted(set(reused[block]) - {member.index for member in asked})
            parts = [*islice(fresh, len(pieces[block])), *(train_and_vote(job, [lost], 1) if lost else [])]
            environments = [part.environment for part in parts]
            if job.models is not None and parts:
                _save_block(job.models, block, [member for part in parts for member in part.members], job.learner)
            if asked:
                test = with_shared_texts(job.learner, job.test, lambda: np.arange(len(job.test)))
                votes = asked.asked(test, job.n_classes, rankings=job.rankings)
                parts.append(Trained(asked.members, *votes, environment()))
                environments += [*saved.environments.get(block.number, []), environment()]
            yield _joined(job, block, parts, environments)

    def save(self, members: Any, folder: Path, digests: NDArray[np.uint8]) -> None:
        from poisonproof.training.model_files import members_stem, save_members

        for number, start in enumerate(range(0, len(members), MEMBERS_PER_FILE)):
            save_members(folder / members_stem(number), members[start : start + MEMBERS_PER_FILE])

    def files(self, n_subsets: int, folder: Path) -> list[str]:
        from poisonproof.training.model_files import members_file

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
    """What was trained; the first is refused at once where nobody could open it again."""
    from poisonproof.training.model_files import check_reopens

    for number, part in enumerate(fresh):
        if not number:
            check_reopens(learner, part.members)
        yield part


def _load_some(job: VoteJob, block: Block, indices: Sequence[int]) -> FittedMembers:
    """These saved base classifiers, which only have to be asked; none if they cannot be opened."""
    from poisonproof.training.model_files import load_members, members_file, types_of

    if not indices:
        return FittedMembers()
    assert job.models is not None
    try:
        members = load_members(job.models / members_file(job.models, block.number), types_of(job.learner))
    except ValueError as error:
        log.warning("%s It is computed again.", error)
        return FittedMembers()
    return FittedMembers(member for member in members if member.index in indices)


def _save_block(models: Path, block: Block, fresh: list[Member], learner: Any) -> None:
    """Write these base classifiers, and the block's others that are current."""
    from poisonproof.training.model_files import load_members, members_file, members_stem, save_members, types_of

    members = {}
    if len(fresh) < len(block.subsets):
        path = models / members_file(models, block.number)
        members = {member.index: member for member in load_members(path, types_of(learner))}
    members |= {member.index: member for member in fresh}
    save_members(models / members_stem(block.number), [members[i] for i in sorted(members)])


def _joined(job: VoteJob, block: Block, parts: Sequence[Trained], environments: Sequence[Environment]) -> VoteBlock:
    from poisonproof.training.model_files import members_file

    members = [member for part in parts for member in part.members]
    return VoteBlock(
        block,
        [member.index for member in members],
        np.concatenate([part.votes for part in parts], axis=1),
        np.array([member.model is not None for member in members], np.bool_),
        each_once(environments),
        {member.index: member.failure for member in members if member.failure},
        {i: refusal for part in parts for i, refusal in part.refusals.items()},
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
    """Base classifiers that have nothing to do with each other, as they were fitted or in mapped files.

    Those of files are made of their arrays when somebody asks for one.
    """

    def __init__(self, members: Iterable[Member] = (), files: Sequence[KeptStack] = ()) -> None:
        self.stacks = tuple(files)
        if not files:
            self.members = list(members)

    @cached_property
    def members(self) -> list[Member]:
        """Each by itself."""
        return [member for stack in self.stacks for member in stack.members]

    def __len__(self) -> int:
        return sum(map(len, self.stacks)) if self.stacks else len(self.members)

    @overload
    def __getitem__(self, at: int) -> Member: ...
    @overload
    def __getitem__(self, at: slice) -> list[Member]: ...
    def __getitem__(self, at: int | slice) -> Member | list[Member]:
        return self.members[at]

    @cached_property
    def stacked(self) -> Stacked | None:
        """The same as arrays, where they can be asked all at once."""
        if not self.stacks:
            return stack_of(self.members)
        return type(self.stacks[0].stacked).joined([stack.stacked for stack in self.stacks])

    @property
    def n_trained(self) -> int:
        """How many have a model."""
        if self.stacks:
            return sum(stack.stacked.n_trained for stack in self.stacks)
        return sum(member.model is not None for member in self.members)

    @property
    def failures(self) -> list[str]:
        """What the learner raised on subsets."""
        said = [failure for stack in self.stacks for failure in stack.failures]
        return [failure for failure in said or [member.failure for member in self] if failure]

    @property
    def indices(self) -> list[int]:
        """What each is seeded with."""
        return [i for stack in self.stacks for i in stack.indices] or [member.index for member in self]

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
            answers, refusals = votes_at_once(whole, self, samples, n_classes, effective_n_jobs(n_jobs))
        else:
            planned = planned_blocks(range(len(self)), n_jobs)
            tasks = (
                delayed(vote_block)([self[i] for i in block], samples, n_classes, caller(), rankings=rankings)
                for block in planned
            )
            parts = list(counted(run_tasks(tasks, (samples,), n_jobs, verbose), len(planned)))
            answers = np.concatenate([part for part, _ in parts], axis=1)
            refusals = {i: refusal for _, refused in parts for i, refusal in refused.items()}
        check_answered([*refusals.values()], self.n_trained, len(samples))
        return answers

    def ask(self, samples: Samples, n_classes: int, *, rankings: bool = False) -> NDArray[Any]:
        return self.asked(samples, n_classes, rankings=rankings)[0]

    def asked(self, samples: Samples, n_classes: int, *, rankings: bool) -> tuple[NDArray[Any], dict[int, Refusal]]:
        """What they say in this process, and what each of them could not answer."""
        with one_linear_algebra_thread():
            if not rankings and (whole := self.stacked) is not None:
                return votes_at_once(whole, self, samples, n_classes)
            return vote_block(self, samples, n_classes, caller(), rankings=rankings)

    def notices(self) -> list[str]:
        return failure_notices(self.failures, self.n_trained, len(self))


def load_member_files(paths: Sequence[Path], trusted: Sequence[str] = ()) -> FittedMembers:
    """Saved base classifiers: mapped, if all of them are stacked."""
    from poisonproof.training.model_files import STACK, load_members
    from poisonproof.training.stacked import read_stack

    if all(path.suffix == STACK for path in paths):
        return FittedMembers(files=[read_stack(path) for path in paths])
    return FittedMembers(member for path in paths for member in load_members(path, trusted))


def stack_of(members: Sequence[Member]) -> Stacked | None:
    """Base classifiers as arrays; None where they cannot be stacked."""
    kinds = {type(member.model).__module__ for member in members if member.model is not None}
    if not kinds or not kinds <= STACKED:
        return None
    from poisonproof.training.stacked import stacked

    return stacked(members)


def failure_notices(failures: Sequence[str], n_trained: int, n_members: int) -> list[str]:
    """What is to be said of base classifiers whose learner raised; raises if none of them could be trained."""
    if failures and not n_trained:
        raise PoisonproofError(
            f"The base classifier raised on every one of the {len(failures)} subsets that hold two classes or more; "
            f"the first said: {failures[0].rstrip('.')}.",
            code="member.all-failed",
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
    if not rankings and (whole := stack_of(members)) is not None:
        return votes_at_once(whole, members, samples, n_classes)
    return votes_one_by_one(members, samples, n_classes, rankings=rankings)


def votes_at_once(
    whole: Stacked, members: Sequence[Member], samples: Samples, n_classes: int, n_jobs: int | None = None
) -> tuple[NDArray[Any], dict[int, Refusal]]:
    """What stacked base classifiers say; about samples whose words cannot be read each is asked alone."""
    try:
        return whole.votes(samples, n_classes, n_jobs), {}
    except (PoisonproofError, MemoryError):
        raise
    except Exception:
        readable = whole.readable(samples)
        if readable.all():
            raise
    votes = np.empty((len(samples), len(whole)), vote_dtype(n_classes))
    votes[readable] = whole.votes(samples.subset(np.flatnonzero(readable)), n_classes, n_jobs)
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

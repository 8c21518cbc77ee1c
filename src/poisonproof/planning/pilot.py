"""A pilot: a few base classifiers at one k, trained and timed as a run would, asked about training samples only.

A base classifier is asked about training samples that are not in its own subset. So no sample has to be given up, the
subsets have the size that they will have in the run, and the test samples are never seen.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from poisonproof.core.split import Split
from poisonproof.core.spread import Spread
from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier
from poisonproof.estimators.prepared import Prepared, prepare
from poisonproof.planning.forecast import VoteShares, balancing, estimate_shares
from poisonproof.premises import PremiseWarning
from poisonproof.samples.kinds import Samples
from poisonproof.system.determinism import n_cores, one_linear_algebra_thread
from poisonproof.training.engine import Engine, engine_of
from poisonproof.training.member_by_member import train_and_vote
from poisonproof.training.member_files import save_members
from poisonproof.training.member_list import MemberList, planned_blocks
from poisonproof.training.pooled import KERNEL_BYTES, SUBSETS_PER_TASK, fit_pooled
from poisonproof.training.work import Resources, Training

SEED = 0x70696C6F74
MOST_ASKED = 2000
MOST_MEMBERS, ENOUGH_MEMBERS, FEWEST_MEMBERS, PROBED = 128, 48, 24, 8
TIMED = 6
FOLDS = 4


@dataclass(frozen=True)
class Timing:
    """What base classifiers of one size cost here, in seconds; of a learner whose base classifiers are kept apart.

    ``fit`` and ``save`` are for one base classifier, ``vote`` for one of them on all test samples of the run, each on
    one worker while the others work too.
    """

    fit: float
    vote: float
    save: float
    bytes_kept: float


@dataclass(frozen=True)
class PooledTiming:
    """The same of a pooled learner, with all cores at work.

    ``share`` is for one training sample, ``solve`` for one base classifier, ``ask`` for the features of one test
    sample, ``kernel`` for one of them with one row of the pool, ``score`` for one test sample with one row of one base
    classifier. A training sample has ``copies`` rows of ``row_bytes`` each.
    """

    share: float
    solve: float
    ask: float
    kernel: float
    score: float
    copies: int
    row_bytes: int


@dataclass(frozen=True)
class Pilot:
    """What a few base classifiers at one k showed.

    ``shares`` describe all samples alike, ``balanced`` all classes alike. ``folds`` are the latter with a part of the
    base classifiers left out, which tells how much depends on them; ``n_effective`` is how many samples, all alike,
    would leave as much to chance as those asked.
    """

    k: int
    n_members: int
    n_asked: int
    subset_size: float
    base_accuracy: float
    shares: VoteShares
    balanced: VoteShares
    folds: tuple[VoteShares, ...]
    n_effective: float
    timing: Timing | PooledTiming
    seconds: float


@dataclass(frozen=True)
class Bench:
    """Training data, and how a run would train on it. Test samples are not part of it, only how many there will be."""

    estimator: Any
    X: Any
    y: Any
    groups: Any
    classes: list[Any] | None
    split: Split
    n_test: int
    n_jobs: int
    keep_members: bool

    def prepared(self, k: int, n_members: int) -> Prepared:
        """The ensemble at this k, split and spread, with no fewer subsets than that."""
        model = FiniteAggregationClassifier(
            self.estimator,
            spread=Spread.random(k, -(-n_members // k)),
            split=self.split,
            classes=self.classes,
            n_jobs=self.n_jobs,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PremiseWarning)
            return prepare(model, self.X, self.y, self.groups)

    @property
    def engine(self) -> Engine:
        """That of the learner, whose costs are of their own kind."""
        return engine_of(self.estimator)

    def start(self, k: int) -> float:
        """Seconds that only the first use takes: to start worker processes, and to import what keeps models."""
        workers = effective_n_jobs(self.n_jobs)
        if not self.engine.uses_workers:
            return 0.0
        prepared = self.prepared(k, workers)
        asked, tasks = prepared.training.samples.subset([0]), [[i] for i in range(workers)]
        resources = Resources(self.n_jobs)
        train = partial(train_and_vote, prepared.training, asked, len(prepared.classes), tasks, resources=resources)
        first, again = (_seconds(lambda: list(train())) for _ in range(2))
        if not self.keep_members:
            return max(0.0, first - again)
        members = [member for part in train() for member in part.members]
        with tempfile.TemporaryDirectory() as folder:
            imports, saved = (_seconds(partial(save_members, Path(folder) / "members", members)) for _ in range(2))
        return max(0.0, first - again) + max(0.0, imports - saved)

    def pilot(self, k: int, seconds: float, *, insist: bool = False) -> Pilot | None:
        """As many base classifiers as can be trained in about that time; None if those are too few to tell.

        With ``insist`` there are enough to tell, however long they take.
        """
        started = time.perf_counter()
        wanted = min(MOST_MEMBERS, max(ENOUGH_MEMBERS, 2 * k))  # where k is small, single ones matter less
        prepared = self.prepared(k, wanted)
        training, n_classes = prepared.training, len(prepared.classes)
        asked = _asked(training.samples)
        train = self._pooled if self.engine.pooled else self._apart
        train(training, range(1), asked[:PROBED], n_classes)  # compiles
        probe = train(training, range(PROBED), asked[:PROBED], n_classes)
        affordable = min(wanted, int(seconds / probe.seconds * PROBED))
        if affordable < FEWEST_MEMBERS and not insist:
            return None
        affordable = max(affordable, FEWEST_MEMBERS)
        trained = train(training, range(affordable), asked, n_classes)
        votes = _out_of_subset(trained.votes, training, asked)
        truth, sizes = training.codes[asked], prepared.subsets.sizes
        counts = _counts(votes, n_classes)
        abstaining, weights = float((sizes == 0).mean()), balancing(truth)
        folds = (_counts(votes[:, np.arange(affordable) % FOLDS != fold], n_classes) for fold in range(FOLDS))
        return Pilot(
            k,
            affordable,
            len(asked),
            len(training.samples) / k,
            float(counts[np.arange(len(asked)), truth].sum() / max(1, counts.sum())),
            estimate_shares(counts, truth, abstaining),
            estimate_shares(counts, truth, abstaining, weights),
            tuple(estimate_shares(fold, truth, abstaining, weights) for fold in folds),
            float(1 / (weights**2).sum()),
            trained.timing(),
            time.perf_counter() - started,
        )

    def _apart(self, training: Training, chosen: range, asked: NDArray[np.int64], n_classes: int) -> _Trained:
        tasks, samples = planned_blocks(chosen, self.n_jobs), training.samples.subset(asked)
        started = time.perf_counter()
        parts = list(train_and_vote(training, samples, n_classes, tasks, resources=Resources(self.n_jobs)))
        taken = time.perf_counter() - started
        members = MemberList(member for part in parts for member in part.members)
        some = MemberList(members[:TIMED])

        def timing() -> Timing:
            both = taken * min(effective_n_jobs(self.n_jobs), len(tasks)) / len(chosen)
            as_many = min(len(asked), self.n_test)
            all_asked, vote = (
                _seconds(partial(some.ask, part, n_classes)) / TIMED
                for part in (samples, samples.subset(np.arange(as_many)))
            )
            save = size = 0.0
            if self.keep_members:
                with tempfile.TemporaryDirectory() as folder:
                    path = Path(folder) / "members"
                    save = _seconds(partial(save_members, path, some)) / TIMED
                    size = sum(file.stat().st_size for file in Path(folder).iterdir()) / TIMED
            return Timing(max(0.1 * both, both - all_asked), vote * self.n_test / as_many, save, size)

        return _Trained(np.concatenate([part.votes for part in parts], axis=1), taken, timing)

    def _pooled(self, training: Training, chosen: range, asked: NDArray[np.int64], n_classes: int) -> _Trained:
        samples = training.samples.subset(asked)
        started = time.perf_counter()
        members = fit_pooled(training, only=list(chosen))
        fitted = time.perf_counter() - started
        members.votes(samples.subset([0]), n_classes)  # compiles
        begun = time.perf_counter()
        votes = members.votes(samples, n_classes)
        voted = time.perf_counter() - begun
        taken = time.perf_counter() - started

        def timing() -> PooledTiming:
            pool = members.pool
            some = training.samples.take(np.arange(min(256, len(training.samples))))
            share = _seconds(partial(training.estimator.share, some)) / len(some)
            part = samples.take(np.arange(min(len(asked), max(16, KERNEL_BYTES // (4 * pool.n_rows)))))
            with one_linear_algebra_thread():
                ask = _seconds(partial(pool.test_features, part)) / len(part)
                features = pool.test_features(part)
                kernel = _seconds(partial(pool.kernel_columns, features)) / len(part)
            busy = min(n_cores(), -(-len(chosen) // SUBSETS_PER_TASK)) / n_cores()
            scored = max(0.0, voted - (ask + kernel) * len(asked))
            return PooledTiming(
                share,
                max(0.1 * fitted, fitted - share * pool.n_rows / pool.copies) / len(chosen),
                ask,
                kernel / pool.n_rows,
                scored * busy / (len(asked) * max(1, len(members.rows))),
                pool.copies,
                int(pool.rows[:1].nbytes),
            )

        return _Trained(votes, taken, timing)


class _Trained(NamedTuple):
    """Votes of a few base classifiers, the seconds that they took, and what takes a closer look at those."""

    votes: NDArray[Any]
    seconds: float
    timing: Callable[[], Timing | PooledTiming]


def _out_of_subset(votes: NDArray[Any], training: Training, asked: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same votes of base classifiers 0 … on the samples asked, with -1 where a sample is in the subset."""
    fair = votes.astype(np.int64)
    place = np.full(len(training.samples), -1, np.int64)
    place[asked] = np.arange(len(asked))
    for i in range(votes.shape[1]):
        inside = place[training.subsets.rows(i)]
        fair[inside[inside >= 0], i] = -1
    return fair


def _asked(samples: Samples) -> NDArray[np.int64]:
    """The training samples that a pilot asks about: those with the smallest salted hashes of their content."""
    return np.sort(np.argsort(samples.hashes(SEED), kind="stable")[:MOST_ASKED])


def _counts(votes: NDArray[np.int64], n_classes: int) -> NDArray[np.int64]:
    """Votes by class; a code that is no class is no vote."""
    return np.stack([(votes == code).sum(axis=1) for code in range(n_classes)], axis=1)


def _seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started

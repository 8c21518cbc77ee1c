"""The engine of pooled learners: all subsets are solved together, and answer a run of test samples together.

Several runs on one data set with one learner (other k, other d, other spreads) can be voted together: features and
kernel are then computed once for all of them. What comes out does not depend on the company.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.samples.kinds import Samples
from poisonproof.system.determinism import at_most_threads
from poisonproof.system.files import open_arrays
from poisonproof.training.pooled import PooledMembers, fit_pooled, votes_together
from poisonproof.training.pooled_files import POOL, POOLED_FILES, kept_pooled, load_pooled, save_pooled
from poisonproof.training.pooled_memory import PooledMemory, pooled_memory
from poisonproof.training.provenance import made_here, packed, unpacked
from poisonproof.training.work import (
    Answers,
    Block,
    Kept,
    Made,
    Missing,
    Order,
    Resources,
    Standing,
    Training,
)

SAMPLES_PER_BLOCK = 1024
log = logging.getLogger(__name__)


class PooledEngine:
    """What depends on single samples is computed once for all base classifiers."""

    pooled = True
    uses_workers = False

    def fit(
        self, training: Training, *, earlier: Kept | None = None, n_jobs: int | None = None, verbose: int = 0
    ) -> PooledMembers:
        """All base classifiers, but for those of ``earlier`` whose subset is the same; ``n_jobs`` are threads."""
        with at_most_threads(n_jobs):
            return fit_pooled(training, earlier)

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
        """Train these subsets only, on a pool of their own samples; their votes, or rankings."""
        with at_most_threads(n_jobs):
            return fit_pooled(training, only=list(indices)).votes(test, n_classes, rankings=rankings)

    def ranks(self, learner: Any) -> bool:
        return True

    def memory(self, training: Training, n_classes: int, n_test: int, *, rankings: bool = False) -> PooledMemory:
        """What votes will take; a learner for another kind of sample says so here."""
        return pooled_memory(training, n_classes, n_test, rankings=rankings)

    def blocks(self, n_subsets: int, n_test: int) -> list[Block]:
        """All base classifiers, and so many test samples: a kernel is computed once for all subsets."""
        starts = range(0, n_test, SAMPLES_PER_BLOCK)
        return [
            Block(number, range(n_subsets), range(start, min(start + SAMPLES_PER_BLOCK, n_test)))
            for number, start in enumerate(starts)
        ]

    def standing(
        self, order: Order, n_classes: int, known: Sequence[tuple[Block, NDArray[np.bool_], list[Made], str | None]]
    ) -> Standing:
        """Those that their own file says are of these subsets, whatever blocks of votes say."""
        standing = Standing.nothing(len(order.digests))
        if (order.models / POOL).exists():
            try:
                members, indices = kept_pooled(order.models, order.training.estimator, n_classes, order.digests)
                standing.kept[indices], standing.members = True, members
                standing.made = unpacked(open_arrays(order.models / POOL)[1], len(members))
            except ValueError as error:
                log.warning("%s It is computed again.", error)
                return Standing.nothing(len(order.digests))
        return standing

    def answers(
        self, missing: Sequence[Missing], test: Samples, n_classes: int, resources: Resources
    ) -> Iterator[Answers]:
        """Train what is wanted, alone on a pool of the samples concerned, in company on a pool of all samples."""
        if len(missing) > 1 and any(one.order.keep for one in missing):
            raise PoisonproofError(
                "Base classifiers are kept by runs of their own; those that vote together keep only votes."
            )
        ensembles = [one for one in _ensembles(missing) if one.indices]
        for one in ensembles:
            for remark in one.members.remarks():
                log.warning("%s", remark)
        for number in sorted({block.number for one in missing for block in one.blocks}):
            asked = [
                (one, block) for one in ensembles for block in missing[one.number].blocks if block.number == number
            ]
            samples = test.subset(np.asarray(asked[0][1].samples))
            orders = [missing[one.number].order for one, _ in asked]
            members, rankings = [one.members for one, _ in asked], [order.rankings for order in orders]
            votes = votes_together(members, samples, n_classes, rankings, resources.kernel_bytes)
            for (one, block), matrix in zip(asked, votes, strict=True):
                made = [made | made_here() for made in one.made]
                yield Answers(block, one.indices, matrix, one.members.trained, made, order=one.number)

    def save(self, members: Any, folder: Path, digests: NDArray[np.uint8]) -> None:
        save_pooled(folder, members, digests)

    def files(self, n_subsets: int, folder: Path) -> list[str]:
        return list(POOLED_FILES)

    def parts(
        self, folder: Path, files: Sequence[str], learner: Any, n_classes: int, trusted: Sequence[str] = ()
    ) -> Iterator[PooledMembers]:
        yield load_pooled(folder, learner, n_classes)

    def load(
        self, folder: Path, n_subsets: int, learner: Any, n_classes: int, trusted: Sequence[str] = ()
    ) -> PooledMembers:
        return load_pooled(folder, learner, n_classes)


class _Ensemble(NamedTuple):
    """Base classifiers of one of several orders that are to be asked, and where each was trained."""

    number: int
    members: PooledMembers
    indices: list[int]
    made: list[Made]


def _ensembles(missing: Sequence[Missing]) -> Iterator[_Ensemble]:
    """Train what has to be trained: alone on a pool of the samples concerned, in company on a pool of all samples."""
    pool = None
    for number, (order, standing, blocks) in enumerate(missing):
        started = time.perf_counter()
        training, indices = order.training, sorted({i for block in blocks.values() for i in block})
        made = [old if kept else made_here() for old, kept in zip(standing.made, standing.kept, strict=True)]
        if pool is None and sum(bool(one.blocks) for one in missing) > 1:
            pool = training.estimator.share(training.samples.take(np.arange(len(training.samples))))
            order.seconds["features"] = time.perf_counter() - started
            started = time.perf_counter()
        kept = Kept(standing.members, np.flatnonzero(standing.kept)) if standing.kept.any() else None
        members: PooledMembers | None = standing.members
        if order.keep and not standing.kept.all():
            members = fit_pooled(training, kept)
            save_pooled(order.models, members, order.digests, packed(made))
            kept = Kept(members, np.arange(len(members)))
        if indices and (members is None or len(indices) < len(order.digests)):
            members = fit_pooled(training, kept, None if len(indices) == len(order.digests) else indices, pool)
        order.seconds["train"] = time.perf_counter() - started
        if members is not None:
            yield _Ensemble(number, members, indices, [made[i] for i in indices])

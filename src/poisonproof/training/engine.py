"""The one seam: train these subsets, give me votes. Two engines, chosen once by the learner.

Most learners are trained member by member; a pooled learner does once whatever depends on single training samples, and
then solves its subsets together. Whoever wants base classifiers or votes asks `engine_of` and knows no more about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from poisonproof.samples.kinds import Samples
from poisonproof.training.member_by_member import MemberByMember
from poisonproof.training.pooled_engine import PooledEngine
from poisonproof.training.pooled_memory import PooledMemory
from poisonproof.training.work import (
    Answers,
    Block,
    Kept,
    Made,
    Members,
    Missing,
    Order,
    Resources,
    Standing,
    Training,
)


class Engine(Protocol):
    """How base classifiers are trained, asked and kept. No vote depends on blocks, workers, threads or company."""

    @property
    def pooled(self) -> bool:
        """What records of runs and models call it by."""

    @property
    def uses_workers(self) -> bool:
        """Whether worker processes train, which take a while to start."""

    def fit(
        self, training: Training, *, earlier: Kept | None = None, n_jobs: int | None = None, verbose: int = 0
    ) -> Members:
        """One base classifier per subset, on that subset; of ``earlier`` ones those stay whose subset is the same."""

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
        """Train these subsets only; their votes (samples, indices), or rankings (samples, indices, classes)."""

    def ranks(self, learner: Any) -> bool:
        """Whether base classifiers of this learner can say more than their vote."""

    def memory(self, training: Training, n_classes: int, n_test: int, *, rankings: bool = False) -> PooledMemory | None:
        """What votes will take, where that can be told beforehand; refuses samples that the learner cannot take."""

    def blocks(self, n_subsets: int, n_test: int) -> list[Block]:
        """The rectangles by which votes are computed and kept."""

    def standing(
        self, order: Order, n_classes: int, known: Sequence[tuple[Block, NDArray[np.bool_], list[Made], str | None]]
    ) -> Standing:
        """The kept base classifiers that are still those of the order's subsets.

        ``known`` are the blocks on disk: which of their base classifiers have the digest of their subset, where they
        were made, and the digest of the file that keeps them.
        """

    def answers(
        self, missing: Sequence[Missing], test: Samples, n_classes: int, resources: Resources
    ) -> Iterator[Answers]:
        """Train and ask what is missing, keep what is to be kept, and give the answers block by block."""

    def save(self, members: Any, folder: Path, digests: NDArray[np.uint8]) -> None:
        """Keep base classifiers, each with the digest of its subset."""

    def files(self, n_subsets: int, folder: Path) -> list[str]:
        """The files that keep so many base classifiers in this folder, so that no record can name others."""

    def parts(
        self, folder: Path, files: Sequence[str], learner: Any, n_classes: int, trusted: Sequence[str] = ()
    ) -> Iterator[Members]:
        """Kept base classifiers, no more of them at once than a file holds."""

    def load(self, folder: Path, n_subsets: int, learner: Any, n_classes: int, trusted: Sequence[str] = ()) -> Members:
        """All of them."""


_BY_MEMBER, _POOLED = MemberByMember(), PooledEngine()


def engine_of(learner: Any) -> Engine:
    """The engine of a learner: pooled if it can share work between subsets."""
    return engine_named(pooled=hasattr(learner, "share"))


def engine_named(*, pooled: bool) -> Engine:
    """The engine that a record names."""
    return _POOLED if pooled else _BY_MEMBER

"""What is to be trained and asked: the words that engines and those who call them share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.subsets import TrainingSets
from poisonproof.samples.kinds import Samples

Made = frozenset[str]
"""The environments that had a part in a base classifier and its votes, each as a text."""


class Training(NamedTuple):
    """What base classifiers are trained from: a learner, its samples, and which of them feed which base classifier."""

    estimator: Any
    samples: Samples
    codes: NDArray[np.int64]
    subsets: TrainingSets


class Kept(NamedTuple):
    """Base classifiers of earlier training data, and the indices of those whose subset is still the same."""

    members: Any
    indices: NDArray[np.int64]


class Block(NamedTuple):
    """Consecutive base classifiers and consecutive test samples: votes are computed and kept by such rectangles."""

    number: int
    subsets: range
    samples: range

    @property
    def cut(self) -> tuple[slice, slice]:
        """Where it lies in a vote matrix."""
        return slice(self.samples.start, self.samples.stop), slice(self.subsets.start, self.subsets.stop)


class Refusal(NamedTuple):
    """Which samples a base classifier could not answer, and what it said about the first of them."""

    samples: NDArray[np.bool_]
    reason: str


@dataclass
class Answers:
    """What some base classifiers say about the samples of a block, and what is to be known about them.

    ``votes`` are (samples, indices), or rankings (samples, indices, classes). ``members`` is the digest of the file
    that keeps the base classifiers of the block, where they have one; ``order`` the number of the order they answer.
    """

    block: Block
    indices: Sequence[int]
    votes: NDArray[Any]
    trained: NDArray[np.bool_]
    made: list[Made]
    failures: dict[int, str] = field(default_factory=dict)
    refusals: dict[int, Refusal] = field(default_factory=dict)
    members: str | None = None
    order: int = 0


@dataclass
class Order:
    """The votes that one run wants.

    Attributes
    ----------
    folder : path
        Of the run; base classifiers are kept in its "models".
    training : Training
    digests : array
        What each base classifier is a function of.
    rankings, keep : bool
        Whether rankings are wanted, and whether base classifiers are kept.
    seconds : dict
        What training took here.
    """

    folder: Path
    training: Training
    digests: NDArray[np.uint8]
    rankings: bool = False
    keep: bool = False
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def models(self) -> Path:
        """Where base classifiers are kept."""
        return self.folder / "models"


@dataclass
class Standing:
    """Kept base classifiers that are still those of their subsets, and where each of them was trained.

    ``members`` are the base classifiers themselves, where all of them are opened together.
    """

    kept: NDArray[np.bool_]
    made: list[Made]
    members: Any = None

    @classmethod
    def nothing(cls, count: int) -> Standing:
        """None is kept."""
        return cls(np.zeros(count, np.bool_), [frozenset()] * count)


class Missing(NamedTuple):
    """An order, the kept base classifiers that stand, and by block the base classifiers whose votes are missing."""

    order: Order
    standing: Standing
    blocks: dict[Block, list[int]]

    @property
    def untrained(self) -> NDArray[np.int64]:
        """Base classifiers that have to be trained: all that are not kept, or else those whose votes are missing."""
        if self.order.keep:
            return np.flatnonzero(~self.standing.kept)
        return np.array(sorted({i for indices in self.blocks.values() for i in indices}), np.int64)


class Resources(NamedTuple):
    """Workers, a folder that nobody else uses for what they map, and memory for a pooled learner's kernel."""

    n_jobs: int | None = None
    scratch: Path | None = None
    kernel_bytes: int | None = None


class Members(Protocol):
    """Fitted base classifiers; number i belongs to subset i."""

    def __len__(self) -> int: ...

    def votes(
        self,
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

    def remarks(self) -> list[str]:
        """What a reader of certificates must know about their training; raises if none could be trained."""

    def misplaced(self, first: int) -> int | None:
        """The first place in which another base classifier stands, if the first of them should be that number."""

    def check_ranks(self, learner: Any) -> None:
        """Refuse base classifiers of this learner if they only vote, where rankings are asked for."""

    def ask(self, samples: Samples, n_classes: int, *, rankings: bool = False) -> NDArray[Any]:
        """The same in this process, whatever they cannot answer."""

"""The one seam of training: train these subsets, give me votes. Two engines, chosen once by the learner.

Most learners are trained one base classifier at a time (`poisonproof.training.members`). A pooled learner has a method
``share(X)``, does once whatever depends on single training samples, and then solves its subsets together
(`poisonproof.training.pooled`). Whoever wants base classifiers or votes asks `engine_of` and knows no more about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from poisonproof import registry
from poisonproof.samples.kinds import Samples
from poisonproof.training.source import TrainingSource

Environment = dict[str, Any]
"""What the bits of a float may depend on; see `poisonproof.system.machine.environment`."""


def each_once(environments: Sequence[Environment]) -> list[Environment]:
    """In their order."""
    return [one for at, one in enumerate(environments) if one not in environments[:at]]


class Block(NamedTuple):
    """Consecutive base classifiers and consecutive test samples: votes are computed and saved by such rectangles."""

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
class VoteBlock:
    """What some base classifiers of a block say about its samples, and what is to be known about them.

    Attributes
    ----------
    block : Block
    indices : sequence of int
        The base classifiers.
    votes : array
        (samples, indices), or rankings (samples, indices, classes).
    trained : array of bool
        Which of them have a model.
    environments : list
        Those that had a part in the base classifiers and their votes, each once.
    failures, refusals : dict
        By index, what the learner raised on the subset, and which samples it could not answer.
    members : str or None
        SHA-256 of the file that holds the base classifiers, where they have one of their own.
    """

    block: Block
    indices: Sequence[int]
    votes: NDArray[Any]
    trained: NDArray[np.bool_]
    environments: list[Environment]
    failures: dict[int, str] = field(default_factory=dict)
    refusals: dict[int, Refusal] = field(default_factory=dict)
    members: str | None = None


class Resources(NamedTuple):
    """Workers, a folder that nobody else uses for what they map, and bytes for a pooled learner's kernel."""

    n_jobs: int | None = None
    scratch: Path | None = None
    kernel_bytes: int | None = None


@dataclass(frozen=True)
class VoteJob:
    """The votes that are wanted: of which base classifiers, about what, and where the base classifiers are saved.

    ``digests`` say what each base classifier is a function of. Without ``models``, a folder, none is saved.
    """

    learner: Any
    source: TrainingSource
    digests: NDArray[np.uint8]
    test: Samples
    n_classes: int
    rankings: bool = False
    models: Path | None = None
    resources: Resources = field(default_factory=Resources)


@dataclass
class Saved:
    """Saved base classifiers: which of them are still those of their subsets, and where those of a block were trained.

    ``members`` are the base classifiers themselves, where all of them are opened together.
    """

    current: NDArray[np.bool_]
    environments: dict[int, list[Environment]] = field(default_factory=dict)
    members: Any = None

    @classmethod
    def nothing(cls, count: int) -> Saved:
        """None is saved."""
        return cls(np.zeros(count, np.bool_))


class Known(NamedTuple):
    """A block of votes on disk, and which of its base classifiers have the digest of their subset."""

    votes: VoteBlock
    same: NDArray[np.bool_]


class Earlier(NamedTuple):
    """Base classifiers of earlier training data, and the indices of those whose subset is still the same."""

    members: Any
    indices: NDArray[np.int64]


class MemoryEstimate(Protocol):
    """Bytes that training and voting take, estimated from above before any of them is taken."""

    @property
    def undefended(self) -> int:
        """While one model is trained on all data."""

    def check_machine(self) -> None:
        """Raise before any work is done if the machine has not that much memory at all."""

    def within(self, bound: int, n_jobs: int | None) -> Resources:
        """What may be used so that a bound holds, or one sentence that says how much is needed."""

    def spare(self, bound: int, n_jobs: int | None, *, undefended: bool) -> int:
        """How many bytes every process may use to hold partitions that it has read, whatever else it does."""


class Fitted(Protocol):
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

    def ask(self, samples: Samples, n_classes: int, *, rankings: bool = False) -> NDArray[Any]:
        """The votes from this process alone, whatever the base classifiers cannot answer."""

    def notices(self) -> list[str]:
        """What a reader of certificates must know about their training; raises if none could be trained."""

    def misplaced(self, first: int) -> int | None:
        """The first place in which another base classifier stands, if the first of them should be that number."""

    def check_ranks(self, learner: Any) -> None:
        """Refuse base classifiers of this learner if they only vote, where rankings are asked for."""


class Engine(Protocol):
    """How base classifiers are trained, asked and saved. No vote depends on blocks, workers, threads or company."""

    @property
    def pooled(self) -> bool:
        """What records of runs and models call it by."""

    @property
    def uses_workers(self) -> bool:
        """Whether worker processes train, which take a while to start."""

    def fit(
        self,
        learner: Any,
        source: TrainingSource,
        *,
        earlier: Earlier | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> Fitted:
        """One base classifier per subset, on that subset; of ``earlier`` ones those stay whose subset is the same."""

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
        """Train these subsets only; their votes (samples, indices), or rankings (samples, indices, classes)."""

    def ranks(self, learner: Any) -> bool:
        """Whether base classifiers of this learner can say more than their vote."""

    def memory(
        self, learner: Any, source: TrainingSource, test: Samples, n_classes: int, *, rankings: bool = False
    ) -> MemoryEstimate:
        """What votes will take; refuses samples that the learner cannot take, and rankings that it cannot give."""

    def grid(self, n_subsets: int, n_test: int) -> list[Block]:
        """The rectangles by which votes are computed and saved."""

    def saved(self, job: VoteJob, known: Sequence[Known]) -> Saved:
        """The base classifiers in the job's folder that are still those of its subsets; ``known`` are its blocks."""

    def vote(self, job: VoteJob, missing: Mapping[Block, list[int]], saved: Saved) -> Iterator[VoteBlock]:
        """Train and ask what is missing, save what is to be saved, and give the votes block by block."""

    def save(self, members: Any, folder: Path, digests: NDArray[np.uint8]) -> None:
        """Save base classifiers, each with the digest of its subset."""

    def files(self, n_subsets: int, folder: Path) -> list[str]:
        """The files that hold so many base classifiers in this folder, so that no record can name others."""

    def parts(
        self, folder: Path, files: Sequence[str], learner: Any, n_classes: int, trusted: Sequence[str] = ()
    ) -> Iterator[Fitted]:
        """Saved base classifiers, no more of them at once than a file holds."""

    def load(self, folder: Path, n_subsets: int, learner: Any, n_classes: int, trusted: Sequence[str] = ()) -> Fitted:
        """All of them."""


def engine_of(learner: Any) -> Engine:
    """The engine of a learner: pooled if it can share work between subsets."""
    return engine_named(pooled=hasattr(learner, "share"))


def engine_named(*, pooled: bool) -> Engine:
    """The engine that a record names."""
    engine: Engine = registry.find("engines", "pooled" if pooled else "members")()
    return engine

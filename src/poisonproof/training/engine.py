"""The one seam of training: train these subsets, give me votes. Two engines, chosen once by the learner.

A source gives each base classifier its training set, and nothing else: in memory (`ArraySource`), in partitions on disk
(`poisonproof.data.out_of_core.StoredSource`) or drawn at random (`poisonproof.stochastic`), to the same bit. It travels
to workers whole, once if the backend can hold on to it, with arrays mapped from a file or as the name of a folder.

Most learners are trained one base classifier at a time (`poisonproof.training.members`). A pooled learner has a method
``share(X)``, does once whatever depends on single training samples, and then solves its subsets together
(`poisonproof.training.pooled`). Whoever wants base classifiers or votes asks `engine_of` and knows no more about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from poisonproof import registry
from poisonproof.errors import PoisonproofError
from poisonproof.samples.batches import EncodedTexts, Shared, takes_texts
from poisonproof.samples.kinds import Samples, TableSamples, TextSamples, TrainingSet

if TYPE_CHECKING:
    from poisonproof.learners.text import WordReading


class TrainingSource(Protocol):
    """Training samples, and which of them feed which base classifier; number i is trained on subset i."""

    @property
    def samples(self) -> Samples:
        """All training samples, in memory or not."""

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many samples each subset holds."""

    @property
    def n_bytes(self) -> int:
        """About how many bytes of samples the largest subset holds."""

    @property
    def whole_bytes(self) -> int:
        """The same of all training samples."""

    def __len__(self) -> int: ...

    def subset(self, i: int, /) -> TrainingSet:
        """What base classifier i is trained on, in canonical order."""

    def seed(self, i: int, /) -> int:
        """What base classifier i is seeded with."""


@dataclass(frozen=True, eq=False)
class ArraySource:
    """Training samples in memory, with the codes of their labels.

    ``subsets`` (`poisonproof.core.subsets.Subsets`, or draws) has the rows of each in canonical order, and its seed.
    """

    samples: Samples
    codes: NDArray[np.int64]
    subsets: Any

    def __len__(self) -> int:
        return len(self.subsets)

    def __sizeof__(self) -> int:
        return self.samples.__sizeof__() + self.codes.nbytes  # what Dask goes by when it moves data

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many samples each subset holds."""
        return np.asarray(self.subsets.sizes)

    @property
    def n_bytes(self) -> int:
        """About how many bytes of samples the largest subset holds."""
        return int(self.sizes.max(initial=0) / max(1, len(self.samples)) * self.samples.n_bytes)

    @property
    def whole_bytes(self) -> int:
        """Bytes of all training samples."""
        return self.samples.n_bytes

    def rows(self, i: int) -> NDArray[np.int64]:
        """The samples of subset i, in canonical order."""
        return np.asarray(self.subsets.rows(i))

    def subset(self, i: int) -> TrainingSet:
        """What base classifier i is trained on."""
        return TrainingSet(self.samples, self.codes, self.rows(i))

    def seed(self, i: int) -> int:
        """What base classifier i is seeded with."""
        return int(self.subsets.seed(i))


MOST_BYTES = 1 << 28  # of words that are shared; beyond, each base classifier reads its own texts
OF_WORDS, OF_PIECES = 8, 48  # bytes for each character, from above: words and pairs of words, and pieces of words


def with_shared_texts(learner: Any, samples: Samples, rows: Callable[[], NDArray[np.int64]]) -> Samples:
    """The same samples, of which words of these rows are read; as they are, if the learner reads none.

    A text reaches d base classifiers and, where one of them chooses its learner, several folds of each. Its words are
    hashed once, before any of them is trained, and each base classifier takes the rows of its own subset: those that it
    would have made itself, to the bit. Workers map them, as they map numbers.
    """
    readings: tuple[WordReading, ...] = learner.readings if takes_texts(learner) else ()
    if isinstance(samples, TextSamples):
        wanted = [(None, reading) for reading in readings if not reading.columns]
    elif isinstance(samples, TableSamples):
        names = [column.name for column in samples.columns]
        wanted = [(name, reading) for reading in readings for name in reading.columns if names.count(name) == 1]
    else:
        wanted = []
    if not wanted or not len(samples):
        return samples
    shared: Shared = {}
    room, asked = MOST_BYTES, rows()
    for name, reading in wanted:
        texts, numbers = _texts(samples, name, asked)
        room -= (OF_PIECES if reading.pieces else OF_WORDS) * sum(map(_length, texts[numbers]))
        if room < 0:
            return samples
        shared[name, reading] = EncodedTexts.of(reading, texts, numbers)
    same = copy(samples)
    vars(same)["shared"] = shared
    return same


def source_with_texts(learner: Any, source: TrainingSource, indices: Sequence[int]) -> TrainingSource:
    """The same source, with words that these base classifiers are fed read once.

    Where training samples are on disk, memory is bounded, and each base classifier reads its own.
    """
    if not isinstance(source, ArraySource):
        return source

    def rows() -> NDArray[np.int64]:
        return np.unique(np.concatenate([np.zeros(0, np.int64), *(source.rows(i) for i in indices)]))

    samples = with_shared_texts(learner, source.samples, rows)
    return source if samples is source.samples else replace(source, samples=samples)


def _texts(samples: Samples, name: Any, rows: NDArray[np.int64]) -> tuple[NDArray[np.object_], NDArray[Any]]:
    """The different texts of a column, or all texts, and the numbers of those that these rows hold."""
    if isinstance(samples, TextSamples):
        return samples.texts, rows
    assert isinstance(samples, TableSamples)
    column = next(column for column in samples.columns if column.name == name).coded
    assert column.codes is not None
    held = np.unique(column.codes[rows])
    return column.cells.values, held[held >= 0]


def _length(cell: Any) -> int:
    return len(cell) if isinstance(cell, str) else 0


MEMBERS_PER_FILE = 64
FEWEST_AT_ONCE = 16  # test samples that a pooled learner is asked about
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


@dataclass(frozen=True)
class Member:
    """A fitted base classifier.

    Attributes
    ----------
    index : int
        What it is seeded with: its subset, or a number drawn with it.
    model : object or None
        The fitted classifier; None where the subset is empty, of one class, or made the learner fail.
    codes : array
        The class codes its subset holds, in increasing order; the model predicts positions in it.
    fallback : int or None
        The most frequent code of the subset (ties to the smallest), said where the model cannot.
        None for an empty subset, which abstains.
    form : object
        What the samples it was trained on looked like (see `Samples.form_of`).
    failure : str or None
        What the learner raised on the subset.
    """

    index: int
    model: Any
    codes: NDArray[np.int64]
    fallback: int | None
    form: Any = None
    failure: str | None = None


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

    @property
    def indices(self) -> Sequence[int]:
        """The number of each; those of a file need not begin at 0."""


class Engine(Protocol):
    """How base classifiers are trained, asked and saved. No vote depends on blocks, workers, threads or company."""

    @property
    def pooled(self) -> bool:
        """What records of runs and models call it by."""

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


def gives_scores(learner: Any) -> bool:
    """Whether base classifiers of this learner can say more than their vote."""
    return any(hasattr(learner, name) for name in ("share", "decision_function", "predict_proba"))


def check_gives_scores(learner: Any) -> None:
    """Refuse a learner whose base classifiers only vote, where rankings are asked for."""
    if not gives_scores(learner):
        raise PoisonproofError(
            f"Rankings need scores, and {type(learner).__name__} has neither decision_function nor predict_proba; "
            "choose a base classifier that has one, or a certificate that needs votes alone.",
            code="member.no-scores",
        )


def engine_of(learner: Any) -> Engine:
    """The engine of a learner: pooled if it can share work between subsets."""
    return engine_named(pooled=hasattr(learner, "share"))


def engine_named(*, pooled: bool) -> Engine:
    """The engine that a record names."""
    engine: Engine = registry.find("engines", "pooled" if pooled else "members")()
    return engine

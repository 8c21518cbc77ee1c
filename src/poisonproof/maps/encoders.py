"""Encoders: fixed maps from one sample to whole numbers, made elsewhere, out of the attacker's reach.

An embedding is a function of one sample and of weights whose digest is on record: not of its batch, of the order of the
samples, of threads, of processes, or of what a memory holds. Every sample is encoded by itself, on one thread, brought
to a declared length and rounded to whole numbers, so that all that follows is exact. As many numbers stand for every
sample: one that an encoder has none for, or another number of them, is described by zeros. What it was trained on is
not covered by any proof here: an encoder is a premise, with its name, its source and the SHA-256 of its weights.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.maps.embedding_cache import EmbeddingCache, sample_keys
from poisonproof.premises import Premise
from poisonproof.system.compiled import njit
from poisonproof.system.determinism import in_threads

LENGTH = 2048.0  # a power of two: dividing by it loses nothing
PER_TASK = 4
KEPT_AT_ONCE = 1024  # embeddings that an interruption can cost
NOT_COVERED = "public; not covered by this proof"
WIDTH = "width of the map"
FLEETING = "until the tasks under way are done: "
MOST_REMEMBERED = 1 << 28  # numbers
ASKED_TWICE = 8
_memory: dict[tuple[str, int], dict[bytes, NDArray[np.int16]]] = {}
_memory_lock = threading.Lock()
_tasks = 0  # that are under way in this process
log = logging.getLogger(__name__)


class UnreadableSampleError(PoisonproofError):
    """One sample that an encoder has no numbers for; the others are none the worse."""


@dataclass(frozen=True)
class EncoderRecord:
    """What an encoder is: all that its embeddings depend on, and all that a reader must know about it.

    Attributes
    ----------
    name, version, source, licence : str
    weights : str
        SHA-256 of the file of weights.
    preprocessing : str
        What is done to a sample before the network sees it, and to its answer.
    trained_on : str
        What shaped the weights.
    takes : "images" or "texts"
    length : float
        What embeddings are brought to before they are rounded; what counts as length 1.
    width : int, optional
        How many numbers stand for a sample, where that is declared.
    """

    name: str
    version: str
    source: str
    licence: str
    weights: str
    preprocessing: str
    trained_on: str
    takes: str
    length: float = LENGTH
    width: int | None = None

    @property
    def digest(self) -> str:
        """SHA-256 of all of it."""
        return hashlib.sha256(json.dumps(self.as_dict(), sort_keys=True).encode()).hexdigest()

    @property
    def premise(self) -> Premise:
        """What certificates of embedded samples take as given."""
        value = (
            f"{self.name} {self.version}, {self.source}, licence {self.licence}, weights sha256 {self.weights}, "
            f"{self.preprocessing}, {'' if self.width is None else f'{self.width} numbers, '}{self.length:g} steps per "
            f"unit; trained on {self.trained_on}"
        )
        return Premise("encoder", value, declared=True)

    def as_dict(self) -> dict[str, Any]:
        """For a file."""
        return {name: value for name, value in asdict(self).items() if name != "width" or value is not None}


@dataclass(frozen=True)
class Encoder(ABC):
    """A fixed map from one sample to a vector of whole numbers: ``encoder(X)`` gives (n, 1, width) of int16.

    It serves wherever feature maps do (``features=`` of `BallotClassifier` and of `KernelRidgeClassifier`), and in
    front of any learner (``encoder=`` of `FiniteAggregationClassifier`). Two encoders are equal if their records are.

    Parameters
    ----------
    record : EncoderRecord
    place : str
        Where the weights lie on this machine; they must have the digest on record.
    cache : str, optional
        A folder in which embeddings are kept; see `EmbeddingCache`.
    measured_width : int, optional
        How many numbers stand for a sample, where nobody declares it and training samples had to say (`measured`).
    measured_by : str
        The same in words, for a premise.
    """

    record: EncoderRecord
    place: str = field(compare=False)
    cache: str | None = field(default=None, compare=False)
    measured_width: int | None = field(default=None, kw_only=True)
    measured_by: str = field(default="", compare=False, kw_only=True)
    takes_missing = True  # what cannot be read says so itself

    @property
    def scale(self) -> float:
        """What counts as length 1."""
        return self.record.length

    @property
    def premise(self) -> Premise:
        """What certificates take as given."""
        return self.record.premise

    @property
    def premises(self) -> tuple[Premise, ...]:
        """The same, and how wide embeddings are if training samples had to say so."""
        width = Premise(WIDTH, self.measured_by, declared=False)
        return (self.premise,) if self.measured_width is None else (self.premise, width)

    @property
    def lasting(self) -> bool:
        """Whether the record says all that embeddings depend on, so that they may be remembered for good."""
        return True

    @property
    def exact(self) -> bool:
        """Whether embeddings are the same on every machine; floating point inside rounds as processors like."""
        return False

    @property
    def spec(self) -> str | None:
        """What `poisonproof.encoder` makes it from: a name or a file; None if nothing does."""
        return None

    def cached(self, folder: str | Path) -> Self:
        """The same, keeping its embeddings in this folder."""
        return replace(self, cache=str(folder))

    def __call__(self, X: Any, *, training: bool = False) -> NDArray[np.int16]:
        """Embeddings (n, 1, width) of samples, whole numbers of length `scale`; of nothing recognised, zeros."""
        samples = self.read(X)
        if not samples:
            raise PoisonproofError(f"The encoder {self.record.name} was given no samples.")
        return self._rows(samples)[:, None]

    def remembered(self, X: Any) -> NDArray[np.int16]:
        """The same as a call gives; without a cache, this process remembers what it has encoded, if there is room.

        Embeddings by a function that has no record of its own are forgotten when the tasks under way are done: what it
        calls may change from one fit to the next, and nothing would show it.
        """
        if self.cache is not None or not (self.lasting or _tasks):
            return self(X)
        samples, width = self.read(X), self.width
        with _memory_lock:
            memory = _memory.setdefault((self.identity if self.lasting else f"{FLEETING}{self.identity}", width), {})
        keys = [key.tobytes() for key in sample_keys(samples)]
        missing = {key: at for at, key in enumerate(keys) if key not in memory}
        new = dict(zip(missing, self._rows([samples[at] for at in missing.values()]), strict=True)) if missing else {}
        rows = np.array([new[key] if key in new else memory[key] for key in keys], np.int16).reshape(len(keys), width)
        if sum(map(len, _memory.values())) * width < MOST_REMEMBERED:
            memory.update(new)
        return rows[:, None]

    def forget(self, X: Any) -> int:
        """Delete the embeddings of these samples from the cache, if there is one; how many there were."""
        if self.cache is None:
            return 0
        return EmbeddingCache.of(self.cache, self.identity).forget(sample_keys(self.read(X)))

    def measured(self, X: Any) -> Self:
        """This encoder, with the width that most of these samples give (ties: the smaller) if nothing else says it.

        Raises `UnreadableSampleError` if the encoder has no numbers for any of them, and refuses one that gives other
        numbers when it is asked again.
        """
        samples = self.read(X)
        once = [self._answer(sample) for sample in (samples if self.needs_width else samples[:ASKED_TWICE])]
        given = [answer for answer in once if not isinstance(answer, UnreadableSampleError)]
        if not given:
            raise next(answer for answer in once if isinstance(answer, UnreadableSampleError))
        again = [self._answer(sample) for sample in reversed(samples[:ASKED_TWICE])][::-1]
        for answer, other in zip(once, again, strict=False):
            failed = [isinstance(one, UnreadableSampleError) for one in (answer, other)]
            if failed[0] != failed[1] or not (failed[0] or np.array_equal(answer, other)):  # type: ignore[arg-type]
                raise PoisonproofError(
                    f"The encoder {self.record.name} gave other numbers when it was asked about the same sample again; "
                    "it must be a fixed function of one sample: no random numbers, no dropout, nothing of the batch."
                )
        return replace(self, **width_of_most([len(one) for one in given], len(samples))) if self.needs_width else self

    @property
    def identity(self) -> str:
        """What embeddings in a cache depend on: the record, and what runs it here."""
        return hashlib.sha256(f"{self.record.digest} {self.runtime()}".encode()).hexdigest()

    @abstractmethod
    def read(self, X: Any) -> Sequence[Any]:
        """Samples as the encoder takes them, one by one; raises on a sample that it cannot take."""

    @abstractmethod
    def embed(self, sample: Any) -> NDArray[Any]:
        """The numbers that stand for one sample, before they are brought to length and rounded."""

    @abstractmethod
    def runtime(self) -> str:
        """What runs it here, as far as last bits may depend on it; opens and checks the weights."""

    @property
    def needs_width(self) -> bool:
        """Whether only samples can say how many numbers stand for one: nothing is declared and nothing can be tried."""
        kind = type(self)
        return self.record.width is None and kind.probe is Encoder.probe and kind.width is Encoder.width

    @property
    def width(self) -> int:
        """How many numbers stand for a sample."""
        declared = self.measured_width if self.record.width is None else self.record.width
        return _probed_width(self) if declared is None else declared

    def probe(self) -> Any:
        """A sample that any such encoder can take."""
        raise PoisonproofError(
            f"How many numbers the encoder {self.record.name} gives is not known before it is fitted; declare it: "
            "poisonproof.encoder(function, width=…)."
        )

    def _rows(self, samples: Sequence[Any]) -> NDArray[np.int16]:
        """What stands for each sample, kept in the cache if there is one; zeros where there is nothing of the width."""
        rows = np.zeros((len(samples), self.width), np.int16)
        for at, answer in enumerate(self._asked(samples) if self.cache is None else self._kept(samples)):
            if len(answer) == rows.shape[1]:
                rows[at] = answer
        return rows

    def _row(self, sample: Any) -> NDArray[np.int16]:
        """What stands for one sample; raises `UnreadableSampleError` where that would be zeros."""
        answer = self._answer(sample)
        if isinstance(answer, UnreadableSampleError):
            raise answer
        if len(answer) != self.width:
            raise UnreadableSampleError(
                f"The encoder {self.record.name} gave {len(answer)} numbers for a sample; it must give {self.width}."
            )
        return answer

    def _asked(self, samples: Sequence[Any]) -> list[NDArray[np.int16]]:
        """What the encoder says of each sample by itself, as many numbers as it gave; nothing where it has none."""
        answers = [np.zeros(0, np.int16)] * len(samples)

        def work(start: int, stop: int) -> None:
            for at in range(start, stop):
                answer = self._answer(samples[at])
                if not isinstance(answer, UnreadableSampleError):
                    answers[at] = answer

        in_threads(len(samples), PER_TASK, work)
        width = self.width
        if failures := sum(len(answer) != width for answer in answers):
            log.warning("the encoder %s has no numbers for %d samples; they are zeros", self.record.name, failures)
        return answers

    def _answer(self, sample: Any) -> NDArray[np.int16] | UnreadableSampleError:
        """The embedding of one sample, or why there is none. Only what no sample is to blame for raises."""
        try:
            values = np.ascontiguousarray(np.asarray(self.embed(sample), np.float64).reshape(-1))
        except UnreadableSampleError as error:
            return error
        except (PoisonproofError, MemoryError, OSError, ImportError):
            raise
        except Exception as error:
            return UnreadableSampleError(
                f"The encoder {self.record.name} raised on a sample ({type(error).__name__}: {error})."
            )
        if len(values) == 0 or not np.isfinite(values).all():
            return UnreadableSampleError(
                f"The encoder {self.record.name} gave NaN, infinity or nothing for a sample; it must give numbers."
            )
        return to_length(values, self.record.length)

    def _kept(self, samples: Sequence[Any]) -> list[NDArray[np.int16]]:
        assert self.cache is not None
        cache, keys = EmbeddingCache.of(self.cache, self.identity), sample_keys(samples)
        _, first = np.unique(keys, return_index=True)
        missing = first[~cache.holds(keys[first])]
        for start in range(0, len(missing), KEPT_AT_ONCE):
            chunk = np.sort(missing)[start : start + KEPT_AT_ONCE]
            cache.keep(keys[chunk], self._asked([samples[at] for at in chunk]))
        return cache.rows(keys)


@cache
def _probed_width(encoder: Encoder) -> int:
    return len(np.asarray(encoder.embed(encoder.probe())).reshape(-1))


def width_of_most(widths: Sequence[int], asked: int) -> dict[str, Any]:
    """The width that most samples give (ties: the smaller), of so many that were asked; and the same in words."""
    width = max(sorted(set(widths)), key=widths.count)
    words = (
        f"{width} numbers, as {widths.count(width)} of the {asked} training samples with the smallest hashes have it"
    )
    return {"measured_width": width, "measured_by": words}


@contextmanager
def remembering() -> Iterator[None]:
    """A task in which samples are encoded more than once; see `Encoder.remembered`."""
    global _tasks
    with _memory_lock:
        _tasks += 1
    try:
        yield
    finally:
        with _memory_lock:
            _tasks -= 1
            for identity in [known for known in _memory if not _tasks and known[0].startswith(FLEETING)]:
                del _memory[identity]


def to_length(values: NDArray[np.float64], length: float) -> NDArray[np.int16]:
    """A vector brought to a length and rounded; the sums in their order, so the same bits everywhere."""
    out = np.empty(len(values), np.int16)
    _to_length(values, length, out)
    return out


@njit(nogil=True, cache=True)
def _to_length(values: NDArray[np.float64], length: float, out: NDArray[np.int16]) -> None:
    largest = 0.0
    for value in values:
        largest = max(largest, abs(value))
    total = 0.0
    if largest > 0.0:
        for value in values:
            total += (value / largest) * (value / largest)  # no square can overflow
    factor = length / (largest * math.sqrt(total)) if total > 0.0 else 0.0
    for at in range(len(values)):
        out[at] = int(np.rint(values[at] * factor))

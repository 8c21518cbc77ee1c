"""Encoders: fixed maps from one sample to whole numbers, made elsewhere, out of the attacker's reach.

An embedding is a function of one sample and of weights whose digest is on record: not of its batch, of the order of the
samples, of threads or of processes. Every sample is encoded by itself, on one thread, brought to a declared length and
rounded to whole numbers, so that all that follows is exact. What it was trained on is not covered by any proof here: an
encoder is a premise, with its name, its source and the SHA-256 of its weights.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.maps.embedding_cache import EmbeddingCache, sample_keys
from poisonproof.premises import Premise
from poisonproof.system.compiled import njit
from poisonproof.system.threads import in_threads

LENGTH = 2048.0  # a power of two: dividing by it loses nothing
PER_TASK = 4
KEPT_AT_ONCE = 1024  # embeddings that an interruption can cost
NOT_COVERED = "public; not covered by this proof"
MOST_REMEMBERED = 1 << 28  # numbers
_memory: dict[str, dict[bytes, NDArray[np.int16]]] = {}
_memory_lock = threading.Lock()
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

    @property
    def digest(self) -> str:
        """SHA-256 of all of it."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    @property
    def premise(self) -> Premise:
        """What certificates of embedded samples take as given."""
        value = (
            f"{self.name} {self.version}, {self.source}, licence {self.licence}, weights sha256 {self.weights}, "
            f"{self.preprocessing}, {self.length:g} steps per unit; trained on {self.trained_on}"
        )
        return Premise("encoder", value, declared=True)

    def as_dict(self) -> dict[str, Any]:
        """For a file."""
        return asdict(self)


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
    """

    record: EncoderRecord
    place: str = field(compare=False)
    cache: str | None = field(default=None, compare=False)
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
        if self.cache is None:
            return self._encoded(samples)[:, None]
        return self._kept(samples)[:, None]

    def remembered(self, X: Any) -> NDArray[np.int16]:
        """The same; without a cache, this process remembers what it has encoded, as far as there is room for it."""
        if self.cache is not None:
            return self(X)
        with _memory_lock:
            memory = _memory.setdefault(self.identity, {})
        samples = self.read(X)
        keys = [key.tobytes() for key in sample_keys(samples)]
        missing = {key: at for at, key in enumerate(keys) if key not in memory}
        new = (
            dict(zip(missing, self._encoded([samples[at] for at in missing.values()]), strict=True)) if missing else {}
        )
        rows = np.array([new[key] if key in new else memory[key] for key in keys], np.int16)
        if sum(map(len, _memory.values())) * rows.shape[1] < MOST_REMEMBERED:
            memory.update(new)
        return rows[:, None]

    def forget(self, X: Any) -> int:
        """Delete the embeddings of these samples from the cache, if there is one; how many there were."""
        if self.cache is None:
            return 0
        return EmbeddingCache.of(self.cache, self.identity).forget(sample_keys(self.read(X)))

    def check(self, X: Any) -> None:
        """Refuse an encoder that gives no numbers for any of some samples, or others when it is asked again.

        What it cannot do with one sample stays with that sample, which is described by zeros.
        """
        samples = self.read(X)
        once = [self._answer(sample) for sample in samples]
        if all(isinstance(answer, PoisonproofError) for answer in once):
            raise next(iter(once))  # type: ignore[misc]
        again = [self._answer(sample) for sample in reversed(samples)][::-1]
        for answer, other in zip(once, again, strict=True):
            if isinstance(answer, PoisonproofError) and isinstance(other, PoisonproofError):
                continue
            failed = isinstance(answer, PoisonproofError) or isinstance(other, PoisonproofError)
            if failed or not np.array_equal(answer, other):  # type: ignore[arg-type]
                raise PoisonproofError(
                    f"The encoder {self.record.name} gave other numbers when it was asked about the same sample again; "
                    "it must be a fixed function of one sample: no random numbers, no dropout, nothing of the batch."
                )
        self._width(once)

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

    def _encoded(self, samples: Sequence[Any]) -> NDArray[np.int16]:
        answers: list[NDArray[np.int16] | PoisonproofError | None] = [None] * len(samples)

        def work(start: int, stop: int) -> None:
            for at in range(start, stop):
                answers[at] = self._answer(samples[at])

        in_threads(len(samples), PER_TASK, work)
        out = np.zeros((len(samples), self._width(answers)), np.int16)
        failures = 0
        for at, answer in enumerate(answers):
            if isinstance(answer, np.ndarray):
                out[at] = answer
            else:
                failures += 1
        if failures:
            log.warning("the encoder %s has no numbers for %d samples; they are zeros", self.record.name, failures)
        return out

    def _width(self, answers: Sequence[Any]) -> int:
        """How many numbers stand for a sample: as many for every one."""
        widths = {len(answer) for answer in answers if isinstance(answer, np.ndarray)}
        if len(widths) > 1:
            raise PoisonproofError(
                f"The encoder {self.record.name} gave {min(widths)} numbers for one sample and {max(widths)} for "
                "another; it must give as many for every sample."
            )
        return widths.pop() if widths else self.width

    @property
    def width(self) -> int:
        """How many numbers stand for a sample, where none of a batch could be encoded."""
        return len(to_length(np.asarray(self.embed(self.probe()), np.float64).reshape(-1), 1.0))

    def probe(self) -> Any:
        """A sample that any such encoder can take."""
        raise PoisonproofError(f"The encoder {self.record.name} has no numbers for any of these samples.")

    def _answer(self, sample: Any) -> NDArray[np.int16] | PoisonproofError:
        """The embedding of one sample, or why there is none."""
        try:
            values = np.ascontiguousarray(np.asarray(self.embed(sample), np.float64).reshape(-1))
        except UnreadableSampleError as error:
            return error
        if len(values) == 0 or not np.isfinite(values).all():
            return UnreadableSampleError(
                f"The encoder {self.record.name} gave NaN, infinity or nothing for a sample; it must give numbers."
            )
        return to_length(values, self.record.length)

    def _kept(self, samples: Sequence[Any]) -> NDArray[np.int16]:
        assert self.cache is not None
        cache, keys = EmbeddingCache.of(self.cache, self.identity), sample_keys(samples)
        _, first = np.unique(keys, return_index=True)
        missing = first[~cache.holds(keys[first])]
        for start in range(0, len(missing), KEPT_AT_ONCE):
            chunk = np.sort(missing)[start : start + KEPT_AT_ONCE]
            cache.keep(keys[chunk], self._encoded([samples[at] for at in chunk]))
        return cache.rows(keys)


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

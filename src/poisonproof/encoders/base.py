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
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from poisonproof import registry
from poisonproof.encoders.cache import EmbeddingCache, sample_keys
from poisonproof.errors import PoisonproofError, WrongTypeError
from poisonproof.learners.feature_maps import ASKED_TWICE, MEASURED_ON, width_of_most
from poisonproof.learners.inspection import describe
from poisonproof.premises import WIDTH, Premise, PublicMap
from poisonproof.samples.kinds import NumberSamples, Samples
from poisonproof.system.compiled import njit
from poisonproof.system.machine import processor
from poisonproof.system.parallel import at_rest, under_way
from poisonproof.system.threads import in_threads

LENGTH = 2048.0  # a power of two: dividing by it loses nothing
PER_TASK = 4
KEPT_AT_ONCE = 1024  # embeddings that an interruption can cost
NOT_COVERED = "public; not covered by this proof"
FLEETING = "until the tasks under way are done: "
MOST_REMEMBERED = 1 << 28  # numbers
_memory: dict[tuple[str, int], dict[bytes, NDArray[np.int16]]] = {}
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
        return Premise("encoder", self.as_dict(), declared=True)

    def as_dict(self) -> dict[str, Any]:
        """For a file."""
        return {name: value for name, value in asdict(self).items() if name != "width" or value is not None}


@dataclass(frozen=True)
class Encoder(PublicMap):
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
    def digest(self) -> str:
        """Of its record."""
        return self.record.digest

    @property
    def premises(self) -> tuple[Premise, ...]:
        """The same, and how wide embeddings are if training samples had to say so."""
        width = Premise(WIDTH, self.measured_by, declared=False)
        return (self.record.premise,) if self.measured_width is None else (self.record.premise, width)

    @property
    def lasting(self) -> bool:
        """Whether the record says all that embeddings depend on, so that they may be remembered for good."""
        return True

    @property
    def description(self) -> str:
        """Its name and the digest of its record."""
        return f"{self.record.name} ({self.record.digest[:32]})"

    @property
    def weights(self) -> str:
        """Digest of its weights."""
        return self.record.weights

    @property
    def is_default(self) -> bool:
        """Whether some kind of data gets this encoder if nobody names one."""
        return False

    @property
    def spec(self) -> str | None:
        """What `poisonproof.encoder` makes it from: a name or a file; None if nothing does."""
        return None

    def cached(self, folder: str | Path) -> Self:
        """The same, keeping its embeddings in this folder."""
        return replace(self, cache=str(folder))

    def without_cache(self) -> Self:
        """The same, keeping nothing."""
        return replace(self, cache=None)

    def check_unchanged(self) -> None:
        """Weights are checked when they are opened; there is no code."""

    def __call__(self, X: Any, *, training: bool = False) -> NDArray[np.int16]:
        """Embeddings (n, 1, width) of samples, whole numbers of length `scale`; of nothing recognised, zeros."""
        samples = self.read(X)
        if not samples:
            raise PoisonproofError(f"The encoder {self.record.name} was given no samples.", code="encoder.no-samples")
        return self._rows(samples)[:, None]

    def memoised(self, X: Any) -> NDArray[np.int16]:
        """The same as a call gives; without a cache, this process remembers what it has encoded, if there is room.

        Embeddings by a function that has no record of its own are forgotten when the tasks under way are done: what it
        calls may change from one fit to the next, and nothing would show it.
        """
        if self.cache is not None or not (self.lasting or under_way()):
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

    def delete(self, X: Any) -> int:
        """Delete the embeddings of these samples from the cache, if there is one; how many there were."""
        if self.cache is None:
            return 0
        return EmbeddingCache.of(self.cache, self.identity).delete(sample_keys(self.read(X)))

    def checked(self, samples: Samples) -> Self:
        """The encoder for these training samples, measured on those with the smallest content hashes.

        No order decides which these are. Refuses samples of a kind that it does not take, and an encoder that shows
        itself to be no function. If it has no numbers for any of the first, others are asked: as long as one is left,
        no sample stops the training.
        """
        takes = self.record.takes
        one = samples.subset([0]) if len(samples) else samples  # stored samples know their kind and not their shape
        pictures = isinstance(one, NumberSamples) and one.values.ndim in (3, 4)
        kind = "images" if pictures else samples.kind
        if takes not in ("anything", kind):
            raise PoisonproofError(
                f"The encoder {self.record.name} takes {takes}, and these samples are {kind}.",
                code="encoder.wrong-kind",
            )
        order, error = np.argsort(samples.content_hashes, kind="stable"), None
        for start in range(0, len(order), MEASURED_ON):
            try:
                return self.measured(samples.take(order[start : start + MEASURED_ON]))
            except UnreadableSampleError as first:
                error = error or first
        raise error or PoisonproofError(
            f"The encoder {self.record.name} was given no samples.", code="encoder.no-samples"
        )

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
                    "it must be a fixed function of one sample: no random numbers, no dropout, nothing of the batch.",
                    code="encoder.no-function",
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
            "poisonproof.encoder(function, width=…).",
            code="encoder.width",
        )

    def _rows(self, samples: Sequence[Any]) -> NDArray[np.int16]:
        """What stands for each sample, kept in the cache if there is one; zeros where there is nothing of the width."""
        rows = np.zeros((len(samples), self.width), np.int16)
        for at, answer in enumerate(self._asked(samples) if self.cache is None else self._kept(samples)):
            if len(answer) == rows.shape[1]:
                rows[at] = answer
        return rows

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


def _forget_fleeting() -> None:
    with _memory_lock:
        for identity in [known for known in _memory if known[0].startswith(FLEETING)]:
            del _memory[identity]


at_rest.append(_forget_fleeting)


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


@dataclass(frozen=True)
class FunctionEncoder(Encoder):
    """Any function from an array, or a list of texts, to rows of numbers.

    It is asked about one sample at a time, so no company can change what it says. Whether it is a function of the
    sample alone is tried on some samples, which cannot prove it.

    Parameters
    ----------
    record, place, cache
        As in `Encoder`; nothing lies at the place.
    function : callable
        Called with a batch of one sample.
    """

    function: Callable[[Any], Any] | None = field(default=None, compare=False, repr=False)
    answers_one_by_one = True  # see poisonproof.samples.batches

    @classmethod
    def of(cls, function: Callable[[Any], Any], name: str, digest: str, width: int | None = None) -> FunctionEncoder:
        """With what is known of it: its name, a digest of its code and of what it holds, and perhaps its width."""
        if width is not None and (isinstance(width, bool) or not isinstance(width, int) or width < 1):
            raise PoisonproofError(
                f"The 'width' of an encoder must be a whole number ≥ 1. Got {width!r} instead.", code="encoder.width"
            )
        stated = getattr(function, "record", None)
        record = EncoderRecord(
            name=name,
            version="unknown",
            source="the user's own function",
            licence="the user's own",
            weights=digest,
            preprocessing="its own",
            trained_on="whatever the user knows; not covered by this proof",
            takes="anything",
        )
        record = stated if isinstance(stated, EncoderRecord) else record
        return cls(record if width is None else replace(record, width=width), "", function=function)

    @property
    def lasting(self) -> bool:
        """Whether the function states a record: what it calls is not in the digest of its code."""
        return isinstance(getattr(self.function, "record", None), EncoderRecord)

    def check_unchanged(self) -> None:
        """Refuse a function that is not the one on its record any more."""
        if self.function is None:
            return
        record = as_encoder(self.function, self.record.width).record
        if record != self.record:
            raise PoisonproofError(
                f"The function {self.record.name} has the SHA-256 {record.weights}, and the record of the encoder says "
                f"{self.record.weights}; its code, or Python, is another, so nothing that was certified holds for it.",
                code="encoder.function-changed",
            )

    def read(self, X: Any) -> Sequence[Any]:
        """Samples one by one, as they come."""
        return list(X) if isinstance(X, list | tuple) else list(np.asarray(X))

    def embed(self, sample: Any) -> NDArray[Any]:
        """What the function says of one sample."""
        if self.function is None:
            raise PoisonproofError(
                f"The encoder {self.record.name} is a function that must be given again.",
                code="encoder.function-missing",
            )
        batch = [sample] if isinstance(sample, str) else np.asarray(sample)[None]
        try:
            answer = np.asarray(self.function(batch))
        except (MemoryError, KeyboardInterrupt):
            raise
        except Exception as error:
            raise UnreadableSampleError(
                f"The encoder {self.record.name} raised on a sample ({type(error).__name__}: {error})."
            ) from error
        if answer.dtype.kind not in "biuf" or answer.size == 0 or (answer.ndim > 1 and len(answer) != 1):
            raise UnreadableSampleError(
                f"The encoder {self.record.name} must give a row of numbers for a sample. Got an array of "
                f"{answer.dtype} of shape {answer.shape}."
            )
        return answer.reshape(-1)

    def runtime(self) -> str:
        """The processor: what else runs it is not known."""
        return processor()


def encoder(source: str | Path | Callable[[Any], Any], *, width: int | None = None) -> Encoder:
    """An encoder by its name, from a file, or of a function of your own.

    Parameters
    ----------
    source : str, path or callable
        ``efficientnet-lite0`` (1, 2; ``@160`` sets the pixels), ``wordllama``; ``FILE.onnx``, a network for pictures
        with a ``FILE.json`` beside it that declares how pictures enter, or ``FILE.npz``, embeddings that
        `write_embeddings` wrote. Or a function from a batch of samples to rows of numbers, which is asked about one
        sample at a time.
    width : int, optional
        How many numbers a function gives for a sample; where it gives another number, the sample is described by zeros.
        Without it, the 32 training samples with the smallest content hashes say so, which is a premise.
    """
    if not isinstance(source, str | Path):
        return as_encoder(source, width)
    if width is not None:
        raise PoisonproofError(
            f"The 'width' is of functions; how many numbers {source} gives is known. Leave it out.",
            code="encoder.width",
        )
    name = str(source)
    suffix = Path(name).suffix
    if suffix in registry.names("encoders"):
        made: Encoder = registry.find("encoders", suffix)(name)
        return made
    plain = name.partition("@")[0]
    if plain.startswith(".") or plain not in registry.names("encoders"):
        known = [known for known in registry.names("encoders") if not known.startswith(".")]
        raise PoisonproofError(
            f"There is no encoder '{name}'; there are {', '.join(known)}, FILE.onnx, embeddings.npz and MODULE:OBJECT.",
            code="encoder.unknown",
        )
    named: Encoder = registry.find("encoders", plain)(name)
    return named


def as_encoder(value: Any, width: int | None = None) -> Encoder:
    """An encoder as it is, or a function of samples with a record of what is known about it."""
    if isinstance(value, Encoder):
        return value
    if isinstance(value, type) or not callable(value):
        raise WrongTypeError(
            "An encoder is what poisonproof.encoder(name) gives, or a function from samples to an array of numbers. "
            f"Got {value!r} instead."
        )
    words = describe(value)
    name = getattr(value, "__qualname__", type(value).__qualname__)
    return FunctionEncoder.of(value, name, hashlib.sha256(words.encode()).hexdigest(), width)

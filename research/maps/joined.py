"""An encoder and one of our own maps of pictures, side by side: what photographs taught it, and what a formula sees.

Both vectors are brought to declared lengths, 1 and a factor, and set one behind the other, so the squared distance is
the sum of both. Each is a function of one sample, and so are the two together; the encoder stays a premise.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from poisonproof.encoders.base import Encoder, UnreadableSampleError, to_length
from poisonproof.errors import PoisonproofError
from research.maps.objects import ObjectFeatures
from research.maps.signs import SignFeatures
from research.maps.trusted import described

NAME = re.compile(r"(?P<encoder>.+)\+(?:(?P<factor>\d+(?:\.\d+)?)\*)?(?P<beside>(?P<plain>[a-z][a-z0-9-]*)(?:@\d+)?)")
BESIDE: dict[str, Callable[[], Any]] = {
    "signs": SignFeatures,
    "objects": ObjectFeatures,
}  # they take colour, as encoders
LARGEST_FACTOR = 100.0


def row_of(encoder: Encoder, sample: Any) -> NDArray[np.int16]:
    """What stands for one sample; raises `UnreadableSampleError` where that would be zeros."""
    answer = encoder._answer(sample)
    if isinstance(answer, UnreadableSampleError):
        raise answer
    if len(answer) != encoder.width:
        raise UnreadableSampleError(f"{encoder.record.name} gave {len(answer)} numbers instead of {encoder.width}.")
    return answer


@dataclass(frozen=True)
class JoinedEncoder(Encoder):
    """The embedding of a picture and, behind it, what one of our own maps says of it.

    A picture for which the encoder has no numbers is described by zeros, whatever the map says.

    Parameters
    ----------
    record, place, cache
        As in `Encoder`.
    encoder : Encoder
        One that takes pictures.
    beside : "signs" or "objects"
        The map.
    factor : float
        The length of what the map says, where that of the embedding is 1.
    """

    encoder: Encoder = field(kw_only=True)
    beside: str = field(kw_only=True)
    factor: float = field(kw_only=True)
    answers_one_by_one = True  # see poisonproof.samples.batches

    @classmethod
    def of(cls, encoder: Encoder, beside: str, factor: float = 1.0) -> JoinedEncoder:
        """With a record that names both."""
        if beside not in BESIDE:
            raise PoisonproofError(
                f"Beside an encoder stands one of our maps of colour pictures, {' or '.join(BESIDE)}. Got '{beside}'."
            )
        check_factor(factor)
        if encoder.record.takes != "images":
            raise PoisonproofError(
                f"The encoder {encoder.record.name} takes {encoder.record.takes}, and beside it the map '{beside}' "
                "takes images; leave one of them out."
            )
        constants = hashlib.sha256(repr(_map(beside)).encode()).hexdigest()
        record = replace(
            encoder.record,
            name=f"{encoder.record.name} beside {beside}",
            preprocessing=f"{encoder.record.preprocessing}; behind the embedding the map {beside} (constants sha256 "
            f"{constants[:16]}), of {float(factor)!r} times its length",
            width=None,
        )
        plain = replace(encoder, cache=None)  # what is kept is kept together, and deleted together
        return cls(record, encoder.place, encoder=plain, beside=beside, factor=float(factor))

    @property
    def spec(self) -> str | None:
        """The name of the encoder, with the map behind it."""
        return None if self.encoder.spec is None else f"{self.encoder.spec}+{self.factor!r}*{self.beside}"

    def read(self, X: Any) -> Sequence[Any]:
        """Pictures, as the encoder takes them."""
        return self.encoder.read(X)

    def embed(self, sample: Any) -> NDArray[np.float64]:
        """Both vectors, each of its own length."""
        embedding = row_of(self.encoder, sample)
        return together(embedding, described(_map(self.beside), sample[None])[0], self.factor)

    def measured(self, X: Any) -> Self:
        """The same with the encoder measured on these samples."""
        first = self.encoder.measured(X)
        measured = replace(self, encoder=first)
        return (
            measured
            if first.measured_width is None
            else replace(measured, measured_width=measured.width, measured_by=first.measured_by)
        )

    @property
    def width(self) -> int:
        """Of both together."""
        return self.encoder.width + _map_width(self.beside)

    @property
    def needs_width(self) -> bool:
        """Whether the encoder does."""
        return self.encoder.needs_width

    @property
    def lasting(self) -> bool:
        """If the encoder's record says all."""
        return self.encoder.lasting

    def runtime(self) -> str:
        """What runs the encoder."""
        return self.encoder.runtime()

    def _asked(self, samples: Sequence[Any]) -> list[NDArray[np.int16]]:
        beside = described(_map(self.beside), np.stack(samples))
        return [*side_by_side(self.encoder._rows(samples), beside, self.factor, self.record.length)]


def side_by_side(embeddings: NDArray[Any], other: NDArray[Any], factor: float, length: float) -> NDArray[np.int16]:
    """Rows of whole numbers, joined: brought to lengths 1 and ``factor``, then together to ``length``, and rounded."""
    out = np.empty((len(embeddings), embeddings.shape[1] + other.shape[1]), np.int16)
    for at in range(len(embeddings)):
        out[at] = to_length(together(embeddings[at], other[at], factor), length)
    return out


def check_factor(factor: float) -> None:
    """Refuse a length of what stands beside an encoder that would drown the one or the other."""
    if not 1 / LARGEST_FACTOR <= factor <= LARGEST_FACTOR:
        raise PoisonproofError(
            f"The length of what stands beside an encoder must be from {1 / LARGEST_FACTOR:g} to {LARGEST_FACTOR:g}. "
            f"Got {factor:g}."
        )


def joined_parts(name: str, known: Collection[str] = tuple(BESIDE)) -> tuple[str, str, float] | None:
    """Encoder, what stands beside it and factor of a name such as ``efficientnet-lite0@96+2*signs``.

    None if it is no such name, or if what stands there is none of those ``known`` (`@` and pixels may follow).
    """
    parts = NAME.fullmatch(name)
    if parts is None or parts["plain"] not in known:
        return None
    return parts["encoder"], parts["beside"], float(parts["factor"] or 1.0)


def together(embedding: NDArray[Any], other: NDArray[Any], factor: float) -> NDArray[np.float64]:
    """Both brought to lengths 1 and ``factor``, one behind the other; zeros if the first is."""
    lengths = [math.sqrt(int(np.square(part.astype(np.int64)).sum())) for part in (embedding, other)]
    if lengths[0] == 0.0:
        return np.zeros(len(embedding) + len(other))
    return np.concatenate([embedding / lengths[0], other * (factor / lengths[1] if lengths[1] else 0.0)])


@cache
def _map(name: str) -> Any:
    return BESIDE[name]()


@cache
def _map_width(name: str) -> int:
    return described(_map(name), np.zeros((1, 8, 8, 3), np.uint8)).shape[1]

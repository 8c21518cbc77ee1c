"""Two encoders side by side, each a function of one sample: two networks seldom err alike, so both see more than one.

Each embedding is brought to its declared length, 1 and a factor, as in `research.maps.joined`. Both stay premises,
and their embeddings are kept each for itself, so that a run with one of them finds what a run with both has encoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from poisonproof.encoders.base import Encoder, EncoderRecord, UnreadableSampleError
from poisonproof.encoders.embeddings import EmbeddingTable
from poisonproof.errors import PoisonproofError
from research.maps.joined import JoinedEncoder, check_factor, row_of, side_by_side, together


@dataclass(frozen=True)
class EncoderPair(Encoder):
    """The embedding of a sample and, behind it, that of another encoder.

    A sample for which the first has no numbers is described by zeros; where the second has none, its part is zeros.

    Parameters
    ----------
    record, place, cache
        As in `Encoder`.
    encoder, beside : Encoder
        Two that take the same kind of samples.
    factor : float
        The length of the second embedding, where that of the first is 1.
    """

    encoder: Encoder = field(kw_only=True)
    beside: Encoder = field(kw_only=True)
    factor: float = field(kw_only=True)
    answers_one_by_one = True  # see poisonproof.samples.batches

    @classmethod
    def of(cls, encoder: Encoder, beside: Encoder, factor: float = 1.0) -> EncoderPair:
        """With a record that names both."""
        check_factor(factor)
        if encoder.record.takes != beside.record.takes:
            raise PoisonproofError(
                f"The encoder {encoder.record.name} takes {encoder.record.takes} and {beside.record.name} takes "
                f"{beside.record.takes}; side by side stand encoders of one kind of samples."
            )
        if isinstance(encoder, JoinedEncoder | EncoderPair | EmbeddingTable):
            raise PoisonproofError(
                f"Side by side stand two encoders that read samples themselves. Got {encoder.spec} in front."
            )
        first, second = (replace(one, cache=None) for one in (encoder, beside))
        factor = float(factor)
        return cls(_record_of(first, second, factor), first.place, encoder=first, beside=second, factor=factor)

    @property
    def spec(self) -> str | None:
        """The names of both."""
        specs = self.encoder.spec, self.beside.spec
        return None if None in specs else f"{specs[0]}+{self.factor!r}*{specs[1]}"

    def read(self, X: Any) -> Sequence[Any]:
        """Samples, as the first takes them, and so does the second."""
        return self.encoder.read(X)

    def embed(self, sample: Any) -> NDArray[np.float64]:
        """Both embeddings, each of its own length."""
        first = row_of(self.encoder, sample)
        try:
            second = row_of(self.beside, sample)
        except UnreadableSampleError:
            second = np.zeros(self.beside.width, np.int16)
        return together(first, second, self.factor)

    def measured(self, X: Any) -> Self:
        """The same with both measured on these samples; the second may have no numbers for any of them."""
        first = self.encoder.measured(X)
        try:
            second = self.beside.measured(X)
        except UnreadableSampleError:
            second = self.beside
        words = "; ".join(one.measured_by for one in (first, second) if one.measured_width is not None)
        measured = replace(self, encoder=first, beside=second)
        return replace(measured, measured_width=measured.width, measured_by=words) if words else measured

    @property
    def width(self) -> int:
        """Of both together."""
        return self.encoder.width + self.beside.width

    @property
    def needs_width(self) -> bool:
        """Whether one of them does."""
        return self.encoder.needs_width or self.beside.needs_width

    @property
    def lasting(self) -> bool:
        """If both records say all."""
        return self.encoder.lasting and self.beside.lasting

    def runtime(self) -> str:
        """What runs both."""
        return "; ".join(dict.fromkeys((self.encoder.runtime(), self.beside.runtime())))

    def _rows(self, samples: Sequence[Any]) -> NDArray[np.int16]:
        first, second = (replace(one, cache=self.cache)._rows(samples) for one in (self.encoder, self.beside))
        return side_by_side(first, second, self.factor, self.record.length)

    def delete(self, X: Any) -> int:
        """Delete the embeddings of these samples, of both; how many samples had some."""
        if self.cache is None:
            return 0
        return max(one.cached(self.cache).delete(X) for one in (self.encoder, self.beside))


def _record_of(first: Encoder, second: Encoder, factor: float) -> EncoderRecord:
    def both(name: str) -> str:
        return " and ".join(dict.fromkeys((getattr(first.record, name), getattr(second.record, name))))

    names = ("name", "version", "source", "licence", "weights", "trained_on")
    words: dict[str, Any] = {name: both(name) for name in names}
    second_words = f"of {factor!r} times its length behind it the second: {second.record.preprocessing}"
    return replace(first.record, **words, preprocessing=f"{first.record.preprocessing}; {second_words}", width=None)

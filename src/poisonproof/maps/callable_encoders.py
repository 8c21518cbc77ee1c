"""Encoders that are a function of the user's own: asked about one sample at a time, and never believed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.maps.encoders import Encoder, EncoderRecord, UnreadableSampleError
from poisonproof.system.machine import processor


@dataclass(frozen=True)
class CallableEncoder(Encoder):
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
    def of(cls, function: Callable[[Any], Any], name: str, digest: str, width: int | None = None) -> CallableEncoder:
        """With what is known of it: its name, a digest of its code and of what it holds, and perhaps its width."""
        if width is not None and (isinstance(width, bool) or not isinstance(width, int) or width < 1):
            raise PoisonproofError(f"The 'width' of an encoder must be a whole number ≥ 1. Got {width!r} instead.")
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

    def read(self, X: Any) -> Sequence[Any]:
        """Samples one by one, as they come."""
        return list(X) if isinstance(X, list | tuple) else list(np.asarray(X))

    def embed(self, sample: Any) -> NDArray[Any]:
        """What the function says of one sample."""
        if self.function is None:
            raise PoisonproofError(f"The encoder {self.record.name} is a function that must be given again.")
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

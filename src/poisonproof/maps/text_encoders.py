"""Encoders of texts. WordLlama adds up vectors of tokens, in whole numbers: the same bits on every machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import DamagedFileError, PoisonproofError, missing_extra
from poisonproof.maps.encoders import Encoder
from poisonproof.maps.image_encoders import checked_weights

_lock = threading.Lock()
_tables: dict[tuple[str, str], _Table] = {}
SAFE_DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I64": "<i8", "I32": "<i4"}
UNITS = 2.0**24  # every number of half precision is a multiple of its inverse


class _Table(NamedTuple):
    """A tokenizer, and the vectors of its tokens in whole numbers."""

    tokenizer: Any
    vectors: NDArray[np.int64]


@dataclass(frozen=True)
class TokenSumEncoder(Encoder):
    """The direction of the sum of the vectors of a text's tokens (WordLlama, Model2Vec and their like).

    Vectors of half precision are whole multiples of 2⁻²⁴, so the sum is exact and no order of tokens, no batch and no
    machine changes it. An empty text is described by zeros.

    Parameters
    ----------
    record, place, cache
        As in `Encoder`. The place is a safetensors file with one table of vectors.
    tokenizer : str
        The tokenizer's file.
    tokenizer_digest : str
        Its SHA-256.
    """

    tokenizer: str = field(default="", compare=False)
    tokenizer_digest: str = ""
    answers_one_by_one = True  # see poisonproof.samples.batches

    @property
    def spec(self) -> str:
        """Its name."""
        return self.record.name

    @property
    def exact(self) -> bool:
        """It is."""
        return True

    def read(self, X: Any) -> Sequence[str]:
        """Texts."""
        return texts_of(X, self.record.name)

    def embed(self, sample: str) -> NDArray[np.float64]:
        """The sum of the vectors of its tokens."""
        table = self._table()
        tokens = np.asarray(table.tokenizer.encode(sample, add_special_tokens=False).ids, np.int64)
        return table.vectors[np.minimum(tokens, len(table.vectors) - 1)].sum(axis=0).astype(np.float64)

    def probe(self) -> str:
        """A word."""
        return "word"

    def runtime(self) -> str:
        """The tokenizer's library: the rest is whole numbers."""
        self._table()
        return f"tokenizers {version('tokenizers')}"

    def _table(self) -> _Table:
        with _lock:
            identity = (self.record.weights, self.tokenizer_digest)
            if identity not in _tables:
                tokenizer = opened_tokenizer(self.tokenizer, self.tokenizer_digest, self.record.name)
                tensors = read_safetensors(checked_weights(self.place, self.record.weights))
                wide = [tensor for tensor in tensors.values() if tensor.ndim == 2]
                if len(wide) != 1 or wide[0].dtype != np.float16:
                    raise DamagedFileError(f"{self.place} holds no single table of vectors in half precision.")
                _tables[identity] = _Table(tokenizer, (wide[0].astype(np.float64) * UNITS).astype(np.int64))
            return _tables[identity]


def texts_of(X: Any, name: str) -> Sequence[str]:
    """Texts, or one sentence; what is none counts as an empty one."""
    array = X if isinstance(X, list | tuple) else np.asarray(X)
    if not isinstance(array, list | tuple) and (array.ndim != 1 or array.dtype.kind not in "OUT"):
        raise PoisonproofError(
            f"The encoder {name} takes texts: a list of strings. Got an array of {array.dtype} of shape {array.shape}."
        )
    return [_plain(text) if isinstance(text, str) else "" for text in array]  # none can stop the others


def _plain(text: str) -> str:
    """The text with a question mark for each half of a character, which no tokenizer takes."""
    return text.encode("utf-8", "replace").decode()


def opened_tokenizer(path: str, digest: str, name: str) -> Any:
    """A tokenizer from its file, without padding and without a limit of its own."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise missing_extra(f"The encoder {name}", "tokenizers", "text-encoders") from error
    tokenizer = Tokenizer.from_str(checked_weights(path, digest).decode())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def read_safetensors(content: bytes) -> dict[str, NDArray[Any]]:
    """Every tensor of a safetensors file by its name."""
    try:
        size = int.from_bytes(content[:8], "little")
        header, body = json.loads(content[8 : 8 + size]), memoryview(content)[8 + size :]
        tensors = {}
        for name, about in header.items():
            if name != "__metadata__":
                first, last = about["data_offsets"]
                numbers = np.frombuffer(body[first:last], SAFE_DTYPES[about["dtype"]])
                tensors[str(name)] = numbers.reshape(about["shape"])
        return tensors
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedFileError(f"This is no safetensors file of plain numbers ({error}).") from error

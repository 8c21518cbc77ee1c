"""Embeddings that were computed elsewhere, on a GPU or by a service, looked up by the content of the sample.

A table of keys and vectors, written once beside the data. A sample is looked up by a digest of its own content, so its
embedding depends on no other row; one that is not in the table, or that stands there with two different vectors, has no
embedding and is described by zeros. Vectors are brought to a declared length and rounded when the table is made.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.encoders.base import LENGTH, Encoder, EncoderRecord, UnreadableSampleError, to_length
from poisonproof.encoders.cache import KEY_BYTES, sample_keys
from poisonproof.errors import DamagedFileError, PoisonproofError, check_format
from poisonproof.learners.feature_maps import LONGEST
from poisonproof.system.files import check_may_open, open_arrays, reading, sha256_of, write_arrays

FORMAT = "poisonproof embeddings 1"
ARRAYS = ("keys", "rows")
_lock = threading.Lock()
_tables: dict[str, dict[bytes, NDArray[np.int16]]] = {}


@dataclass(frozen=True)
class EmbeddingTable(Encoder):
    """A table of embeddings as an encoder; `write_embeddings` makes one, `open_embeddings` opens it."""

    answers_one_by_one = True  # see poisonproof.samples.batches

    @property
    def spec(self) -> str:
        """Its file."""
        return self.place

    def read(self, X: Any) -> Sequence[Any]:
        """Samples one by one, in the form that their keys are made of."""
        return plain_samples(X)

    def embed(self, sample: Any) -> NDArray[np.float64]:
        """Its row of the table."""
        row = self._table().get(sample_keys([sample])[0].tobytes())
        if row is None:
            raise UnreadableSampleError(
                f"{self.record.name} holds no embedding of a sample; compute one for every sample, test samples too."
            )
        return row.astype(np.float64)

    def runtime(self) -> str:
        """Nothing runs here."""
        self._table()
        return "looked up"

    @property
    def width(self) -> int:
        """How many numbers stand for a sample."""
        return len(next(iter(self._table().values())))

    def _answer(self, sample: Any) -> NDArray[np.int16] | UnreadableSampleError:
        try:
            return self.embed(sample).astype(np.int16)
        except UnreadableSampleError as error:
            return error

    def _table(self) -> dict[bytes, NDArray[np.int16]]:
        with _lock:
            if self.record.weights not in _tables:
                check_may_open(self.place)
                actual = sha256_of(self.place)
                if actual != self.record.weights:
                    raise PoisonproofError(
                        f"The embeddings at {self.place} have the SHA-256 {actual}, and the record says "
                        f"{self.record.weights}; they are others, so nothing that was certified holds for them.",
                        code="encoder.other-weights",
                    )
                arrays, _ = open_arrays(self.place, ARRAYS)
                keys, rows = arrays["keys"].tobytes(), arrays["rows"]
                _tables[self.record.weights] = {
                    keys[at * KEY_BYTES : (at + 1) * KEY_BYTES]: rows[at] for at in range(len(rows))
                }
            return _tables[self.record.weights]


def write_embeddings(
    path: str | Path,
    X: Any,
    vectors: Any,
    *,
    name: str,
    trained_on: str,
    version: str = "unknown",
    source: str = "computed elsewhere",
    licence: str = "unknown",
    takes: str = "anything",
    length: float = LENGTH,
) -> EmbeddingTable:
    """Write a table of the embeddings of these samples, row by row, and open it.

    Parameters
    ----------
    path : path
        An npz file to write.
    X : array or list of texts
        All samples, training and test, as `run` or `fit` will be given them: images as whole levels, texts as they are.
    vectors : array (n, width)
        What the encoder elsewhere says of each of them.
    name, trained_on, version, source, licence : str
        What the premise says about it.
    takes : str
        "images", "texts" or "anything".
    length : float
        What vectors are brought to before they are rounded, from 1 to 4095: beyond it products are not exact.
    """
    if not 1 <= length <= LONGEST:
        raise PoisonproofError(
            f"The 'length' of embeddings must be from 1 to {LONGEST}. Got {length!r} instead.", code="embeddings.length"
        )
    samples, numbers = plain_samples(X), np.asarray(vectors)
    if numbers.ndim != 2 or len(numbers) != len(samples) or numbers.dtype.kind not in "iuf" or numbers.shape[1] == 0:
        raise PoisonproofError(
            f"Embeddings are one row of numbers for each of {len(samples)} samples. Got {numbers.dtype} of shape "
            f"{numbers.shape}.",
            code="embeddings.shape",
        )
    if not np.isfinite(numbers).all():
        bad = int((~np.isfinite(numbers).all(axis=1)).sum())
        raise PoisonproofError(
            f"{bad} of {len(numbers)} embeddings hold NaN or infinity; compute them again.",
            code="embeddings.not-finite",
        )
    rows = np.array([to_length(np.asarray(row, np.float64), length) for row in numbers], np.int16)
    keys = sample_keys(samples)
    table: dict[bytes, NDArray[np.int16] | None] = {}
    for key, row in zip(keys, rows, strict=True):
        known = table.setdefault(key.tobytes(), row)
        if known is not None and not np.array_equal(known, row):
            table[key.tobytes()] = None  # no function of the sample: whoever has this content has no embedding
    kept = {key: row for key, row in sorted(table.items()) if row is not None}
    if not kept:
        raise PoisonproofError(
            "No sample has one embedding: equal samples came with different ones.", code="embeddings.ambiguous"
        )
    facts = {
        "format": FORMAT,
        "name": name,
        "version": version,
        "source": source,
        "licence": licence,
        "trained_on": trained_on,
        "takes": takes,
        "length": length,
        "left_out": len(table) - len(kept),
    }
    write_arrays(
        path,
        {"keys": np.frombuffer(b"".join(kept), np.uint8).reshape(-1, KEY_BYTES), "rows": np.array([*kept.values()])},
        facts,
    )
    return open_embeddings(path)


def open_embeddings(path: str | Path) -> EmbeddingTable:
    """The table of a file that `write_embeddings` wrote; its SHA-256 is the digest on record."""
    check_may_open(path)
    arrays, facts = open_arrays(path, ARRAYS)
    check_format(path, facts.get("format"), FORMAT)
    keys, rows = arrays["keys"], arrays["rows"]
    whole = keys.dtype == np.uint8 and keys.ndim == 2 and keys.shape[1] == KEY_BYTES and len(keys) > 0
    if not whole or rows.dtype != np.int16 or rows.ndim != 2 or len(rows) != len(keys) or rows.shape[1] == 0:
        raise DamagedFileError(f"{path} is altered: it holds no keys and rows of embeddings.")
    with reading(path):
        record = EncoderRecord(
            name=str(facts["name"]),
            version=str(facts["version"]),
            source=str(facts["source"]),
            licence=str(facts["licence"]),
            trained_on=str(facts["trained_on"]),
            takes=str(facts["takes"]),
            weights=sha256_of(path),
            preprocessing=f"computed elsewhere, {rows.shape[1]} numbers, looked up by content",
            length=float(facts["length"]),
        )
    return EmbeddingTable(record, str(path))


def plain_samples(X: Any) -> Sequence[Any]:
    """Samples in the form that keys are made of: texts, or arrays; whole levels from 0 to 255 as bytes, one by one."""
    if isinstance(X, list | tuple) and all(isinstance(sample, str) for sample in X):
        return list(X)
    array = np.asarray(X)
    if array.dtype.kind in "OUT":
        return [sample if isinstance(sample, str) else "" for sample in array]
    if array.dtype == np.uint8:
        return list(array)
    return [_as_bytes(sample) for sample in array.astype(np.float64)]


def _as_bytes(sample: NDArray[np.float64]) -> NDArray[Any]:
    with np.errstate(invalid="ignore"):
        levels = ((sample >= 0) & (sample <= 255) & (sample == np.floor(sample))).all()
    return sample.astype(np.uint8) if levels else sample + 0.0

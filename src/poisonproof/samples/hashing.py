"""xxh64 of many rows at once, with the canonical form of numbers built into the same pass.

`hash_numbers` gives exactly ``xxhash.xxh64`` of each row's canonical bytes (float64, little endian,
−0.0 written as 0.0, every NaN as the one quiet NaN), without ever writing these bytes: reading a
row is all the memory traffic there is. The functions release the GIL.

xxh64 is fast and can be solved for: whoever writes samples can give two of them one hash. It may decide where a sample
belongs, which each sample does for itself, and nothing may take equal hashes for equal samples. What states a data set
to others goes by `content_digests`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import xxhash
from numpy.typing import NDArray

from poisonproof.system.threads import in_threads

ROWS_PER_TASK = 1 << 14
DIGEST = "V32"


def hash_numbers(values: NDArray[np.float64], seed: int = 0) -> NDArray[np.uint64]:
    """xxh64 of each row of a C-contiguous float64 array (any number of trailing axes)."""
    from poisonproof.samples.kernels import hash_rows

    rows = values.reshape(len(values), -1) if values.size else np.empty((len(values), 0))
    bits = rows.view(np.uint64)
    hashes = np.empty(len(rows), np.uint64)
    in_threads(
        len(rows),
        ROWS_PER_TASK,
        lambda start, stop: hash_rows(rows[start:stop], bits[start:stop], np.uint64(seed), hashes[start:stop]),
    )
    return hashes


def hash_bytes(pieces: Iterable[bytes | memoryview], count: int, seed: int = 0) -> NDArray[np.uint64]:
    """xxh64 of each piece."""
    digest = xxhash.xxh64_intdigest
    return np.fromiter((digest(piece, seed) for piece in pieces), np.uint64, count)


def among(hashes: NDArray[np.uint64], others: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Whether each hash is one of the others; NumPy 2.0 raises, if it may choose how, at one of 2⁶³ or more."""
    return np.isin(hashes, others, kind="sort")


def content_digests(keys: Iterable[bytes]) -> NDArray[np.void]:
    """SHA-256 of each of these keys, 32 bytes an item."""
    whole = b"".join(hashlib.sha256(key).digest() for key in keys)
    return np.frombuffer(whole, DIGEST) if whole else np.zeros(0, DIGEST)

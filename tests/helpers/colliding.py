"""Two samples with one xxh64: the hash takes 8-byte lanes by steps that can be undone, so it can be solved for."""

from __future__ import annotations

import numpy as np
import xxhash

_MASK = (1 << 64) - 1
_P1, _P2, _P4, _P5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def _left(word: int, by: int) -> int:
    return ((word << by) | (word >> (64 - by))) & _MASK


def _stirred(lane: int) -> int:
    return _left(lane * _P2 & _MASK, 31) * _P1 & _MASK


def _unstirred(word: int) -> int:
    return _left(word * pow(_P1, -1, 1 << 64) & _MASK, 33) * pow(_P2, -1, 1 << 64) & _MASK


def _after(lane: int) -> int:
    """The state after the first of two lanes."""
    return (_left((_P5 + 16 & _MASK) ^ _stirred(lane), 27) * _P1 + _P4) & _MASK


def with_the_hash_of(sample: bytes, first: bytes) -> bytes:
    """16 bytes that begin with ``first`` and have the xxh64 of these 16 bytes."""
    lanes = [int.from_bytes(part, "little") for part in (sample[:8], sample[8:], first)]
    word = _after(lanes[2]) ^ _after(lanes[0]) ^ _stirred(lanes[1])
    other = first + _unstirred(word).to_bytes(8, "little")
    assert xxhash.xxh64_intdigest(other) == xxhash.xxh64_intdigest(sample)
    return other


def colliding_rows() -> tuple[np.ndarray, np.ndarray]:
    """Two rows of two numbers each, different and of one hash."""
    row = np.array([1.5, -2.25])
    for start in range(1, 1000):
        other = np.frombuffer(with_the_hash_of(row.tobytes(), np.float64(start).tobytes()))
        if np.isfinite(other).all() and 1e-9 < abs(other[1]) < 1e9:
            return row, other
    raise AssertionError("no number among a thousand")

"""Compiled: xxh64 of many rows of numbers at once, and the keys of many rows of a table.

`hashing` and `kinds` load this when there is something to hash or to write.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poisonproof.system.compiled import njit

_PRIME1 = np.uint64(0x9E3779B185EBCA87)
_PRIME2 = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME3 = np.uint64(0x165667B19E3779F9)
_PRIME4 = np.uint64(0x85EBCA77C2B2AE63)
_PRIME5 = np.uint64(0x27D4EB2F165667C5)
_QUIET_NAN = np.uint64(0x7FF8000000000000)
_ZERO = np.uint64(0)
_WORD = np.uint64(64)
_MISSING, _NUMBER = np.uint8(ord("m")), np.uint8(ord("n"))
_BYTE = np.uint64(0xFF)


@njit(nogil=True, cache=True, inline="always")
def _rotate(value: np.uint64, by: np.uint64) -> np.uint64:
    return (value << by) | (value >> (_WORD - by))


@njit(nogil=True, cache=True, inline="always")
def _round(lane: np.uint64, word: np.uint64) -> np.uint64:
    return _rotate(lane + word * _PRIME2, np.uint64(31)) * _PRIME1


@njit(nogil=True, cache=True, inline="always")
def _merge(total: np.uint64, lane: np.uint64) -> np.uint64:
    return (total ^ _round(_ZERO, lane)) * _PRIME1 + _PRIME4


@njit(nogil=True, cache=True, inline="always")
def _canonical(value: float, bits: np.uint64) -> np.uint64:
    if value == 0.0:
        return _ZERO
    if value != value:
        return _QUIET_NAN
    return bits


@njit(nogil=True, cache=True)
def hash_rows(
    values: NDArray[np.float64], bits: NDArray[np.uint64], seed: np.uint64, hashes: NDArray[np.uint64]
) -> None:
    """xxh64 of each row's canonical bytes; ``bits`` is ``values`` seen as integers."""
    width = values.shape[1]
    stripes = width // 4 * 4
    for row in range(values.shape[0]):
        value = values[row]
        bit = bits[row]
        if stripes:
            lane1 = seed + _PRIME1 + _PRIME2
            lane2 = seed + _PRIME2
            lane3 = seed
            lane4 = seed - _PRIME1
            for at in range(0, stripes, 4):
                lane1 = _round(lane1, _canonical(value[at], bit[at]))
                lane2 = _round(lane2, _canonical(value[at + 1], bit[at + 1]))
                lane3 = _round(lane3, _canonical(value[at + 2], bit[at + 2]))
                lane4 = _round(lane4, _canonical(value[at + 3], bit[at + 3]))
            total = (
                _rotate(lane1, np.uint64(1))
                + _rotate(lane2, np.uint64(7))
                + _rotate(lane3, np.uint64(12))
                + _rotate(lane4, np.uint64(18))
            )
            total = _merge(_merge(_merge(_merge(total, lane1), lane2), lane3), lane4)
        else:
            total = seed + _PRIME5
        total += np.uint64(width * 8)
        for at in range(stripes, width):
            word = _canonical(value[at], bit[at])
            total = _rotate(total ^ _round(_ZERO, word), np.uint64(27)) * _PRIME1 + _PRIME4
        total = (total ^ (total >> np.uint64(33))) * _PRIME2
        total = (total ^ (total >> np.uint64(29))) * _PRIME3
        hashes[row] = total ^ (total >> np.uint64(32))


@njit(nogil=True, cache=True)
def write_keys(
    coded: NDArray[np.bool_],
    numbers: NDArray[np.float64],
    bits: NDArray[np.uint64],
    codes: NDArray[np.int64],
    blob: NDArray[np.uint8],
    begins: NDArray[np.int64],
    lengths: NDArray[np.int64],
    begin_of: NDArray[np.int64],
    written: NDArray[np.uint8],
) -> None:
    """Fill ``written`` with what `cell_key` writes cell by cell: of every row the length of its key, then the key."""
    for row in range(numbers.shape[0]):
        at = begin_of[row]
        for byte in range(8):
            written[at + byte] = np.uint8((np.uint64(lengths[row]) >> np.uint64(8 * byte)) & _BYTE)
        at += 8
        number = code = 0
        for column in range(len(coded)):
            if coded[column]:
                for source in range(begins[codes[row, code]], begins[codes[row, code] + 1]):
                    written[at] = blob[source]
                    at += 1
                code += 1
            elif numbers[row, number] != numbers[row, number]:
                written[at] = _MISSING
                at += 1
                number += 1
            else:
                written[at] = _NUMBER
                word = np.uint64(0) if numbers[row, number] == 0.0 else bits[row, number]
                for byte in range(8):
                    written[at + 1 + byte] = np.uint8((word >> np.uint64(8 * byte)) & _BYTE)
                at += 9
                number += 1

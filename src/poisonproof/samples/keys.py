"""The whole content of many rows of a table at once, byte for byte what `cell_key` writes cell by cell; compiled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from poisonproof.samples.cells import LENGTH_BYTES
from poisonproof.samples.columns import Column
from poisonproof.system.compiled import njit

_MISSING, _NUMBER = np.uint8(ord("m")), np.uint8(ord("n"))
_BYTE = np.uint64(0xFF)


def keys_of(columns: Sequence[Column], rows: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """For each row the length of its key in eight bytes and the key, one after the other; and where each begins."""
    coded = np.array([column.codes is not None for column in columns], np.bool_)
    numbers = np.empty((len(rows), int((~coded).sum())))
    codes = np.empty((len(rows), int(coded.sum())), np.int64)
    pieces, starts, first, n_bytes = [], [], 0, 0
    place = {True: 0, False: 0}
    for column, by_code in zip(columns, coded.tolist(), strict=True):
        if by_code:
            blob, begins = column.cells.keys
            assert column.codes is not None
            codes[:, place[True]] = np.where(column.codes[rows] < 0, len(column.cells), column.codes[rows]) + first
            pieces.append(blob)
            starts.append(begins + n_bytes)
            first, n_bytes = first + len(begins), n_bytes + len(blob)
        else:
            numbers[:, place[False]] = column.words(rows)
        place[by_code] += 1
    blob = np.concatenate(pieces) if pieces else np.zeros(0, np.uint8)
    begins = np.concatenate(starts) if starts else np.zeros(1, np.int64)
    lengths = np.where(np.isnan(numbers), 1, 9).sum(axis=1) + (begins[codes + 1] - begins[codes]).sum(axis=1)
    ends = np.cumsum(lengths + LENGTH_BYTES)
    written = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    begin_of = np.concatenate(([0], ends)).astype(np.int64)
    bits = numbers.view(np.uint64)
    _write_keys(coded, numbers, bits, codes, blob, begins, lengths.astype(np.int64), begin_of, written)
    return written, begin_of


@njit(nogil=True, cache=True)
def _write_keys(
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
    """Fill ``written``: of every row the length of its key in eight bytes, then the key."""
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

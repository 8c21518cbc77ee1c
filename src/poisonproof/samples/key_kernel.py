"""The content of rows of a table in bytes, compiled; `keys` loads it when there are rows to write down."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poisonproof.system.compiled import njit

_MISSING, _NUMBER = np.uint8(ord("m")), np.uint8(ord("n"))
_BYTE = np.uint64(0xFF)


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

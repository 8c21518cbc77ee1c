"""Kernels for rows that are written plainly: cut into cells, numbers and different texts (see `plain_rows`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poisonproof.system.compiled import njit

EMPTY, NUMBER, OTHER = 0, 1, 2
"""What a cell is: blank, a number that was read, or for Python to look at."""
MOST_DIGITS = 15  # so many are a whole number that float64 holds
POWERS = np.array([10.0**power for power in range(23)])  # those that float64 holds


@njit(nogil=True, cache=True)
def cut_lines(block: NDArray[np.uint8], delimiter: int, quotes: bool, begins: NDArray[np.int64]) -> int:
    """Where the cells of whole lines begin; -1 if they are not plain, 1 if there are bytes beyond ASCII, else 0."""
    last = begins.shape[1] - 1
    row, cell, seen, beyond = 0, 0, False, 0
    begins[0, 0] = 0
    for at in range(len(block)):
        byte = block[at]
        if byte == delimiter:
            cell += 1
            if cell == last:
                return -1
            begins[row, cell] = at + 1
        elif byte == 10:
            if cell != last - 1 or not seen:
                return -1
            begins[row, last] = at if at > 0 and block[at - 1] == 13 else at + 1
            row, cell, seen = row + 1, 0, False
            if row < len(begins):
                begins[row, 0] = at + 1
        elif byte == 13:
            if at + 1 == len(block) or block[at + 1] != 10:
                return -1
        elif byte == 0 or (quotes and byte == 34):
            return -1
        elif byte >= 128:
            beyond = 1
        elif 32 < byte < 127:
            seen = True
    return beyond


@njit(nogil=True, cache=True)
def read_numbers(
    block: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    values: NDArray[np.float64],
    kinds: NDArray[np.uint8],
) -> None:
    """Numbers whose digits, as a whole number, and whose power of ten float64 holds: one rounding, as by `float`."""
    for row in range(len(starts)):
        at, end = starts[row], ends[row]
        while at < end and (block[at] == 32 or block[at] == 9):
            at += 1
        while end > at and (block[end - 1] == 32 or block[end - 1] == 9):
            end -= 1
        if at == end:
            kinds[row] = EMPTY
            continue
        kinds[row] = OTHER
        negative = block[at] == 45
        if negative or block[at] == 43:
            at += 1
        whole, n_digits, n_seen, power = 0, 0, 0, 0
        point = False
        while at < end:
            byte = block[at]
            if 48 <= byte <= 57:
                n_seen += 1
                n_digits += n_digits > 0 or byte > 48
                if n_digits > MOST_DIGITS:
                    break
                whole = 10 * whole + (byte - 48)
                power -= point
            elif byte == 46 and not point:
                point = True
            else:
                break
            at += 1
        if n_seen == 0 or n_digits > MOST_DIGITS:
            continue
        if at < end and (block[at] == 101 or block[at] == 69):
            at += 1
            below = at < end and block[at] == 45
            if at < end and (below or block[at] == 43):
                at += 1
            shift, first = 0, at
            while at < end and 48 <= block[at] <= 57 and at - first < 4:
                shift = 10 * shift + (block[at] - 48)
                at += 1
            if at == first:
                continue
            power += -shift if below else shift
        if at < end or power > 22 or power < -22:
            continue
        number = np.float64(whole)
        number = number * POWERS[power] if power >= 0 else number / POWERS[-power]
        values[row] = -number if negative else number
        kinds[row] = NUMBER


@njit(nogil=True, cache=True)
def different_texts(
    block: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    table: NDArray[np.int64],
    firsts: NDArray[np.int64],
    places: NDArray[np.int64],
) -> int:
    """The place of each text among different ones, and the rows where these stand first; a table of 2**n rooms."""
    n_different = 0
    mask = np.uint64(len(table) - 1)
    for row in range(len(starts)):
        start, size = starts[row], ends[row] - starts[row]
        mixed = np.uint64(14695981039346656037)
        for at in range(start, start + size):
            mixed = (mixed ^ np.uint64(block[at])) * np.uint64(1099511628211)
        room = np.int64((mixed ^ (mixed >> np.uint64(32))) & mask)
        while True:
            held = table[room]
            if held < 0:
                table[room], firsts[n_different], places[row] = n_different, row, n_different
                n_different += 1
                break
            other = firsts[held]
            if ends[other] - starts[other] == size:
                same = True
                for step in range(size):
                    if block[start + step] != block[starts[other] + step]:
                        same = False
                        break
                if same:
                    places[row] = held
                    break
            room = (room + 1) & np.int64(mask)
    return n_different

"""Compiled code for CSV: one kernel that cuts records into cells, and two that read numbers and different texts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poisonproof.system.compiled import njit

BETWEEN, CELL, PLAIN, QUOTED, LOST = range(5)
"""Where a block begins: between two records; before a cell, in a plain cell or in a quoted cell of a record too long to
be held; or in a line that is lost."""
INSIDE, START, FIRST, LINE, FAILED, SPANNING, SPANNED = range(7)
"""Entries of the state: where the block begins, where the record began, the numbers of its first line and of this one;
where quotes were found faulty, as far ahead as that was seen; how many records span lines, and the first such line."""
FAULTY, CELLS, RETURN, NUL, LONG = range(1, 6)
"""Why a record, or the first line of a faulty one, is left out."""
QUOTE, LINE_FEED, CARRIAGE_RETURN = 34, 10, 13

EMPTY, NUMBER, OTHER = 0, 1, 2
"""What a cell is: blank, a number that was read, or for Python to look at."""
MOST_DIGITS = 15  # so many are a whole number that float64 holds
POWERS = np.array([10.0**power for power in range(23)])  # those that float64 holds


@njit(nogil=True, cache=True)
def cut_records(
    block: NDArray[np.uint8],
    last: bool,
    delimiter: int,
    by_lines: bool,
    width: int,
    longest: int,
    state: NDArray[np.int64],
    out: NDArray[np.uint8],
    edges: NDArray[np.int32],
    firsts: NDArray[np.int64],
    left_out: NDArray[np.int64],
) -> tuple[int, int, int, int]:
    """Cut a block into records by RFC 4180: how many are kept and left out, the bytes dealt with, and those written.

    A record whose quotes are well formed is one record, to its end: it is kept if it has ``width`` cells (any number if
    that is 0) and nothing else is wrong with it, otherwise left out whole. One longer than ``longest`` is
    passed over without being held: its bytes are dealt with block by block, and ``state`` says where it stands.
    Of a record whose quotes are faulty (text behind a closing quote, end of file in quotes) the first line is lost, and
    reading goes on behind it. If that record began in an earlier block, the bytes dealt with are negative: the next
    block must begin so many bytes before this one. Where ``by_lines``, no record goes beyond its line, and in a line
    that is not well formed by itself quotes are characters.

    No byte is read more than twice. Two readings that go on behind the same line feed are both in quotes there, so they
    end alike; once one was found faulty, each later one that crosses a line feed before that place is, at once.

    Cell i of those kept lies unescaped in ``out[edges[i] + 1 : edges[i + 1]]``; ``firsts`` are the first lines of the
    records, and ``left_out`` holds those of the others, with the reason.
    """
    n, at, row, n_left, written = len(block), 0, 0, 0, 0
    inside, start, first, line, failed = state[INSIDE], state[START], state[FIRST], state[LINE], state[FAILED]
    characters = False
    edges[0] = -1
    while True:
        if inside == LOST:
            while at < n and block[at] != LINE_FEED:
                at += 1
            if at == n:
                break
            at, line, inside = at + 1, line + 1, BETWEEN
        if inside == BETWEEN:
            if at >= n or row == len(firsts):
                break
            start, first = at, line
        resumed = inside != BETWEEN
        begun, cells, seen, wrong = written, 0, resumed, 0
        ended = faulty = more = False
        here = at  # where reading goes on if the block ends before the cell does
        while not (ended or faulty or more):
            if inside == QUOTED or (inside <= CELL and not characters and at < n and block[at] == QUOTE):
                at += inside != QUOTED
                inside, seen, closed = QUOTED, True, False
                while at < n:
                    byte = block[at]
                    if byte in (QUOTE, CARRIAGE_RETURN):
                        if at + 1 == n and not last:
                            break  # what follows decides
                        follows = block[at + 1] if at + 1 < n else 0
                        if byte == QUOTE and follows != QUOTE:
                            closed = True
                            break
                        if byte == QUOTE or follows == LINE_FEED:
                            at, byte = at + 1, follows
                    if byte == LINE_FEED:
                        if by_lines or at < failed:
                            faulty = True
                            break
                        line += 1
                    elif byte == 0:
                        wrong = max(wrong, NUL)
                    out[written] = byte
                    written, at = written + 1, at + 1
                here = at
                if not closed:
                    faulty = faulty or last
                    more = not faulty
                    continue
                at += 1
                if at < n and block[at] == CARRIAGE_RETURN and (at + 1 == n or block[at + 1] == LINE_FEED):
                    at += 1
                if at == n:
                    ended, more = last, not last
                else:
                    ended = block[at] == LINE_FEED
                    faulty = not ended and block[at] != delimiter
                if faulty or more:
                    continue
            else:
                while at < n and block[at] != delimiter and block[at] != LINE_FEED:
                    byte = block[at]
                    if byte == CARRIAGE_RETURN:
                        if at + 1 == n or block[at + 1] == LINE_FEED:
                            break
                        wrong = max(wrong, RETURN)
                    elif byte == 0:
                        wrong = max(wrong, NUL)
                    elif byte > 32:
                        seen = True
                    out[written] = byte
                    written, at = written + 1, at + 1
                inside = PLAIN if at > here or inside == PLAIN else CELL
                here = at
                if at < n and block[at] == CARRIAGE_RETURN:
                    at += 1
                if at == n:
                    ended, more = last, not last
                    if more:
                        continue
                else:
                    ended = block[at] == LINE_FEED
            if width == 0 or cells < width:
                edges[row * width + cells + 1] = written
            out[written] = LINE_FEED  # so that no two cells make one character
            written, cells = written + 1, cells + 1
            if not ended:
                at, inside, seen = at + 1, CELL, True
                here = at
        if more:
            written = begun
            if not resumed and at - start <= longest:
                at, line, inside = start, first, BETWEEN
            elif by_lines:
                left_out[n_left, 0], left_out[n_left, 1] = first, LONG
                n_left, at, inside = n_left + 1, here, LOST
            else:
                at, start = here, start - here
            break
        if faulty:
            written = begun
            if by_lines and not characters:
                at, inside, characters = start, BETWEEN, True
                continue
            left_out[n_left, 0], left_out[n_left, 1] = first, FAULTY
            n_left, failed = n_left + 1, max(failed, at)
            at, line, inside = start, first, LOST
            if resumed:
                break
            continue
        inside, characters = BETWEEN, False
        spans = line > first
        if at < n:
            at, line = at + 1, line + 1
        if at - start > longest:
            wrong = LONG
        elif not seen:
            written = begun
            continue
        elif wrong == 0 and width > 0 and cells != width:
            wrong = CELLS
        if spans:
            state[SPANNED] = state[SPANNED] if state[SPANNING] else first
            state[SPANNING] += 1
        if wrong > 0:
            left_out[n_left, 0], left_out[n_left, 1] = first, wrong
            n_left, written = n_left + 1, begun
        else:
            firsts[row] = first
            row += 1
    state[INSIDE], state[START], state[FIRST], state[LINE] = inside, start, first, line
    state[FAILED] = failed - at
    return row, n_left, at, written


@njit(nogil=True, cache=True)
def read_numbers(
    block: NDArray[np.uint8],
    starts: NDArray[np.int32],
    ends: NDArray[np.int32],
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
    starts: NDArray[np.int32],
    ends: NDArray[np.int32],
    table: NDArray[np.int64],
    firsts: NDArray[np.int64],
    places: NDArray[np.int64],
) -> int:
    """The place of each text among different ones, and the rows where these stand first; a table of 2**n slots."""
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

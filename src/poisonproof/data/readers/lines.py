"""Lines of a file, one at a time.

A line ends at a line feed and nowhere else, whatever quotes it holds. So a line that somebody inserted cannot swallow
its neighbours. Lines are bounded in length, and files in what they expand to.
"""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from poisonproof.display.numbers import in_bytes
from poisonproof.errors import PoisonproofError
from poisonproof.system.memory import memory

LONGEST_LINE = 1 << 22
BLOCK = 1 << 18
NUL = "with NUL bytes"
MOST_BYTES = 1 << 32
MOST_EXPANSION = 100
FREE_EXPANSION = 1 << 26
MEMORY_PER_BYTE = 3


def lines(path: Path, most_bytes: int | None, faults: Counter[str]) -> Iterator[tuple[int, bytes]]:
    """Number (from 1) and content of every line that is neither blank nor left out; see `every_line`."""
    for number, content in every_line(path, most_bytes, faults):
        if content is not None and b"\0" in content:
            faults[NUL] += 1
        elif content is not None and content.strip():
            yield number, content


def every_line(path: Path, most_bytes: int | None, faults: Counter[str]) -> Iterator[tuple[int, bytes | None]]:
    """Number (from 1) and content of every line, None where it is too long; see `blocks`."""
    for number, block in blocks(path, most_bytes, faults):
        if block is None:
            yield number, None
        else:
            yield from lines_of(block, number)


def lines_of(block: bytes, first: int) -> Iterator[tuple[int, bytes]]:
    """Number and content of the lines of a block, of which the first has this number."""
    for number, line in enumerate(block.removesuffix(b"\n").split(b"\n"), first):
        yield number, line.removesuffix(b"\r")


def blocks(path: Path, most_bytes: int | None, faults: Counter[str]) -> Iterator[tuple[int, bytes | None]]:
    """Whole lines, many at a time, with the number (from 1) of the first; None in place of a line that is too long.

    ``.gz`` files are expanded on the way.

    Parameters
    ----------
    path : path
    most_bytes : int, optional
        How many bytes may be read, after expansion. Otherwise 4 GB, and a hundred times the size of a compressed
        file.
    faults : Counter
        Counts the lines that are too long.
    """
    size = path.stat().st_size
    compressed = path.suffix == ".gz"
    allowed = most_bytes or MOST_BYTES
    if compressed and most_bytes is None:
        allowed = min(allowed, max(FREE_EXPANSION, MOST_EXPANSION * size))
    if not compressed:
        check_size(path, size, allowed)
        if most_bytes is None:
            check_memory(path, size)
    with gzip.open(path) if compressed else path.open("rb") as file:
        try:
            yield from _blocks(path, cast(BinaryIO, file), allowed, faults)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise PoisonproofError(f"{path} is damaged: it is not a whole gzip file ({error}).") from None


def check_size(path: Path, size: int, allowed: int) -> None:
    """Refuse what is larger than allowed, and say what it would need."""
    if size > allowed:
        raise PoisonproofError(
            f"{path} holds {in_bytes(size)} of data, of which at most {in_bytes(allowed)} are read unless --max-size "
            f"allows more; reading all of it takes about {in_bytes(MEMORY_PER_BYTE * size)} of memory."
        )


def check_memory(path: Path, size: int) -> None:
    """Refuse what would not fit into the memory that is free, and say what it would need."""
    needed, free = MEMORY_PER_BYTE * size, memory().free
    if free is not None and needed > free:
        raise PoisonproofError(
            f"{path} holds {in_bytes(size)} of data, and reading it takes about {in_bytes(needed)} of memory, of "
            f"which {in_bytes(free)} are free; read a part of it, or insist with --max-size {-(-size // 10**8) / 10}."
        )


def decoded(line: bytes, faults: Counter[str]) -> str:
    """The line as text: UTF-8, or Latin-1 if it is not UTF-8; a matter of this line alone."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        faults["not UTF-8"] += 1
        return line.decode("latin-1")


def _blocks(path: Path, file: BinaryIO, allowed: int, faults: Counter[str]) -> Iterator[tuple[int, bytes | None]]:
    number, total = 1, 0
    while block := file.read(BLOCK):
        whole = block.rfind(b"\n") + 1
        begun = block[whole:]  # of a line that the block cuts
        if begun:
            begun += file.readline(LONGEST_LINE - len(begun))
        total += whole + len(begun)
        too_long = False
        while begun and not begun.endswith(b"\n") and total <= allowed and (rest := file.readline(LONGEST_LINE)):
            too_long, begun = True, rest
            total += len(rest)
        if total > allowed:
            raise PoisonproofError(
                f"{path} expands to more than {in_bytes(allowed)}, which is refused unless --max-size allows more."
            )
        lines = block[:whole] if too_long else block[:whole] + begun
        if lines:
            yield number, lines
            number += lines.count(b"\n")
        if too_long:
            faults["too long"] += 1
            yield number, None
            number += 1

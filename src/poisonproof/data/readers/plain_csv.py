"""The beginning of a CSV file that holds nothing odd, many lines at once.

Where a piece of a file has no quote, no NUL byte, no lone carriage return, nothing that is not UTF-8, no blank line and
as many cells in every line as the header, all ways to read it line by line give the same rows: its lines, cut at the
delimiters. At the first piece that is not so the rest of the file is read line by line, as if nothing had been read
before: no quote is open there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

BYTES_AT_ONCE = 1 << 18


class Place(NamedTuple):
    """Where in a file something starts: its byte, and the number of its line (from 1)."""

    byte: int
    line: int


class PlainPiece(NamedTuple):
    """Some lines by column: where they start and how many they are; their columns; where the next line starts."""

    start: Place
    n_rows: int
    columns: list[list[str]]
    after: Place


def first_row(path: Path, longest: int) -> Place | None:
    """Where the line after the header starts, which is the first that is not blank; None if lines are too long."""
    with path.open("rb") as file:
        number = 1
        while line := file.readline(longest):
            if len(line) == longest:
                return None
            number += 1
            if line.strip():
                break
        return Place(file.tell(), number)


def plain_pieces(path: Path, start: Place, delimiter: str, width: int) -> Iterator[PlainPiece]:
    """Pieces from a place on, as long as they are plain."""
    with path.open("rb") as file:
        file.seek(start.byte)
        while piece := file.read(BYTES_AT_ONCE):
            end = len(piece) if len(piece) < BYTES_AT_ONCE else piece.rfind(b"\n") + 1
            columns = _columns(piece[:end], delimiter, width)
            if columns is None:
                return
            n_rows = len(columns[0])
            after = Place(start.byte + end, start.line + n_rows)
            yield PlainPiece(start, n_rows, columns, after)
            start = after
            file.seek(start.byte)


def _columns(piece: bytes, delimiter: str, width: int) -> list[list[str]] | None:
    if not piece or b'"' in piece or b"\0" in piece:
        return None
    piece = piece if piece.endswith(b"\n") else piece.removesuffix(b"\r") + b"\n"
    try:
        text = piece.replace(b"\r\n", b"\n").removesuffix(b"\n").decode()
    except UnicodeDecodeError:
        return None
    lines = text.split("\n")
    if "\r" in text or not all(map(str.strip, lines)):
        return None
    if {line.count(delimiter) for line in lines} != {width - 1}:
        return None
    cells = text.replace("\n", delimiter).split(delimiter)
    return [cells[at::width] for at in range(width)]

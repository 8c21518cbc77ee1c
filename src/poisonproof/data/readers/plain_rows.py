"""Rows of a CSV file that are written plainly, many at once: the same cells as line by line.

A block of whole lines is plain if it holds no quote, no NUL byte and no carriage return but before a line feed, if it
is UTF-8, and if every line has as many cells as the header and something to be seen. Such lines are rows by themselves,
whatever stands around them, and their cells are what lies between delimiters; so they can be cut all at once, and
numbers and texts be read off the bytes. A block that is anything else is read line by line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.data.readers.pieces import PieceColumn, TextCells, Vocabulary
from poisonproof.samples.schema import number_in


@dataclass(frozen=True, eq=False)
class PlainRows:
    """Rows of a plain block: the bytes, and where cells begin; behind the last stands where one more would."""

    block: bytes
    begins: NDArray[np.int64]
    first: int

    @classmethod
    def cut(cls, block: bytes, first: int, delimiter: str, width: int, *, quotes: bool) -> PlainRows | None:
        """The rows of a block of whole lines, the first with this number; None if the block is not plain."""
        if width < 2 or not delimiter.isascii():
            return None
        from poisonproof.data.readers.plain_kernels import cut_lines  # compiled code is loaded where it is needed

        whole = block if block.endswith(b"\n") else block + b"\n"
        begins = np.empty((whole.count(b"\n"), width + 1), np.int64)
        found = cut_lines(np.frombuffer(whole, np.uint8), ord(delimiter), quotes, begins)
        if found < 0:
            return None
        if found > 0:
            try:
                whole.decode()
            except UnicodeDecodeError:
                return None
        return cls(whole, begins, first)

    def __len__(self) -> int:
        return len(self.begins)

    def part(self, start: int, stop: int) -> PlainRows:
        """Some of these rows."""
        return PlainRows(self.block, self.begins[start:stop], self.first + start)

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of their lines."""
        return range(self.first, self.first + len(self))

    def column(self, place: int) -> PieceColumn:
        """The cells of one column."""
        return ByteCells(self.block, self.begins[:, place], self.begins[:, place + 1] - 1)


@dataclass(frozen=True, eq=False)
class ListedRows:
    """Rows that were read line by line."""

    records: Sequence[tuple[int, list[str]]]

    def __len__(self) -> int:
        return len(self.records)

    def part(self, start: int, stop: int) -> ListedRows:
        """Some of these rows."""
        return ListedRows(self.records[start:stop])

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of their first lines."""
        return [number for number, _ in self.records]

    def column(self, place: int) -> PieceColumn:
        """The cells of one column."""
        return TextCells([cells[place] for _, cells in self.records])


class JoinedCells:
    """A column whose cells were read in several ways."""

    def __init__(self, parts: Sequence[PieceColumn]) -> None:
        self.parts = parts

    def numbers(self, missing: frozenset[str], decimal: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Part by part."""
        read = [part.numbers(missing, decimal) for part in self.parts]
        return np.concatenate([values for values, _ in read]), np.concatenate([odd for _, odd in read])

    def codes(self, vocabulary: Vocabulary) -> NDArray[np.int32]:
        """Part by part."""
        return np.concatenate([part.codes(vocabulary) for part in self.parts])

    def holds_numbers(self, rows: int) -> None:
        """Texts have no type."""


class ByteCells:
    """A column of texts that stand in a block of bytes, from and up to these places."""

    def __init__(self, block: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        self.block, self.starts, self.ends = block, np.ascontiguousarray(starts), np.ascontiguousarray(ends)

    @property
    def _bytes(self) -> NDArray[np.uint8]:
        return np.frombuffer(self.block, np.uint8)

    def numbers(self, missing: frozenset[str], decimal: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Decimal numbers of few digits off the bytes, all others as `TextCells` reads them."""
        if decimal != "." or any(number_in(word) is not None for word in missing):
            places, texts = self._different(slice(None))
            read, not_read = TextCells(texts).numbers(missing, decimal)
            return read[places], not_read[places]
        from poisonproof.data.readers.plain_kernels import EMPTY, OTHER, read_numbers

        values, kinds = np.full(len(self.starts), np.nan), np.empty(len(self.starts), np.uint8)
        read_numbers(self._bytes, self.starts, self.ends, values, kinds)
        odd = (kinds == EMPTY) if "" not in missing else np.zeros(len(kinds), np.bool_)
        rest = np.flatnonzero(kinds == OTHER)
        if len(rest):
            places, texts = self._different(rest)
            read, not_read = TextCells(texts).numbers(missing, decimal)
            values[rest], odd[rest] = read[places], not_read[places]
        return values + 0.0, odd

    def codes(self, vocabulary: Vocabulary) -> NDArray[np.int32]:
        """Each different text once, in the order in which they come."""
        places, texts = self._different(slice(None))
        return TextCells(texts).codes(vocabulary)[places]

    def _different(self, rows: Any) -> tuple[NDArray[np.int64], list[str]]:
        """The place of each of these cells among different texts."""
        from poisonproof.data.readers.plain_kernels import different_texts

        starts, ends = np.ascontiguousarray(self.starts[rows]), np.ascontiguousarray(self.ends[rows])
        places, firsts = np.empty(len(starts), np.int64), np.empty(len(starts), np.int64)
        rooms = np.full(1 << max(4, (2 * len(starts)).bit_length()), -1)
        n_different = different_texts(self._bytes, starts, ends, rooms, firsts, places)
        cells = zip(starts[firsts[:n_different]].tolist(), ends[firsts[:n_different]].tolist(), strict=True)
        return places, [self.block[start:end].decode() for start, end in cells]

    def holds_numbers(self, rows: int) -> None:
        """Texts have no type."""

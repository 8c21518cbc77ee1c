"""Some rows of a table at a time, by column: the same cells as row by row, read many at once.

What a cell means is still a function of that cell and the schema. A column of a piece says what its cells are as
numbers and as texts; `read_table` puts pieces together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from poisonproof.samples.schema import number_in

ROWS_PER_PIECE = 1 << 13
ABSENT = -1


class Vocabulary(dict[str, int]):
    """Texts as they stand in a file → codes of the different ones, blanks around them aside; -1 if missing."""

    def __init__(self, missing: frozenset[str]) -> None:
        super().__init__()
        self.missing = missing
        self.cells: dict[str, int] = {}

    def __missing__(self, text: str) -> int:
        cell = text.strip()
        code = ABSENT if cell in self.missing else self.cells.setdefault(cell, len(self.cells))
        self[text] = code
        return code


class PieceColumn(Protocol):
    """The cells of one column of a piece."""

    def numbers(self, missing: frozenset[str], decimal: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Numbers, NaN where a cell is none; and which of these are not missing but something else."""

    def codes(self, vocabulary: Vocabulary) -> NDArray[np.int32]:
        """Codes of the texts that the cells are."""

    def holds_numbers(self, rows: int) -> bool | None:
        """Whether there are numbers among so many cells, of a type that holds nothing else; None of another type."""


class Piece(NamedTuple):
    """Numbers of some rows, and their columns by name."""

    rows: Sequence[int]
    columns: dict[str, PieceColumn]


class TextCells:
    """A column of texts."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts

    def numbers(self, missing: frozenset[str], decimal: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """All of them by one rule if they are written plainly, else each by itself."""
        texts = list(map(str.strip, self.texts))
        gaps = np.fromiter((text in missing for text in texts), np.bool_, len(texts))
        values = self._plain(texts, gaps, decimal)
        if values is None:
            read = (None if gap else number_in(text, decimal) for text, gap in zip(texts, gaps.tolist(), strict=True))
            values = np.fromiter((np.nan if number is None else number for number in read), np.float64, len(texts))
        return values + 0.0, np.isnan(values) & ~gaps

    @staticmethod
    def _plain(texts: list[str], gaps: NDArray[np.bool_], decimal: str) -> NDArray[np.float64] | None:
        written = ["nan" if gap else text for text, gap in zip(texts, gaps.tolist(), strict=True)]
        whole = "".join(written)
        if decimal != "." or not whole.isascii() or "_" in whole:
            return None
        try:
            values = np.fromiter(map(float, written), np.float64, len(written))
        except ValueError:
            return None
        values[np.isinf(values)] = np.nan
        return values

    def holds_numbers(self, rows: int) -> None:
        """Texts have no type."""

    def codes(self, vocabulary: Vocabulary) -> NDArray[np.int32]:
        """Codes of the texts."""
        return np.fromiter(map(vocabulary.__getitem__, self.texts), np.int32, len(self.texts))


def pieces_of(table: Any, faults: Counter[str], wanted: Sequence[str], rows: int = ROWS_PER_PIECE) -> Iterator[Piece]:
    """The good rows of a table in pieces, of these columns; by the table's own types where it has some."""
    if hasattr(table, "pieces"):
        yield from table.pieces(faults, wanted)
        return
    if hasattr(table, "in_pieces"):
        yield from table.in_pieces(faults, wanted, rows)
        return
    at = {name: place for place, name in enumerate(table.header)}
    records = table.records(faults)
    while block := list(islice(records, rows)):
        columns = list(zip(*(cells for _, cells in block), strict=True))
        yield Piece([number for number, _ in block], {name: TextCells(columns[at[name]]) for name in wanted})

"""Some rows of a table at a time, by column, which says what each of its cells is as a number and as a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

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

    def codes(self, texts: Sequence[str]) -> NDArray[np.int32]:
        """Codes of these texts, in their order."""
        return np.fromiter(map(self.__getitem__, texts), np.int32, len(texts))


class PieceColumn(Protocol):
    """The cells of one column of a piece."""

    def numbers(self, missing: frozenset[str], decimal: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Numbers, NaN where a cell is none; and which of these are not missing but something else."""

    def codes(self, vocabulary: Vocabulary) -> NDArray[np.int32]:
        """Codes of the texts that the cells are."""

    def holds_numbers(self, rows: int) -> bool | None:
        """Whether there are numbers among so many cells, of a type that holds nothing else; None of another type."""


class Piece(NamedTuple):
    """What some rows are called (their lines, or their numbers), and their columns, `PieceColumn`, by name.

    Columns of files also have a ``part`` from and up to a row, and the texts of all cells as they are ``written``.
    """

    rows: Sequence[int] | NDArray[np.int64]
    columns: Mapping[str, Any]

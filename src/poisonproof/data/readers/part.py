"""What was read from one file or folder."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.samples.cells import exact_cell

KEPT = {"not UTF-8": "are not UTF-8 and were read as Latin-1, each by itself (mixed encodings)"}


@dataclass(frozen=True)
class Part:
    """Samples in the order of the file, with their labels and contributors where there are any.

    Attributes
    ----------
    X : samples
    labels, groups : arrays of texts, or None
    names : list
        What each sample is called in its file: a line, a row or a picture.
    notes : tuple of str
        What a reader should know: how many rows were left out, and why.
    """

    X: Any
    labels: NDArray[np.object_] | None
    groups: NDArray[np.object_] | None
    names: Sequence[int | str]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)


def texts(values: Sequence[str]) -> NDArray[np.object_]:
    """An array of texts that one long text does not widen."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def text_of(value: Any, where: str) -> str:
    """A value as a cell of CSV would hold it: whole numbers without a point, others in full, missing as nothing.

    Different numbers have different texts: nothing is rounded to what float64 holds.
    """
    if isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64):
        return str(int(value))
    cell = exact_cell(value, where)
    if cell is None:
        return ""
    if isinstance(cell, float):
        if isinstance(value, Decimal) and Decimal(repr(cell)) != value:
            return format(value.normalize(), "f")
        return str(int(cell)) if cell.is_integer() and abs(cell) < 2**53 else repr(cell)
    return str(cell)


def notes_of(path: Path, faults: Counter[str], unit: str = "rows") -> tuple[str, ...]:
    """One sentence for each kind of fault."""
    return tuple(
        f"{path.name}: {count} {unit} {KEPT.get(fault, f'{fault} were left out')}"
        for fault, count in faults.items()
        if count
    )


def nearest(name: str, names: Sequence[str]) -> str:
    """What a name was probably meant to be, in words."""
    close = difflib.get_close_matches(name, names, 1, 0.5)
    return f"did you mean '{close[0]}'?" if close else f"there are {', '.join(names[:12])}{', …' * (len(names) > 12)}."

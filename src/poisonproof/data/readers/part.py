"""What was read from one file or folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.samples.kinds import Samples

NOT_UTF_8 = "not UTF-8"
KEPT = {
    NOT_UTF_8: "are not UTF-8 and were read as Latin-1, each by itself (mixed encodings)",
}


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
    samples : Samples or None
        The same in canonical form, if somebody asked for it already.
    spanning : (int, int) or None
        Of CSV in records: how many span lines, and the first line of the first.
    """

    X: Any
    labels: NDArray[np.object_] | None
    groups: NDArray[np.object_] | None
    names: Sequence[int | str]
    notes: tuple[str, ...] = ()
    samples: Samples | None = None
    spanning: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self.names)


class LeftOut(Counter[str]):
    """How many rows were left out, or read with a remark, by reason, and what the first of each is called.

    ``each`` lists every row that was left out, with its reason, for who gives such rows an answer of their own.
    """

    def __init__(self, *, listed: bool = False) -> None:
        super().__init__()
        self.first: dict[str, int | str] = {}
        self.each: list[tuple[int | str, str]] | None = [] if listed else None

    def add(self, reason: str, name: int | str, count: int = 1) -> None:
        """Count rows of which the first has this name."""
        self[reason] += count
        self.named(reason, name)

    def named(self, reason: str, name: int | str) -> None:
        """Name a row that is counted elsewhere."""
        self.first.setdefault(reason, name)
        if self.each is not None and reason not in KEPT:
            self.each.append((name, reason))

    def join(self, others: Counter[str]) -> None:
        """Count what was counted of later rows."""
        self.update(others)
        for reason, name in getattr(others, "first", {}).items():
            self.first.setdefault(reason, name)


def texts(values: Sequence[str]) -> NDArray[np.object_]:
    """An array of texts that one long text does not widen."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def notes_of(path: Path, faults: Counter[str], unit: str = "rows") -> tuple[str, ...]:
    """One sentence for each kind of fault, with the first row of the kind where that is known."""
    first: dict[str, int | str] = getattr(faults, "first", {})
    place = "line" if path.suffix in (".csv", ".tsv", ".gz", ".svm", ".svmlight", ".libsvm") else "row"
    return tuple(
        f"{path.name}: {count} {unit} {KEPT.get(fault, f'{fault} were left out')}"
        + (f"; the first is {place} {first[fault]}" if fault in first else "")
        for fault, count in faults.items()
        if count
    )

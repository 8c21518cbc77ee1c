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

KEPT = {
    "not UTF-8": "are not UTF-8 and were read as Latin-1, each by itself (mixed encodings)",
    "with whole lines inside their quotes": "would hold, between their quotes, lines that are rows by themselves and "
    "were read as such; --multiline goes by the quotes, if a program wrote the file and closes every one",
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
    """

    X: Any
    labels: NDArray[np.object_] | None
    groups: NDArray[np.object_] | None
    names: Sequence[int | str]
    notes: tuple[str, ...] = ()
    samples: Samples | None = None

    def __len__(self) -> int:
        return len(self.names)


def texts(values: Sequence[str]) -> NDArray[np.object_]:
    """An array of texts that one long text does not widen."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def notes_of(path: Path, faults: Counter[str], unit: str = "rows") -> tuple[str, ...]:
    """One sentence for each kind of fault."""
    return tuple(
        f"{path.name}: {count} {unit} {KEPT.get(fault, f'{fault} were left out')}"
        for fault, count in faults.items()
        if count
    )

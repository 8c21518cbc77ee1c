"""Training and test samples, and how to hold samples out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bezoar.cells import cell_codes
from bezoar.files import sha256_of_array
from bezoar.labels import label_cells
from bezoar.rows import count_rows, take_rows
from bezoar.samples import to_samples

HOLD_OUT_SEED = 0x686F6C64


@dataclass(frozen=True)
class Dataset:
    """Training and test samples with their labels, the labels that may occur, and the declared dtype."""

    name: str
    x_train: Any
    y_train: NDArray[Any]
    x_test: Any
    y_test: NDArray[Any]
    classes: NDArray[Any]
    dtype: str = "float64"

    def digests(self) -> dict[str, str]:
        """SHA-256 of the samples' content hashes and of the labels, in the order given."""
        samples = {name: to_samples(getattr(self, name), dtype=self.dtype) for name in ("x_train", "x_test")}
        hashes = {name: part.content_hashes for name, part in samples.items()}
        labels = {name: cell_codes(label_cells(getattr(self, name))) for name in ("y_train", "y_test")}
        return {name: sha256_of_array(array) for name, array in (hashes | labels).items()}

    def without(self, rows: Any) -> Dataset:
        """The same data set with some training rows removed."""
        n = count_rows(self.x_train)
        gone = np.unique(np.asarray(rows, np.int64))
        if len(gone) and (gone[0] < 0 or gone[-1] >= n):
            raise ValueError(f"Rows to remove must be rows of the training data, 0 … {n - 1}. Got {rows!r}.")
        stay = np.setdiff1d(np.arange(n), gone)
        return replace(self, x_train=take_rows(self.x_train, stay), y_train=self.y_train[stay])


def held_out(X: Any, share: float) -> NDArray[np.bool_]:
    """Which samples are kept for testing: each by a salted hash of its own content.

    An index-based choice would reshuffle everything when one sample is added; this one moves nothing.
    """
    hashes = to_samples(X).hashes(HOLD_OUT_SEED)
    return hashes < np.uint64(int(share * 2**64))

"""Where samples come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bezoar.cells import cell_codes
from bezoar.files import sha256_of_array
from bezoar.labels import label_cells
from bezoar.samples import to_samples

HOLD_OUT_SEED = 0x686F6C64
EMBEDDED = ("digits",)


@dataclass(frozen=True)
class Dataset:
    """Training and test samples with their labels, and the labels that may occur."""

    name: str
    x_train: Any
    y_train: NDArray[Any]
    x_test: Any
    y_test: NDArray[Any]
    classes: NDArray[Any]

    def digests(self) -> dict[str, str]:
        """SHA-256 of the samples' content hashes and of the labels, in the order given."""
        hashes = {name: to_samples(getattr(self, name)).content_hashes for name in ("x_train", "x_test")}
        labels = {name: cell_codes(label_cells(getattr(self, name))) for name in ("y_train", "y_test")}
        return {name: sha256_of_array(array) for name, array in (hashes | labels).items()}


def load(name: str) -> Dataset:
    """An embedded data set by name."""
    if name not in EMBEDDED:
        raise ValueError(f"There is no data set '{name}'; there is {', '.join(EMBEDDED)}.")
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    test = held_out(X, share=0.2)
    return Dataset(name, X[~test], y[~test], X[test], y[test], np.arange(10))


def held_out(X: Any, share: float) -> NDArray[np.bool_]:
    """Which samples are kept for testing: each by a salted hash of its own content.

    An index-based choice would reshuffle everything when one sample is added; this one moves nothing.
    """
    hashes = to_samples(X).hashes(HOLD_OUT_SEED)
    return hashes < np.uint64(int(share * 2**64))

"""Training and test samples, and how to hold samples out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.split import Split
from poisonproof.errors import PoisonproofError
from poisonproof.premises import Premise
from poisonproof.samples.cells import cell_codes
from poisonproof.samples.convert import count_rows, take_rows, to_samples
from poisonproof.samples.hashing import hash_numbers
from poisonproof.samples.kinds import Samples
from poisonproof.samples.labels import label_cells, label_digests, one_by_one
from poisonproof.samples.schema import Schema
from poisonproof.system.files import sha256_of_array

HOLD_OUT_SEED = 0x686F6C64


@dataclass(frozen=True)
class Dataset:
    """Training and test samples with their labels, and what was decided about all of them at once.

    Attributes
    ----------
    name : str
    x_train, y_train, x_test, y_test : samples and labels
    classes : array or None
        The labels that may occur; None if they are to be read off the training data, which is a premise.
    dtype : "float64" or "uint8"
        The declared form of dense numbers.
    groups : array or None
        The contributor of each training sample.
    schema : Schema or None
        How the files were read, if they were a user's own.
    n_features : int or None
        The width of sparse rows, which no row can change.
    premises : tuple of Premise
        What reading took as given; they stand in place of the model's own of the same name.
    notes : tuple of str
        What was left out of the files, and why.
    """

    name: str
    x_train: Any
    y_train: NDArray[Any]
    x_test: Any
    y_test: NDArray[Any]
    classes: NDArray[Any] | None
    dtype: str = "float64"
    groups: NDArray[Any] | None = None
    schema: Schema | None = None
    n_features: int | None = None
    premises: tuple[Premise, ...] = ()
    notes: tuple[str, ...] = ()

    @cached_property
    def train(self) -> Samples:
        """The training samples in canonical form, made once."""
        return to_samples(self.x_train, dtype=self.dtype, n_features=self.n_features)

    @cached_property
    def test(self) -> Samples:
        """The test samples in canonical form, made once."""
        return to_samples(self.x_test, dtype=self.dtype, n_features=self.n_features)

    def samples_for(self, part: str, split: Split) -> Samples:
        """A part, "train" or "test", as a split reads it: in the canonical form that is there, if that is the same."""
        if split.schema is None and (split.dtype, split.n_features) == (self.dtype, self.n_features):
            samples: Samples = getattr(self, part)
            return samples
        return split.samples(getattr(self, f"x_{part}"))

    def knowing(self, train: Samples | None, test: Samples | None) -> Dataset:
        """The same, with the canonical form of parts that somebody made already."""
        for part, samples in (("train", train), ("test", test)):
            if samples is not None and self.n_features in (None, samples.n_features):
                vars(self)[part] = samples
        return self

    def but(self, **changes: Any) -> Dataset:
        """The same data set but for these entries; what stays in canonical form is not made again."""
        other = replace(self, **changes)
        for part in ("train", "test"):
            if part in vars(self) and not {f"x_{part}", "dtype", "n_features"} & set(changes):
                vars(other)[part] = vars(self)[part]
        return other

    def digests(self, parts: Sequence[str] = ("train", "test")) -> dict[str, str]:
        """SHA-256 over those of the samples' content, of the labels and of the contributors, in the order given."""
        samples = {f"x_{part}": getattr(self, part).content_digests for part in parts}
        labels = {f"y_{part}": label_digests(getattr(self, f"y_{part}")) for part in parts}
        groups = {} if self.groups is None else {"groups": label_digests(self.groups)}
        return {name: sha256_of_array(array) for name, array in (samples | labels | groups).items()}

    def without(self, rows: Any) -> Dataset:
        """The same data set with some training rows removed."""
        n = count_rows(self.x_train)
        gone = np.unique(np.asarray(rows, np.int64))
        if len(gone) and (gone[0] < 0 or gone[-1] >= n):
            raise PoisonproofError(f"Rows to remove must be rows of the training data, 0 … {n - 1}. Got {rows!r}.")
        stay = np.setdiff1d(np.arange(n), gone)
        return self.but(
            x_train=take_rows(self.x_train, stay),
            y_train=self.y_train[stay],
            groups=None if self.groups is None else self.groups[stay],
        )


def held_out(X: Any, share: float, *, groups: Any = None, dtype: str = "float64") -> NDArray[np.bool_]:
    """Which samples are kept for testing: each by a salted hash of its own content, or of its contributor.

    An index-based choice would reshuffle everything when one sample is added; this one moves nothing.
    """
    if not 0 < share < 1:
        raise PoisonproofError(f"The share of samples to hold out must lie between 0 and 1. Got {share}.")
    if groups is None:
        hashes = to_samples(X, dtype=dtype).hashes(HOLD_OUT_SEED)
    else:
        hashes = hash_numbers(cell_codes(label_cells(one_by_one(groups)))[:, None], HOLD_OUT_SEED)
    return hashes < np.uint64(int(share * 2**64))

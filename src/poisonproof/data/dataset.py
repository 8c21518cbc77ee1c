"""Training and test samples with their labels, and how to hold samples out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.premises import Premise
from poisonproof.samples.cells import cell_codes
from poisonproof.samples.convert import to_samples
from poisonproof.samples.hashing import hash_numbers
from poisonproof.samples.kinds import NumberSamples, Samples, SparseSamples
from poisonproof.samples.labels import class_array, label_cells, label_digests, one_by_one
from poisonproof.samples.schema import Schema, TableSchema
from poisonproof.system.files import sha256_of_array

HOLD_OUT_SEED = 0x686F6C64


@dataclass(frozen=True, eq=False)
class LabelledSamples:
    """Samples in the order of their file, with what belongs to each of them.

    Attributes
    ----------
    samples : Samples
        In canonical form.
    labels : array or None
        As they were given; None of samples to be answered.
    groups : array or None
        The contributor of each.
    names : sequence of int or str
        What each is called in its file: a line, a row or a picture.
    """

    samples: Samples
    labels: Any = None
    groups: Any = None
    names: Sequence[int | str] = ()

    def __len__(self) -> int:
        return len(self.samples)

    @cached_property
    def X(self) -> Any:  # noqa: N802
        """The samples as a learner is fed them: an array, a sparse matrix, texts or a DataFrame."""
        return self.samples.take(np.arange(len(self)))

    def take(self, rows: NDArray[np.int64]) -> LabelledSamples:
        """These rows, in this order."""
        labels, groups = (None if part is None else part[rows] for part in (self.labels, self.groups))
        names = np.asarray(self.names, object)[rows].tolist() if len(self.names) else ()
        return LabelledSamples(self.samples.subset(rows), labels, groups, names)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test samples with their labels, and what was decided about all of them at once.

    Attributes
    ----------
    name : str
    train, test : LabelledSamples
    classes : array or None
        The labels that may occur; None if they are to be read off the training data, which is a premise.
    schema : Schema or None
        How the files were read, if they were a user's own.
    premises : tuple of Premise
        What reading took as given; they stand in place of the model's own of the same name.
    notes : tuple of str
        What was left out of the files, and why.
    """

    name: str
    train: LabelledSamples
    test: LabelledSamples
    classes: Any = None
    schema: Schema | None = None
    premises: tuple[Premise, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        name: str,
        X: Any,
        y: Any,
        X_test: Any,
        y_test: Any,
        classes: Any = None,
        *,
        groups: Any = None,
        dtype: str = "float64",
        n_features: int | None = None,
        schema: Schema | None = None,
    ) -> Self:
        """The data set of whatever scikit-learn takes; ``dtype``, ``n_features`` and a table's ``schema`` say how."""
        from poisonproof.samples.convert import read_by_schema

        def read(given: Any) -> Samples:
            if isinstance(schema, TableSchema) and not isinstance(given, Samples):
                return read_by_schema(given, schema)
            return to_samples(given, dtype=dtype, n_features=n_features)

        def listed(given: Any) -> Any:
            return given if given is None or isinstance(given, np.ndarray) else class_array(one_by_one(given))

        train = LabelledSamples(read(X), listed(y), listed(groups))
        return cls(name, train, LabelledSamples(read(X_test), listed(y_test)), classes, schema)

    @property
    def dtype(self) -> str:
        """The declared form of dense numbers."""
        samples = self.train.samples
        return str(samples.values.dtype) if isinstance(samples, NumberSamples) else "float64"

    @property
    def n_features(self) -> int | None:
        """The width of sparse rows, which no row can change; of other samples None, for each shows its own."""
        samples = self.train.samples
        return samples.n_features if isinstance(samples, SparseSamples) else None

    def digests(self, parts: Sequence[str] = ("train", "test")) -> dict[str, str]:
        """SHA-256 over those of the samples' content, of the labels and of the contributors, in the order given."""
        given: dict[str, LabelledSamples] = {part: getattr(self, part) for part in parts}
        samples = {f"x_{part}": one.samples.content_digests for part, one in given.items()}
        labels = {f"y_{part}": label_digests(one.labels) for part, one in given.items()}
        groups = {} if self.train.groups is None else {"groups": label_digests(self.train.groups)}
        return {name: sha256_of_array(array) for name, array in (samples | labels | groups).items()}

    def without(self, rows: Any) -> Dataset:
        """The same data set with some training rows removed."""
        n = len(self.train)
        gone = np.unique(np.asarray(rows, np.int64))
        if len(gone) and (gone[0] < 0 or gone[-1] >= n):
            raise PoisonproofError(
                f"Rows to remove must be rows of the training data, 0 … {n - 1}. Got {rows!r}.", code="data.unknown-row"
            )
        return replace(self, train=self.train.take(np.setdiff1d(np.arange(n), gone)))


def held_out(X: Any, share: float, *, groups: Any = None, dtype: str = "float64") -> NDArray[np.bool_]:
    """Which samples are kept for testing: each by a salted hash of its own content, or of its contributor.

    An index-based choice would reshuffle everything when one sample is added; this one moves nothing.
    """
    if not 0 < share < 1:
        raise PoisonproofError(
            f"The share of samples to hold out must lie between 0 and 1. Got {share}.", code="data.held-out"
        )
    if groups is None:
        hashes = to_samples(X, dtype=dtype).hashes(HOLD_OUT_SEED)
    else:
        hashes = hash_numbers(cell_codes(label_cells(one_by_one(groups)))[:, None], HOLD_OUT_SEED)
    return hashes < np.uint64(int(share * 2**64))

"""Shares of the test set that a constant answer cannot flatter.

A model that always says the most frequent class is right as often as that class occurs, and no poison changes it. So
beside every certified fraction stand the share of the most frequent class and the balanced figure, the mean over
classes: a constant answer has 1 / (number of classes) of it, whatever the attack size.

A class here is a label that occurs among the test labels, whether or not the training data has shown it: how many
there are depends on the test labels alone, so no training sample can change what is averaged over.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poisonproof.display import percent, shown
from poisonproof.errors import PoisonproofError
from poisonproof.premises import PremiseWarning
from poisonproof.samples.labels import label_cells, one_by_one, places_of

UNSEEN_LABEL = -1  # as `places_of` says it
NEARLY = 10  # "nearly one answer": fewer than one in this many get another, of all samples and of other classes'


@dataclass(frozen=True, eq=False)
class ClassShare:
    """One class of the test set: how many samples it has, and the certified fraction (pointwise) among them."""

    label: Any
    n_test: int
    clean_accuracy: float
    certified_fraction: NDArray[np.float64]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return {
            "label": plain(self.label),
            "test_samples": self.n_test,
            "clean_accuracy": self.clean_accuracy,
            "certified_fraction": self.certified_fraction.tolist(),
        }


@dataclass(frozen=True)
class Caution:
    """Why good figures say little here: a constant answer would do as well, or is what the model gives.

    ``kind`` is "one answer" (every prediction is the same), "nearly one answer", "no better" (the most frequent class
    is right as often) or "one label" (all test samples are of one class, so no model can show anything on them).
    """

    kind: Literal["one answer", "nearly one answer", "no better", "one label"]
    headline: str
    sentence: str


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a certificate says about a test set, given its labels: whole counts, taken once.

    Attributes
    ----------
    prediction, radius : array (n_test,)
    truth : array (n_test,)
        The code of every label: its class, or, of labels that the training data has not shown, codes behind those.
    right : array (n_test,) of bool
        Whether each prediction is the given label; no prediction is a label that the classes lack. An
        abstention is not right.
    labels : list
        The label of each code.
    """

    prediction: NDArray[np.int64]
    radius: NDArray[np.int64]
    truth: NDArray[np.int64]
    right: NDArray[np.bool_]
    labels: list[Any] = field(repr=False)

    def __len__(self) -> int:
        return len(self.radius)

    @cached_property
    def _classes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The codes that occur among the test labels, in increasing order, and how often each does."""
        if not len(self.truth):
            raise PoisonproofError(
                "There are no test samples, so no class has a share of them; give labels of some.",
                code="certificate.no-test",
            )
        return np.unique(self.truth, return_counts=True)

    def _held(self, attack_sizes: int | Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
        """How many of each class are right with each radius: an array (classes that occur, \\*shape of the sizes)."""
        right = (self.radius[self.right & (self.truth == code)] for code in self._classes[0])
        return np.stack([number_that_withstand(radii, attack_sizes) for radii in right])

    @property
    def clean_accuracy(self) -> float:
        """Share of test samples that are right."""
        return float(self.right.mean())

    def certified_fraction(self, attack_sizes: int | Sequence[int] | NDArray[Any]) -> NDArray[np.float64]:
        """Share of test samples that are right *and* have radius ≥ each attack size (pointwise)."""
        return number_that_withstand(self.radius[self.right], attack_sizes) / len(self)

    @property
    def majority_share(self) -> float:
        """Share of the most frequent test label: what always answering it would get, at every attack size."""
        return float(self.constant_share())

    @property
    def balanced_accuracy(self) -> float:
        """Clean accuracy as the mean over the classes of the test labels; a constant answer has 1 / their number."""
        return float(self.certified_fraction_balanced(0))

    def certified_fraction_balanced(self, attack_sizes: int | Sequence[int] | NDArray[Any]) -> NDArray[np.float64]:
        """The certified fraction (pointwise) as the mean over the classes of the test labels, however rare.

        A label that the training data has not shown is a class of its own here, with nothing right.
        """
        return np.asarray((self._held(attack_sizes).T / self._classes[1]).T.mean(axis=0))

    def exact_fraction(self, attack_size: int, *, balanced: bool = False) -> Fraction:
        """The certified fraction (pointwise) at one attack size, or its mean over classes, not rounded."""
        held, counts = self._held(attack_size).tolist(), self._classes[1].tolist()
        if not balanced:
            return Fraction(sum(held), len(self))
        return sum(map(Fraction, held, counts), Fraction(0)) / len(counts)

    def constant_share(self, *, balanced: bool = False) -> Fraction:
        """What always answering the most frequent class has of the same, whatever the attack size; not rounded."""
        counts = self._classes[1].tolist()
        return Fraction(1, len(counts)) if balanced else Fraction(max(counts), len(self))

    def half(self, radius: NDArray[np.int64] | None = None) -> int | None:
        """The largest radius that half of the test samples have and are right; None if fewer are right."""
        held = np.sort((self.radius if radius is None else radius)[self.right])[::-1]
        needed = (len(self) + 1) // 2
        return int(held[needed - 1]) if len(held) >= needed else None

    @property
    def headline_size(self) -> int:
        """The largest attack size at which half is right and certified, of the test set and on average over classes.

        0 if there is none: a frequent class alone makes no headline.
        """
        low, high = 0, int(self.radius.max(initial=0))
        while low < high:
            size = (low + high + 1) // 2
            enough = min(self.exact_fraction(size), self.exact_fraction(size, balanced=True)) * 2 >= 1
            low, high = (size, high) if enough else (low, size - 1)
        return low

    def by_class(self, attack_sizes: int | Sequence[int] | NDArray[Any]) -> tuple[ClassShare, ...]:
        """For each class of the test labels: its size, its clean accuracy and its certified fraction (pointwise)."""
        columns = (*self._classes, self._held(0), self._held(attack_sizes))
        return tuple(
            ClassShare(self.labels[code], int(count), float(right / count), certified / count)
            for code, count, right, certified in zip(*columns, strict=True)
        )

    @cached_property
    def caution(self) -> Caution | None:
        """What must be said before any figure: that a constant answer would do as well, or is what is given.

        None where the model tells classes apart.
        """
        names = [str(label) for label in self.labels]
        codes, counts = self._classes
        n, n_right, most = len(self), int(self.right.sum()), int(counts.max())
        frequent = shown(names[int(codes[counts.argmax()])])
        if len(codes) == 1:
            return Caution(
                "one label",
                f"{f'All {n:,} test samples are' if n > 1 else 'The one test sample is'} “{frequent}”: nothing here "
                "shows whether this model tells classes apart.",
                f"all test samples are '{frequent}', so a model that always answers '{frequent}' is as good here; test "
                "on samples of every class.",
            )
        answered, answers = np.unique(self.prediction, return_counts=True)
        usual = int(answered[answers.argmax()])
        answer, others = shown(names[usual]), self.truth != usual
        balanced = float(np.mean([self.right[self.truth == code].mean() for code in codes]))
        figures = (
            f"clean accuracy {percent(n_right / n)} %, share of '{frequent}' {percent(most / n)} %; balanced accuracy "
            f"{percent(balanced)} %, of a constant answer {percent(1 / len(codes))} %"
        )
        if len(answered) == 1:
            return Caution(
                "one answer",
                f"Every prediction is “{answer}”. A constant answer is perfectly robust, and says nothing.",
                f"the model answers '{answer}' to every test sample, so its radii prove nothing of use ({figures})",
            )
        different = int((self.prediction[others] != usual).sum())
        if NEARLY * different < int(others.sum()) and NEARLY * (n - int(answers.max())) < n:
            return Caution(
                "nearly one answer",
                f"Nearly every prediction is “{answer}”: only {different:,} of the {int(others.sum()):,} test samples "
                "of other classes get another answer.",
                f"the model answers '{answer}' to nearly every test sample, so its radii prove little of use "
                f"({figures})",
            )
        if n_right <= most:
            as_often = "as often" if n_right == most else "more often"
            return Caution(
                "no better",
                f"Always answering “{frequent}” would be right {as_often}: {most:,} of {n:,} test samples, against "
                f"{n_right:,}.",
                f"always answering '{frequent}' would be right {as_often} ({figures})",
            )
        return None


def checked_sizes(attack_sizes: int | Sequence[int] | NDArray[Any]) -> NDArray[Any]:
    """Attack sizes as an array, or one sentence."""
    sizes = np.asarray(attack_sizes)
    if not np.issubdtype(sizes.dtype, np.integer) or (sizes < 0).any():
        raise PoisonproofError(
            f"Attack sizes must be whole numbers ≥ 0. Got {attack_sizes!r} instead.", code="certificate.attack-size"
        )
    return sizes


def number_that_withstand(
    radii: NDArray[np.int64], attack_sizes: int | Sequence[int] | NDArray[Any]
) -> NDArray[np.int64]:
    """For each attack size, how many of these radii reach it."""
    return np.asarray(len(radii) - np.searchsorted(np.sort(radii), checked_sizes(attack_sizes)))


def class_indices(y: ArrayLike, classes: NDArray[Any], *, inferred: bool = False) -> NDArray[np.int64]:
    """Class index of each label.

    A label that is none of the classes gets `UNSEEN_LABEL`, which no prediction equals. Where classes were read off
    the training data, one training sample more could make it a class, so to leave such test samples out would let that
    sample change every share of the test set; where they were declared, a row that came to be held out would stop
    whoever asks, so that is a warning.
    """
    if (isinstance(y, np.ndarray) and y.ndim != 1) or (isinstance(y, list) and y and isinstance(y[0], list)):
        raise PoisonproofError(
            f"Labels must be a list of one label per test sample. Got an array of shape {np.shape(y)}.",
            code="labels.count",
        )
    labels = one_by_one(y)
    indices = places_of(label_cells(labels), label_cells(classes.tolist()))
    unknown = np.flatnonzero(indices == UNSEEN_LABEL)
    if len(unknown) and len(unknown) == len(labels):
        raise PoisonproofError(
            f"None of the {len(labels)} labels is one of the {len(classes)} classes (a label is {labels[0]!r}, a class "
            f"is {classes.tolist()[0]!r}); give them as they stand in the training data.",
            code="labels.unknown",
        )
    if len(unknown) and not inferred:
        first = f"{labels[unknown[0]]!r:.60}"
        told = f"{len(unknown)} labels are none of the {len(classes)} classes and count as wrong; the first is {first}."
        warnings.warn(shown(told), PremiseWarning, stacklevel=2)
    return indices


def codes_and_labels(y: ArrayLike, classes: NDArray[Any], *, inferred: bool) -> tuple[NDArray[np.int64], list[Any]]:
    """Class index of each label, and the label of each code; what is no class gets codes of its own behind them.

    So equal labels have equal codes and others have others, whatever the training data has shown.
    """
    codes, labels = class_indices(y, classes, inferred=inferred), classes.tolist()
    unseen = np.flatnonzero(codes == UNSEEN_LABEL).tolist()
    if unseen:
        every = one_by_one(y)
        given = [every[row] for row in unseen]
        behind: dict[Any, int] = {}
        for row, label, cell in zip(unseen, given, label_cells(given), strict=True):
            if cell not in behind:
                behind[cell] = len(labels)
                labels.append(label)
            codes[row] = behind[cell]
    return codes, labels


def plain(label: Any) -> str | int | float | bool:
    """A label as a plain value, for a file."""
    label = label.item() if isinstance(label, np.generic) else label
    return label if isinstance(label, str | int | float | bool) else str(label)

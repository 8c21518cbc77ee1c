"""Shares of the test set that a constant answer cannot flatter.

A model that always says the most frequent class is right as often as that class occurs, and no poison changes it. So
beside every certified fraction stand the share of the most frequent class and the balanced figure, the mean over
classes: a constant answer has 1 / (number of classes) of it, whatever the attack size.

A class here is a label that occurs among the test labels, whether or not the training data has shown it: how many
there are depends on the test labels alone, so no training sample can change what is averaged over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poisonproof.core.votes import own_codes
from poisonproof.display import percent, shown
from poisonproof.errors import PoisonproofError
from poisonproof.samples.labels import one_by_one

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
        Whether each prediction is the given label; with inferred classes, no prediction is a label they lack. An
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
        return share_of_majority(self.truth)

    @property
    def balanced_accuracy(self) -> float:
        """Clean accuracy as the mean over the classes of the test labels; a constant answer has 1 / their number."""
        return float(self.certified_fraction_balanced(0))

    def certified_fraction_balanced(self, attack_sizes: int | Sequence[int] | NDArray[Any]) -> NDArray[np.float64]:
        """The certified fraction (pointwise) as the mean over the classes of the test labels, however rare.

        A label that the training data has not shown is a class of its own here, with nothing right.
        """
        return balanced_shares(self.truth, self.right, self.radius, attack_sizes)

    def exact_fraction(self, attack_size: int, *, balanced: bool = False) -> Fraction:
        """The certified fraction (pointwise) at one attack size, or its mean over classes, not rounded."""
        _, counts, held = counts_by_class(self.truth, self.right, self.radius, attack_size)
        if not balanced:
            return Fraction(int(held.sum()), int(counts.sum()))
        shares = [Fraction(*pair) for pair in zip(held.tolist(), counts.tolist(), strict=True)]
        return sum(shares, Fraction(0)) / len(shares)

    def constant_share(self, *, balanced: bool = False) -> Fraction:
        """What always answering the most frequent class has of the same, whatever the attack size; not rounded."""
        _, counts = np.unique(self.truth, return_counts=True)
        return Fraction(1, len(counts)) if balanced else Fraction(int(counts.max()), len(self.truth))

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
        codes, counts, held = counts_by_class(self.truth, self.right, self.radius, attack_sizes)
        clean = counts_by_class(self.truth, self.right, self.radius, 0)[2]
        return tuple(
            ClassShare(self.labels[code], int(count), float(right / count), certified / count)
            for code, count, right, certified in zip(codes, counts, clean, held, strict=True)
        )

    @cached_property
    def caution(self) -> Caution | None:
        """What must be said before any figure: that a constant answer would do as well, or is what is given."""
        return caution(self.prediction, self.truth, self.right, self.labels)


class Evaluated:
    """Predictions with radii, which labels of the test samples turn into figures."""

    prediction: NDArray[np.int64]
    radius: NDArray[np.int64]
    classes: NDArray[Any]
    classes_inferred: bool

    def __len__(self) -> int:
        return len(self.radius)

    def evaluate(self, y: ArrayLike) -> Evaluation:
        """The figures of this test set, given its labels."""
        truth = own_codes(y, self.classes, inferred=self.classes_inferred)
        if len(truth) != len(self):
            raise PoisonproofError(
                f"There are {len(self)} predictions but {len(truth)} labels; give one label per test sample."
            )
        labels = labels_of_codes(self.classes, y, truth)
        return Evaluation(self.prediction, self.radius, truth, self._right(truth), labels)

    def _right(self, truth: NDArray[np.int64]) -> NDArray[np.bool_]:
        return self.prediction == truth


def checked_sizes(attack_sizes: int | Sequence[int] | NDArray[Any]) -> NDArray[Any]:
    """Attack sizes as an array, or one sentence."""
    sizes = np.asarray(attack_sizes)
    if not np.issubdtype(sizes.dtype, np.integer) or (sizes < 0).any():
        raise PoisonproofError(f"Attack sizes must be whole numbers ≥ 0. Got {attack_sizes!r} instead.")
    return sizes


def number_that_withstand(
    radii: NDArray[np.int64], attack_sizes: int | Sequence[int] | NDArray[Any]
) -> NDArray[np.int64]:
    """For each attack size, how many of these radii reach it."""
    held = np.sort(radii)
    return np.asarray(len(held) - np.searchsorted(held, checked_sizes(attack_sizes)))


def share_of_majority(truth: NDArray[np.int64]) -> float:
    """The share of the most frequent class; ``truth`` codes each test label by a whole number of its own."""
    _, counts = np.unique(_present(truth), return_counts=True)
    return int(counts.max()) / len(truth)


def counts_by_class(
    truth: NDArray[np.int64],
    right: NDArray[np.bool_],
    radius: NDArray[np.int64],
    attack_sizes: int | Sequence[int] | NDArray[Any],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The codes that occur, in increasing order; how often each does; and how many are right with each radius.

    The last is an array (classes that occur, \\*shape of the attack sizes).
    """
    codes, counts = np.unique(_present(truth), return_counts=True)
    return codes, counts, np.stack([number_that_withstand(radius[right & (truth == c)], attack_sizes) for c in codes])


def balanced_shares(
    truth: NDArray[np.int64],
    right: NDArray[np.bool_],
    radius: NDArray[np.int64],
    attack_sizes: int | Sequence[int] | NDArray[Any],
) -> NDArray[np.float64]:
    """The certified fraction (pointwise) at each attack size, as the mean over the classes that occur in ``truth``."""
    _, counts, held = counts_by_class(truth, right, radius, attack_sizes)
    return np.asarray((held.T / counts).T.mean(axis=0))


def caution(
    prediction: NDArray[np.int64], truth: NDArray[np.int64], right: NDArray[np.bool_], labels: Sequence[Any]
) -> Caution | None:
    """What must be said before any figure, or None where the model tells classes apart.

    ``right`` may be false where prediction and truth agree (an abstention); ``labels[c]`` is the label of code c.
    """
    names = [str(label) for label in labels]
    codes, counts = np.unique(_present(truth), return_counts=True)
    n, most = len(truth), int(counts.max())
    frequent = shown(names[int(codes[counts.argmax()])])
    answered, answers = np.unique(prediction, return_counts=True)
    usual = int(answered[answers.argmax()])
    others = truth != usual
    n_right = int(right.sum())
    if len(codes) == 1:
        return Caution(
            "one label",
            f"{f'All {n:,} test samples are' if n > 1 else 'The one test sample is'} “{frequent}”: nothing here shows "
            "whether this model tells classes apart.",
            f"all test samples are '{frequent}', so a model that always answers '{frequent}' is as good here; test on "
            "samples of every class.",
        )
    balanced = float(np.mean([right[truth == code].mean() for code in codes]))
    figures = (
        f"clean accuracy {percent(n_right / n)} %, share of '{frequent}' {percent(most / n)} %; balanced accuracy "
        f"{percent(balanced)} %, of a constant answer {percent(1 / len(codes))} %"
    )
    if len(answered) == 1:
        return Caution(
            "one answer",
            f"Every prediction is “{shown(names[usual])}”. A constant answer is perfectly robust, and says nothing.",
            f"the model answers '{shown(names[usual])}' to every test sample, so its radii prove nothing of use "
            f"({figures})",
        )
    different = int((prediction[others] != usual).sum())
    if NEARLY * different < int(others.sum()) and NEARLY * (n - int(answers.max())) < n:
        return Caution(
            "nearly one answer",
            f"Nearly every prediction is “{shown(names[usual])}”: only {different:,} of the {int(others.sum()):,} test "
            "samples of other classes get another answer.",
            f"the model answers '{shown(names[usual])}' to nearly every test sample, so its radii prove little of use "
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


def labels_of_codes(classes: NDArray[Any], y: ArrayLike, codes: NDArray[np.int64]) -> list[Any]:
    """The label of each code of `own_codes`: the classes, then labels that the training data has not shown."""
    unseen = range(len(classes), int(codes.max(initial=-1)) + 1)
    given = one_by_one(y) if unseen else []
    return [*classes.tolist(), *(given[int(np.flatnonzero(codes == code)[0])] for code in unseen)]


def plain(label: Any) -> str | int | float | bool:
    """A label as a plain value, for a file."""
    label = label.item() if isinstance(label, np.generic) else label
    return label if isinstance(label, str | int | float | bool) else str(label)


def _present(truth: NDArray[np.int64]) -> NDArray[np.int64]:
    if not len(truth):
        raise PoisonproofError("There are no test samples, so no class has a share of them; give labels of some.")
    return truth

"""What a run came to, in a few lines: certified fractions as shares of samples and of classes, and the plain truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.certify import Certificate
from poisonproof.core.metrics import Caution, ClassShare
from poisonproof.display import percent
from poisonproof.runs.outcome import Outcome

MOST_CLASSES = 20
BALANCED = "Balanced: mean over classes."


@dataclass(frozen=True)
class UndefendedColumn:
    """A model without a guarantee: the short heading of its column, what it is, and its accuracy."""

    heading: str
    words: str
    accuracy: float


@dataclass(frozen=True, eq=False)
class Summary:
    """The figures of one certificate at some attack sizes, with what a constant answer would get beside them."""

    attack_sizes: tuple[int, ...]
    certified: NDArray[np.float64]
    balanced: NDArray[np.float64]
    by_class: tuple[ClassShare, ...]
    clean_accuracy: float
    balanced_accuracy: float
    majority_share: float
    majority_label: str
    caution: Caution | None
    warning: str | None
    feared: int | None = None
    undefended: tuple[UndefendedColumn, ...] = ()
    """What was trained on all data at once, without a guarantee."""

    @classmethod
    def of(cls, outcome: Outcome, attack_sizes: Sequence[int], feared: int | None = None) -> Summary:
        """The summary of a run; ``feared`` is the attack size that must not be left out where there is little room."""
        found = outcome.figures
        by_class = found.by_class(list(attack_sizes))
        caution = found.caution
        most = max(by_class, key=lambda one: one.n_test)
        return cls(
            tuple(attack_sizes),
            found.certified_fraction(list(attack_sizes)),
            found.certified_fraction_balanced(list(attack_sizes)),
            by_class,
            found.clean_accuracy,
            found.balanced_accuracy,
            found.majority_share,
            str(most.label),
            caution,
            None if caution is None else f"{caution.sentence}; {what_to_try(outcome, caution)}",
            feared,
            _undefended(outcome),
        )

    @property
    def line(self) -> str:
        """What stands beneath the table: the figures without an attack, and those of a constant answer."""
        return (
            f"Clean accuracy {percent(self.clean_accuracy)} %, balanced (mean over {len(self.by_class)} classes) "
            f"{percent(self.balanced_accuracy)} %. Always answering '{self.majority_label}': "
            f"{percent(self.majority_share)} %, balanced {percent(1 / len(self.by_class))} %, at every attack size."
        )

    @property
    def columns_line(self) -> str:
        """What the short headings of the table stand for."""
        if not self.undefended:
            return BALANCED
        models = "; ".join(f"{one.heading}, {one.words}" for one in self.undefended)
        return f"{BALANCED} Trained on all data at once, without a guarantee: {models}."

    def table(self) -> tuple[list[str], list[list[str]]]:
        """One line for each attack size, at most 100 characters wide; without a guarantee nothing is known but at 0."""
        header = ["attack size", "certified fraction, % (pointwise)", "balanced, %"]
        figures = zip(self.attack_sizes, self.certified, self.balanced, strict=True)
        rows = [
            [str(size), percent(share), percent(mean)]
            + [percent(one.accuracy) if size == 0 else "?" for one in self.undefended]
            for size, share, mean in figures
        ]
        return [*header, *(f"{one.heading}, %" for one in self.undefended)], rows

    @property
    def classes_title(self) -> str:
        """Which classes the second table lists."""
        if len(self.by_class) <= MOST_CLASSES:
            return "Certified fraction, % (pointwise), by class"
        return (
            f"Certified fraction, % (pointwise), by class: the {MOST_CLASSES} of {len(self.by_class)} with the lowest "
            "clean accuracy"
        )

    def classes_table(self) -> tuple[list[str], list[list[str]]]:
        """One line for each class; of very many, those that fare worst."""
        few = _few(self.attack_sizes, self.feared)
        listed = self.by_class
        if len(listed) > MOST_CLASSES:
            listed = tuple(sorted(listed, key=lambda one: one.clean_accuracy)[:MOST_CLASSES])
        header = ["class", "test samples", *(f"at {self.attack_sizes[at]}" for at in few)]
        return header, [
            [str(one.label), str(one.n_test), *(percent(float(one.certified_fraction[at])) for at in few)]
            for one in listed
        ]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return {
            "clean_accuracy": self.clean_accuracy,
            "balanced_accuracy": self.balanced_accuracy,
            "majority_share": self.majority_share,
            "majority_label": self.majority_label,
            "attack_size": list(self.attack_sizes),
            "certified_fraction": self.certified.tolist(),
            "certified_fraction_balanced": self.balanced.tolist(),
            "by_class": [one.as_dict() for one in self.by_class],
            "warning": self.warning,
        }


def _undefended(outcome: Outcome) -> tuple[UndefendedColumn, ...]:
    """The same learner, where there is one, and what a practitioner would train; none that was not trained."""
    models = []
    if outcome.undefended_accuracy is not None:
        models.append(UndefendedColumn("undefended", "the same learner", outcome.undefended_accuracy))
    if outcome.strong_undefended is not None:
        accuracy, words = outcome.strong_undefended
        heading = "strong" if models else "undefended"
        models.append(UndefendedColumn(heading, words, accuracy))
    return tuple(models)


def what_to_try(outcome: Outcome, caution: Caution) -> str:
    """What a person can do about it."""
    if caution.kind == "one label":
        return "give --test a file with all classes, or another --held-out"
    certificate: Certificate = outcome.certificate
    if certificate.spread is None:
        return _for_samples(certificate)
    k, n_train = certificate.ensemble.k, outcome.manifest.n_train or 0
    each = round(n_train / k)
    smaller = f"a smaller --k (at k = {k:g} a base classifier learns from about {each:,} samples), " if k >= 4 else ""
    return f"try {smaller}another --learner, or more data of the rare classes"


def _for_samples(certificate: Certificate) -> str:
    if certificate.method == "neighbours":
        return "try a smaller --n-neighbors, other --features, or more data of the rare classes"
    if certificate.classes_inferred and certificate.method == "ballots":
        return "declare the labels that may occur with --classes, or how large classes are with --class-sizes"
    return "try another --near, --class-sizes from outside this data, or other --features"


def _few(sizes: Sequence[int], feared: int | None) -> list[int]:
    """Places of some attack sizes, evenly spaced, first and last among them, and of the one that is feared."""
    places = {round(at) for at in np.linspace(0, len(sizes) - 1, min(5, len(sizes)))}
    return sorted(places | {at for at, size in enumerate(sizes) if size == feared})

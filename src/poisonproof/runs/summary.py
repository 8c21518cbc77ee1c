"""What a run came to, in a few lines: certified shares of samples and of classes, and the plain truth before them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.metrics import Caution, ClassShare
from poisonproof.display import percent, shown
from poisonproof.runs.run import Outcome

FAR_BEHIND = 0.2


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
    requested: int | None = None
    undefended: tuple[UndefendedColumn, ...] = ()
    """What was trained on all data at once, without a guarantee."""

    @classmethod
    def of(cls, outcome: Outcome, attack_sizes: Sequence[int], requested: int | None = None) -> Summary:
        """The summary of a run; ``requested`` is the attack size that is never left out."""
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
            requested,
            _undefended(outcome),
        )

    @property
    def line(self) -> str:
        """The figures without an attack, of a constant answer, and of what was trained without a guarantee."""
        constant = f"'{self.majority_label}' alone {percent(self.majority_share)}, {percent(1 / len(self.by_class))}"
        models = "".join(f"; {one.heading}, {one.words}, {percent(one.accuracy)}" for one in self.undefended)
        return (
            f"Right without an attack, %: {percent(self.clean_accuracy)}, balanced {percent(self.balanced_accuracy)}; "
            f"always {constant} at every attack size{models}."
        )

    def table(self) -> tuple[list[str], list[list[str]]]:
        """A column for each of at most six attack sizes, no wider than 80 characters."""
        few = _few(self.attack_sizes, self.requested)
        return ["attack size", *(f"{self.attack_sizes[at]:,}" for at in few)], [
            ["certified, % (pointwise)", *(percent(self.certified[at]) for at in few)],
            ["balanced, % (classes)", *(percent(self.balanced[at]) for at in few)],
        ]

    @property
    def behind(self) -> str | None:
        """The class of which much less is certified than of all, at the requested or middle attack size."""
        sizes = self.attack_sizes
        at = len(sizes) // 2 if self.requested not in sizes else sizes.index(self.requested)
        worst = min(self.by_class, key=lambda one: float(one.certified_fraction[at]))
        share = float(worst.certified_fraction[at])
        if self.balanced[at] - share < FAR_BEHIND:
            return None
        return (
            f"Behind: '{worst.label}', {percent(share)} % of {worst.n_test:,} certified at attack size "
            f"{self.attack_sizes[at]:,}."
        )

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


def premises_in_short(outcome: Outcome) -> str:
    """How many premises there are, which were chosen from the data, and where they stand."""
    premises = outcome.manifest.premises or ()
    chosen = [premise.code for premise in premises if premise.declared is False]
    which = f", {len(chosen)} of them chosen from this data ({', '.join(chosen)})" if chosen else ""
    return f"{len(premises)} premises{which}: in report.html, and with --json"


def what_to_try(outcome: Outcome, caution: Caution) -> str:
    """What a person can do about it."""
    if caution.kind == "one label":
        return "give --test a file with all classes, or another --held-out"
    return outcome.election.remedy(outcome.certificate, outcome.manifest.n_train or 0)


def _few(sizes: Sequence[int], requested: int | None) -> list[int]:
    """Places of some attack sizes, evenly spaced, first and last among them, and of the one that was asked for."""
    places = {round(at) for at in np.linspace(0, len(sizes) - 1, min(5, len(sizes)))}
    return sorted(places | {at for at, size in enumerate(sizes) if size == requested})


FEW = 30  # samples of a class in a subset; with more it is not their number that base classifiers disagree for
ENOUGH = 0.8  # certified share of a class that needs no explanation


@dataclass(frozen=True)
class RareClass:
    """The class that has the fewest training samples, of those that the test set asks about."""

    label: str
    n_train: int
    k: float
    certified: float
    size: int
    unit: str

    @classmethod
    def of(cls, outcome: Outcome, size: int) -> RareClass | None:
        """What is to be said of the rarest class; None where a base classifier has enough of every class."""
        certificate, counts = outcome.certificate, outcome.train_counts
        if counts is None or certificate.ensemble.k < 4:
            return None
        shares = {str(one.label): one for one in outcome.figures.by_class([size])}
        names = [str(label) for label in certificate.classes.tolist()]
        rare = [(int(counts[code]), name) for code, name in enumerate(names) if name in shares]
        if len(rare) < 2:
            return None
        n_train, label = min(rare)
        k = float(certificate.ensemble.k)
        if n_train / k >= FEW:
            return None
        certified = float(np.asarray(shares[label].certified_fraction)[0])
        if certified >= ENOUGH:
            return None
        return cls(label, n_train, k, certified, size, certificate.unit)

    @property
    def sentence(self) -> str:
        """Why, and what a smaller k would do."""
        each, smaller = self.n_train / self.k, max(2, round(self.k / 2))
        seen = f"about {each:.0f}" if each >= 1 else "fewer than one"
        return (
            f"Why so little of “{shown(self.label)}” is certified ({percent(self.certified)} % at attack size "
            f"{self.size:,}): of its {self.n_train:,} training samples a base classifier sees 1/{self.k:g}, {seen}, so "
            f"base classifiers disagree; with --k {smaller} each would see about {self.n_train / smaller:.0f}, and "
            f"radii could reach about {smaller // 2:,} at the most."
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return {
            "label": self.label,
            "training_samples": self.n_train,
            "training_samples_per_base_classifier": self.n_train / self.k,
            "sentence": self.sentence,
        }


@dataclass(frozen=True)
class PlannedFigure:
    """One promised share beside the obtained one."""

    name: str
    what: str
    predicted: float
    obtained: float

    def cells(self) -> list[str]:
        """Both in words, and how far apart they are."""
        points = 100 * (self.predicted - self.obtained)
        return [f"{100 * self.predicted:.1f} %", f"{100 * self.obtained:.1f} %", f"{points:+.1f} points"]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return {"predicted": self.predicted, "obtained": self.obtained}


def beside_plan(outcome: Outcome) -> list[PlannedFigure]:
    """Clean accuracy and certified fractions, promised and obtained; nothing if no plan was followed."""
    followed = (outcome.manifest.recipe or {}).get("plan")
    if followed is None:
        return []
    figures, size = outcome.figures, followed["attack_size"]
    at, balanced = f"at attack size {size}", "the same, balanced (mean over classes)"
    fraction = float(figures.certified_fraction([size])[0])
    of_classes = float(figures.certified_fraction_balanced([size])[0])
    return [
        PlannedFigure("clean_accuracy", "clean accuracy", followed["clean"], figures.clean_accuracy),
        PlannedFigure("certified_fraction", f"certified fraction (pointwise) {at}", followed["certified"], fraction),
        PlannedFigure("certified_fraction_balanced", balanced, followed["certified_balanced"], of_classes),
    ]


def broken_promise(outcome: Outcome) -> str | None:
    """One sentence if a run came to less than two standard errors below what its plan promised, with what to try."""
    followed, figures = (outcome.manifest.recipe or {}).get("plan"), beside_plan(outcome)
    if followed is None:
        return None
    figure = figures[-1]
    if figure.obtained >= figure.predicted - 2 * followed["error"]:
        return None
    other = f"; the next best was `{followed['next_best']}`" if followed["next_best"] else ""
    return (
        f"the plan promised {100 * figure.predicted:.1f} ± {100 * followed['error']:.1f} % certified on average over "
        f"classes at attack size {followed['attack_size']}, and {100 * figure.obtained:.1f} % came out{other}"
    )


def headline_size(outcome: Outcome) -> int:
    """The attack size that was asked about; else the largest at which half of the test set is right and certified.

    Half of the samples, and half of them on average over classes: a frequent class alone makes no headline.
    """
    asked = asked_size(outcome)
    if asked is not None:
        return asked
    return outcome.figures.headline_size


def asked_size(outcome: Outcome) -> int | None:
    """The attack size that the run was asked about, by --attack-size or by the plan that it follows."""
    asked = outcome.manifest.recipe or {}
    size = asked.get("attack_size", (asked.get("plan") or {}).get("attack_size"))
    return None if size is None else int(size)

"""How little of a rare class each base classifier learns from: the reason why little of it is certified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from poisonproof.display import percent, shown
from poisonproof.runs.outcome import Outcome

FEW = 30  # samples of a class in a subset; with more it is not their number that base classifiers disagree for
ENOUGH = 0.8  # certified share of a class that needs no explanation


@dataclass(frozen=True)
class Scarcity:
    """The class that has the fewest training samples, of those that the test set asks about."""

    label: str
    n_train: int
    k: float
    certified: float
    size: int
    unit: str

    @classmethod
    def of(cls, outcome: Outcome, size: int) -> Scarcity | None:
        """What is to be said of the rarest class; None where a base classifier has enough of every class."""
        certificate, counts = outcome.certificate, outcome.train_counts
        if certificate.spread is None or counts is None or certificate.spread.k < 4:
            return None
        shares = {str(one.label): one for one in outcome.figures.by_class([size])}
        names = [str(label) for label in certificate.classes.tolist()]
        rare = [(int(counts[code]), name) for code, name in enumerate(names) if name in shares]
        if len(rare) < 2:
            return None
        n_train, label = min(rare)
        k = float(certificate.spread.k)
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

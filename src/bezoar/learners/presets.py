"""Learners by name, for the command line. Every constant is written down here and none comes from the data at hand."""

from __future__ import annotations

from typing import Any

LEARNERS = ("table", "digits")


def preset(name: str) -> Any:
    """A fresh learner.

    ``table``: logistic regression on numbers, categories and missing values. ``digits``: pooled kernel ridge on
    stroke directions, for grey images of single glyphs; its constants were chosen on MNIST training images held
    out from the training subsets.
    """
    if name == "table":
        from bezoar.learners.table import TableClassifier

        return TableClassifier()
    if name == "digits":
        from bezoar.learners.features.digits import DigitFeatures
        from bezoar.learners.kernel_ridge import KernelRidgeClassifier

        return KernelRidgeClassifier(DigitFeatures(), kernel="rbf", gamma=2.0, ridge=0.05, balance=0.5)
    raise ValueError(f"There is no learner '{name}'; there are {', '.join(LEARNERS)}.")

"""Several views of a test sample: what is near to one of them is near.

Turned a little, or seen from a little nearer, a thing is what it was. The voters are described as they are; a sample to
be answered is described from every view, and a voter is as near as it is to the nearest of them. That is a fixed rule
of two samples, like any other, and a copy of a sample is near it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.learners.feature_maps import ask_map


@dataclass(frozen=True)
class Views:
    """A feature map whose virtual copies are views of test samples.

    Parameters
    ----------
    features : callable
        Feature map with ``copies`` above 1, such as ``DigitFeatures(copies=3)``; the first copy is the sample itself.
    """

    features: Any
    answers_one_by_one = True  # see poisonproof.samples.batches

    def __post_init__(self) -> None:
        if getattr(self.features, "copies", 1) < 2 or getattr(self.features, "mirrored", False):
            raise PoisonproofError(
                f"Views need a feature map with 2 copies of a sample or more, not mirrored. Got {self.features!r}."
            )

    @property
    def scale(self) -> float:
        """What counts as length 1."""
        return float(self.features.scale)

    @property
    def n_features(self) -> int:
        """Length of a feature vector."""
        return int(self.features.n_features)

    def __call__(self, X: Any, *, training: bool = False) -> NDArray[Any]:
        """Features (n, 1, n_features) of samples as they are."""
        return ask_map(self.features, X)[:, :1]

    def views(self, X: Any) -> NDArray[Any]:
        """Features (n, views, n_features) of the other views."""
        return ask_map(self.features, X, training=True)[:, 1:]

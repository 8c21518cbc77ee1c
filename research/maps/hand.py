"""A metric for handwriting: what tells two hands apart counts less, what tells two glyphs apart counts more.

Drawn digits say how features vary when one glyph is written again and again, and how glyphs differ. With S the
covariance of the former, features φ first become (1 + S / tolerance)^(−1/2) (φ − mean): directions in which hands vary
are shrunk. With G the scatter of the glyphs' means after that, and g its largest eigenvalue, they are then multiplied
by (1 + G / (reach · g))^(1/2): directions in which glyphs differ are stretched. Both are one product with integer
weights, exact like those of the kernel. No image of a data set enters it, and no label is learned: it is a way to
measure distances.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.system.compiled import njit
from research.maps.drawn_digits import STYLES, drawn_digits
from research.maps.patches import Matrix, whole

LARGEST = 127  # of a feature, before and after; features before are not negative, so less their mean as well


@dataclass(frozen=True)
class Hand:
    """How digits are drawn, and how much their variation and their differences count.

    Parameters
    ----------
    slant, stretch, bend, tremble : float
        See `drawn_digits`.
    pens : tuple of float
        Least and greatest half-width of the pen, in pixels.
    count : int
        Drawings of each style of each digit.
    between : float
        How much the difference between two styles of a digit counts, next to the variation inside a style.
    tolerance : float
        Variance (features have length 1) at which a direction is shrunk by √2: the smaller, the more is shrunk.
    reach : float
        Share of the largest variance between glyphs at which a direction is stretched by √2: the smaller, the more.
    seed : int
        Of the drawings.
    """

    slant: float = 0.15
    stretch: float = 0.1
    bend: float = 0.05
    tremble: float = 0.05
    pens: tuple[float, float] = (0.72, 1.8)
    count: int = 100
    between: float = 0.3
    tolerance: float = 5e-4
    reach: float = 0.3
    seed: int = 1

    def drawings(self) -> list[list[NDArray[np.uint8]]]:
        """Drawn digits: for each digit and each of its styles, an array (count, 28, 28)."""
        drawn: list[list[NDArray[np.uint8]]] = []
        for digit, styles in enumerate(STYLES):
            drawn.append([])
            for number, strokes in enumerate(styles):
                images = drawn_digits(
                    strokes,
                    self.count,
                    (self.seed * len(STYLES) + digit) * 8 + number,
                    slant=self.slant,
                    stretch=self.stretch,
                    bend=self.bend,
                    tremble=self.tremble,
                    pens=self.pens,
                )
                drawn[-1].append(images)
        return drawn

    def metric(self, features: Callable[[NDArray[np.uint8]], NDArray[np.int8]], scale: float) -> Metric:
        """The metric for a feature map of images to integers of this length."""
        if not (self.tolerance > 0 and self.reach > 0 and self.count > 1):
            raise PoisonproofError(
                f"A hand needs a tolerance and a reach above 0 and 2 drawings of each style. Got {self}."
            )
        described = [[features(images).astype(np.float64) for images in styles] for styles in self.drawings()]
        glyphs = np.array([part.mean(axis=0) for styles in described for part in styles]) / scale
        hands = np.sum([self._variation(styles) for styles in described], axis=0) / len(glyphs) / scale**2
        shrunk = _spectral(hands, lambda values: 1.0 / np.sqrt(1.0 + values / self.tolerance))
        apart = (glyphs - glyphs.mean(axis=0)) @ shrunk
        stretched = _spectral(apart.T @ apart, lambda values: np.sqrt(1.0 + values / (self.reach * values.max())))
        (weights,), unit = whole((shrunk @ stretched,), LARGEST)
        return Metric(np.rint(glyphs.mean(axis=0) * scale).astype(np.int16), weights, unit)

    def _variation(self, styles: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Covariances inside the styles of a digit, and of their means, summed."""
        means = np.array([part.mean(axis=0) for part in styles])
        inside = sum((part - mean).T @ (part - mean) / len(part) for part, mean in zip(styles, means, strict=True))
        apart = means - means.mean(axis=0)
        return np.asarray(inside + self.between * apart.T @ apart)


def _spectral(matrix: NDArray[np.float64], function: Callable[[Any], Any]) -> NDArray[np.float64]:
    """A function of a symmetric matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * function(np.maximum(values, 0.0))) @ vectors.T)


@dataclass(frozen=True)
class Metric:
    """Integer weights, by features: what they are worth is divided by ``unit``; ``mean`` is taken off before."""

    mean: NDArray[np.int16]
    weights: Matrix
    unit: float

    def apply(self, rows: NDArray[np.int8]) -> None:
        """Bring integer features (n, features) into this metric, in place."""
        _rounded((rows - self.mean).astype(np.float32) @ self.weights, 1.0 / self.unit, rows)


@njit(nogil=True, cache=True)
def _rounded(values: Matrix, factor: float, out: NDArray[np.int8]) -> None:
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            out[i, j] = int(min(max(np.rint(values[i, j] * factor), -LARGEST), LARGEST))

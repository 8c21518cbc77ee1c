"""Features of handwritten digits and other single glyphs: upright, of one size, as strokes.

An image is normalised by its own moments (centred, deskewed, scaled), then described by how much
stroke edge of each direction lies where; what only tells one hand from another counts less (`Hand`).
Virtual copies are the same glyph a little turned or bent. All this is fixed, so it carries what we know about
handwriting into a subset of fifty images.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.maps.hand import Hand, Metric
from poisonproof.maps.pixels import (
    Plane,
    bilinear,
    blur,
    gaussian_taps,
    grid_weights,
    moments,
    orientation_grid,
    unit_length,
)
from poisonproof.system.compiled import njit
from poisonproof.system.determinism import in_threads, one_linear_algebra_thread

# Fixed warps of normalised coordinates: angle in degrees, then strengths of three bends.
WARPS: dict[int, list[tuple[float, ...]]] = {
    1: [(0.0, 0.0, 0.0, 0.0)],
    3: [(0.0, 0.0, 0.0, 0.0), (14.0, 0.0, 0.0, 0.0), (-14.0, 0.0, 0.0, 0.0)],
}
WARPS[9] = WARPS[3] + [(0.0, *(sign * (bend == at) for bend in range(3))) for at in range(3) for sign in (1.0, -1.0)]

HAND = Hand()


@dataclass(frozen=True)
class DigitFeatures:
    """Feature map for grey images of single glyphs, bright on dark.

    Every constant is a parameter, and none is computed from data.

    Parameters
    ----------
    size : int
        Side of the normalised image, in pixels; the glyph is brought to it whatever the input size.
    spread : float
        Standard deviation of the glyph's mass along its longer axis, in pixels of the normalised image.
    aspect : float
        The ratio of the two standard deviations is raised to this power: 1 keeps it, 0 makes every glyph square.
    blur : float
        Smoothing before the gradients, in pixels.
    orientations, grid : int
        Signed directions, and cells along each side.
    window : float
        Standard deviation of a cell's window, in cells.
    copies : 1, 3 or 9
        Virtual copies per training image: turned by ±14°; also bent and sheared.
    scale : float
        Length of the quantised vector, before `hand` shrinks and stretches it.
    hand : Hand or None
        Which differences are only handwriting and count less, and which count more; None counts all alike.
    """

    size: int = 28
    spread: float = 6.2
    aspect: float = 0.3
    blur: float = 0.7
    orientations: int = 20
    grid: int = 7
    window: float = 0.5
    copies: int = 3
    scale: float = 1024.0
    hand: Hand | None = HAND
    answers_one_by_one = True  # see poisonproof.samples.batches

    @property
    def n_features(self) -> int:
        """Length of a feature vector."""
        return self.grid * self.grid * self.orientations

    def __call__(self, images: NDArray[Any], *, training: bool = False) -> NDArray[np.int8]:
        """Features (n, copies, n_features) of images (n, height, width); one copy unless training."""
        images = np.asarray(images)
        if images.ndim == 4 and images.shape[3] == 1:
            images = images[:, :, :, 0]
        if images.ndim != 3:
            raise PoisonproofError(f"Digit features need grey images, (n, height, width). Got shape {images.shape}.")
        if self.copies not in WARPS:
            raise PoisonproofError(
                f"The 'copies' of digit features must be in {sorted(WARPS)}. Got {self.copies!r} instead."
            )
        warps = np.array(WARPS[self.copies if training else 1])
        cell = self.size / self.grid
        weights = grid_weights(self.size, self.grid, self.window * cell)
        out = np.empty((len(images), len(warps), self.n_features), np.int8)
        metric = None if self.hand is None else _metric(self)

        def work(start: int, stop: int) -> None:
            _digit_features(
                np.ascontiguousarray(images[start:stop], dtype=np.float64),
                warps,
                self.size,
                self.spread,
                self.aspect,
                gaussian_taps(self.blur),
                self.orientations,
                weights,
                self.scale,
                out[start:stop],
            )
            if metric is not None:
                metric.apply(out[start:stop].reshape(-1, self.n_features))

        with one_linear_algebra_thread():
            in_threads(len(images), 256, work)
        return out


@lru_cache(maxsize=4)
def _metric(features: DigitFeatures) -> Metric:
    """The metric of a hand for these features."""
    assert features.hand is not None
    plain = replace(features, hand=None)
    with one_linear_algebra_thread():
        return features.hand.metric(lambda images: plain(images)[:, 0], features.scale)


@njit(nogil=True, cache=True)
def _digit_features(
    images: NDArray[np.float64],
    warps: NDArray[np.float64],
    size: int,
    spread: float,
    aspect: float,
    taps: NDArray[np.float64],
    n_orientations: int,
    weights: NDArray[np.float64],
    scale: float,
    out: NDArray[np.int8],
) -> None:
    upright = np.empty((size, size))
    scratch = np.empty((size, size))
    smooth = np.empty((size, size))
    grid = np.empty((weights.shape[1] * weights.shape[1], n_orientations))
    for image in range(len(images)):
        for copy in range(len(warps)):
            _normalise(images[image], warps[copy], size, spread, aspect, upright)
            blur(upright, taps, scratch, smooth)
            orientation_grid(smooth, n_orientations, weights, weights, grid)
            values = grid.ravel()
            for i in range(len(values)):
                values[i] = math.sqrt(math.sqrt(values[i]))
            factor = unit_length(values) * scale
            for i in range(len(values)):
                out[image, copy, i] = min(127, int(values[i] * factor + 0.5))


@njit(nogil=True, cache=True)
def _normalise(image: Plane, warp: NDArray[np.float64], size: int, spread: float, aspect: float, out: Plane) -> None:
    """The glyph centred, deskewed and scaled by its own moments, then warped."""
    mass, centre_y, centre_x, yy, xx, xy = moments(image)
    if mass <= 0.0:
        out[:] = 0.0
        return
    shear = xy / yy if yy > 1e-6 else 0.0
    spread_y = math.sqrt(max(yy, 0.05))
    spread_x = math.sqrt(max(xx - shear * xy, 0.05))
    larger = max(spread_y, spread_x)
    unit_y = spread_y / (spread * (spread_y / larger) ** aspect)
    unit_x = spread_x / (spread * (spread_x / larger) ** aspect)
    angle = warp[0] * math.pi / 180.0
    cosine, sine = math.cos(angle), math.sin(angle)
    middle = (size - 1) / 2.0
    for row in range(size):
        for column in range(size):
            y, x = (row - middle) / 10.0, (column - middle) / 10.0
            turned_y = 10.0 * (cosine * y - sine * x) + warp[1] * 2.0 * x * x
            turned_x = 10.0 * (cosine * x + sine * y) + warp[2] * 3.0 * x * y + warp[3] * 2.0 * y
            source_y = turned_y * unit_y
            source_x = turned_x * unit_x + shear * source_y
            out[row, column] = bilinear(image, centre_y + source_y, centre_x + source_x)

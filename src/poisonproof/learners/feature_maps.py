"""Feature maps: fixed functions of one sample that kernels and voting samples measure distances by.

What a map says of a sample is whole numbers, short enough that inner products are exact in single precision. A map that
is declared in full, by formulas and constants that come from no data at hand, carries knowledge into small subsets
without any sample reaching more than its own row. One that was made elsewhere is a premise
(`poisonproof.premises.PublicMap`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.samples.batches import ONE_BY_ONE, declares
from poisonproof.samples.convert import count_rows, take_rows
from poisonproof.system.compiled import njit
from poisonproof.system.determinism import one_linear_algebra_thread
from poisonproof.system.threads import in_threads

LONGEST = 4095  # its square is below 2**24, up to which sums of integers are exact in single precision
MEASURED_ON = 32  # samples that say how many numbers a function gives
ASKED_TWICE = 8


def ask_map(features: Any, X: Any, method: str = "__call__", **how: Any) -> NDArray[Any]:
    """What a map says of samples: of all at once if its own class is marked (`ONE_BY_ONE`), otherwise one at a time."""
    ask = features if method == "__call__" else getattr(features, method)
    n_samples = count_rows(X)
    if declares(features, ONE_BY_ONE) or n_samples <= 1:
        return np.asarray(ask(X, **how))
    return np.concatenate([np.asarray(ask(take_rows(X, [row]), **how)) for row in range(n_samples)])


def width_of_most(widths: Sequence[int], asked: int) -> dict[str, Any]:
    """The width that most samples give (ties: the smaller), of so many that were asked; and the same in words."""
    width = max(sorted(set(widths)), key=widths.count)
    words = (
        f"{width} numbers, as {widths.count(width)} of the {asked} training samples with the smallest hashes have it"
    )
    return {"measured_width": width, "measured_by": words}


@dataclass(frozen=True)
class VectorFeatures:
    """Rows of numbers, divided by a declared unit and rounded to multiples of 1/scale.

    Parameters
    ----------
    unit : float
        What counts as length 1 in the kernel. Declared, never taken from the data.
    scale : float
        Steps per unit.
    limit : int
        Larger values are clipped to ±limit steps, so that one extreme cell stays a number. A row that is longer than
        4095 steps all the same is shortened to that, so that products stay exact and no row can stop training.
    """

    unit: float = 1.0
    scale: float = 64.0
    limit: int = 1000
    takes_missing = True  # what is no number counts as 0
    answers_one_by_one = True  # see poisonproof.samples.batches

    def __call__(self, X: Any, *, training: bool = False) -> NDArray[np.int16]:
        """Features (n, 1, n_features) of rows (n, …)."""
        if not 1 <= self.limit <= LONGEST:
            raise PoisonproofError(
                f"The 'limit' of vector features must be from 1 to {LONGEST}. Got {self.limit!r} instead.",
                code="map.parameter",
            )
        rows = np.asarray(X, dtype=np.float64)
        with np.errstate(over="ignore"):
            steps = np.rint(rows.reshape(len(rows), 1, -1) * (self.scale / self.unit))
        steps = np.clip(np.nan_to_num(steps), -self.limit, self.limit)
        squares = np.square(steps).sum(axis=2, keepdims=True)  # whole numbers, exact in any order
        shorter = LONGEST / np.sqrt(np.maximum(squares, LONGEST**2))
        return np.trunc(steps * shorter).astype(np.int16)


# Fixed warps of normalised coordinates: angle in degrees, then strengths of three bends.
WARPS: dict[int, list[tuple[float, ...]]] = {
    1: [(0.0, 0.0, 0.0, 0.0)],
    3: [(0.0, 0.0, 0.0, 0.0), (14.0, 0.0, 0.0, 0.0), (-14.0, 0.0, 0.0, 0.0)],
}
WARPS[9] = WARPS[3] + [(0.0, *(sign * (bend == at) for bend in range(3))) for at in range(3) for sign in (1.0, -1.0)]


@dataclass(frozen=True)
class GlyphFeatures:
    """Feature map for grey images of single glyphs (handwriting, print), bright on dark.

    An image is normalised by its own moments (centred, deskewed, scaled), then described by how much stroke edge of
    each direction lies where. Virtual copies are the same glyph a little turned or bent.

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
        Length of the quantised vector.
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
            raise PoisonproofError(
                f"Glyph features need grey images, (n, height, width). Got shape {images.shape}.", code="map.wrong-kind"
            )
        if self.copies not in WARPS:
            raise PoisonproofError(
                f"The 'copies' of glyph features must be in {sorted(WARPS)}. Got {self.copies!r} instead.",
                code="map.parameter",
            )
        warps = np.array(WARPS[self.copies if training else 1])
        cell = self.size / self.grid
        weights = grid_weights(self.size, self.grid, self.window * cell)
        out = np.empty((len(images), len(warps), self.n_features), np.int8)

        def work(start: int, stop: int) -> None:
            _glyph_features(
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

        with one_linear_algebra_thread():
            in_threads(len(images), 256, work)
        return out


@njit(nogil=True, cache=True)
def _glyph_features(
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


Plane = NDArray[np.float64]


@njit(nogil=True, cache=True)
def bilinear(image: Plane, y: float, x: float) -> float:
    """The image between its pixels; zero outside."""
    top, left = math.floor(y), math.floor(x)
    down, right = y - top, x - left
    total = 0.0
    for row, row_weight in ((top, 1.0 - down), (top + 1, down)):
        if 0 <= row < image.shape[0] and row_weight > 0.0:
            for column, weight in ((left, 1.0 - right), (left + 1, right)):
                if 0 <= column < image.shape[1] and weight > 0.0:
                    total += row_weight * weight * image[row, column]
    return total


@njit(nogil=True, cache=True)
def moments(image: Plane) -> tuple[float, float, float, float, float, float]:
    """Mass, centre (y, x) and central second moments (yy, xx, xy) of an image."""
    mass = sum_y = sum_x = 0.0
    for y in range(image.shape[0]):
        for x in range(image.shape[1]):
            mass += image[y, x]
            sum_y += y * image[y, x]
            sum_x += x * image[y, x]
    if mass <= 0.0:
        return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    centre_y, centre_x = sum_y / mass, sum_x / mass
    yy = xx = xy = 0.0
    for y in range(image.shape[0]):
        for x in range(image.shape[1]):
            dy, dx = y - centre_y, x - centre_x
            yy += image[y, x] * dy * dy
            xx += image[y, x] * dx * dx
            xy += image[y, x] * dy * dx
    return mass, centre_y, centre_x, yy / mass, xx / mass, xy / mass


@njit(nogil=True, cache=True)
def blur(image: Plane, taps: NDArray[np.float64], scratch: Plane, out: Plane) -> None:
    """Separable convolution with symmetric taps; zero outside."""
    height, width = image.shape
    reach = len(taps) // 2
    for y in range(height):
        for x in range(width):
            total = 0.0
            for t in range(-reach, reach + 1):
                if 0 <= x + t < width:
                    total += taps[t + reach] * image[y, x + t]
            scratch[y, x] = total
    for y in range(height):
        for x in range(width):
            total = 0.0
            for t in range(-reach, reach + 1):
                if 0 <= y + t < height:
                    total += taps[t + reach] * scratch[y + t, x]
            out[y, x] = total


@njit(nogil=True, cache=True)
def orientation_grid(
    image: Plane, n_orientations: int, weight_y: NDArray[np.float64], weight_x: NDArray[np.float64], out: Plane
) -> None:
    """Sobel gradients, shared between the two nearest of n signed orientations, pooled on a grid.

    ``weight_y[y, i]`` is how much row y counts in grid row i; ``out`` has shape (grid rows, grid columns,
    orientations) flattened to two axes: (grid rows · grid columns, orientations).
    """
    height, width = image.shape
    rows, columns = weight_y.shape[1], weight_x.shape[1]
    band = np.zeros((columns, n_orientations))
    out[:] = 0.0
    for y in range(1, height - 1):
        band[:] = 0.0
        any_here = False
        for x in range(1, width - 1):
            gx = (
                image[y - 1, x + 1]
                + 2.0 * image[y, x + 1]
                + image[y + 1, x + 1]
                - image[y - 1, x - 1]
                - 2.0 * image[y, x - 1]
                - image[y + 1, x - 1]
            )
            gy = (
                image[y + 1, x - 1]
                + 2.0 * image[y + 1, x]
                + image[y + 1, x + 1]
                - image[y - 1, x - 1]
                - 2.0 * image[y - 1, x]
                - image[y - 1, x + 1]
            )
            strength = math.sqrt(gx * gx + gy * gy)
            if strength <= 1e-9:
                continue
            any_here = True
            turn = math.atan2(gy, gx) / (2.0 * math.pi)
            place = (turn - math.floor(turn)) * n_orientations
            first = int(place) % n_orientations
            share = place - math.floor(place)
            second = (first + 1) % n_orientations
            for column in range(columns):
                weight = weight_x[x, column]
                if weight > 0.0:
                    band[column, first] += weight * strength * (1.0 - share)
                    band[column, second] += weight * strength * share
        if any_here:
            for row in range(rows):
                weight = weight_y[y, row]
                if weight > 0.0:
                    for column in range(columns):
                        for orientation in range(n_orientations):
                            out[row * columns + column, orientation] += weight * band[column, orientation]


@njit(nogil=True, cache=True)
def unit_length(values: NDArray[np.float64]) -> float:
    """The factor that brings a vector to length 1; 0 for the zero vector."""
    total = 0.0
    for value in values:
        total += value * value
    return 1.0 / math.sqrt(total) if total > 0.0 else 0.0


def gaussian_taps(sigma: float) -> NDArray[np.float64]:
    """Normalised taps of a Gaussian, cut at three standard deviations."""
    reach = max(1, math.ceil(3 * sigma))
    taps = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    return taps / taps.sum()


def grid_weights(size: int, cells: int, sigma: float) -> NDArray[np.float64]:
    """How much each of ``size`` pixels counts in each of ``cells`` Gaussian windows spaced evenly over them."""
    centres = (np.arange(cells) + 0.5) * size / cells - 0.5
    weights = np.exp(-0.5 * ((np.arange(size)[:, None] - centres) / sigma) ** 2)
    weights[weights < 0.02] = 0.0
    return weights

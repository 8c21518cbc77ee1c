"""Small pieces that image feature maps are made of, each on one image and in a fixed order.

A float sum depends on how it is grouped, so these are plain loops over one image at a time: the
result for an image cannot depend on the batch it came in.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from poisonproof.system.compiled import njit

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

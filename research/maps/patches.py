"""Banks of whitened patch filters with integer weights, closed under mirror: the exact core of the object features.

Pixels and filter weights are integers and no partial sum passes 2^24, so a float32 matrix product of the two is
exact: it depends neither on the batch an image came in nor on how the linear algebra groups its sums.

A filter and its mirror image share their work. With a patch's sum and difference of mirrored places (its even and odd
coordinates), a filter answers E + O and its mirror image E − O.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.system.compiled import njit
from poisonproof.system.determinism import one_linear_algebra_thread
from research.maps.dead_leaves import COLOUR_AXES, COLOUR_VARIANCES, dead_leaves, random_share

EXACT = 2**24  # a float32 sum of integers is exact as long as no partial sum passes this
EXACT_SQUARES = 2**53  # the same in float64
MIDDLE = 128  # taken off every pixel, so that rounded weights need not cancel a large mean
Matrix = NDArray[np.float32]


@dataclass(frozen=True)
class Filters:
    """Integer filters on even and odd coordinates, and what turns their answers into cosines.

    ``even`` (even coordinates, pairs) and ``odd`` (odd coordinates, pairs) answer as if divided by ``unit``. The
    squared length of the whitened patch is that of its answers to ``even_whitening`` and ``odd_whitening``, divided
    by ``whitening_unit`` squared.
    """

    even: Matrix
    odd: Matrix
    unit: float
    even_whitening: Matrix
    odd_whitening: Matrix
    whitening_unit: float


def whole(weights: tuple[NDArray[np.float64], ...], largest: float) -> tuple[tuple[Matrix, ...], float]:
    """Weights (coordinates, filters) as integers, as fine as stays exact on coordinates up to ``largest``; their unit.

    ``largest`` bounds the sum of an even and an odd coordinate's size, so that E ± O is exact as well.
    """
    most = max(np.abs(part).sum(axis=0).max(initial=0.0) for part in weights)
    length = max(len(part) for part in weights)
    unit = (EXACT / largest - length / 2) / most
    return tuple(np.rint(part * unit).astype(np.float32) for part in weights), float(unit)


def mirror_coordinates(side: int, colours: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Even and odd coordinates of a patch (side, side, colours): matrices of 0 and ±1, a row per coordinate.

    Rows in the order of `gather`: of sums over mirrored places (middle column alone), and of differences.
    """
    even, odd = [], []
    for y in range(side):
        for x in range((side + 1) // 2):
            for c in range(colours):
                here, mirrored = np.zeros((2, side, side, colours))
                here[y, x, c] = 1.0
                mirrored[y, side - 1 - x, c] = 1.0
                even.append(np.maximum(here, mirrored).ravel())
                if x != side - 1 - x:
                    odd.append((here - mirrored).ravel())
    return np.array(even), np.array(odd)


def analytic_whitening(side: int, reach: float, floor: float) -> NDArray[np.float64]:
    """Removes the mean of a patch (side, side, 3) and whitens it as natural images are correlated on the whole.

    Correlation falls as exp(−distance / reach) over space; colours vary as in `dead_leaves`. ``floor`` is added to
    every variance. A formula, not an estimate: no image is looked at.
    """
    place = np.indices((side, side)).reshape(2, -1).T
    distance = np.sqrt(((place[:, None] - place) ** 2).sum(axis=2))
    covariance = np.kron(np.exp(-distance / reach), (COLOUR_AXES.T * COLOUR_VARIANCES) @ COLOUR_AXES)
    size = len(covariance)
    centre = np.eye(size) - 1.0 / size
    values, vectors = np.linalg.eigh(centre @ covariance @ centre + floor * np.eye(size))
    return centre @ (vectors / np.sqrt(values)) @ vectors.T @ centre


@lru_cache(maxsize=16)
def leaf_filters(side: int, n_filters: int, shrink: int, reach: float, floor: float, seed: int) -> Filters:
    """Filters that are whitened patches of dead leaves (half of them, and their mirror images), of unit length.

    ``shrink``: the images they were cut from, and will be applied to, are sums over blocks of that many pixels.
    """
    with one_linear_algebra_thread():
        whitening = analytic_whitening(side, reach, floor)
        images = shrunk(dead_leaves(2 * n_filters, 32 * shrink, seed), shrink)
        patches = np.empty((n_filters // 2, side * side * 3))
        choose_patches(images, side, np.array([seed], np.uint64), patches)
        atoms = patches @ whitening
        atoms /= np.sqrt((atoms**2).sum(axis=1, keepdims=True))
        weights = whitening @ atoms.T
        even, odd = mirror_coordinates(side, 3)
        # Even coordinates have length √2 where they are sums: dividing by the squared length projects onto them.
        even_inverse, odd_inverse = (part / (part**2).sum(axis=1, keepdims=True) for part in (even, odd))
        largest = 4 * MIDDLE * shrink * shrink
        (even_weights, odd_weights), unit = whole((even_inverse @ weights, odd_inverse @ weights), largest)
        lengths = [np.sqrt((part**2).sum(axis=1)) for part in (even, odd)]
        answers = [
            inverse @ whitening @ (part / length[:, None]).T
            for inverse, part, length in zip((even_inverse, odd_inverse), (even, odd), lengths, strict=True)
        ]
        (even_whitening, odd_whitening), whitening_unit = whole((answers[0], answers[1]), largest)
        most = max(np.linalg.norm(part, 2) for part in (even_whitening, odd_whitening))
        if 2 * side * side * 3 * (most * MIDDLE * shrink * shrink) ** 2 >= EXACT_SQUARES:
            raise PoisonproofError(f"A patch of {side} × {side} pixels is too large for exact sums of squares.")
    return Filters(even_weights, odd_weights, unit, even_whitening, odd_whitening, whitening_unit)


def shrunk(images: NDArray[Any], shrink: int) -> NDArray[Any]:
    """Sums over blocks of shrink × shrink pixels: integers again; pixels that fill no block are left out."""
    if shrink == 1:
        return images
    n, height, width, colours = images.shape
    rows, columns = height // shrink, width // shrink
    blocks = images[:, : rows * shrink, : columns * shrink].reshape(n, rows, shrink, columns, shrink, colours)
    return blocks.sum(axis=(2, 4), dtype=np.int32)


@njit(nogil=True, cache=True)
def choose_patches(images: NDArray[Any], side: int, state: NDArray[np.uint64], out: NDArray[np.float64]) -> None:
    """Random patches of images that are not flat."""
    count = 0
    while count < len(out):
        image = images[int(random_share(state) * len(images))]
        y = int(random_share(state) * (image.shape[0] - side + 1))
        x = int(random_share(state) * (image.shape[1] - side + 1))
        at = 0
        for dy in range(side):
            for dx in range(side):
                for c in range(image.shape[2]):
                    out[count, at] = image[y + dy, x + dx, c]
                    at += 1
        if out[count].max() > out[count].min():
            count += 1


@njit(nogil=True, cache=True)
def gather(image: NDArray[Any], side: int, middle: int, even: Matrix, odd: Matrix) -> None:
    """Even and odd coordinates of every patch of an image (height, width, colours) less its middle, a row per place."""
    height, width, colours = image.shape
    half = side // 2
    zero = np.float32(middle)
    at = 0
    for y in range(height - side + 1):
        for x in range(width - side + 1):
            i = j = 0
            for dy in range(side):
                for dx in range(half):
                    for c in range(colours):
                        here = np.float32(image[y + dy, x + dx, c]) - zero
                        mirrored = np.float32(image[y + dy, x + side - 1 - dx, c]) - zero
                        even[at, i] = here + mirrored
                        odd[at, j] = here - mirrored
                        i += 1
                        j += 1
                if side % 2:
                    for c in range(colours):
                        even[at, i] = np.float32(image[y + dy, x + half, c]) - zero
                        i += 1
            at += 1


@njit(nogil=True, cache=True, fastmath={"reassoc"})
def inverse_lengths(even: Matrix, odd: Matrix, unit: float, floor: float, scale: float, out: Matrix) -> None:
    """scale / √(|answers / unit|² + floor) for every place.

    The squares are integers whose sum stays below 2^53, so that grouping the sum differently cannot change it.
    """
    for at in range(len(even)):
        total = 0.0
        for i in range(even.shape[1]):
            total += np.float64(even[at, i]) * np.float64(even[at, i])
        rest = 0.0
        for i in range(odd.shape[1]):
            rest += np.float64(odd[at, i]) * np.float64(odd[at, i])
        length = math.sqrt((total + rest) / (unit * unit) + floor)
        out[at] = scale / length if length > 0.0 else 0.0


@njit(nogil=True, cache=True)
def pool(
    even: Matrix,
    odd: Matrix,
    inverse: Matrix,
    threshold: float,
    weights: Matrix,
    out: NDArray[np.float32],
) -> None:
    """What of the answers passes a threshold, of either sign, summed in windows.

    ``out`` (rows, columns, 4, pairs): filters, their mirror images, then the same for negative answers; place y counts
    ``weights[y, row]`` in a row, and so for columns.
    """
    side, grid = weights.shape
    pairs = even.shape[1]
    limit = np.float32(threshold)
    zero = np.float32(0.0)
    passed = np.empty((4, pairs), np.float32)
    band = np.empty((grid, 4, pairs), np.float32)
    out[:] = zero
    for y in range(side):
        band[:] = zero
        for x in range(side):
            at = y * side + x
            factor = inverse[at]
            if factor == zero:
                continue
            e, o = even[at], odd[at]
            p0, p1, p2, p3 = passed[0], passed[1], passed[2], passed[3]
            for j in range(pairs):
                one = (e[j] + o[j]) * factor
                other = (e[j] - o[j]) * factor
                p0[j] = max(one - limit, zero)
                p1[j] = max(other - limit, zero)
                p2[j] = max(-one - limit, zero)
                p3[j] = max(-other - limit, zero)
            flat = passed.ravel()
            for column in range(grid):
                weight = weights[x, column]
                if weight > zero:
                    line = band[column].ravel()
                    for j in range(4 * pairs):
                        line[j] += weight * flat[j]
        for row in range(grid):
            weight = weights[y, row]
            if weight > zero:
                total = out[row].ravel()
                flat_band = band.ravel()
                for j in range(grid * 4 * pairs):
                    total[j] += weight * flat_band[j]

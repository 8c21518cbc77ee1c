"""Counts on a grid, made comparable: each direction in which counts vary over dead leaves weighs about the same.

Random filters answer alike, so a few directions (much contrast, one orientation) would drown the others. Counts are
compressed by a root, rounded to integers and multiplied by integer weights: exact, like the products before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.learners.feature_maps import unit_length
from poisonproof.system.compiled import njit
from research.maps.patches import Matrix, whole

ROOT_STEPS = 64.0  # steps of a root of average size, before the product
ROOT_LIMIT = 511  # eight times that
LIMIT = 127  # of a finished feature


@dataclass(frozen=True)
class Levels:
    """Integer weights of the directions on sums and on differences of filters and their mirror images.

    Mirroring keeps what an even direction says and turns round the sign of an odd one. ``mean``: what the even
    directions say of dead leaves on average.
    """

    power: float
    even: Matrix
    odd: Matrix
    mean: NDArray[np.float64]


def n_placed(grid: int, width: int, mirrored: bool) -> int:
    """Length of cells of this width in a vector; of half of it if there is a half for each of two mirrored sides.

    A middle column is its own mirror image and stands in both halves.
    """
    return grid * ((grid + 1) // 2 if mirrored else grid) * width


def levels_of(grids: NDArray[np.float32], power: float, directions: int, damping: float) -> Levels:
    """The directions in which counts (n, rows, columns, 4, pairs) on procedural images vary most, made even.

    ``damping``: variance added to every direction, relative to the largest; the larger it is, the more the directions
    keep their own weights.
    """
    parts = [part.astype(np.float64) for part in _parts(grids, power)]
    mean = parts[0].mean(axis=0)
    parts[0] -= mean
    decompositions = [np.linalg.eigh(part.T @ part / len(part)) for part in parts]
    even_weights, odd_weights = levelled(decompositions, directions, damping)
    (even, odd), _ = whole((even_weights, odd_weights), 2 * ROOT_LIMIT)
    return Levels(power, even, odd, mean @ even.astype(np.float64))


def levelled(
    decompositions: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]], count: int, damping: float
) -> list[NDArray[np.float64]]:
    """The count directions of largest variance in all, each divided by its damped deviation.

    ``decompositions``: variances and directions (columns) of each part. A direction's largest entry is made positive,
    for which of its two signs the linear algebra gives is arbitrary.
    """
    variances = np.concatenate([values for values, _ in decompositions])
    kept = np.zeros(len(variances), bool)
    kept[np.argsort(-variances, kind="stable")[:count]] = True
    largest = float(variances.max())
    weights, at = [], 0
    for values, vectors in decompositions:
        chosen = kept[at : at + len(values)]
        columns = vectors[:, chosen]
        columns = columns * np.where(columns[np.abs(columns).argmax(axis=0), np.arange(chosen.sum())] < 0, -1.0, 1.0)
        weights.append(columns / np.sqrt(np.maximum(values[chosen], 0.0) + damping * largest))
        at += len(values)
    return weights


def write_counts(
    grids: NDArray[np.float32],
    levels: Levels,
    length: float,
    mirrored: bool,
    left: NDArray[np.int8],
    right: NDArray[np.int8],
) -> None:
    """Levelled counts of each image as integers, together of a length; where they go: see `place_cells`."""
    even, odd = _parts(grids, levels.power)
    _write(even @ levels.even, odd @ levels.odd, levels.mean, grids.shape[1], length, mirrored, left, right)


def _parts(grids: NDArray[np.float32], power: float) -> tuple[Matrix, Matrix]:
    """Rounded roots: sums and differences of filters and their mirror images, a row per cell."""
    if power not in (0.5, 0.25):
        raise PoisonproofError(f"The 'power' of counts must be 0.5 or 0.25. Got {power!r} instead.")
    n, rows, columns, _, pairs = grids.shape
    even = np.empty((n * rows * columns, 2 * pairs), np.float32)
    odd = np.empty((n * rows * columns, 2 * pairs), np.float32)
    _roots(grids, power == 0.25, even, odd)
    return even, odd


@njit(nogil=True, cache=True)
def _roots(grids: NDArray[np.float32], twice: bool, even: Matrix, odd: Matrix) -> None:
    n, rows, columns, _, pairs = grids.shape
    cells = rows * columns
    for i in range(n):
        values = grids[i].ravel().astype(np.float64)
        for j in range(len(values)):
            values[j] = math.sqrt(values[j])
            if twice:
                values[j] = math.sqrt(values[j])
        factor = unit_length(values) * math.sqrt(len(values)) * ROOT_STEPS
        shaped = values.reshape((cells, 2, 2, pairs))
        for cell in range(cells):
            for sign in range(2):
                for j in range(pairs):
                    here = min(ROOT_LIMIT, int(shaped[cell, sign, 0, j] * factor + 0.5))
                    mirror = min(ROOT_LIMIT, int(shaped[cell, sign, 1, j] * factor + 0.5))
                    even[i * cells + cell, sign * pairs + j] = here + mirror
                    odd[i * cells + cell, sign * pairs + j] = here - mirror


@njit(nogil=True, cache=True)
def _write(
    even: Matrix,
    odd: Matrix,
    mean: NDArray[np.float64],
    grid: int,
    length: float,
    mirrored: bool,
    left: NDArray[np.int8],
    right: NDArray[np.int8],
) -> None:
    n_even, n_odd = even.shape[1], odd.shape[1]
    values = np.empty((grid, grid, n_even + n_odd))
    for i in range(len(left)):
        for row in range(grid):
            for column in range(grid):
                at = (i * grid + row) * grid + column
                for j in range(n_even):
                    values[row, column, j] = even[at, j] - mean[j]
                for j in range(n_odd):
                    values[row, column, n_even + j] = odd[at, j]
        place_cells(values, n_even, unit_length(values.ravel()) * length, mirrored, left[i], right[i])


@njit(nogil=True, cache=True)
def place_cells(
    values: NDArray[np.float64],
    n_even: int,
    factor: float,
    mirrored: bool,
    left: NDArray[np.int8],
    right: NDArray[np.int8],
) -> None:
    """Values (rows, columns, width) times a factor, as integers.

    All in ``left``; or, if mirrored, columns on the left side in ``left`` and in ``right`` what stands there in the
    mirrored image, which turns round the sign of all but the first ``n_even`` values of a cell. A cell in the middle
    column is its own mirror image and stands in both, at 1/√2.
    """
    grid, width = values.shape[1:]
    at = 0
    for row in range(values.shape[0]):
        for column in range((grid + 1) // 2 if mirrored else grid):
            mirror = grid - 1 - column
            weight = factor * math.sqrt(0.5) if mirrored and column == mirror else factor
            for j in range(width):
                left[at] = within(values[row, column, j] * weight)
                if mirrored:
                    right[at] = within(values[row, mirror, j] * (weight if j < n_even else -weight))
                at += 1


@njit(nogil=True, cache=True)
def within(value: float) -> int:
    """The nearest integer from −LIMIT to LIMIT, halves away from 0."""
    return max(-LIMIT, min(LIMIT, int(value + 0.5 if value >= 0.0 else value - 0.5)))

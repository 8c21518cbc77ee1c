"""How far one sample is from another, as a whole number that is the same on every machine.

Features are small whole numbers, so inner products are exact in single precision, in whatever order they are added: no
sum of magnitudes passes the product of two lengths (Cauchy and Schwarz), which is at most 2²⁴. From products come
squared Euclidean distances without rounding.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.system.compiled import njit

LONGEST_SQUARED = 1 << 24


def limit_of(near: float, scale: float) -> int:
    """The greatest squared distance that counts as near: exactly what was declared, as a whole number.

    ``near``: a Euclidean distance in units of ``scale`` steps of the features.
    """
    declared = isinstance(near, int | float | np.integer | np.floating) and not isinstance(near, bool)
    if not (declared and math.isfinite(near) and near >= 0):
        raise PoisonproofError(
            "The 'near' parameter is the greatest distance that counts as near, a number from 0 on. "
            f"Got {near!r} instead.",
            code="ballots.parameter",
        )
    return min(math.floor((Fraction(float(near)) * Fraction(scale)) ** 2), 4 * LONGEST_SQUARED)


def squared_lengths(rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Exact squared lengths, and which rows are short enough that every product with them is exact."""
    wide = rows.astype(np.int64)
    lengths = np.einsum("ij,ij->i", wide, wide)
    return lengths, lengths <= LONGEST_SQUARED


@njit(nogil=True, cache=True)
def count_near(
    products: NDArray[Any],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    limit: int,
    cells: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:
    """counts[t, cells[j]] += 1 for every row j within the limit of test sample t."""
    for t in range(products.shape[0]):
        least = left[t] - limit
        for j in range(products.shape[1]):
            counts[t, cells[j]] += np.int64(2 * products[t, j]) >= least + right[j]


@njit(nogil=True, cache=True)
def count_near_in_runs(
    products: NDArray[Any],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    limit: int,
    cells: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:
    """As `count_near`, where rows of one cell stand together: many are compared at once."""
    edges = np.append(np.append(0, np.flatnonzero(cells[1:] != cells[:-1]) + 1), len(cells))
    for t in range(products.shape[0]):
        least = left[t] - limit
        for run in range(len(edges) - 1):
            total = np.int64(0)
            for j in range(edges[run], edges[run + 1]):
                total += np.int64(2 * products[t, j]) >= least + right[j]
            counts[t, cells[edges[run]]] += total


@njit(nogil=True, cache=True)
def write_distances(
    products: NDArray[Any],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    out: NDArray[np.int32],
) -> None:
    """The distance of every row j to test sample t."""
    for t in range(products.shape[0]):
        for j in range(products.shape[1]):
            out[t, j] = left[t] + right[j] - np.int64(2 * products[t, j])


@njit(nogil=True, cache=True)
def products_directly(rows: NDArray[Any], test: NDArray[np.int16], out: NDArray[np.float32]) -> None:
    """Products of each row with one test sample, in integers: for a few test samples, cheaper than by matrices.

    Every sum is brought back to 32 bits, which it never leaves, so that the processor takes many numbers at once.
    """
    for j in range(rows.shape[0]):
        row = rows[j]
        total = np.int32(0)
        for i in range(rows.shape[1]):
            total = np.int32(total + np.int32(np.int32(row[i]) * np.int32(test[i])))
        out[j] = total

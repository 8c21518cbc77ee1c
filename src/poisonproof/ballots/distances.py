"""How far one sample is from another, as a whole number that is the same on every machine.

Features are small whole numbers, so inner products are exact in single precision, in whatever order they are added: no
sum of magnitudes passes the product of two lengths (Cauchy and Schwarz), which is at most 2²⁴. From products come
distances without rounding: squared Euclidean ones, or steps of 2⁻²⁰ between the cosine and 1, rounded up. Where
floating-point arithmetic cannot tell which step it is, integers of 128 bits do.

With mirrored features a distance is the smaller one to a sample and its mirror image.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.system.compiled import njit

Metric = Literal["euclidean", "cosine"]
METRICS = get_args(Metric)
LONGEST_SQUARED = 1 << 24
STEPS = 1 << 20  # of the cosine, from 0 to 1
FARTHEST = 2 * STEPS + 1  # beyond a cosine of −1: a vector of zeros has no direction and is near nothing
DOUBTFUL = 2.0**-20  # of a step; what floats lose is a thousand times less
TESTS_AT_ONCE = 1024
HALF = np.uint64(32)
LOW = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class Nearness:
    """The metric, and whether distances are the smaller ones to a sample and its mirror image."""

    metric: Metric = "euclidean"
    mirrored: bool = False

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise PoisonproofError(
                f"The 'metric' parameter must be one of {list(METRICS)}. Got {self.metric!r} instead."
            )

    @property
    def cosine(self) -> bool:
        """Whether distances are steps of the cosine."""
        return self.metric == "cosine"

    def limit(self, near: float, scale: float) -> int:
        """The greatest distance that counts as near: exactly what was declared, as a whole number.

        ``near``: a Euclidean distance in units of 1/scale steps of the features, or the least cosine, which is rounded
        up to a multiple of 2⁻²⁰.
        """
        declared = isinstance(near, int | float | np.integer | np.floating) and not isinstance(near, bool)
        if self.cosine:
            if not (declared and -1.0 <= near <= 1.0):
                raise PoisonproofError(
                    f"The 'near' parameter is the least cosine that counts as near, from -1 to 1. Got {near!r} instead."
                )
            return STEPS - math.ceil(Fraction(float(near)) * STEPS)
        if not (declared and math.isfinite(near) and near >= 0):
            raise PoisonproofError(
                "The 'near' parameter is the greatest distance that counts as near, a number from 0 on. "
                f"Got {near!r} instead."
            )
        return min(math.floor((Fraction(float(near)) * Fraction(scale)) ** 2), 4 * LONGEST_SQUARED)

    def own(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """The distance of each sample to a copy of itself: 0, but for a vector of zeros under the cosine."""
        return np.where(lengths == 0, FARTHEST, 0) if self.cosine else np.zeros(len(lengths), np.int64)

    def fed(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Rows as they enter a product: as they are, or the sums and the differences of their halves."""
        fed = rows.astype(np.float32)
        if self.mirrored:
            half = fed.shape[1] // 2
            mirror = fed[:, half:].copy()
            np.subtract(fed[:, :half], mirror, out=fed[:, half:])
            fed[:, :half] += mirror
        return fed

    def products(self, test: NDArray[np.float32], rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Exact inner products (n_test, n_rows) of what `fed` gave; of mirrored features, the larger of the two."""
        if not self.mirrored:
            return np.matmul(test, rows.T)
        half = test.shape[1] // 2
        even, odd = np.matmul(test[:, :half], rows[:, :half].T), np.matmul(test[:, half:], rows[:, half:].T)
        np.abs(odd, out=odd)
        even += odd
        even *= np.float32(0.5)
        return even


def squared_lengths(rows: NDArray[Any], *, mirrored: bool = False) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Exact squared lengths, and which rows are short enough that every product with them is exact."""
    wide = rows.astype(np.int64)
    lengths = np.einsum("ij,ij->i", wide, wide)
    short = lengths <= LONGEST_SQUARED
    if mirrored:
        half, mirror = np.split(wide, 2, axis=1)
        for halves in (half + mirror, half - mirror):
            short &= np.einsum("ij,ij->i", halves, halves) <= LONGEST_SQUARED
    return lengths, short


def limits_of_share(test: NDArray[Any], rows: NDArray[Any], share: float) -> NDArray[np.int64]:
    """For every test sample, the squared distance within which this share of the rows lies, at least one of them.

    Whole numbers: the ⌈share · n⌉-th smallest of the exact distances to the n rows. No row may be longer than 4095.
    """
    at = max(math.ceil(Fraction(float(share)) * len(rows)), 1) - 1
    right, voters = squared_lengths(rows)[0], rows.astype(np.float32)
    limits = np.empty(len(test), np.int64)
    for start in range(0, len(test), TESTS_AT_ONCE):
        part = test[start : start + TESTS_AT_ONCE]
        distances = right - 2 * (part.astype(np.float32) @ voters.T).astype(np.int64)
        limits[start : start + len(part)] = squared_lengths(part)[0] + np.partition(distances, at, axis=1)[:, at]
    return limits


@njit(nogil=True, cache=True)
def count_near(
    products: NDArray[Any],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    cosine: bool,
    limit: int,
    cells: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:
    """counts[t, cells[j]] += 1 for every row j within the limit of test sample t."""
    if cosine:
        for t in range(products.shape[0]):
            for j in range(products.shape[1]):
                counts[t, cells[j]] += _steps(products[t, j], left[t], right[j]) <= limit
        return
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
    """As `count_near` for Euclidean distances, where rows of one cell stand together: many are compared at once."""
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
    cosine: bool,
    out: NDArray[np.int32],
) -> None:
    """The distance of every row j to test sample t."""
    for t in range(products.shape[0]):
        for j in range(products.shape[1]):
            if cosine:
                out[t, j] = _steps(products[t, j], left[t], right[j])
            else:
                out[t, j] = left[t] + right[j] - np.int64(2 * products[t, j])


@njit(nogil=True, cache=True)
def products_directly(rows: NDArray[Any], test: NDArray[np.int16], mirrored: bool, out: NDArray[np.float32]) -> None:
    """Products of each row with one test sample, in integers: for a few test samples, cheaper than by matrices.

    Every sum is brought back to 32 bits, which it never leaves, so that the processor takes many numbers at once.
    """
    width = rows.shape[1]
    if not mirrored:
        for j in range(rows.shape[0]):
            row = rows[j]
            total = np.int32(0)
            for i in range(width):
                total = np.int32(total + np.int32(np.int32(row[i]) * np.int32(test[i])))
            out[j] = total
        return
    half = width // 2
    for j in range(rows.shape[0]):
        row = rows[j]
        plain, swapped = np.int32(0), np.int32(0)
        for i in range(width):
            plain = np.int32(plain + np.int32(np.int32(row[i]) * np.int32(test[i])))
        for i in range(half):
            swapped = np.int32(swapped + np.int32(np.int32(row[i]) * np.int32(test[half + i])))
        for i in range(half):
            swapped = np.int32(swapped + np.int32(np.int32(row[half + i]) * np.int32(test[i])))
        out[j] = max(plain, swapped)


@njit(nogil=True, cache=True)
def _steps(product: float, left: int, right: int) -> int:
    """How many whole steps the cosine lies below 1, rounded up."""
    if left == 0 or right == 0:
        return FARTHEST
    value = abs(float(product)) * (STEPS / math.sqrt(float(left) * float(right)))
    whole = int(value)
    fraction = value - whole
    if fraction < DOUBTFUL or fraction > 1.0 - DOUBTFUL:
        whole = int(value + 0.5)
        if not _at_least(abs(int(product)), left, right, whole):
            whole -= 1
        if product < 0 and not _is(abs(int(product)), left, right, whole):
            whole += 1
    elif product < 0:
        whole += 1
    return STEPS - whole if product >= 0 else STEPS + whole


@njit(nogil=True, cache=True)
def _at_least(product: int, left: int, right: int, whole: int) -> bool:
    """Whether product / √(left · right) ≥ whole / 2²⁰: the squares, in 128 bits."""
    high, low = _square_times(whole, left, right)
    squared = np.uint64(product) * np.uint64(product)
    own_high, own_low = squared >> np.uint64(24), squared << np.uint64(40)
    if own_high == high:
        return bool(own_low >= low)
    return bool(own_high > high)


@njit(nogil=True, cache=True)
def _is(product: int, left: int, right: int, whole: int) -> bool:
    high, low = _square_times(whole, left, right)
    squared = np.uint64(product) * np.uint64(product)
    return bool(squared >> np.uint64(24) == high) and bool(squared << np.uint64(40) == low)


@njit(nogil=True, cache=True)
def _square_times(whole: int, left: int, right: int) -> tuple[np.uint64, np.uint64]:
    """whole² · left · right, of at most 2⁸⁸, as two words."""
    a, b = np.uint64(whole) * np.uint64(whole), np.uint64(left) * np.uint64(right)
    a_high, a_low, b_high, b_low = a >> HALF, a & LOW, b >> HALF, b & LOW
    middle = a_high * b_low + a_low * b_high
    lowest = a_low * b_low
    low = lowest + (middle << HALF)
    carry = np.uint64(1) if low < lowest else np.uint64(0)
    return a_high * b_high + (middle >> HALF) + carry, low

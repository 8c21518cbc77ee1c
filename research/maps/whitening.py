"""Whitening: the directions in which some samples vary, brought to comparable sizes; as whole numbers.

The directions are found in floating point, once. What comes of it is data: integer offsets, integer weights and one
factor for each direction. A sample is described by an exact product with them, shortened or stretched to one length and
rounded to integers, so that its description depends on nothing but itself: not on its batch, nor on threads.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import DamagedFileError, PoisonproofError
from poisonproof.learners.feature_maps import LONGEST
from poisonproof.system.compiled import njit
from poisonproof.system.determinism import one_linear_algebra_thread
from poisonproof.system.threads import in_threads

EXACT = 2**24  # a float32 sum of integers is exact as long as no partial sum passes this
ROWS_PER_TASK = 1024
SMALLEST_VARIANCE = 1e-9  # of the largest: less is noise of the arithmetic
LENGTH = 1024.0


@dataclass(frozen=True, eq=False)
class Whitening:
    """Whole numbers of length ``scale`` from whole numbers of any length.

    Attributes
    ----------
    offsets : array (n_features,) of int32
        What is taken off a vector: the rounded mean.
    weights : array (n_features, n_directions) of float32
        Whole numbers, directions in columns. No column is longer than 2²⁴ / 4095, and vectors longer than 4095 are
        shortened to that, so no partial sum of a product passes 2²⁴ (Cauchy and Schwarz): products are exact.
    factors : array (n_directions,) of float64
        What each direction is multiplied with.
    scale : float
        Length of the result; a vector that lies where the offsets do gives zeros.
    """

    offsets: NDArray[np.int32]
    weights: NDArray[np.float32]
    factors: NDArray[np.float64]
    scale: float = LENGTH

    def __post_init__(self) -> None:
        longest = np.sqrt(np.square(self.weights.astype(np.float64)).sum(axis=0)).max(initial=0.0)
        whole = np.array_equal(self.weights, np.rint(self.weights))
        shapes = self.weights.shape == (len(self.offsets), len(self.factors))
        if not (shapes and whole and longest <= EXACT / LONGEST and np.isfinite(self.factors).all()):
            raise DamagedFileError("These are not the weights of a whitening: whole numbers in columns short enough.")
        if not 1 <= self.scale <= LONGEST - math.sqrt(len(self.factors)):
            raise PoisonproofError(
                f"The 'scale' of a whitening must be from 1 to {LONGEST} less rounding. Got {self.scale!r} instead."
            )
        for array in (self.offsets, self.weights, self.factors):
            array.flags.writeable = False

    @classmethod
    def of(cls, rows: NDArray[Any], directions: int, exponent: float, scale: float = LENGTH) -> Whitening:
        """From the samples whose variation is to be levelled, as integer rows (n, n_features).

        The ``directions`` of largest variance are kept, or all in which the rows vary; a direction of variance v is
        multiplied by v to the power −``exponent``: 0 keeps sizes as they are, ½ makes them equal. A function of the
        rows in their order, on one thread.
        """
        if isinstance(directions, bool) or not isinstance(directions, int | np.integer) or directions < 1:
            raise PoisonproofError(f"The 'directions' must be a whole number ≥ 1. Got {directions!r} instead.")
        if not 0.0 <= exponent <= 1.0:
            raise PoisonproofError(f"The 'exponent' of a whitening must be from 0 to 1. Got {exponent!r} instead.")
        if rows.ndim != 2 or len(rows) < 2:
            raise PoisonproofError(f"A whitening needs 2 samples or more. Got an array of shape {rows.shape}.")
        offsets = np.rint(rows.mean(axis=0, dtype=np.float64)).astype(np.int32)
        centred = rows.astype(np.float64) - offsets
        with one_linear_algebra_thread():
            variances, vectors = _principal(centred, int(directions))
        length = EXACT / LONGEST - math.sqrt(rows.shape[1]) / 2  # rounding makes a column longer by that at most
        weights = np.rint(vectors * length).astype(np.float32)
        factors = (variances / variances[0]) ** -exponent if len(variances) else variances
        return cls(offsets, weights, factors, scale)

    @property
    def n_features(self) -> int:
        """Length of what comes out: the number of directions."""
        return len(self.factors)

    @property
    def digest(self) -> str:
        """SHA-256 of all that the result depends on."""
        hashed = hashlib.sha256(f"poisonproof whitening {self.weights.shape} {self.scale!r} ".encode())
        for array, dtype in ((self.offsets, "<i4"), (self.weights, "<f4"), (self.factors, "<f8")):
            hashed.update(np.ascontiguousarray(array, dtype=dtype).tobytes())
        return hashed.hexdigest()

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.int16]:
        """Whitened rows (n, n_directions) of integer rows (n, n_features)."""
        if rows.ndim != 2 or rows.shape[1] != len(self.offsets):
            raise PoisonproofError(
                f"A whitening of {len(self.offsets)} features met features of shape {rows.shape}; it goes with one map."
            )
        out = np.empty((len(rows), self.n_features), np.int16)

        def work(start: int, stop: int) -> None:
            narrow = rows.dtype == np.int16 and rows.flags.c_contiguous  # one pass over the rows instead of four
            part = rows[start:stop] if narrow else np.ascontiguousarray(rows[start:stop], dtype=np.int32)
            centred = np.empty(part.shape, np.float32)
            _centre(part, self.offsets, centred)
            _to_length(centred @ self.weights, self.factors, self.scale, out[start:stop])

        with one_linear_algebra_thread():
            in_threads(len(rows), ROWS_PER_TASK, work)
        return out


def _principal(centred: NDArray[np.float64], most: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Variances of centred rows along the directions in which they vary most, and these as columns of length 1."""
    n_rows, n_features = centred.shape
    few = n_rows < n_features  # then the products of rows with rows are the smaller matrix
    values, vectors = np.linalg.eigh((centred @ centred.T if few else centred.T @ centred) / n_rows)
    values, vectors = values[::-1][:most], vectors[:, ::-1][:, :most]
    kept = values > SMALLEST_VARIANCE * max(float(values.max(initial=0.0)), 0.0)
    values, vectors = values[kept], vectors[:, kept]
    if few:
        vectors = centred.T @ vectors / np.sqrt(values * n_rows)
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(len(values))] if len(values) else np.empty(0)
    return values, vectors * np.where(largest < 0, -1.0, 1.0)  # which sign linear algebra gives is arbitrary


@njit(nogil=True, cache=True)
def _centre(rows: NDArray[Any], offsets: NDArray[np.int32], out: NDArray[np.float32]) -> None:
    """Rows less the offsets; those longer than LONGEST are brought to that length. Whole numbers, exact."""
    for i in range(rows.shape[0]):
        square = np.int64(0)
        for j in range(rows.shape[1]):
            value = np.int32(rows[i, j]) - offsets[j]
            out[i, j] = value
            square += np.int64(value) * np.int64(value)
        if square > LONGEST * LONGEST:
            factor = LONGEST / math.sqrt(float(square))
            for j in range(rows.shape[1]):
                out[i, j] = int((np.int32(rows[i, j]) - offsets[j]) * factor)  # towards zero: never longer


@njit(nogil=True, cache=True)
def _to_length(
    products: NDArray[np.float32], factors: NDArray[np.float64], scale: float, out: NDArray[np.int16]
) -> None:
    values = np.empty(len(factors))
    for i in range(products.shape[0]):
        total = 0.0
        for j in range(len(values)):
            values[j] = float(products[i, j]) * factors[j]
            total += values[j] * values[j]
        factor = scale / math.sqrt(total) if total > 0.0 else 0.0
        for j in range(len(values)):
            out[i, j] = int(np.rint(values[j] * factor))

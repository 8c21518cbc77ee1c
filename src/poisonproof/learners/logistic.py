"""Logistic regression on rows of few numbers and a few ones: what a table with categories is, once encoded.

A one-hot row is nearly all noughts. Here a row is its numbers and the places of its ones, so a look at a subset costs
what its cells are, not what its columns are; and steps are scaled by the curvature at the start, which is known
exactly, so a dozen looks are enough where L-BFGS alone takes forty. All is summed in a fixed order, by one thread and
without linear algebra of others, so weights are a function of the subset to the bit, whatever BLAS is installed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poisonproof.system.compiled import njit

WIDEST = 256  # columns up to which curvature is kept whole; its factor costs their third power
TOLERANCE = 1e-4  # of the steepest slope of the mean loss, as scikit-learn stops
LANES = 8  # sums side by side, which are added up in one order
MEMORY = 8  # steps that tell how curvature has changed since the start
LEAST_DESCENT, MOST_HALVINGS, LEAST_PIVOT = 1e-4, 30, 1e-10


@dataclass(frozen=True, eq=False)
class Design:
    """Rows as numbers, and as places of ones among the other columns.

    Attributes
    ----------
    numbers : array (numbers, rows)
        One column after the other.
    starts : array (rows + 1,)
        Where the ones of each row begin.
    ones : array
        Their columns, counted from behind the numbers.
    n_columns : int
        How many columns there are, numbers included.
    """

    numbers: NDArray[np.float64]
    starts: NDArray[np.int64]
    ones: NDArray[np.int64]
    n_columns: int

    @classmethod
    def of(cls, numbers: NDArray[np.float64], places: NDArray[np.int64], n_ones: int) -> Design:
        """Of numbers (rows, numbers) and the places of ones (rows, most ones), -1 where there is none."""
        held = places >= 0
        starts = np.concatenate(([0], held.sum(axis=1).cumsum()))
        padded = np.zeros((numbers.shape[1], -(-len(numbers) // LANES) * LANES))
        padded[:, : len(numbers)] = numbers.T
        return cls(padded, starts, places[held], numbers.shape[1] + n_ones)


@dataclass(frozen=True, eq=False)
class Regression:
    """Weights (scores, columns), bias (scores,), and the steps that were taken. One score tells two classes apart."""

    weights: NDArray[np.float64]
    bias: NDArray[np.float64]
    n_steps: int


def fit_logistic(
    design: Design, codes: NDArray[np.int64], n_classes: int, C: float = 1.0, max_iter: int = 200
) -> Regression:
    """Multinomial logistic regression with an L2 penalty on the weights, as scikit-learn's minimises it.

    ``codes`` are classes from 0 on. The loss is convex and its minimum unique; this stops where no slope of the mean
    loss exceeds `TOLERANCE`.
    """
    slots = 1 if n_classes == 2 else n_classes
    weights, n_steps = _descend(
        design.numbers, design.starts, design.ones, codes, design.n_columns, slots, 1.0 / (C * len(codes)), max_iter
    )
    return Regression(np.ascontiguousarray(weights[:, :-1]), weights[:, -1].copy(), int(n_steps))


@njit(nogil=True, cache=True)
def _dot(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Of arrays whose length is a multiple of `LANES`."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for at in range(0, len(a), 8):
        s0 += a[at] * b[at]
        s1 += a[at + 1] * b[at + 1]
        s2 += a[at + 2] * b[at + 2]
        s3 += a[at + 3] * b[at + 3]
        s4 += a[at + 4] * b[at + 4]
        s5 += a[at + 5] * b[at + 5]
        s6 += a[at + 6] * b[at + 6]
        s7 += a[at + 7] * b[at + 7]
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


@njit(nogil=True, cache=True)
def _residuals(scores: NDArray[np.float64], codes: NDArray[np.int64]) -> float:
    """The loss of all rows; scores become what is said of each class less what is true."""
    loss = 0.0
    if len(scores) == 1:
        for row in range(len(codes)):
            score = scores[0, row]
            small = math.exp(-abs(score))
            right = 1.0 if codes[row] == 1 else 0.0
            loss += math.log1p(small) + max(score, 0.0) - score * right
            scores[0, row] = (1.0 if score >= 0.0 else small) / (1.0 + small) - right
        return loss
    for row in range(len(codes)):
        highest = scores[0, row]
        for c in range(1, len(scores)):
            highest = max(highest, scores[c, row])
        loss -= scores[codes[row], row] - highest
        total = 0.0
        for c in range(len(scores)):
            scores[c, row] = math.exp(scores[c, row] - highest)
            total += scores[c, row]
        loss += math.log(total)
        for c in range(len(scores)):
            scores[c, row] /= total
        scores[codes[row], row] -= 1.0
    return loss


@njit(nogil=True, cache=True)
def _loss(
    numbers: NDArray[np.float64],
    starts: NDArray[np.int64],
    ones: NDArray[np.int64],
    codes: NDArray[np.int64],
    weights: NDArray[np.float64],
    penalty: float,
    scores: NDArray[np.float64],
    slopes: NDArray[np.float64],
) -> float:
    """The mean loss with its penalty, and its slopes (scores, columns and bias)."""
    n_numbers, n, last = len(numbers), len(codes), weights.shape[1] - 1
    for c in range(len(weights)):
        scores[c, :] = weights[c, last]
        for at in range(n_numbers):
            weight = weights[c, at]
            for row in range(n):
                scores[c, row] += numbers[at, row] * weight
        for row in range(n):
            for one in range(starts[row], starts[row + 1]):
                scores[c, row] += weights[c, n_numbers + ones[one]]
    loss = _residuals(scores, codes) / n
    for c in range(len(weights)):
        scores[c, n:] = 0.0
        slopes[c, n_numbers:] = 0.0
        for at in range(n_numbers):
            slopes[c, at] = _dot(numbers[at], scores[c])
        for row in range(n):
            for one in range(starts[row], starts[row + 1]):
                slopes[c, n_numbers + ones[one]] += scores[c, row]
            slopes[c, last] += scores[c, row]
        for at in range(last):
            loss += 0.5 * penalty * weights[c, at] * weights[c, at]
            slopes[c, at] = slopes[c, at] / n + penalty * weights[c, at]
        slopes[c, last] /= n
    return loss


@njit(nogil=True, cache=True)
def _curvature(
    numbers: NDArray[np.float64],
    starts: NDArray[np.int64],
    ones: NDArray[np.int64],
    n: int,
    n_columns: int,
    share: float,
    penalty: float,
) -> NDArray[np.float64]:
    """Cholesky's factor U (UᵀU) of the curvature where all weights are nought.

    There every class is as likely as the others, so on slopes that sum to nought over classes, as those of this loss
    do, curvature is the same matrix for each class: a share of the products of the columns, and the penalty.
    """
    n_numbers, last = len(numbers), n_columns
    upper = np.zeros((n_columns + 1, n_columns + 1))
    for at in range(n_numbers):
        for other in range(at, n_numbers):
            upper[at, other] = _dot(numbers[at], numbers[other])
        for row in range(n):
            upper[at, last] += numbers[at, row]
            for one in range(starts[row], starts[row + 1]):
                upper[at, n_numbers + ones[one]] += numbers[at, row]
    for row in range(n):
        for one in range(starts[row], starts[row + 1]):
            upper[n_numbers + ones[one], last] += 1.0
            for other in range(one, starts[row + 1]):
                upper[n_numbers + ones[one], n_numbers + ones[other]] += 1.0
    upper[last, last] = n
    for at in range(last + 1):
        for other in range(at, last + 1):
            upper[at, other] *= share / n
        if at < last:
            upper[at, at] += penalty
    for at in range(last + 1):
        diagonal = upper[at, at]
        for above in range(at):
            factor = upper[above, at]
            for other in range(at, last + 1):
                upper[at, other] -= factor * upper[above, other]
        pivot = math.sqrt(max(upper[at, at], LEAST_PIVOT * diagonal))
        for other in range(at, last + 1):
            upper[at, other] /= pivot
        upper[at, at] = pivot
    return upper


@njit(nogil=True, cache=True)
def _solve(upper: NDArray[np.float64], vector: NDArray[np.float64]) -> None:
    """The vector, divided by UᵀU."""
    for at in range(len(vector)):
        vector[at] /= upper[at, at]
        for other in range(at + 1, len(vector)):
            vector[other] -= upper[at, other] * vector[at]
    for back in range(len(vector)):
        at = len(vector) - 1 - back
        total = vector[at]
        for other in range(at + 1, len(vector)):
            total -= upper[at, other] * vector[other]
        vector[at] = total / upper[at, at]


@njit(nogil=True, cache=True)
def _sum_of_products(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    total = 0.0
    for c in range(len(a)):
        for at in range(a.shape[1]):
            total += a[c, at] * b[c, at]
    return total


@njit(nogil=True, cache=True)
def _steepest(slopes: NDArray[np.float64]) -> float:
    most = 0.0
    for c in range(len(slopes)):
        for at in range(slopes.shape[1]):
            most = max(most, abs(slopes[c, at]))
    return most


@njit(nogil=True, cache=True)
def _descend(
    numbers: NDArray[np.float64],
    starts: NDArray[np.int64],
    ones: NDArray[np.int64],
    codes: NDArray[np.int64],
    n_columns: int,
    slots: int,
    penalty: float,
    max_iter: int,
) -> tuple[NDArray[np.float64], int]:
    """L-BFGS, from weights of nought and the curvature there."""
    shape = (slots, n_columns + 1)
    weights, tried, direction, slopes, others = (
        np.zeros(shape),
        np.empty(shape),
        np.empty(shape),
        np.empty(shape),
        np.empty(shape),
    )
    scores = np.empty((slots, -(-len(codes) // LANES) * LANES))
    steps, turns = np.empty((MEMORY, *shape)), np.empty((MEMORY, *shape))
    lengths, shares = np.empty(MEMORY), np.empty(MEMORY)
    upper = _curvature(numbers, starts, ones, len(codes), n_columns, 0.25 if slots == 1 else 1.0 / slots, penalty)
    loss = _loss(numbers, starts, ones, codes, weights, penalty, scores, slopes)
    n_steps = 0
    while n_steps < max_iter and _steepest(slopes) > TOLERANCE:
        direction[:] = -slopes
        oldest = max(0, n_steps - MEMORY)
        for back in range(n_steps - oldest):
            at = (n_steps - 1 - back) % MEMORY
            shares[at] = _sum_of_products(steps[at], direction) / lengths[at]
            direction -= shares[at] * turns[at]
        for c in range(slots):
            _solve(upper, direction[c])
        for step in range(oldest, n_steps):
            at = step % MEMORY
            direction += (shares[at] - _sum_of_products(turns[at], direction) / lengths[at]) * steps[at]
        descent, factor, lower = _sum_of_products(direction, slopes), 1.0, np.inf
        for _ in range(MOST_HALVINGS):
            tried[:] = weights + factor * direction
            lower = _loss(numbers, starts, ones, codes, tried, penalty, scores, others)
            if lower <= loss + LEAST_DESCENT * factor * descent:
                break
            factor *= 0.5
        at = n_steps % MEMORY
        steps[at] = tried - weights
        turns[at] = others - slopes
        lengths[at] = _sum_of_products(steps[at], turns[at])
        if not (lower <= loss and lengths[at] > 0.0):  # nothing is left but rounding
            break
        weights[:] = tried
        slopes[:] = others
        loss = lower
        n_steps += 1
    return weights, n_steps

"""Votes of stacked base classifiers by one matrix product, where it can be proved that no rounding decides them.

A product in any order, by any BLAS, differs from a sum in the fixed order by no more than a known multiple of the unit
roundoff u. With N numbers, either is within γ·T of the true score, where γ ≤ 1.01·(2N + 10)·u and
T = |b| + Σ (|x| + |μ|)·|w/σ| bounds the sum of all magnitudes (Higham, Accuracy and Stability, §3.1), as long as
nothing overflows and what underflows is too small to count. So a class that leads the product by more than 4·γ·T leads
the sum too; any other sample and base classifier is summed in the fixed order. Votes are the same to the bit, however
many threads the product is made by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.system.compiled import njit

UNIT = 2.0**-53
LEAST, MOST, FARTHEST = 1e-280, 1e30, 1e300  # beyond these, over- and underflow would have to be counted


@dataclass(frozen=True, eq=False)
class Folded:
    """Weights with scales and means folded in: score = x · weights + constant, all slots of all lanes side by side.

    ``at_rest`` and ``by_length`` bound T of each lane: at_rest + by_length · ‖x‖. Rows that are longer than ``reach``
    are summed.
    """

    weights: NDArray[np.float64]
    constant: NDArray[np.float64]
    at_rest: NDArray[np.float64]
    by_length: NDArray[np.float64]
    reach: NDArray[np.float64]

    @classmethod
    def of(cls, stack: Any) -> Folded:
        """Of a stack that reads nothing but numbers."""
        with np.errstate(all="ignore"):
            folded = stack.weights / stack.scale[:, None, :]
            shifts = folded * stack.mean[:, None, :]
            at_rest = (np.abs(stack.bias) + np.abs(shifts).sum(axis=0)).max(axis=0)
            by_length = np.sqrt(np.square(folded).sum(axis=0)).max(axis=0)
            constant = stack.bias - shifts.sum(axis=0)
            largest = np.maximum(np.abs(stack.weights).max(axis=(0, 1)), np.abs(stack.mean).max(axis=0))
            reach = np.minimum(MOST, FARTHEST * stack.scale.min(axis=0) - largest)
        reach[~(largest <= MOST)] = 0.0
        return cls(folded.reshape(len(folded), -1), constant.ravel(), at_rest, by_length, reach)

    def best(self, numbers: NDArray[np.float64], stack: Any) -> NDArray[np.uint16]:
        """What `TableStack.best` gives, for rows without a missing number."""
        best = np.empty((len(numbers), len(stack)), np.uint16)
        with np.errstate(all="ignore"):
            scores = numbers @ self.weights
            scores += self.constant
            lengths = np.sqrt(np.square(numbers).sum(axis=1))
        step = 4 * 1.01 * (2 * numbers.shape[1] + 10) * UNIT
        _decide(
            scores.reshape(len(numbers), *stack.bias.shape), lengths, step, self.at_rest, self.by_length, self.reach,
            numbers, stack.slots, stack.bias, stack.mean, stack.scale, stack.weights, best,
        )  # fmt: skip
        return best


@njit(nogil=True, cache=True)
def _decide(
    scores: NDArray[np.float64],
    lengths: NDArray[np.float64],
    step: float,
    at_rest: NDArray[np.float64],
    by_length: NDArray[np.float64],
    reach: NDArray[np.float64],
    numbers: NDArray[np.float64],
    slots: NDArray[np.int64],
    bias: NDArray[np.float64],
    mean: NDArray[np.float64],
    scale: NDArray[np.float64],
    weights: NDArray[np.float64],
    best: NDArray[np.uint16],
) -> None:
    k, m = bias.shape
    first, second, place = np.empty(m), np.empty(m), np.empty(m)
    for row in range(len(scores)):
        first[:] = scores[row, 0]
        second[:] = -np.inf
        place[:] = 0.0
        for c in range(1, k):
            score = scores[row, c]
            for lane in range(m):
                value = score[lane] if c < slots[lane] else -np.inf
                above = value > first[lane]
                second[lane] = max(second[lane], first[lane] if above else value)
                place[lane] = c if above else place[lane]
                first[lane] = value if above else first[lane]
        for lane in range(m):
            bound = step * 1.01 * (at_rest[lane] + by_length[lane] * lengths[row]) + LEAST
            if slots[lane] == 1:
                decided = abs(first[lane]) > bound
                best[row, lane] = 1 if first[lane] > 0 else 0
            else:
                decided = first[lane] - second[lane] > bound
                best[row, lane] = int(place[lane])
            if not (decided and lengths[row] < reach[lane]):
                best[row, lane] = _summed(numbers[row], lane, slots[lane], bias, mean, scale, weights)


@njit(nogil=True, cache=True)
def _summed(
    values: NDArray[np.float64],
    lane: int,
    slots: int,
    bias: NDArray[np.float64],
    mean: NDArray[np.float64],
    scale: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> int:
    """One base classifier's answer on one sample, in the fixed order; as `numpy.argmax` finds it."""
    highest, best = 0.0, 0
    for c in range(slots):
        score = bias[c, lane]
        for number in range(len(values)):
            score += (values[number] - mean[number, lane]) / scale[number, lane] * weights[number, c, lane]
        if slots == 1:
            return 1 if score > 0 else 0
        if score != score:
            return c
        if c == 0 or score > highest:
            highest, best = score, c
    return best

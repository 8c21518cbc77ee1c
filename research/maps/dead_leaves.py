"""Dead-leaves images: discs that hide one another, the simplest pictures with the statistics of natural ones.

They are procedural: a function of their number and a seed, by integer arithmetic of our own, so they need no data
and do not change with the version of a random number library.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.system.compiled import njit

# Brightness, then two opponent colours (yellow against blue, magenta against green), orthonormal; and how much
# each varies in natural images, as variances relative to brightness.
COLOUR_AXES = np.array([[1.0, 1.0, 1.0], [1.0, 0.0, -1.0], [1.0, -2.0, 1.0]])
COLOUR_AXES /= np.sqrt((COLOUR_AXES**2).sum(axis=1, keepdims=True))
COLOUR_VARIANCES = np.array([1.0, 0.08, 0.02])

BRIGHTNESS_DEVIATION = 70.0 * math.sqrt(3.0)  # of a leaf, along the brightness axis: pixels fill 0 … 255
FINENESS = 2  # each pixel is the mean of so many points along each side
MOST_LEAVES = 4000  # far more than cover a picture


def dead_leaves(count: int, side: int, seed: int, smallest: float = 1.0, largest: float = 16.0) -> NDArray[np.uint8]:
    """Images (count, side, side, 3), seen from the front: a leaf covers whatever lies behind it.

    Parameters
    ----------
    count, side : int
        How many, and pixels along each side.
    seed : int
        Image i depends on the seed and i.
    smallest, largest : float
        Radii of the leaves in pixels; small ones are more frequent, as the cube of the radius: no scale is special.
    """
    out = np.empty((count, side, side, 3), np.uint8)
    deviations = BRIGHTNESS_DEVIATION * np.sqrt(COLOUR_VARIANCES)
    for i in range(count):
        _draw(np.array([seed * 1_000_003 + i], np.uint64), smallest, largest, deviations[:, None] * COLOUR_AXES, out[i])
    return out


@njit(nogil=True, cache=True)
def random_share(state: NDArray[np.uint64]) -> float:
    """The next number in 0 … 1 of the generator SplitMix64; moves the state on."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) / 9007199254740992.0


@njit(nogil=True, cache=True)
def _draw(
    state: NDArray[np.uint64], smallest: float, largest: float, axes: NDArray[np.float64], out: NDArray[Any]
) -> None:
    side = out.shape[0]
    fine = FINENESS * side
    colour = np.full((fine, fine, 3), 127.5)
    covered = np.zeros((fine, fine), np.uint8)
    left = fine * fine
    leaf = np.empty(3)
    near, far = 1.0 / smallest**2, 1.0 / largest**2
    for _ in range(MOST_LEAVES):
        if left == 0:
            break
        radius = FINENESS / math.sqrt(near - random_share(state) * (near - far))
        y = -radius + random_share(state) * (fine + 2.0 * radius)
        x = -radius + random_share(state) * (fine + 2.0 * radius)
        leaf[:] = 127.5
        for axis in range(3):
            # The sum of three uniform numbers: nearly Gaussian, of variance 1/4.
            amount = 2.0 * (random_share(state) + random_share(state) + random_share(state) - 1.5)
            for c in range(3):
                leaf[c] += amount * axes[axis, c]
        for row in range(max(0, math.ceil(y - radius)), min(fine, math.floor(y + radius) + 1)):
            for column in range(max(0, math.ceil(x - radius)), min(fine, math.floor(x + radius) + 1)):
                if not covered[row, column] and (row - y) ** 2 + (column - x) ** 2 <= radius * radius:
                    covered[row, column] = 1
                    left -= 1
                    for c in range(3):
                        colour[row, column, c] = leaf[c]
    for row in range(side):
        for column in range(side):
            for c in range(3):
                total = 0.0
                for dy in range(FINENESS):
                    for dx in range(FINENESS):
                        total += colour[FINENESS * row + dy, FINENESS * column + dx, c]
                out[row, column, c] = int(min(max(total / FINENESS**2, 0.0), 255.0) + 0.5)

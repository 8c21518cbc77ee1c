"""Pictures brought to another size, exactly: bicubic, in whole numbers, one picture at a time.

Weights are multiples of 2⁻¹² that sum to 1, so every product and sum is an integer that fits, and a resized picture
is the same to the bit on every machine, in every batch and with every version of every library.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from poisonproof.system.compiled import njit

UNIT = 1 << 12  # what weights sum to
SHARPNESS = -0.5  # of Keys' cubic


@lru_cache(maxsize=64)
def resampling(size: int, wanted: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each of ``wanted`` places the first pixel that counts in it, and the weights from there on.

    Shrinking widens the cubic, so that every pixel counts somewhere; what would lie outside is left out.
    """
    shrink = max(size / wanted, 1.0)
    reach = 2.0 * shrink
    taps = min(size, 2 * math.ceil(reach) + 1)
    starts, weights = np.zeros(wanted, np.int64), np.zeros((wanted, taps), np.int64)
    for place in range(wanted):
        centre = (place + 0.5) * size / wanted - 0.5
        first = min(max(math.ceil(centre - reach), 0), size - taps)
        exact = np.array([_cubic(abs(first + tap - centre) / shrink) for tap in range(taps)])
        whole = np.rint(exact / exact.sum() * UNIT).astype(np.int64)
        whole[np.abs(whole).argmax()] += UNIT - whole.sum()
        starts[place], weights[place] = first, whole
    for array in (starts, weights):
        array.flags.writeable = False
    return starts, weights


def _cubic(x: float) -> float:
    a = SHARPNESS
    if x < 1.0:
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    return (((x - 5.0) * x + 8.0) * x - 4.0) * a if x < 2.0 else 0.0


def resized(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.int64]:
    """A picture (height, width, channels) at another size, in steps of 2⁻²⁴ of a grey level, from 0 to 255."""
    rows, columns = resampling(image.shape[0], height), resampling(image.shape[1], width)
    out = np.empty((height, width, image.shape[2]), np.int64)
    _resize(image, *rows, *columns, out)
    return out


@njit(nogil=True, cache=True)
def _resize(
    image: NDArray[np.uint8],
    tops: NDArray[np.int64],
    down: NDArray[np.int64],
    lefts: NDArray[np.int64],
    across: NDArray[np.int64],
    out: NDArray[np.int64],
) -> None:
    channels = image.shape[2]
    most = np.int64(255) * UNIT * UNIT
    band = np.empty((image.shape[1], channels), np.int64)
    for y in range(out.shape[0]):
        band[:] = 0
        for tap in range(down.shape[1]):
            weight = down[y, tap]
            if weight != 0:
                for x in range(image.shape[1]):
                    for c in range(channels):
                        band[x, c] += weight * np.int64(image[tops[y] + tap, x, c])
        for x in range(out.shape[1]):
            for c in range(channels):
                total = np.int64(0)
                for tap in range(across.shape[1]):
                    total += across[x, tap] * band[lefts[x] + tap, c]
                out[y, x, c] = min(max(total, np.int64(0)), most)

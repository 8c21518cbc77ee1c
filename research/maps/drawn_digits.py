"""Digits drawn by procedure: a few ways of writing each, and what a hand does to them.

They are a function of their number and a seed, with random numbers by integer arithmetic of our own, so they need no
data. They teach a feature map which differences between two glyphs are only handwriting (`Hand`); no label is learned
from them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from poisonproof.system.compiled import njit
from research.maps.dead_leaves import random_share

Stroke = list[tuple[float, float]]
SIDE = 28
HALF = 9.5  # pixels from the middle to the end of a glyph
STEPS = 8  # straight pieces between two points of a stroke


def _arc(x: float, y: float, width: float, height: float, start: float, stop: float, count: int) -> Stroke:
    """Points of an ellipse from one angle to another, in degrees; clockwise from the right, as y goes down."""
    turns = [math.radians(start + (stop - start) * i / (count - 1)) for i in range(count)]
    return [(x + width * math.cos(turn), y + height * math.sin(turn)) for turn in turns]


# Ways to write each digit: strokes through points (x, y) in −1 … 1, y downwards. Corners are ends of strokes.
STYLES: tuple[tuple[list[Stroke], ...], ...] = (
    (
        [_arc(0, 0, 0.55, 0.95, -100, 265, 9)],
        [_arc(0, 0, 0.45, 0.95, -60, 310, 9)],
        [_arc(0, 0, 0.7, 0.85, -120, 240, 9)],
    ),
    (
        [[(0, -1), (0, -0.3), (0, 0.3), (0, 1)]],
        [[(-0.35, -0.6), (0, -1)], [(0, -1), (0, 0), (0, 1)]],
        [[(-0.3, -0.65), (0, -1)], [(0, -1), (0, 0), (0, 1)], [(-0.4, 1), (0.4, 1)]],
    ),
    (
        [
            [*_arc(0, -0.5, 0.55, 0.45, -170, 40, 6), (0, 0.35), (-0.55, 0.95)],
            [(-0.55, 0.95), (0, 0.9), (0.6, 0.95)],
        ],
        [
            [
                *_arc(0, -0.5, 0.5, 0.45, -160, 60, 6),
                (-0.2, 0.6),
                (-0.5, 0.8),
                (-0.45, 0.95),
                (-0.2, 0.75),
                (0.15, 0.85),
                (0.6, 0.95),
            ]
        ],
        [
            [
                *_arc(0, -0.5, 0.5, 0.45, -190, 30, 6),
                (0.1, 0.3),
                (-0.3, 0.8),
                (-0.6, 0.8),
                (-0.4, 0.55),
                (0, 0.8),
                (0.6, 0.85),
            ]
        ],
    ),
    (
        [_arc(0, -0.5, 0.5, 0.45, -160, 75, 6) + _arc(0, 0.45, 0.55, 0.5, -75, 160, 6)],
        [[(-0.5, -0.95), (0.45, -0.95)], [(0.45, -0.95), (0, -0.25)], _arc(0, 0.4, 0.55, 0.55, -90, 160, 6)],
        [[*_arc(-0.05, -0.5, 0.5, 0.4, -150, 80, 6), (-0.2, -0.08), *_arc(0, 0.4, 0.55, 0.5, -80, 150, 6)]],
    ),
    (
        [[(-0.45, -0.9), (-0.55, -0.3), (-0.5, 0.1), (0, 0.1), (0.5, 0)], [(0.45, -0.9), (0.4, 0), (0.35, 1)]],
        [
            [(0.25, -1), (-0.3, -0.3), (-0.6, 0.2)],
            [(-0.6, 0.2), (0, 0.2), (0.65, 0.2)],
            [(0.25, -1), (0.25, 0), (0.25, 1)],
        ],
        [
            [(-0.5, -0.85), (-0.5, -0.1)],
            [(-0.5, -0.1), (0, 0), (0.5, -0.15)],
            [(0.5, -0.95), (0.45, 0), (0.45, 1)],
        ],
    ),
    (
        [
            [(0.55, -0.95), (-0.4, -0.9)],
            [(-0.4, -0.9), (-0.5, -0.15)],
            [(-0.5, -0.15), *_arc(0, 0.4, 0.55, 0.55, -100, 150, 7)],
        ],
        [[(0.6, -0.9), (-0.2, -0.95)], [(-0.2, -0.95), (-0.45, -0.3), *_arc(-0.05, 0.4, 0.5, 0.5, -80, 160, 7)]],
    ),
    (
        [[(0.4, -0.95), (-0.1, -0.6), (-0.5, 0), *_arc(0, 0.45, 0.5, 0.5, 180, -170, 8)]],
        [[(0.1, -1), (-0.3, -0.4), (-0.5, 0.2), *_arc(-0.05, 0.5, 0.45, 0.45, 170, -150, 8)]],
        [[(-0.3, -1), (-0.5, -0.3), (-0.5, 0.3), *_arc(0, 0.5, 0.5, 0.42, 170, -180, 8)]],
    ),
    (
        [[(-0.55, -0.9), (0, -0.95), (0.55, -0.9)], [(0.55, -0.9), (0.15, 0), (-0.1, 1)]],
        [[(-0.55, -0.6), (-0.5, -0.9)], [(-0.5, -0.9), (0, -0.9), (0.5, -0.9)], [(0.5, -0.9), (0.25, 0), (0.15, 1)]],
        [
            [(-0.55, -0.9), (0, -0.95), (0.55, -0.9)],
            [(0.55, -0.9), (0.15, 0), (-0.1, 1)],
            [(-0.25, 0.05), (0.5, -0.02)],
        ],
    ),
    (
        [
            [
                *_arc(0, -0.5, 0.4, 0.45, -60, -270, 6),
                *_arc(0, 0.5, 0.45, 0.48, -60, 240, 7),
                (0.25, -0.2),
                *_arc(0, -0.5, 0.4, 0.45, 0, -70, 3),
            ]
        ],
        [_arc(0, -0.5, 0.42, 0.45, 90, 450, 8), _arc(0, 0.48, 0.5, 0.5, -90, 270, 8)],
        [
            [
                (0.45, -0.8),
                *_arc(-0.02, -0.55, 0.4, 0.4, -50, -200, 5),
                (0, -0.05),
                *_arc(0, 0.5, 0.42, 0.45, -40, 210, 7),
                (0.1, -0.15),
                (0.5, -0.75),
            ]
        ],
    ),
    (
        [_arc(0, -0.45, 0.5, 0.48, 0, -350, 8), [(0.5, -0.6), (0.45, 0.2), (0.35, 1)]],
        [[*_arc(-0.03, -0.5, 0.48, 0.42, -10, -340, 8), (0.48, -0.5), (0.35, 0.3), (0.1, 1)]],
        [
            _arc(0, -0.45, 0.48, 0.45, 0, -350, 8),
            [(0.48, -0.6), (0.5, 0.2), *_arc(0.05, 0.5, 0.42, 0.45, 0, 140, 5)],
        ],
    ),
)


def drawn_digits(
    strokes: Sequence[Stroke],
    count: int,
    seed: int,
    *,
    slant: float,
    stretch: float,
    bend: float,
    tremble: float,
    pens: tuple[float, float],
) -> NDArray[np.uint8]:
    """Images (count, 28, 28) of one glyph by different hands, bright on dark.

    Parameters
    ----------
    strokes : sequence of strokes
        The glyph, such as one of `STYLES`.
    count, seed : int
        How many; image i depends on the seed and i.
    slant, stretch : float
        Deviation of the shear, and of the logarithm of width and height.
    bend : float
        Deviation of each coefficient of a bending of the plane, of second and third order.
    tremble : float
        Deviation of each point of a stroke by itself.
    pens : tuple of float
        Least and greatest half-width of the pen, in pixels.
    """
    points = np.array([point for stroke in strokes for point in stroke], float)
    starts = np.cumsum([0, *(len(stroke) for stroke in strokes)])
    deviations = np.array([slant, stretch, bend, tremble])
    out = np.empty((count, SIDE, SIDE), np.uint8)
    for i in range(count):
        _draw(np.array([seed * 1_000_003 + i], np.uint64), points, starts, deviations, *pens, out[i])
    return out


@njit(nogil=True, cache=True)
def _deviate(state: NDArray[np.uint64]) -> float:
    """The sum of three uniform numbers, of mean 0 and variance 1: nearly Gaussian."""
    return 2.0 * (random_share(state) + random_share(state) + random_share(state) - 1.5)


@njit(nogil=True, cache=True)
def _draw(
    state: NDArray[np.uint64],
    points: NDArray[np.float64],
    starts: NDArray[np.int64],
    deviations: NDArray[np.float64],
    thin: float,
    thick: float,
    out: NDArray[np.uint8],
) -> None:
    slant, stretch, bend, tremble = deviations
    wide, high = math.exp(stretch * _deviate(state)), math.exp(stretch * _deviate(state))
    lean, tilt = slant * _deviate(state), 0.5 * slant * _deviate(state)
    bends = np.empty((2, 7))
    for i in range(14):
        bends[i // 7, i % 7] = bend * _deviate(state)
    trembling = np.empty(points.shape)
    for i in range(len(points)):
        trembling[i, 0], trembling[i, 1] = tremble * _deviate(state), tremble * _deviate(state)
    pen = thin + (thick - thin) * random_share(state)
    ink = np.zeros(out.shape)
    middle = (len(out) - 1) / 2.0
    here, before = np.empty(2), np.empty(2)
    for stroke in range(len(starts) - 1):
        first, last = starts[stroke], starts[stroke + 1] - 1
        for step in range((last - first) * STEPS + 1):
            x, y = _along(points, first, last, step, 0), _along(points, first, last, step, 1)
            powers = (x * x, y * y, x * y, x * x * y, x * y * y, x * x * x, y * y * y)
            for axis in range(2):
                here[axis] = (x, y)[axis] + _along(trembling, first, last, step, axis)
                for i in range(7):
                    here[axis] += bends[axis, i] * powers[i]
            x, y = wide * here[0] + lean * here[1], tilt * here[0] + high * here[1]
            here[0], here[1] = x * HALF + middle, y * HALF + middle
            if step > 0:
                _line(before, here, pen, ink)
            before[:] = here
    for y in range(len(out)):
        for x in range(len(out)):
            out[y, x] = int(255.0 * ink[y, x] + 0.5)


@njit(nogil=True, cache=True)
def _along(points: NDArray[np.float64], first: int, last: int, step: int, axis: int) -> float:
    """A smooth curve through points (Catmull and Rom), some steps from the first; straight beyond its ends."""
    at = min(first + step // STEPS, last - 1)
    t = (step - (at - first) * STEPS) / STEPS
    p1, p2 = points[at, axis], points[at + 1, axis]
    p0 = points[at - 1, axis] if at > first else 2.0 * p1 - p2
    p3 = points[at + 2, axis] if at + 2 <= last else 2.0 * p2 - p1
    return 0.5 * (
        2.0 * p1
        + (p2 - p0) * t
        + (2.0 * p0 - 5.0 * p1 + 4.0 * p2 - p3) * t * t
        + (3.0 * p1 - p0 - 3.0 * p2 + p3) * t * t * t
    )


@njit(nogil=True, cache=True)
def _line(start: NDArray[np.float64], stop: NDArray[np.float64], pen: float, ink: NDArray[np.float64]) -> None:
    """A straight line of a round pen, with soft edges one pixel wide."""
    reach = pen + 1.5
    side = len(ink)
    along_x, along_y = stop[0] - start[0], stop[1] - start[1]
    length = along_x * along_x + along_y * along_y
    for y in range(max(0, int(min(start[1], stop[1]) - reach)), min(side, int(max(start[1], stop[1]) + reach) + 2)):
        for x in range(max(0, int(min(start[0], stop[0]) - reach)), min(side, int(max(start[0], stop[0]) + reach) + 2)):
            t = ((x - start[0]) * along_x + (y - start[1]) * along_y) / length if length > 1e-9 else 0.0
            t = min(1.0, max(0.0, t))
            distance = math.sqrt((start[0] + t * along_x - x) ** 2 + (start[1] + t * along_y - y) ** 2)
            ink[y, x] = max(ink[y, x], min(1.0, max(0.0, pen + 0.5 - distance)))

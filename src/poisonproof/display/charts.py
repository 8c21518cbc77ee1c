"""Charts as plain geometry, in percent of the plot: the page draws them, in its own colours and at any width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

BARS = 40
GAP = 0.08


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis."""

    at: float
    label: str


@dataclass(frozen=True)
class Part:
    """A piece of a bar: what it counts, how far its upper end is from the top of the plot, and its height."""

    name: str
    y: float
    height: float


@dataclass(frozen=True)
class Bar:
    """One bar of stacked parts."""

    left: float
    width: float
    parts: tuple[Part, ...]
    title: str


def ticks(top: int, about: int = 6) -> tuple[Tick, ...]:
    """Whole, round numbers from 0 to at most ``top``."""
    step = next(s for e in range(20) for s in (10**e, 2 * 10**e, 5 * 10**e) if top <= s * about)
    return tuple(Tick(100 * value / top, f"{value:,}") for value in range(0, top + 1, step))


def survival(radii: NDArray[np.int64], n_test: int, top: int) -> str:
    """An SVG path: at each attack size, the share of ``n_test`` samples whose radius, listed in ``radii``, reaches it.

    The share at attack size s holds from s to s + 1, so it falls behind the radius of a sample, never before.
    """
    values, counts = np.unique(radii, return_counts=True)
    left = np.r_[len(radii), len(radii) - np.cumsum(counts)]
    path = [f"M0 {_down(left[0], n_test)}"]
    for radius, held in zip(values, left[1:], strict=True):
        path.append(f"H{_short(100 * min(int(radius) + 1, top) / top)}V{_down(held, n_test)}")
    return "".join([*path, "H100"])


def stairs(shares: NDArray[np.float64]) -> str:
    """An SVG path of shares at the attack sizes 0, 1, … up to the last; each holds up to the next."""
    top = len(shares) - 1
    path = [f"M0 {_short(100 - 100 * float(shares[0]))}"]
    for size in np.flatnonzero(np.diff(shares)) + 1:
        path.append(f"H{_short(100 * int(size) / top)}V{_short(100 - 100 * float(shares[size]))}")
    return "".join([*path, "H100"])


def histogram(numbers: dict[str, NDArray[np.int64]], top: int, of: str) -> tuple[Bar, ...]:
    """Bars of whole numbers from 0 to below ``top``, one stacked on the other; empty bars are left out."""
    span = -(-top // BARS)
    counts = np.stack([np.bincount(some // span, minlength=-(-top // span)) for some in numbers.values()])
    share = 100 / max(int(counts.sum(axis=0).max()), 1)
    bars = []
    for at in np.flatnonzero(counts.sum(axis=0)).tolist():
        first, last = at * span, min((at + 1) * span, top) - 1
        below, parts = 0, []
        for name, count in zip(numbers, counts[:, at].tolist(), strict=True):
            below += count
            if count:
                parts.append(Part(name, round(100 - below * share, 2), round(count * share, 2)))
        where = f"{first:,}" if first == last else f"{first:,} to {last:,}"
        left, width = first + GAP * span, last + 1 - first - 2 * GAP * span
        title = f"{of} {where}: {below:,}"
        bars.append(Bar(round(100 * left / top, 3), round(100 * width / top, 3), tuple(parts), title))
    return tuple(bars)


def _down(held: Any, n_test: int) -> str:
    return _short(100 - 100 * int(held) / n_test)


def _short(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")

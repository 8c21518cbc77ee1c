"""The second layer: patches of what the first one counted, as exact as the first.

Counts are rounded to integers before each product with integer weights. The directions that count and their
variances come from dead leaves, not from images of the data set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bezoar.learners.features.counts import levelled
from bezoar.learners.features.dead_leaves import dead_leaves, random_share
from bezoar.learners.features.patches import Matrix, pool, whole
from bezoar.learners.features.pixels import grid_weights
from bezoar.threads import one_linear_algebra_thread

if TYPE_CHECKING:
    from bezoar.learners.features.objects import ObjectFeatures

LEAVES = 1000  # procedural images behind the directions and filters
COUNT_STEPS = 255.0  # square roots of counts lie in 0 … 1
COMPONENT_STEPS = 32.0  # per standard deviation
COMPONENT_LIMIT = 127.0


@dataclass(frozen=True)
class SecondLayer:
    """Patches of cells of the first layer.

    Parameters
    ----------
    cells : int
        Blocks of places along each side.
    components : int
        Directions kept of what the filters found in a cell: those that vary most over dead leaves.
    noise : float
        Variance added to each direction before whitening, relative to the largest.
    side : int
        Side of a patch, in cells.
    filters, threshold, grid, weight, directions, damping, power
        As of a `Bank`.
    contrast : float
        Added to the squared length of a patch, relative to what it is on dead leaves on average.
    """

    cells: int = 9
    components: int = 96
    noise: float = 0.01
    side: int = 3
    filters: int = 256
    threshold: float = 0.03
    grid: int = 3
    weight: float = 0.525
    directions: int = 256
    damping: float = 0.3
    power: float = 0.5
    contrast: float = 0.0

    def counts(self, cells: NDArray[np.float32], features: ObjectFeatures) -> NDArray[np.float32]:
        """What each filter found in each cell of the grid, from the first layer's (n, cells, cells, 4, pairs)."""
        layer = _layer(self, features)
        planes = layer.components(cells)
        side = self.cells - self.side + 1
        places = side * side
        out = np.empty((len(cells), self.grid, self.grid, 4, self.filters // 2), np.float32)
        even = np.empty((len(cells) * places, len(layer.even)), np.float32)
        odd = np.empty((len(cells) * places, len(layer.odd)), np.float32)
        inverse = np.empty(len(cells) * places, np.float32)
        for i in range(len(cells)):
            at = slice(i * places, (i + 1) * places)
            _gather(planes[i], layer.n_even, self.side, even[at], odd[at], inverse[at])
        floor = self.contrast * COMPONENT_STEPS**2 * self.components * self.side**2
        inverse = (1.0 / (layer.unit * np.sqrt(np.maximum(inverse + floor, 1.0)))).astype(np.float32)
        even_answers, odd_answers = even @ layer.even, odd @ layer.odd
        weights = grid_weights(side, self.grid, features.window * side / self.grid).astype(np.float32)
        nothing = np.empty((0, 0, 4, self.filters // 2), np.float32)
        for i in range(len(cells)):
            at = slice(i * places, (i + 1) * places)
            pool(even_answers[at], odd_answers[at], inverse[at], self.threshold, weights, out[i], nothing)
        return out


@dataclass(frozen=True)
class _Layer:
    """Integer weights of the two products. The first ``n_even`` components keep their sign under mirroring."""

    n_even: int
    even_directions: Matrix
    odd_directions: Matrix
    mean: NDArray[np.float64]
    direction_unit: float
    even: Matrix
    odd: Matrix
    unit: float
    block: float

    def components(self, cells: NDArray[np.float32]) -> NDArray[np.float32]:
        """Whitened components (n, cells, cells, components), rounded to integers."""
        even, odd = _mirror_parts(cells, self.block)
        answers = np.concatenate([even @ self.even_directions, odd @ self.odd_directions], axis=1)
        values = (answers.astype(np.float64) / self.direction_unit - self.mean) * COMPONENT_STEPS
        whole_values = np.clip(np.rint(values), -COMPONENT_LIMIT, COMPONENT_LIMIT).astype(np.float32)
        return whole_values.reshape(*cells.shape[:3], -1)


def _mirror_parts(cells: NDArray[np.float32], block: float) -> tuple[Matrix, Matrix]:
    """Rounded square roots of mean counts: sums and differences of filters and their mirror images, a row per cell."""
    flat = cells.reshape(-1, 2, 2, cells.shape[4])
    roots = np.rint(np.sqrt(flat / np.float32(block * block)) * np.float32(COUNT_STEPS))
    even = (roots[:, :, 0] + roots[:, :, 1]).reshape(len(flat), -1)
    odd = (roots[:, :, 0] - roots[:, :, 1]).reshape(len(flat), -1)
    return even, odd


@lru_cache(maxsize=4)
def _layer(second: SecondLayer, features: ObjectFeatures) -> _Layer:
    bank = features.banks[0]
    images = dead_leaves(LEAVES, features.size, features.seed + 1)
    with one_linear_algebra_thread():
        filters = features.filters(bank)
        cells = np.concatenate(
            [features.counts(images[i : i + 20], bank, filters, second.cells)[1] for i in range(0, LEAVES, 20)]
        )
        places = features.size // bank.shrink - bank.side + 1
        block = places / second.cells
        even, odd = _mirror_parts(cells, block)
        mean = even.mean(axis=0, dtype=np.float64)
        found = [np.linalg.eigh(part.T @ part / len(part)) for part in (even - mean, odd.astype(np.float64))]
        scaled = levelled(found, second.components, second.noise)
        n_even = scaled[0].shape[1]
        (even_directions, odd_directions), direction_unit = whole((scaled[0], scaled[1]), 2 * COUNT_STEPS)
        means = np.concatenate([mean @ scaled[0], np.zeros(scaled[1].shape[1])])
        layer = _Layer(n_even, even_directions, odd_directions, means, direction_unit, even[:0], odd[:0], 1.0, block)
        planes = layer.components(cells)
        patches = _choose(planes, n_even, second.side, second.filters // 2, features.seed)
        (even_filters, odd_filters), unit = whole(patches, 3 * COMPONENT_LIMIT)
    return _Layer(
        n_even, even_directions, odd_directions, means, direction_unit, even_filters, odd_filters, unit, block
    )


def _choose(planes: NDArray[np.float32], n_even: int, side: int, count: int, seed: int) -> tuple[Any, Any]:
    """Random patches of unit length as weights on even and odd coordinates."""
    state = np.array([seed], np.uint64)
    cells = planes.shape[1] - side + 1
    n_odd = planes.shape[3] - n_even
    width = side // 2 * side
    middle = side if side % 2 else 0
    even = np.empty((cells * cells, (width + middle) * n_even + width * n_odd), np.float32)
    odd = np.empty((cells * cells, width * n_even + (width + middle) * n_odd), np.float32)
    squares = np.empty(cells * cells, np.float32)
    chosen: list[tuple[Matrix, Matrix]] = []
    while len(chosen) < count:
        _gather(planes[int(random_share(state) * len(planes))], n_even, side, even, odd, squares)
        at = int(random_share(state) * cells * cells)
        if squares[at] > 0:
            length = math.sqrt(float(squares[at]))
            chosen.append((even[at] / length, odd[at] / length))
    even_weights, odd_weights = (np.array(part, np.float64).T for part in zip(*chosen, strict=True))
    # A coordinate that sums two places has squared length 2: half of it projects.
    for weights, first, second in ((even_weights, n_even, n_odd), (odd_weights, n_odd, n_even)):
        weights[: first * width] /= 2.0
        weights[first * (width + middle) : first * (width + middle) + second * width] /= 2.0
    return even_weights, odd_weights


@njit(nogil=True, cache=True)
def _gather(planes: NDArray[np.float32], n_even: int, side: int, even: Matrix, odd: Matrix, squares: Matrix) -> None:
    """Even and odd coordinates of every patch of cells, and its squared length.

    Even coordinates: sums over mirrored places of components that keep their sign (then their middle column), then
    differences of those that change it. Odd coordinates the other way round.
    """
    cells, _, n = planes.shape
    n_odd = n - n_even
    half = side // 2
    width = half * side
    middle = side if side % 2 else 0
    at = 0
    for y in range(cells - side + 1):
        for x in range(cells - side + 1):
            total = np.float32(0.0)
            pair = 0
            for dy in range(side):
                for dx in range(half):
                    here, there = planes[y + dy, x + dx], planes[y + dy, x + side - 1 - dx]
                    for c in range(n_even):
                        even[at, pair * n_even + c] = here[c] + there[c]
                        odd[at, (width + middle) * n_odd + pair * n_even + c] = here[c] - there[c]
                    for c in range(n_odd):
                        even[at, (width + middle) * n_even + pair * n_odd + c] = here[n_even + c] - there[n_even + c]
                        odd[at, pair * n_odd + c] = here[n_even + c] + there[n_even + c]
                    pair += 1
                if side % 2:
                    own = planes[y + dy, x + half]
                    for c in range(n_even):
                        even[at, (width + dy) * n_even + c] = own[c]
                    for c in range(n_odd):
                        odd[at, (width + dy) * n_odd + c] = own[n_even + c]
                for dx in range(side):
                    line = planes[y + dy, x + dx]
                    for c in range(n):
                        total += line[c] * line[c]
            squares[at] = total
            at += 1

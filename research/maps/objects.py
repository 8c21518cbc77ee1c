"""Features of small colour photographs of things: what edges, corners and colours lie where.

Patches are whitened and compared with patches of dead leaves; what agrees is counted on a coarse grid, at several
scales, and so are colours. Nothing is fitted on images of the data set: filters and the levels of counts come from
procedural pictures, the whitening of pixels from a formula.

Unless told otherwise, the second half of a feature vector is the first half of the mirrored image's: a kernel can
average over mirroring by swapping halves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.learners.feature_maps import bilinear, grid_weights, unit_length
from poisonproof.system.compiled import njit
from poisonproof.system.determinism import one_linear_algebra_thread
from poisonproof.system.threads import in_threads
from research.maps.counts import Levels, levels_of, n_placed, place_cells, write_counts
from research.maps.dead_leaves import dead_leaves
from research.maps.patches import EXACT, MIDDLE, Filters, gather, inverse_lengths, leaf_filters, pool, shrunk

IMAGES_PER_PRODUCT = 4  # answers of so many images fit the cache
IMAGES_PER_TASK = 64
LEAVES = 1500  # procedural images behind the levels of counts


@dataclass(frozen=True)
class Bank:
    """One scale of patch filters.

    Parameters
    ----------
    side : int
        Side of a patch, in pixels.
    filters : int
        How many, mirror images included.
    threshold : float
        Cosines count by what they have beyond it, positive and negative ones apart.
    grid : int
        Cells along each side.
    weight : float
        Squared length of this part of the feature vector.
    shrink : int
        Pixels are first summed in blocks of this side.
    directions : int
        How many directions of the counts in a cell are kept: those that vary most over dead leaves; at most twice as
        many as there are filters.
    damping : float
        How little these are levelled: variance added in every direction, relative to the largest.
    power : 0.25 or 0.5
        Counts are raised to it before.
    """

    side: int
    filters: int
    threshold: float
    grid: int
    weight: float
    directions: int
    shrink: int = 1
    damping: float = 0.05
    power: float = 0.25


@dataclass(frozen=True)
class Colours:
    """Where which colours lie: soft histograms over brightness and two opponent colours.

    Parameters
    ----------
    bins : int
        Along each of the three axes.
    reach : float
        Opponent colours beyond ± this (pixels are 0 … 255) fall into the outermost bins.
    grid : int
        Cells along each side.
    weight : float
        Squared length of this part of the feature vector.
    """

    bins: int = 5
    reach: float = 80.0
    grid: int = 3
    weight: float = 0.06


@dataclass(frozen=True)
class ObjectFeatures:
    """Feature map for small colour (or grey) photographs.

    Every constant is a parameter, and none is computed from the data at hand.

    Parameters
    ----------
    size : int
        Images of another size are resampled to this many pixels along each side.
    banks : tuple of Bank
        Scales of patch filters.
    colours : Colours or None
        Colour histograms.
    reach : float
        How far pixels of natural images are correlated: over this many pixels by a factor e.
    noise : float
        Variance added before whitening, relative to that of brightness, so that noise is not blown up.
    contrast : float
        Added to the squared length of a whitened patch (pixels are 0 … 255): flat patches stay small.
    window : float
        Standard deviation of a cell's window, in cells.
    seed : int
        Of the dead leaves.
    scale : float
        Steps per unit of length of the quantised vector.
    mirrored : bool
        Whether the second half of a vector is the first half of the mirrored image's. If not, a vector describes the
        image alone, every cell once: for things that a mirror turns into others, such as signs.
    """

    size: int = 32
    banks: tuple[Bank, ...] = (
        Bank(side=6, filters=512, threshold=0.15, grid=4, weight=0.35, directions=256),
        Bank(side=3, filters=256, threshold=0.25, grid=4, weight=0.18, directions=256, damping=0.01),
    )
    colours: Colours | None = Colours()
    reach: float = 6.0
    noise: float = 0.03
    contrast: float = 10000.0
    window: float = 0.5
    seed: int = 1
    scale: float = 1900.0
    copies: int = 1
    mirrored: bool = True
    answers_one_by_one = True  # see poisonproof.samples.batches

    @property
    def n_features(self) -> int:
        """Length of a feature vector."""
        length = sum(n_placed(bank.grid, bank.directions, self.mirrored) for bank in self.banks)
        if self.colours is not None:
            length += n_placed(self.colours.grid, self.colours.bins**3, self.mirrored)
        return 2 * length if self.mirrored else length

    def __call__(self, images: NDArray[Any], *, training: bool = False) -> NDArray[np.int8]:
        """Features (n, 1, n_features) of images (n, height, width) or (n, height, width, 1 or 3)."""
        images = np.asarray(images)
        if images.ndim == 3:
            images = images[:, :, :, None]
        if images.ndim != 4 or images.shape[3] not in (1, 3) or 0 in images.shape[1:]:
            raise PoisonproofError(f"Object features need images, (n, height, width[, 3]). Got shape {images.shape}.")
        if images.dtype.kind not in "uif":
            raise PoisonproofError(
                f"Object features need pixels that are numbers from 0 to 255. Got {images.dtype} instead."
            )
        self.prepare()
        out = np.empty((len(images), 1, self.n_features), np.int8)

        def work(start: int, stop: int) -> None:
            self.describe(images[start:stop], out[start:stop, 0])

        with one_linear_algebra_thread():
            in_threads(len(images), IMAGES_PER_TASK, work)
        return out

    def prepare(self) -> None:
        """Check the parameters, and make once what depends on them alone."""
        self._check()
        _levels(self)

    def describe(self, images: NDArray[Any], out: NDArray[np.int8]) -> None:
        """Write the features of images (n, height, width, 1 or 3) into rows, in this thread; after `prepare`."""
        for at in range(0, len(images), IMAGES_PER_PRODUCT):
            few = slice(at, at + IMAGES_PER_PRODUCT)
            self._describe(self._pixels(images[few]), _levels(self), out[few])

    def filters(self, bank: Bank) -> Filters:
        """The filters of one bank."""
        return leaf_filters(bank.side, bank.filters, bank.shrink, self.reach, self.noise, self.seed)

    def counts(self, images: NDArray[np.uint8], bank: Bank) -> NDArray[np.float32]:
        """What each filter found in each cell: an array (n, grid, grid, 4, pairs)."""
        filters = self.filters(bank)
        pixels = shrunk(images, bank.shrink)
        side = pixels.shape[1] - bank.side + 1
        places = side * side
        even = np.empty((len(images) * places, len(filters.even)), np.float32)
        odd = np.empty((len(images) * places, len(filters.odd)), np.float32)
        for i, image in enumerate(pixels):
            gather(
                image,
                bank.side,
                MIDDLE * bank.shrink**2,
                even[i * places : (i + 1) * places],
                odd[i * places : (i + 1) * places],
            )
        inverse = np.empty(len(even), np.float32)
        inverse_lengths(
            even @ filters.even_whitening,
            odd @ filters.odd_whitening,
            filters.whitening_unit * bank.shrink**2,
            self.contrast,
            1.0 / (filters.unit * bank.shrink**2),
            inverse,
        )
        even_answers, odd_answers = even @ filters.even, odd @ filters.odd
        weights = grid_weights(side, bank.grid, self.window * side / bank.grid).astype(np.float32)
        pairs = filters.even.shape[1]
        grid = np.empty((len(images), bank.grid, bank.grid, 4, pairs), np.float32)
        for i in range(len(images)):
            at = slice(i * places, (i + 1) * places)
            pool(even_answers[at], odd_answers[at], inverse[at], bank.threshold, weights, grid[i])
        return grid

    def _check(self) -> None:
        weight = sum(bank.weight for bank in self.banks) + (self.colours.weight if self.colours is not None else 0.0)
        longest = (weight**0.5 * self.scale + self.n_features**0.5 / 2) ** 2
        if longest > EXACT / 2:
            raise PoisonproofError(
                f"The 'scale' of object features must keep squared lengths, rounding included, within {EXACT // 2}, so "
                f"that products are exact. Got {self.scale!r}, which may give {longest:.0f}."
            )
        for bank in self.banks:
            if bank.filters % 2 or bank.directions > 2 * bank.filters:
                raise PoisonproofError(
                    f"A bank needs an even number of filters and at most twice as many directions. Got {bank}."
                )
            if self.size // bank.shrink - bank.side + 1 < bank.grid:
                raise PoisonproofError(
                    f"A bank needs at least one patch in each cell of an image of {self.size} pixels. Got {bank}."
                )

    def _describe(self, images: NDArray[np.uint8], levels: list[Levels], out: NDArray[np.int8]) -> None:
        half = self.n_features // 2 if self.mirrored else 0
        at = 0
        for bank, level in zip(self.banks, levels, strict=True):
            length = bank.weight**0.5 * self.scale
            write_counts(self.counts(images, bank), level, length, self.mirrored, out[:, at:], out[:, half + at :])
            at += n_placed(bank.grid, bank.directions, self.mirrored)
        if self.colours is not None:
            cells = grid_weights(self.size, self.colours.grid, self.window * self.size / self.colours.grid)
            length = self.colours.weight**0.5 * self.scale
            bins, reach = self.colours.bins, self.colours.reach
            _colours(images, bins, reach, cells, length, self.mirrored, out[:, at:], out[:, half + at :])

    def _pixels(self, images: NDArray[Any]) -> NDArray[np.uint8]:
        """Whole pixels from 0 to 255 (what is no number is 0), three colours, of the declared size."""
        if images.shape[1:3] == (self.size, self.size) and images.dtype == np.uint8:
            pixels = images
        else:
            pixels = np.empty((len(images), self.size, self.size, images.shape[3]), np.uint8)
            _resample(np.nan_to_num(images.astype(np.float64)), pixels)
        return np.ascontiguousarray(np.broadcast_to(pixels, (*pixels.shape[:3], 3)))


@lru_cache(maxsize=4)
def _levels(features: ObjectFeatures) -> list[Levels]:
    """The levels of each part's counts, from dead leaves."""
    images = dead_leaves(LEAVES, features.size, features.seed + 2)
    with one_linear_algebra_thread():
        return [
            levels_of(
                np.concatenate(
                    [
                        features.counts(images[i : i + IMAGES_PER_PRODUCT], bank)
                        for i in range(0, LEAVES, IMAGES_PER_PRODUCT)
                    ]
                ),
                bank.power,
                bank.directions,
                bank.damping,
            )
            for bank in features.banks
        ]


@njit(nogil=True, cache=True)
def _resample(images: NDArray[np.float64], out: NDArray[np.uint8]) -> None:
    n, size = out.shape[:2]
    for i in range(n):
        for c in range(out.shape[3]):
            plane = np.ascontiguousarray(images[i, :, :, c])
            for row in range(size):
                y = min(max((row + 0.5) * plane.shape[0] / size - 0.5, 0.0), plane.shape[0] - 1.0)
                for column in range(size):
                    x = min(max((column + 0.5) * plane.shape[1] / size - 0.5, 0.0), plane.shape[1] - 1.0)
                    out[i, row, column, c] = int(min(max(bilinear(plane, y, x), 0.0), 255.0) + 0.5)


@njit(nogil=True, cache=True)
def _colours(
    images: NDArray[np.uint8],
    bins: int,
    reach: float,
    weights: NDArray[np.float64],
    length: float,
    mirrored: bool,
    left: NDArray[np.int8],
    right: NDArray[np.int8],
) -> None:
    """Soft histograms, together of a length; where they go: see `place_cells`."""
    side, grid = weights.shape
    counts = np.empty((grid, grid, bins, bins, bins))
    band = np.empty((grid, bins, bins, bins))
    for i in range(len(images)):
        counts[:] = 0.0
        for y in range(side):
            band[:] = 0.0
            for x in range(side):
                red, green, blue = float(images[i, y, x, 0]), float(images[i, y, x, 1]), float(images[i, y, x, 2])
                places = (
                    (red + green + blue) / 765.0,
                    0.5 + (red - green) / (2.0 * reach),
                    0.5 + (blue - 0.5 * (red + green)) / (2.0 * reach),
                )
                first, a = _bin(places[0], bins)
                second, b = _bin(places[1], bins)
                third, c = _bin(places[2], bins)
                for column in range(grid):
                    weight = weights[x, column]
                    if weight > 0.0:
                        cell = band[column]
                        for p, u in ((first, 1.0 - a), (first + 1, a)):
                            for q, v in ((second, 1.0 - b), (second + 1, b)):
                                cell[p, q, third] += weight * u * v * (1.0 - c)
                                cell[p, q, third + 1] += weight * u * v * c
            for row in range(grid):
                weight = weights[y, row]
                if weight > 0.0:
                    counts[row] += weight * band
        values = counts.ravel()
        for j in range(len(values)):
            values[j] = math.sqrt(values[j])
        shaped = values.reshape((grid, grid, bins**3))
        place_cells(shaped, bins**3, unit_length(values) * length, mirrored, left[i], right[i])


@njit(nogil=True, cache=True)
def _bin(place: float, bins: int) -> tuple[int, float]:
    """The lower of the two nearest bins of a place in 0 … 1, and the share of the upper one."""
    at = min(max(place, 0.0), 1.0) * (bins - 1)
    lower = min(int(at), bins - 2)
    return lower, at - lower

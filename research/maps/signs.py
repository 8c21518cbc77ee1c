"""Features of traffic signs and other centred emblems: what is drawn, not how it is lit.

The middle of the frame is cut out and its local contrast is levelled. Edges are counted by direction on grids from
fine to coarse, and patches are compared with those of procedural pictures, as for `ObjectFeatures`. Virtual copies are
the same sign a little nearer, farther or shifted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.learners.feature_maps import (
    Plane,
    bilinear,
    blur,
    gaussian_taps,
    grid_weights,
    orientation_grid,
    unit_length,
)
from poisonproof.samples.batches import ONE_BY_ONE, declares
from poisonproof.system.compiled import njit
from poisonproof.system.determinism import one_linear_algebra_thread
from poisonproof.system.threads import in_threads
from research.maps.objects import Bank, ObjectFeatures

# Fixed changes of view: zoom, then shift down and right in pixels of the cut-out.
VIEWS = {1: [(1.0, 0.0, 0.0)]}
VIEWS[3] = [*VIEWS[1], (1.2, 0.0, 0.0), (1 / 1.2, 0.0, 0.0)]
VIEWS[5] = [*VIEWS[3], (1.0, 2.0, 2.0), (1.0, -2.0, -2.0)]
VIEWS[7] = [*VIEWS[3], (1.0, 2.5, 0.0), (1.0, -2.5, 0.0), (1.0, 0.0, 2.5), (1.0, 0.0, -2.5)]

GREY = 128.0  # the middle of a levelled picture (pixels are 0 … 255)
GAIN = 45.0  # what one local deviation is worth in it: nearly three fit on either side
PATCHES = ObjectFeatures(
    size=20,
    banks=(Bank(side=6, filters=512, threshold=0.2, grid=3, weight=0.25, directions=256, damping=0.01),),
    colours=None,
    noise=0.1,
    scale=1024.0,
    mirrored=False,
)


@dataclass(frozen=True)
class SignFeatures:
    """Feature map for colour or grey images with one emblem in the middle.

    Every constant is a parameter, and none is computed from data.

    Parameters
    ----------
    side : int
        Side of the cut-out after resampling, in pixels, whatever the input size.
    crops : tuple of float
        Side of the cut-out as a share of the frame, one for each block of features.
    blurs : tuple of float
        Smoothing before the gradients of each block, in pixels.
    grids : tuple of int
        Cells along each side of each block.
    window : float
        Standard deviation of a cell's window, in cells.
    orientations : int
        Signed directions.
    contrast : float
        Reach of the local mean and contrast, in pixels.
    floor : float
        Added to the local contrast (pixels lie in 0 … 1), so that flat regions stay flat.
    copies : 1, 3, 5 or 7
        Virtual copies per training image: nearer and farther; also shifted two ways along a diagonal, or four ways
        along the sides.
    scale : float
        Length of the quantised vector of edges; that of the patches is their own.
    patches : ObjectFeatures or None
        How patches of the levelled picture are described, with their weight; None leaves them out.
    patch_crop, patch_blur : float
        Side of the cut-out for these as a share of the frame, and smoothing of it in pixels.
    """

    side: int = 40
    crops: tuple[float, ...] = (0.54, 0.6, 0.54)
    blurs: tuple[float, ...] = (0.8, 2.0, 4.0)
    grids: tuple[int, ...] = (7, 6, 4)
    window: float = 0.5
    orientations: int = 16
    contrast: float = 3.0
    floor: float = 0.02
    copies: int = 3
    scale: float = 1024.0
    patches: ObjectFeatures | None = PATCHES
    patch_crop: float = 0.56
    patch_blur: float = 0.8

    @property
    def answers_one_by_one(self) -> bool:
        """Whether no company changes a bit: it is for the map of the patches to say."""
        return self.patches is None or declares(self.patches, ONE_BY_ONE)

    @property
    def n_features(self) -> int:
        """Length of a feature vector."""
        edges = sum(grid * grid for grid in self.grids) * self.orientations
        return edges + (0 if self.patches is None else self.patches.n_features)

    def __call__(self, images: NDArray[Any], *, training: bool = False) -> NDArray[np.int16]:
        """Features (n, copies, n_features) of images (n, height, width) or (n, height, width, colours)."""
        images = np.asarray(images)
        if images.ndim not in (3, 4):
            raise PoisonproofError(
                f"Sign features need images, (n, height, width[, colours]). Got shape {images.shape}."
            )
        if self.copies not in VIEWS:
            raise PoisonproofError(
                f"The 'copies' of sign features must be in {sorted(VIEWS)}. Got {self.copies!r} instead."
            )
        if not len(self.crops) == len(self.blurs) == len(self.grids):
            raise PoisonproofError("The crops, blurs and grids of sign features must be as many as there are blocks.")
        views = np.array(VIEWS[self.copies if training else 1])
        out = np.empty((len(images), len(views), self.n_features), np.int16)
        if self.patches is not None:
            self.patches.prepare()

        def work(start: int, stop: int) -> None:
            part = images[start:stop].astype(np.float64)
            grey = part if part.ndim == 3 else _grey(part)
            level = gaussian_taps(self.contrast)
            at = 0
            for crop, sigma, grid in zip(self.crops, self.blurs, self.grids, strict=True):
                width = grid * grid * self.orientations
                cells = grid_weights(self.side, grid, self.window * self.side / grid)
                taps, length = gaussian_taps(sigma), self.scale / len(self.grids) ** 0.5
                block = out[start:stop, :, at : at + width]
                _sign_block(grey, views, crop, level, self.floor, taps, self.orientations, cells, length, block)
                at += width
            if self.patches is not None:
                pictures = np.empty((len(part) * len(views), self.side, self.side, 1), np.uint8)
                patch_features = np.empty((len(pictures), self.patches.n_features), np.int8)
                _pictures(grey, views, self.patch_crop, level, self.floor, gaussian_taps(self.patch_blur), pictures)
                self.patches.describe(pictures, patch_features)
                out[start:stop, :, at:] = patch_features.reshape(len(part), len(views), -1)

        with one_linear_algebra_thread():
            in_threads(len(images), 64, work)
        return out


@njit(nogil=True, cache=True)
def _grey(images: NDArray[np.float64]) -> NDArray[np.float64]:
    n, height, width, colours = images.shape
    out = np.empty((n, height, width))
    for i in range(n):
        for y in range(height):
            for x in range(width):
                total = 0.0
                for c in range(colours):
                    total += images[i, y, x, c]
                out[i, y, x] = total / colours
    return out


@njit(nogil=True, cache=True)
def _sign_block(
    images: NDArray[np.float64],
    views: NDArray[np.float64],
    crop: float,
    contrast_taps: NDArray[np.float64],
    floor: float,
    taps: NDArray[np.float64],
    n_orientations: int,
    weights: NDArray[np.float64],
    scale: float,
    out: NDArray[np.int16],
) -> None:
    work = np.empty((4, weights.shape[0], weights.shape[0]))
    grid = np.empty((weights.shape[1] * weights.shape[1], n_orientations))
    for image in range(len(images)):
        for view in range(len(views)):
            smooth = _levelled(images[image], crop, views[view], contrast_taps, floor, taps, work)
            orientation_grid(smooth, n_orientations, weights, weights, grid)
            values = grid.ravel()
            for i in range(len(values)):
                values[i] = values[i] ** 0.5
            factor = unit_length(values) * scale
            for i in range(len(values)):
                out[image, view, i] = int(values[i] * factor + 0.5)


@njit(nogil=True, cache=True)
def _pictures(
    images: NDArray[np.float64],
    views: NDArray[np.float64],
    crop: float,
    contrast_taps: NDArray[np.float64],
    floor: float,
    taps: NDArray[np.float64],
    out: NDArray[np.uint8],
) -> None:
    """Levelled cut-outs of the images, all views of each in turn, in whole pixels of one colour."""
    side = out.shape[1]
    work = np.empty((4, side, side))
    for image in range(len(images)):
        for view in range(len(views)):
            smooth = _levelled(images[image], crop, views[view], contrast_taps, floor, taps, work)
            for y in range(side):
                for x in range(side):
                    out[image * len(views) + view, y, x, 0] = int(
                        min(max(GREY + GAIN * smooth[y, x], 0.0), 255.0) + 0.5
                    )


@njit(nogil=True, cache=True)
def _levelled(
    image: Plane,
    crop: float,
    view: NDArray[np.float64],
    contrast_taps: NDArray[np.float64],
    floor: float,
    taps: NDArray[np.float64],
    work: NDArray[np.float64],
) -> Plane:
    """The cut-out from a view, levelled and smoothed: one of the four planes of ``work``."""
    cut, smooth, deviation, scratch = work[0], work[1], work[2], work[3]
    _cut_out(image, crop, view, cut)
    _level(cut, contrast_taps, floor, smooth, deviation, scratch)
    blur(cut, taps, scratch, smooth)
    return smooth


@njit(nogil=True, cache=True)
def _cut_out(image: Plane, crop: float, view: NDArray[np.float64], out: Plane) -> None:
    """The middle of the frame at the given share of its side, seen from the given view, in 0 … 1."""
    side = out.shape[0]
    step_y = crop * image.shape[0] / side / view[0]
    step_x = crop * image.shape[1] / side / view[0]
    for row in range(side):
        for column in range(side):
            y = (image.shape[0] - 1) / 2.0 + (row - (side - 1) / 2.0 + view[1]) * step_y
            x = (image.shape[1] - 1) / 2.0 + (column - (side - 1) / 2.0 + view[2]) * step_x
            y = min(max(y, 0.0), image.shape[0] - 1.0)
            x = min(max(x, 0.0), image.shape[1] - 1.0)
            out[row, column] = bilinear(image, y, x) / 255.0


@njit(nogil=True, cache=True)
def _level(
    image: Plane, taps: NDArray[np.float64], floor: float, mean: Plane, deviation: Plane, scratch: Plane
) -> None:
    """(z − μ) / (σ + floor) with the Gaussian mean and deviation around each pixel, in place.

    Windows that reach over the border count the pixels they have: both are divided by the same blur of ones.
    """
    side = image.shape[0]
    ones = np.ones((side, side))
    held = np.empty((side, side))
    blur(ones, taps, scratch, held)
    blur(image, taps, scratch, mean)
    for y in range(side):
        for x in range(side):
            mean[y, x] /= held[y, x]
            ones[y, x] = (image[y, x] - mean[y, x]) ** 2
    blur(ones, taps, scratch, deviation)
    for y in range(side):
        for x in range(side):
            image[y, x] = (image[y, x] - mean[y, x]) / ((deviation[y, x] / held[y, x]) ** 0.5 + floor)

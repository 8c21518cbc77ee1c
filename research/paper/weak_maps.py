"""A weak map for images: pooled pixels beside pooled edges, in whole numbers, so that no company changes a bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

AT_ONCE = 1024  # images, to spare memory
TURNS = 64  # of a whole number per unit: directions of edges


@dataclass(frozen=True)
class PixelsAndEdges:
    """Square roots of pixels and of edge strengths, summed over a grid of cells; each part has length 1.

    Parameters
    ----------
    cells : int
        Cells along each side of the grid.
    edges : float
        How much edges weigh beside pixels; the one constant that is tuned.
    orientations : int
        Directions of edges that are told apart; an edge counts in each by how much more of it goes that way than aside.
    scale : float
        Steps per unit of length.
    """

    cells: int = 7
    edges: float = 1.0
    orientations: int = 8
    scale: float = 1024.0
    answers_one_by_one = True  # whole numbers, and roots of each by itself

    def __call__(self, X: Any, *, training: bool = False) -> NDArray[np.int16]:
        """Features (n, 1, n_features) of images (n, height, width) or (n, height, width, channels)."""
        rows = np.asarray(X)
        parts = [self._described(rows[start : start + AT_ONCE]) for start in range(0, max(len(rows), 1), AT_ONCE)]
        return np.concatenate(parts)[:, None]

    def _described(self, rows: NDArray[Any]) -> NDArray[np.int16]:
        images = rows.astype(np.int64)
        images = images[..., None] if images.ndim == 3 else images
        grey = images.sum(axis=3)
        across, down = np.zeros_like(grey), np.zeros_like(grey)
        across[:, :, 1:-1], down[:, 1:-1] = grey[:, :, 2:] - grey[:, :, :-2], grey[:, 2:] - grey[:, :-2]
        turns = 2 * np.pi * np.arange(self.orientations) / self.orientations
        ways = np.rint(TURNS * np.column_stack([np.cos(turns), np.sin(turns)])).astype(np.int64)
        strengths = np.stack(
            [np.maximum(across * x + down * y - np.abs(across * y - down * x), 0) for x, y in ways], axis=3
        )
        weight = 1 / np.hypot(1, self.edges)
        parts = [weight * self._pooled(images), weight * self.edges * self._pooled(strengths)]
        return np.rint(self.scale * np.concatenate(parts, axis=1)).astype(np.int16)

    def _pooled(self, planes: NDArray[np.int64]) -> NDArray[np.float64]:
        n, height, width, depth = planes.shape
        tall, wide = height // self.cells, width // self.cells
        cut = planes[:, : tall * self.cells, : wide * self.cells]
        sums = cut.reshape(n, self.cells, tall, self.cells, wide, depth).sum(axis=(2, 4)).reshape(n, -1)
        return np.sqrt(sums) / np.sqrt(np.maximum(sums.sum(axis=1, keepdims=True), 1))

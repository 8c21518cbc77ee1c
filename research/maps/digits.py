"""Features of handwritten digits: `GlyphFeatures` in a metric for handwriting, learned from drawn digits.

What only tells one hand from another counts less (`Hand`). All this is fixed, so it carries what we know about
handwriting into a subset of fifty images.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.learners.feature_maps import GlyphFeatures
from poisonproof.system.determinism import one_linear_algebra_thread
from poisonproof.system.threads import in_threads
from research.maps.hand import Hand, Metric

HAND = Hand()


@dataclass(frozen=True)
class DigitFeatures(GlyphFeatures):
    """Feature map for grey images of handwritten digits, bright on dark.

    Parameters
    ----------
    size, spread, aspect, blur, orientations, grid, window, copies, scale
        As in `GlyphFeatures`.
    hand : Hand or None
        Which differences are only handwriting and count less, and which count more; None counts all alike.
    """

    hand: Hand | None = HAND
    answers_one_by_one = True  # see poisonproof.samples.batches

    def __call__(self, images: NDArray[Any], *, training: bool = False) -> NDArray[np.int8]:
        """Features (n, copies, n_features) of images (n, height, width); one copy unless training."""
        out = super().__call__(images, training=training)
        if self.hand is not None:
            metric = _metric(self)
            with one_linear_algebra_thread():
                in_threads(len(out), 256, lambda start, stop: metric.apply(out[start:stop].reshape(-1, out.shape[2])))
        return out


@lru_cache(maxsize=4)
def _metric(features: DigitFeatures) -> Metric:
    """The metric of a hand for these features."""
    assert features.hand is not None
    plain = replace(features, hand=None)
    with one_linear_algebra_thread():
        return features.hand.metric(lambda images: plain(images)[:, 0], features.scale)

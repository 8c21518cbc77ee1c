"""The maps of the frontier: features of the images of a data set, kept between runs."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from research.maps.digits import DigitFeatures
from research.maps.hand import Hand
from research.maps.objects import ObjectFeatures
from research.maps.signs import SignFeatures
from research.maps.trusted import described as sums_of_halves

CROPS = 2400


@dataclass(frozen=True)
class Shape:
    """One map: features, views of a test sample, and what whitens them.

    ``whitened_by``: nothing, "photographs" (crops of the two that come with scikit-learn), "trusted" (1,000 training
    images set aside), "all" (all training images, unlabelled) or "blocks" (each member's own subset).
    """

    name: str
    features: str
    reach: float | None = None
    views: int = 1
    whitened_by: str = ""
    directions: int = 0
    exponent: float = 0.0
    blocks: int = 0
    d: int = 1

    @property
    def base(self) -> Any:
        """The feature map before the whitening."""
        if self.features == "digits":
            hand = None if self.reach is None else replace(Hand(), reach=self.reach)
            return DigitFeatures(hand=hand, copies=max(self.views, 1))
        if self.features == "signs":
            return SignFeatures(copies=max(self.views, 1))
        return ObjectFeatures()

    @property
    def length(self) -> float:
        """What counts as length 1."""
        return 1024.0 if self.whitened_by else float(self.base.scale)

    @property
    def mirror_minimum(self) -> bool:
        """Whether distances are the smaller ones to an image and its mirror image; whitened, sums of both are used."""
        return self.features == "objects" and not self.whitened_by

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {key: value for key, value in asdict(self).items() if value not in ("", None, 0)}


@dataclass(frozen=True)
class Part:
    """Some images: of the training set, the test set, or crops of photographs."""

    of: str
    rows: NDArray[np.int64]


def described(dataset: str, data: Any, shape: Shape, part: Part, folder: Path, views: int = 1) -> NDArray[Any]:
    """Features (n, views, n_features) of a part; those of whole sets are kept in a folder."""
    key = hashlib.sha256(f"{shape.base!r} {views} {bool(shape.whitened_by)}".encode()).hexdigest()[:12]
    path = folder / f"{dataset}-{part.of}-{key}.npy"
    if part.of == "train" and views > 1:  # held out: a few
        return _features(shape, data.train.X[part.rows], views)
    if not path.exists():
        images = {"train": data.train.X, "test": data.test.X}.get(part.of)
        np.save(path, _features(shape, photographs() if images is None else images, views))
    return np.load(path, mmap_mode="r")[part.rows]


def _features(shape: Shape, images: NDArray[Any], views: int) -> NDArray[Any]:
    base = shape.base
    if views > 1:
        return np.asarray(base(images, training=True))
    if shape.features == "objects" and shape.whitened_by:
        pieces = [sums_of_halves(base, images[i : i + 2000]) for i in range(0, len(images), 2000)]
        return np.concatenate(pieces)[:, None]
    return np.asarray(base(images))


@cache
def photographs() -> NDArray[np.uint8]:
    """Crops of the two photographs that come with scikit-learn, of all sizes, as images of 32 × 32 pixels."""
    from PIL import Image
    from sklearn.datasets import load_sample_images

    pictures = load_sample_images().images
    random = np.random.default_rng(1)
    crops = []
    for number in range(CROPS):
        picture = pictures[number % 2]
        height, width = picture.shape[:2]
        side = int(np.exp(random.uniform(np.log(32), np.log(min(height, width) * 0.9))))
        top, left = int(random.integers(0, height - side)), int(random.integers(0, width - side))
        crop = Image.fromarray(picture[top : top + side, left : left + side])
        crops.append(np.asarray(crop.resize((32, 32), Image.Resampling.BOX)))
    return np.array(crops)

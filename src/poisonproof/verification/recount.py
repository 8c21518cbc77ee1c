"""Votes of samples, counted again from the data: the stated map is asked, everything after it is this checker's own.

Features are whole numbers, so products in double precision are exact. A squared distance is a whole number; a cosine is
compared in steps of 2⁻²⁰ below 1, rounded up, and where a double cannot tell which step it is, whole numbers can.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.verification.content import complete, content_hashes, labels_of, places_among
from poisonproof.verification.verdict import NotCheckedError, NotTrueError

STEPS = 1 << 20
FARTHEST = 2 * STEPS + 1  # a vector of zeros has no direction and is near nothing
LONGEST_SQUARED = 1 << 24
ROWS_AT_ONCE = 4096
PRODUCTS_AT_ONCE = 1 << 24
PICTURES = ("glyphs",)


@dataclass(frozen=True, eq=False)
class Electorate:
    """The voters of a run, from its data: features, class codes, content hashes and contributors' numbers.

    ``places``: which voter each training sample is; -1 for those that were left out.
    """

    rows: NDArray[np.float64]
    codes: NDArray[np.int64]
    hashes: NDArray[np.uint64]
    owners: NDArray[np.int64] | None
    places: NDArray[np.int64]
    election: dict[str, Any]
    features: Any

    @property
    def mirrored(self) -> bool:
        """Whether the second half of a vector is the first half of the mirrored sample's."""
        return bool(getattr(self.features, "mirrored", False))

    def distances(self, test: NDArray[np.float64]) -> NDArray[np.int64]:
        """The distance of every voter to each of these test samples, as whole numbers."""
        products = test @ self.rows.T
        if self.mirrored:
            half = test.shape[1] // 2
            swapped = np.concatenate([test[:, half:], test[:, :half]], axis=1)
            products = np.maximum(products, swapped @ self.rows.T)
        whole = products.astype(np.int64)
        left, right = _squares(test), _squares(self.rows)
        if self.election["metric"] == "cosine":
            return cosine_steps(whole, left[:, None], right[None, :])
        return left[:, None] + right[None, :] - 2 * whole

    def own_distance(self, test: NDArray[np.float64]) -> NDArray[np.int64]:
        """The distance of each test sample to a copy of itself."""
        if self.election["metric"] != "cosine":
            return np.zeros(len(test), np.int64)
        return np.where(_squares(test) == 0, FARTHEST, 0)

    @property
    def limit(self) -> int:
        """The greatest distance that counts as near."""
        return greatest_distance(self.election)

    def near(self, test: NDArray[np.float64], cells: NDArray[np.int64], n_cells: int) -> NDArray[np.int64]:
        """How many voters of each cell are near each test sample."""
        is_near = self.distances(test) <= self.limit
        return np.stack([np.bincount(cells[row], minlength=n_cells) for row in is_near]).astype(np.int64)

    def order(self, test: NDArray[np.float64], most: int) -> NDArray[np.int64]:
        """Labels of the nearest voters by (distance, content hash, label); of each contributor the first alone."""
        listed = []
        for distances in self.distances(test):
            order = np.lexsort((self.codes, self.hashes, distances))
            if self.owners is not None:
                _, first = np.unique(self.owners[order], return_index=True)
                order = order[np.sort(first)]
            listed.append(self.codes[order[:most]])
        return np.array(listed)

    def nearest(self, test: NDArray[np.float64]) -> NDArray[np.int64]:
        """The distance of the nearest voter."""
        return self.distances(test).min(axis=1)


def greatest_distance(election: dict[str, Any]) -> int:
    """What counts as near, from the threshold that is declared: a squared distance, or steps of the cosine below 1."""
    near = Fraction(float(election["near"]))
    if election["metric"] == "cosine":
        return STEPS - math.ceil(near * STEPS)
    return min(math.floor((near * Fraction(election["steps_per_unit"])) ** 2), 4 * LONGEST_SQUARED)


def near_of(election: dict[str, Any]) -> dict[str, Any]:
    """What the premise about the threshold must state."""
    limit = greatest_distance(election)
    if election["metric"] == "cosine":
        return {"cosine": (STEPS - limit) / STEPS}
    return {"distance": float(election["near"]), "squared_steps": limit}


def cosine_steps(products: NDArray[np.int64], left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many whole steps each cosine lies below 1, rounded up."""
    squares = left * right
    with np.errstate(divide="ignore", invalid="ignore"):
        values = products * (STEPS / np.sqrt(squares.astype(np.float64)))
    values = np.where(squares == 0, 0.0, values)
    whole = np.floor(values).astype(np.int64)
    doubtful = (np.abs(values - np.rint(values)) < 1e-5) & (squares > 0)
    for place in zip(*np.nonzero(doubtful), strict=True):
        whole[place] = _floor_of(int(products[place]), int(squares[place]))
    return np.where(squares == 0, FARTHEST, STEPS - whole)


def _floor_of(product: int, squares: int) -> int:
    """⌊2²⁰ · product / √squares⌋, in whole numbers."""
    scaled = product * product * STEPS * STEPS
    root = math.isqrt(scaled // squares)
    if product >= 0:
        return root
    return -root if root * root * squares == scaled else -root - 1


def _squares(rows: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.asarray(np.square(rows).sum(axis=1)).astype(np.int64)


def described(features: Any, X: Any) -> NDArray[np.float64]:
    """What the map says of samples, as it was declared to be: whole numbers, one row for each."""
    parts = []
    for start in range(0, _count(X), ROWS_AT_ONCE):
        part = _rows(X, start, start + ROWS_AT_ONCE)
        given = np.asarray(features(part))
        parts.append((given[:, 0] if given.ndim == 3 else given).astype(np.float64))
    return np.concatenate(parts)


def map_in_words(election: dict[str, Any]) -> str | None:
    """What the premise about the map must say; None where the record of a run cannot tell."""
    from poisonproof.ballots.maps import ENCODER, OWN, map_of
    from poisonproof.learners.inspection import describe

    record = election["map"]
    if record["name"] in (OWN, ENCODER):
        return None
    features = map_of(record)
    words = features.words if record["name"] == "table" else describe(features)
    return f"{words}, {election['steps_per_unit']:g} steps per unit, {election['metric']}"


def electorate(election: dict[str, Any], classes: list[Any], data: Any, groups: Any, given: Any = None) -> Electorate:
    """The voters that the data give: every training sample with a known label, and a contributor where those vote.

    ``given`` is an encoder, or a learner behind one, that the auditor has at hand.
    """
    from poisonproof.ballots.maps import OWN, map_of
    from poisonproof.learners.feature_maps import PublicMap
    from poisonproof.learners.inspection import public_map_of

    if election["map"]["name"] == OWN:
        raise NotCheckedError("the map is one of somebody's own, and the run does not hold its code.")
    features = map_of(election["map"], given if isinstance(given, PublicMap) else public_map_of(given))
    codes = places_among(classes, data.train.labels)
    kept = codes >= 0
    if election["map"]["name"] in PICTURES:
        kept &= complete(data.train.X)
    owners = None
    if groups is not None:
        ids = labels_of(groups)
        kept &= np.array([name is not None for name in ids], np.bool_)
        owners = np.full(len(ids), -1, np.int64)
        numbers: dict[Any, int] = {}
        for row in np.flatnonzero(kept).tolist():
            owners[row] = numbers.setdefault(ids[row], len(numbers))
    rows = described(features, data.train.X)
    if (_squares(rows[kept]) > LONGEST_SQUARED).any():
        raise NotTrueError("the map gives features that are longer than products can be exact for.")
    hashes = content_hashes(data.train.X, data.dtype, getattr(data, "n_features", None))
    voting = None if owners is None else owners[kept]
    order = np.where(kept, np.cumsum(kept) - 1, -1)
    return Electorate(rows[kept], codes[kept], hashes[kept], voting, order, election, features)


def _count(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _rows(X: Any, start: int, stop: int) -> Any:
    return X.iloc[start:stop] if hasattr(X, "iloc") else X[start:stop]

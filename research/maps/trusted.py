"""Feature maps shaped by samples that the attacker cannot touch.

A map that votes are measured in must not move with the votes. Trusted samples may shape it: their mean is taken off,
the directions in which they vary are brought to comparable sizes, and how near is near is read off their distances.
The map's description tells the number and the digest of these samples; their labels are not needed.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.learners.feature_maps import ask_map
from poisonproof.system.determinism import one_linear_algebra_thread
from research.maps.whitening import LENGTH, Whitening

MOST_PAIRS = 4000  # samples whose distances to one another say how near is near


@dataclass(frozen=True, eq=False)
class TrustedFeatures:
    """A feature map, followed by a whitening that trusted samples gave.

    Vectors have the length ``scale``, so Euclidean distances stand for angles. Of features that come with those of the
    mirrored sample, the sum of the two is whitened: what mirroring does not change.

    Parameters
    ----------
    features : callable
        Feature map to integers, such as `ObjectFeatures`; called as ``features(X, training=…)``.
    whitening : Whitening
    n_trusted : int
        How many samples shaped it.
    trusted_digest : str
        Digest of what the map before says of them, in order of their content.
    """

    features: Any
    whitening: Whitening
    n_trusted: int
    trusted_digest: str
    answers_one_by_one = True  # see poisonproof.samples.batches

    @classmethod
    def of(
        cls,
        features: Any,
        trusted: Any,
        *,
        directions: int,
        exponent: float,
        scale: float = LENGTH,
    ) -> TrustedFeatures:
        """The map that these samples shape; see `Whitening.of`. Their order does not matter."""
        samples = np.asarray(trusted)
        rows = in_order(described(features, samples))
        whitening = Whitening.of(rows, directions, exponent, scale)
        return cls(features, whitening, len(samples), digest_of(rows))

    @property
    def scale(self) -> float:
        """What counts as length 1."""
        return self.whitening.scale

    @property
    def n_features(self) -> int:
        """Length of a feature vector."""
        return self.whitening.n_features

    def __call__(self, X: Any, *, training: bool = False) -> NDArray[np.int16]:
        """Features (n, 1, directions) of samples."""
        return self.whitening(described(self.features, X))[:, None]

    def near(self, samples: Any, share: float) -> float:
        """The distance within which this share of all pairs of these (trusted) samples lie."""
        return near_of(self(samples)[:, 0], share) / self.scale


def described(features: Any, X: Any) -> NDArray[Any]:
    """Integer rows of samples; of mirrored features, the sums of the two halves."""
    rows = ask_map(features, X)
    if rows.ndim == 3:
        rows = rows[:, 0]
    if rows.ndim != 2 or rows.dtype.kind not in "iu":
        raise PoisonproofError(
            f"A map to be whitened must give whole numbers, (n, 1, features). Got {rows.dtype} of shape {rows.shape}."
        )
    return sum_of_halves(rows, getattr(features, "mirrored", False))


def sum_of_halves(rows: NDArray[Any], mirrored: bool) -> NDArray[Any]:
    """Of mirrored features, what mirroring does not change; others as they are."""
    if not mirrored:
        return rows
    half = rows.shape[1] // 2
    return rows[:, :half].astype(np.int16) + rows[:, half:]


def in_order(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows in increasing order of their content, so that what is computed from them forgets how they came."""
    return rows[sorted(range(len(rows)), key=lambda row: rows[row].tobytes())]


def digest_of(rows: NDArray[Any]) -> str:
    """SHA-256 of integer rows."""
    plain = np.ascontiguousarray(rows, dtype="<i4")
    return hashlib.sha256(f"{plain.shape} ".encode() + plain.tobytes()).hexdigest()


def near_of(rows: NDArray[Any], share: float) -> float:
    """The length within which this share of all pairs of different rows lie, half a step of its square to spare.

    At most 4,000 rows, evenly spaced, are compared. Distances are exact, so the half step makes sure that no rounding
    on the way to a limit in whole numbers changes who is near.
    """
    if not 0.0 < share <= 1.0:
        raise PoisonproofError(f"The share of pairs that are near must be above 0 and at most 1. Got {share!r}.")
    if len(rows) < 2:
        raise PoisonproofError(f"How near is near cannot be read off {len(rows)} samples; 2 or more are needed.")
    chosen = rows if len(rows) <= MOST_PAIRS else rows[np.linspace(0, len(rows) - 1, MOST_PAIRS).astype(np.int64)]
    wide = chosen.astype(np.float64)  # products of vectors of this length are exact in it
    squares = np.square(wide).sum(axis=1)
    with one_linear_algebra_thread():
        distances = squares[:, None] + squares - 2 * (wide @ wide.T)
    pairs = distances[np.triu_indices(len(chosen), 1)]
    at = max(math.ceil(share * len(pairs)), 1) - 1
    return math.sqrt(float(np.partition(pairs, at)[at]) + 0.5)

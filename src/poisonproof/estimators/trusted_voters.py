"""Trusted samples beside the training samples that vote: heard like them, and out of every attacker's reach."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.maps.trusted_samples import TrustedSamples
from poisonproof.premises import Premise
from poisonproof.samples.kinds import Samples
from poisonproof.samples.labels import read_labels
from poisonproof.votes.describing import Map
from poisonproof.votes.nearness import Nearness
from poisonproof.votes.voters import Described, Nearest, Voters, merged, nearest_voters


def voters_of_trusted(samples: Samples, y: Any, classes: NDArray[Any], features: Map) -> Voters:
    """Trusted samples as voters; the caller vouches for them, so that what cannot vote among them is refused."""
    codes = read_labels(y, classes.tolist()).codes
    if (codes < 0).any():
        raise PoisonproofError(
            f"{int((codes < 0).sum())} trusted samples have a label that is not one of the classes; declare it, or "
            "leave them out."
        )
    described = features.describe(samples)
    if not described.readable.all():
        raise PoisonproofError(
            f"{int((~described.readable).sum())} trusted samples cannot be read by the feature map; leave them out."
        )
    return Voters.of(described, codes, samples.content_hashes.copy(), np.zeros(len(codes), np.int64))


def nearest_with_trusted(
    nearest: Nearest, trusted: Voters, test: Described, nearness: Nearness, most: int
) -> tuple[Nearest, NDArray[np.bool_]]:
    """The nearest of training samples and trusted ones together, and which of them are trusted."""
    theirs = nearest_voters(trusted, test, nearness, most)
    ours = nearest._replace(codes=2 * nearest.codes)
    together = merged([ours, theirs._replace(codes=2 * theirs.codes + 1)], most)
    return together._replace(codes=together.codes // 2), together.codes % 2 == 1


def trusted_premises(trusted: TrustedSamples | None) -> list[Premise]:
    """Who is trusted: number, digest, and what for."""
    if trusted is None:
        return []
    votes = "they vote and cannot be removed" if trusted.y is not None else "they do not vote"
    return [Premise("trusted samples", f"{trusted.words}; {votes}", declared=True)]

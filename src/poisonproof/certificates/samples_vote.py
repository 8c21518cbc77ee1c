"""Certificates of training samples that vote: from ballots and neighbours to the record that all methods share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.certificates.ballots import Radii, certify_counts
from poisonproof.certificates.certificate import Certificate
from poisonproof.certificates.contributors import certify_voices
from poisonproof.certificates.neighbours import certify_order
from poisonproof.certificates.trusted_neighbours import certify_order_with_trusted
from poisonproof.votes.ballots import Ballots
from poisonproof.votes.neighbours import Neighbours


def certify_ballots(ballots: Ballots, *, n_jobs: int = -1) -> Certificate:
    """The certificate of these ballots: exact wherever a copy of the test sample would be near it."""
    method = "one-sided ballots" if ballots.one_sided else "ballots"
    voters = "contributors" if ballots.voices else "training samples"
    n_trusted = 0 if ballots.trusted is None else int(ballots.trusted.totals.sum())
    count = len(ballots.voices.starts) - 1 if ballots.voices else int(ballots.totals.sum())
    beside = f" and {n_trusted} trusted ones" if n_trusted else ""
    election = {
        "kind": method,
        "words": f"{count} {voters}{beside} vote, near +1 and far {0 if ballots.one_sided else -1}",
        "n_voters": count + n_trusted,
        "n_trusted": n_trusted,
        "sizes": ballots.sizes.tolist(),
        "voices": ballots.voices.most if ballots.voices else None,
        **ballots.rule,
    }
    return _certificate(method, ballots, scores_and_radii(ballots, n_jobs=n_jobs)[1], ballots.self_near, election)


def scores_and_radii(ballots: Ballots, *, n_jobs: int = -1) -> tuple[NDArray[np.int64], Radii]:
    """The score of every class, an array (n_test, n_classes), and all radii."""
    one_sided, inferred, voices = ballots.one_sided, ballots.classes_inferred, ballots.voices
    if voices is None:
        scores = (ballots.near if one_sided else 2 * ballots.near - ballots.totals) + ballots.constants
        lasting = None if ballots.trusted is None else ballots.trusted.totals > 0
        counts = (ballots.near, ballots.totals, ballots.constants)
        return scores, certify_counts(*counts, one_sided=one_sided, inferred=inferred, lasting=lasting)
    return certify_voices(
        ballots.near,
        ballots.totals,
        voices.classes,
        voices.starts,
        ballots.sizes,
        voices.most,
        one_sided=one_sided,
        inferred=inferred,
        n_jobs=n_jobs,
    )


def certify_neighbours(neighbours: Neighbours, *, n_jobs: int = -1) -> Certificate:
    """The certificate of K nearest neighbours: exact wherever a copy of the test sample would come first."""
    voters = "contributors" if neighbours.contributors else "training samples"
    election = {
        "kind": "neighbours",
        "words": f"the {neighbours.n_neighbors} nearest of {neighbours.n_samples} {voters} vote"
        + (f", {neighbours.n_trusted} of them trusted" if neighbours.n_trusted else ""),
        "n_voters": neighbours.n_samples,
        "n_trusted": neighbours.n_trusted,
        "n_neighbors": neighbours.n_neighbors,
        **neighbours.rule,
    }
    return _certificate("neighbours", neighbours, _radii(neighbours, n_jobs), neighbours.first, election)


def _radii(neighbours: Neighbours, n_jobs: int) -> Radii:
    order, k, n_samples = neighbours.order, neighbours.n_neighbors, neighbours.n_samples
    n_classes, inferred = len(neighbours.classes), neighbours.classes_inferred
    if neighbours.trusted is not None:
        counts = (k, n_samples, neighbours.n_trusted, n_classes)
        return certify_order_with_trusted(order, neighbours.trusted, *counts, inferred=inferred, n_jobs=n_jobs)
    contributors = neighbours.contributors
    return certify_order(order, k, n_samples, n_classes, inferred=inferred, contributors=contributors, n_jobs=n_jobs)


def _certificate(
    method: str, votes: Ballots | Neighbours, radii: Radii, exact: NDArray[np.bool_], election: dict[str, Any]
) -> Certificate:
    return Certificate(
        radii.prediction,
        radii.runner_up,
        radii.margin,
        radii.insert_remove,
        method=method,
        classes=votes.classes,
        split=votes.split,
        classes_inferred=votes.classes_inferred,
        premises=votes.premises,
        exact=radii.exact & exact,
        election=election,
        radii=radii.others,
    )

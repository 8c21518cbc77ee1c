"""Certificates of training samples that vote: from ballots and neighbours to the record that all methods share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.certificates.ballots import Radii, certify_counts
from poisonproof.certificates.certificate import Certificate
from poisonproof.certificates.contributors import certify_voices
from poisonproof.certificates.neighbours import certify_order
from poisonproof.certificates.target import target_code
from poisonproof.certificates.target_certificate import TargetCertificate
from poisonproof.certificates.target_of_samples import by_ballots, by_neighbours
from poisonproof.errors import PoisonproofError
from poisonproof.votes.ballots import Ballots
from poisonproof.votes.neighbours import Neighbours

FLIPS_ALONE = "label_flips_only"  # in the rule of a vote: the training samples shaped its map


def certify_ballots(ballots: Ballots, *, n_jobs: int = -1) -> Certificate:
    """The certificate of these ballots: exact wherever a copy of the test sample would be near it."""
    return _certificate(ballots, scores_and_radii(ballots, n_jobs=n_jobs)[1], ballots.self_near)


def scores_and_radii(ballots: Ballots, *, n_jobs: int = -1) -> tuple[NDArray[np.int64], Radii]:
    """The score of every class, an array (n_test, n_classes), and all radii."""
    one_sided, inferred, voices = ballots.one_sided, ballots.classes_inferred, ballots.voices
    counts = (ballots.near, ballots.totals, ballots.sizes)
    if voices is None:
        scores = (ballots.near if one_sided else 2 * ballots.near - ballots.totals) + ballots.sizes
        return scores, certify_counts(*counts, one_sided=one_sided, inferred=inferred)
    return certify_voices(*counts, voices, one_sided=one_sided, inferred=inferred, n_jobs=n_jobs)


def speaking(votes: Ballots | Neighbours) -> NDArray[np.int64]:
    """Votes that speak for each class, an array (n_test, n_classes); who leads by them leads the election.

    Of ballots: the near samples of a class, the far ones of all others, and its declared size.
    """
    if isinstance(votes, Neighbours):
        return votes.counts()
    return scores_and_radii(votes)[0] + (0 if votes.one_sided else votes.n_voices)


def certify_neighbours(neighbours: Neighbours, *, n_jobs: int = -1) -> Certificate:
    """The certificate of K nearest neighbours: exact wherever a copy of the test sample would come first."""
    return _certificate(neighbours, _radii(neighbours, n_jobs), neighbours.first)


def _radii(neighbours: Neighbours, n_jobs: int) -> Radii:
    order, k, n_samples = neighbours.order, neighbours.n_neighbors, neighbours.n_samples
    n_classes, inferred = len(neighbours.classes), neighbours.classes_inferred
    contributors = neighbours.contributors
    return certify_order(order, k, n_samples, n_classes, inferred=inferred, contributors=contributors, n_jobs=n_jobs)


def certify_target(votes: Ballots | Neighbours, target: Any, *, n_jobs: int = -1) -> TargetCertificate:
    """How many poisons it takes at least until the prediction could become the target, a label."""
    if votes.rule.get(FLIPS_ALONE):
        raise PoisonproofError("The training samples shaped the map, so nothing is claimed but of flipped labels.")
    code = target_code(votes, target)
    bounds = by_ballots(votes, code, n_jobs) if isinstance(votes, Ballots) else by_neighbours(votes, code, n_jobs)
    election = election_of(votes)
    return TargetCertificate(
        bounds.prediction,
        code,
        bounds.margin,
        bounds.radius,
        method=election["kind"],
        classes=votes.classes,
        split=votes.split,
        classes_inferred=votes.classes_inferred,
        premises=votes.premises,
        exact=bounds.exact,
        election=election,
    )


def election_of(votes: Ballots | Neighbours) -> dict[str, Any]:
    """How samples vote, and how many, as plain values."""
    if isinstance(votes, Ballots):
        voters = "contributors" if votes.voices else "training samples"
        count = len(votes.voices.starts) - 1 if votes.voices else int(votes.totals.sum())
        return {
            "kind": "one-sided ballots" if votes.one_sided else "ballots",
            "words": f"{count} {voters} vote, near +1 and far {0 if votes.one_sided else -1}",
            "n_voters": count,
            "sizes": votes.sizes.tolist(),
            "voices": votes.voices.most if votes.voices else None,
            **votes.rule,
        }
    voters = "contributors" if votes.contributors else "training samples"
    return {
        "kind": "neighbours",
        "words": f"the {votes.n_neighbors} nearest of {votes.n_samples} {voters} vote",
        "n_voters": votes.n_samples,
        "n_neighbors": votes.n_neighbors,
        **votes.rule,
    }


def _certificate(votes: Ballots | Neighbours, radii: Radii, exact: NDArray[np.bool_]) -> Certificate:
    election = election_of(votes)
    certificate = Certificate(
        radii.prediction,
        radii.runner_up,
        radii.margin,
        radii.insert_remove,
        method=election["kind"],
        classes=votes.classes,
        split=votes.split,
        classes_inferred=votes.classes_inferred,
        premises=votes.premises,
        exact=radii.exact & exact,
        election=election,
        radii=radii.others,
    )
    return of_flips_alone(certificate) if votes.rule.get(FLIPS_ALONE) else certificate


def of_flips_alone(certificate: Certificate) -> Certificate:
    """The certificate where the training samples themselves shaped the map: all radii but those of flips are 0."""
    nothing = np.zeros(len(certificate), np.int64)
    radii = {name: nothing.copy() for name in certificate.radii or {}}
    radii["label_flip"] = certificate.radius_against("label_flip")
    return replace(certificate, radius=nothing, radii=radii, exact=None)

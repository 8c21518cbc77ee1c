"""Certificates of training samples that vote: from ballots and neighbours to the record that all methods share.

Certified accuracy of ballots: what one attack leaves right, if the same poisons face all test samples.

Every insertion or removal concerns one sample, and so one class: it moves the score of that class, and of no other, by
1 at most, whatever the test sample. An attack spends r_y of its acts on class y, and Σ r_y is its size. The lead of p
over c falls by r_p + r_c at most, so a test sample stays right if r_p + r_c ≤ m_c for all its rivals c. The most that
any division of the acts among the classes puts at risk is found by branch and bound, in integers; wherever it stops,
the largest bound that is left is sound. Proof: docs/proofs/ballots.md, Theorem 8.
"""

from __future__ import annotations

import heapq
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poisonproof.ballots.neighbor_radii import certify_order
from poisonproof.ballots.radii import Counts, Leads, Radii, by_ballots, by_neighbours, certify_counts, certify_voices
from poisonproof.ballots.tallies import Ballots, Neighbours
from poisonproof.core.certificate import Certificate, TargetCertificate
from poisonproof.core.certify import target_code
from poisonproof.errors import PoisonproofError


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
    return Certificate(
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


class Division(NamedTuple):
    """The most test samples that some division of the acts puts at risk (or a bound of it), and one that does it to
    ``shown`` of them.
    """

    most: int
    shown: int
    acts: Counts


class AtRisk(NamedTuple):
    """Test samples that are right with a radius below the attack size: their leads and predictions.

    ``movable``: whether copies of one of them are known to change its prediction. ``clean``: how many of all are right.
    """

    leads: Counts
    prediction: Counts
    movable: bool
    clean: int


def leads_at_risk(ballots: Ballots, y: ArrayLike, size: int) -> AtRisk:
    """Who is at risk under an attack of a size."""
    if ballots.voices is not None:
        raise PoisonproofError(
            "A certified accuracy (one shared attack) of contributors' ballots is not known; ask about single samples."
        )
    certificate = certify_ballots(ballots)
    right = certificate.right(y)
    standing = Leads.of(scores_and_radii(ballots)[0], ballots.classes_inferred)
    rows = np.flatnonzero(right & (standing.margin < size))
    return AtRisk(
        standing.leads[rows], standing.prediction[rows], bool(ballots.self_near[rows].any()), int(right.sum())
    )


def worst_division(leads: Counts, prediction: Counts, size: int, stop: float) -> Division:
    """How many test samples the worst division of so many acts among the classes puts at risk.

    Parameters
    ----------
    leads : array (n, n_classes)
        Leads of test samples over every class, as in `Leads`.
    prediction : array (n,)
    size : int
        Acts in all.
    stop : float
        When to stop, by the monotonic clock.
    """
    n_classes = leads.shape[1]
    rivals = np.arange(n_classes) != prediction[:, None]
    best = Division(0, 0, np.zeros(n_classes, np.int64))
    for c in range(n_classes):  # all acts on one class
        acts = np.zeros(n_classes, np.int64)
        acts[c] = size
        best = max(
            best, Division(0, _reached(leads, prediction, rivals, acts), acts), key=lambda division: division.shown
        )
    least, most = np.zeros(n_classes, np.int64), np.full(n_classes, size, np.int64)
    everything = _reachable(leads, prediction, rivals, least, most, size)
    heap: list[tuple[int, int, Counts, Counts]] = [(-everything, 0, least, most)]
    made = 0
    while heap:
        bound, _, least, most = heap[0]
        if -bound <= best.shown:
            return best._replace(most=best.shown)
        if monotonic() > stop:
            return best._replace(most=-bound)
        heapq.heappop(heap)
        most = np.minimum(most, least + size - least.sum())
        widest = int((most - least).argmax())
        if most[widest] == least[widest]:  # one division is left
            best = max(best, Division(0, -bound, least), key=lambda division: division.shown)
            continue
        middle = (least[widest] + most[widest]) // 2
        below, above = most.copy(), least.copy()
        below[widest], above[widest] = middle, middle + 1
        for low, high in ((least, below), (above, most)):
            at_risk = _reachable(leads, prediction, rivals, low, high, size)
            if at_risk > best.shown:
                made += 1
                heapq.heappush(heap, (-at_risk, made, low, high))
    return best._replace(most=best.shown)


def _reached(leads: Counts, prediction: Counts, rivals: NDArray[np.bool_], acts: Counts) -> int:
    """How many test samples a division puts at risk."""
    spent = acts[prediction][:, None] + acts
    return int(((spent > leads) & rivals).any(axis=1).sum())


def _reachable(leads: Any, prediction: Any, rivals: Any, least: Counts, most: Counts, size: int) -> int:
    """A bound of what all divisions between two put at risk; what other classes take at least is not left for two."""
    left = size - int(least.sum())
    if left < 0:
        return -1
    most = np.minimum(most, least + left)
    spent = np.minimum(most[prediction][:, None] + most, left + least[prediction][:, None] + least)
    return int(((spent > leads) & rivals).any(axis=1).sum())

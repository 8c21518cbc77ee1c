"""The backdoor's question for every class at once: how hard is it to turn the other predictions to it?"""

from __future__ import annotations

import numpy as np

from poisonproof.certificates.certificate import Certificate
from poisonproof.certificates.methods import Method, certify
from poisonproof.certificates.samples_vote import FLIPS_ALONE
from poisonproof.votes.ballots import Ballots
from poisonproof.votes.neighbours import Neighbours
from poisonproof.votes.votes import Votes


def median_radii_against_targets(
    votes: Votes | Ballots | Neighbours, certificate: Certificate
) -> tuple[int | None, ...]:
    """For each class: half of the predictions of other classes withstand that many poisons without becoming it.

    None where every prediction is this class, and where nothing is claimed but of flipped labels. ``certificate`` is
    the one of these votes: its method says who is elected. In a run-off its radii stand for those against a target,
    which are never smaller: to become the target a prediction must change.
    """
    if not isinstance(votes, Votes) and votes.rule.get(FLIPS_ALONE):
        return (None,) * len(certificate.classes)
    medians: list[int | None] = []
    for target, label in enumerate(certificate.classes.tolist()):
        held = certificate.radius[certificate.prediction != target]
        if certificate.method != "run-off":
            method: Method = "dpa-bound" if certificate.method == "dpa-bound" else "finite-aggregation"
            against = certify(votes, method, target=label)
            held = against.radius[~against.already]
        medians.append(int(np.percentile(held, 50, method="lower")) if len(held) else None)
    return tuple(medians)

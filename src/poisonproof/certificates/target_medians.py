"""The backdoor's question for every class at once: how hard is it to turn the other predictions to it?"""

from __future__ import annotations

import numpy as np

from poisonproof.certificates.certificate import Certificate
from poisonproof.certificates.methods import certify
from poisonproof.certificates.samples_vote import FLIPS_ALONE
from poisonproof.votes.ballots import Ballots
from poisonproof.votes.neighbours import Neighbours
from poisonproof.votes.votes import Votes

BY_THEOREM_2 = ("finite-aggregation", "tight")  # the same predictions, and radii that hold for "tight" too


def median_radii_against_targets(
    votes: Votes | Ballots | Neighbours, certificate: Certificate
) -> tuple[int | None, ...]:
    """For each class: half of the predictions of other classes withstand that many poisons without becoming it.

    None where every prediction is this class, and where nothing is claimed but of flipped labels. ``certificate`` is
    the one of these votes: its method says who is elected.
    """
    if not isinstance(votes, Votes) and votes.rule.get(FLIPS_ALONE):
        return (None,) * len(certificate.classes)
    method = certificate.method if isinstance(votes, Votes) else "finite-aggregation"
    asked = "finite-aggregation" if method in BY_THEOREM_2 else method
    medians: list[int | None] = []
    for label in certificate.classes.tolist():
        against = certify(votes, asked, target=label)  # type: ignore[call-overload]
        held = against.radius[~against.already]
        medians.append(int(np.percentile(held, 50, method="lower")) if len(held) else None)
    return tuple(medians)

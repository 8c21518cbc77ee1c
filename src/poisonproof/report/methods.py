"""What else is known from the votes of a run: the certificates of other methods, each a curve of its own.

The run's own certificate stays what the page is about. These others cost no training; the tight one is left out where
it would take longer than a page may.
"""

from __future__ import annotations

from dataclasses import dataclass

from poisonproof.ballots.tallies import Ballots, Neighbours
from poisonproof.core.certificate import Certificate
from poisonproof.core.certify import Method, certify
from poisonproof.core.votes import Votes

MOST_VOTES = 1_000_000  # beyond which "tight" is not worked out for a picture: some seconds

TITLES: dict[str, str] = {
    "finite-aggregation": "Theorem 2 (Finite Aggregation)",
    "dpa-bound": "DPA's bound on the same votes",
    "tight": "tight: overlap counted once",
    "run-off": "run-off election",
    "ballots": "ballots",
    "neighbours": "neighbours",
}


@dataclass(frozen=True, eq=False)
class OtherMethod:
    """A certificate on the same votes by another method."""

    title: str
    certificate: Certificate


def title_of(certificate: Certificate) -> str:
    """The method of a certificate, in words."""
    if certificate.spread is not None and certificate.spread.d == 1 and certificate.method == "finite-aggregation":
        return "Theorem 1 (DPA, d = 1)"
    return TITLES.get(certificate.method, certificate.method)


def other_methods(votes: Votes | Ballots | Neighbours, certificate: Certificate) -> tuple[OtherMethod, ...]:
    """The certificates that the same votes carry besides this one; where training samples vote there is one alone."""
    if not isinstance(votes, Votes):
        return ()
    methods: list[Method] = []
    if votes.spread.d > 1:  # with d = 1 all three are the same, and exact
        methods += ["dpa-bound", "finite-aggregation"]
        if votes.matrix.size <= MOST_VOTES:
            methods.append("tight")
    if votes.rankings is not None:
        methods.append("run-off")
    others = (certify(votes, method) for method in methods if method != certificate.method)
    return tuple(OtherMethod(title_of(one), one) for one in others)

"""poisonproof: classifiers with a proof against training-data poisoning.

The names below are imported on first use, so that ``import poisonproof`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poisonproof.auditing.audit import AuditReport, audit
    from poisonproof.certificates.collective.accuracy import CertifiedAccuracy, certified_accuracy
    from poisonproof.certificates.methods import Certificate, certify
    from poisonproof.certificates.stochastic_certificate import StochasticCertificate
    from poisonproof.estimators.ballots import BallotClassifier
    from poisonproof.estimators.blocks import BlockBallotClassifier
    from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier
    from poisonproof.estimators.neighbours import NeighborVoteClassifier
    from poisonproof.estimators.purity import PurityReport, check_estimator_purity, check_pipeline
    from poisonproof.estimators.stochastic import (
        BinomialSelectionClassifier,
        CertifiedBaggingClassifier,
        InfiniteAggregationClassifier,
    )
    from poisonproof.partition.split import Split
    from poisonproof.partition.spread import Spread
    from poisonproof.premises import PremiseWarning
    from poisonproof.verification import Verdict, verify
    from poisonproof.votes.votes import Votes

__version__ = "0.2.0"

HOMES = {
    "AuditReport": "auditing.audit",
    "BallotClassifier": "estimators.ballots",
    "BinomialSelectionClassifier": "estimators.stochastic",
    "BlockBallotClassifier": "estimators.blocks",
    "Certificate": "certificates.methods",
    "CertifiedAccuracy": "certificates.collective.accuracy",
    "CertifiedBaggingClassifier": "estimators.stochastic",
    "FiniteAggregationClassifier": "estimators.finite_aggregation",
    "InfiniteAggregationClassifier": "estimators.stochastic",
    "NeighborVoteClassifier": "estimators.neighbours",
    "PremiseWarning": "premises",
    "PurityReport": "estimators.purity",
    "Split": "partition.split",
    "Spread": "partition.spread",
    "StochasticCertificate": "certificates.stochastic_certificate",
    "Verdict": "verification",
    "Votes": "votes.votes",
    "audit": "auditing.audit",
    "certified_accuracy": "certificates.collective.accuracy",
    "certify": "certificates.methods",
    "check_estimator_purity": "estimators.purity",
    "check_pipeline": "estimators.purity",
    "verify": "verification",
}

__all__ = [
    "AuditReport",
    "BallotClassifier",
    "BinomialSelectionClassifier",
    "BlockBallotClassifier",
    "Certificate",
    "CertifiedAccuracy",
    "CertifiedBaggingClassifier",
    "FiniteAggregationClassifier",
    "InfiniteAggregationClassifier",
    "NeighborVoteClassifier",
    "PremiseWarning",
    "PurityReport",
    "Split",
    "Spread",
    "StochasticCertificate",
    "Verdict",
    "Votes",
    "audit",
    "certified_accuracy",
    "certify",
    "check_estimator_purity",
    "check_pipeline",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'poisonproof' has no attribute '{name}'")
    value = getattr(import_module(f"poisonproof.{HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

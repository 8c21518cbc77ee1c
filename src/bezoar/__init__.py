"""bezoar: classifiers with a proof against training-data poisoning.

The names below are imported on first use, so that ``import bezoar`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bezoar.auditing import AuditReport, audit
    from bezoar.certificates import Certificate, certify
    from bezoar.certificates.shared import CertifiedAccuracy, certified_accuracy
    from bezoar.certificates.stochastic_record import StochasticCertificate
    from bezoar.estimator import FiniteAggregationClassifier
    from bezoar.premises import PremiseWarning
    from bezoar.purity import PurityReport, check_estimator_purity, check_pipeline
    from bezoar.split import Split
    from bezoar.spread import Spread
    from bezoar.stochastic import (
        BinomialSelectionClassifier,
        CertifiedBaggingClassifier,
        InfiniteAggregationClassifier,
    )
    from bezoar.verification import Verdict, verify
    from bezoar.votes import Votes

__version__ = "0.1.0"

_HOME = {
    "AuditReport": "auditing",
    "BinomialSelectionClassifier": "stochastic",
    "Certificate": "certificates",
    "CertifiedAccuracy": "certificates.shared",
    "CertifiedBaggingClassifier": "stochastic",
    "FiniteAggregationClassifier": "estimator",
    "InfiniteAggregationClassifier": "stochastic",
    "PremiseWarning": "premises",
    "PurityReport": "purity",
    "Split": "split",
    "Spread": "spread",
    "StochasticCertificate": "certificates.stochastic_record",
    "Verdict": "verification",
    "Votes": "votes",
    "audit": "auditing",
    "certified_accuracy": "certificates.shared",
    "certify": "certificates",
    "check_estimator_purity": "purity",
    "check_pipeline": "purity",
    "verify": "verification",
}

__all__ = [
    "AuditReport",
    "BinomialSelectionClassifier",
    "Certificate",
    "CertifiedAccuracy",
    "CertifiedBaggingClassifier",
    "FiniteAggregationClassifier",
    "InfiniteAggregationClassifier",
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
    if name not in _HOME:
        raise AttributeError(f"module 'bezoar' has no attribute '{name}'")
    value = getattr(import_module(f"bezoar.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

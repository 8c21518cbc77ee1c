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
    from bezoar.estimator import FiniteAggregationClassifier
    from bezoar.premises import PremiseWarning
    from bezoar.purity import PurityReport, check_estimator_purity, check_pipeline
    from bezoar.split import Split
    from bezoar.spread import Spread
    from bezoar.verification import Verdict, verify
    from bezoar.votes import Votes

__version__ = "0.1.0"

_HOME = {
    "AuditReport": "auditing",
    "Certificate": "certificates",
    "CertifiedAccuracy": "certificates.shared",
    "FiniteAggregationClassifier": "estimator",
    "PremiseWarning": "premises",
    "PurityReport": "purity",
    "Split": "split",
    "Spread": "spread",
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
    "Certificate",
    "CertifiedAccuracy",
    "FiniteAggregationClassifier",
    "PremiseWarning",
    "PurityReport",
    "Split",
    "Spread",
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

"""bezoar: classifiers with a proof against training-data poisoning.

The names below are imported on first use, so that ``import bezoar`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bezoar.certificates import Certificate, certify
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
    from bezoar.votes import Votes

__version__ = "0.1.0"

_HOME = {
    "BinomialSelectionClassifier": "stochastic",
    "Certificate": "certificates",
    "CertifiedBaggingClassifier": "stochastic",
    "FiniteAggregationClassifier": "estimator",
    "InfiniteAggregationClassifier": "stochastic",
    "PremiseWarning": "premises",
    "PurityReport": "purity",
    "Split": "split",
    "Spread": "spread",
    "StochasticCertificate": "certificates.stochastic_record",
    "Votes": "votes",
    "certify": "certificates",
    "check_estimator_purity": "purity",
    "check_pipeline": "purity",
}

__all__ = [
    "BinomialSelectionClassifier",
    "Certificate",
    "CertifiedBaggingClassifier",
    "FiniteAggregationClassifier",
    "InfiniteAggregationClassifier",
    "PremiseWarning",
    "PurityReport",
    "Split",
    "Spread",
    "StochasticCertificate",
    "Votes",
    "certify",
    "check_estimator_purity",
    "check_pipeline",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'bezoar' has no attribute '{name}'")
    value = getattr(import_module(f"bezoar.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

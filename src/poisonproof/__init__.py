"""poisonproof: classifiers with a proof against training-data poisoning.

The names below are imported on first use, so that ``import poisonproof`` costs nothing.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poisonproof.auditing.audit import AuditReport, audit
    from poisonproof.ballots.classifiers import BallotClassifier, NeighborVoteClassifier
    from poisonproof.core.certify import Certificate, TargetCertificate, certify
    from poisonproof.core.shared_attack import CertifiedAccuracy, certified_accuracy
    from poisonproof.core.split import Split
    from poisonproof.core.spread import Spread
    from poisonproof.core.votes import Votes
    from poisonproof.data.dataset import Dataset
    from poisonproof.data.named import load
    from poisonproof.data.options import ReadOptions
    from poisonproof.data.reading import open_files, read
    from poisonproof.encoders.base import Encoder, EncoderRecord, encoder
    from poisonproof.encoders.embeddings import write_embeddings
    from poisonproof.errors import DamagedFileError, MissingExtraError, PoisonproofError, WrongTypeError
    from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier
    from poisonproof.estimators.purity import PurityReport, check_estimator_purity, check_pipeline
    from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
    from poisonproof.learners.network import TorchClassifier
    from poisonproof.learners.presets import preset
    from poisonproof.learners.table import TableClassifier
    from poisonproof.learners.text import TextClassifier
    from poisonproof.planning.compare import Comparison, compare
    from poisonproof.planning.plan import Plan, plan
    from poisonproof.premises import Premise, PremiseWarning
    from poisonproof.runs.run import Outcome, run
    from poisonproof.stochastic.certificate import StochasticCertificate
    from poisonproof.stochastic.classifiers import (
        CertifiedBaggingClassifier,
        InfiniteAggregationClassifier,
    )
    from poisonproof.verification import Verdict, verify

__version__ = "0.3.0"
logging.getLogger(__name__).addHandler(logging.NullHandler())  # quiet unless somebody listens

HOMES = {  # of public names; after a colon the name that it has at home
    "AuditReport": "auditing.audit",
    "BallotClassifier": "ballots.classifiers",
    "Certificate": "core.certify",
    "CertifiedAccuracy": "core.shared_attack",
    "CertifiedBaggingClassifier": "stochastic.classifiers",
    "Comparison": "planning.compare",
    "DamagedFileError": "errors",
    "Dataset": "data.dataset",
    "Encoder": "encoders.base",
    "EncoderRecord": "encoders.base",
    "FiniteAggregationClassifier": "estimators.finite_aggregation",
    "InfiniteAggregationClassifier": "stochastic.classifiers",
    "KernelRidgeClassifier": "learners.kernel_ridge",
    "MissingExtraError": "errors",
    "Outcome": "runs.run",
    "Plan": "planning.plan",
    "PoisonproofError": "errors",
    "Premise": "premises",
    "NeighborVoteClassifier": "ballots.classifiers",
    "PremiseWarning": "premises",
    "PurityReport": "estimators.purity",
    "ReadOptions": "data.options",
    "Split": "core.split",
    "Spread": "core.spread",
    "StochasticCertificate": "stochastic.certificate",
    "TableClassifier": "learners.table",
    "TextClassifier": "learners.text",
    "TorchClassifier": "learners.network",
    "TargetCertificate": "core.certify",
    "Verdict": "verification",
    "Votes": "core.votes",
    "WrongTypeError": "errors",
    "audit": "auditing.audit",
    "certified_accuracy": "core.shared_attack",
    "certify": "core.certify",
    "check_estimator_purity": "estimators.purity",
    "check_pipeline": "estimators.purity",
    "compare": "planning.compare",
    "encoder": "encoders.base",
    "load": "data.named",
    "open_files": "data.reading",
    "plan": "planning.plan",
    "preset": "learners.presets",
    "read": "data.reading",
    "run": "runs.run",
    "verify": "verification",
    "write_embeddings": "encoders.embeddings",
}

__all__ = [
    "AuditReport",
    "BallotClassifier",
    "Certificate",
    "CertifiedAccuracy",
    "CertifiedBaggingClassifier",
    "Comparison",
    "DamagedFileError",
    "Dataset",
    "Encoder",
    "EncoderRecord",
    "FiniteAggregationClassifier",
    "InfiniteAggregationClassifier",
    "KernelRidgeClassifier",
    "MissingExtraError",
    "NeighborVoteClassifier",
    "Outcome",
    "Plan",
    "PoisonproofError",
    "Premise",
    "PremiseWarning",
    "PurityReport",
    "ReadOptions",
    "Split",
    "Spread",
    "StochasticCertificate",
    "TableClassifier",
    "TargetCertificate",
    "TextClassifier",
    "TorchClassifier",
    "Verdict",
    "Votes",
    "WrongTypeError",
    "audit",
    "certified_accuracy",
    "certify",
    "check_estimator_purity",
    "check_pipeline",
    "compare",
    "encoder",
    "load",
    "open_files",
    "plan",
    "preset",
    "read",
    "run",
    "verify",
    "write_embeddings",
]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'poisonproof' has no attribute '{name}'")
    module, _, name_at_home = HOMES[name].partition(":")
    value = getattr(import_module(f"poisonproof.{module}"), name_at_home or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""poisonproof: classifiers with a proof against training-data poisoning.

The names below are imported on first use, so that ``import poisonproof`` costs nothing.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

# isort: off
if TYPE_CHECKING:  # "as" tells type checkers what is public
    from poisonproof.auditing.audit import AuditReport as AuditReport, audit as audit
    from poisonproof.ballots.classifiers import (
        BallotClassifier as BallotClassifier,
        NeighborVoteClassifier as NeighborVoteClassifier,
    )
    from poisonproof.core.certify import (
        Certificate as Certificate,
        TargetCertificate as TargetCertificate,
        certify as certify,
    )
    from poisonproof.core.shared_attack import (
        CertifiedAccuracy as CertifiedAccuracy,
        certified_accuracy as certified_accuracy,
    )
    from poisonproof.core.split import Split as Split
    from poisonproof.core.spread import Spread as Spread
    from poisonproof.core.votes import Votes as Votes
    from poisonproof.data.dataset import Dataset as Dataset
    from poisonproof.data.options import ReadOptions as ReadOptions
    from poisonproof.data.reading import load as load, open_files as open_files, read as read
    from poisonproof.encoders.base import Encoder as Encoder, EncoderRecord as EncoderRecord, encoder as encoder
    from poisonproof.encoders.embeddings import write_embeddings as write_embeddings
    from poisonproof.errors import (
        DamagedFileError as DamagedFileError,
        MissingExtraError as MissingExtraError,
        PoisonproofError as PoisonproofError,
        WrongTypeError as WrongTypeError,
    )
    from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier as FiniteAggregationClassifier
    from poisonproof.estimators.purity import (
        PurityReport as PurityReport,
        check_estimator_purity as check_estimator_purity,
        check_pipeline as check_pipeline,
    )
    from poisonproof.learners.kernel_ridge import KernelRidgeClassifier as KernelRidgeClassifier
    from poisonproof.learners.network import TorchClassifier as TorchClassifier
    from poisonproof.learners.presets import preset as preset
    from poisonproof.learners.table import TableClassifier as TableClassifier
    from poisonproof.learners.text import TextClassifier as TextClassifier
    from poisonproof.planning.compare import Comparison as Comparison, compare as compare
    from poisonproof.planning.plan import Plan as Plan, plan as plan
    from poisonproof.premises import Premise as Premise, PremiseWarning as PremiseWarning
    from poisonproof.runs.run import Outcome as Outcome, run as run
    from poisonproof.stochastic.certificate import StochasticCertificate as StochasticCertificate
    from poisonproof.stochastic.classifiers import (
        CertifiedBaggingClassifier as CertifiedBaggingClassifier,
        InfiniteAggregationClassifier as InfiniteAggregationClassifier,
    )
    from poisonproof.verification import Verdict as Verdict, verify as verify
# isort: on

__version__ = "0.3.0"
logging.getLogger(__name__).addHandler(logging.NullHandler())  # quiet unless somebody listens

HOMES = {  # of public names
    name: module
    for module, names in {
        "auditing.audit": ("AuditReport", "audit"),
        "ballots.classifiers": ("BallotClassifier", "NeighborVoteClassifier"),
        "core.certify": ("Certificate", "TargetCertificate", "certify"),
        "core.shared_attack": ("CertifiedAccuracy", "certified_accuracy"),
        "core.split": ("Split",),
        "core.spread": ("Spread",),
        "core.votes": ("Votes",),
        "data.dataset": ("Dataset",),
        "data.options": ("ReadOptions",),
        "data.reading": ("load", "open_files", "read"),
        "encoders.base": ("Encoder", "EncoderRecord", "encoder"),
        "encoders.embeddings": ("write_embeddings",),
        "errors": ("DamagedFileError", "MissingExtraError", "PoisonproofError", "WrongTypeError"),
        "estimators.finite_aggregation": ("FiniteAggregationClassifier",),
        "estimators.purity": ("PurityReport", "check_estimator_purity", "check_pipeline"),
        "learners.kernel_ridge": ("KernelRidgeClassifier",),
        "learners.network": ("TorchClassifier",),
        "learners.presets": ("preset",),
        "learners.table": ("TableClassifier",),
        "learners.text": ("TextClassifier",),
        "planning.compare": ("Comparison", "compare"),
        "planning.plan": ("Plan", "plan"),
        "premises": ("Premise", "PremiseWarning"),
        "runs.run": ("Outcome", "run"),
        "stochastic.certificate": ("StochasticCertificate",),
        "stochastic.classifiers": ("CertifiedBaggingClassifier", "InfiniteAggregationClassifier"),
        "verification": ("Verdict", "verify"),
    }.items()
    for name in names
}
__all__ = sorted(HOMES)


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'poisonproof' has no attribute '{name}'")
    value = globals()[name] = getattr(import_module(f"poisonproof.{HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

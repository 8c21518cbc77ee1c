"""The facts about a run, logged where people compare runs: parameters, curves, and the evidence as artefacts."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from poisonproof.errors import PoisonproofError, missing_extra
from poisonproof.evidence.facts import Facts

Tracker = Literal["mlflow"]
MOST_LETTERS = 500  # what MLflow keeps of a parameter


def log(facts: Facts, folder: Path, tracker: str) -> str:
    """Log a verified run and its evidence; where, in words.

    MLflow decides by itself where that is (MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME). Certified fractions are one
    metric with the attack size as its step, so that curves of runs can be laid over each other.
    """
    if tracker not in get_args(Tracker):
        raise PoisonproofError(f"--log must be one of {', '.join(get_args(Tracker))}. Got '{tracker}'.")
    try:
        import mlflow
    except ImportError:
        raise missing_extra("--log mlflow", "mlflow-skinny or mlflow", "mlflow") from None
    certificate, figures = facts.certificate, facts.figures
    with mlflow.start_run(run_name=facts.name) as run:
        parameters = {
            "dataset": facts.dataset,
            "learner": facts.manifest["settings"]["learner"],
            "method": certificate.method,
            **facts.voters.flat,
            "split": certificate.split.kind if certificate.split else None,
            "unit": certificate.unit,
            "verdict": facts.verdict.word,
        }
        mlflow.log_params({name: str(value)[:MOST_LETTERS] for name, value in parameters.items()})
        mlflow.set_tags({"poisonproof.manifest_sha256": facts.artefacts["manifest.json"]})
        mlflow.log_metrics(
            {
                "clean_accuracy": figures.clean_accuracy,
                "balanced_accuracy": figures.balanced_accuracy,
                "majority_share": figures.majority_share,
                "median_radius": figures.median_radius,
            }
        )
        for at, size in enumerate(figures.attack_sizes):
            mlflow.log_metric("certified_fraction", figures.certified_fractions[at], step=size)
            mlflow.log_metric("balanced_certified_fraction", figures.balanced[at], step=size)
        mlflow.log_artifacts(str(folder), "evidence")
        return f"run {run.info.run_id} of MLflow experiment {run.info.experiment_id}"

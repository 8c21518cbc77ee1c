"""The campaign: all rows of a data set, resumable, each row's measures in a file of its own."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from poisonproof.core.split import Split
from poisonproof.data.dataset import Dataset
from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.run import run
from poisonproof.system.files import read_record, write_record
from poisonproof.system.machine import peak_bytes
from research.paper.measure import measure
from research.paper.rows import Row

log = logging.getLogger(__name__)
QUICK = {"mnist": (3000, 500, 20), "cifar10": (2500, 400, 5), "gtsrb": (2000, 400, 5)}
"""For a quick look: training samples, test samples (both from the training set), and what k is divided by."""


def run_rows(
    dataset: Dataset,
    rows: Sequence[Row],
    learner: Callable[[], Any],
    folder: Path,
    *,
    n_jobs: int = -1,
) -> None:
    """Run what is missing and measure it; rows that are measured already are left as they are."""
    missing = {folder / row.name: row for row in rows if not measures_file(folder, row).exists()}
    if not missing:
        return
    split = Split("content", dataset.dtype)
    assert dataset.classes is not None
    classes, seconds = dataset.classes.tolist(), 0.0
    for place, row in missing.items():
        model = FiniteAggregationClassifier(learner(), spread=row.spread(), split=split, classes=classes, n_jobs=n_jobs)
        outcome = run(dataset, model, place, RunSettings(votes_only=True, rankings=row.rankings, undefended=False))
        seconds += outcome.seconds["train and vote"]
        measures = measure(outcome.votes, outcome.certificate, outcome.y_test, outcome.manifest, row.methods)
        write_record(measures_file(folder, row), {**measures, "divisor": row.divisor})
        accuracy = 100 * outcome.certificate.evaluate(outcome.y_test).clean_accuracy
        log.info("%s: clean accuracy %.2f %%", outcome.folder, accuracy)
    _log_cost(folder, list(missing.values()), {"train": seconds})


def measures_file(folder: Path, row: Row) -> Path:
    """Where the measures of a row are kept."""
    return folder / f"{row.name}.json"


def measured(folder: Path, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The measures of the rows that have been run."""
    return [read_record(path) for row in rows if (path := measures_file(folder, row)).exists()]


def costs(folder: Path) -> list[dict[str, Any]]:
    """What the runs of a data set took, one record for each time some were run."""
    path = folder / "costs.json"
    return list(read_record(path)["costs"]) if path.exists() else []


def _log_cost(folder: Path, rows: Sequence[Row], seconds: dict[str, float]) -> None:
    cost = {
        "rows": [row.name for row in rows],
        "wall_seconds": {part: round(value, 1) for part, value in seconds.items()},
        "cpu_seconds_of_process": round(time.process_time(), 1),
        "peak_memory_gb": round(peak_bytes() / 2**30, 2),
    }
    write_record(folder / "costs.json", {"costs": [*costs(folder), cost]})


def quick_look(dataset: Dataset) -> Dataset:
    """A small data set out of the training set; the test set is not touched."""
    n_train, n_test, _ = QUICK[dataset.name]
    order = np.random.default_rng(0).permutation(len(dataset.train))
    n_train = min(n_train, len(order) * 3 // 4)
    train, test = order[:n_train], order[n_train : n_train + n_test]
    quick = {"train": dataset.train.take(train), "test": dataset.train.take(test)}
    return replace(dataset, name=f"{dataset.name}-quick", **quick)

"""The first stage of a run by itself: base classifiers are trained and kept, and vote later."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from poisonproof.data import Dataset
from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier
from poisonproof.runs.blocks import Votings
from poisonproof.runs.folder import opened_run
from poisonproof.runs.run import write_ensemble
from poisonproof.system.files import write_record
from poisonproof.training.provenance import of_run


def train(
    dataset: Dataset,
    model: FiniteAggregationClassifier,
    folder: str | Path,
    *,
    asked: dict[str, Any] | None = None,
    max_memory: int | None = None,
    say: Callable[[str], None] = lambda text: None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """Split and train into a folder, which `poisonproof.runs.run.run` goes on with: it finds nothing left to train.

    An interrupted training goes on; a complete run is left as it is. Returns the manifest.
    """
    folder = Path(folder)
    opening = opened_run(dataset, model, folder, False, False, True, False, asked, max_memory, say)
    with opening as (training, opened, _, _):
        if opened["status"] == "complete":
            return opened
        started = time.perf_counter()
        nobody = model.split_.samples(dataset.x_test).subset(np.zeros(0, np.int64))
        votings = Votings(folder, True, False, say, progress, lambda count: None)
        votings.train(training, model, nobody)
        write_ensemble(folder, model, training, dataset, votes_only=False)
        earlier = opened.get("seconds", {}).get("train and vote", 0.0)
        seconds = {"train and vote": round(time.perf_counter() - started + earlier, 3)}
        made = of_run(folder, model.spread_.n_subsets)
        manifest = {**opened, **made, "status": "trained", "n_train": len(training.codes), "seconds": seconds}
        write_record(folder / "manifest.json", manifest)
        return manifest

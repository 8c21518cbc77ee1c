"""The first stage of a run by itself: base classifiers are trained and kept, and vote later."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from poisonproof.data import Dataset
from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier
from poisonproof.runs.folder import opened_run
from poisonproof.runs.manifest import Manifest, RunSettings
from poisonproof.runs.outcome import Clock
from poisonproof.runs.run import write_ensemble
from poisonproof.runs.vote_cache import VoteCache
from poisonproof.system.determinism import at_most_threads
from poisonproof.training.engine import VoteJob


def train(
    dataset: Dataset,
    model: FiniteAggregationClassifier,
    folder: str | Path,
    settings: RunSettings = RunSettings(),  # noqa: B008 - frozen
) -> Manifest:
    """Split and train into a folder, which `poisonproof.runs.run.run` goes on with: it finds nothing left to train.

    An interrupted training goes on; a complete run is left as it is. Of the settings, base classifiers are always kept
    and rankings are for later.
    """
    folder = Path(folder)
    settings = replace(settings, votes_only=False, rankings=False, resume=True, update=False)
    with at_most_threads(model.n_jobs), opened_run(dataset, model, folder, settings) as opened:
        ensemble, manifest, _, resources = opened
        if manifest.status == "complete":
            return manifest
        clock = Clock()
        nobody = ensemble.split.samples(dataset.test.samples).subset(np.zeros(0, np.int64))
        job = VoteJob(
            ensemble.learner,
            ensemble.source,
            ensemble.digests,
            nobody,
            len(ensemble.classes),
            models=folder / "models",
            resources=resources,
        )
        cache = VoteCache(job, folder / "votes")
        cache.complete()
        write_ensemble(folder, ensemble, model, dataset.schema, votes_only=False)
        clock.stop("train and vote", (manifest.seconds or {}).get("train and vote", 0.0))
        return manifest.but(
            **cache.environments(),
            status="trained",
            n_train=ensemble.n_train,
            seconds=clock.seconds,
        ).write(folder)

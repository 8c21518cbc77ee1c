"""Several runs on one data set, with what they can share computed once.

Runs of a pooled learner that differ in k, d or spread share features and kernels. Each ends in a folder of its own that
holds what `poisonproof.runs.run.run` alone would have written there, to the byte (but for the times).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from poisonproof.data import Dataset
from poisonproof.errors import PoisonproofError
from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier
from poisonproof.estimators.prepared import prepare_dataset
from poisonproof.learners.inspection import describe
from poisonproof.runs.blocks import vote_all
from poisonproof.runs.folder import SCRATCH, only_writer, refuse_strangers
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.outcome import Outcome
from poisonproof.runs.run import run
from poisonproof.training.work import Order, Resources


class Wanted(NamedTuple):
    """A run that is asked for."""

    model: FiniteAggregationClassifier
    rankings: bool = False


def run_together(
    dataset: Dataset, runs: Mapping[Path, Wanted], *, seconds: dict[str, float] | None = None
) -> Iterator[Outcome]:
    """Complete these runs, votes only, and give their outcomes one by one; what is there already is kept.

    Parameters
    ----------
    dataset : Dataset
    runs : mapping from folder to Wanted
        Unfitted models of the same learner.
    seconds : dict, optional
        Told what sharing took: "features", "train" (all runs), "kernel and vote" (all runs).
    """
    if len({describe(wanted.model.estimator) for wanted in runs.values()}) > 1:
        raise PoisonproofError("Runs that share their work must have the same learner; run the others by themselves.")
    spent = _vote_together(dataset, runs)
    if seconds is not None:
        seconds.update(spent)
    for folder, wanted in runs.items():
        yield run(
            dataset, wanted.model, folder, RunSettings(votes_only=True, rankings=wanted.rankings, undefended=False)
        )


def _vote_together(dataset: Dataset, runs: Mapping[Path, Wanted]) -> dict[str, float]:
    """Fill the folders with votes; what it took."""
    for folder in runs:
        refuse_strangers(folder)
    with ExitStack() as locks:
        orders = []
        for folder, (model, rankings) in runs.items():
            ensemble = prepare_dataset(model, dataset)
            locks.enter_context(only_writer(folder))
            (folder / "votes").mkdir(exist_ok=True)
            orders.append(Order(folder, ensemble.training, ensemble.digests, rankings))
        started = time.perf_counter()
        vote_all(
            orders,
            ensemble.split.samples(dataset.test.samples),
            len(ensemble.classes),
            Resources(model.n_jobs, folder / SCRATCH),
        )
        whole = time.perf_counter() - started
    parts = {part: sum(order.seconds.get(part, 0.0) for order in orders) for part in ("features", "train")}
    return {**parts, "kernel and vote": whole - sum(parts.values())}

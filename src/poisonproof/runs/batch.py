"""Several runs on one data set, with what they can share computed once.

Runs of a pooled learner that differ in k, d or spread share features and kernels. Each ends in a folder of its own that
holds what `poisonproof.runs.run.run` alone would have written there, to the byte (but for the times).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from poisonproof.data import Dataset
from poisonproof.errors import PoisonproofError
from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier
from poisonproof.learners.describe import describe
from poisonproof.runs.folder import only_writer, refuse_strangers
from poisonproof.runs.run import Outcome, run
from poisonproof.training.pooled import is_pooled
from poisonproof.training.pooled_run import PooledRun, vote_pooled


class Wanted(NamedTuple):
    """A run that is asked for."""

    model: FiniteAggregationClassifier
    rankings: bool = False


def run_together(
    dataset: Dataset,
    runs: Mapping[Path, Wanted],
    *,
    seconds: dict[str, float] | None = None,
    say: Callable[[str], None] = lambda text: None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[Outcome]:
    """Complete these runs, votes only, and give their outcomes one by one; what is there already is kept.

    Parameters
    ----------
    dataset : Dataset
    runs : mapping from folder to Wanted
        Unfitted models of the same learner.
    seconds : dict, optional
        Told what sharing took: "features", "train" (all runs), "kernel and vote" (all runs).
    say, progress : callables
        As for `run`.
    """
    if len({describe(wanted.model.estimator) for wanted in runs.values()}) > 1:
        raise PoisonproofError("Runs that share their work must have the same learner; run the others by themselves.")
    if any(is_pooled(wanted.model.estimator) for wanted in runs.values()):
        spent = _vote_together(dataset, runs, say, progress)
        if seconds is not None:
            seconds.update(spent)
    for folder, wanted in runs.items():
        yield run(
            dataset,
            wanted.model,
            folder,
            votes_only=True,
            rankings=wanted.rankings,
            undefended=False,
            say=say,
            progress=progress,
        )


def _vote_together(
    dataset: Dataset,
    runs: Mapping[Path, Wanted],
    say: Callable[[str], None],
    progress: Callable[[int, int], None],
) -> dict[str, float]:
    """Fill the folders with votes; what it took."""
    for folder in runs:
        refuse_strangers(folder)
    with ExitStack() as locks:
        seats = []
        for folder, (model, rankings) in runs.items():
            training = model.prepare(dataset.x_train, dataset.y_train, dataset.groups)
            locks.enter_context(only_writer(folder))
            (folder / "votes").mkdir(exist_ok=True)
            seats.append(PooledRun(folder, training, model.subset_digests_, rankings))
        started = time.perf_counter()
        vote_pooled(seats, model.split_.samples(dataset.x_test), len(model.classes_), say, progress)
        whole = time.perf_counter() - started
    parts = {part: sum(seat.seconds.get(part, 0.0) for seat in seats) for part in ("features", "train")}
    return {**parts, "kernel and vote": whole - sum(parts.values())}

"""A run directory: from a data set to a certificate, resumable, every file with its digest.

``manifest.json`` says what was asked for and, once complete, what came out. Votes are written in
blocks of subsets, each whole or absent; a run that was killed goes on with the blocks that are
missing and ends with the same bytes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.certificates.methods import Certificate, certify
from poisonproof.data import Dataset
from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier
from poisonproof.learners.seeding import isolated, seeded
from poisonproof.partition.split import Split
from poisonproof.runs.blocks import Votings
from poisonproof.runs.folder import FORMAT, log_stale, opened_run
from poisonproof.runs.layout import SCHEMA, results_of
from poisonproof.system.environment import environment
from poisonproof.system.files import (
    sha256_of,
    write_record,
    write_text,
    write_whole,
)
from poisonproof.system.threads import one_linear_algebra_thread
from poisonproof.training.model_files import save_model_record
from poisonproof.training.provenance import of_run
from poisonproof.training.work import Training
from poisonproof.votes.votes import Votes

NOT_COVERED = (
    "change a test sample",
    "poison a pre-processing step or feature extractor that was fitted elsewhere",
    "control the training machine",
)


@dataclass(frozen=True)
class Outcome:
    """A completed run."""

    folder: Path
    certificate: Certificate
    y_test: NDArray[Any]
    undefended_accuracy: float | None
    base_accuracy: float
    seconds: dict[str, float]
    manifest: dict[str, Any]
    x_test: Any
    votes: Votes
    partition_sizes: NDArray[np.int64]


def run(
    dataset: Dataset,
    model: FiniteAggregationClassifier,
    folder: str | Path,
    *,
    votes_only: bool = False,
    rankings: bool = False,
    undefended: bool = True,
    resume: bool = True,
    update: bool = False,
    asked: dict[str, Any] | None = None,
    max_memory: int | None = None,
    say: Callable[[str], None] = lambda text: None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Outcome:
    """Split, train, vote and certify into a folder; go on where an interrupted run stopped.

    Parameters
    ----------
    dataset : Dataset
    model : FiniteAggregationClassifier
        Unfitted.
    folder : path
        Created if absent. A folder that holds another run is refused, with the difference named.
    votes_only : bool
        Do not keep the base classifiers.
    rankings : bool
        Keep the rankings of the base classifiers with their votes, for method "run-off".
    undefended : bool
        Also train the same learner on all data, for comparison.
    resume : bool
        Whether to go on with a run that the folder holds; otherwise such a folder is refused.
    update : bool
        The folder may hold a run on other data: what is still true of this data stays, base classifiers whose
        subset changed are trained again, and everything that saw removed data is overwritten.
    asked : dict, optional
        How the command line was told to read the data; kept in the manifest, so that it can be read again.
    max_memory : int, optional
        Bytes that the process may take with a pooled learner; too few are refused before any work is done.
    say : callable
        Told what a person should know (a damaged block, another machine).
    progress : callable
        Told how much is done, of how much.
    """
    folder = Path(folder)
    started = time.perf_counter()
    opening = opened_run(dataset, model, folder, votes_only, rankings, resume, update, asked, max_memory, say)
    with opening as (training, opened, settings, memory):
        seconds = {"prepare": time.perf_counter() - started}
        started = time.perf_counter()
        kernel_bytes = None if max_memory is None or memory is None else memory.kernel_bytes(max_memory)
        votings = Votings(
            folder, not votes_only, rankings, say, progress, partial(log_stale, folder, opened), kernel_bytes
        )
        said = votings.train(training, model, model.split_.samples(dataset.x_test))
        earlier = 0.0 if opened.get("changing") else opened.get("seconds", {}).get("train and vote", 0.0)
        seconds["train and vote"] = time.perf_counter() - started + earlier
        votes = model.as_votes(said)
        started = time.perf_counter()
        certificate = replace(certify(votes), origin=_origin(settings, model.split_))
        seconds["certify"] = time.perf_counter() - started
        started = time.perf_counter()
        dear = memory is not None and max_memory is not None and memory.undefended > max_memory
        plain = _undefended_if_possible(training, dataset, model, say) if undefended and not dear else None
        if undefended and dear:
            say("the undefended learner was not trained on all data: it needs more than --max-memory")
        seconds["undefended"] = time.perf_counter() - started
        truth = votes.indices_of(dataset.y_test)
        votes.save(folder / "votes.npy")
        certificate.save(folder / "certificate.npz")
        write_ensemble(folder, model, training, dataset, votes_only)
        return Outcome(
            folder,
            certificate,
            dataset.y_test,
            plain,
            float((votes.matrix == truth[:, None]).mean()),
            {name: round(value, 3) for name, value in seconds.items()},
            _finish(folder, opened, model, certificate, dataset, plain, seconds),
            dataset.x_test,
            votes,
            model.partition_sizes_,
        )


def write_ensemble(
    folder: Path, model: FiniteAggregationClassifier, training: Training, dataset: Dataset, votes_only: bool
) -> None:
    """Write what base classifiers have in common: spread, split, schema, and the record of those that are kept."""
    model.spread_.save(folder / "spread.npz")
    write_whole(folder / "split.npy", lambda file: np.save(file, training.subsets.partition))
    if dataset.schema is not None:
        write_text(folder / SCHEMA, json.dumps(dataset.schema.as_dict(), indent=1, ensure_ascii=False) + "\n")
    if not votes_only:
        save_model_record(model, folder / "models")


def undefended_accuracy(training: Training, dataset: Dataset, model: FiniteAggregationClassifier) -> float:
    """Test accuracy of the same learner trained on all data at once: what the proof is paid with."""
    rows = np.argsort(training.subsets.rank)
    form = training.samples.form_of(rows)
    test = model.split_.samples(dataset.x_test)
    with one_linear_algebra_thread(), isolated(0):
        learner = seeded(training.estimator, 0)
        learner.fit(training.samples.take(rows, form), training.codes[rows])
        said = learner.predict(test.take(np.arange(len(test)), form))
    return float((model.classes_[said] == dataset.y_test).mean())


def _undefended_if_possible(
    training: Training, dataset: Dataset, model: FiniteAggregationClassifier, say: Callable[[str], None]
) -> float | None:
    """The undefended accuracy, or None: what is only a comparison must not cost a finished run."""
    try:
        return undefended_accuracy(training, dataset, model)
    except Exception as error:
        say(f"the undefended learner could not be trained on all data ({type(error).__name__}: {error})")
        return None


def _finish(
    folder: Path,
    opened: dict[str, Any],
    model: FiniteAggregationClassifier,
    certificate: Certificate,
    dataset: Dataset,
    undefended: float | None,
    seconds: dict[str, float],
) -> dict[str, Any]:
    n_train = int(model.partition_sizes_.sum())
    changes = list(opened.get("changes", []))
    if "changing" in opened:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        changes.append({**opened["changing"], "n_train": n_train, "of": model.spread_.n_subsets, "when": now})
    manifest = {
        "format": FORMAT,
        "status": "complete",
        "settings": opened["settings"],
        "asked": opened["asked"],
        "environment": environment(),
        **of_run(folder, model.spread_.n_subsets),
        "changes": changes,
        "premises": [premise.words for premise in model.premises_],
        "notes": list(dataset.notes),
        "threat_model": threat_model(model.split_),
        "unit": certificate.unit,
        "method": certificate.method,
        "n_train": n_train,
        "n_test": len(certificate),
        "empty_subsets": int((model.subset_sizes_ == 0).sum()),
        "clean_accuracy": certificate.clean_accuracy(dataset.y_test),
        "majority_share": certificate.majority_share(dataset.y_test),
        "balanced_accuracy": certificate.balanced_accuracy(dataset.y_test),
        "undefended_accuracy": undefended,
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "files": {name: sha256_of(folder / name) for name in results_of(folder, opened["settings"])},
    }
    write_record(folder / "manifest.json", manifest)
    return manifest


def _origin(settings: dict[str, Any], split: Split) -> dict[str, Any]:
    """What a certificate says about where it comes from when it leaves the folder."""
    return {
        "dataset": settings["dataset"],
        "learner": settings["learner"],
        "threat_model": threat_model(split),
        "environment": environment(),
    }


def threat_model(split: Split) -> dict[str, int | str]:
    """What each act of an attacker costs in units of attack size, in words."""
    if split.kind == "group":
        covered = {
            "change anything in the training samples of one contributor": 1,
            "move a training sample from one contributor to another": 2,
        }
    else:
        covered = {
            "insert a training sample": split.cost("insert_remove"),
            "remove a training sample": split.cost("insert_remove"),
            "flip the label of a training sample": split.cost("label_flip"),
            "change a training sample in any other way": split.cost("modify"),
        }
    return {**covered, **dict.fromkeys(NOT_COVERED, "not covered")}

"""A run directory: from a data set to a certificate, resumable, every file with its digest.

``manifest.json`` says what was asked for and, once complete, what came out. Votes are written in
blocks of subsets, each whole or absent; a run that was killed goes on with the blocks that are
missing and ends with the same bytes.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.certify import Certificate, certify
from poisonproof.core.votes import Votes
from poisonproof.data import Dataset
from poisonproof.data.store import StoredSource
from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier, fitted_but_for_members
from poisonproof.estimators.prepared import Prepared
from poisonproof.runs.folder import noted_stale, opened_run
from poisonproof.runs.layout import SCHEMA, results_of
from poisonproof.runs.manifest import Manifest, RunSettings
from poisonproof.runs.outcome import Clock, Outcome, first_figures, origin_of, threat_model
from poisonproof.runs.undefended import TOO_LARGE, Undefended, not_trained, trained_before
from poisonproof.runs.vote_cache import VoteCache
from poisonproof.samples.labels import label_cells, places_of
from poisonproof.samples.schema import Schema
from poisonproof.system.determinism import at_most_threads
from poisonproof.system.files import read_record, sha256_of, write_text, write_whole
from poisonproof.system.machine import environment
from poisonproof.training.engine import VoteJob
from poisonproof.training.model_files import save_model_record

if TYPE_CHECKING:
    from poisonproof.ballots.classifiers import SampleVoteClassifier

ROWS_AT_ONCE = 1 << 12
log = logging.getLogger(__name__)


def run(
    dataset: Dataset,
    model: FiniteAggregationClassifier | SampleVoteClassifier,
    folder: str | Path,
    settings: RunSettings = RunSettings(),  # noqa: B008 - frozen
) -> Outcome:
    """Split, train, vote and certify into a folder; go on where an interrupted run stopped.

    What a person should know (a damaged block, another machine) goes to the logger "poisonproof", how much is done to
    whoever watches (`poisonproof.system.progress`).

    Parameters
    ----------
    dataset : Dataset
    model : FiniteAggregationClassifier, BallotClassifier or NeighborVoteClassifier
        Its parameters; it is not fitted.
    folder : path
        Created if absent. A folder that holds another run is refused, with the difference named.
    settings : RunSettings
    """
    if not isinstance(model, FiniteAggregationClassifier):
        from poisonproof.runs.samples import run_samples

        with at_most_threads(model.n_jobs):
            return run_samples(dataset, model, folder, settings)
    folder, clock = Path(folder), Clock()
    with at_most_threads(model.n_jobs), opened_run(dataset, model, folder, settings) as opened:
        ensemble, manifest, memory, resources = opened
        trained = trained_before(manifest)
        clock.stop("prepare")
        bound = settings.max_memory

        def stale(count: int) -> None:
            nonlocal manifest
            manifest = noted_stale(folder, manifest, count)

        test = ensemble.split.samples(dataset.test.samples)
        job = VoteJob(
            ensemble.learner,
            ensemble.source,
            ensemble.digests,
            test,
            len(ensemble.classes),
            settings.rankings,
            None if settings.votes_only else folder / "models",
            resources,
        )
        cache = VoteCache(job, folder / "votes")
        answers = cache.complete(stale)
        clock.stop("train and vote", 0.0 if manifest.changing else (manifest.seconds or {}).get("train and vote", 0.0))
        votes, y_test = ensemble.votes(answers), dataset.test.labels
        certificate = certify(votes, _method_of(manifest))  # type: ignore[call-overload]
        certificate = replace(certificate, origin=origin_of(manifest.settings, threat_model(ensemble.split)))
        clock.stop("certify")
        needs_more = settings.undefended and bound is not None and memory.undefended > bound
        if needs_more:
            log.warning("the undefended learner was not trained on all data: %s", TOO_LARGE)
            undefended = Undefended(why_not=TOO_LARGE)
        elif settings.undefended and trained is not None:
            undefended = trained
        elif settings.undefended:
            log.info("%s; undefended models are trained to compare with", first_figures(certificate, y_test))
            undefended = Undefended.of(ensemble, dataset)
        else:
            undefended = not_trained(manifest, settings)
        clock.stop("undefended")
        votes.save(folder / "votes.npy")
        certificate.save(folder / "certificate.npz")
        write_ensemble(folder, ensemble, model, dataset.schema, votes_only=settings.votes_only)
        digests = cache.digests | {"votes.npy": read_record(folder / "votes.json")["matrix"]["sha256"]}
        manifest = _finished(manifest.but(**cache.environments()), ensemble, certificate, y_test, dataset.notes)
        files = {name: digests.get(name) or sha256_of(folder / name) for name in results_of(folder, manifest.settings)}
        finished = manifest.but(files=files)
        return Outcome(
            folder,
            certificate,
            y_test,
            undefended.same,
            _base_accuracy(votes, y_test),
            clock.seconds,
            finished.but(
                **undefended.facts(),
                seconds=clock.seconds,
            ).write(folder),
            dataset.test.X,
            votes,
            ensemble.subsets.partition_sizes,
            test,
            _by_class(ensemble),
        )


def write_ensemble(
    folder: Path,
    ensemble: Prepared,
    model: FiniteAggregationClassifier,
    schema: Schema | None,
    *,
    votes_only: bool,
) -> None:
    """Write what base classifiers have in common: spread, split, schema, and the record of those that are kept."""
    ensemble.spread.save(folder / "spread.npz")
    write_whole(folder / "split.npy", lambda file: np.save(file, ensemble.subsets.partition))
    if schema is not None:
        write_text(folder / SCHEMA, json.dumps(schema.as_dict(), indent=1, ensure_ascii=False) + "\n")
    if not votes_only:
        save_model_record(fitted_but_for_members(model, ensemble), folder / "models")


def _method_of(manifest: Manifest) -> str:
    """The certificate of a run: the one for which the plan that it follows recommends its spread."""
    return str(((manifest.asked or {}).get("plan") or {}).get("method", "finite-aggregation"))


def _by_class(ensemble: Prepared) -> NDArray[np.int64] | None:
    """How many training samples each class has; None where some are left out of partitions and nobody counted them."""
    source, n_classes = ensemble.source, len(ensemble.classes)
    if not isinstance(source, StoredSource):
        codes = source.codes
        return np.bincount(codes[codes >= 0], minlength=n_classes)
    record = source.store.record
    if record["n_incomplete"]:
        return None
    by_class = np.zeros(n_classes, np.int64)
    codes = places_of(label_cells(record["labels"]), label_cells(ensemble.classes.tolist()))
    np.add.at(by_class, codes[codes >= 0], np.array(record["counts"], np.int64)[codes >= 0])
    return by_class


def _base_accuracy(votes: Votes, y_test: NDArray[Any]) -> float:
    """The share of all votes that are right."""
    truth, matrix, right = votes.indices_of(y_test), votes.matrix, 0
    labelled = np.flatnonzero(truth >= 0)  # others are labels that no vote can be for
    for start in range(0, len(labelled), ROWS_AT_ONCE):
        rows = labelled[start : start + ROWS_AT_ONCE]
        right += int(np.count_nonzero(matrix[rows] == truth[rows, None].astype(matrix.dtype)))
    return right / matrix.size


def _finished(
    manifest: Manifest, ensemble: Prepared, certificate: Certificate, y_test: NDArray[Any], notes: tuple[str, ...]
) -> Manifest:
    n_train, n_subsets = ensemble.n_train, ensemble.spread.n_subsets
    return manifest.changed(n_train=n_train, of=n_subsets).but(
        status="complete",
        environment=environment(),
        premises=certificate.premises,
        notes=notes,
        threat_model=threat_model(ensemble.split),
        unit=certificate.unit,
        method=certificate.method,
        n_train=n_train,
        n_test=len(certificate),
        empty_subsets=int((ensemble.source.sizes == 0).sum()),
        clean_accuracy=certificate.clean_accuracy(y_test),
        majority_share=certificate.majority_share(y_test),
        balanced_accuracy=certificate.balanced_accuracy(y_test),
    )

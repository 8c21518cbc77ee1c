"""A run directory: from a data set to a certificate, resumable, every file with its digest.

``manifest.json`` says what was asked for and, once complete, what came out. Votes are written in blocks, each whole or
absent; a run that was killed goes on with the blocks that are missing and ends with the same bytes.
"""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from poisonproof.core.certify import certify
from poisonproof.data.dataset import Dataset
from poisonproof.data.out_of_core import StoredDataset
from poisonproof.runs.election import election_of
from poisonproof.runs.folder import (
    PARTITIONS,
    SCHEMA,
    noted_stale,
    only_writer,
    open_folder,
    refuse_strangers,
    results_of,
)
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.outcome import Clock, Outcome, first_figures, origin_of
from poisonproof.runs.undefended import not_trained, trained_before
from poisonproof.system.determinism import at_most_threads
from poisonproof.system.files import sha256_of, write_text
from poisonproof.system.machine import environment

VOTE = "train and vote"
log = logging.getLogger(__name__)


def run(
    dataset: Dataset,
    model: Any,
    folder: str | Path,
    settings: RunSettings = RunSettings(),  # noqa: B008 - frozen
) -> Outcome:
    """Split, train, vote and certify into a folder; go on where an interrupted run stopped.

    What a person should know (a damaged block, another machine) goes to the logger "poisonproof", how much is done to
    whoever watches (`poisonproof.system.progress`).

    Parameters
    ----------
    dataset : Dataset
    model : FiniteAggregationClassifier, or a classifier whose training samples vote
        Its parameters; it is not fitted.
    folder : path
        Created if absent. A folder that holds another run is refused, with the difference named.
    settings : RunSettings
    """
    folder, clock, kind = Path(folder), Clock(), election_of(model)
    with at_most_threads(model.n_jobs):
        election = kind(dataset, model, settings)
        refuse_strangers(folder)
        with only_writer(folder):
            manifest = open_folder(folder, election.identity, settings)
            if manifest.status == "changing" and not isinstance(dataset, StoredDataset):
                shutil.rmtree(folder / PARTITIONS, ignore_errors=True)  # which may hold rows that are being removed
            before, earlier = trained_before(manifest), (manifest.seconds or {}).get(VOTE, 0.0)
            clock.stop("prepare")

            def stale(count: int) -> None:
                nonlocal manifest
                manifest = noted_stale(folder, manifest, count)

            tallies = election.vote(folder, stale)
            clock.stop(VOTE, 0.0 if manifest.changing else earlier)
            threats = kind.threats(election.split)
            certificate = certify(tallies)
            certificate = replace(certificate, origin=origin_of(manifest.settings, threats))
            clock.stop("certify")
            if not settings.undefended:
                undefended = not_trained(manifest, settings)
            elif before is not None:
                undefended = before
            else:
                words = first_figures(certificate, dataset.test.labels)
                log.info("%s; undefended models are trained to compare with", words)
                undefended = election.undefended()
            clock.stop("undefended")
            tallies.save(folder / kind.result)
            certificate.save(folder / "certificate.npz")
            if dataset.schema is not None:
                schema = json.dumps(dataset.schema.as_dict(), indent=1, ensure_ascii=False)
                write_text(folder / SCHEMA, schema + "\n")
            election.save(folder)
            figures = certificate.evaluate(dataset.test.labels)
            finished = manifest.changed(n_train=election.n_train, of=manifest.settings.n_subsets).but(
                status="complete",
                environment=environment(),
                **election.facts(folder),
                premises=certificate.premises,
                notes=dataset.notes,
                threat_model=threats,
                unit=certificate.unit,
                method=certificate.method,
                n_train=election.n_train,
                n_test=len(certificate),
                clean_accuracy=figures.clean_accuracy,
                majority_share=figures.majority_share,
                balanced_accuracy=figures.balanced_accuracy,
                **undefended.facts(),
                seconds=clock.seconds,
                files={
                    name: election.written.get(name) or sha256_of(folder / name)
                    for name in results_of(folder, manifest.settings)
                },
            )
            return Outcome(
                folder,
                certificate,
                dataset.test.labels,
                clock.seconds,
                finished.write(folder),
                dataset.test.X,
                tallies,
                election.test,
                undefended.same,
                **election.beside(tallies),
            )

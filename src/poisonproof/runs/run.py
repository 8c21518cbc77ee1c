"""A run directory: from a data set to a certificate, resumable, every file with its digest.

``manifest.json`` says what was asked for and, once complete, what came out. Votes are written in blocks, each whole or
absent; a run that was killed goes on with the blocks that are missing and ends with the same bytes.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.certificate import attack_sizes
from poisonproof.core.certify import Certificate, certify
from poisonproof.core.metrics import Evaluation
from poisonproof.core.votes import Votes
from poisonproof.data.dataset import Dataset
from poisonproof.data.out_of_core import StoredDataset
from poisonproof.display import percent
from poisonproof.errors import PoisonproofError
from poisonproof.runs.election import Election, election_named, election_of
from poisonproof.runs.folder import (
    PARTITIONS,
    SCHEMA,
    noted_stale,
    only_writer,
    open_folder,
    refuse_strangers,
    results_of,
)
from poisonproof.runs.manifest import Identity, Manifest, RunSettings
from poisonproof.runs.undefended import not_trained, trained_before
from poisonproof.samples.kinds import Samples
from poisonproof.system.determinism import at_most_threads
from poisonproof.system.files import sha256_of, write_text
from poisonproof.system.machine import environment

VOTE = "train and vote"
FIRST_SIZES = 6
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """A completed run; what only base classifiers have is None where others vote."""

    folder: Path
    certificate: Certificate
    y_test: NDArray[Any]
    seconds: dict[str, float]
    manifest: Manifest
    x_test: Any
    votes: Any
    """What the voters said."""
    test: Samples | None = None
    """The test samples in canonical form."""
    undefended_accuracy: float | None = None
    base_accuracy: float | None = None
    partition_sizes: NDArray[np.int64] | None = None
    train_counts: NDArray[np.int64] | None = None
    """Training samples of each class."""

    @property
    def election(self) -> type[Election]:
        """Who voted."""
        return election_named(self.manifest.settings.method)

    @cached_property
    def figures(self) -> Evaluation:
        """What the certificate says about the test set."""
        return self.certificate.evaluate(self.y_test)

    @property
    def strong_undefended(self) -> tuple[float, str] | None:
        """Test accuracy of what a practitioner would train without a guarantee, and what that is; if it is known."""
        share, words = self.manifest.strong_undefended_accuracy, self.manifest.strong_undefended
        return None if share is None or words is None else (share, words)

    @property
    def ensemble_votes(self) -> Votes:
        """The votes of base classifiers; one sentence where there are none."""
        if not isinstance(self.votes, Votes):
            raise PoisonproofError(f"The run in {self.folder} has no base classifiers: {self.certificate.voters}.")
        return self.votes


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
    model : FiniteAggregationClassifier, or another whose voters the registry knows
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
            earlier = (manifest.seconds or {}).get(VOTE, 0.0)
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
            elif (before := trained_before(manifest)) is not None:
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


def first_figures(certificate: Certificate, y_test: NDArray[Any]) -> str:
    """What is known once votes are certified, for people who wait while the undefended models are trained."""
    if not len(certificate):
        return "there are no test samples"
    sizes = attack_sizes(certificate)
    sizes = sizes[:: -(-len(sizes) // FIRST_SIZES)]
    figures = certificate.evaluate(y_test)
    shares = zip(sizes, figures.certified_fraction(sizes), figures.certified_fraction_balanced(sizes), strict=True)
    listed = ", ".join(f"{percent(share)} ({percent(balanced)}) at {size}" for size, share, balanced in shares)
    return (
        f"certified fraction, % (pointwise; balanced in brackets): {listed}; always answering the most frequent label: "
        f"{percent(figures.majority_share)}"
    )


class Clock:
    """What each stage took, in seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.started = time.perf_counter()

    def stop(self, stage: str, earlier: float = 0.0) -> None:
        """A stage ended, and took so long before an interruption."""
        now = time.perf_counter()
        self.seconds[stage] = round(now - self.started + earlier, 3)
        self.started = now


def origin_of(identity: Identity, threats: dict[str, int | str]) -> dict[str, Any]:
    """What a certificate says about where it comes from when it leaves the folder."""
    return {
        "dataset": identity.dataset,
        "learner": identity.learner,
        "threat_model": threats,
        "environment": environment(),
    }

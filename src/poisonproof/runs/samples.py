"""A run in which the training samples vote: describe them, count, certify, into a folder; resumable.

Nothing is trained. A run that goes on describes its samples again; embeddings come from their cache.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from poisonproof.ballots.classifiers import OF_THE_RULE, SampleVoteClassifier
from poisonproof.core.certify import Certificate, certify
from poisonproof.data import Dataset
from poisonproof.errors import PoisonproofError
from poisonproof.estimators.prepared import split_of
from poisonproof.runs.counts import count_all
from poisonproof.runs.election import election_of, voters_in_words
from poisonproof.runs.folder import noted_stale, only_writer, open_folder, refuse_strangers
from poisonproof.runs.layout import COUNTS, SCHEMA, results_of
from poisonproof.runs.manifest import Identity, Manifest, RunSettings
from poisonproof.runs.outcome import Clock, Outcome, first_figures, origin_of, threats_to_samples
from poisonproof.runs.plain import check_plain
from poisonproof.runs.undefended import Undefended, not_trained, trained_before
from poisonproof.samples.kinds import Samples
from poisonproof.system.files import sha256_of, write_text
from poisonproof.system.machine import environment

log = logging.getLogger(__name__)


def run_samples(dataset: Dataset, model: SampleVoteClassifier, folder: str | Path, settings: RunSettings) -> Outcome:
    """Describe, count and certify into a folder; go on where an interrupted run stopped."""
    folder, clock = Path(folder), Clock()
    if settings.rankings:
        raise PoisonproofError("Rankings are those of base classifiers; where samples vote, leave --rankings out.")
    if settings.max_memory is not None:
        raise PoisonproofError("--max-memory bounds pooled learners; samples that vote take a fixed amount of memory.")
    refuse_strangers(folder)
    check_plain(folder)
    fitted = _fitted(dataset, model)
    election, split = election_of(fitted), fitted.split_
    identity = Identity(
        {"name": dataset.name, **dataset.digests()},
        None,
        None,
        None,
        split.as_dict(),
        voters_in_words(fitted),
        fitted.classes_.tolist(),
        settings.votes_only,
        None,
        None,
        None if dataset.schema is None else dataset.schema.as_dict(),
        election,
    )
    test = split.samples(dataset.test.samples)
    with only_writer(folder):
        manifest = open_folder(folder, identity, settings)
        if not settings.votes_only:
            fitted.save(folder / "models")
        clock.stop("describe")
        noted = noted_stale(folder, manifest, 0)
        heard = count_all(folder, fitted, election, test)
        clock.stop("vote")
        votes = fitted._votes_of(heard)
        threats = threats_to_samples(split)
        certificate = replace(certify(votes), origin=origin_of(identity, threats))
        clock.stop("certify")
        undefended = trained_before(manifest) if settings.undefended else not_trained(noted, settings)
        if undefended is None:
            log.info(
                "%s; a strong undefended model is trained to compare with",
                first_figures(certificate, dataset.test.labels),
            )
            undefended = Undefended.of_samples(dataset, split, fitted.classes_)
        clock.stop("undefended")
        votes.save(folder / COUNTS[fitted.method])
        certificate.save(folder / "certificate.npz")
        if dataset.schema is not None:
            write_text(folder / SCHEMA, json.dumps(dataset.schema.as_dict(), indent=1, ensure_ascii=False) + "\n")
        finished = _finished(folder, noted, fitted, certificate, dataset)
        return Outcome(
            folder,
            certificate,
            dataset.test.labels,
            None,
            None,
            clock.seconds,
            finished.but(
                threat_model=threats,
                **undefended.facts(),
                seconds=clock.seconds,
            ).write(folder),
            dataset.test.X,
            votes,
            None,
            test,
        )


def _fitted(dataset: Dataset, model: SampleVoteClassifier) -> SampleVoteClassifier:
    """A classifier with the same parameters, fitted; the premises of the data set stand in place of its own.

    Of the rule of the vote the data set says only who chose it: its words are the classifier's.
    """
    split = split_of(model)
    fitted: SampleVoteClassifier = type(model)(**model.get_params(deep=False))
    samples: Samples = split.samples(dataset.train.samples)
    fitted.fit(samples, dataset.train.labels, dataset.train.groups)
    premises = {premise.code: premise for premise in fitted.premises_}
    for premise in dataset.premises:
        rule = premises.get(premise.code) if premise.code in OF_THE_RULE else None
        premises[premise.code] = premise if rule is None else replace(rule, declared=premise.declared)
    fitted.premises_ = tuple(premises.values())
    return fitted


def _finished(
    folder: Path, manifest: Manifest, fitted: SampleVoteClassifier, certificate: Certificate, dataset: Dataset
) -> Manifest:
    facts: dict[str, Any] = {"n_train": len(fitted.voters_), "of": 0}
    return manifest.changed(**facts).but(
        status="complete",
        environment=environment(),
        environments=[environment()],
        made_in=[],
        premises=certificate.premises,
        notes=dataset.notes,
        unit=certificate.unit,
        method=certificate.method,
        n_train=len(fitted.voters_),
        n_test=len(certificate),
        clean_accuracy=certificate.clean_accuracy(dataset.test.labels),
        majority_share=certificate.majority_share(dataset.test.labels),
        balanced_accuracy=certificate.balanced_accuracy(dataset.test.labels),
        files={name: sha256_of(folder / name) for name in results_of(folder, manifest.settings)},
    )

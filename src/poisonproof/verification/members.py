"""The kept base classifiers, asked: what they say about test samples is what votes and rankings say they said.

And the kept model in which training samples vote: what it answers is what the certificate states.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof import registry
from poisonproof.core.split import Split
from poisonproof.premises import PremiseWarning
from poisonproof.training.engine import Fitted, engine_named
from poisonproof.training.member_files import ESTIMATOR, UntrustedTypesError
from poisonproof.training.source import with_shared_texts
from poisonproof.verification.ensemble import Ensemble
from poisonproof.verification.evidence import Evidence
from poisonproof.verification.verdict import (
    Finding,
    NotCheckedError,
    NotTrueError,
    detection,
)

DOES = {"votes": "votes", "rankings": "ranks"}


def asked(ensemble: Ensemble, rows: NDArray[np.int64], progress: Callable[[int, int], None]) -> Finding:
    """Ask every kept base classifier about these test samples and compare, bit by bit."""
    evidence = ensemble.evidence
    n_test, n = evidence.matrix.shape
    test = ensemble.test if len(rows) == n_test else ensemble.test.subset(rows)
    test = with_shared_texts(ensemble.kept_learner, test, lambda: np.arange(len(rows)))
    heard = 0
    for members in _parts(ensemble):
        count = len(members)
        if heard + count > n:
            raise NotTrueError(f"more than {n} base classifiers were kept, but {n} vote.")
        columns = slice(heard, heard + count)
        _compare(ensemble, "votes", members.ask(test, evidence.n_classes), evidence.matrix[rows, columns], heard)
        if evidence.rankings is not None:
            ranked = members.ask(test, evidence.n_classes, rankings=True)
            _compare(ensemble, "rankings", ranked, evidence.rankings[rows, columns], heard)
        heard += count
        progress(heard, n)
    if heard != n:
        raise NotTrueError(f"{heard} base classifiers were kept, but {n} vote.")
    about = f"all {n_test}" if len(rows) == n_test else f"{len(rows)} of {n_test}"
    words = f"the {n} kept base classifiers, asked about {about} test samples, vote as stated to the bit"
    if len(rows) == n_test:
        return Finding(f"{words}.", {"asked": n_test})
    chance = detection(n_test, len(rows), "rows of votes")
    return Finding(f"{words}; {chance.words}.", {"asked": len(rows), **chance.details})


def ask_samples(evidence: Evidence, features: Any, X: Any, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """What the kept model in which samples vote answers about these test samples, by the arrays of a certificate.

    ``features`` is the map that the run states, which the kept one must be. An encoder is asked as it was opened for
    the run: where a stranger's model says that its weights lie is not looked at.
    """
    assert evidence.folder is not None
    kind = registry.find("elections", evidence.settings["election"]["method"]).classifier
    try:
        model = kind.load(evidence.folder / "models")
    except (UntrustedTypesError, ImportError) as error:
        raise NotCheckedError(str(error)) from None
    if model.map_.features != features:
        raise NotTrueError("the map that was kept is not the one that is stated.")
    model.map_ = replace(model.map_, features=features)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PremiseWarning)
        certificate = model.certify(Split.from_dict(evidence.settings["split"]).samples(X).subset(rows))
    arrays = {name: getattr(certificate, name) for name in ("prediction", "runner_up", "margin", "radius", "exact")}
    return arrays | {f"radius_against_{threat}": radii for threat, radii in (certificate.radii or {}).items()}


def _parts(ensemble: Ensemble) -> Iterator[Fitted]:
    """The kept base classifiers, no more of them in memory than one file holds."""
    learner = ensemble.kept_learner  # refused if it is not the learner that is stated
    record, n_classes, first = ensemble.evidence.model or {}, ensemble.evidence.n_classes, 0
    engine = engine_named(pooled=bool(record.get("pooled")))
    names = [name for name in record["files"] if name != ESTIMATOR]
    parts = engine.parts(ensemble.models, names, learner, n_classes, ensemble.trusted)
    while True:
        try:
            members = next(parts, None)
        except (UntrustedTypesError, ImportError) as error:
            raise NotCheckedError(f"{error} Or give estimator=.") from None
        if members is None:
            return
        wrong = members.misplaced(first)
        if wrong is not None:
            raise NotTrueError(f"another base classifier stands in the place of number {wrong}.")
        yield members
        first += len(members)


def _compare(ensemble: Ensemble, name: str, answers: NDArray[Any], stated: NDArray[Any], first: int) -> None:
    wrong = (answers != stated).reshape(*answers.shape[:2], -1).any(axis=2).sum(axis=0)
    at = np.flatnonzero(wrong)
    if len(at):
        raise NotTrueError(
            f"base classifier {first + at[0]} as kept, asked again, {DOES[name]} otherwise than the {name} state on "
            f"{wrong[at[0]]} of {len(answers)} test samples; {len(at)} of {len(wrong)} in its file do"
            f"{ensemble.other_environment()}."
        )

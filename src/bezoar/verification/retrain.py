"""Base classifiers trained again. This part needs bezoar itself: its learners are what made the votes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bezoar.environment import environment
from bezoar.estimator import FiniteAggregationClassifier
from bezoar.learners.describe import describe
from bezoar.learners.pooled import fit_pooled, is_pooled
from bezoar.learners.presets import LEARNERS, preset
from bezoar.premises import PremiseWarning
from bezoar.split import Split
from bezoar.spread import Spread
from bezoar.store import ESTIMATOR, load_learner
from bezoar.train import train_and_vote
from bezoar.verification.arithmetic import draw
from bezoar.verification.checks import NO_DATA
from bezoar.verification.evidence import Evidence
from bezoar.verification.verdict import Finding, NotCheckedError, NotTrueError, detection
from bezoar.votes import labels_from_json, vote_dtype


def retrained(
    evidence: Evidence,
    data: Any,
    groups: Any,
    estimator: Any,
    wanted: int,
    seed: int,
    progress: Callable[[int, int], None],
) -> Finding:
    """Train some base classifiers again on the data at hand and compare their votes, bit by bit."""
    if data is None:
        raise NotCheckedError(NO_DATA)
    if evidence.facts["split"] is None:
        raise NotCheckedError("the certificate does not say how the training data were split.")
    matrix, n = evidence.matrix, evidence.matrix.shape[1]
    chosen = draw(n, wanted, seed, 3).tolist()
    votes = _votes(evidence, data, groups, _learner(evidence, estimator), chosen, progress)
    if votes.shape != (len(matrix), len(chosen)):
        raise NotTrueError(f"the data hold {len(votes)} test samples, but the votes {len(matrix)}.")
    differing = (votes != matrix[:, chosen]).sum(axis=0)
    wrong = np.flatnonzero(differing)
    if len(wrong):
        raise NotTrueError(
            f"base classifier {chosen[wrong[0]]}, trained again, votes otherwise on {differing[wrong[0]]} of "
            f"{len(matrix)} test samples; {len(wrong)} of {len(chosen)} do{_other_environment(evidence)}."
        )
    chance = detection(n, len(chosen), "base classifiers")
    words = f"{len(chosen)} of {n} base classifiers, drawn at random and trained again, vote as stated to the bit"
    return Finding(f"{words}; {chance.words}.", {"base_classifiers": chosen, **chance.details})


def _learner(evidence: Evidence, estimator: Any) -> Any:
    """The learner that the files describe: the one given, a preset, or the one kept with the base classifiers."""
    stated = evidence.settings.get("learner") or (evidence.facts.get("origin") or {}).get("learner")
    if estimator is not None:
        if stated is not None and describe(estimator) != stated:
            raise NotTrueError(f"the learner at hand is {describe(estimator)}, but the files state {stated}.")
        return estimator
    for name in LEARNERS:
        if describe(preset(name)) == stated:
            return preset(name)
    path = evidence.folder / "models" / ESTIMATOR if evidence.folder and evidence.model else None
    if path is not None:
        try:
            kept = load_learner(path)
        except ValueError as error:
            raise NotCheckedError(f"{error} Or give estimator=.") from None
        if kept is not None and describe(kept) == stated:
            return kept
    raise NotCheckedError(f"the learner {stated or '(none stated)'} is no preset and was not kept; give estimator=.")


def _votes(
    evidence: Evidence,
    data: Any,
    groups: Any,
    learner: Any,
    chosen: Sequence[int],
    progress: Callable[[int, int], None],
) -> NDArray[Any]:
    """What the chosen base classifiers say about every test sample."""
    facts = evidence.facts
    classes = labels_from_json(facts["classes"])
    model = FiniteAggregationClassifier(
        learner,
        spread=Spread.from_dict(facts["spread"]),
        split=Split.from_dict(facts["split"]),
        classes=None if facts["classes_inferred"] else classes.tolist(),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PremiseWarning)
        training = model.prepare(data.x_train, data.y_train, groups)
    if model.classes_.tolist() != classes.tolist():
        raise NotTrueError("the training labels at hand give other classes.")
    test, n_classes = model.split_.samples(data.x_test), len(classes)
    if not is_pooled(training.estimator):
        columns = []
        for part in train_and_vote(*training, test, n_classes, [[i] for i in chosen]):
            columns.append(part.votes)
            progress(len(columns), len(chosen))
        return np.concatenate(columns, axis=1)
    pooled = fit_pooled(*training, only=chosen)
    return pooled.votes(test, n_classes, vote_dtype(n_classes))


def _other_environment(evidence: Evidence) -> str:
    manifest, origin = evidence.manifest or {}, evidence.facts.get("origin") or {}
    stated = [manifest.get("environment") or origin.get("environment") or {}, *manifest.get("environments", ())]
    here = environment()
    differing = (
        f"{name} ({value} there, {here.get(name)} here)"
        for there in stated
        for name, value in there.items()
        if here.get(name) != value
    )
    moved = list(dict.fromkeys(differing))
    return (
        f"; the votes were made with another {', '.join(moved)}, which may be why: repeat this there" if moved else ""
    )

"""Base classifiers trained again on their subsets: the only check that tells where votes come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.learners.arrived import arrived_parts
from poisonproof.training.engine import train_and_vote
from poisonproof.training.pooled import fit_pooled, is_pooled
from poisonproof.verification.arithmetic import draw
from poisonproof.verification.ensemble import Ensemble
from poisonproof.verification.verdict import Finding, NotTrueError, detection
from poisonproof.votes.votes import vote_dtype


def retrained(ensemble: Ensemble, wanted: int, seed: int, progress: Callable[[int, int], None]) -> Finding:
    """Train some base classifiers again on the data at hand and compare votes and rankings, bit by bit."""
    evidence = ensemble.evidence
    matrix, n = evidence.matrix, evidence.matrix.shape[1]
    chosen = draw(n, wanted, seed, 3).tolist()
    said = _said(ensemble, chosen, progress)
    differing = said != matrix[:, chosen] if evidence.rankings is None else said != evidence.rankings[:, chosen]
    differing = differing.reshape(*said.shape[:2], -1).any(axis=2).sum(axis=0)
    wrong = np.flatnonzero(differing)
    if len(wrong):
        raise NotTrueError(
            f"base classifier {chosen[wrong[0]]}, trained again, votes otherwise on {differing[wrong[0]]} of "
            f"{len(matrix)} test samples; {len(wrong)} of {len(chosen)} do{ensemble.other_environment()}."
        )
    chance = detection(n, len(chosen), "base classifiers")
    words = f"{len(chosen)} of {n} base classifiers, drawn at random and trained again, vote as stated to the bit"
    if arrived_parts(ensemble.learner):
        words += " (with a part of the learner that arrived fitted: what it was fitted on is the maker's word)"
    return Finding(f"{words}; {chance.words}.", {"base_classifiers": chosen, **chance.details})


def _said(ensemble: Ensemble, chosen: Sequence[int], progress: Callable[[int, int], None]) -> NDArray[Any]:
    """What the chosen base classifiers say about every test sample: votes, or rankings where they were kept."""
    training, test, n_classes = ensemble.training, ensemble.test, ensemble.evidence.n_classes
    rankings = ensemble.evidence.rankings is not None
    if is_pooled(training.estimator):
        pooled = fit_pooled(*training, only=chosen)
        return pooled.votes(test, n_classes, vote_dtype(n_classes), rankings=rankings)
    columns = []
    for part in train_and_vote(*training, test, n_classes, [[i] for i in chosen], rankings=rankings):
        columns.append(part.votes)
        progress(len(columns), len(chosen))
    return np.concatenate(columns, axis=1)

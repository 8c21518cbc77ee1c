"""Base classifiers trained again on their subsets: the only check that tells where votes come from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from poisonproof.learners.inspection import fitted_parts
from poisonproof.system.progress import watched
from poisonproof.training.engine import engine_of
from poisonproof.verification.arithmetic import draw
from poisonproof.verification.ensemble import Ensemble
from poisonproof.verification.verdict import Finding, NotTrueError, detection


def retrained(ensemble: Ensemble, wanted: int, seed: int, progress: Callable[[int, int], None]) -> Finding:
    """Train some base classifiers again on the data at hand and compare votes and rankings, bit by bit."""
    evidence = ensemble.evidence
    matrix, n = evidence.matrix, evidence.matrix.shape[1]
    chosen = draw(n, wanted, seed, 3).tolist()
    prepared, rankings = ensemble.prepared, evidence.rankings is not None
    with watched(progress):
        votes = engine_of(prepared.learner).votes(
            prepared.learner, prepared.source, chosen, ensemble.test, evidence.n_classes, rankings=rankings
        )
    differing = votes != matrix[:, chosen] if evidence.rankings is None else votes != evidence.rankings[:, chosen]
    differing = differing.reshape(*votes.shape[:2], -1).any(axis=2).sum(axis=0)
    wrong = np.flatnonzero(differing)
    if len(wrong):
        raise NotTrueError(
            f"base classifier {chosen[wrong[0]]}, trained again, votes otherwise on {differing[wrong[0]]} of "
            f"{len(matrix)} test samples; {len(wrong)} of {len(chosen)} do{ensemble.other_environment()}."
        )
    chance = detection(n, len(chosen), "base classifiers")
    words = f"{len(chosen)} of {n} base classifiers, drawn at random and trained again, vote as stated to the bit"
    if fitted_parts(ensemble.learner):
        words += " (with a part of the learner that arrived fitted: what it was fitted on is the maker's word)"
    return Finding(f"{words}; {chance.words}.", {"base_classifiers": chosen, **chance.details})

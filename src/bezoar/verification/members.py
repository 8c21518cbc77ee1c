"""The kept base classifiers, asked: what they say about test samples is what votes and rankings say they said."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from bezoar.pooled_store import load_pooled
from bezoar.samples import Samples
from bezoar.store import ESTIMATOR, UntrustedTypesError, load_members
from bezoar.train import vote_again
from bezoar.verification.ensemble import Ensemble
from bezoar.verification.verdict import Finding, NotCheckedError, NotTrueError, detection
from bezoar.votes import vote_dtype

Answers = Iterator[tuple[int, NDArray[np.unsignedinteger]]]


def asked(ensemble: Ensemble, rows: NDArray[np.int64], progress: Callable[[int, int], None]) -> Finding:
    """Ask every kept base classifier about these test samples and compare, bit by bit."""
    evidence, learner = ensemble.evidence, ensemble.kept_learner
    n_test, n = evidence.matrix.shape
    test = ensemble.test if len(rows) == n_test else ensemble.test.subset(rows)
    answer = _pooled_answers if (evidence.model or {}).get("pooled") else _answers
    heard = 0
    for first, said in answer(ensemble, learner, test):
        if first != heard or first + said.shape[1] > n:
            raise NotTrueError("the kept base classifiers are not one for each subset, in order.")
        heard += said.shape[1]
        _compare(ensemble, said, rows, first)
        progress(heard, n)
    if heard != n:
        raise NotTrueError(f"{heard} base classifiers were kept, but {n} vote.")
    words = f"the {n} kept base classifiers, asked about {{}} test samples, say what the files say they said"
    if len(rows) == n_test:
        return Finding(f"{words.format(f'all {n_test}')}.", {"asked": n_test})
    chance = detection(n_test, len(rows), "rows of votes")
    return Finding(
        f"{words.format(f'{len(rows)} of {n_test}')}; {chance.words}.", {"asked": len(rows)} | chance.details
    )


def _answers(ensemble: Ensemble, learner: object, test: Samples) -> Answers:
    """File by file, so that no more of them are in memory than one file holds."""
    evidence, first = ensemble.evidence, 0
    assert evidence.model is not None
    for name in (name for name in evidence.model["files"] if name != ESTIMATOR):
        try:
            members = load_members(ensemble.models / name, ensemble.trusted)
        except (UntrustedTypesError, ImportError) as error:
            raise NotCheckedError(f"{error} Or give estimator=.") from None
        wrong = [at for at, member in enumerate(members, first) if member.index != at]
        if wrong:
            raise NotTrueError(f"in {name} another base classifier stands in the place of number {wrong[0]}.")
        yield first, vote_again(members, test, evidence.n_classes, evidence.rankings is not None)[0]
        first += len(members)


def _pooled_answers(ensemble: Ensemble, learner: object, test: Samples) -> Answers:
    evidence = ensemble.evidence
    members = load_pooled(ensemble.models, learner, evidence.n_classes)
    ranked = evidence.rankings is not None
    yield 0, members.votes(test, evidence.n_classes, vote_dtype(evidence.n_classes), rankings=ranked)


def _compare(ensemble: Ensemble, said: NDArray[np.unsignedinteger], rows: NDArray[np.int64], first: int) -> None:
    evidence = ensemble.evidence
    columns = slice(first, first + said.shape[1])
    votes = said[..., 0] if said.ndim == 3 else said
    stated = {"votes": (votes, evidence.matrix[rows, columns])}
    if evidence.rankings is not None:
        stated["rankings"] = (said, evidence.rankings[rows, columns])
    for name, (heard, kept) in stated.items():
        differing = heard != kept
        wrong = differing.reshape(*votes.shape, -1).any(axis=2).sum(axis=0)
        at = np.flatnonzero(wrong)
        if len(at):
            verb = "votes" if name == "votes" else "ranks"
            raise NotTrueError(
                f"base classifier {first + at[0]} as kept, asked again, {verb} otherwise than the {name} state on "
                f"{wrong[at[0]]} of {len(rows)} test samples; {len(at)} of {len(wrong)} in its file do"
                f"{ensemble.other_environment()}."
            )

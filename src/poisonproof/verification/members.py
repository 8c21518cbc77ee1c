"""The kept base classifiers, asked: what they say about test samples is what votes and rankings say they said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.samples.kinds import Samples
from poisonproof.training.engine import vote_again
from poisonproof.training.member import Member
from poisonproof.training.model_files import ESTIMATOR, UntrustedTypesError, load_members
from poisonproof.training.pooled_files import load_pooled
from poisonproof.verification.ensemble import Ensemble
from poisonproof.verification.verdict import (
    Finding,
    NotCheckedError,
    NotTrueError,
    detection,
)
from poisonproof.votes.votes import vote_dtype

DOES = {"votes": "votes", "rankings": "ranks"}
Answer = Callable[[Samples, bool], NDArray[Any]]  # votes on samples, or rankings


def asked(ensemble: Ensemble, rows: NDArray[np.int64], progress: Callable[[int, int], None]) -> Finding:
    """Ask every kept base classifier about these test samples and compare, bit by bit."""
    evidence = ensemble.evidence
    n_test, n = evidence.matrix.shape
    test = ensemble.test if len(rows) == n_test else ensemble.test.subset(rows)
    heard = 0
    for count, answer in _pooled(ensemble) if (evidence.model or {}).get("pooled") else _one_by_one(ensemble):
        if heard + count > n:
            raise NotTrueError(f"more than {n} base classifiers were kept, but {n} vote.")
        columns = slice(heard, heard + count)
        _compare(ensemble, "votes", answer(test, False), evidence.matrix[rows, columns], heard)
        if evidence.rankings is not None:
            _compare(ensemble, "rankings", answer(test, True), evidence.rankings[rows, columns], heard)
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


def _one_by_one(ensemble: Ensemble) -> Iterator[tuple[int, Answer]]:
    """File by file, so that no more of them are in memory than one file holds."""
    model, n_classes, first = ensemble.evidence.model, ensemble.evidence.n_classes, 0
    _ = ensemble.kept_learner  # refused if it is not the learner that is stated
    for name in (name for name in (model or {})["files"] if name != ESTIMATOR):
        try:
            members = load_members(ensemble.models / name, ensemble.trusted)
        except (UntrustedTypesError, ImportError) as error:
            raise NotCheckedError(f"{error} Or give estimator=.") from None
        wrong = [at for at, member in enumerate(members, first) if member.index != at]
        if wrong:
            raise NotTrueError(f"in {name} another base classifier stands in the place of number {wrong[0]}.")
        yield len(members), partial(_votes_of, members, n_classes)
        first += len(members)


def _votes_of(members: list[Member], n_classes: int, test: Samples, ranked: bool) -> NDArray[Any]:
    return vote_again(members, test, n_classes, ranked)[0]


def _pooled(ensemble: Ensemble) -> Iterator[tuple[int, Answer]]:
    n_classes = ensemble.evidence.n_classes
    members = load_pooled(ensemble.models, ensemble.kept_learner, n_classes)
    yield len(members), lambda test, ranked: members.votes(test, n_classes, vote_dtype(n_classes), rankings=ranked)


def _compare(ensemble: Ensemble, name: str, said: NDArray[Any], stated: NDArray[Any], first: int) -> None:
    wrong = (said != stated).reshape(*said.shape[:2], -1).any(axis=2).sum(axis=0)
    at = np.flatnonzero(wrong)
    if len(at):
        raise NotTrueError(
            f"base classifier {first + at[0]} as kept, asked again, {DOES[name]} otherwise than the {name} state on "
            f"{wrong[at[0]]} of {len(said)} test samples; {len(at)} of {len(wrong)} in its file do"
            f"{ensemble.other_environment()}."
        )

"""The classifier in which training samples vote with the parameters that a pilot on the training data chose.

What a pilot chose is chosen from this data: an attacker who could poison it could change the choice, so the premises of
every certificate say so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from poisonproof.ballots.classifiers import BallotClassifier, NeighborVoteClassifier, SampleVoteClassifier
from poisonproof.ballots.maps import map_for
from poisonproof.core.split import Split
from poisonproof.data import Dataset
from poisonproof.errors import PoisonproofError
from poisonproof.planning.families import best_of_each, where_samples_vote
from poisonproof.premises import Premise

PARAMETERS = {"ballots": "near", "neighbours": "number-of-neighbors"}
"""The premise that states the parameter of each method."""


def classifier_by_pilot(
    dataset: Dataset, method: str, attack_size: int, features: Any = None, n_jobs: int | None = None
) -> SampleVoteClassifier:
    """The classifier of a method that certifies most at an attack size, by a pilot; one sentence if none can be made.

    ``features`` is the map; otherwise the one for this kind of data.
    """
    if dataset.train.groups is not None:
        raise PoisonproofError("no pilot is made of contributors that vote")
    if method == "ballots" and dataset.classes is None:
        raise PoisonproofError("classes that were read off the data leave ballots nearly nothing; declare them")
    features = map_for(dataset) if features is None else features
    tried = [one for one in where_samples_vote(dataset, attack_size, features) if one.method == method]
    if not tried:
        raise PoisonproofError(f"there are too few training samples for a pilot at attack size {attack_size}")
    chosen = best_of_each(tried)[0].parameters
    common: dict[str, Any] = {
        "split": Split("content", dataset.dtype, dataset.n_features),
        "classes": None if dataset.classes is None else dataset.classes.tolist(),
        "n_jobs": n_jobs,
    }
    if method == "ballots":
        return BallotClassifier(features, near=chosen["near"], **common)
    return NeighborVoteClassifier(features, n_neighbors=int(chosen["n_neighbors"]), **common)


def by_pilot(premises: Iterable[Premise], method: str) -> tuple[Premise, ...]:
    """The same premises, with the parameter that a pilot chose no longer called declared."""
    return tuple(
        replace(premise, declared=False) if premise.code == PARAMETERS.get(method) else premise for premise in premises
    )

"""NeighborVoteClassifier: the K nearest training samples vote, with the exact certificate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.certificates.certificate import Certificate
from poisonproof.certificates.samples_vote import certify_neighbours
from poisonproof.errors import PoisonproofError
from poisonproof.estimators.base import warn
from poisonproof.estimators.samples_vote import DEFAULT_SCALE, Heard, SampleVoteClassifier
from poisonproof.partition.split import Split
from poisonproof.premises import Premise
from poisonproof.system.threads import at_most_threads
from poisonproof.votes.nearness import Metric
from poisonproof.votes.neighbours import Neighbours
from poisonproof.votes.voters import nearest_voters
from poisonproof.votes.votes import vote_dtype


class NeighborVoteClassifier(SampleVoteClassifier):
    """K nearest neighbours that know how many poisoned training samples each prediction withstands.

    The K nearest training samples vote, through a map that does not depend on the training data; of samples at the same
    distance, those with the smaller hash of their content. Better than `BallotClassifier` against small attacks, and
    without anything to say beyond K/2. The catch is the same: **the map must be fixed**.

    Parameters
    ----------
    features : callable, optional
        The map from samples to small whole numbers; see `BallotClassifier`.
    encoder : Encoder or function, optional
        The map, instead of ``features``: see `poisonproof.encoder`.
    n_neighbors : int
        How many vote: K. All samples where there are fewer.
    metric : "euclidean" or "cosine"
        Cosines are compared in steps of 2⁻²⁰.
    classes : sequence, optional
        The labels that may occur. The strict way. Otherwise they are read off ``y``, which is a premise, and every
        certificate reckons with one more class, without votes.
    scale : float
        Steps per unit to which plain numbers are rounded.
    split : str or Split
        How samples are read (declared dtype, schema of a table); "group" demands contributors. With contributors each
        of them is heard by its nearest sample only, and radii count them.
    n_jobs : int, optional
        Workers of a cluster, as in joblib; on this machine threads do the work.

    Attributes
    ----------
    classes_ : array
        The labels, in increasing order.
    voters_ : Voters
        Features and labels of all training samples; a saved model holds them.
    n_dropped_ : int
        Training samples left out.
    premises_ : tuple of Premise
        What every certificate of this model takes as given.
    """

    method = "neighbours"

    def __init__(
        self,
        features: Any = None,
        *,
        n_neighbors: int,
        metric: Metric = "euclidean",
        classes: Sequence[Any] | None = None,
        scale: float = DEFAULT_SCALE,
        split: str | Split = "content",
        n_jobs: int | None = None,
        encoder: Any = None,
    ) -> None:
        self.features = features
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.classes = classes
        self.scale = scale
        self.split = split
        self.n_jobs = n_jobs
        self.encoder = encoder

    def neighbours(self, X: Any, n_listed: int | None = None) -> Neighbours:
        """The labels of the nearest training samples of every sample, ready to certify, to keep or to send.

        ``n_listed``: how many stand in the list; 2K by default, which is all that a certificate asks for.
        """
        return self._votes_of(self._heard(X, n_listed))

    def _heard(self, X: Any, n_listed: int | None = None) -> Heard:
        """Labels of the nearest voters in order, and whether a copy of each sample would come before all of them."""
        test = self._describe_test(X)
        most = max(self.n_neighbors, n_listed or 2 * self.n_neighbors)
        with at_most_threads(self.n_jobs):
            nearest = nearest_voters(self.voters_, test, self._nearness, most, one_per_owner=self._grouped)
        first = nearest.distances[:, 0] > self._nearness.own(test.lengths)
        return Heard(nearest.codes.astype(vote_dtype(len(self.classes_))), first & test.readable)

    def _votes_of(self, heard: Heard) -> Neighbours:
        """Neighbours as they were heard."""
        return Neighbours(
            heard.said,
            heard.own,
            int(self.n_neighbors),
            self._n_voters,
            self.classes_,
            contributors=self._grouped,
            classes_inferred=self.classes_inferred_,
            split=self.split_,
            rule=self._rule,
            premises=self._premises_in_use,
        )

    def certify(self, X: Any) -> Certificate:
        """Prediction, runner-up, margin and radius for every sample; docs/ballots.md has the proof."""
        return certify_neighbours(self.neighbours(X))

    @property
    def _grouped(self) -> bool:
        return self.split_.kind == "group"

    @property
    def _n_voters(self) -> int:
        voters = self.voters_
        return len(np.unique(voters.owners[: len(voters)])) if self._grouped else len(voters)

    def _scores(self, X: Any) -> NDArray[np.int64]:
        """Votes of each class among the K nearest; an array (n, classes)."""
        return self.neighbours(X, self.n_neighbors).counts()

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Share of each class among the votes; no probabilities."""
        votes = self._scores(X)
        return votes / votes.sum(axis=1, keepdims=True)

    def _check_parameters(self) -> None:
        """Refuse what the caller cannot mean, before anything is read."""
        count = self.n_neighbors
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise PoisonproofError(
                f"The 'n_neighbors' parameter must be a whole number above 0. Got {count!r} instead."
            )

    def _report_dropped(self) -> None:
        super()._report_dropped()
        count = self._n_voters
        if count < self.n_neighbors:
            warn(
                f"There are fewer voters, {count}, than n_neighbors, {self.n_neighbors}: all of them vote about every "
                "sample, and the most frequent label always wins."
            )

    def _own_premises(self) -> list[Premise]:
        """Map and number of neighbours."""
        return [*super()._own_premises(), Premise("number of neighbours", str(self.n_neighbors), declared=True)]

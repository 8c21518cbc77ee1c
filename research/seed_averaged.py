"""One base classifier out of several models that differ by their seeds alone."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from poisonproof.errors import PoisonproofError
from poisonproof.learners.inspection import seeded
from poisonproof.samples.batches import ONE_BY_ONE, declares


class SeedAveragedClassifier(ClassifierMixin, BaseEstimator):
    """The mean scores of models trained on the same samples with different seeds (DPA* with d = 1).

    The models train in sequence and their scores are summed in that order, so the result is a function of the samples
    and of ``random_state``. Averaging steadies the scores, and with them the rankings that a run-off counts.

    Parameters
    ----------
    estimator : scikit-learn classifier
        Must have ``predict_proba``. Every ``random_state`` in it is set.
    n_seeds : int
        How many models.
    random_state : int, RandomState or None
        What the seeds are drawn from. `FiniteAggregationClassifier` sets it to the base classifier's index.

    Attributes
    ----------
    classes_ : array
    models_ : list of fitted classifiers
    """

    def __init__(self, estimator: Any, *, n_seeds: int = 5, random_state: Any = None) -> None:
        self.estimator = estimator
        self.n_seeds = n_seeds
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        tags.classifier_tags = get_tags(self.estimator).classifier_tags
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Train one model per seed."""
        if isinstance(self.n_seeds, bool) or not isinstance(self.n_seeds, int | np.integer) or self.n_seeds < 1:
            raise PoisonproofError(
                "The 'n_seeds' parameter of SeedAveragedClassifier must be a whole number ≥ 1. "
                f"Got {self.n_seeds!r} instead."
            )
        if not hasattr(self.estimator, "predict_proba"):
            raise PoisonproofError(
                "The 'estimator' parameter of SeedAveragedClassifier must have predict_proba, whose means it takes. "
                f"Got {self.estimator!r} instead."
            )
        if y is None:
            raise PoisonproofError("SeedAveragedClassifier requires y to be passed, but the target y is None.")
        check_classification_targets(y)
        seeds = check_random_state(self.random_state).randint(np.iinfo(np.int32).max, size=self.n_seeds)
        self.models_ = [seeded(self.estimator, int(seed)).fit(X, y) for seed in seeds]
        self.classes_ = self.models_[0].classes_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.models_[0], name):
                setattr(self, name, getattr(self.models_[0], name))
        return self

    @property
    def answers_one_by_one(self) -> bool:
        """Whether the models do (see `poisonproof.training.members`): their mean is taken sample by sample."""
        return declares(self.estimator, ONE_BY_ONE)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Mean scores, an array (n, classes)."""
        check_is_fitted(self)
        total = np.array(self.models_[0].predict_proba(X), np.float64)
        for model in self.models_[1:]:
            total += model.predict_proba(X)
        return total / len(self.models_)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the highest mean score; ties go to the smaller one."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

"""An encoder in front of a learner: partitions come from the samples themselves, base classifiers see embeddings.

The encoder stands inside the base classifier, where anything belongs that is done to samples after the split. It is a
fixed function of one sample, so a base classifier is still a function of its subset, and embeddings are shared: a
pooled learner computes each of them once.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from poisonproof.encoders.base import as_encoder
from poisonproof.errors import PoisonproofError
from poisonproof.learners.inspection import describe, public_map_of
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from poisonproof.samples.batches import ONE_BY_ONE, declares


class EncodedClassifier(ClassifierMixin, BaseEstimator):
    """A learner that is fed embeddings: rows of numbers of length 1, multiples of 1/2048.

    Parameters
    ----------
    encoder : Encoder
    estimator : scikit-learn classifier
        What learns from embeddings.
    """

    def __init__(self, encoder: Any, estimator: Any) -> None:
        self.encoder = encoder
        self.estimator = estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.allow_nan = True
        return tags

    @property
    def answers_one_by_one(self) -> bool:
        """Whether no company changes an answer: encoders see to that, so it is for the learner to say."""
        return declares(self.estimator, ONE_BY_ONE)

    def fit(self, X: Any, y: Any) -> Self:
        """Encode, then learn."""
        self.model_ = clone(self.estimator).fit(self._rows(X), y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """What the learner says about the embeddings."""
        check_is_fitted(self)
        return np.asarray(self.model_.predict(self._rows(X)))

    def __getattr__(self, name: str) -> Any:
        """Scores, if the learner has any."""
        if name in ("decision_function", "predict_proba") and hasattr(vars(self).get("estimator"), name):
            return lambda X: getattr(self.model_, name)(self._rows(X))
        raise AttributeError(f"{type(self).__name__} has no '{name}'")

    def _rows(self, X: Any) -> NDArray[np.float64]:
        return self.encoder.memoised(X)[:, 0].astype(np.float64) / self.encoder.scale


def in_front(encoder: Any, learner: Any) -> Any:
    """The learner with an encoder in front of it: pooled if the learner is, on embeddings as they are."""
    encoder = as_encoder(encoder)
    if not is_classifier(learner):
        return learner  # whoever asked for it is told so
    if not isinstance(learner, KernelRidgeClassifier):
        if public_map_of(learner) is not None:
            raise PoisonproofError(
                f"{describe(learner)} has an encoder of its own; leave one of the two out.",
                code="encoder.learner-has-map",
            )
        return EncodedClassifier(encoder, learner)
    if learner.features is not None:
        raise PoisonproofError(
            f"{type(learner).__name__} has a feature map of its own, {type(learner.features).__name__}, which takes "
            "samples and not embeddings; leave it out, or the encoder.",
            code="encoder.learner-has-map",
        )
    return clone(learner).set_params(features=encoder)

"""An encoder in front of a learner: partitions come from the samples themselves, base classifiers see embeddings.

The encoder stands inside the base classifier, where anything belongs that is done to samples after the split. It is a
fixed function of one sample, so a base classifier is still a function of its subset, and embeddings are shared: a
pooled learner computes each of them once.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from poisonproof.errors import PoisonproofError, WrongTypeError
from poisonproof.learners.describe import describe
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from poisonproof.maps.callable_encoders import CallableEncoder
from poisonproof.maps.encoders import Encoder
from poisonproof.maps.trusted import TrustedFeatures
from poisonproof.samples.kinds import NumberSamples, Samples

ASKED_TWICE = 8


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
        return bool(getattr(self.estimator, "answers_one_by_one", False))

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
        return self.encoder.remembered(X)[:, 0].astype(np.float64) / self.encoder.scale


def in_front(encoder: Any, learner: Any) -> Any:
    """The learner with an encoder in front of it: pooled if the learner is, on embeddings as they are."""
    encoder = as_encoder(encoder)
    if not is_classifier(learner):
        return learner  # whoever asked for it is told so
    if not isinstance(learner, KernelRidgeClassifier):
        if encoder_in(learner) is not None:
            raise PoisonproofError(f"{describe(learner)} has an encoder of its own; leave one of the two out.")
        return EncodedClassifier(encoder, learner)
    if learner.features is not None:
        raise PoisonproofError(
            f"{type(learner).__name__} has a feature map of its own, {type(learner.features).__name__}, which takes "
            "samples and not embeddings; leave it out, or the encoder."
        )
    return clone(learner).set_params(features=encoder)


def as_encoder(value: Any) -> Encoder:
    """An encoder as it is, or a function of samples with a record of what is known about it."""
    if isinstance(value, Encoder):
        return value
    if isinstance(value, type) or not callable(value):
        raise WrongTypeError(
            "An encoder is what poisonproof.encoder(name) gives, or a function from samples to an array of numbers. "
            f"Got {value!r} instead."
        )
    words = describe(value)
    name = getattr(value, "__qualname__", type(value).__qualname__)
    return CallableEncoder.of(value, name, hashlib.sha256(words.encode()).hexdigest())


def check_function(value: Any) -> None:
    """Refuse a function of the user's own, as an encoder or a map, that is not the one on its record any more."""
    encoder = value.features if isinstance(value, TrustedFeatures) else value
    if not isinstance(encoder, CallableEncoder) or encoder.function is None:
        return
    record = as_encoder(encoder.function).record
    if record != encoder.record:
        raise PoisonproofError(
            f"The function {encoder.record.name} has the SHA-256 {record.weights}, and the record of the encoder says "
            f"{encoder.record.weights}; its code, or Python, is another, so nothing that was certified holds for it."
        )


def encoder_in(learner: Any) -> Encoder | None:
    """The encoder that stands in front of a learner, if one does."""
    for part in (getattr(learner, "encoder", None), getattr(learner, "features", None)):
        if isinstance(part, Encoder):
            return part
    return None


def without_cache(learner: Any) -> Any:
    """A learner as it may be kept: where embeddings lie on this machine is nobody else's business."""
    for name in ("encoder", "features"):
        part = getattr(learner, name, None)
        if isinstance(part, Encoder) and part.cache is not None:
            return clone(learner).set_params(**{name: replace(part, cache=None)})
    return learner


def map_without_cache(features: Any) -> Any:
    """The same of a feature map, which may be an encoder or stand behind one."""
    if isinstance(features, Encoder):
        return replace(features, cache=None)
    if isinstance(features, TrustedFeatures) and isinstance(features.features, Encoder):
        return replace(features, features=replace(features.features, cache=None))
    return features


def check_encoder(encoder: Encoder, samples: Samples) -> None:
    """Refuse samples of a kind that an encoder does not take, and an encoder that shows itself to be no function."""
    takes = encoder.record.takes
    pictures = isinstance(samples, NumberSamples) and samples.values.ndim in (3, 4)
    kind = "images" if pictures else samples.kind
    if takes != "anything" and takes != kind:
        raise PoisonproofError(f"The encoder {encoder.record.name} takes {takes}, and these samples are {kind}.")
    spaced = np.arange(ASKED_TWICE) * len(samples) // ASKED_TWICE  # not the first ones, which one person may have sent
    encoder.check(samples.take(np.unique(spaced)[: len(samples)]))

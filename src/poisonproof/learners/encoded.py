"""An encoder in front of a learner: partitions come from the samples themselves, base classifiers see embeddings.

The encoder stands inside the base classifier, where anything belongs that is done to samples after the split. It is a
fixed function of one sample, so a base classifier is still a function of its subset, and embeddings are shared: a
pooled learner computes each of them once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from poisonproof.errors import PoisonproofError, WrongTypeError
from poisonproof.learners.describe import describe
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from poisonproof.maps.callable_encoders import CallableEncoder
from poisonproof.maps.encoders import Encoder, UnreadableSampleError
from poisonproof.maps.named_encoders import encoder as named_encoder
from poisonproof.maps.trusted import TrustedFeatures
from poisonproof.samples.batches import ONE_BY_ONE, declares
from poisonproof.samples.kinds import NumberSamples, Samples

MEASURED_ON = 32  # samples that say how many numbers a function gives


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


def encoder(source: str | Path | Callable[[Any], Any], *, width: int | None = None) -> Encoder:
    """An encoder by its name, from a file, or of a function of your own.

    Parameters
    ----------
    source : str, path or callable
        ``efficientnet-lite0`` (1, 2; ``@160`` sets the pixels), ``wordllama``, ``minilm``; ``FILE.onnx``, a network for
        pictures with a ``FILE.json`` beside it that declares how pictures enter, or ``FILE.npz``, embeddings that
        `write_embeddings` wrote. Behind an encoder of pictures ``+signs`` or ``+objects`` sets one of our own maps
        beside it, ``+2*signs`` with twice its length, and ``+efficientnet-lite1`` another encoder that comes by its
        name. Or a function from a batch of samples to rows of numbers, which is asked about one sample at a time.
    width : int, optional
        How many numbers a function gives for a sample; where it gives another number, the sample is described by zeros.
        Without it, the 32 training samples with the smallest content hashes say so, which is a premise.
    """
    if not isinstance(source, str | Path):
        return as_encoder(source, width)
    if width is not None:
        raise PoisonproofError(f"The 'width' is of functions; how many numbers {source} gives is known. Leave it out.")
    return named_encoder(str(source))


def as_encoder(value: Any, width: int | None = None) -> Encoder:
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
    return CallableEncoder.of(value, name, hashlib.sha256(words.encode()).hexdigest(), width)


def check_function(value: Any) -> None:
    """Refuse a function of the user's own, as an encoder or a map, that is not the one on its record any more."""
    encoder = value.features if isinstance(value, TrustedFeatures) else value
    if not isinstance(encoder, CallableEncoder) or encoder.function is None:
        return
    record = as_encoder(encoder.function, encoder.record.width).record
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


def with_encoder(learner: Any, encoder: Encoder) -> Any:
    """The learner with this encoder in place of its own."""
    name = "encoder" if isinstance(getattr(learner, "encoder", None), Encoder) else "features"
    return clone(learner).set_params(**{name: encoder})


def without_cache(learner: Any) -> Any:
    """A learner as it may be kept: where embeddings lie on this machine is nobody else's business."""
    encoder = encoder_in(learner)
    return learner if encoder is None else with_encoder(learner, replace(encoder, cache=None))


def map_without_cache(features: Any) -> Any:
    """The same of a feature map, which may be an encoder or stand behind one."""
    if isinstance(features, Encoder):
        return replace(features, cache=None)
    if isinstance(features, TrustedFeatures) and isinstance(features.features, Encoder):
        return replace(features, features=replace(features.features, cache=None))
    return features


def checked_encoder(encoder: Encoder, samples: Samples) -> Encoder:
    """The encoder for these training samples, measured on those with the smallest content hashes.

    No order decides which these are. Refuses samples of a kind that it does not take, and an encoder that shows itself
    to be no function. If it has no numbers for any of the first, others are asked: as long as one is left, no sample
    stops the training.
    """
    takes = encoder.record.takes
    one = samples.subset([0]) if len(samples) else samples  # stored samples know their kind and not their shape
    pictures = isinstance(one, NumberSamples) and one.values.ndim in (3, 4)
    kind = "images" if pictures else samples.kind
    if takes != "anything" and takes != kind:
        raise PoisonproofError(f"The encoder {encoder.record.name} takes {takes}, and these samples are {kind}.")
    order, error = np.argsort(samples.content_hashes, kind="stable"), None
    for start in range(0, len(order), MEASURED_ON):
        try:
            return encoder.measured(samples.take(order[start : start + MEASURED_ON]))
        except UnreadableSampleError as first:
            error = error or first
    raise error or PoisonproofError(f"The encoder {encoder.record.name} was given no samples.")


def for_samples(learner: Any, samples: Samples) -> Any:
    """The learner with its encoder, if one stands in front of it, as it is for these training samples."""
    encoder = encoder_in(learner)
    return learner if encoder is None else with_encoder(learner, checked_encoder(encoder, samples))

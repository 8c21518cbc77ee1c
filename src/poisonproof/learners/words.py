"""Base classifiers for texts that cope with few of them and with rare classes.

Words, pairs of words and pieces of words of three to five characters are hashed by a fixed function, so no vocabulary
is learned. A text is a set: how often something occurs in it does not count. The score of a text is summed in a fixed
order, so it does not depend on the batch.
"""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from poisonproof.errors import PoisonproofError
from poisonproof.learners.codes import classes_and_codes
from poisonproof.learners.table import scores_of
from poisonproof.learners.word_reading import WordReading, is_table

MOST_LEFT_OUT = 2000  # texts; of more, leaving each out would take a matrix too large
LEAST_APART = 1e-3


class _WordsClassifier(ClassifierMixin, BaseEstimator):
    """What both have in common: one score for each class, linear in the words and pieces that the subset holds."""

    def __init__(self, *, n_hashed: int = 1 << 18) -> None:
        self.n_hashed = n_hashed

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Train on texts."""
        self.classes_, codes = classes_and_codes(self, y)
        encoded = self._encoded(X)
        self.held_ = np.unique(encoded.indices).astype(np.int64)
        weights, bias = self._learned(encoded[:, self.held_], codes)
        self.weights_, self.bias_ = np.ascontiguousarray(weights), np.ascontiguousarray(bias)
        return self

    def _learned(self, encoded: Any, codes: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        raise NotImplementedError

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores, an array (n, classes), or (n,) for two classes as in scikit-learn."""
        check_is_fitted(self)
        held = self._encoded(X)[:, self.held_]
        held.sort_indices()
        scores = scores_of(held, self.weights_, self.bias_)
        return scores[:, 1] - scores[:, 0] if len(self.bias_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the highest score; ties go to the smaller one."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)]

    def _encoded(self, X: Any) -> Any:
        """Each text as a vector of length 1: half of it for words and pairs, half for pieces of words."""
        if is_table(X):
            raise PoisonproofError(f"{type(self).__name__} takes texts alone, not a table.")
        return self.readings[0].rows(X)

    @property
    def readings(self) -> tuple[WordReading, ...]:
        """How words are read; what base classifiers of one learner share (see `poisonproof.training.source`)."""
        return (WordReading(float(np.sqrt(0.5)), self.n_hashed, pieces=True),)


class BayesTextClassifier(_WordsClassifier):
    """Naive Bayes of each class against the rest, its threshold halfway between what both sides score unseen.

    A word or piece counts by how much larger a share of the texts of a class holds it than of all others. A text that
    was trained on has words that nothing else has, which speak for its own class; so thresholds come from texts left
    out: each is scored by what the rest of the subset says, which takes no more than its own counts off. Counts are
    whole numbers, so they do not depend on the order in which texts are counted; rare classes count as much as others.

    Parameters
    ----------
    smoothing : float
        How often every word and piece is supposed to have been seen besides, on both sides.
    n_hashed : int
        How many features words, and pieces of words, are hashed into.
    """

    answers_one_by_one = takes_texts = True  # see poisonproof.samples.batches

    def __init__(self, *, smoothing: float = 0.05, n_hashed: int = 1 << 18) -> None:
        super().__init__(n_hashed=n_hashed)
        self.smoothing = smoothing

    def _learned(self, encoded: Any, codes: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        seen = sp.csr_matrix((np.ones_like(encoded.data), encoded.indices, encoded.indptr), shape=encoded.shape)
        total = np.asarray(seen.sum(axis=0)).ravel()
        weights, bias = [], []
        for code in range(len(self.classes_)):
            inside = codes == code
            inner = np.asarray(seen[inside].sum(axis=0)).ravel()
            n_inner, n_outer = int(inside.sum()), int((~inside).sum())
            left_out = np.empty(len(codes))
            left_out[inside] = encoded[inside] @ self._odds(
                np.maximum(inner - 1, 0), n_inner - 1, total - inner, n_outer
            )
            left_out[~inside] = encoded[~inside] @ self._odds(
                inner, n_inner, np.maximum(total - inner - 1, 0), n_outer - 1
            )
            high, low = np.median(left_out[inside]), np.median(left_out[~inside])
            apart = max((high - low) / 2, LEAST_APART)
            weights.append(self._odds(inner, n_inner, total - inner, n_outer) / apart)
            bias.append(-(high + low) / 2 / apart)
        return np.stack(weights), np.array(bias)

    def _odds(
        self, inner: NDArray[np.float64], n_inner: int, outer: NDArray[np.float64], n_outer: int
    ) -> NDArray[np.float64]:
        """How much each word speaks for a class; nothing, if no text holds it."""
        more = 2 * self.smoothing
        odds = np.log((inner + self.smoothing) / (n_inner + more)) - np.log((outer + self.smoothing) / (n_outer + more))
        return np.where(inner + outer > 0, odds, 0.0)


class RidgeTextClassifier(_WordsClassifier):
    """Ridge regression of each class against the rest, its threshold halfway between what both sides score unseen.

    Where a class is rare, the scores of texts that were not trained on all lean to the other side; a threshold between
    them must come from texts that were left out. Leaving each text out of its subset has a closed form, so
    it costs no more than the regression itself. Both sides of each regression have the same weight.

    Parameters
    ----------
    ridge : float
        Strength of the penalty.
    n_hashed : int
        How many features words, and pieces of words, are hashed into.
    """

    answers_one_by_one = takes_texts = True  # see poisonproof.samples.batches

    def __init__(self, *, ridge: float = 0.1, n_hashed: int = 1 << 18) -> None:
        super().__init__(n_hashed=n_hashed)
        self.ridge = ridge

    def _learned(self, encoded: Any, codes: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if len(codes) > MOST_LEFT_OUT:
            return self._of_very_many(encoded, codes)
        products = (encoded @ encoded.T).toarray() + 1.0
        weights, bias = [], []
        for code in range(len(self.classes_)):
            inside = codes == code
            target = np.where(inside, 1.0, -1.0)
            share = np.where(inside, 0.5 / inside.sum(), 0.5 / (~inside).sum()) * len(codes)
            inverse = np.linalg.inv(products + np.diag(self.ridge / share))
            duals = inverse @ target
            left_out = target - duals / np.diag(inverse)
            inner, outer = left_out[inside].mean(), left_out[~inside].mean()
            apart = max((inner - outer) / 2, LEAST_APART)
            weights.append((encoded.T @ duals) / apart)
            bias.append((duals.sum() - (inner + outer) / 2) / apart)
        return np.stack(weights), np.array(bias)

    def _of_very_many(self, encoded: Any, codes: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Balanced logistic regression: with so many texts, scores of unseen ones lean but little."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.preprocessing import normalize

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(C=25.0, class_weight="balanced", max_iter=200).fit(normalize(encoded), codes)
        if len(self.classes_) == 2:
            half = model.coef_ / 2
            return np.concatenate([-half, half]), np.concatenate([-model.intercept_ / 2, model.intercept_ / 2])
        return np.asarray(model.coef_), np.asarray(model.intercept_)

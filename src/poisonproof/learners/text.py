"""Base classifiers for texts, alone or among other columns, that cope with few of them and with rare classes.

Words, pairs of words and, for some, pieces of words are hashed by a fixed function, so no vocabulary is learned, inside
the subset or outside. The score of a text is summed in a fixed order, so it does not depend on the batch.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from poisonproof.errors import PoisonproofError
from poisonproof.learners.table import TableClassifier, scores_of
from poisonproof.samples.batches import TableBatch, TextBatch
from poisonproof.samples.frames import is_frame
from poisonproof.samples.labels import classes_and_codes

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import HashingVectorizer

MOST_LEFT_OUT = 2000  # texts; of more, leaving each out would take a matrix too large
LEAST_APART = 1e-3


@dataclass(frozen=True)
class WordReading:
    """How a learner reads the words of its samples.

    Attributes
    ----------
    weight : float
        What rows of length 1 are multiplied by.
    n_hashed : int
        How many features words are hashed into.
    columns : tuple
        The columns of a table that hold texts; without any, a sample is one text.
    pieces : bool
        Whether a text is a set of words, pairs of words and pieces of words of three to five characters, which are
        hashed into as many features again. If not, it is words and pairs of words with signs, as often as they occur.
    """

    weight: float
    n_hashed: int
    columns: tuple[Any, ...] = ()
    pieces: bool = False

    @property
    def width(self) -> int:
        """How many features a sample has."""
        return self.n_hashed * (1 + self.pieces) * max(1, len(self.columns))

    def __call__(self, texts: Sequence[Any]) -> Any:
        """A row for each of the texts of one column; a cell that is no text counts as an empty one."""
        cells = [cell if isinstance(cell, str) else "" for cell in texts]
        return (
            _side_by_side([how.transform(cells) for how in _vectorizers(self.n_hashed, pieces=self.pieces)])
            * self.weight
        )

    def rows(self, X: Any) -> Any:
        """Texts, or the columns of a table that hold them side by side, in CSR with sorted indices."""
        if isinstance(X, TextBatch):
            parts = [X.encoded(self)]
        elif isinstance(X, TableBatch):
            parts = [X.encoded(name, self) for name in self.columns]
        else:
            parts = [self(X[name]) for name in self.columns] if self.columns else [self(X)]
        rows = _side_by_side(parts)
        rows.sort_indices()
        return rows


def is_table(X: Any) -> bool:
    """Whether samples have columns."""
    return is_frame(X) or isinstance(X, TableBatch)


def _side_by_side(parts: Sequence[Any]) -> Any:
    return sp.csr_matrix(sp.hstack(parts, format="csr")) if len(parts) > 1 else parts[0]


@lru_cache(maxsize=8)
def _vectorizers(n_hashed: int, *, pieces: bool) -> tuple[HashingVectorizer, ...]:
    from sklearn.feature_extraction.text import HashingVectorizer

    if not pieces:
        return (HashingVectorizer(n_features=n_hashed, ngram_range=(1, 2)),)
    as_set = {"n_features": n_hashed, "binary": True, "alternate_sign": False}
    return (
        HashingVectorizer(ngram_range=(1, 2), **as_set),
        HashingVectorizer(ngram_range=(3, 5), analyzer="char_wb", **as_set),
    )


class _LinearClassifier(ClassifierMixin, BaseEstimator):
    """One score for each class, linear in hashed words."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the highest score; ties go to the smaller one."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)]


class TextClassifier(_LinearClassifier):
    """Logistic regression on hashed words, and on the other columns as `TableClassifier` encodes them.

    Words and pairs of words are hashed into features by a fixed function, so no vocabulary is learned, inside the
    subset or outside. The score of a sample is summed in a fixed order, so it does not depend on the batch.

    Parameters
    ----------
    texts : sequence of str
        The columns of a table that hold texts; others are numbers and categories. Without any, a sample is one text.
    C : float
        Inverse strength of the L2 penalty.
    weight : float
        Length of the vector of a text's words, where a standardised number has length 1.
    n_hashed : int
        How many features words are hashed into.
    max_iter : int
        Iterations of the solver.
    """

    answers_one_by_one = True  # see poisonproof.samples.batches
    takes_columns = takes_texts = True  # see poisonproof.samples.batches

    def __init__(
        self,
        texts: Sequence[str] = (),
        *,
        C: float = 1.0,
        weight: float = 5.0,
        n_hashed: int = 1 << 18,
        max_iter: int = 200,
    ) -> None:
        self.texts = texts
        self.C = C
        self.weight = weight
        self.n_hashed = n_hashed
        self.max_iter = max_iter

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Train on texts, or on a DataFrame."""
        self.classes_, codes = classes_and_codes(self, y)
        words = self._words(X)
        self.others_ = self._others(X)
        self.table_ = TableClassifier()._learn_encoding(self._rest(X)) if self.others_ else None
        # A word that the subset does not have gets no weight, so it need not be kept.
        self.held_ = np.unique(words.indices).astype(np.int64)
        encoded = self._encode(X, words)
        from sklearn.linear_model import LogisticRegression

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(C=self.C, max_iter=self.max_iter).fit(encoded, codes)
        self.weights_ = np.ascontiguousarray(model.coef_)
        self.bias_ = np.ascontiguousarray(model.intercept_)
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores, an array (n, classes), or (n,) for two classes as in scikit-learn."""
        check_is_fitted(self)
        scores = scores_of(self._encode(X, self._words(X)), self.weights_, self.bias_)
        return scores[:, 0] if len(self.bias_) == 1 else scores

    @property
    def readings(self) -> tuple[WordReading, ...]:
        """How words are read; what base classifiers of one learner share (see `poisonproof.training.engine`)."""
        return (WordReading(self.weight, self.n_hashed, tuple(self.texts)),)

    def _others(self, X: Any) -> list[int]:
        """The columns that are no texts."""
        if not self.texts:
            return []
        names = X.names if isinstance(X, TableBatch) else X.columns
        return [at for at, name in enumerate(names) if name not in set(self.texts)]

    def _rest(self, X: Any) -> Any:
        others = self._others(X)
        return X.of_columns(others) if isinstance(X, TableBatch) else X.iloc[:, others]

    def _words(self, X: Any) -> Any:
        """Hashed words of all text columns, side by side."""
        if bool(self.texts) != is_table(X):
            raise PoisonproofError(
                "TextClassifier takes a DataFrame if it names columns of texts, and texts if it does not.",
                code="learner.wrong-kind",
            )
        return self.readings[0].rows(X)

    def _encode(self, X: Any, words: Any) -> Any:
        held = words[:, self.held_]
        if self.table_ is None:
            encoded = held
        else:
            encoded = sp.hstack([sp.csr_matrix(self.table_._encode(self._rest(X))), held], format="csr")
        encoded.sort_indices()
        return encoded


class _WordsClassifier(_LinearClassifier):
    """What both have in common: one score for each class, linear in the words and pieces that the subset holds."""

    def __init__(self, *, n_hashed: int = 1 << 18) -> None:
        self.n_hashed = n_hashed

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

    def _encoded(self, X: Any) -> Any:
        """Each text as a vector of length 1: half of it for words and pairs, half for pieces of words."""
        if is_table(X):
            raise PoisonproofError(f"{type(self).__name__} takes texts alone, not a table.", code="learner.wrong-kind")
        return self.readings[0].rows(X)

    @property
    def readings(self) -> tuple[WordReading, ...]:
        """How words are read; what base classifiers of one learner share (see `poisonproof.training.engine`)."""
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

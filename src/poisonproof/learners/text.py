"""A base classifier for texts, alone or among other columns."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from poisonproof.errors import PoisonproofError
from poisonproof.learners.codes import classes_and_codes
from poisonproof.learners.table import TableClassifier, scores_of
from poisonproof.learners.word_reading import WordReading, is_table
from poisonproof.samples.batches import TableBatch


class TextClassifier(ClassifierMixin, BaseEstimator):
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
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
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

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the highest score; ties go to the smaller one."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)]

    @property
    def readings(self) -> tuple[WordReading, ...]:
        """How words are read; what base classifiers of one learner share (see `poisonproof.training.source`)."""
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
                "TextClassifier takes a DataFrame if it names columns of texts, and texts if it does not."
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

"""The default base classifier: multinomial logistic regression that copes with any table.

Why this one. A subset is small (1/k of the data), so the learner must do well on a few dozen samples,
train in milliseconds (there are k·d of them) and keep little. On held-out training data of
scikit-learn's embedded sets (10 to 80 samples per subset) standardised logistic regression is level
with 100 extremely randomised trees at less than a fifteenth of their cost; benchmarks/RESULTS.md has the table.
"""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from poisonproof.errors import PoisonproofError
from poisonproof.samples.batch import MISSING_NAME, TableBatch, name_of
from poisonproof.samples.kinds import is_frame
from poisonproof.system.compiled import njit


class TableClassifier(ClassifierMixin, BaseEstimator):
    """Logistic regression on numbers, categories and missing values, all encoded inside the subset.

    Numbers are standardised; a missing number counts as the mean and is flagged in a column of its
    own; texts and categories are one-hot encoded by the values the subset has (others count as none);
    sparse rows are taken as they are. The score of a sample is summed in a fixed order, so it does not
    depend on the batch it comes in.

    Parameters
    ----------
    C : float
        Inverse strength of the L2 penalty.
    max_iter : int
        Iterations of the solver. Where it stops is a function of the subset, so an early stop costs
        accuracy at most.
    """

    answers_one_by_one = True  # see poisonproof.training.asking
    takes_columns = True  # see poisonproof.samples.batch

    def __init__(self, C: float = 1.0, max_iter: int = 200) -> None:
        self.C = C
        self.max_iter = max_iter

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Train on numbers (n, …), sparse rows or a DataFrame."""
        if y is None:
            raise PoisonproofError("TableClassifier requires y to be passed, but the target y is None.")
        X, y = self.checked(X, reset=True), column_or_1d(y, warn=True)
        check_classification_targets(y)
        check_consistent_length(X, y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise PoisonproofError(
                f"TableClassifier needs samples of at least 2 classes; got {len(self.classes_)} class."
            )
        self.learn_encoding(X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(C=self.C, max_iter=self.max_iter).fit(self.encode(X), codes)
        self.weights_ = np.ascontiguousarray(model.coef_)
        self.n_iter_ = int(np.max(model.n_iter_))
        self.bias_ = np.ascontiguousarray(model.intercept_)
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores, an array (n, classes), or (n,) for two classes as in scikit-learn."""
        check_is_fitted(self)
        scores = scores_of(self.encode(self.checked(X, reset=False)), self.weights_, self.bias_)
        return scores[:, 0] if len(self.bias_) == 1 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the highest score; ties go to the smaller one."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)]

    def checked(self, X: Any, *, reset: bool) -> Any:
        """Samples in the form that encoding takes, or scikit-learn's refusal."""
        if isinstance(X, TableBatch):
            validate_data(self, X.outline, reset=reset, skip_check_array=True)
            return X
        if not is_frame(X):
            X = check_array(
                X,
                accept_sparse="csr",
                dtype=np.float64,
                allow_nd=True,
                ensure_all_finite="allow-nan",
                input_name="X",
            )
            if not sp.issparse(X):
                X = X.reshape(len(X), -1)
            if not reset and sp.issparse(X) != self.sparse_:
                X = sp.csr_matrix(X) if self.sparse_ else X.toarray()
        validate_data(self, X, reset=reset, skip_check_array=True)
        return X

    def learn_encoding(self, X: Any) -> Self:
        """Learn how to write the columns of a subset as numbers: all of `fit` but the regression."""
        self.categories_: list[list[Any] | None] = []
        self.sparse_ = sp.issparse(X)
        if sp.issparse(X):
            self.mean_, self.scale_, self.flagged_ = np.zeros(0), np.zeros(0), np.zeros(0, np.int64)
            return self
        for at in range(X.shape[1]):
            if _is_number(X, at):
                self.categories_.append(None)
                continue
            places, names = _categories(X, at)
            self.categories_.append(sorted({names[place] for place in np.unique(places)}))
        numbers = self._numbers(X)
        missing = np.isnan(numbers)
        held = np.maximum((~missing).sum(axis=0), 1)
        self.mean_ = np.where(missing, 0.0, numbers).sum(axis=0) / held
        spread = np.sqrt((np.where(missing, 0.0, numbers - self.mean_) ** 2).sum(axis=0) / held)
        self.scale_ = np.where(spread > 0, spread, 1.0)
        self.flagged_ = np.flatnonzero(missing.any(axis=0))
        return self

    def _numbers(self, X: Any) -> NDArray[np.float64]:
        if not is_frame(X) and not isinstance(X, TableBatch):
            return np.asarray(X)
        at = [i for i, categories in enumerate(self.categories_) if categories is None]
        if isinstance(X, TableBatch):
            return X.numbers(at)
        return np.asarray(X.iloc[:, at].to_numpy(dtype=np.float64, na_value=np.nan))

    def encode(self, X: Any) -> Any:
        """Samples as numbers, by what `learn_encoding` learned."""
        if sp.issparse(X):
            return X
        numbers = self._numbers(X)
        missing = np.isnan(numbers)
        widths = [0 if categories is None else len(categories) for categories in self.categories_]
        n_numbers, at = numbers.shape[1], numbers.shape[1] + len(self.flagged_)
        encoded = np.zeros((len(numbers), at + sum(widths)))
        np.divide(numbers - self.mean_, self.scale_, out=encoded[:, :n_numbers])
        encoded[:, :n_numbers][missing] = 0.0
        encoded[:, n_numbers:at] = missing[:, self.flagged_]
        rows = np.arange(len(numbers))
        for column, categories in enumerate(self.categories_):
            if categories is not None:
                places, names = _categories(X, column)
                known = {category: place for place, category in enumerate(categories)}
                hot = np.array([known.get(name, -1) for name in names])[places]
                encoded[rows[hot >= 0], at + hot[hot >= 0]] = 1.0
                at += len(categories)
        return encoded


def _is_number(X: Any, at: int) -> bool:
    if isinstance(X, TableBatch):
        return X.is_number(at)
    return not is_frame(X) or X.dtypes.iloc[at].kind in "fiub"


def _categories(X: Any, at: int) -> tuple[NDArray[Any], list[str]]:
    """The cells of a column as places in names, of which the last is that of a missing one."""
    if isinstance(X, TableBatch):
        return X.categories(at)
    column = X.iloc[:, at]
    if hasattr(column, "cat") and column.dtype == "category":
        return np.asarray(column.cat.codes), [*map(name_of, column.cat.categories.tolist()), MISSING_NAME]
    places: dict[str, int] = {}
    codes = [places.setdefault(name_of(cell), len(places)) for cell in column]
    return np.array(codes, np.int64), [*places, MISSING_NAME]


def scores_of(X: Any, weights: NDArray[np.float64], bias: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores (n, classes) of dense or sparse rows, each summed in a fixed order."""
    scores = np.empty((X.shape[0], len(bias)))
    if sp.issparse(X):
        _sparse_scores(X.indptr, X.indices, X.data, weights, bias, scores)
    else:
        _dense_scores(X, weights, bias, scores)
    return scores


@njit(nogil=True, cache=True)
def _dense_scores(
    X: NDArray[np.float64],
    weights: NDArray[np.float64],
    bias: NDArray[np.float64],
    scores: NDArray[np.float64],
) -> None:
    for row in range(X.shape[0]):
        for c in range(len(bias)):
            total = bias[c]
            for feature in range(X.shape[1]):
                total += X[row, feature] * weights[c, feature]
            scores[row, c] = total


@njit(nogil=True, cache=True)
def _sparse_scores(
    starts: NDArray[Any],
    features: NDArray[Any],
    values: NDArray[np.float64],
    weights: NDArray[np.float64],
    bias: NDArray[np.float64],
    scores: NDArray[np.float64],
) -> None:
    for row in range(scores.shape[0]):
        for c in range(len(bias)):
            total = bias[c]
            for at in range(starts[row], starts[row + 1]):
                total += values[at] * weights[c, features[at]]
            scores[row, c] = total

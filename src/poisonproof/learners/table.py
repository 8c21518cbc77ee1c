"""The default base classifier: multinomial logistic regression that copes with any table.

Why this one. A subset is small (1/k of the data), so the learner must do well on a few dozen samples,
train in milliseconds (there are k·d of them) and keep little. On held-out training data of
scikit-learn's embedded sets (10 to 80 samples per subset) standardised logistic regression is level
with 100 extremely randomised trees at less than a fifteenth of their cost; benchmarks/RESULTS.md has the table.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from poisonproof.errors import PoisonproofError
from poisonproof.learners.logistic import WIDEST, Design, Regression, fit_logistic
from poisonproof.samples.batches import MISSING_NAME, TableBatch, name_of
from poisonproof.samples.frames import is_frame
from poisonproof.samples.labels import classes_and_codes
from poisonproof.system.compiled import njit


class ClassifierOfTables(ClassifierMixin, BaseEstimator):
    """A classifier that takes whatever a table holds: numbers, missing ones, categories and texts, or sparse rows."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


class TableClassifier(ClassifierOfTables):
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

    answers_one_by_one = True  # see poisonproof.samples.batches
    takes_columns = True  # see poisonproof.samples.batches

    def __init__(self, C: float = 1.0, max_iter: int = 200) -> None:
        self.C = C
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any) -> Self:
        """Train on numbers (n, …), sparse rows or a DataFrame."""
        if y is None:
            raise PoisonproofError(
                "TableClassifier requires y to be passed, but the target y is None.", code="learner.no-labels"
            )
        X = self._checked(X, reset=True)
        if not (isinstance(X, TableBatch) and is_plain_codes(y) and len(y) == len(X)):
            y = column_or_1d(y, warn=True)
            check_classification_targets(y)
            check_consistent_length(X, y)
        self.classes_, codes = classes_and_codes(self, y)
        cells = self._learn(X)
        fitted = self._fit_dense(X, codes) if cells is None or not self._is_compact else self._fit_compact(cells, codes)
        self.weights_, self.bias_, self.n_iter_ = fitted.weights, fitted.bias, fitted.n_steps
        return self

    @property
    def _is_compact(self) -> bool:
        """Whether a row is mostly noughts, of no more columns than our own solver is made for."""
        widths = [len(categories) for categories in self.categories_ if categories is not None]
        return bool(widths) and len(self.mean_) + len(self.flagged_) + sum(widths) <= WIDEST

    def _fit_compact(self, cells: Cells, codes: NDArray[np.int64]) -> Regression:
        numbers, places, n_ones = self._encode_compact(cells)
        if not np.isfinite(numbers).all():
            raise PoisonproofError(
                "The numbers of a subset are too large to be standardised.", code="learner.not-finite"
            )
        return fit_logistic(Design.of(numbers, places, n_ones), codes, len(self.classes_), self.C, self.max_iter)

    def _fit_dense(self, X: Any, codes: NDArray[np.int64]) -> Regression:
        from sklearn.linear_model import LogisticRegression

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(C=self.C, max_iter=self.max_iter).fit(self._encode(X), codes)
        weights, bias = np.ascontiguousarray(model.coef_), np.ascontiguousarray(model.intercept_)
        return Regression(weights, bias, int(np.max(model.n_iter_)))

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores, an array (n, classes), or (n,) for two classes as in scikit-learn."""
        check_is_fitted(self)
        scores = scores_of(self._encode(self._checked(X, reset=False)), self.weights_, self.bias_)
        return scores[:, 0] if len(self.bias_) == 1 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the highest score; ties go to the smaller one."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)]

    def _checked(self, X: Any, *, reset: bool) -> Any:
        """Samples in the form that encoding takes, or scikit-learn's refusal."""
        if isinstance(X, TableBatch):
            self._check_columns(X, reset=reset)
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

    def _check_columns(self, X: TableBatch, *, reset: bool) -> None:
        """What scikit-learn's `validate_data` notes, or compares, of a frame of such columns; made only if they differ.

        Names count where all of them are texts. Texts among others, and one name twice, are scikit-learn's to judge.
        """
        called = [column.name for column in X.columns]
        kinds = set(map(type, called))
        names = np.array(called, object) if kinds == {str} else None
        plain = (names is not None or str not in kinds) and len(set(called)) == len(called)
        if plain and reset:
            if names is not None:
                self.feature_names_in_ = names
            elif hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            self.n_features_in_ = len(called)
            return
        noted = getattr(self, "feature_names_in_", None)
        alike = noted is names if noted is None or names is None else np.array_equal(noted, names)
        if not (plain and alike and self.n_features_in_ == len(called)):
            validate_data(self, X.outline, reset=reset, skip_check_array=True)

    def _learn_encoding(self, X: Any) -> Self:
        """Learn how to write the columns of a subset as numbers: all of `fit` but the regression."""
        self._learn(X)
        return self

    def _learn(self, X: Any) -> Cells | None:
        """The same; what the subset holds, unless it is sparse."""
        self.sparse_ = sp.issparse(X)
        self.categories_: list[list[Any] | None] = []
        if self.sparse_:
            self.mean_, self.scale_, self.flagged_ = np.zeros(0), np.zeros(0), np.zeros(0, np.int64)
            return None
        cells = Cells.of(X, [at for at in range(X.shape[1]) if not holds_numbers(X, at)])
        self.categories_ = [None] * cells.n_columns
        for at, (places, names) in cells.categories.items():
            self.categories_[at] = sorted({names[place] for place in _held(places, len(names))})
        numbers, missing = cells.numbers, cells.missing
        held = np.maximum((~missing).sum(axis=0), 1)
        self.mean_ = np.where(missing, 0.0, numbers).sum(axis=0) / held
        spread = np.sqrt((np.where(missing, 0.0, numbers - self.mean_) ** 2).sum(axis=0) / held)
        self.scale_ = np.where(spread > 0, spread, 1.0)
        self.flagged_ = np.flatnonzero(missing.any(axis=0))
        return cells

    def _encode(self, X: Any) -> Any:
        """Samples as numbers, by what `_learn_encoding` learned."""
        if sp.issparse(X):
            return X
        columns = [at for at, categories in enumerate(self.categories_) if categories is not None]
        numbers, places, n_ones = self._encode_compact(Cells.of(X, columns))
        n_numbers = numbers.shape[1]
        encoded = np.zeros((len(numbers), n_numbers + n_ones))
        encoded[:, :n_numbers] = numbers
        rows, which = np.nonzero(places >= 0)
        encoded[rows, n_numbers + places[rows, which]] = 1.0
        return encoded

    def _encode_compact(self, cells: Cells) -> tuple[NDArray[np.float64], NDArray[np.int64], int]:
        """Numbers, the places of ones behind them (rows, most ones; -1 where there is none), and how many there are."""
        scaled = np.divide(cells.numbers - self.mean_, self.scale_)
        scaled[cells.missing] = 0.0
        at = len(self.flagged_)
        ones = np.full((len(scaled), at + len(cells.categories)), -1, np.int64)
        ones[:, :at] = np.where(cells.missing[:, self.flagged_], np.arange(at), -1)
        for place, (column, (places, names)) in enumerate(cells.categories.items(), at):
            categories = self.categories_[column] or []
            known = {category: at + number for number, category in enumerate(categories)}
            ones[:, place] = np.array([known.get(name, -1) for name in names])[places]
            at += len(categories)
        return scaled, ones, at


@dataclass(frozen=True, eq=False)
class Cells:
    """What a table holds: numbers (NaN where missing), and of the other columns places in names (see `_categories`)."""

    n_columns: int
    numbers: NDArray[np.float64]
    missing: NDArray[np.bool_]
    categories: dict[int, tuple[NDArray[Any], list[str]]]

    @classmethod
    def of(cls, X: Any, categorical: list[int]) -> Cells:
        """The cells of X, of which these columns hold no numbers."""
        if not is_frame(X) and not isinstance(X, TableBatch):
            numbers = np.asarray(X)
        else:
            others = set(categorical)
            at = [column for column in range(X.shape[1]) if column not in others]
            if isinstance(X, TableBatch):
                numbers = X.numbers(at)
            else:
                numbers = np.asarray(X.iloc[:, at].to_numpy(dtype=np.float64, na_value=np.nan))
        categories = {column: _categories(X, column) for column in categorical}
        return cls(X.shape[1], numbers, np.isnan(numbers), categories)


def _held(places: NDArray[Any], n_names: int) -> list[int]:
    """The different places; -1, which stands for the last name, among them."""
    return (np.flatnonzero(np.bincount(np.add(places, 1, dtype=np.int64), minlength=n_names)) - 1).tolist()


def holds_numbers(X: Any, at: int) -> bool:
    """Whether a column of a frame or of a batch of columns is one of numbers."""
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


def is_plain_codes(y: Any) -> bool:
    """Whether labels are what base classifiers are fed: whole numbers in a plain row, and nothing to check."""
    return type(y) is np.ndarray and y.ndim == 1 and y.dtype == np.int64

"""What every ensemble here shares: reading training and test samples, and the learner of its base classifiers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse
from sklearn.base import BaseEstimator, ClassifierMixin, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import validate_data

from bezoar.display.text import shown
from bezoar.labels import Cell, read_labels
from bezoar.learners.describe import describe
from bezoar.learners.table import TableClassifier
from bezoar.premises import Premise, PremiseWarning
from bezoar.samples import Samples, TableSamples, is_frame
from bezoar.split import Split


class TrainingData(NamedTuple):
    """Training samples in canonical form, with the code and the cell of each label."""

    learner: Any
    samples: Samples
    codes: NDArray[np.int64]
    cells: list[Cell]


class EnsembleClassifier(ClassifierMixin, BaseEstimator):
    """A scikit-learn classifier made of base classifiers, each trained on a subset of its own.

    Subclasses have the parameters ``estimator`` and ``classes`` and set ``subset_sizes_`` and ``n_dropped_``.
    """

    estimator: Any
    classes: Sequence[Any] | None
    subset_sizes_: NDArray[np.int64]
    n_dropped_: int

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self._learner()).input_tags.sparse
        tags.input_tags.allow_nan = accepts_nan(self._learner())
        return tags

    def _repr_html_inner(self) -> str:
        """scikit-learn's diagram, and beneath it what is certified; for notebooks."""
        from bezoar.report.notebook import model_html

        return str(super()._repr_html_inner()) + model_html(self)

    def _repr_mimebundle_(self, **more: Any) -> dict[str, str]:
        from bezoar.report.notebook import model_html

        bundle: dict[str, str] = super()._repr_mimebundle_(**more)
        return {kind: text + model_html(self) if kind == "text/html" else text for kind, text in bundle.items()}

    def read_training(self, X: Any, y: Any, split: Split) -> TrainingData:
        """Training samples and labels, checked; sets ``classes_``, the kind of the samples and scikit-learn's own."""
        learner = self._learner()
        name = type(self).__name__
        if not is_classifier(learner):
            raise ValueError(f"The 'estimator' parameter of {name} must be a classifier. Got {learner!r} instead.")
        if y is None:
            raise ValueError(f"{name} requires y to be passed, but the target y is None.")
        samples = split.samples(X, allow_nan=accepts_nan(learner))
        validate_data(self, _outline(X, samples), skip_check_array=True)
        self.classes_, codes, cells = read_labels(y, self.classes)
        if len(codes) != len(samples):
            raise ValueError(f"There are {len(samples)} samples but {len(codes)} labels; give one label per sample.")
        self.kind_of_samples_ = samples.kind
        return TrainingData(learner, samples, codes, cells)

    def read_test(self, X: Any, split: Split) -> Samples:
        """Test samples in canonical form, of the same kind and width as the training samples."""
        kind, given = self.kind_of_samples_, X
        if kind == "tables" and not is_frame(X):
            X = self._as_frame(X)
        elif kind == "numbers" and (is_frame(X) or issparse(X)):
            X = np.asarray(X.toarray() if issparse(X) else X)
        elif kind == "sparse rows" and not issparse(X):
            X = csr_matrix(np.asarray(X))
        samples = split.samples(X, allow_nan=accepts_nan(self._learner()))
        if samples.kind != kind:
            raise ValueError(f"The model was fitted on {kind}, but X holds {samples.kind}.")
        validate_data(self, _outline(given, samples), reset=False, skip_check_array=True)
        return samples

    def shared_premises(self, learner: Any, samples: Samples, split: Split) -> list[Premise]:
        """The premises that every ensemble has: learner, classes and the form of the samples."""
        classes = f"{len(self.classes_)} labels, {', '.join(map(str, self.classes_[:12]))}"
        premises = [
            Premise("learner", describe(learner), True),
            Premise("classes", classes + (", …" if len(self.classes_) > 12 else ""), self.classes is not None),
            Premise("number of features", str(samples.n_features), split.n_features is not None),
        ]
        if isinstance(samples, TableSamples):
            categorical = [str(column.name) for column in samples.columns if column.categorical]
            premises.append(Premise("categorical columns", ", ".join(categorical) or "none", False))
        return premises

    def report_dropped(self) -> None:
        """Warn of training samples whose label is none of the classes."""
        if self.n_dropped_:
            warn(f"{self.n_dropped_} training samples have a label that is not one of the classes and were left out.")

    def report_failures(self, failures: Sequence[str], n_trained: int) -> None:
        """Warn of base classifiers whose learner raised; raise if none of them could be trained."""
        said = list(failures)
        if said and not n_trained:
            raise ValueError(
                f"The base classifier raised on every one of the {len(said)} subsets that hold two classes or more; "
                f"the first said: {said[0]}"
            )
        if said:
            warn(
                f"{len(said)} of {len(self.subset_sizes_)} base classifiers raised on their subset and say its "
                f"most frequent class instead; the first said: {said[0]}"
            )

    def _learner(self) -> Any:
        return TableClassifier() if self.estimator is None else self.estimator

    def _as_frame(self, X: Any) -> Any:
        import pandas as pd

        cells = np.empty((0,)) if issparse(X) else np.asarray(X, dtype=object)
        if cells.ndim != 2:
            raise ValueError(
                f"The model was fitted on a DataFrame; X must be one, or rows of cells. Got {type(X).__name__}."
            )
        names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
        if cells.shape[1] != len(names):
            raise ValueError(
                f"X has {cells.shape[1]} features, but the model is expecting {len(names)} features as input."
            )
        return pd.DataFrame(cells, columns=list(names))


def warn(text: str) -> None:
    """Tell the user of a fitted model what a reader of its certificates must know."""
    warnings.warn(shown(text), PremiseWarning, stacklevel=4)


def _outline(X: Any, samples: Samples) -> Any:
    """What scikit-learn checks names and numbers of features on: the frame, or an array of that width."""
    return X if is_frame(X) else np.broadcast_to(0.0, (len(samples), samples.n_features))


def accepts_nan(estimator: Any) -> bool:
    """Whether a classifier or pipeline takes missing values; a pipeline does if its first step does."""
    if isinstance(estimator, Pipeline):
        steps = [step for _, step in estimator.steps if step is not None and step != "passthrough"]
        return accepts_nan(steps[0]) if steps else False
    return isinstance(estimator, ColumnTransformer) or bool(get_tags(estimator).input_tags.allow_nan)

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

from poisonproof.display.text import shown
from poisonproof.errors import PoisonproofError
from poisonproof.estimators.surroundings import NOTHING_BEFORE, seen_around
from poisonproof.learners.arrived import PREMISE as ARRIVED
from poisonproof.learners.arrived import arrived_parts, refuse_arrived, words
from poisonproof.learners.describe import describe
from poisonproof.learners.table import TableClassifier
from poisonproof.partition.split import Split
from poisonproof.premises import Premise, PremiseWarning
from poisonproof.samples.frames import as_frame
from poisonproof.samples.kinds import Samples, TableSamples, is_frame
from poisonproof.samples.labels import Cell, read_labels
from poisonproof.training.pooled import PooledMembers


class TrainingData(NamedTuple):
    """Training samples in canonical form, with the code and the cell of each label; -1 for those to leave out."""

    learner: Any
    samples: Samples
    codes: NDArray[np.int64]
    cells: list[Cell]


class CertifiedClassifier(ClassifierMixin, BaseEstimator):
    """A scikit-learn classifier whose predictions come with certificates: what all of them share.

    Subclasses have the parameter ``classes`` and set ``classes_``, ``kind_of_samples_`` and ``premises_``.
    """

    classes: Sequence[Any] | None
    kind_of_samples_: str
    n_dropped_: int
    premises_: tuple[Premise, ...]
    _oddities: list[str]

    def _repr_html_inner(self) -> str:
        """scikit-learn's diagram, and beneath it what is certified; for notebooks."""
        from poisonproof.display.notebook import model_html

        return str(super()._repr_html_inner()) + model_html(self)

    def _repr_mimebundle_(self, **more: Any) -> dict[str, str]:
        from poisonproof.display.notebook import model_html

        bundle: dict[str, str] = super()._repr_mimebundle_(**more)
        return {kind: text + model_html(self) if kind == "text/html" else text for kind, text in bundle.items()}

    def read_test(self, X: Any, split: Split) -> Samples:
        """Test samples in canonical form, of the same kind and width as the training samples."""
        X = as_frame(X)
        kind, given = self.kind_of_samples_, X
        if kind == "tables" and not is_frame(X):
            X = self._as_frame(X)
        elif kind == "numbers" and (is_frame(X) or issparse(X)):
            X = np.asarray(X.toarray() if issparse(X) else X)
        elif kind == "sparse rows" and not issparse(X):
            X = csr_matrix(np.asarray(X))
        samples = split.samples(X)
        if samples.kind != kind:
            raise PoisonproofError(f"The model was fitted on {kind}, but X holds {samples.kind}.")
        validate_data(self, outline(given, samples), reset=False, skip_check_array=True)
        for oddity in samples.oddities:
            warn(f"{oddity}, in the samples to be answered.")
        return samples

    def report_dropped(self) -> None:
        """Warn of training samples that were left out, and of values that count as missing."""
        for oddity in self._oddities:
            warn(f"{oddity}.")
        del self._oddities

    def _as_frame(self, X: Any) -> Any:
        import pandas as pd

        cells = np.empty((0,)) if issparse(X) else np.asarray(X, dtype=object)
        if cells.ndim != 2:
            raise PoisonproofError(
                f"The model was fitted on a DataFrame; X must be one, or rows of cells. Got {type(X).__name__}."
            )
        names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
        if cells.shape[1] != len(names):
            raise PoisonproofError(
                f"X has {cells.shape[1]} features, but the model is expecting {len(names)} features as input."
            )
        return pd.DataFrame(cells, columns=list(names))

    def declared_classes(self) -> Sequence[Any] | None:
        """The class list, if it is declared."""
        return self.classes

    def data_premises(self, samples: Samples, split: Split) -> list[Premise]:
        """Classes, form of the samples, and what was fitted before."""
        classes = f"{len(self.classes_)} labels, {', '.join(map(str, self.classes_[:12]))}"
        declared = split.n_features is not None or _by_schema(split)
        return [
            Premise(
                "classes", classes + (", …" if len(self.classes_) > 12 else ""), self.declared_classes() is not None
            ),
            Premise("number of features", str(samples.n_features), declared),
            NOTHING_BEFORE,
        ]


class EnsembleClassifier(CertifiedClassifier):
    """A scikit-learn classifier made of base classifiers, each trained on a subset of its own.

    Subclasses have the parameters ``estimator``, ``classes`` and ``trusted_state`` and set ``subset_sizes_``,
    ``n_dropped_`` and ``premises_``.
    """

    estimator: Any
    trusted_state: bool
    subset_sizes_: NDArray[np.int64]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self._learner()).input_tags.sparse
        tags.input_tags.string = True  # texts, tables, and odd cells of arrays, which are missing in their own row
        tags.input_tags.allow_nan = True  # where the learner takes no missing values, such samples are left out
        return tags

    def read_training(self, X: Any, y: Any, split: Split, groups: Any = None) -> TrainingData:
        """Training samples and labels, checked; sets ``classes_``, the kind of the samples and scikit-learn's own.

        A sample without a known label, without a contributor where the split asks for one, or with a missing value
        where the learner takes none is left out, by what it holds itself: to refuse it would let one row stop training.
        """
        learner = self._learner()
        name = type(self).__name__
        if not is_classifier(learner):
            raise PoisonproofError(
                f"The 'estimator' parameter of {name} must be a classifier. Got {learner!r} instead."
            )
        if y is None:
            raise PoisonproofError(f"{name} requires y to be passed, but the target y is None.")
        refuse_arrived(learner, self.trusted_state)
        X = as_frame(X)
        samples = split.samples(X)
        validate_data(self, outline(X, samples), skip_check_array=True)
        self.classes_, codes, cells = read_labels(y, self.classes)
        if len(codes) != len(samples):
            raise PoisonproofError(
                f"There are {len(samples)} samples but {len(codes)} labels; give one label per sample."
            )
        self.kind_of_samples_ = samples.kind
        return TrainingData(learner, samples, self._leave_out(codes, learner, samples, split, groups), cells)

    def _leave_out(
        self, codes: NDArray[np.int64], learner: Any, samples: Samples, split: Split, groups: Any
    ) -> NDArray[np.int64]:
        """The codes with -1 for samples that cannot be trained on; what is to be said of them is kept for later."""
        complete = np.ones(len(samples), np.bool_) if accepts_nan(learner) else samples.complete()
        if not complete.any():
            raise PoisonproofError(
                f"Input X contains NaN or infinity in every sample, and {type(learner).__name__} takes no missing "
                "values; put an imputer before it, in a pipeline."
            )
        named = split.named(len(samples), groups)
        if len(named) != len(samples):
            raise PoisonproofError(f"There are {len(samples)} samples but {len(named)} groups; give one per sample.")
        faults = {
            "have a label that is not one of the classes": codes < 0,
            "have no contributor": ~named,
            f"have missing values, which {type(learner).__name__} does not take,": ~complete,
        }
        self._oddities = list(samples.oddities) + [
            f"{int(rows.sum())} training samples {fault} and were left out"
            for fault, rows in faults.items()
            if rows.any()
        ]
        return np.where(named & complete, codes, -1)

    def shared_premises(self, learner: Any, samples: Samples, split: Split) -> list[Premise]:
        """The premises that every ensemble has: learner, classes, form of the samples, what was fitted before."""
        premises = [Premise("learner", describe(learner), True), *self.data_premises(samples, split)]
        if parts := arrived_parts(learner):
            premises.append(Premise(ARRIVED, words(parts), True))
        return premises + table_premises(samples, split)

    def see_surroundings(self) -> None:
        """State in the premises what is seen around this fit, and warn of steps that were fitted before the split."""
        around = seen_around(self)
        self.premises_ = around.restated(self.premises_)
        if around.fitted:
            warn(
                f"In the pipeline, {around.words}, before the split; one poisoned sample can reach every base "
                "classifier that way, and then no radius holds; put it inside the estimator (see check_pipeline)."
            )

    def report_members(self, members: Any) -> None:
        """Warn of base classifiers that could not be trained, or not as asked."""
        if isinstance(members, PooledMembers):
            if members.raised:
                warn(members.words_of_raised)
            return
        self.report_failures(
            [member.failure for member in members if member.failure],
            sum(member.model is not None for member in members),
        )

    def report_failures(self, failures: Sequence[str], n_trained: int) -> None:
        """Warn of base classifiers whose learner raised; raise if none of them could be trained."""
        said = list(failures)
        if said and not n_trained:
            raise PoisonproofError(
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


def table_premises(samples: Samples, split: Split) -> list[Premise]:
    """How the columns of a table were read; nothing for other samples."""
    if not isinstance(samples, TableSamples):
        return []
    categorical = [str(column.name) for column in samples.columns if column.categorical]
    columns = Premise("categorical columns", ", ".join(categorical) or "none", _by_schema(split))
    return [columns, _schema_premise(samples, split)]


def _by_schema(split: Split) -> bool:
    return split.schema is not None and not split.schema.guessed


def _schema_premise(samples: TableSamples, split: Split) -> Premise:
    """By which schema the cells were read, or that it was for somebody else to say."""
    if split.schema is not None:
        return Premise("schema", f"{split.schema}; cells as they stand in the table", not split.schema.guessed)
    doubtful = [str(column.name) for column in samples.columns if column.texts_like_numbers()]
    looks = f"; texts that look like numbers in {', '.join(doubtful)}" if doubtful else ""
    return Premise("schema", f"dtypes were decided by whoever read this table{looks}", False)


def warn(text: str) -> None:
    """Tell the user of a fitted model what a reader of its certificates must know."""
    warnings.warn(shown(text), PremiseWarning, stacklevel=4)


def outline(X: Any, samples: Samples) -> Any:
    """What scikit-learn checks names and numbers of features on: the frame, or an array of that width."""
    return X if is_frame(X) else np.broadcast_to(0.0, (len(samples), samples.n_features))


def accepts_nan(estimator: Any) -> bool:
    """Whether a classifier or pipeline takes missing values; a pipeline does if its first step does."""
    if isinstance(estimator, Pipeline):
        steps = [step for _, step in estimator.steps if step is not None and step != "passthrough"]
        return accepts_nan(steps[0]) if steps else False
    return isinstance(estimator, ColumnTransformer) or bool(get_tags(estimator).input_tags.allow_nan)

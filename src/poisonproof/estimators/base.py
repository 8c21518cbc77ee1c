"""What every ensemble here shares: reading training and test samples, and the learner of its base classifiers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse
from sklearn.base import BaseEstimator, ClassifierMixin, is_classifier
from sklearn.utils import get_tags
from sklearn.utils.validation import validate_data

from poisonproof import registry
from poisonproof.core.split import Split
from poisonproof.data.store import PartitionStore
from poisonproof.display import shown
from poisonproof.errors import PoisonproofError
from poisonproof.estimators.surroundings import NOTHING_BEFORE, seen_around
from poisonproof.learners.inspection import FITTED as ARRIVED
from poisonproof.learners.inspection import describe, fitted_parts, for_samples, public_map_of, refuse_fitted, words
from poisonproof.learners.presets import HEAD, preset
from poisonproof.learners.table import TableClassifier
from poisonproof.premises import Premise, PremiseWarning, declared_if
from poisonproof.samples.columns import Column
from poisonproof.samples.frames import as_frame, is_frame
from poisonproof.samples.kinds import Samples, TableSamples, TextSamples
from poisonproof.samples.labels import (
    LONGEST_LABEL,
    Cell,
    id_cells,
    label_cells,
    one_by_one,
    places_of,
    read_labels,
    typed_premises,
)
from poisonproof.samples.schema import WORDS_OF_A_TEXT
from poisonproof.system.machine import is_a

ROWS_TO_LOOK_AT = 100


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Training samples in canonical form, with the code and the cell of each label; -1 for those to leave out.

    ``oddities`` are sentences about what was left out, counts as missing, or is a text that nobody reads as one;
    ``typed`` are premises about labels and contributor ids.
    """

    learner: Any
    samples: Samples
    codes: NDArray[np.int64]
    cells: list[Cell]
    classes: NDArray[Any]
    oddities: tuple[str, ...]
    n_features: int
    feature_names: NDArray[Any] | None
    typed: tuple[Premise, ...] = ()


class CertifiedClassifier(ClassifierMixin, BaseEstimator):
    """A scikit-learn classifier whose predictions come with certificates: what all of them share.

    Subclasses have the parameter ``classes`` and set ``classes_``, ``kind_of_samples_`` and ``premises_``.
    """

    classes: Sequence[Any] | None
    classes_: NDArray[Any]
    kind_of_samples_: str
    n_dropped_: int
    premises_: tuple[Premise, ...]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of samples whose prediction is the given label, by value: 1, 1.0 and "1" are one label."""
        cells = label_cells(self.classes_.tolist())
        answers, truth = (places_of(label_cells(one_by_one(labels)), cells) for labels in (self.predict(X), y))
        return float(np.average(answers == truth, weights=sample_weight))

    def _repr_html_inner(self) -> str:
        """scikit-learn's diagram, and beneath it what is certified; for notebooks."""
        from poisonproof.display import model_html

        return str(super()._repr_html_inner()) + model_html(self)

    def _repr_mimebundle_(self, **more: Any) -> dict[str, str]:
        from poisonproof.display import model_html

        bundle: dict[str, str] = super()._repr_mimebundle_(**more)
        return {kind: text + model_html(self) if kind == "text/html" else text for kind, text in bundle.items()}

    def _set_read(self, data: TrainingData) -> None:
        """Keep what scikit-learn and later samples ask for."""
        self.classes_, self.kind_of_samples_, self.n_features_in_ = data.classes, data.samples.kind, data.n_features
        if data.feature_names is not None:
            self.feature_names_in_ = data.feature_names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _read_test(self, X: Any, split: Split) -> Samples:
        """Test samples in canonical form, of the same kind and width as the training samples."""
        X = as_frame(X)
        kind, given = self.kind_of_samples_, X
        if isinstance(X, Samples):
            pass  # in canonical form already
        elif kind == "tables" and not is_frame(X):
            X = self._as_frame(X)
        elif kind == "numbers" and (is_frame(X) or issparse(X)):
            X = np.asarray(X.toarray() if issparse(X) else X)
        elif kind == "sparse rows" and not issparse(X):
            X = csr_matrix(np.asarray(X))
        samples = split.samples(X)
        if samples.kind != kind:
            raise PoisonproofError(f"The model was fitted on {kind}, but X holds {samples.kind}.")
        names = getattr(self, "feature_names_in_", None)
        if names is None or not is_frame(given) or given.columns.tolist() != names.tolist():  # else nothing is wrong
            validate_data(self, outline(given, samples), reset=False, skip_check_array=True)
        for oddity in samples.oddities:
            warn(f"{oddity}, in the samples to be answered.")
        return samples

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

    def _see_surroundings(self) -> None:
        """State in the premises what is seen around this fit, and warn of steps that were fitted before the split."""
        around = seen_around(self)
        self.premises_ = around.restated(self.premises_)
        if around.fitted:
            warn(
                f"In the pipeline, {around.words}, before the split; one poisoned sample can reach every base "
                "classifier that way, and then no radius holds; put it inside the estimator (see check_pipeline)."
            )

    def _learner(self) -> Any:
        return learner_of(self)


def learner_of(model: Any, samples: Samples | None = None) -> Any:
    """The learner of an ensemble: the one given, or the default for samples of this kind, as on the command line.

    Behind an encoder, if there is one.
    """
    encoder = getattr(model, "encoder", None)
    if encoder is not None:
        return registry.in_front(encoder, preset(HEAD) if model.estimator is None else model.estimator)
    if model.estimator is not None:
        return model.estimator
    if isinstance(samples, TextSamples):
        from poisonproof.learners.auto import AutoClassifier

        return AutoClassifier()
    return TableClassifier()


def read_training(model: EnsembleClassifier, X: Any, y: Any, split: Split, groups: Any = None) -> TrainingData:
    """Training samples and labels, checked by the parameters of a model, which stays as it is.

    A sample without a known label, without a contributor where the split asks for one, or with a missing value
    where the learner takes none is left out, by what it holds itself: to refuse it would let one row stop training.
    """
    _checked_learner(model)
    if y is None:
        raise PoisonproofError(f"{type(model).__name__} requires y to be passed, but the target y is None.")
    X = as_frame(X)
    samples = split.samples(X)
    learner = for_samples(learner_of(model, samples), samples)
    width = BaseEstimator()  # takes down what scikit-learn finds
    validate_data(width, outline(X, samples), skip_check_array=True)
    ids = id_cells(groups if split.kind == "group" else None)
    classes, codes, cells = read_labels(y, model.classes, ids)
    if len(codes) != len(samples):
        raise PoisonproofError(f"There are {len(samples)} samples but {len(codes)} labels; give one label per sample.")
    complete = np.ones(len(samples), np.bool_) if accepts_nan(learner) else samples.complete()
    if not complete.any():
        raise PoisonproofError(
            f"Input X contains NaN or infinity in every sample, and {type(learner).__name__} takes no missing "
            "values; put an imputer before it, in a pipeline."
        )
    named = np.array([cell is not None for cell in (codes if ids is None else ids)], np.bool_)
    faults = {
        **label_faults(codes, cells),
        "have no contributor": ~named,
        f"have missing values, which {type(learner).__name__} does not take,": ~complete,
    }
    left_out = (words for fault, rows in faults.items() if (words := left_out_words(fault, rows)))
    return TrainingData(
        learner,
        samples,
        np.where(named & complete, codes, -1),
        cells,
        classes,
        (*samples.oddities, *left_out, *_unread_texts(model, samples)),
        int(vars(width)["n_features_in_"]),
        getattr(width, "feature_names_in_", None),
        typed_premises(y, groups),
    )


def left_out_words(fault: str, rows: NDArray[np.bool_]) -> str:
    """How many training samples were left out for this reason, and which was the first; nothing if none was."""
    count = int(rows.sum())
    return f"{count} training samples {fault} and were left out; the first is row {int(rows.argmax())}" if count else ""


def label_faults(codes: NDArray[np.int64], cells: Sequence[Cell]) -> dict[str, NDArray[np.bool_]]:
    """Which samples are left out for their label, by what is the matter with it."""
    labelled = np.array([cell is not None for cell in cells], np.bool_)
    return {
        f"have no label (it is missing, NaN, infinite or of more than {LONGEST_LABEL} characters)": ~labelled,
        "have a label that is not one of the classes": (codes < 0) & labelled,
    }


def _unread_texts(model: EnsembleClassifier, samples: Samples) -> list[str]:
    """A sentence where the default learner takes whole texts for categories.

    A list of texts says what it is; a column of a table does not, and to choose the learner by its cells would let
    the data choose. So this is said, and nothing else follows from it.
    """
    if model.estimator is not None or getattr(model, "encoder", None) is not None:
        return []
    columns = samples.columns if isinstance(samples, TableSamples) else ()
    texts = [
        str(column.name)
        for column in columns
        if column.codes is not None and not column.categorical and _is_text(column)
    ]
    if not texts:
        return []
    remedy = f"give X[{texts[0]!r}] alone, or" if len(columns) == 1 else "give"
    return [
        f"texts in {', '.join(map(repr, texts))} are taken for categories, each text for one; "
        f"{remedy} estimator=TextClassifier({texts!r}), to learn from their words"
    ]


def _is_text(column: Column) -> bool:
    """Whether the first cells have as many words on average as the command line asks of a text."""
    cells = [column.cell(row) for row in range(min(len(column), ROWS_TO_LOOK_AT))]
    n_words = [len(cell.split()) for cell in cells if isinstance(cell, str)]
    return bool(n_words) and sum(n_words) >= WORDS_OF_A_TEXT * len(n_words)


def read_stored(model: EnsembleClassifier, store: PartitionStore, like: Samples) -> TrainingData:
    """The same of samples on disk, where those to be left out are not among them; ``like`` are others of their form."""
    learner, (n_features, names_of_features) = _checked_learner(model), _features_of(like)
    if (
        encoder := public_map_of(learner)
    ) is not None and encoder.needs_width:  # its only reason to read the store here
        learner = for_samples(learner, store.samples)
    classes, codes, cells = read_labels(store.record["labels"], model.classes, known=store.record["classes"])
    faults = {
        "have a label that is not one of the classes": int(np.array(store.record["counts"])[codes < 0].sum()),
        f"have missing values, which {type(learner).__name__} does not take,": store.record["n_incomplete"],
    }
    return TrainingData(
        learner,
        store.samples,
        np.zeros(0, np.int64),
        cells,
        classes,
        tuple(f"{count} training samples {fault} and were left out" for fault, count in faults.items() if count),
        n_features,
        names_of_features,
    )


def _features_of(samples: Samples) -> tuple[int, NDArray[Any] | None]:
    """How many features samples from a file have, and their names, as scikit-learn would note them."""
    if isinstance(samples, TableSamples) and all(isinstance(column.name, str) for column in samples.columns):
        return samples.n_features, np.array([column.name for column in samples.columns], object)
    width = BaseEstimator()
    validate_data(width, outline(samples, samples), skip_check_array=True)
    return int(vars(width)["n_features_in_"]), getattr(width, "feature_names_in_", None)


def _checked_learner(model: EnsembleClassifier) -> Any:
    learner = learner_of(model)
    if not is_classifier(learner):
        raise PoisonproofError(
            f"The 'estimator' parameter of {type(model).__name__} must be a classifier. Got {learner!r} instead."
        )
    refuse_fitted(learner, model.trusted_state)
    return learner


def shared_premises(model: EnsembleClassifier, data: TrainingData, split: Split) -> list[Premise]:
    """The premises that every ensemble has: learner, classes, form of the samples, what was fitted before."""
    given = model.estimator is not None or getattr(model, "encoder", None) is not None
    premises = [
        Premise("learner", describe(data.learner), declared=declared_if(given)),
        *data_premises(data.classes, model.classes is not None, data.samples, split),
    ]
    if (encoder := public_map_of(data.learner)) is not None:
        premises[1:1] = encoder.premises
    if parts := fitted_parts(data.learner):
        premises.append(Premise(ARRIVED, words(parts), declared=True))
    return [*premises, *table_premises(data.samples, split), *data.typed]


def data_premises(classes: NDArray[Any], declared: bool, samples: Samples, split: Split) -> list[Premise]:
    """Classes, form of the samples, and what was fitted before; ``declared`` says whether the class list is."""
    return [
        Premise("classes", classes.tolist(), declared=declared),
        Premise("number-of-features", samples.n_features, declared=split.n_features is not None or _by_schema(split)),
        NOTHING_BEFORE,
    ]


def table_premises(samples: Samples, split: Split) -> list[Premise]:
    """How the columns of a table were read; nothing for other samples."""
    if not isinstance(samples, TableSamples):
        return []
    categorical = [str(column.name) for column in samples.columns if column.categorical]
    columns = Premise("categorical-columns", ", ".join(categorical) or "none", declared=_by_schema(split))
    return [columns, _schema_premise(samples, split)]


def _by_schema(split: Split) -> bool:
    return split.schema is not None and not split.schema.guessed


def _schema_premise(samples: TableSamples, split: Split) -> Premise:
    """By which schema the cells were read, or that it was for somebody else to say."""
    if split.schema is not None:
        return Premise("schema", f"{split.schema}; cells as they stand in the table", declared=not split.schema.guessed)
    doubtful = [str(column.name) for column in samples.columns if column.texts_like_numbers()]
    looks = f"; texts that look like numbers in {', '.join(doubtful)}" if doubtful else ""
    return Premise("schema", f"dtypes were decided by whoever read this table{looks}", declared=False)


def warn(text: str) -> None:
    """Tell the user of a fitted model what a reader of its certificates must know."""
    warnings.warn(shown(text), PremiseWarning, stacklevel=4)


def outline(X: Any, samples: Samples) -> Any:
    """What scikit-learn checks names and numbers of features on: a frame of such columns, or an array as wide."""
    if isinstance(X, TableSamples):
        import pandas as pd

        return pd.DataFrame(columns=pd.Index([column.name for column in X.columns]))
    return X if is_frame(X) else np.broadcast_to(0.0, (len(samples), samples.n_features))


def accepts_nan(estimator: Any) -> bool:
    """Whether a classifier or pipeline takes missing values; a pipeline does if its first step does."""
    if is_a(estimator, "sklearn.pipeline", "Pipeline"):
        steps = [step for _, step in estimator.steps if step is not None and step != "passthrough"]
        return accepts_nan(steps[0]) if steps else False
    return is_a(estimator, "sklearn.compose", "ColumnTransformer") or bool(get_tags(estimator).input_tags.allow_nan)

"""Training data read, checked, split and spread: all that an ensemble is before its base classifiers are trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import get_tags
from sklearn.utils.validation import validate_data

from poisonproof.core.split import Split
from poisonproof.core.spread import Spread, resolve_spread
from poisonproof.core.subsets import Subsets, subset_digests
from poisonproof.core.votes import Votes
from poisonproof.errors import PoisonproofError, WrongTypeError
from poisonproof.estimators.base import NOTHING_BEFORE, EnsembleClassifier, TrainingData, learner_of, outline, warn
from poisonproof.learners.inspection import (
    FITTED,
    describe,
    fitted_parts,
    for_samples,
    public_map_of,
    refuse_fitted,
    words,
)
from poisonproof.premises import Premise, declared_if, restated
from poisonproof.samples.columns import Column
from poisonproof.samples.frames import as_frame
from poisonproof.samples.kinds import Samples, TableSamples, TrainingSet
from poisonproof.samples.labels import LONGEST_LABEL, Cell, id_cells, read_labels, typed_premises
from poisonproof.samples.schema import WORDS_OF_A_TEXT
from poisonproof.system.machine import is_a
from poisonproof.training.engine import ArraySource

if TYPE_CHECKING:  # arrays are trained on without the code that reads files
    from poisonproof.data.dataset import Dataset
    from poisonproof.data.out_of_core import PartitionStore, StoredSource

DEFAULT_K = 50
DEFAULT_D = 16
DEFAULTS = ((DEFAULT_K, DEFAULT_D), (20, 1))  # of the estimator, and of the command line
ROWS_TO_LOOK_AT = 100


@dataclass(frozen=True, eq=False)
class Prepared:
    """An ensemble whose base classifiers are still to be trained.

    Attributes
    ----------
    source : ArraySource, or StoredSource of samples on disk
        Where base classifiers are trained from.
    subsets : Subsets, or that StoredSource
        Which partition each sample is in, and how many each holds.
    data : TrainingData
        As it was read, with the samples that were left out.
    spread, split, digests, premises, n_dropped
        What the attributes of a fitted classifier with an underscore are.
    classes_inferred : bool
        Whether the classes were read off the data.
    """

    source: ArraySource | StoredSource
    subsets: Subsets | StoredSource
    data: TrainingData
    spread: Spread
    split: Split
    digests: NDArray[np.uint8]
    premises: tuple[Premise, ...]
    n_dropped: int
    classes_inferred: bool

    @property
    def learner(self) -> Any:
        """The learner of the base classifiers: the one given, or the default for samples of this kind."""
        return self.data.learner

    @property
    def classes(self) -> NDArray[Any]:
        """The labels, in increasing order."""
        return self.data.classes

    @property
    def n_train(self) -> int:
        """How many samples base classifiers are fed."""
        return int(self.subsets.partition_sizes.sum())

    def whole(self) -> TrainingSet:
        """All training samples in memory, with the codes of their labels, and their rows in canonical order."""
        if not isinstance(self.subsets, Subsets):
            return self.subsets.whole()
        assert isinstance(self.source, ArraySource)
        return TrainingSet(self.source.samples, self.source.codes, np.argsort(self.subsets.rank))

    def votes(self, answers: NDArray[Any]) -> Votes:
        """A vote matrix, or rankings, of this ensemble with all that a certificate needs to know about it."""
        return votes_of(answers, self.spread, self.split, self.classes, self.premises, inferred=self.classes_inferred)


def prepare(
    model: Any, X: Any, y: Any, groups: Any = None, stated: Sequence[Premise] = (), usual_dtype: str = "float64"
) -> Prepared:
    """All of `FiniteAggregationClassifier.fit` but the training itself; the model is read and stays as it is.

    ``stated`` premises take the place of those of the same name; the split is a default with ``usual_dtype``.
    """
    spread, split = _spread_of(model), split_of(model)
    data = read_training(model, X, y, split, groups)
    partition = split.partitions(data.samples, spread.n_partitions, data.cells, groups)
    rows = np.flatnonzero(data.codes >= 0)
    n_dropped, codes = len(data.codes) - len(rows), data.codes[rows]
    samples = data.samples.subset(rows) if n_dropped else data.samples
    subsets = Subsets.of(samples, codes, partition[rows], spread)
    source, contents = ArraySource(samples, codes, subsets), subsets.contents(samples, codes)
    premises = restated(_premises(model, data, spread, split, usual_dtype), stated)
    return _prepared(model, data, source, subsets, spread, split, premises, contents, n_dropped)


def prepare_dataset(model: Any, dataset: Dataset) -> Prepared:
    """The same of samples that were read from files: they are in canonical form, or in partitions that stay on disk."""
    from poisonproof.data.out_of_core import StoredDataset, StoredSource

    spread, split, train = _spread_of(model), split_of(model), dataset.train
    if not isinstance(dataset, StoredDataset):
        dataset.check_schema(split.schema)
        samples = split.samples(train.samples)
        return prepare(model, samples, train.labels, train.groups, dataset.premises, dataset.dtype)
    store = dataset.stored
    if len(store) != spread.n_partitions:
        raise PoisonproofError(
            f"{store.folder} holds {len(store)} partitions, but the spread has {spread.n_partitions}; read the "
            "data anew for this spread.",
            code="partitions.other",
        )
    data, source = read_stored(model, store, dataset.test.samples), StoredSource(spread, store.samples)
    of_form = replace(data, samples=dataset.test.samples)
    premises = restated(_premises(model, of_form, spread, split, dataset.dtype), dataset.premises)
    n_dropped = int(store.record["n_read"] - store.sizes.sum())
    return _prepared(model, data, source, source, spread, split, premises, source.contents(), n_dropped)


def _prepared(
    model: Any,
    data: TrainingData,
    source: ArraySource | StoredSource,
    subsets: Subsets | StoredSource,
    spread: Spread,
    split: Split,
    premises: tuple[Premise, ...],
    contents: Sequence[bytes],
    n_dropped: int,
) -> Prepared:
    """What was read, spread over subsets; whoever reads certificates is told what must be known about it."""
    for oddity in data.oddities:
        warn(f"{oddity}.")
    if empty := int((source.sizes == 0).sum()):
        warn(
            f"{empty} of {len(source)} subsets are empty, so their base classifiers abstain; "
            "a smaller k·d would leave fewer."
        )
    digests = subset_digests(spread, contents, common_to(data.samples, data.learner, data.classes))
    return Prepared(source, subsets, data, spread, split, digests, premises, n_dropped, model.classes is None)


def _spread_of(model: Any) -> Spread:
    return resolve_spread(model.spread, model.k, model.d, unless=(DEFAULT_K, DEFAULT_D))


def common_to(samples: Samples, learner: Any, classes: NDArray[Any]) -> str:
    """What all base classifiers of an ensemble have in common: the form of their samples, learner and classes."""
    encoder = public_map_of(learner)
    width = "" if encoder is None or encoder.measured_width is None else f" of {encoder.measured_width} numbers"
    return f"{samples.layout} {describe(learner)}{width} {classes.tolist()}"


def split_of(model: Any) -> Split:
    """How a model splits its training samples."""
    split = Split.of(model.split)
    if split is None:
        raise WrongTypeError("The 'split' parameter must be a name or a poisonproof.Split. Got None instead.")
    return split


def votes_of(
    answers: NDArray[Any],
    spread: Spread,
    split: Split,
    classes: NDArray[Any],
    premises: tuple[Premise, ...],
    *,
    inferred: bool,
) -> Votes:
    """A vote matrix, or rankings, with all that a certificate needs to know about it."""
    ranked = answers.ndim == 3
    return Votes(
        np.ascontiguousarray(answers[..., 0]) if ranked else answers,
        spread,
        classes,
        split,
        classes_inferred=inferred,
        premises=premises,
        rankings=answers if ranked else None,
    )


def _premises(
    model: EnsembleClassifier, data: TrainingData, spread: Spread, split: Split, usual_dtype: str
) -> tuple[Premise, ...]:
    """What every certificate of an ensemble takes as given."""
    chosen = (split.kind, split.dtype, split.hash_labels) != ("content", usual_dtype, False)
    return (
        spread_premise(spread),
        Premise("split", split.facts, declared=declared_if(chosen)),
        *shared_premises(model, data, split),
    )


def spread_premise(spread: Spread, *, declared: bool = True, defaults: Sequence[tuple[int, int]] = DEFAULTS) -> Premise:
    """Which spread it is; pseudo-random shifts for one of these k and d are a default, unless they were chosen."""
    by_default = declared and any(spread == Spread.random(k, d) for k, d in defaults)
    return Premise("spread", spread.facts, declared=None if by_default else declared)


def read_training(model: EnsembleClassifier, X: Any, y: Any, split: Split, groups: Any = None) -> TrainingData:
    """Training samples and labels, checked by the parameters of a model, which stays as it is.

    A sample without a known label, without a contributor where the split asks for one, or with a missing value
    where the learner takes none is left out, by what it holds itself: to refuse it would let one row stop training.
    """
    _checked_learner(model)
    if y is None:
        raise PoisonproofError(
            f"{type(model).__name__} requires y to be passed, but the target y is None.", code="labels.missing"
        )
    X = as_frame(X)
    samples = split.samples(X)
    learner = for_samples(learner_of(model, samples), samples)
    width = BaseEstimator()  # takes down what scikit-learn finds
    validate_data(width, outline(X, samples), skip_check_array=True)
    ids = id_cells(groups if split.kind == "group" else None)
    classes, codes, cells = read_labels(y, model.classes, ids)
    if len(codes) != len(samples):
        raise PoisonproofError(
            f"There are {len(samples)} samples but {len(codes)} labels; give one label per sample.", code="labels.count"
        )
    complete = np.ones(len(samples), np.bool_) if accepts_nan(learner) else samples.complete()
    if not complete.any():
        raise PoisonproofError(
            f"Input X contains NaN or infinity in every sample, and {type(learner).__name__} takes no missing "
            "values; put an imputer before it, in a pipeline.",
            code="samples.not-finite",
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
            f"The 'estimator' parameter of {type(model).__name__} must be a classifier. Got {learner!r} instead.",
            code="learner.wrong-kind",
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
        premises.append(Premise(FITTED, words(parts), declared=True))
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


def accepts_nan(estimator: Any) -> bool:
    """Whether a classifier or pipeline takes missing values; a pipeline does if its first step does."""
    if is_a(estimator, "sklearn.pipeline", "Pipeline"):
        steps = [step for _, step in estimator.steps if step is not None and step != "passthrough"]
        return accepts_nan(steps[0]) if steps else False
    return is_a(estimator, "sklearn.compose", "ColumnTransformer") or bool(get_tags(estimator).input_tags.allow_nan)

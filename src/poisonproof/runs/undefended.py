"""What the same data give without a proof: the same learner on all of them at once, and a stronger one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof import registry
from poisonproof.core.split import Split
from poisonproof.data.dataset import Dataset
from poisonproof.data.out_of_core import StoredSource
from poisonproof.estimators.prepared import Prepared
from poisonproof.learners.inspection import describe, seeded, without_cache
from poisonproof.learners.presets import HEAD, preset
from poisonproof.runs.manifest import Manifest, RunSettings
from poisonproof.samples.batches import name_of
from poisonproof.samples.columns import NUMBER
from poisonproof.samples.kinds import NumberSamples, Samples, TableSamples, TextSamples
from poisonproof.samples.labels import label_cells, one_by_one, places_of
from poisonproof.samples.schema import TableSchema
from poisonproof.system.determinism import one_linear_algebra_thread, reproducible
from poisonproof.system.machine import environment
from poisonproof.training.members import fed_to

log = logging.getLogger(__name__)
MOST_NUMBERS = 20_000_000
MOST_TEXTS = 200_000
MOST_IMAGES = 5_000
MOST_CATEGORIES = 254
FOLDS = 3
TOO_LARGE = "it needs more than --max-memory"
NOT_ASKED = "none was asked for"
CHANGED = "none was trained since the training data changed; `poisonproof update RUN --undefended` does it"


@dataclass(frozen=True)
class Undefended:
    """Test accuracies without any guarantee; None where something could not be trained, or was not asked for.

    A manifest has entries of the same names.

    Attributes
    ----------
    undefended_accuracy : float or None
        Of the learner of the base classifiers, trained on all training samples.
    strong_undefended_accuracy : float or None
        Of what a practitioner would train: gradient boosting for tables, tf-idf with n-grams for texts, both where a
        table has columns of texts, the encoder head or the preset for images.
    strong_undefended : str or None
        What that is.
    no_undefended : str or None
        Why nothing was trained, in words.
    """

    undefended_accuracy: float | None = None
    strong_undefended_accuracy: float | None = None
    strong_undefended: str | None = None
    no_undefended: str | None = None

    @classmethod
    def of(cls, ensemble: Prepared, dataset: Dataset) -> Undefended:
        """Train both; what is only a comparison must not cost a finished run."""
        estimator = ensemble.learner
        same = _if_possible(
            lambda: Lesson.of_ensemble(ensemble, dataset).accuracy(seeded(estimator, 0)), "the undefended learner"
        )
        if isinstance(ensemble.source, StoredSource):  # too many for one that is strong on all of them
            return cls(same)
        lesson = Lesson.of_ensemble(ensemble, dataset)
        strong = lesson.baseline()
        if strong is not None and describe(without_cache(estimator)) == describe(strong.learner):
            return cls(same, same, None if same is None else f"{strong.words} (the same)")
        return cls(same, *_share_of(lesson, strong))

    @classmethod
    def strong_alone(cls, dataset: Dataset, split: Split, classes: NDArray[Any]) -> Undefended:
        """The strong one, where no learner of the run's own could be trained undefended."""
        samples = split.samples(dataset.train.samples)
        codes = places_of(label_cells(one_by_one(dataset.train.labels)), label_cells(classes.tolist()))
        lesson = Lesson(samples, codes, np.flatnonzero(codes >= 0), classes, dataset, split)
        return cls(None, *_share_of(lesson, lesson.baseline()))


def before(manifest: Manifest, settings: RunSettings) -> Undefended | None:
    """What is known without training: why nothing is trained, or the figures of the run before; None if nothing is.

    ``manifest`` is that of the run before; one that is complete is of this very data, and figures of other data, or
    made elsewhere, are not taken over.
    """
    complete = manifest.status == "complete"
    if not settings.undefended and not settings.update:
        return Undefended(no_undefended=NOT_ASKED)
    if not settings.undefended and not complete:
        return Undefended(no_undefended=CHANGED)
    if settings.undefended and (not complete or manifest.no_undefended or manifest.environment != environment()):
        return None
    return Undefended(**{field.name: getattr(manifest, field.name) for field in fields(Undefended)})


class Baseline(NamedTuple):
    """What a practitioner would train who fears nobody, and what it is in words.

    The learner of the base classifiers trained on all data says what the split costs; but it is chosen to do well on
    small subsets, and others do better on all the data at once. These carry no guarantee.
    """

    learner: Any
    words: str


@dataclass(frozen=True, eq=False)
class Lesson:
    """All training samples in canonical order, and the test that follows."""

    samples: Samples
    codes: NDArray[np.int64]
    rows: NDArray[np.int64]
    classes: NDArray[Any]
    dataset: Dataset
    split: Split

    @classmethod
    def of_ensemble(cls, ensemble: Prepared, dataset: Dataset) -> Lesson:
        """What the base classifiers learn from, at once."""
        return cls(*ensemble.whole(), ensemble.classes, dataset, ensemble.split)

    @property
    def form(self) -> Any:
        """What the samples look like to a learner; see `Samples.form_of`."""
        return self.samples.form_of(self.rows)

    def accuracy(self, learner: Any) -> float:
        """Test accuracy of a learner that is trained on all data at once: what the proof is paid with."""
        test, form = self.split.samples(self.dataset.test.samples), self.form
        with one_linear_algebra_thread(), reproducible(0):
            learner.fit(fed_to(learner, self.samples, self.rows, form), self.codes[self.rows])
            answers = learner.predict(fed_to(learner, test, np.arange(len(test)), form))
        truth = places_of(label_cells(one_by_one(self.dataset.test.labels)), label_cells(self.classes.tolist()))
        return float((answers == truth).mean())

    def baseline(self) -> Baseline | None:
        """A strong learner for these samples; None where we know none that ends in a few seconds to minutes."""
        samples, schema = self.samples, self.dataset.schema
        if isinstance(samples, TextSamples):
            if len(samples) > MOST_TEXTS:
                return None
            return Baseline(_of_texts(), "tf-idf of words and pieces of words, logistic regression")
        if getattr(schema, "kind", None) == "images" or np.ndim(self.dataset.train.X) > 2:
            return of_images(samples)
        if len(samples) * samples.n_features > MOST_NUMBERS:
            return None
        if isinstance(samples, TableSamples):
            texts = schema.named("text") if isinstance(schema, TableSchema) else ()
            return of_tables([column.name for column in samples.columns], self.form, texts, len(samples))
        if isinstance(samples, NumberSamples):
            return Baseline(_trees([], []), "gradient boosting")
        return None


def of_tables(names: Sequence[Any], form: Sequence[Any], texts: Sequence[str], n_samples: int) -> Baseline | None:
    """Gradient boosting on the columns of a table and on what tf-idf makes of its texts."""
    from sklearn.ensemble import StackingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    width, read = len(names), [at for at, name in enumerate(names) if name in texts]
    categories = [at - width for at, how in enumerate(form) if how != NUMBER and at not in read]
    trees = _trees(categories, [at - width for at in read])
    if not read:
        return Baseline(trees, "gradient boosting")
    if n_samples > MOST_TEXTS:
        return None
    readers = [
        (f"text {at}", make_pipeline(FunctionTransformer(_column, kw_args={"at": at}), _of_texts())) for at in read
    ]
    stacked = StackingClassifier(readers, trees, cv=FOLDS, stack_method="predict_proba", passthrough=True)
    return Baseline(stacked, "gradient boosting, tf-idf of the texts")


def of_images(samples: Samples) -> Baseline | None:
    """For colour photographs the usual encoder with its head, where it is installed; for grey ones the preset."""
    if not isinstance(samples, NumberSamples) or samples.values.ndim not in (3, 4) or len(samples) > MOST_IMAGES:
        return None
    if samples.values.ndim == 3 or samples.values.shape[-1] == 1:
        return Baseline(preset("glyphs"), "the preset glyphs")
    usual = registry.find("usual encoders", "images")()
    if usual is None:
        return None
    return Baseline(registry.in_front(registry.encoder(usual), preset(HEAD)), f"the encoder {usual}, kernel ridge")


def _trees(categories: Sequence[int], left_out: Sequence[int]) -> Any:
    """Gradient boosting as scikit-learn sets it; columns are counted from the last one."""
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder

    numbered = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan, max_categories=MOST_CATEGORIES)
    columns = make_column_transformer(
        (make_pipeline(FunctionTransformer(_names), numbered), list(categories)),
        ("drop", list(left_out)),
        remainder="passthrough",
    )
    trees = HistGradientBoostingClassifier(categorical_features=list(range(len(categories))), random_state=0)
    return make_pipeline(columns, trees)


def _of_texts() -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline, make_union

    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    pieces = TfidfVectorizer(ngram_range=(3, 5), analyzer="char_wb", sublinear_tf=True)
    return make_pipeline(make_union(words, pieces), LogisticRegression(C=30.0, max_iter=300))


def _names(cells: Any) -> Any:
    """Cells as texts that tell numbers, texts and missing apart."""
    rows = np.asarray(cells, object)
    return np.array([name_of(cell) for cell in rows.flat], object).reshape(rows.shape)


def _column(frame: Any, at: int) -> list[str]:
    """The texts of a column; a cell that is none counts as empty."""
    return [cell if isinstance(cell, str) else "" for cell in frame.iloc[:, at].tolist()]


def _share_of(lesson: Lesson, strong: Baseline | None) -> tuple[float | None, str | None]:
    if strong is None:
        return None, None
    share = _if_possible(lambda: lesson.accuracy(strong.learner), strong.words)
    return share, None if share is None else strong.words


def _if_possible(train: Callable[[], float], what: str) -> float | None:
    try:
        return train()
    except Exception as error:
        log.warning("%s could not be trained on all data (%s: %s)", what, type(error).__name__, error)
        return None

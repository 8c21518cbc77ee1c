"""What the same data give without a proof: the same learner on all of them at once, and a stronger one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.split import Split
from poisonproof.data.dataset import Dataset
from poisonproof.data.store import StoredSource
from poisonproof.estimators.prepared import Prepared
from poisonproof.learners.inspection import describe, without_cache
from poisonproof.learners.seeding import isolated, seeded
from poisonproof.runs.manifest import Manifest, RunSettings
from poisonproof.samples.kinds import Samples
from poisonproof.samples.labels import label_cells, one_by_one, places_of
from poisonproof.samples.schema import TableSchema
from poisonproof.system.determinism import one_linear_algebra_thread
from poisonproof.system.machine import environment
from poisonproof.training.member import fed_to

if TYPE_CHECKING:
    from poisonproof.learners.strong import Strong

log = logging.getLogger(__name__)
TOO_LARGE = "it needs more than --max-memory"
NOT_ASKED = "none was asked for"
CHANGED = "none was trained since the training data changed; `poisonproof update RUN --undefended` does it"


@dataclass(frozen=True)
class Undefended:
    """Test accuracies without any guarantee; None where something could not be trained, or was not asked for.

    Attributes
    ----------
    same : float or None
        The learner of the base classifiers, trained on all training samples.
    strong : float or None
        What a practitioner would train: gradient boosting for tables, tf-idf with n-grams for texts, both where a
        table has columns of texts, the encoder head or the preset for images.
    strong_words : str or None
        What that is.
    why_not : str or None
        Why nothing was trained, in words.
    """

    same: float | None = None
    strong: float | None = None
    strong_words: str | None = None
    why_not: str | None = None

    def facts(self) -> dict[str, Any]:
        """For a manifest."""
        return {
            "undefended_accuracy": self.same,
            "strong_undefended_accuracy": self.strong,
            "strong_undefended": self.strong_words,
            "no_undefended": self.why_not,
        }

    @classmethod
    def of(cls, ensemble: Prepared, dataset: Dataset) -> Undefended:
        """Train both; what is only a comparison must not cost a finished run."""
        estimator = ensemble.learner
        same = _if_possible(
            lambda: Lesson.of_ensemble(ensemble, dataset).accuracy(seeded(estimator, 0)), "the undefended learner"
        )
        if isinstance(ensemble.source, StoredSource):  # too many for one that is strong on all of them
            return cls(same)
        from poisonproof.learners.strong import strong_for

        lesson = Lesson.of_ensemble(ensemble, dataset)
        strong = strong_for(lesson.samples, images=_are_images(dataset), texts=_text_columns(dataset))
        if strong is not None and describe(without_cache(estimator)) == describe(strong.learner):
            return cls(same, same, None if same is None else f"{strong.words} (the same)")
        return cls(same, *_strong_share(lesson, strong))

    @classmethod
    def of_samples(cls, dataset: Dataset, split: Split, classes: NDArray[Any]) -> Undefended:
        """Where training samples vote nothing is trained that could be trained undefended: the strong one alone."""
        from poisonproof.learners.strong import strong_for

        samples = split.samples(dataset.train.samples)
        codes = places_of(label_cells(one_by_one(dataset.train.labels)), label_cells(classes.tolist()))
        lesson = Lesson(samples, codes, np.flatnonzero(codes >= 0), classes, dataset, split)
        strong = strong_for(samples, images=_are_images(dataset), texts=_text_columns(dataset))
        return cls(None, *_strong_share(lesson, strong))


def not_trained(manifest: Manifest, settings: RunSettings) -> Undefended:
    """What is said where no undefended model was asked for: figures of an update belong to the same data, or to none.

    ``manifest`` is that of the run before; one that is complete is of this very data.
    """
    if not settings.update:
        return Undefended(why_not=NOT_ASKED)
    return Undefended(why_not=CHANGED) if manifest.status != "complete" else _kept(manifest)


def trained_before(manifest: Manifest) -> Undefended | None:
    """The figures of a run that is complete and goes on; None where they were not asked for, or made elsewhere."""
    if manifest.status != "complete" or manifest.no_undefended or manifest.environment != environment():
        return None
    return _kept(manifest)


def _kept(manifest: Manifest) -> Undefended:
    return Undefended(
        manifest.undefended_accuracy,
        manifest.strong_undefended_accuracy,
        manifest.strong_undefended,
        manifest.no_undefended,
    )


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

    def accuracy(self, learner: Any) -> float:
        """Test accuracy of a learner that is trained on all data at once: what the proof is paid with."""
        test, form = self.split.samples(self.dataset.test.samples), self.samples.form_of(self.rows)
        with one_linear_algebra_thread(), isolated(0):
            learner.fit(fed_to(learner, self.samples, self.rows, form), self.codes[self.rows])
            answers = learner.predict(fed_to(learner, test, np.arange(len(test)), form))
        truth = places_of(label_cells(one_by_one(self.dataset.test.labels)), label_cells(self.classes.tolist()))
        return float((answers == truth).mean())


def _strong_share(lesson: Lesson, strong: Strong | None) -> tuple[float | None, str | None]:
    if strong is None:
        return None, None
    share = _if_possible(lambda: lesson.accuracy(strong.learner), strong.words)
    return share, None if share is None else strong.words


def _are_images(dataset: Dataset) -> bool:
    return getattr(dataset.schema, "kind", None) == "images" or np.ndim(dataset.train.X) > 2


def _text_columns(dataset: Dataset) -> tuple[str, ...]:
    schema = dataset.schema
    return tuple(schema.named("text")) if isinstance(schema, TableSchema) else ()


def _if_possible(train: Callable[[], float], what: str) -> float | None:
    try:
        return train()
    except Exception as error:
        log.warning("%s could not be trained on all data (%s: %s)", what, type(error).__name__, error)
        return None

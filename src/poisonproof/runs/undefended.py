"""What the same data give without a proof: the same learner on all of them at once, and a stronger one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from poisonproof.data.dataset import Dataset
from poisonproof.estimators.prepared import Prepared
from poisonproof.learners.seeding import isolated, seeded
from poisonproof.learners.strong import Strong, strong_for
from poisonproof.samples.kinds import Samples
from poisonproof.system.threads import one_linear_algebra_thread
from poisonproof.training.member import fed_to

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Undefended:
    """Test accuracies without any guarantee; None where something could not be trained, or was not asked for.

    Attributes
    ----------
    same : float or None
        The learner of the base classifiers, trained on all training samples.
    strong : float or None
        What a practitioner would train: gradient boosting for tables, tf-idf with n-grams for texts.
    strong_words : str or None
        What that is.
    """

    same: float | None = None
    strong: float | None = None
    strong_words: str | None = None

    @classmethod
    def of(cls, ensemble: Prepared, dataset: Dataset) -> Undefended:
        """Train both; what is only a comparison must not cost a finished run."""
        same = _if_possible(lambda: undefended_accuracy(ensemble, dataset), "the undefended learner")
        schema = getattr(dataset.schema, "kind", None)
        images = schema == "images" or np.ndim(dataset.x_train) > 2
        strong = _strong(ensemble, images)
        if strong is None:
            return cls(same)
        share = _if_possible(lambda: undefended_accuracy(ensemble, dataset, strong.learner), strong.words)
        return cls(same, share, None if share is None else strong.words)


def _strong(ensemble: Prepared, images: bool) -> Strong | None:
    samples = ensemble.training.samples
    return strong_for(samples, images=images) if isinstance(samples, Samples) else None  # not of rows that lie on disk


def undefended_accuracy(ensemble: Prepared, dataset: Dataset, learner: Any = None) -> float:
    """Test accuracy of the same learner, or another, trained on all data at once: what the proof is paid with."""
    test, (samples, codes, rows) = dataset.samples_for("test", ensemble.split), ensemble.whole()
    form = samples.form_of(rows)
    with one_linear_algebra_thread(), isolated(0):
        learner = seeded(ensemble.training.estimator, 0) if learner is None else learner
        learner.fit(fed_to(learner, samples, rows, form), codes[rows])
        said = learner.predict(fed_to(learner, test, np.arange(len(test)), form))
    return float((ensemble.classes[said] == dataset.y_test).mean())


def _if_possible(train: Callable[[], float], what: str) -> float | None:
    try:
        return train()
    except Exception as error:
        log.warning("%s could not be trained on all data (%s: %s)", what, type(error).__name__, error)
        return None

"""Which classes a run takes for which: a matrix where classes are few, else the most frequent mistakes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.certificate import UNSEEN, Certificate
from poisonproof.core.votes import UNSEEN_LABEL

LARGEST_MATRIX = 12  # classes that a phone can still show side by side, if it scrolls
MOST_MISTAKES = 15


@dataclass(frozen=True)
class ConfusionRow:
    """The test samples of one class: how many were predicted as each class, in the order of the columns."""

    name: str
    n: int
    counts: tuple[int, ...]
    own: int | None
    """The column of the class itself; None for labels that the training data has not shown."""


@dataclass(frozen=True)
class Mistake:
    """One class taken for another: how often, of how many, and the largest radius of such a prediction."""

    truth: str
    prediction: str
    count: int
    n: int
    firmest: int


@dataclass(frozen=True)
class Confusion:
    """Predictions by true class; of many classes only the most frequent mistakes."""

    columns: tuple[str, ...]
    rows: tuple[ConfusionRow, ...]
    mistakes: tuple[Mistake, ...]
    n_wrong: int

    @property
    def is_matrix(self) -> bool:
        """Whether there is room for all of them."""
        return bool(self.rows)

    @classmethod
    def of(cls, certificate: Certificate, truth: NDArray[np.int64]) -> Confusion:
        """From predictions and the codes of the true classes, as `class_indices` gives them."""
        names = dict(enumerate(map(str, certificate.classes.tolist()))) | {UNSEEN_LABEL: UNSEEN}
        prediction = certificate.prediction
        codes = sorted({*prediction.tolist(), *truth.tolist()} - {UNSEEN_LABEL})
        true_codes = [*codes, *([UNSEEN_LABEL] if (truth == UNSEEN_LABEL).any() else [])]
        rows: list[ConfusionRow] = []
        if len(codes) <= LARGEST_MATRIX:
            for code in true_codes:
                answers = prediction[truth == code]
                counts = tuple(int((answers == column).sum()) for column in codes)
                rows.append(ConfusionRow(names[code], len(answers), counts, None if code < 0 else codes.index(code)))
        wrong = prediction != truth
        pairs, counted = np.unique(np.column_stack([truth, prediction])[wrong], axis=0, return_counts=True)
        mistakes = []
        for at in np.argsort(-counted, kind="stable")[:MOST_MISTAKES].tolist():
            true, predicted = (int(code) for code in pairs[at])
            of_pair = (truth == true) & (prediction == predicted)
            firmest, n = int(certificate.radius[of_pair].max()), int((truth == true).sum())
            mistakes.append(Mistake(names[true], names[predicted], int(counted[at]), n, firmest))
        return cls(tuple(names[code] for code in codes), tuple(rows), tuple(mistakes), int(wrong.sum()))

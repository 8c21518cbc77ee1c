"""A base classifier that chooses its own learner, inside its own subset.

Which learner is best depends on the data. One choice for all base classifiers would be made from all samples, and who
poisons one of them could turn it: a premise. Here every base classifier chooses for itself, among a fixed short list,
by cross-validation inside its subset. The choice is a function of the subset like everything else it learns, and a
poisoned sample turns only the choices of the base classifiers that it reaches anyway.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from poisonproof.learners.table import ClassifierOfTables, TableClassifier
from poisonproof.learners.text import BayesTextClassifier, RidgeTextClassifier, TextClassifier, WordReading, is_table
from poisonproof.learners.trees import TreesClassifier
from poisonproof.samples.batches import TextBatch
from poisonproof.samples.convert import count_rows, take_rows
from poisonproof.samples.labels import classes_and_codes

FOLDS = 3
MOST_TRIED = 600  # samples that cross-validation looks at, evenly spaced in the order of the subset
FEWEST_FOR_TREES = 100  # samples; in smaller subsets logistic regression is level with trees, or ahead
MOST_CLASSES_FOR_TREES = 10  # every round of boosting grows a tree for each class
MOST_COLUMNS_FOR_TREES = 200
AHEAD = 0.02  # of balanced accuracy: less is chance in a subset of some hundred samples, and the cheaper one is taken
ROUNDS, LEAVES, MOST_TREES = 60, 8, 200


class AutoClassifier(ClassifierOfTables):
    """The learner of a fixed list that is best in class-balanced cross-validation inside the subset.

    Every class of the subset counts alike. For tables: `TableClassifier` (logistic regression) and, in subsets of
    `FEWEST_FOR_TREES` samples or more, `TreesClassifier` (boosting, with small trees), unless there are very many
    columns or classes; for sparse rows the latter is a forest. Trees are taken if they are ahead by more than `AHEAD`.
    For texts: `BayesTextClassifier`, `RidgeTextClassifier` and `TextClassifier`, ties to the first; for tables with
    columns of texts, only the last.

    Parameters
    ----------
    texts : sequence of str
        The columns of a table that hold texts.
    random_state : int, optional
        What trees are drawn by; every base classifier is given its own index.
    """

    answers_one_by_one = True  # so do all on the list; see poisonproof.samples.batches
    takes_columns = takes_texts = True  # see poisonproof.samples.batches
    only_chooses = True  # see poisonproof.training.members

    def __init__(
        self,
        texts: Sequence[str] = (),
        *,
        random_state: int | None = None,
    ) -> None:
        self.texts = texts
        self.random_state = random_state

    @property
    def readings(self) -> tuple[WordReading, ...]:
        """How the words of texts are read by those on the list."""
        learners: list[Any] = [TextClassifier(self.texts)] if self.texts else [BayesTextClassifier(), TextClassifier()]
        return tuple(reading for learner in learners for reading in learner.readings)

    def candidates(self, X: Any, n_classes: int) -> list[Any]:
        """The list for samples of this kind and number, unfitted, in the order in which ties are decided."""
        if self.texts:
            return [TextClassifier(self.texts)]
        if sp.issparse(X):
            return [TableClassifier(), TreesClassifier(random_state=self.random_state)]
        if is_table(X) or (not isinstance(X, TextBatch) and np.asarray(X).dtype.kind in "biuf"):
            wide = math.prod(np.shape(X)[1:]) > MOST_COLUMNS_FOR_TREES
            if wide or count_rows(X) < FEWEST_FOR_TREES or n_classes > MOST_CLASSES_FOR_TREES:
                return [TableClassifier()]
            rounds = min(ROUNDS, MOST_TREES // n_classes)
            return [
                TableClassifier(),
                TreesClassifier("boosting", n_trees=rounds, max_leaves=LEAVES, random_state=self.random_state),
            ]
        return [BayesTextClassifier(), RidgeTextClassifier(), TextClassifier()]

    def fit(self, X: Any, y: Any) -> Self:
        """Choose, then train what was chosen on all samples."""
        self.classes_, codes = classes_and_codes(self, y)
        candidates = self.candidates(X, len(self.classes_))
        self.scores_ = balanced_scores(candidates, X, codes) if len(candidates) > 1 else np.zeros(1)
        self.chosen_ = candidates[best_of(candidates, self.scores_)].fit(X, codes)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """What the chosen learner says."""
        check_is_fitted(self)
        return self.classes_[self.chosen_.predict(X)]

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """The scores of the chosen learner, or its shares of classes."""
        check_is_fitted(self)
        if hasattr(self.chosen_, "decision_function"):
            return np.asarray(self.chosen_.decision_function(X))
        shares = np.asarray(self.chosen_.predict_proba(X))
        return shares[:, 1] - shares[:, 0] if shares.shape[1] == 2 else shares


def best_of(candidates: Sequence[Any], scores: NDArray[np.float64]) -> int:
    """The place of the learner to take: of those that are nearly as good as the best, the first."""
    ahead = AHEAD if isinstance(candidates[0], TableClassifier) else 0.0
    return int(np.argmax(scores >= scores.max() - ahead))


def balanced_scores(candidates: Sequence[Any], X: Any, codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """The balanced accuracy of each learner in cross-validation: the mean over classes of their share that is right.

    Samples go to folds in the order in which they stand, class by class, so every fold has its part of every class. A
    learner that cannot be trained on a part is right on nothing there.
    """
    step = -(-len(codes) // MOST_TRIED)
    rows = np.arange(0, len(codes), step)
    tried = codes[rows]
    place = np.empty(len(rows), np.int64)
    for code in np.unique(tried):
        place[tried == code] = np.arange((tried == code).sum())
    scores = []
    for candidate in candidates:
        right = np.zeros(len(rows), np.bool_)
        for fold in range(FOLDS):
            asked = place % FOLDS == fold
            if not asked.any() or len(np.unique(tried[~asked])) < 2:
                continue
            try:
                model = clone(candidate).fit(take_rows(X, rows[~asked]), tried[~asked])
                right[asked] = model.predict(take_rows(X, rows[asked])) == tried[asked]
            except (ValueError, ArithmeticError, np.linalg.LinAlgError):
                continue
        scores.append(np.mean([right[tried == code].mean() for code in np.unique(tried)]))
    return np.array(scores)

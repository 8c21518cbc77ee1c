"""Trees for tables: a forest of extremely randomised trees, or gradient boosting, on columns encoded in the subset."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from poisonproof.errors import PoisonproofError
from poisonproof.learners.boosting import BoostedTrees
from poisonproof.learners.codes import classes_and_codes
from poisonproof.learners.forest import Forest
from poisonproof.learners.table import ClassifierOfTables, TableClassifier


class TreesClassifier(ClassifierOfTables):
    """Trees on numbers, categories and missing values, encoded inside the subset as `TableClassifier` does.

    Each sample walks down its trees alone, so its answer does not depend on the batch.

    Parameters
    ----------
    method : "forest" or "boosting"
        Extremely randomised trees, or gradient boosting (`BoostedTrees`), which wants subsets of some hundred samples.
    n_trees : int
        How many trees, or rounds of boosting.
    max_leaves : int
        Leaves that a tree of boosting has at most. Small trees agree more from subset to subset.
    random_state : int, optional
        What the trees of a forest are drawn by; every base classifier is given its own index. Boosting draws nothing.
    """

    answers_one_by_one = True  # see poisonproof.samples.batches
    takes_columns = True  # see poisonproof.samples.batches

    def __init__(
        self,
        method: Literal["forest", "boosting"] = "forest",
        *,
        n_trees: int = 100,
        max_leaves: int = 31,
        random_state: int | None = None,
    ) -> None:
        self.method = method
        self.n_trees = n_trees
        self.max_leaves = max_leaves
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train on numbers (n, …), sparse rows or a DataFrame."""
        if self.method not in ("forest", "boosting"):
            raise PoisonproofError(
                f"The 'method' of trees must be 'forest' or 'boosting'. Got {self.method!r} instead."
            )
        self.classes_, codes = classes_and_codes(self, y)
        self.table_ = TableClassifier()
        self.table_._learn_encoding(self.table_._checked(X, reset=True))
        self.trees_ = self._trees().fit(self._encoded(X, fitting=True), codes)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The share of each class, an array (n, classes)."""
        check_is_fitted(self)
        return np.asarray(self.trees_.predict_proba(self._encoded(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the largest share; ties go to the smaller one."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def _trees(self) -> Any:
        if self.method == "forest":
            return Forest(self.n_trees, self.random_state)
        return BoostedTrees(self.n_trees, self.max_leaves)

    def _encoded(self, X: Any, *, fitting: bool = False) -> Any:
        encoded = self.table_._encode(X if fitting and sp.issparse(X) else self.table_._checked(X, reset=False))
        return encoded.toarray() if sp.issparse(encoded) and self.method == "boosting" else encoded


def boosting() -> TreesClassifier:
    """Gradient boosting on numbers, categories and missing values; it wants subsets of some hundred samples."""
    return TreesClassifier("boosting")

"""Trees for tables: a forest of extremely randomised trees, or gradient boosting, on columns encoded in the subset."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.utils.validation import check_is_fitted

from poisonproof.errors import DamagedFileError, PoisonproofError
from poisonproof.learners.table import TableClassifier


class TreesClassifier(ClassifierMixin, BaseEstimator):
    """Trees on numbers, categories and missing values, encoded inside the subset as `TableClassifier` does.

    Each sample walks down its trees alone, so its answer does not depend on the batch.

    Parameters
    ----------
    method : "forest" or "boosting"
        Extremely randomised trees, or histogram-based gradient boosting, which wants subsets of some hundred samples.
    n_trees : int
        How many trees, or rounds of boosting.
    max_leaves : int
        Leaves that a tree of boosting has at most. Small trees agree more from subset to subset.
    random_state : int, optional
        What trees are drawn by; every base classifier is given its own index.
    """

    answers_one_by_one = True  # see poisonproof.training.asking

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Train on numbers (n, …), sparse rows or a DataFrame."""
        if self.method not in ("forest", "boosting"):
            raise PoisonproofError(
                f"The 'method' of trees must be 'forest' or 'boosting'. Got {self.method!r} instead."
            )
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise PoisonproofError(
                f"TreesClassifier needs samples of at least 2 classes; got {len(self.classes_)} class."
            )
        self.table_ = TableClassifier()
        self.table_.learn_encoding(self.table_.checked(X, reset=True))
        self.trees_ = self._trees().fit(self._encoded(X, fitting=True), codes)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The share of each class, an array (n, classes)."""
        check_is_fitted(self)
        return np.asarray(self.trees_.predict_proba(self._encoded(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the largest share; ties go to the smaller one."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def __getstate__(self) -> dict[str, Any]:
        """The state for a file: boosted trees as one plain array, so that whoever opens it can look at them first."""
        state: dict[str, Any] = dict(super().__getstate__())
        trees = state.get("trees_")
        if isinstance(trees, HistGradientBoostingClassifier):
            bare = object.__new__(type(trees))
            bare.__dict__.update(trees.__dict__, _predictors=[])
            nodes = [tree.nodes for of_round in trees._predictors for tree in of_round]
            state |= {"trees_": bare, "nodes_": np.concatenate(nodes), "sizes_": np.array([len(one) for one in nodes])}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        nodes, sizes = state.pop("nodes_", None), state.pop("sizes_", None)
        super().__setstate__(state)
        if nodes is not None:
            self.trees_._predictors = _predictors(nodes, sizes, self.trees_)

    def _trees(self) -> Any:
        if self.method == "forest":
            return ExtraTreesClassifier(self.n_trees, random_state=self.random_state, n_jobs=1)
        return HistGradientBoostingClassifier(
            max_iter=self.n_trees,
            max_leaf_nodes=self.max_leaves,
            min_samples_leaf=5,
            early_stopping=False,
            random_state=self.random_state,
        )

    def _encoded(self, X: Any, *, fitting: bool = False) -> Any:
        encoded = self.table_.encode(X if fitting and sp.issparse(X) else self.table_.checked(X, reset=False))
        return encoded.toarray() if sp.issparse(encoded) and self.method == "boosting" else encoded


def _predictors(nodes: NDArray[Any], sizes: NDArray[np.int64], trees: Any) -> list[list[TreePredictor]]:
    """Boosted trees by round. What walks down a tree looks at no bounds: a node must lead further down or nowhere."""
    per_round = 1 if len(trees.classes_) == 2 else len(trees.classes_)
    whole = nodes.dtype == PREDICTOR_RECORD_DTYPE and nodes.ndim == sizes.ndim == 1 and len(sizes) % per_round == 0
    if not whole or (sizes < 1).any() or sizes.sum() != len(nodes):
        raise DamagedFileError("The boosted trees of a base classifier are damaged: these are no nodes of trees.")
    ends = np.cumsum(sizes)
    place = np.arange(len(nodes)) - np.repeat(ends - sizes, sizes)  # of a node in its tree
    inner, size = nodes["is_leaf"] == 0, np.repeat(sizes, sizes)
    ahead = [(nodes[side] > place) & (nodes[side] < size) for side in ("left", "right")]
    known = (nodes["feature_idx"] >= 0) & (nodes["feature_idx"] < trees.n_features_in_) & (nodes["is_categorical"] == 0)
    if not (ahead[0] & ahead[1] & known)[inner].all():
        raise DamagedFileError("The boosted trees of a base classifier are damaged: a node leads out of its tree.")
    none = np.zeros((0, 8), np.uint32)
    grown = [TreePredictor(part, none, none) for part in np.split(nodes, ends[:-1])]
    return [grown[at : at + per_round] for at in range(0, len(grown), per_round)]

"""A forest of extremely randomised trees, grown by scikit-learn and kept and walked as plain arrays.

scikit-learn's own trees are compiled objects that believe what a file says, so kept ones could not be opened without
trusting who wrote them. What they say is the same, to the bit.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from poisonproof.errors import DamagedFileError, PoisonproofError
from poisonproof.learners.kept_trees import KeptTrees
from poisonproof.system.compiled import njit

LEAF = -1
CELLS_AT_ONCE = 1 << 22  # of sparse rows, which are written out to be walked with
NODES = {"columns": np.int32, "below": np.int32, "above": np.int32, "thresholds": np.float64}


class Forest(KeptTrees):
    """Trees one after the other: the column a node asks for, its threshold, where it leads in its tree, and shares.

    ``ends`` says where each tree ends among the nodes; ``shares`` (nodes, classes) what part of a node's samples is
    of each class.
    """

    def __init__(self, n_trees: int, random_state: int | None) -> None:
        self.n_trees = n_trees
        self.random_state = random_state

    def fit(self, X: Any, codes: NDArray[np.int64]) -> Self:
        """Grow trees on numbers (n, columns) or sparse rows, and classes from 0 on."""
        from sklearn.ensemble import ExtraTreesClassifier

        grown = ExtraTreesClassifier(self.n_trees, random_state=self.random_state, n_jobs=1).fit(X, codes)
        trees = [tree.tree_ for tree in grown.estimators_]
        self.ends = np.cumsum([tree.node_count for tree in trees]).astype(np.int64)
        leaf = np.concatenate([tree.children_left for tree in trees]) == LEAF
        self.columns = np.where(leaf, LEAF, np.concatenate([tree.feature for tree in trees])).astype(np.int32)
        self.below = np.concatenate([tree.children_left for tree in trees]).astype(np.int32)
        self.above = np.concatenate([tree.children_right for tree in trees]).astype(np.int32)
        self.thresholds = np.concatenate([tree.threshold for tree in trees]).astype(np.float64)
        self.shares = np.concatenate([tree.value[:, 0, :] for tree in trees])
        self.shares[~leaf] = 0.0  # nobody stops there
        self.n_columns = int(grown.n_features_in_)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The mean share of each class over the trees, an array (n, classes); each sample walks down alone."""
        if X.shape[1] != self.n_columns:
            raise PoisonproofError(f"These trees know {self.n_columns} columns; got {X.shape[1]}.")
        shares = np.zeros((X.shape[0], self.shares.shape[1]))
        step = max(1, CELLS_AT_ONCE // max(1, self.n_columns)) if sp.issparse(X) else max(1, X.shape[0])
        for start in range(0, X.shape[0], step):
            rows = X[start : start + step]
            with np.errstate(over="ignore"):
                numbers = np.ascontiguousarray(rows.toarray() if sp.issparse(rows) else rows, np.float32)
            if not np.isfinite(numbers).all():
                raise PoisonproofError("A number is too large to be told apart by trees.")
            nodes = (self.columns, self.thresholds, self.below, self.above, self.shares)
            _walk(numbers, self.ends, *nodes, shares[start : start + step])
        return shares / len(self.ends)

    def _check(self) -> None:
        if "ends" not in self.__dict__:
            return  # not fitted
        nodes: list[Any] = [getattr(self, name, None) for name in NODES]
        shares: Any = getattr(self, "shares", None)
        ends = self.ends
        arrays = all(isinstance(part, np.ndarray) for part in (*nodes, shares, ends)) and isinstance(
            self.__dict__.get("n_columns"), int
        )
        typed = arrays and [part.dtype for part in nodes] == [*NODES.values()] and shares.dtype == np.float64
        size = len(self.columns) if typed and ends.dtype == np.int64 and shares.ndim == 2 and ends.ndim == 1 else -1
        sizes = np.diff(ends, prepend=0) if size >= 0 else np.zeros(0, np.int64)
        whole = size >= 0 and len(ends) and (sizes > 0).all() and int(ends[-1]) == size
        if not whole or any(part.shape != (size,) for part in nodes) or len(shares) != size or not shares.shape[1]:
            raise DamagedFileError("The trees of a base classifier are damaged: these are no nodes of trees.")
        place, last = np.arange(size) - np.repeat(ends - sizes, sizes), np.repeat(sizes, sizes)
        ahead = (self.below > place) & (self.below < last) & (self.above > place) & (self.above < last)
        known = (self.columns >= 0) & (self.columns < self.n_columns)
        if not ((ahead & known) | (self.columns == LEAF)).all():
            raise DamagedFileError("The trees of a base classifier are damaged: a node leads out of its tree.")


@njit(nogil=True, cache=True)
def _walk(
    X: NDArray[np.float32],
    ends: NDArray[np.int64],
    columns: NDArray[np.int32],
    thresholds: NDArray[np.float64],
    below: NDArray[np.int32],
    above: NDArray[np.int32],
    shares: NDArray[np.float64],
    total: NDArray[np.float64],
) -> None:
    """Add up what the leaves say, tree after tree."""
    for t in range(len(X)):
        start = 0
        for end in ends:
            node = start
            while columns[node] != LEAF:
                node = start + (below[node] if X[t, columns[node]] <= thresholds[node] else above[node])
            for c in range(total.shape[1]):
                total[t, c] += shares[node, c]
            start = end

"""Trees for tables: a forest of extremely randomised trees, or gradient boosting, on columns encoded in the subset.

A forest is grown by scikit-learn, whose trees are compiled objects that believe what a file says. So trees are kept as
plain arrays, checked when they are opened and walked by a loop of our own; what a forest says is the same, to the bit.

Boosting is the usual algorithm: numbers are put into bins, every round grows a tree for each class (one for two
classes) on the slopes of the logistic loss, leaf by leaf where the loss falls most, and adds a tenth of what it says.
scikit-learn's is made for many samples and takes most of a second on a few hundred, nearly all of it around the trees;
this takes milliseconds, so that a base classifier can try trees before it takes them. All is summed in one order by one
thread, so trees are a function of the samples, in the order in which they are given, to the bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from poisonproof.errors import DamagedFileError, PoisonproofError
from poisonproof.learners.table import ClassifierOfTables, TableClassifier
from poisonproof.samples.labels import classes_and_codes
from poisonproof.system.compiled import njit

LEAF = -1  # the column of a node that asks nothing
CELLS_AT_ONCE = 1 << 22  # of sparse rows, which are written out to be walked with
MOST_BINS = 128  # among 64, 128 and 256 by four real tables held out; no clear winner (research/notes)
RATE = 0.1  # of what a tree says is taken
FEWEST_IN_LEAF = 5
LEAST_CURVATURE = 1e-3  # of a leaf
NODES = {"columns": np.int32, "below": np.int32, "above": np.int32, "thresholds": np.float64}


class TreesClassifier(ClassifierOfTables):
    """Trees on numbers, categories and missing values, encoded inside the subset as `TableClassifier` does.

    Each sample walks down its trees alone, so its answer does not depend on the batch.

    Parameters
    ----------
    method : "forest" or "boosting"
        Extremely randomised trees, or gradient boosting (`boosted_trees`), which wants subsets of some hundred samples.
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
                f"The 'method' of trees must be 'forest' or 'boosting'. Got {self.method!r} instead.",
                code="learner.parameter",
            )
        self.classes_, codes = classes_and_codes(self, y)
        self.table_ = TableClassifier()
        self.table_._learn_encoding(self.table_._checked(X, reset=True))
        self.trees_ = self._grown(self._encoded(X, fitting=True), codes)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The share of each class, an array (n, classes)."""
        check_is_fitted(self)
        return np.asarray(self.trees_.predict_proba(self._encoded(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the largest share; ties go to the smaller one."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def _grown(self, encoded: Any, codes: NDArray[np.int64]) -> Any:
        if self.method == "forest":
            return forest_trees(encoded, codes, self.n_trees, self.random_state)
        return boosted_trees(encoded, codes, self.n_trees, self.max_leaves)

    def _encoded(self, X: Any, *, fitting: bool = False) -> Any:
        encoded = self.table_._encode(X if fitting and sp.issparse(X) else self.table_._checked(X, reset=False))
        return encoded.toarray() if sp.issparse(encoded) and self.method == "boosting" else encoded


def boosting() -> TreesClassifier:
    """Gradient boosting on numbers, categories and missing values; it wants subsets of some hundred samples."""
    return TreesClassifier("boosting")


@dataclass(eq=False)
class Trees:
    """Fitted trees one after the other: the column a node asks for, its threshold, where it leads, what it says.

    Parameters
    ----------
    columns, below, above, thresholds : arrays (nodes,)
        A sample goes ``below`` where its number in the column is at most the threshold; places count within the tree.
    values : array (nodes, width)
        What is added to the scores of a sample that ends there. With scores for several classes and a width of 1, trees
        take turns: the first adds to the first class.
    ends : array (trees,)
        Where each tree ends among the nodes.
    start : array (scores,)
        The scores before the first tree.
    n_columns : int
    boosted : bool
        Whether scores are those of a logistic loss, of numbers in double precision; otherwise they are shares of
        classes, of numbers in single precision as in scikit-learn's trees.
    """

    columns: NDArray[np.int32]
    below: NDArray[np.int32]
    above: NDArray[np.int32]
    thresholds: NDArray[np.float64]
    values: NDArray[np.float64]
    ends: NDArray[np.int64]
    start: NDArray[np.float64]
    n_columns: int
    boosted: bool

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what a file holds. What walks down a tree looks at no bounds: a node must lead further down."""
        self.__dict__.update(state)
        self._check()

    def scores(self, X: Any) -> NDArray[np.float64]:
        """The sum of what the leaves say, an array (n, scores); each sample walks down the trees alone."""
        if X.shape[1] != self.n_columns:
            raise PoisonproofError(
                f"These trees know {self.n_columns} columns; got {X.shape[1]}.", code="learner.wrong-shape"
            )
        scores = np.tile(self.start, (X.shape[0], 1))
        step = max(1, CELLS_AT_ONCE // max(1, self.n_columns)) if sp.issparse(X) else max(1, X.shape[0])
        for first in range(0, X.shape[0], step):
            rows = X[first : first + step]
            with np.errstate(over="ignore"):
                kind = np.float64 if self.boosted else np.float32
                numbers = np.ascontiguousarray(rows.toarray() if sp.issparse(rows) else rows, kind)
            if not (self.boosted or np.isfinite(numbers).all()):
                raise PoisonproofError("A number is too large to be told apart by trees.", code="learner.not-finite")
            nodes = (self.columns, self.thresholds, self.below, self.above, self.values)
            _walk(numbers, self.ends, *nodes, scores[first : first + step])
        return scores

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The share of each class, an array (n, classes)."""
        scores = self.scores(X)
        if not self.boosted:
            return scores / len(self.ends)
        if scores.shape[1] == 1:
            scores = np.concatenate([np.zeros_like(scores), scores], axis=1)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def _check(self) -> None:
        """Raise `DamagedFileError` unless these are trees that can be walked."""
        state = self.__dict__
        kinds = {**NODES, "values": np.float64, "ends": np.int64, "start": np.float64}
        parts: list[Any] = [state.get(name) for name in kinds]
        typed = isinstance(state.get("n_columns"), int) and isinstance(state.get("boosted"), bool)
        typed = typed and all(isinstance(part, np.ndarray) for part in parts)
        typed = typed and [part.dtype for part in parts] == [*kinds.values()]
        if not typed or [part.ndim for part in parts] != [1, 1, 1, 1, 2, 1, 1]:
            raise DamagedFileError("The trees of a base classifier are damaged: these are no nodes of trees.")
        *nodes, values, ends, start = parts
        size, width, sizes = len(values), values.shape[1], np.diff(ends, prepend=0)
        whole = len(ends) and (sizes > 0).all() and int(ends[-1]) == size and all(len(part) == size for part in nodes)
        if not whole or not width or not len(start) or len(start) % width or len(ends) % (len(start) // width):
            raise DamagedFileError("The trees of a base classifier are damaged: these are no nodes of trees.")
        place, last = np.arange(size) - np.repeat(ends - sizes, sizes), np.repeat(sizes, sizes)
        ahead = (self.below > place) & (self.below < last) & (self.above > place) & (self.above < last)
        known = (self.columns >= 0) & (self.columns < self.n_columns)
        if not ((ahead & known) | (self.columns == LEAF)).all():
            raise DamagedFileError("The trees of a base classifier are damaged: a node leads out of its tree.")


def forest_trees(X: Any, codes: NDArray[np.int64], n_trees: int, random_state: int | None) -> Trees:
    """Extremely randomised trees on numbers (n, columns) or sparse rows, and classes from 0 on."""
    from sklearn.ensemble import ExtraTreesClassifier

    grown = ExtraTreesClassifier(n_trees, random_state=random_state, n_jobs=1).fit(X, codes)
    trees = [tree.tree_ for tree in grown.estimators_]
    leaf = np.concatenate([tree.children_left for tree in trees]) == LEAF
    shares = np.concatenate([tree.value[:, 0, :] for tree in trees])
    shares[~leaf] = 0.0  # nobody stops there
    return Trees(
        columns=np.where(leaf, LEAF, np.concatenate([tree.feature for tree in trees])).astype(np.int32),
        below=np.concatenate([tree.children_left for tree in trees]).astype(np.int32),
        above=np.concatenate([tree.children_right for tree in trees]).astype(np.int32),
        thresholds=np.concatenate([tree.threshold for tree in trees]).astype(np.float64),
        values=shares,
        ends=np.cumsum([tree.node_count for tree in trees]).astype(np.int64),
        start=np.zeros(shares.shape[1]),
        n_columns=int(grown.n_features_in_),
        boosted=False,
    )


def boosted_trees(X: NDArray[np.float64], codes: NDArray[np.int64], n_rounds: int, max_leaves: int) -> Trees:
    """Boosting on numbers (n, columns) and classes from 0 on, of which there are two or more."""
    if not np.isfinite(X).all():
        raise PoisonproofError(
            "The numbers of a subset are too large to be told apart by trees.", code="learner.not-finite"
        )
    n_classes = int(codes.max()) + 1
    slots = 1 if n_classes == 2 else n_classes
    thresholds = [_thresholds(column) for column in X.T]
    bins = np.empty((len(thresholds), len(X)), np.uint8)
    for place, (column, cuts) in enumerate(zip(X.T, thresholds, strict=True)):
        bins[place] = np.searchsorted(cuts, column)  # at most as large as cut b, exactly if in bin b or before
    n_bins = np.array([len(cuts) + 1 for cuts in thresholds], np.int64)
    shares = np.bincount(codes, minlength=n_classes) / len(codes)
    logs = np.log(np.maximum(shares, np.finfo(np.float64).tiny))
    start = logs[1:] - logs[:1] if slots == 1 else logs
    shape = (n_rounds * slots, 2 * max_leaves - 1)  # of each tree the nodes that it may have; it may have fewer
    columns, values = np.full(shape, LEAF, np.int32), np.zeros(shape)
    cuts_of, below, above = np.zeros((3, *shape), np.int32)
    _boost(bins, n_bins, codes, start, n_rounds, max_leaves, columns, cuts_of, below, above, values)
    sizes = 1 + 2 * (columns != LEAF).sum(axis=1)
    used = np.arange(shape[1]) < sizes[:, None]
    columns, cuts_of = columns[used], cuts_of[used]
    asks = zip(columns, cuts_of, strict=True)
    return Trees(
        columns=columns,
        below=below[used],
        above=above[used],
        thresholds=np.array([0.0 if column == LEAF else thresholds[column][cut] for column, cut in asks]),
        values=values[used][:, None],
        ends=np.cumsum(sizes).astype(np.int64),
        start=start,
        n_columns=len(thresholds),
        boosted=True,
    )


def _thresholds(column: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where a column may be cut: between any two values it holds or, if they are many, between about equal parts."""
    held = np.unique(column)
    if len(held) <= MOST_BINS:
        return np.asarray(held[:-1] / 2 + held[1:] / 2)
    parts = np.sort(column)
    at = np.arange(1, MOST_BINS) * len(parts) // MOST_BINS
    return np.unique(parts[at - 1] / 2 + parts[at] / 2)


@njit(nogil=True, cache=True)
def _slopes(
    scores: NDArray[np.float64],
    codes: NDArray[np.int64],
    slopes: NDArray[np.float64],
    curvature: NDArray[np.float64],
) -> None:
    """The first and second derivatives of the loss by the scores, arrays (scores, samples)."""
    slots = len(scores)
    for row in range(len(codes)):
        if slots == 1:
            small = math.exp(-abs(scores[0, row]))
            share = (1.0 if scores[0, row] >= 0.0 else small) / (1.0 + small)
            slopes[0, row] = share - (1.0 if codes[row] == 1 else 0.0)
            curvature[0, row] = share * (1.0 - share)
            continue
        highest = scores[0, row]
        for slot in range(1, slots):
            highest = max(highest, scores[slot, row])
        total = 0.0
        for slot in range(slots):
            slopes[slot, row] = math.exp(scores[slot, row] - highest)
            total += slopes[slot, row]
        for slot in range(slots):
            share = slopes[slot, row] / total
            slopes[slot, row] = share - (1.0 if codes[row] == slot else 0.0)
            curvature[slot, row] = share * (1.0 - share)


@njit(nogil=True, cache=True)
def _best_cut(
    bins: NDArray[np.uint8],
    n_bins: NDArray[np.int64],
    rows: NDArray[np.int64],
    slopes: NDArray[np.float64],
    curvature: NDArray[np.float64],
    sums: NDArray[np.float64],
    counts: NDArray[np.int64],
) -> tuple[float, int, int]:
    """By how much cutting these samples in two lowers the loss at most, in which column and after which bin.

    Equals go to the first column and the first bin; (0, -1, -1) where no cut helps. ``sums`` and ``counts`` are room.
    """
    slope = curve = 0.0
    for row in rows:
        slope += slopes[row]
        curve += curvature[row]
    best, best_column, best_bin = 0.0, -1, -1
    if len(rows) < 2 * FEWEST_IN_LEAF:
        return best, best_column, best_bin
    whole = slope * slope / max(curve, LEAST_CURVATURE)
    for column in range(len(bins)):
        n = n_bins[column]
        if n < 2:
            continue
        sums[:n] = 0.0
        counts[:n] = 0
        of_column = bins[column]
        for row in rows:
            bin_ = of_column[row]
            sums[bin_, 0] += slopes[row]
            sums[bin_, 1] += curvature[row]
            counts[bin_] += 1
        below, slope_below, curve_below = 0, 0.0, 0.0
        for bin_ in range(n - 1):
            if counts[bin_] == 0:
                continue
            below += counts[bin_]
            slope_below += sums[bin_, 0]
            curve_below += sums[bin_, 1]
            if below < FEWEST_IN_LEAF or curve_below < LEAST_CURVATURE:
                continue
            curve_above = curve - curve_below
            if len(rows) - below < FEWEST_IN_LEAF or curve_above < LEAST_CURVATURE:
                break
            slope_above = slope - slope_below
            gain = slope_below * slope_below / curve_below + slope_above * slope_above / curve_above - whole
            if gain > best:
                best, best_column, best_bin = gain, column, bin_
    return best, best_column, best_bin


@njit(nogil=True, cache=True)
def _parted(rows: NDArray[np.int64], of_column: NDArray[np.uint8], bin_: int, room: NDArray[np.int64]) -> int:
    """Put the rows up to a bin first, each side in the order it has; how many they are."""
    below = above = 0
    for row in rows:
        if of_column[row] <= bin_:
            rows[below] = row
            below += 1
        else:
            room[above] = row
            above += 1
    rows[below:] = room[:above]
    return below


@njit(nogil=True, cache=True)
def _boost(
    bins: NDArray[np.uint8],
    n_bins: NDArray[np.int64],
    codes: NDArray[np.int64],
    start: NDArray[np.float64],
    n_rounds: int,
    max_leaves: int,
    columns: NDArray[np.int32],
    cuts: NDArray[np.int32],
    below: NDArray[np.int32],
    above: NDArray[np.int32],
    values: NDArray[np.float64],
) -> None:
    n, slots = len(codes), len(start)
    scores, slopes, curvature = np.empty((slots, n)), np.empty((slots, n)), np.empty((slots, n))
    for slot in range(slots):
        scores[slot, :] = start[slot]
    rows, room = np.empty(n, np.int64), np.empty(n, np.int64)
    sums, counts = np.empty((MOST_BINS, 2)), np.empty(MOST_BINS, np.int64)
    places = 2 * max_leaves - 1
    first, end = np.empty(places, np.int64), np.empty(places, np.int64)
    gains, column_of, bin_of = np.empty(places), np.empty(places, np.int64), np.empty(places, np.int64)
    for round_ in range(n_rounds):
        _slopes(scores, codes, slopes, curvature)
        for slot in range(slots):
            tree = round_ * slots + slot
            for row in range(n):
                rows[row] = row
            first[0], end[0], n_nodes = 0, n, 1
            gains[0], column_of[0], bin_of[0] = _best_cut(
                bins, n_bins, rows, slopes[slot], curvature[slot], sums, counts
            )
            for _ in range(max_leaves - 1):
                node = 0
                for other in range(1, n_nodes):
                    if gains[other] > gains[node]:
                        node = other
                if gains[node] <= 0.0:
                    break
                mine = rows[first[node] : end[node]]
                middle = first[node] + _parted(mine, bins[column_of[node]], bin_of[node], room)
                columns[tree, node], cuts[tree, node] = column_of[node], bin_of[node]
                below[tree, node], above[tree, node] = n_nodes, n_nodes + 1
                gains[node] = 0.0
                first[n_nodes], end[n_nodes] = first[node], middle
                first[n_nodes + 1], end[n_nodes + 1] = middle, end[node]
                for child in range(n_nodes, n_nodes + 2):
                    gains[child], column_of[child], bin_of[child] = _best_cut(
                        bins, n_bins, rows[first[child] : end[child]], slopes[slot], curvature[slot], sums, counts
                    )
                n_nodes += 2
            for node in range(n_nodes):
                if columns[tree, node] != LEAF:
                    continue
                slope = curve = 0.0
                for row in rows[first[node] : end[node]]:
                    slope += slopes[slot, row]
                    curve += curvature[slot, row]
                values[tree, node] = -RATE * slope / max(curve, LEAST_CURVATURE)
                for row in rows[first[node] : end[node]]:
                    scores[slot, row] += values[tree, node]


@njit(nogil=True, cache=True)
def _walk(
    X: NDArray[Any],
    ends: NDArray[np.int64],
    columns: NDArray[np.int32],
    thresholds: NDArray[np.float64],
    below: NDArray[np.int32],
    above: NDArray[np.int32],
    values: NDArray[np.float64],
    scores: NDArray[np.float64],
) -> None:
    """Add up what the leaves say, tree after tree."""
    width = values.shape[1]
    turns = scores.shape[1] // width
    for row in range(len(X)):
        start = 0
        for tree in range(len(ends)):
            node = start
            while columns[node] != LEAF:
                node = start + (below[node] if X[row, columns[node]] <= thresholds[node] else above[node])
            first = tree % turns * width
            for c in range(width):
                scores[row, first + c] += values[node, c]
            start = ends[tree]

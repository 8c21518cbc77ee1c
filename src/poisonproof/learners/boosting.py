"""Gradient boosting with small trees, for subsets of some hundred samples.

The usual algorithm: numbers are put into bins, every round grows a tree for each class (one for two classes) on the
slopes of the logistic loss, leaf by leaf where the loss falls most, and adds a tenth of what it says. scikit-learn's is
made for many samples and takes most of a second on a few hundred, nearly all of it around the trees; this takes
milliseconds, so that a base classifier can try trees before it takes them. All is summed in one order by one thread, so
trees are a function of the samples, in the order in which they are given, to the bit.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import DamagedFileError, PoisonproofError
from poisonproof.learners.kept_trees import KeptTrees
from poisonproof.system.compiled import njit

MOST_BINS = 128  # among 64, 128 and 256 by four real tables held out; no clear winner (benchmarks/RESULTS.md)
RATE = 0.1  # of what a tree says is taken
FEWEST_IN_LEAF = 5
LEAST_CURVATURE = 1e-3  # of a leaf
LEAF = -1  # the column of a node that asks nothing


class BoostedTrees(KeptTrees):
    """Trees as arrays (trees, places): the column a node asks for, its threshold, where it leads, what a leaf says.

    Round after round, and in each round class after class.
    """

    def __init__(self, n_rounds: int, max_leaves: int) -> None:
        self.n_rounds = n_rounds
        self.max_leaves = max_leaves

    def fit(self, X: NDArray[np.float64], codes: NDArray[np.int64]) -> Self:
        """Train on numbers (n, columns) and classes from 0 on, of which there are two or more."""
        if not np.isfinite(X).all():
            raise PoisonproofError("The numbers of a subset are too large to be told apart by trees.")
        n_classes = int(codes.max()) + 1
        slots = 1 if n_classes == 2 else n_classes
        thresholds = [_thresholds(column) for column in X.T]
        bins = np.empty((len(thresholds), len(X)), np.uint8)
        for place, (column, cuts) in enumerate(zip(X.T, thresholds, strict=True)):
            bins[place] = np.searchsorted(cuts, column)  # at most as large as cut b, exactly if in bin b or before
        n_bins = np.array([len(cuts) + 1 for cuts in thresholds], np.int64)
        shares = np.bincount(codes, minlength=n_classes) / len(codes)
        logs = np.log(np.maximum(shares, np.finfo(np.float64).tiny))
        self.start = logs[1:] - logs[:1] if slots == 1 else logs
        shape = (self.n_rounds * slots, 2 * self.max_leaves - 1)
        self.columns, self.thresholds, self.values = np.full(shape, LEAF, np.int32), np.zeros(shape), np.zeros(shape)
        cuts_of, self.below, self.above = np.zeros((3, *shape), np.int32)
        trees = (self.columns, cuts_of, self.below, self.above, self.values)
        _boost(bins, n_bins, codes, self.start, self.n_rounds, self.max_leaves, *trees)
        for tree, place in np.argwhere(self.columns != LEAF):
            self.thresholds[tree, place] = thresholds[self.columns[tree, place]][cuts_of[tree, place]]
        self.n_columns = len(thresholds)
        return self

    def scores(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores (n, classes), or (n, 1) for two classes; each sample walks down the trees alone."""
        if X.shape[1] != self.n_columns:
            raise PoisonproofError(f"These trees know {self.n_columns} columns; got {X.shape[1]}.")
        scores = np.empty((len(X), len(self.start)))
        trees = (self.columns, self.thresholds, self.below, self.above, self.values)
        _walk(np.ascontiguousarray(X), *trees, self.start, scores)
        return scores

    def predict_proba(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """The share of each class, an array (n, classes)."""
        scores = self.scores(X)
        if scores.shape[1] == 1:
            scores = np.concatenate([np.zeros_like(scores), scores], axis=1)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def _check(self) -> None:
        if "start" not in self.__dict__:
            return  # not fitted
        kinds = {
            "columns": np.int32,
            "below": np.int32,
            "above": np.int32,
            "thresholds": np.float64,
            "values": np.float64,
        }
        nodes: list[Any] = [getattr(self, name, None) for name in kinds]
        start, n_columns = self.start, getattr(self, "n_columns", "none")
        arrays = all(isinstance(part, np.ndarray) for part in (*nodes, start)) and isinstance(n_columns, int)
        typed = arrays and [part.dtype for part in nodes] == [*kinds.values()] and start.dtype == np.float64
        shape = self.columns.shape if typed and len({part.shape for part in nodes}) == 1 else ()
        if len(shape) != 2 or shape[1] < 1 or start.ndim != 1 or not len(start) or shape[0] % len(start):
            raise DamagedFileError("The boosted trees of a base classifier are damaged: these are no nodes of trees.")
        place = np.arange(shape[1])
        ahead = (self.below > place) & (self.below < shape[1]) & (self.above > place) & (self.above < shape[1])
        known = (self.columns >= 0) & (self.columns < self.n_columns)
        if not ((ahead & known) | (self.columns == LEAF)).all():
            raise DamagedFileError("The boosted trees of a base classifier are damaged: a node leads out of its tree.")


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
    X: NDArray[np.float64],
    columns: NDArray[np.int32],
    thresholds: NDArray[np.float64],
    below: NDArray[np.int32],
    above: NDArray[np.int32],
    values: NDArray[np.float64],
    start: NDArray[np.float64],
    scores: NDArray[np.float64],
) -> None:
    slots = len(start)
    for row in range(len(X)):
        scores[row] = start
        for tree in range(len(columns)):
            node = 0
            while columns[tree, node] != LEAF:
                asked = X[row, columns[tree, node]]
                node = below[tree, node] if asked <= thresholds[tree, node] else above[tree, node]
            scores[row, tree % slots] += values[tree, node]

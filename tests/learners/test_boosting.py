"""Boosted trees of our own, beside the same algorithm written slowly and beside scikit-learn's."""

import itertools

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier

from poisonproof.errors import PoisonproofError
from poisonproof.learners.boosting import FEWEST_IN_LEAF, LEAF, LEAST_CURVATURE, MOST_BINS, RATE, BoostedTrees


def table(n, seed, n_classes):
    """Columns of many values, of few, of one and of two, and classes that go by them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    X[:, 1] = np.round(3 * X[:, 1])
    X[:, 2] = 7.0
    X[:, 3] = X[:, 3] > 0.5
    signs = X[:, 0] ** 2 + X[:, 1] / 2 + X[:, 3] * X[:, 4] + rng.normal(size=n) / 3
    return X, np.digitize(signs, np.quantile(signs, np.arange(1, n_classes) / n_classes))


def cuts_of(column):
    held = sorted(set(column))
    if len(held) <= MOST_BINS:
        return [(a + b) / 2 for a, b in itertools.pairwise(held)]
    parts = sorted(column)
    at = [number * len(parts) // MOST_BINS for number in range(1, MOST_BINS)]
    return sorted({(parts[place - 1] + parts[place]) / 2 for place in at})


def best_cut(X, cuts, rows, slopes, curvature):
    """(gain, column, cut) of the best; gain 0 if none helps."""
    best = (0.0, None, None)
    whole = slopes[rows].sum() ** 2 / curvature[rows].sum()
    for column, places in enumerate(cuts):
        for cut in places:
            sides = rows[X[rows, column] <= cut], rows[X[rows, column] > cut]
            if min(map(len, sides)) < FEWEST_IN_LEAF:
                continue
            if min(curvature[side].sum() for side in sides) < LEAST_CURVATURE:
                continue
            gain = sum(slopes[side].sum() ** 2 / curvature[side].sum() for side in sides) - whole
            if gain > best[0] + 1e-12:
                best = gain, column, cut
    return best


def slow_scores(X, codes, asked, n_rounds, max_leaves):
    """Boosting by lists of samples."""
    n_classes = codes.max() + 1
    slots = 1 if n_classes == 2 else n_classes
    logs = np.log(np.bincount(codes) / len(codes))
    start = logs[1:] - logs[0] if slots == 1 else logs
    scores, answers = np.tile(start, (len(X), 1)), np.tile(start, (len(asked), 1))
    cuts = [cuts_of(column.tolist()) for column in X.T]
    for _ in range(n_rounds):
        if slots == 1:
            shares, truth = 1 / (1 + np.exp(-scores)), (codes == 1)[:, None]
        else:
            shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
            truth = codes[:, None] == np.arange(slots)
        slopes, curvature = shares - truth, shares * (1 - shares)
        for slot in range(slots):
            leaves = [(np.arange(len(X)), np.arange(len(asked)))]
            found = [best_cut(X, cuts, leaves[0][0], slopes[:, slot], curvature[:, slot])]
            while len(leaves) < max_leaves and max(gain for gain, _, _ in found) > 0:
                at = int(np.argmax([gain for gain, _, _ in found]))
                (rows, others), (_, column, cut) = leaves.pop(at), found.pop(at)
                below, other_below = X[rows, column] <= cut, asked[others, column] <= cut
                for side in (1, 0):
                    leaf = rows[below == side], others[other_below == side]
                    leaves.append(leaf)
                    found.append(best_cut(X, cuts, leaf[0], slopes[:, slot], curvature[:, slot]))
            for rows, others in leaves:
                value = -RATE * slopes[rows, slot].sum() / curvature[rows, slot].sum()
                scores[rows, slot] += value
                answers[others, slot] += value
    return answers


@pytest.mark.parametrize(("n_classes", "n", "max_leaves"), [(2, 60, 4), (2, 150, 6), (3, 90, 3)])
def test_the_slow_way_gives_the_same_scores(n_classes, n, max_leaves):
    X, codes = table(n + 40, n, n_classes)
    trees = BoostedTrees(6, max_leaves).fit(X[:n], codes[:n])
    expected = slow_scores(X[:n], codes[:n], X[n:], 6, max_leaves)
    assert trees.scores(X[n:]) == pytest.approx(expected, abs=1e-9)
    assert (trees.columns != LEAF).sum() == len(trees.columns) * (max_leaves - 1)  # all leaves were used
    assert 2 not in trees.columns  # nothing can be told by a column of one value


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
def test_it_is_level_with_scikit_learn(load):
    data = load()
    rest = np.arange(len(data.target)) % 3 > 0
    own = BoostedTrees(60, 8).fit(data.data[rest], data.target[rest]).predict_proba(data.data[~rest])
    other = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=8, min_samples_leaf=5, early_stopping=False)
    other.fit(data.data[rest], data.target[rest])
    truth = data.target[~rest]
    assert own.sum(axis=1) == pytest.approx(np.ones(len(own)))
    assert (own.argmax(axis=1) == truth).mean() >= other.score(data.data[~rest], truth) - 0.03


def test_a_sample_is_answered_alone_and_training_is_repeated_to_the_bit():
    X, codes = table(240, 1, 3)
    trees, again = (BoostedTrees(20, 8).fit(X[:200], codes[:200]) for _ in range(2))
    together = trees.predict_proba(X)
    assert np.array_equal(together, again.predict_proba(X))
    assert np.array_equal(together, np.concatenate([trees.predict_proba(X[[row]]) for row in range(len(X))]))
    assert np.array_equal(together, trees.predict_proba(np.asfortranarray(X)))


def test_many_values_are_parted_evenly_and_few_are_all_told_apart():
    rng = np.random.default_rng(0)
    X = np.stack([rng.normal(size=2000), rng.integers(MOST_BINS, size=2000)], axis=1)
    for column, n_cuts in ((0, MOST_BINS - 1), (1, MOST_BINS - 1)):
        codes = (X[:, column] > np.median(X[:, column])).astype(np.int64)
        trees = BoostedTrees(1, 2).fit(X, codes)
        assert trees.columns[0, 0] == column
        assert abs((X[:, column] <= trees.thresholds[0, 0]).mean() - 0.5) < 1.5 / n_cuts


def test_what_it_cannot_take_it_says():
    X, codes = table(50, 0, 2)
    trees = BoostedTrees(2, 3).fit(X, codes)
    with pytest.raises(PoisonproofError, match="These trees know 5 columns; got 4"):
        trees.scores(X[:, 1:])
    X[3, 1] = np.inf
    with pytest.raises(PoisonproofError, match="too large to be told apart by trees"):
        BoostedTrees(2, 3).fit(X, codes)
    assert np.isfinite(trees.scores(X)).all()

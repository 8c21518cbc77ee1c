"""Boosted trees beside the same algorithm written slowly, forests beside scikit-learn's; both as arrays in files."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier

from command_line import poisonproof
from poisonproof.errors import DamagedFileError
from poisonproof.learners import trees as own
from poisonproof.learners.trees import (
    FEWEST_IN_LEAF,
    LEAF,
    LEAST_CURVATURE,
    MOST_BINS,
    RATE,
    Trees,
    boosted_trees,
    forest_trees,
)
from poisonproof.training.model_files import types_of
from refused import refused

DIGITS, WINE = load_digits(return_X_y=True), load_wine(return_X_y=True)


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
    trees = boosted_trees(X[:n], codes[:n], 6, max_leaves)
    expected = slow_scores(X[:n], codes[:n], X[n:], 6, max_leaves)
    assert trees.scores(X[n:]) == pytest.approx(expected, abs=1e-9)
    assert (trees.columns != LEAF).sum() == len(trees.ends) * (max_leaves - 1)  # all leaves were used
    assert 2 not in trees.columns  # nothing can be told by a column of one value


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
def test_it_is_level_with_scikit_learn(load):
    data = load()
    rest = np.arange(len(data.target)) % 3 > 0
    own = boosted_trees(data.data[rest], data.target[rest], 60, 8).predict_proba(data.data[~rest])
    other = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=8, min_samples_leaf=5, early_stopping=False)
    other.fit(data.data[rest], data.target[rest])
    truth = data.target[~rest]
    assert own.sum(axis=1) == pytest.approx(np.ones(len(own)))
    assert (own.argmax(axis=1) == truth).mean() >= other.score(data.data[~rest], truth) - 0.03


def test_a_sample_is_answered_alone_and_training_is_repeated_to_the_bit():
    X, codes = table(240, 1, 3)
    trees, again = (boosted_trees(X[:200], codes[:200], 20, 8) for _ in range(2))
    together = trees.predict_proba(X)
    assert np.array_equal(together, again.predict_proba(X))
    assert np.array_equal(together, np.concatenate([trees.predict_proba(X[[row]]) for row in range(len(X))]))
    assert np.array_equal(together, trees.predict_proba(np.asfortranarray(X)))


def test_many_values_are_parted_evenly_and_few_are_all_told_apart():
    rng = np.random.default_rng(0)
    X = np.stack([rng.normal(size=2000), rng.integers(MOST_BINS, size=2000)], axis=1)
    for column, n_cuts in ((0, MOST_BINS - 1), (1, MOST_BINS - 1)):
        codes = (X[:, column] > np.median(X[:, column])).astype(np.int64)
        trees = boosted_trees(X, codes, 1, 2)
        assert trees.columns[0] == column
        assert abs((X[:, column] <= trees.thresholds[0]).mean() - 0.5) < 1.5 / n_cuts


def test_what_it_cannot_take_it_says():
    X, codes = table(50, 0, 2)
    trees = boosted_trees(X, codes, 2, 3)
    with refused("learner.wrong-shape"):
        trees.scores(X[:, 1:])
    X[3, 1] = np.inf
    with refused("learner.not-finite"):
        boosted_trees(X, codes, 2, 3)
    assert np.isfinite(trees.scores(X)).all()


@pytest.mark.parametrize(
    ("X", "y"),
    [
        DIGITS,
        WINE,
        (WINE[0], (WINE[1] > 0).astype(int)),
        (sp.csr_matrix(DIGITS[0]), DIGITS[1]),
        (WINE[0][:1], WINE[1][:1]),
    ],
    ids=["digits", "wine", "two classes", "sparse", "one sample"],
)
def test_shares_are_those_of_scikit_learn_to_the_bit(X, y, monkeypatch):
    expected = ExtraTreesClassifier(20, random_state=7, n_jobs=1).fit(X, y).predict_proba(X)
    grown = forest_trees(X, y, 20, 7)
    assert np.array_equal(grown.predict_proba(X), expected)
    monkeypatch.setattr(own, "CELLS_AT_ONCE", 300)
    assert np.array_equal(grown.predict_proba(X), expected)
    assert np.array_equal(
        np.vstack([grown.predict_proba(X[i : i + 1]) for i in range(min(40, X.shape[0]))]), expected[:40]
    )


def test_numbers_beyond_float32_are_refused_as_scikit_learn_refuses_them():
    X, y = WINE
    large = X[:2].copy()
    large[0, 0] = 1e300
    with refused("learner.not-finite"):
        forest_trees(X, y, 3, 0).predict_proba(large)
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="too large"):
        ExtraTreesClassifier(3, random_state=0).fit(X, y).predict_proba(large)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("below", lambda a: np.zeros_like(a)),
        ("above", lambda a: a + 10_000),
        ("columns", lambda a: np.where(a >= 0, 99, a).astype(a.dtype)),
        ("columns", lambda a: np.where(a >= 0, -7, a).astype(a.dtype)),
        ("columns", lambda a: a.astype(np.int64)),
        ("thresholds", lambda a: a[:-1]),
        ("values", lambda a: a[:, :0]),
        ("ends", lambda a: a + 1),
        ("ends", lambda a: a[::-1].copy()),
        ("ends", lambda a: a[:0]),
        ("n_columns", lambda a: "many"),
    ],
)
@pytest.mark.parametrize("grown", [lambda X, y: forest_trees(X, y, 3, 0), lambda X, y: boosted_trees(X, y, 3, 4)])
def test_trees_that_lead_out_of_themselves_are_never_walked(grown, name, change):
    X, y = WINE
    state = grown(X, y).__getstate__()
    Trees.__new__(Trees).__setstate__(state)
    with refused("file.damaged", DamagedFileError):
        Trees.__new__(Trees).__setstate__({**state, name: change(state[name])})


@pytest.fixture
def wine_file(tmp_path):
    X, y = WINE
    path = tmp_path / "wine.csv"
    rows = [",".join([*(f"{value:g}" for value in row[:4]), f"kind {label}"]) for row, label in zip(X, y, strict=True)]
    path.write_text("\n".join(["a,b,c,d,kind", *rows]) + "\n")
    return path


def test_base_classifiers_of_types_that_nobody_vouches_for_are_votes_only(wine_file, tmp_path, monkeypatch):
    """A fitted forest of scikit-learn holds a type that its unfitted learner does not."""
    pytest.importorskip("pandas")
    (tmp_path / "mine.py").write_text(
        "from sklearn.ensemble import RandomForestClassifier\nlearner = RandomForestClassifier(3)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    words = ("--label", "kind", "--k", 3, "--d", 2, "--n-jobs", 1, "--no-undefended", "--learner", "mine:learner")
    if "sklearn.tree._tree.Tree" in types_of(RandomForestClassifier(3).fit(*WINE)):  # older skops vouches for it
        assert "--votes-only" in poisonproof("run", wine_file, *words, "--out", tmp_path / "kept", code=2).stderr
    poisonproof("run", wine_file, *words, "--votes-only", "--out", tmp_path / "votes")
    poisonproof("update", tmp_path / "votes", "--remove", "3", "--n-jobs", 1, "--learner", "mine:learner")

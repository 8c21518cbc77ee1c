"""Forests kept as plain arrays say what scikit-learn's say, and are opened again without trusting anybody."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_wine
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from command_line import poisonproof
from poisonproof.errors import DamagedFileError, PoisonproofError
from poisonproof.learners import forest
from poisonproof.learners.forest import Forest
from poisonproof.training.member_files import types_of

DIGITS, WINE = load_digits(return_X_y=True), load_wine(return_X_y=True)


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
    grown = Forest(20, 7).fit(X, y)
    assert np.array_equal(grown.predict_proba(X), expected)
    monkeypatch.setattr(forest, "CELLS_AT_ONCE", 300)
    assert np.array_equal(grown.predict_proba(X), expected)
    assert np.array_equal(
        np.vstack([grown.predict_proba(X[i : i + 1]) for i in range(min(40, X.shape[0]))]), expected[:40]
    )


def test_numbers_beyond_float32_are_refused_as_scikit_learn_refuses_them():
    X, y = WINE
    large = X[:2].copy()
    large[0, 0] = 1e300
    with pytest.raises(PoisonproofError, match="too large"):
        Forest(3, 0).fit(X, y).predict_proba(large)
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
        ("shares", lambda a: a[:, :0]),
        ("ends", lambda a: a + 1),
        ("ends", lambda a: a[::-1].copy()),
        ("ends", lambda a: a[:0]),
        ("n_columns", lambda a: "many"),
    ],
)
def test_trees_that_lead_out_of_themselves_are_never_walked(name, change):
    X, y = WINE
    state = Forest(3, 0).fit(X, y).__getstate__()
    Forest.__new__(Forest).__setstate__(state)
    with pytest.raises(DamagedFileError, match="damaged"):
        Forest.__new__(Forest).__setstate__({**state, name: change(state[name])})


@pytest.fixture
def table(tmp_path):
    X, y = WINE
    path = tmp_path / "wine.csv"
    rows = [",".join([*(f"{value:g}" for value in row[:4]), f"kind {label}"]) for row, label in zip(X, y, strict=True)]
    path.write_text("\n".join(["a,b,c,d,kind", *rows]) + "\n")
    return path


def test_a_run_with_a_forest_answers_and_is_updated(table, tmp_path):
    pytest.importorskip("pandas")
    words = ("--label", "kind", "--k", 3, "--d", 2, "--n-jobs", 1, "--no-undefended")
    poisonproof("run", table, "--learner", "forest", *words, "--out", tmp_path / "run")
    poisonproof("predict", tmp_path / "run", table, "--out", tmp_path / "answers.csv")
    poisonproof("update", tmp_path / "run", "--remove", "3", "--n-jobs", 1)
    poisonproof("predict", tmp_path / "run", table, "--out", tmp_path / "less.csv")
    assert (tmp_path / "answers.csv").read_text().count("\n") == (tmp_path / "less.csv").read_text().count("\n") > 178


def test_base_classifiers_of_types_that_nobody_vouches_for_are_votes_only(table, tmp_path, monkeypatch):
    """A fitted forest of scikit-learn holds a type that its unfitted learner does not."""
    pytest.importorskip("pandas")
    (tmp_path / "mine.py").write_text(
        "from sklearn.ensemble import RandomForestClassifier\nlearner = RandomForestClassifier(3)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    words = ("--label", "kind", "--k", 3, "--d", 2, "--n-jobs", 1, "--no-undefended", "--learner", "mine:learner")
    if "sklearn.tree._tree.Tree" in types_of(RandomForestClassifier(3).fit(*WINE)):  # older skops vouches for it
        assert "--votes-only" in poisonproof("run", table, *words, "--out", tmp_path / "kept", code=2).stderr
    poisonproof("run", table, *words, "--votes-only", "--out", tmp_path / "votes")
    poisonproof("update", tmp_path / "votes", "--remove", "3", "--n-jobs", 1, "--learner", "mine:learner")

"""A test sample's votes do not depend on the company it comes in: a poison may fall into the held-out set."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier

from poisonproof import FiniteAggregationClassifier
from poisonproof.data.options import ReadOptions
from poisonproof.data.reading import open_files
from poisonproof.learners.table import TableClassifier
from poisonproof.training import members as asking

X, Y = (part[:700] for part in load_digits(return_X_y=True))
TRAIN, TEST = slice(0, 200), slice(200, 700)


class LastBits(ClassifierMixin, BaseEstimator):
    """Votes by the last bits of linear scores: what a tied vote does now and then, it does every time."""

    def __init__(self, learner=None):
        self.learner = learner

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.learner_ = LogisticRegression(max_iter=5).fit(X, y) if self.learner is None else self.learner.fit(X, y)
        return self

    def decision_function(self, X):
        if self.learner is not None:
            return self.learner_.predict_proba(X)
        return self.learner_.decision_function(X).reshape(X.shape[0], -1)

    def predict(self, X):
        bits = np.ascontiguousarray(self.decision_function(X)[:, 0]).view(np.uint64)
        return self.classes_[(bits % len(self.classes_)).astype(int)]


def dense(X):
    return X.toarray() if sp.issparse(X) else np.asarray(X, float)


class LastBitsTable(TableClassifier):
    """Derived from a learner whose answers do not depend on the batch; its own do, and it does not say otherwise."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.model_ = LastBits().fit(dense(X), y)
        return self

    def predict(self, X):
        return self.model_.predict(dense(X))


class FrozenClone(ClassifierMixin, BaseEstimator):
    """A wrapper that hands on every attribute of what it holds, marks too."""

    def __init__(self, learner):
        self.learner = learner

    def __getattr__(self, name):
        return getattr(self.learner, name) if name == "answers_one_by_one" else super().__getattribute__(name)

    def fit(self, X, y):
        self.learner_ = LastBitsTable().fit(X, y)
        self.classes_ = self.learner_.classes_
        return self

    def predict(self, X):
        return self.learner_.predict(X)


def companies(n):
    """Ways for samples 0 … n−1 to be asked: alone, in small batches, with one more before or behind, in reverse."""
    yield "alone", [[row] for row in range(0, n, 21)]
    yield "in threes", [list(range(start, min(start + 3, n))) for start in range(0, n, 21)]
    yield "with one more behind", [[*range(n), 5]]
    yield "with one more before", [[5, *range(n)]]
    yield "in reverse", [list(range(n))[::-1]]
    yield "all but one", [list(range(1, n))]


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, pd.DataFrame], ids=["array", "sparse", "frame"])
@pytest.mark.parametrize(
    "learner",
    [LastBits(), LastBits(MLPClassifier((9,), max_iter=3)), LastBitsTable(), FrozenClone(LastBitsTable())],
    ids=["linear", "network", "derived", "wrapped"],
)
def test_the_last_bits_of_a_sample_are_its_own(learner, form):
    model = FiniteAggregationClassifier(learner, k=3, d=1, classes=range(10)).fit(form(X[TRAIN]), Y[TRAIN])
    test = X[TEST][:301]
    expected = model.votes(form(test)).matrix
    assert len(np.unique(expected)) > 5
    for company, batches in companies(len(test)):
        for batch in batches:
            votes = model.votes(form(test[batch])).matrix
            assert (votes == expected[batch]).all(), company


@pytest.mark.parametrize(
    "learner",
    [LogisticRegression(max_iter=5), GaussianNB(), HistGradientBoostingClassifier(max_iter=2), TableClassifier()],
    ids=lambda learner: type(learner).__name__,
)  # fmt: skip
def test_rankings_too(learner):
    model = FiniteAggregationClassifier(learner, k=2, d=1, classes=range(10)).fit(X[TRAIN], Y[TRAIN])
    test = X[TEST][:90]
    expected = model.votes(test, rankings=True).rankings
    for company, batches in list(companies(len(test)))[2:]:
        for batch in batches:
            assert (model.votes(test[batch], rankings=True).rankings == expected[batch]).all(), company


def test_batches_have_one_size_and_marked_learners_are_asked_at_once():
    sizes = []

    def ask(batch):
        sizes.append(len(batch))
        return batch[:, 0]

    X = np.arange(600.0)[:, None]
    assert asking.predict_in_batches(object(), ask, X, 600).tolist() == list(range(600))
    assert asking.predict_in_batches(TableClassifier(), ask, X, 600).tolist() == list(range(600))
    assert sizes == [asking.BATCH] * 2 + [600]


def test_a_poison_that_is_held_out_moves_no_vote_on_another_test_sample(tmp_path):
    """End to end: the same file with one row more, which lands among the test samples."""
    rows = [",".join(map(str, [*x.astype(int), y])) for x, y in zip(X[:400], Y[:400], strict=True)]
    header = ",".join([*(f"p{i}" for i in range(64)), "digit"])
    (tmp_path / "clean.csv").write_text("\n".join([header, *rows]) + "\n")
    how = ReadOptions(label="digit", classes=[str(digit) for digit in range(10)])
    clean = open_files(tmp_path / "clean.csv", how)
    for extreme in range(100, 140):
        poison = ",".join(map(str, [extreme] * 64 + [3]))
        (tmp_path / "poisoned.csv").write_text("\n".join([header, *rows[:7], poison, *rows[7:]]) + "\n")
        poisoned = open_files(tmp_path / "poisoned.csv", how)
        if len(poisoned.test) > len(clean.test):
            break
    other = np.flatnonzero((extreme != poisoned.test.X).any(axis=1))
    assert (poisoned.train.X == clean.train.X).all()
    assert (poisoned.test.X[other] == clean.test.X).all()
    model = FiniteAggregationClassifier(LastBits(), k=4, d=2, classes=clean.classes)
    model.fit(clean.train.X, clean.train.labels)
    assert (model.votes(poisoned.test.X).matrix[other] == model.votes(clean.test.X).matrix).all()

"""The purity check finds what would void a proof, and lets the sound ones pass."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from poisonproof import FiniteAggregationClassifier, check_estimator_purity, check_pipeline
from poisonproof.learners.table import TableClassifier
from refused import refused

X, Y = (part[:160] for part in load_digits(return_X_y=True))
X = X / 16.0
FRAME = pd.DataFrame({"a": X[:, 20], "b": np.where(X[:, 30] > 0.5, "dark", "light"), "c": X[:, 42]})
WORDS = [" ".join(f"w{i}" for i in np.flatnonzero(row > 0.6)) for row in X]


@pytest.mark.parametrize(
    ("estimator", "samples"),
    [
        (TableClassifier(), X),
        (TableClassifier(), sp.csr_matrix(X)),
        (TableClassifier(), FRAME),
        (DecisionTreeClassifier(max_features=3), X),
        (ExtraTreesClassifier(3), X),
        (make_pipeline(StandardScaler(), GaussianNB()), X),
        (make_pipeline(TfidfVectorizer(), MultinomialNB()), WORDS),
    ],
    ids=["table", "table-sparse", "table-frame", "tree", "forest", "bayes", "text"],
)
def test_sound_learners_pass(estimator, samples):
    report = check_estimator_purity(estimator, samples, Y)
    assert report.pure, str(report)
    assert "No leak found in 10 checks" in str(report)


class Leaky(ClassifierMixin, BaseEstimator):
    """A nearest-mean classifier, with a leak to be added by a subclass."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.means_ = np.array([self.prepare(X)[y == c].mean(axis=0) for c in self.classes_])
        return self

    def prepare(self, X):
        return X

    def predict(self, X):
        distance = ((self.prepare(X)[:, None, :] - self.means_) ** 2).sum(axis=2)
        return self.classes_[distance.argmin(axis=1)]


class SharesAScaler(Leaky):
    """The scale of whoever was trained last serves all of them."""

    def fit(self, X, y):
        SharesAScaler.weight = 1 / (0.01 + X.std(axis=0) ** 4)
        return super().fit(X, y)

    def prepare(self, X):
        return X * SharesAScaler.weight


class Counts(Leaky):
    """Behaves otherwise each time it is trained."""

    trained = 0

    def fit(self, X, y):
        Counts.trained += 1
        super().fit(X, y)
        self.means_ = np.roll(self.means_, Counts.trained, axis=0)
        return self


class UsesTheBatch(Leaky):
    """Centres test samples by their batch."""

    def predict(self, X):
        return super().predict(X - X.mean(axis=0) if len(X) > 1 else X + 1.0)


class ReadsTheProcess(Leaky):
    """Depends on the process it runs in."""

    def prepare(self, X):
        import multiprocessing

        return X if multiprocessing.current_process().name == "MainProcess" else X**4


@pytest.mark.parametrize(
    ("estimator", "word"),
    [
        (SharesAScaler(), "something is shared"),
        (Counts(), "trained a second time"),
        (UsesTheBatch(), "when the test samples came one by one"),
        (ReadsTheProcess(), "in other processes"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_leaks_are_found_and_said_in_words(estimator, word):
    report = check_estimator_purity(estimator, X, Y)
    assert not report.pure
    assert word in str(report)
    assert "checks found a leak" in str(report)


@pytest.mark.parametrize("labels", [Y > 4, [*(Y[:-2] > 4).tolist(), None, [1, 2]]], ids=["booleans", "odd ones"])
def test_labels_of_any_type_are_no_leak(labels):
    assert check_estimator_purity(GaussianNB(), X, labels).pure


def test_too_little_to_check():
    with refused("purity.few-samples"):
        check_estimator_purity(GaussianNB(), X[:1], Y[:1])


OURS = FiniteAggregationClassifier(k=3, d=2)


@pytest.mark.parametrize(
    "pipe",
    [
        OURS,
        make_pipeline(OURS),
        make_pipeline(HashingVectorizer(), OURS),
        make_pipeline(Normalizer(), FunctionTransformer(), "passthrough", OURS),
        make_pipeline(FeatureUnion([("a", Normalizer()), ("b", "drop")]), OURS),
        make_pipeline(FiniteAggregationClassifier(make_pipeline(StandardScaler(), LogisticRegression()))),
    ],
)
def test_pipelines_that_learn_nothing_before_us_pass(pipe):
    assert check_pipeline(pipe) is None


@pytest.mark.parametrize(
    ("pipe", "step"),
    [
        (make_pipeline(StandardScaler(), OURS), "Step 'standardscaler'"),
        (make_pipeline(Normalizer(), TfidfVectorizer(), OURS), "Step 'tfidfvectorizer'"),
        (
            make_pipeline(make_pipeline(Normalizer(), StandardScaler()), OURS),
            "Step 'pipeline__standardscaler'",
        ),
        (
            make_pipeline(FeatureUnion([("n", Normalizer()), ("s", StandardScaler())]), OURS),
            "Step 'featureunion__s'",
        ),
        (
            make_pipeline(make_column_transformer((OneHotEncoder(), [0])), OURS),
            "Step 'columntransformer__onehotencoder'",
        ),
        (
            make_pipeline(make_column_transformer(("passthrough", [0]), remainder=StandardScaler()), OURS),
            "Step 'columntransformer__remainder'",
        ),
        (
            make_pipeline(make_column_transformer((Normalizer(), make_column_selector(dtype_include=float))), OURS),
            "Step 'columntransformer'",
        ),
    ],
)
def test_a_step_that_learned_from_all_rows_is_refused_and_told_its_place(pipe, step):
    with pytest.raises(ValueError, match=rf"{step} .* put it inside: FiniteAggregationClassifier\(make_pipeline\("):
        check_pipeline(pipe)


def test_what_is_not_our_pipeline_is_refused():
    with refused("pipeline.last-step"):
        check_pipeline(make_pipeline(StandardScaler(), GaussianNB()))
    with refused("type"):
        check_pipeline(GaussianNB())

"""Learners that are given fitted: found wherever the state hides, refused, or named as a premise with a digest."""

from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_digits
from sklearn.ensemble import VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, StandardScaler
from sklearn.utils import all_estimators

from poisonproof import (
    FiniteAggregationClassifier,
    PremiseWarning,
    check_estimator_purity,
    check_pipeline,
    registry,
    verify,
)
from poisonproof.data.dataset import Dataset
from poisonproof.learners.inspection import FITTED as PREMISE
from poisonproof.learners.inspection import describe, fitted_parts
from poisonproof.learners.presets import preset
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.run import run
from poisonproof.stochastic.classifiers import CertifiedBaggingClassifier
from refused import refused
from research.seed_averaged import SeedAveragedClassifier

X, Y = (part[:200] for part in load_digits(return_X_y=True))
SCALER = StandardScaler().fit(X)
OTHER = StandardScaler().fit(X[:100])
MEAN = X.mean(axis=0)


def minus(X, mean=0.0):
    return X - mean


def bound_in_closure(model):
    return lambda X: model.transform(X)


def by_name(X):
    return SCALER.transform(X)


@dataclass(frozen=True)
class Shift:
    """A map that holds what it takes away."""

    mean: object

    def __call__(self, X):
        return X - self.mean


class Encoder:
    """A callable object with a model inside."""

    def __init__(self, model):
        self.model = model

    def __call__(self, X):
        return self.model.transform(X)


class LoadsItself(ClassifierMixin, BaseEstimator):
    """Reads what it learned elsewhere when it is made."""

    def __init__(self, file="weights"):
        self.file = file
        self.model_ = GaussianNB().fit(X, Y)

    def fit(self, X, y):
        return self

    def predict(self, X):
        return self.model_.predict(X)


class KeepsItself(GaussianNB):
    """A clone of it is itself."""

    def __sklearn_clone__(self):
        return self


class OfAScript(GaussianNB):
    """As in a notebook: a method finds by name what was learned in the cell above."""

    def fit(self, X, y):
        return super().fit(X - MEAN, y)


OfAScript.__module__ = OfAScript.fit.__module__ = "__main__"


class ByTable(ClassifierMixin, BaseEstimator):
    """Holds what it is given; `clone` empties estimators in it and copies other objects as they are."""

    def __init__(self, models=None):
        self.models = models

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return self.models["one"].predict(X)


def through(function):
    return make_pipeline(FunctionTransformer(function), GaussianNB())


def hiding(scaler):
    """The same learner by every way that state takes, around a fitted scaler (or its mean)."""
    model = GaussianNB().fit(X + scaler.mean_, Y)
    return {
        "frozen": FrozenEstimator(model),
        "frozen step": make_pipeline(FrozenEstimator(scaler), GaussianNB()),
        "frozen voter": VotingClassifier([("a", GaussianNB()), ("b", FrozenEstimator(model))]),
        "frozen in seeds": SeedAveragedClassifier(FrozenEstimator(model), n_seeds=2),
        "keeps itself": KeepsItself().fit(X + scaler.mean_, Y),
        "bound method": through(scaler.transform),
        "closure": through(bound_in_closure(scaler)),
        "partial with an array": through(partial(minus, mean=scaler.mean_)),
        "partial with a method": through(partial(scaler.transform)),
        "dataclass with an array": through(Shift(scaler.mean_)),
        "callable object": through(Encoder(scaler)),
        "object in a table": ByTable({"one": Encoder(model)}),
        "array in its class": type("Shifted", (GaussianNB,), {"mean": scaler.mean_})(),
    }


@pytest.mark.parametrize("name", hiding(SCALER))
def test_state_that_survives_a_clone_is_refused_named_and_told_apart(name):
    learner, other = hiding(SCALER)[name], hiding(OTHER)[name]
    with refused("learner.fitted-part"):
        FiniteAggregationClassifier(learner, k=3, d=1, classes=range(10)).fit(X, Y)
    with refused("learner.fitted-part"):
        check_pipeline(make_pipeline(Normalizer(), FiniteAggregationClassifier(learner, k=3, d=1)))
    check_pipeline(FiniteAggregationClassifier(learner, k=3, d=1, trusted_state=True))
    assert describe(learner) != describe(other)
    assert describe(learner) == describe(hiding(SCALER)[name])


@pytest.mark.parametrize(
    "learner", [LoadsItself(), through(by_name), OfAScript()], ids=["loads itself", "global name", "method"]
)
def test_state_that_comes_with_the_code_is_refused_too(learner):
    with refused("learner.fitted-part"):
        FiniteAggregationClassifier(learner, k=3, d=1, classes=range(10)).fit(X, Y)


@lru_cache
def logarithm(X=None):
    return np.log1p(X)


@pytest.mark.parametrize(
    "learner",
    [
        *(preset(name) for name in registry.names("learners") if name != "text"),
        GaussianNB(priors=np.full(10, 0.1)),
        LogisticRegression().fit(X, Y),  # a clone of it is unfitted
        make_pipeline(StandardScaler().fit(X), GaussianNB()),
        through(np.log1p),
        through(minus),
        through(partial(minus, mean=2.0)),
        through(Shift(3.0)),
        through(logarithm),
        make_pipeline(make_column_transformer((OneHotEncoder(), make_column_selector(pattern="a"))), GaussianNB()),
        GaussianProcessClassifier(2.0 * RBF([1.0, 2.0]) + WhiteKernel()),
        SeedAveragedClassifier(GaussianNB(), random_state=np.random.RandomState(0)),
        ByTable({"one": GaussianNB().fit(X, Y)}),
    ],
)
def test_learners_that_a_clone_empties_pass(learner):
    assert fitted_parts(learner) == ()
    assert "given fitted" not in describe(learner)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_no_estimator_of_scikit_learn_is_taken_for_fitted():
    for _, kind in all_estimators():
        try:
            estimator = kind()
        except TypeError:
            continue
        assert fitted_parts(estimator) == ()


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (GaussianProcessClassifier(RBF(1.0)), GaussianProcessClassifier(RBF(1.00001))),
        (GaussianProcessClassifier(2 * RBF(1.0)), GaussianProcessClassifier(2 * RBF(1.0, (1e-3, 1e3)))),
        (through(np.log1p), through(np.exp)),
        (through(Shift(1.0).__call__), through(Shift(2.0).__call__)),
        (
            make_pipeline(make_column_transformer((OneHotEncoder(), make_column_selector(pattern="a"))), GaussianNB()),
            make_pipeline(make_column_transformer((OneHotEncoder(), make_column_selector(pattern="b"))), GaussianNB()),
        ),
        (through(Encoder(1)), through(Encoder(2))),
        (ByTable(np.array([[1], None], object)), ByTable(np.array([[2], None], object))),
        (ByTable({1, 2}), ByTable({1, 3})),
    ],
)
def test_learners_that_differ_out_of_sight_are_told_apart(one, two):
    assert describe(one) != describe(two)


def test_a_description_is_the_same_in_every_process():
    """No address, no order of a set, no state of a generator that every base classifier gets anew."""
    one = SeedAveragedClassifier(GaussianNB(), random_state=np.random.RandomState(0))
    two = SeedAveragedClassifier(GaussianNB(), random_state=np.random.RandomState(0))
    two.random_state.normal()
    assert describe(one) == describe(two)
    assert " at 0x" not in describe(one) + describe(through(Encoder(1)))
    assert describe(ByTable({"b", "a"})) == "ByTable(models={'a', 'b'})"


def test_trusted_state_is_a_premise_with_its_digest():
    learner = make_pipeline(FrozenEstimator(SCALER), GaussianNB())
    model = FiniteAggregationClassifier(learner, k=3, d=1, classes=range(10), trusted_state=True).fit(X, Y)
    said = str(model.certify(X[:3]))
    digest = fitted_parts(learner)[0].digest
    place = "estimator.steps[0][1] (FrozenEstimator of StandardScaler)"
    assert f"Premise: parts given fitted: {place} sha256 {digest} (declared)" in said
    other = FiniteAggregationClassifier(
        make_pipeline(FrozenEstimator(OTHER), GaussianNB()), k=3, d=1, classes=range(10), trusted_state=True
    ).fit(X, Y)
    assert not (model.subset_digests_ == other.subset_digests_).all(axis=1).any()


def test_the_purity_check_names_it():
    report = check_estimator_purity(FrozenEstimator(GaussianNB().fit(X, Y)), X, Y, k=2, d=1)
    assert not report.pure
    assert "Every base classifier shares what was given fitted: estimator (FrozenEstimator of GaussianNB)" in str(
        report
    )


def test_ensembles_over_draws_refuse_it_too():
    with refused("learner.fitted-part"):
        CertifiedBaggingClassifier(FrozenEstimator(GaussianNB().fit(X, Y)), n_draws=3).fit(X, Y)


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
def test_runs_state_it_and_verify_knows(tmp_path):
    dataset = Dataset.of("digits", X[:150], Y[:150], X[150:], Y[150:], np.arange(10))
    learner = make_pipeline(FrozenEstimator(SCALER), GaussianNB())
    model = FiniteAggregationClassifier(learner, k=3, d=1, classes=range(10), trusted_state=True)
    outcome = run(dataset, model, tmp_path / "run", RunSettings(undefended=False))
    assert any(premise.code == PREMISE for premise in outcome.manifest.premises)
    assert "fitted before the split: nothing, as far as can be seen (by default)" in map(str, outcome.manifest.premises)
    verdict = verify(tmp_path / "run", data=dataset, estimator=learner, retrain=3)
    assert verdict.ok, str(verdict)
    assert "what it was fitted on is the maker's word" in str(verdict)
    other = make_pipeline(FrozenEstimator(OTHER), GaussianNB())
    assert not verify(tmp_path / "run", data=dataset, estimator=other, retrain=3).ok
    again = FiniteAggregationClassifier.load(tmp_path / "run" / "models")
    again.update(remove=[0], data=(X[:150], Y[:150]))
    assert PREMISE in {premise.code for premise in again.premises_}


def test_a_pipeline_in_front_that_arrives_fitted_is_told_of():
    pipe = make_pipeline(
        FrozenEstimator(SCALER), FiniteAggregationClassifier(GaussianNB(), k=3, d=1, classes=range(10))
    )
    with pytest.warns(PremiseWarning, match="step 'frozenestimator' given fitted"):
        pipe.fit(X, Y)
    with refused("learner.fitted-part"):
        check_pipeline(pipe)

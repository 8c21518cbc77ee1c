"""A learner that averages the scores of several models of other seeds (DPA*)."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from poisonproof import FiniteAggregationClassifier
from research.seed_averaged import SeedAveragedClassifier


def test_seed_averaging_is_the_mean_of_its_models():
    X, y = load_iris(return_X_y=True)
    learner = SeedAveragedClassifier(DecisionTreeClassifier(max_features=1, max_depth=2), n_seeds=4, random_state=7)
    one, two = clone(learner).fit(X, y), clone(learner).fit(X, y)
    assert np.array_equal(one.predict_proba(X), two.predict_proba(X))
    assert not np.array_equal(
        one.predict_proba(X), clone(learner).set_params(random_state=8).fit(X, y).predict_proba(X)
    )
    assert len({model.random_state for model in one.models_}) == 4
    mean = np.mean([model.predict_proba(X) for model in one.models_], axis=0)
    assert np.allclose(one.predict_proba(X), mean, rtol=1e-15)
    assert (one.predict(X) == one.classes_[one.predict_proba(X).argmax(axis=1)]).all()
    model = FiniteAggregationClassifier(learner, k=4, d=1, classes=range(3)).fit(X, y)
    assert model.certify(X, method="run-off").exact.all()
    assert model.members_[1].model.models_[0].random_state != model.members_[2].model.models_[0].random_state


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (SeedAveragedClassifier(LogisticRegression(), n_seeds=0), "'n_seeds' .* whole number ≥ 1. Got 0"),
        (SeedAveragedClassifier(LogisticRegression(), n_seeds=True), "'n_seeds' .* whole number ≥ 1. Got True"),
        (SeedAveragedClassifier(BaseEstimator()), r"must have predict_proba, .* Got BaseEstimator\(\)"),
    ],
)
def test_bad_seed_averaging_gets_one_sentence(learner, message):
    with pytest.raises(ValueError, match=message):
        learner.fit([[0.0], [1.0]], [0, 1])

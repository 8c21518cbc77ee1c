"""Base classifiers of other packages, with the keywords that people really pass."""

from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from poisonproof import FiniteAggregationClassifier, check_estimator_purity

DATA = load_breast_cancer()
X, Y = DATA.data[:240], DATA.target[:240]


def lightgbm():
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=10, num_leaves=7, min_child_samples=5, verbose=-1, n_jobs=-1)


def xgboost():
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=10, max_depth=3, learning_rate=0.3, eval_metric="logloss", verbosity=0, n_jobs=-1)


def catboost():
    from catboost import CatBoostClassifier

    return CatBoostClassifier(iterations=10, depth=3, verbose=False, allow_writing_files=False, thread_count=-1)


def boosting():
    return HistGradientBoostingClassifier(max_iter=10, min_samples_leaf=5, early_stopping=False, verbose=0)


if find_spec("torch"):
    from torch import nn

    class Network(nn.Module):
        def __init__(self, hidden=8):
            super().__init__()
            self.layers = nn.Sequential(nn.BatchNorm1d(30), nn.Linear(30, hidden), nn.ReLU(), nn.Linear(hidden, 2))

        def forward(self, X):
            return self.layers(X.float())  # samples arrive as float64


def skorch():
    from skorch import NeuralNetClassifier

    keywords = {"max_epochs": 8, "lr": 0.3, "batch_size": 32, "train_split": None, "verbose": 0}
    return make_pipeline(StandardScaler(), NeuralNetClassifier(Network, criterion=nn.CrossEntropyLoss, **keywords))


LEARNERS = {"lightgbm": lightgbm, "xgboost": xgboost, "catboost": catboost, "sklearn": boosting, "skorch": skorch}


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
@pytest.mark.parametrize("package", LEARNERS)
def test_learners_of_other_packages_are_base_classifiers(package):
    for needed in (package, *(["torch"] if package == "skorch" else [])):  # which skorch needs and does not ask for
        if not find_spec(needed):
            pytest.skip(f"NOT TESTED: {needed} is not installed; pip install {needed}")
    learner = LEARNERS[package]()
    model = FiniteAggregationClassifier(learner, k=5, d=1, classes=[0, 1], n_jobs=1).fit(X[:180], Y[:180])
    certificate = model.certify(X[180:])
    assert all(member.failure is None for member in model.members_)
    assert certificate.evaluate(Y[180:]).balanced_accuracy > 0.75
    order = np.random.default_rng(0).permutation(180)
    again = FiniteAggregationClassifier(learner, k=5, d=1, classes=[0, 1], n_jobs=1).fit(X[:180][order], Y[:180][order])
    assert np.array_equal(again.votes(X[180:]).matrix, model.votes(X[180:]).matrix)
    report = check_estimator_purity(learner, X[:60], Y[:60], max_test=10)
    assert report.pure, str(report)

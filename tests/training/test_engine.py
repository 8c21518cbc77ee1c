"""The seam: whichever engine a learner has, some subsets alone vote as they do among all the others."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.naive_bayes import GaussianNB

import poisonproof
from poisonproof import FiniteAggregationClassifier
from poisonproof.estimators.prepared import prepare
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from poisonproof.training.engine import engine_of

X, Y = load_wine(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
LEARNERS = {"member by member": GaussianNB(), "pooled": KernelRidgeClassifier(gamma=0.05)}


@pytest.mark.parametrize("rankings", [False, True])
@pytest.mark.parametrize("name", LEARNERS)
def test_some_subsets_alone_vote_as_among_all(name, rankings):
    learner = LEARNERS[name]
    prepared = prepare(FiniteAggregationClassifier(learner, k=4, d=3, classes=range(3)), X[::2], Y[::2])
    engine, test = engine_of(learner), prepared.split.samples(X[1::2])
    assert engine.pooled == (name == "pooled")
    everyone = engine.fit(prepared.training).votes(test, 3, rankings=rankings)
    for some in ([7], [2, 11, 3], []):
        alone = engine.votes(prepared.training, some, test, 3, rankings=rankings)
        assert np.array_equal(alone, everyone[:, some])


@pytest.mark.parametrize("name", LEARNERS)
def test_blocks_cover_every_vote_once(name):
    covered = np.zeros((2500, 150), int)
    for number, block in enumerate(engine_of(LEARNERS[name]).blocks(150, 2500)):
        assert block.number == number
        covered[block.cut] += 1
    assert (covered == 1).all()


def test_only_the_seam_knows_which_learners_are_pooled():
    home = Path(poisonproof.__file__).parent
    asking = [path.name for path in home.rglob("*.py") if re.search(r"hasattr\(\w+, .share.\)", path.read_text())]
    assert asking == ["engine.py"]


def test_fitted_base_classifiers_have_the_name_that_scikit_learn_gives_them():
    model = FiniteAggregationClassifier(GaussianNB(), k=4, d=2, classes=range(3)).fit(X, Y)
    assert [type(one) for one in model.estimators_] == [GaussianNB] * 8
    pooled = FiniteAggregationClassifier(LEARNERS["pooled"], k=4, d=2, classes=range(3)).fit(X, Y)
    assert not hasattr(pooled, "estimators_")

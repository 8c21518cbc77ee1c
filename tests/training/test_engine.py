"""The seam: whichever engine a learner has, some subsets alone vote as they do among all the others."""

import re
from pathlib import Path

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.datasets import load_wine
from sklearn.naive_bayes import GaussianNB

import poisonproof
from ensembles import FirstSeen, PooledFirstSeen, first_seen
from poisonproof import FiniteAggregationClassifier, TableClassifier
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
    everyone = engine.fit(learner, prepared.source).votes(test, 3, rankings=rankings)
    for some in ([7], [2, 11, 3], []):
        alone = engine.votes(learner, prepared.source, some, test, 3, rankings=rankings)
        assert np.array_equal(alone, everyone[:, some])


@pytest.mark.parametrize("learner", [FirstSeen(), PooledFirstSeen()], ids=LEARNERS)
@pytest.mark.parametrize("backend", ["sequential", "threading", "loky"])
def test_every_engine_feeds_rows_in_the_order_that_their_content_gives(learner, backend):
    model = FiniteAggregationClassifier(learner, k=4, d=3, classes=range(3), n_jobs=2)
    with parallel_config(backend):
        votes = model.fit(X[::2], Y[::2]).votes(X[1::2]).matrix
    expected = first_seen(X[::2], Y[::2], model.spread_, len(votes))
    assert len(np.unique(expected)) == 3
    assert np.array_equal(votes, expected)


def test_stacked_base_classifiers_are_to_the_bit_those_of_rows_in_that_order():
    model = FiniteAggregationClassifier(TableClassifier(), k=4, d=3, classes=range(3)).fit(X[::2], Y[::2])
    assert model.members_.stacked is not None
    samples = model.split_.samples(X[::2])
    partition, hashes = model.split_.partitions(samples, 12), samples.hashes()
    order = np.argsort(hashes)
    for i, fitted in enumerate(model.estimators_):
        rows = order[np.isin(partition[order], model.spread_.partitions_of(i))]
        alone, turned = (TableClassifier().fit(X[::2][own], Y[::2][own]).weights_ for own in (rows, rows[::-1]))
        assert np.array_equal(fitted.weights_, alone)
        assert not np.array_equal(alone, turned), "weights that do not mind the order would show nothing"


@pytest.mark.parametrize("name", LEARNERS)
def test_blocks_cover_every_vote_once(name):
    covered = np.zeros((2500, 150), int)
    for number, block in enumerate(engine_of(LEARNERS[name]).grid(150, 2500)):
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

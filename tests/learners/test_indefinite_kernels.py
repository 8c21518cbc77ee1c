"""A subset whose kernel matrix is not positive definite is solved with a larger ridge, and stops nobody else.

Kernel values are read off a table, whose steps may be wider than the distance of two samples: of three samples in a row
the neighbours then count as equal and the ends as different, which no positive semidefinite matrix can say. Copies of
them multiply the contradiction until the ridge does not cover it.
"""

from dataclasses import dataclass

import numpy as np
import pytest

from poisonproof import FiniteAggregationClassifier, PremiseWarning, Split, registry
from poisonproof.estimators.prepared import prepare
from poisonproof.learners.feature_maps import VectorFeatures
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from poisonproof.learners.presets import HEAD, preset
from poisonproof.training.engine import engine_of
from poisonproof.training.members import fit_member, ranking_of, vote_of
from poisonproof.training.pooled import load_pooled, save_pooled
from refused import refused

POOLED = [name for name in registry.names("learners") if engine_of(preset(name)).pooled]
CLUSTERS = np.array([6.0, 6 + 1 / 64, 6 + 2 / 64])
NAMED = KernelRidgeClassifier(gamma=0.5, ridge=0.003)
K, D = 20, 2
ENCODED = 2048.0  # steps per unit of an encoder, whose numbers the preset for embeddings takes as they are


@dataclass(frozen=True)
class Planted:
    """Samples that are features already, in the steps, copies and halves of a preset's feature map."""

    scale: float
    copies: int = 1
    mirrored: bool = False

    def __call__(self, X, *, training=False):
        rows = np.repeat(np.asarray(X, np.float64).astype(np.int16)[:, None], self.copies if training else 1, axis=1)
        return np.concatenate([rows, rows], axis=2) if self.mirrored else rows


def planted(name):
    """The preset on samples that are features, and three of them in a row that its table contradicts itself about."""
    learner = preset(name)
    features = learner.features or Planted(ENCODED)
    mirrored = bool(getattr(features, "mirrored", False))
    learner.set_params(features=Planted(float(features.scale), features.copies, mirrored))
    step = learner.share(np.zeros((1, 2)))._table[2]
    halves = 2 if mirrored else 1
    gap = next(g for g in range(1, 500) if g**2 * halves * step < 0.5 <= 4 * g**2 * halves * step)
    return learner, np.array([[0, 0], [gap, 0], [2 * gap, 0]], np.float64)


def in_one_partition(rows, split, n_partitions, partition):
    """The rows with a second coordinate too small for the features to see, so that all fall into one partition."""
    chosen = []
    for row in rows:
        tries = np.column_stack([np.full(4000, row), np.arange(4000) * 1e-7])
        place = split.partitions(split.samples(tries), n_partitions)
        chosen.append(tries[np.flatnonzero(place == partition)[0]])
    return np.array(chosen)


def honest_rows():
    rng = np.random.default_rng(0)
    y = np.arange(400) % 3
    return np.column_stack([y + rng.normal(0, 0.4, 400), rng.normal(0, 0.4, 400)]), y


def test_insertions_into_one_partition_reach_its_base_classifiers_only():
    X, y = honest_rows()
    test = np.vstack([X[:80] + 0.05, np.column_stack([CLUSTERS, np.zeros(3)])])
    model = FiniteAggregationClassifier(NAMED, k=K, d=D, classes=[0, 1, 2]).fit(X, y)
    clean = model.votes(test, rankings=True).rankings
    inserted = np.repeat(in_one_partition(CLUSTERS, model.split_, K * D, 7), 18, axis=0)
    with pytest.warns(PremiseWarning, match=r"2 of 40 base classifiers .* not positive definite, so their ridge"):
        model.fit(np.vstack([X, inserted]), np.append(y, np.arange(54) % 2))
    votes = model.votes(test, rankings=True).rankings
    reached = model.spread_.subsets_of(7)
    others = np.setdiff1d(np.arange(K * D), reached)
    assert (votes[:, others] == clean[:, others]).all()
    assert sorted(model.members_.raised) == sorted(reached)
    assert all(ridge > NAMED.ridge for ridge in model.members_.raised.values())


@pytest.mark.parametrize("name", POOLED)
def test_every_preset_solves_what_its_table_contradicts_itself_about(name):
    learner, rows = planted(name)
    rng = np.random.default_rng(1)
    wide = learner.features.scale
    honest = np.rint(rng.normal(0, 0.3 * wide, (60, 2)))
    each = 750 // learner.features.copies
    X, y = np.vstack([np.repeat(rows, each, axis=0), honest]), np.append(np.arange(3 * each) % 2, np.arange(60) % 3)
    alone = learner.fit(X, y)
    if name == HEAD:  # its ridge is larger than any such contradiction
        assert alone.ridge_ == alone.ridge
    else:
        assert alone.ridge_ > alone.ridge
    assert alone.ridge_ / alone.ridge == 2 ** round(np.log2(alone.ridge_ / alone.ridge))
    assert np.isfinite(alone.decision_function(honest)).all()
    assert learner.fit(honest, y[-60:]).ridge_ == learner.ridge


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
def test_together_and_alone_vote_the_same():
    X, y = honest_rows()
    split = Split()
    inserted = np.repeat(in_one_partition(CLUSTERS, split, K * D, 3), 30, axis=0)
    X, y = np.vstack([X, inserted]), np.append(y, np.arange(90) % 3)
    model = FiniteAggregationClassifier(NAMED, k=K, d=D, classes=[0, 1, 2]).fit(X, y)
    source, test = prepare(model, X, y).source, model.split_.samples(X[:60] + 0.05)
    rankings = model.votes(X[:60] + 0.05, rankings=True).rankings
    for i in (*model.spread_.subsets_of(3), 0):
        member = fit_member(NAMED, int(i), source.subset(int(i)))
        assert member.failure is None
        fed = test.take(np.arange(60), member.form)
        votes = vote_of(member, fed, 60, 3)[0]
        assert (rankings[:, i] == ranking_of(member, fed, votes, 3)[0]).all()
        assert member.model.ridge_ == model.members_.raised.get(int(i), NAMED.ridge)


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
def test_what_was_raised_is_kept_and_updated(tmp_path):
    X, y = honest_rows()
    inserted = np.repeat(in_one_partition(CLUSTERS, Split(), K * D, 3), 30, axis=0)
    more, labels = np.vstack([X, inserted]), np.append(y, np.arange(90) % 3)
    model = FiniteAggregationClassifier(NAMED, k=K, d=D, classes=[0, 1, 2]).fit(more, labels)
    raised = model.members_.raised
    save_pooled(tmp_path, model.members_, model.subset_digests_)
    assert load_pooled(tmp_path, NAMED, 3).raised == raised
    model.update(remove=[0])
    assert model.members_.raised == raised
    model.update(remove=np.arange(399, 489))
    assert model.members_.raised == {}


def test_no_ridge_is_too_small_and_no_row_too_empty():
    """A zero row has a kernel of zeros, so nothing but the ridge holds it up."""
    X = np.vstack([np.zeros((3, 2)), np.eye(2), np.eye(2)])
    learner = KernelRidgeClassifier(kernel="linear", ridge=1e-300).fit(X, [0, 1, 0, 0, 1, 0, 1])
    assert np.isfinite(learner.decision_function(X)).all()
    assert 1e-300 < learner.ridge_ < 1e-6


@pytest.mark.parametrize("wrong", [{"gamma": np.inf}, {"ridge": np.inf}, {"gamma": np.nan}])
def test_a_width_or_ridge_without_end_is_refused(wrong):
    with refused("learner.parameter"):
        KernelRidgeClassifier(**wrong).fit(np.eye(3), [0, 1, 0])


def test_a_unit_without_inverse_is_refused():
    with refused("map.parameter"):
        KernelRidgeClassifier(VectorFeatures(scale=1e-200), kernel="linear").fit(np.eye(3), [0, 1, 0])


def test_lack_of_memory_is_passed_on(monkeypatch):
    def full(matrix, targets):
        raise MemoryError("no room")

    monkeypatch.setattr("poisonproof.learners.kernel_ridge.solve_in_place", full)
    X, y = honest_rows()
    with pytest.raises(MemoryError, match="no room"):
        FiniteAggregationClassifier(NAMED, k=K, d=D, classes=[0, 1, 2]).fit(X, y)

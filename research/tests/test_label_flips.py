"""White-box label flips: every labelling of small ensembles, the formulas word for word, and real retraining."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB

from poisonproof import FiniteAggregationClassifier, Votes, load
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from research.label_flips import certificate as label_flips
from research.label_flips.certificate import _Inside, certify_label_flips
from research.label_flips.cholesky import Factor, system
from research.label_flips.kernels import NEVER, flip_radii, member_costs, weighted_member_costs
from research.tests.label_flip_oracle import member_cost, radius, random_ensemble, smallest_attack, weighted_member_cost

LEARNER = KernelRidgeClassifier(kernel="rbf", gamma=0.001, ridge=0.3, balance=0.0)
CLASSES = list(range(10))


def costs_of(g, labels, votes, n_classes, feeding, balance=0.0):
    costs = np.full((1, len(votes), n_classes), NEVER, np.int32)
    for i, own in enumerate(feeding):
        held = np.unique(labels[own])
        if len(held) == 1:
            costs[0, i] = 1
            costs[0, i, votes[i]] = 0
        if len(held) > 1:
            scores = np.array([[g[i, own][labels[own] == c].sum()] for c in range(n_classes)])
            rows, nothing = np.ascontiguousarray(g[i, own][:, None]), np.zeros((len(own), 1))
            if balance:
                said = votes[i : i + 1]
                weighted_member_costs(rows, nothing, labels[own], n_classes, balance, said, costs[:, i])
                weighted = (g[i, own].tolist(), labels[own].tolist(), n_classes, int(votes[i]))
                references = [weighted_member_cost(*weighted, c, balance) for c in range(n_classes)]
                assert costs[0, i].tolist() == references
                continue
            member_costs(rows, nothing, labels[own], scores, np.zeros_like(scores), votes[i : i + 1], costs[:, i])
            references = [member_cost(g[i, own], labels[own], scores[:, 0], votes[i], c) for c in range(n_classes)]
            assert costs[0, i].tolist() == references
    return costs


@pytest.mark.parametrize("balance", [0.0, 0.5, 0.7, -0.4])
def test_no_labelling_breaks_a_radius_and_the_kernels_compute_the_formulas(balance):
    """400 small ensembles, every labelling of every sample."""
    rng = np.random.default_rng(1)
    positive = exact = 0
    for _ in range(400):
        g, labels, votes, table, n_classes, feeding = random_ensemble(rng, balance)
        costs = costs_of(g, labels, votes, n_classes, feeding, balance)
        prediction, found = np.empty(1, np.int64), np.empty(1, np.int64)
        flip_radii(votes[None], costs, n_classes, table.shape[1], len(labels), prediction, found)
        known = [None if cost[0] == NEVER else cost for cost in costs[0].tolist()]
        assert found[0] == radius(votes, known, n_classes, table.shape[1], len(labels))
        smallest = smallest_attack(g, labels, votes, table, n_classes, feeding, balance)
        assert found[0] < smallest, (g, labels, votes, table)
        positive += found[0] > 0
        exact += found[0] + 1 == smallest
    assert positive > 70
    assert exact > 100


@pytest.fixture(scope="module")
def digits():
    return load("digits")


@pytest.fixture(scope="module", params=[(8, 1, 0.0), (6, 2, 0.0), (8, 1, 0.6)], ids=["d1", "d2", "weighted"])
def fitted(digits, request):
    k, d, balance = request.param
    learner = clone(LEARNER).set_params(balance=balance)
    model = FiniteAggregationClassifier(learner, k=k, d=d, classes=CLASSES, n_jobs=1)
    model.fit(digits.train.X, digits.train.labels)
    votes = model.votes(digits.test.X[:60])
    return learner, votes, certify_label_flips(votes, learner, digits.train.X, digits.train.labels, digits.test.X[:60])


def test_radii_are_those_of_the_formulas_and_gain_on_the_black_box(fitted, digits):
    learner, votes, found = fitted
    assert (found.radius >= found.black_box).all()
    assert found.radius.sum() > 1.5 * found.black_box.sum()
    assert np.array_equal(found.prediction, votes.counts().argmax(axis=1))
    alone = certify_label_flips(votes, learner, digits.train.X, digits.train.labels, digits.test.X[:60], n_jobs=1)
    assert np.array_equal(alone.radius, found.radius)
    assert "label flips: to other declared classes; nothing else (declared)" in [
        premise.words for premise in found.premises
    ]


def test_real_retraining_does_not_break_a_radius(fitted, digits):
    """The samples with the largest benefit for the runner-up, in the base classifiers that vote for the winner."""
    learner, votes, found = fitted
    rng = np.random.default_rng(2)
    split, spread = votes.split, votes.spread
    samples = split.samples(digits.train.X)
    partition = split.partitions(samples, spread.n_partitions)
    pool = LEARNER.share(samples.take(np.arange(len(samples))))
    kernel = pool.kernel_columns(pool.test_features(split.samples(digits.test.X[:60]).take(np.arange(60))))
    broken_beyond = 0
    for t in rng.choice(60, 6, replace=False):
        p, c = np.argsort(-votes.counts()[t], kind="stable")[:2]
        size = int(found.radius[t])
        order = []
        for i in np.argsort(votes.matrix[t] != p, kind="stable"):
            own = np.flatnonzero(np.isin(partition, spread.partitions_of(i)))
            g = np.linalg.solve(system(pool, own, LEARNER.ridge), kernel[own, t].astype(float))
            best = own[np.argsort(-np.where(digits.train.labels[own] == p, 2 * g, g))[: 2 + size // 3]]
            order += [sample for sample in best.tolist() if sample not in order]
        for flips in (size, 4 * size + 4):
            y = digits.train.labels.copy()
            y[order[:flips]] = c
            again = FiniteAggregationClassifier(learner, spread=spread, classes=CLASSES, n_jobs=1)
            changed = again.fit(digits.train.X, y).predict(digits.test.X[t : t + 1])[0] != p
            assert not (changed and flips <= size)
            broken_beyond += bool(changed)
    assert broken_beyond >= 3


@pytest.mark.parametrize("balance", [0.0, 0.7])
def test_the_rounding_margin_covers_what_base_classifiers_compute(digits, balance):
    """Scores in single precision, after random flips, lie within the margin of the exact ones; it is small."""
    rng = np.random.default_rng(3)
    own = rng.choice(len(digits.train), 120, replace=False)
    pool = clone(LEARNER).set_params(balance=balance).share(digits.train.X)
    kernel = pool.kernel_columns(pool.test_features(digits.test.X[:20]))
    inside = _Inside(pool, own, digits.train.labels[own], kernel)
    assert (inside.base < 0.03).all()
    for flips in (0, 1, 5, 40):
        y = digits.train.labels[own].copy()
        changed = rng.choice(120, flips, replace=False)
        y[changed] = (y[changed] + 1 + rng.integers(0, 9, flips)) % 10
        solution = pool.solve(own, y)
        scores = np.zeros((10, 20), np.float32)
        for q, row in enumerate(own):
            scores += solution.coefficients.reshape(120, 10)[q][:, None] * kernel[row]
        weight = (12 / np.bincount(y, minlength=10))[:, None] ** balance
        exact = weight * (np.eye(10)[y].T @ inside.g)
        margin = weight * (np.eye(10)[y].T @ inside.extra)  # what is counted with class weights
        if balance == 0:
            margin = np.maximum(margin, inside.base + inside.extra[changed].sum(axis=0))
        if flips == 0:
            assert (np.abs(scores - inside.scores) <= inside.base).all()
        assert (np.abs(scores - exact) <= margin).all()
    assert np.abs(scores - exact).max() > 0


@pytest.mark.parametrize("balance", [0.0, 0.7])
def test_what_is_inside_follows_from_plain_linear_algebra(digits, balance):
    """An inverse from every unit vector, in double precision; the bounds never fall below its own."""
    own = np.random.default_rng(4).choice(len(digits.train), 150, replace=False)
    pool = clone(LEARNER).set_params(balance=balance).share(digits.train.X)
    kernel = pool.kernel_columns(pool.test_features(digits.test.X[:30]))
    inside = _Inside(pool, own, digits.train.labels[own], kernel)
    solution = pool.solve(own, digits.train.labels[own])
    matrix, column = system(pool, own, solution.ridge), kernel[own].astype(float)
    inverse = np.abs(np.linalg.inv(matrix))
    single, double = 152 * 2.0**-24, 451 * 2.0**-53
    eta, gamma = 4 * single / (1 - single), 4 * double / (1 - double) * matrix.diagonal().max()
    norms = np.abs(np.linalg.solve(matrix, column)).sum(axis=0)
    extra = eta * (inverse @ np.abs(column)) + 2 * gamma * inverse.sum(axis=1)[:, None] * norms
    assert np.allclose(inside.g, np.linalg.solve(matrix, column), rtol=0, atol=1e-12)
    assert (inside.extra >= extra * (1 - 1e-9)).all()
    assert (inside.extra <= extra * 1.001).all()
    coefficients = np.abs(solution.coefficients.reshape(150, -1).astype(float))
    counts = np.bincount(digits.train.labels[own])
    weight = ((150 / len(counts) / counts) ** balance)[:, None]
    errors = np.eye(10)[digits.train.labels[own]].T @ (gamma * inverse.sum(axis=1)[:, None] * norms)
    base = eta * coefficients.T @ np.abs(column) + gamma * coefficients.sum(axis=0)[:, None] * norms + weight * errors
    assert np.allclose(inside.base, base, rtol=1e-13, atol=0)


def test_batches_of_test_samples_give_what_all_of_them_give(fitted, digits, monkeypatch):
    learner, votes, found = fitted
    monkeypatch.setattr(label_flips, "FEWEST_TESTS_AT_ONCE", 7)
    monkeypatch.setattr(label_flips, "BYTES_AT_ONCE", 0)
    again = certify_label_flips(votes, learner, digits.train.X, digits.train.labels, digits.test.X[:60])
    assert np.array_equal(again.radius, found.radius)
    assert np.array_equal(again.prediction, found.prediction)


def test_what_cannot_be_certified_is_refused_in_one_sentence(fitted, digits):
    learner, votes, _ = fitted
    given = (digits.train.X, digits.train.labels, digits.test.X[:60])
    with pytest.raises(TypeError, match="need a KernelRidgeClassifier"):
        certify_label_flips(votes, GaussianNB(), *given)
    inferred = Votes(votes.matrix, votes.spread, CLASSES, votes.split, classes_inferred=True)
    with pytest.raises(ValueError, match="need declared classes"):
        certify_label_flips(inferred, learner, *given)
    with pytest.raises(ValueError, match="need a known split"):
        certify_label_flips(Votes(votes.matrix, votes.spread, CLASSES), learner, *given)
    with pytest.raises(ValueError, match="are not those of this learner on these data"):
        certify_label_flips(votes, learner, digits.train.X, np.roll(digits.train.labels, 1), digits.test.X[:60])
    with pytest.raises(ValueError, match="about 60 test samples, but there are 59"):
        certify_label_flips(votes, learner, digits.train.X, digits.train.labels, digits.test.X[:59])
    with pytest.raises(ValueError, match="samples but 10 labels"):
        certify_label_flips(votes, learner, digits.train.X, digits.train.labels[:10], digits.test.X[:60])


@pytest.mark.parametrize("n", [1, 2, 7, 333])
def test_the_inverse_is_that_of_every_unit_vector(n):
    rows = np.random.default_rng(0).normal(size=(n, n))
    matrix = rows @ rows.T / n + 0.1 * np.eye(n)
    slow = np.linalg.inv(matrix)
    found = Factor(matrix.copy(), n).inverse()
    assert (found == found.T).all()
    assert np.allclose(found, slow, rtol=1e-10, atol=1e-12)

"""Classifiers over random subsets: the draws are what they claim, and the certificate follows from their votes."""

import warnings
from math import sqrt

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import enumerated
from drawn import binomial
from poisonproof import (
    CertifiedBaggingClassifier,
    InfiniteAggregationClassifier,
    PremiseWarning,
    StochasticCertificate,
)
from poisonproof.learners.feature_maps import VectorFeatures
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from poisonproof.samples.convert import to_samples
from poisonproof.samples.kinds import canonical_rank
from poisonproof.stochastic import classifiers as stochastic
from poisonproof.stochastic.classifiers import Draws
from poisonproof.stochastic.radii import (
    bagging_radii,
    binomial_selection_radii,
    bound_leads,
    bound_terms,
    infinite_aggregation_radii,
)
from refused import refused

ALL = (InfiniteAggregationClassifier, binomial, CertifiedBaggingClassifier)
X, Y = load_iris(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(150)
TRAIN, TEST = ORDER[:110], ORDER[110:]


def drawn(X, labels, k=4, n_draws=6000, seed=3):
    samples = to_samples(X)
    labels = [float(label) for label in labels]
    rank = canonical_rank(samples, np.array(labels, np.int64))
    return Draws.bernoulli(samples, labels, rank, k, n_draws, seed), rank


def within(successes, trials, p, sigmas=4.5):
    return abs(successes - trials * p) <= sigmas * sqrt(trials * p * (1 - p)) + 1


def test_each_sample_is_drawn_with_probability_one_in_k_whatever_the_others_do():
    """Equal samples too, and samples that differ in their label only."""
    points = [[1.0], [1.0], [1.0], [2.0], [3.0]]
    draws, _ = drawn(points, [0, 0, 1, 1, 0])
    holding = draws.holding.toarray()
    assert holding.max() == 1
    for one in range(5):
        assert within(holding[one].sum(), 6000, 1 / 4)
        for two in range(one):
            assert within((holding[one] & holding[two]).sum(), 6000, 1 / 16)
    assert within((holding[:, 1:] & holding[:, :-1]).sum(), 5 * 5999, 1 / 16)
    assert draws.sizes.tolist() == holding.sum(axis=0).tolist()
    assert len(set(draws.seeds.tolist())) > 5990


def test_inserting_a_sample_moves_no_other_and_order_does_not_matter():
    points = np.array([[1.0], [5.0], [1.0], [2.0], [3.0]])
    labels = np.array([0, 0, 0, 1, 1])
    before = drawn(points, labels)[0].holding.toarray()
    after = drawn(np.vstack([points, [[1.0]], [[2.0]], [[9.0]]]), [*labels, 1, 0, 0])[0].holding.toarray()
    assert (before == after[:5]).all()
    shuffled = np.array([3, 2, 4, 1, 0])
    turned, rank = drawn(points[shuffled], labels[shuffled])
    for i in range(40):
        rows = turned.rows(i)
        assert (np.diff(rank[rows]) > 0).all()
        assert sorted(points[shuffled][rows, 0]) == sorted(points[before[:, i] == 1, 0])
    assert (drawn(points, labels, seed=4)[0].holding.toarray() != before).any()
    assert drawn(points, labels, k=1, n_draws=3)[0].sizes.tolist() == [5, 5, 5]


def test_bagging_draws_uniformly_with_replacement():
    rank = np.array([2, 0, 3, 1])
    draws = Draws.with_replacement(rank, 3, 5000, 1)
    rows = draws.flat.reshape(5000, 3)
    assert (np.diff(rank[rows], axis=1) >= 0).all()
    for row in range(4):
        assert within((rows == row).sum(), 15000, 1 / 4)
    assert within((rows[:, :1] == rows).all(axis=1).sum(), 5000, 1 / 16)


def test_draws_are_what_they_were():
    """A function of the seed, the same in every version: their salt keeps its bytes."""
    drawn = Draws.with_replacement(np.arange(9), subset_size=4, n_draws=2, seed=7)
    assert drawn.flat.tolist() == [0, 1, 6, 6, 4, 5, 6, 6]
    assert drawn.seeds.tolist() == [1083994226, 1166551265]


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
@pytest.mark.parametrize("classifier", [binomial, CertifiedBaggingClassifier])
def test_votes_have_the_probabilities_that_enumeration_gives(classifier):
    """Six samples, a learner that says the most frequent class: the whole way from data to counts."""
    data, n_draws = (3, 2, 1), 1200

    def most_frequent(part):
        return int(np.argmax(part)) if sum(part) else 3

    labels = np.repeat(np.arange(3), data)
    options = {"k": 2} if classifier is binomial else {"subset_size": 2}
    model = classifier(DummyClassifier(), n_draws=n_draws, classes=range(3), seed=11, **options)
    model.fit(np.arange(6.0)[:, None], labels)
    p = (
        enumerated.bernoulli(data, 2, most_frequent, 3)
        if classifier is binomial
        else enumerated.bagged(data, 2, most_frequent, 3)
    )
    counts = model._counts(model.vote_matrix([[0.0]]))[0]
    for c in range(3):
        assert within(counts[c], n_draws, float(p[c]))
    certificate = model.certify([[0.0]])
    assert not certificate.abstained[0]
    assert certificate.prediction[0] == enumerated.winner(p)


@pytest.mark.parametrize("classifier", ALL)
@pytest.mark.parametrize("declared", [True, False])
def test_certificate_is_that_of_base_classifiers_fitted_by_hand(classifier, declared):
    tree = DecisionTreeClassifier(max_features=2)
    bagging = classifier is CertifiedBaggingClassifier
    options = {"subset_size": 11} if bagging else {"k": 10}
    if classifier is InfiniteAggregationClassifier:
        options["conditionals"] = True
    model = classifier(tree, n_draws=120, seed=5, alpha=0.01, classes=range(3) if declared else None, **options)
    model.fit(X[TRAIN], Y[TRAIN])
    certificate = model.certify(X[TEST])
    votes = np.empty((len(TEST), 120), int)
    for i in range(120):
        rows = model.draws_.rows(i)
        member = DecisionTreeClassifier(max_features=2, random_state=model.draws_.seed(i))
        votes[:, i] = member.fit(X[TRAIN][rows], Y[TRAIN][rows]).predict(X[TEST])
    counts = np.stack([(votes == c).sum(axis=1) for c in range(3)], axis=1)
    if classifier is InfiniteAggregationClassifier:
        holding = model.draws_.holding.toarray()
        conditional = [np.stack([holding @ (row == c) for c in range(3)], axis=1) for row in votes]
        leads = bound_leads(counts, 120, 0.005, unseen=not declared)
        terms = list(bound_terms(conditional, holding.sum(axis=1), leads, 0.005))
        radii = infinite_aggregation_radii(leads, 10, 110, terms)
    else:
        leads = bound_leads(counts, 120, 0.01, unseen=not declared)
        radii = bagging_radii(leads, 110, 11) if bagging else binomial_selection_radii(leads, 10)
    assert certificate.prediction.tolist() == counts.argmax(axis=1).tolist()
    assert certificate.abstained.tolist() == radii.abstained.tolist()
    assert certificate.radius.tolist() == radii.radius.tolist()
    assert certificate.radius_changed.tolist() == radii.changed.tolist()
    assert certificate.radius.max() > 1
    assert certificate.method == model.method
    assert model.predict(X[TEST]).tolist() == certificate.prediction.tolist()
    assert np.allclose(model.predict_proba(X[TEST]), counts / 120)
    answered = model.predict(X[TEST], min_radius=1)
    assert answered.mask.tolist() == (certificate.abstained | (certificate.radius < 1)).tolist()


def test_the_two_kinds_of_bounds_share_alpha(monkeypatch):
    spent = []
    for name in ("bound_leads", "bound_terms"):
        bound = getattr(stochastic, name)

        def spy(*given, bound=bound, at=2 if name == "bound_leads" else 3, **named):
            spent.append(given[at])
            return bound(*given, **named)

        monkeypatch.setattr(stochastic, name, spy)
    model = InfiniteAggregationClassifier(GaussianNB(), k=5, n_draws=30, alpha=0.01, classes=range(3)).fit(X, Y)
    model.certify(X[:3])
    assert spent == [0.01]
    model.set_params(conditionals=True).certify(X[:3])
    assert len(spent) == 3
    assert 0 < spent[2] < spent[1] + spent[2] <= 0.01


def test_results_depend_on_neither_workers_nor_order_nor_parameters_set_later():
    def fitted(rows=TRAIN, **options):
        options = {"seed": 0, **options}
        return binomial(GaussianNB(), k=8, n_draws=60, classes=range(3), **options).fit(X[rows], Y[rows])

    model = fitted()
    certificate = model.certify(X[TEST])
    for other in (fitted(n_jobs=2), fitted(TRAIN[::-1])):
        assert other.certify(X[TEST]).radius.tolist() == certificate.radius.tolist()
    model.set_params(k=1000, seed=9, classes=None)
    later = model.certify(X[TEST])
    assert later.radius.tolist() == certificate.radius.tolist()
    assert later.seed == 0
    assert fitted(seed=1).draws_.flat.tolist() != model.draws_.flat.tolist()


def written_for(seed, n_rows=22, n_samples=1000, k=50, n_draws=1000):
    """Rows of class B, chosen so that nearly every draw of a known seed holds one of them; the rest says A."""
    candidates = 1 + np.arange(20_000)[:, None] / 40_000
    held = drawn(candidates, np.ones(20_000), k, n_draws, seed)[0].holding.toarray().astype(bool)
    free, chosen = np.ones(n_draws, bool), []
    for _ in range(n_rows):
        chosen.append(int(held[:, free].sum(axis=1).argmax()))
        free &= ~held[chosen[-1]]
    points = np.concatenate([-1 - np.arange(n_samples - n_rows)[:, None] / 8000, candidates[chosen]])
    return points, np.repeat([0, 1], [n_samples - n_rows, n_rows])


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
@pytest.mark.parametrize(("classifier", "false"), [(InfiniteAggregationClassifier, 3), (binomial, 5)])
def test_nobody_can_write_rows_for_the_draws_of_a_seed_that_nobody_knows(classifier, false):
    """The ideal classifier says A: most subsets, (1 - 1/50) ** 22 of them, hold none of the 22 rows that say B."""
    assert 0.98**22 > 0.64
    points, labels = written_for(0)
    tree = DecisionTreeClassifier()
    misled = classifier(tree, classes=range(2), seed=0).fit(points, labels)
    said = misled.certify([[1.0]])
    assert (said.prediction[0], said.abstained[0]) == (1, False)
    assert said.radius[0] >= false, "who knows the seed writes a false certificate"
    declared = [premise.value for premise in said.premises if premise.code == "seed" and premise.declared]
    assert "it was a secret to all who wrote training data" in declared[0], "so that is the word of who gives one"
    model = classifier(tree, classes=range(2)).fit(points, labels)
    certificate = model.certify([[1.0]])
    assert (certificate.prediction[0], certificate.abstained[0]) == (0, False)
    (stated,) = [premise for premise in certificate.premises if premise.code == "seed"]
    assert not stated.declared
    assert stated.value.startswith("drawn from the system's secure source")
    assert f"seed {certificate.seed}" in str(certificate)
    assert classifier(tree, classes=range(2), seed=certificate.seed).fit(points, labels).seed_ == model.seed_
    assert model.fit(points, labels).seed_ != certificate.seed


def test_a_pooled_learner_serves_too():
    pooled = KernelRidgeClassifier(VectorFeatures(scale=32.0))
    plain = DecisionTreeClassifier()
    for learner in (pooled, plain):
        model = CertifiedBaggingClassifier(learner, subset_size=15, n_draws=200, classes=range(3)).fit(
            X[TRAIN], Y[TRAIN]
        )
        assert model.certify(X[TEST]).evaluate(Y[TEST]).clean_accuracy > 0.8


@pytest.mark.parametrize(
    ("classifier", "options", "message"),
    [
        (InfiniteAggregationClassifier, {"alpha": 0}, "'alpha' parameter of InfiniteAggregationClassifier must lie"),
        (binomial, {"alpha": 1.0}, "strictly between 0 and 1. Got 1.0 instead"),
        (CertifiedBaggingClassifier, {"alpha": float("nan")}, "Got nan instead"),
        (CertifiedBaggingClassifier, {"n_draws": 0}, "'n_draws' .* whole number, 1 … .* Got 0 instead"),
        (InfiniteAggregationClassifier, {"n_draws": 2.5}, "Got 2.5 instead"),
        (binomial, {"k": 0}, "'k' parameter"),
        (binomial, {"seed": -1}, "'seed' parameter"),
        (CertifiedBaggingClassifier, {"subset_size": 0}, "'subset_size' parameter"),
        (CertifiedBaggingClassifier, {"classes": [1]}, "at least two labels"),
        (InfiniteAggregationClassifier, {"estimator": StandardScaler()}, "must be a classifier"),
    ],
)
def test_wrong_parameters_are_named(classifier, options, message):
    with pytest.raises(ValueError, match=message):
        classifier(**options).fit(X, Y)


@pytest.mark.parametrize("classifier", [InfiniteAggregationClassifier, binomial])
def test_with_k_1_every_subset_is_everything_and_nothing_withstands_an_attack(classifier):
    certificate = classifier(GaussianNB(), k=1, n_draws=40, alpha=0.1, classes=range(3)).fit(X, Y).certify(X[::15])
    assert not certificate.abstained.any()
    assert certificate.radius.max() == certificate.radius_changed.max() == 0


@pytest.mark.parametrize("classifier", ALL)
def test_one_class_inferred_has_a_class_nobody_has_seen_as_rival(classifier):
    options = {} if classifier is CertifiedBaggingClassifier else {"k": 10}
    certificate = classifier(n_draws=300, alpha=0.05, **options).fit(X, np.zeros(150, int)).certify(X[:2])
    assert not certificate.abstained.any()
    assert certificate.radius.min() >= 1
    assert certificate.labels.tolist() == [0, 0]


def test_it_abstains_where_draws_do_not_separate_and_two_classes_tie():
    points, labels = np.arange(8.0)[:, None], np.array([0, 1] * 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PremiseWarning)
        model = binomial(DummyClassifier(strategy="uniform"), k=2, n_draws=100, classes=(0, 1))
        certificate = model.fit(points, labels).certify(points)
    assert certificate.abstained.all()
    assert certificate.radius.max() == 0
    assert certificate.labels.mask.all()
    assert certificate.evaluate(labels).clean_accuracy == 0
    assert certificate.evaluate(labels).certified_fraction([0, 1]).tolist() == [0, 0]
    assert model.predict(points, min_radius=0).mask.all()
    assert "abstentions: 8" in str(certificate)


def test_empty_subsets_and_dropped_samples_are_told():
    with pytest.warns(PremiseWarning, match="drawn subsets are empty"):
        InfiniteAggregationClassifier(GaussianNB(), k=100, n_draws=50).fit(X[40:60], Y[40:60])
    with pytest.warns(PremiseWarning, match="50 training samples have a label"):
        model = CertifiedBaggingClassifier(GaussianNB(), n_draws=10, classes=(0, 1)).fit(X, Y)
    assert model.draws_.n_train == 100


def certificate_of(alpha=0.001, **changes):
    arrays = {
        "prediction": np.array([0, 1, 1]),
        "abstained": np.array([False, False, True]),
        "radius": np.array([4, 1, 0]),
        "radius_changed": np.array([2, 0, 0]),
        **changes,
    }
    return StochasticCertificate(
        **arrays, method="bagging", classes=np.array(["a", "b"]), failure_probability=alpha, seed=7, n_draws=100
    )


def test_the_record_keeps_its_word(tmp_path):
    certificate = certificate_of()
    truth = ["a", "a", "b"]
    assert certificate.evaluate(truth).clean_accuracy == 1 / 3
    assert certificate.evaluate(truth).certified_fraction([0, 4, 5]).tolist() == [1 / 3, 1 / 3, 0]
    assert certificate.radius_against("modify").tolist() == [2, 0, 0]
    assert certificate.radius_against("insert_remove").tolist() == [4, 1, 0]
    assert certificate.labels.tolist() == ["a", "b", None]
    assert "radius median 1, smallest 1, largest 4 training samples inserted or removed (or median 0 changed)" in str(
        certificate
    )
    assert "holds with probability at least 99.9 %, over the draw of the subsets: 100 draws, seed 7" in str(certificate)
    assert "failure_probability=0.001" in repr(certificate)
    certificate.save(tmp_path / "c.npz")
    back = StochasticCertificate.load(tmp_path / "c.npz")
    assert back.facts() == certificate.facts()
    assert back.radius.tolist() == [4, 1, 0]
    assert back.abstained.tolist() == [False, False, True]
    with pytest.raises(ValueError, match="read-only"):
        back.radius[0] = 9
    with refused("labels.count"):
        certificate.evaluate(["a"])
    with refused("certificate.attack-size"):
        certificate.evaluate(truth).certified_fraction([0.5])
    with refused("certify.threat"):
        certificate.radius_against("rename")
    np.savez(tmp_path / "d.npz", radius=[1])
    with refused("file.damaged"):
        StochasticCertificate.load(tmp_path / "d.npz")


@pytest.mark.parametrize(
    ("alpha", "said"), [(0.001, "99.9"), (0.05, "95"), (1e-9, "99.9999999"), (1e-40, "99.99999999999999999999999999")]
)
def test_the_probability_is_never_rounded_up(alpha, said):
    assert f"at least {said} %," in str(certificate_of(alpha))


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
@parametrize_with_checks(
    [
        InfiniteAggregationClassifier(GaussianNB(), k=2, n_draws=7, conditionals=True, seed=0),
        CertifiedBaggingClassifier(GaussianNB(), subset_size=20, n_draws=7, seed=0),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)

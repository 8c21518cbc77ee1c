"""Learners for small subsets of real data, and the one that chooses among them inside its subset."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits

from poisonproof import FiniteAggregationClassifier, check_estimator_purity
from poisonproof.learners.auto import FOLDS, MOST_TRIED, AutoClassifier, balanced_scores, best_of
from poisonproof.learners.table import TableClassifier
from poisonproof.learners.text import BayesTextClassifier, RidgeTextClassifier, TextClassifier
from poisonproof.learners.trees import TreesClassifier
from poisonproof.samples.batches import takes_columns
from refused import refused

WORDS = [f"w{at}" for at in range(300)]


def rare_texts(n, seed, share=0.13):
    """Short texts; those of the rare class hold some of twenty words that others hold seldom."""
    rng = np.random.default_rng(seed)
    rare = rng.random(n) < share
    texts = []
    for is_rare in rare:
        marks = rng.choice(WORDS[:20], int(rng.integers(4, 7)) if is_rare else int(rng.random() < 0.1))
        texts.append(" ".join([*marks, *rng.choice(WORDS, 8)]))
    return np.array(texts, dtype=object), np.where(rare, "spam", "ham")


def balanced(said, y):
    return np.mean([(said[y == label] == label).mean() for label in np.unique(y)])


class Threshold:
    """Says 1 above a constant; nothing is learned."""

    def __init__(self, limit=0.0):
        self.limit = limit

    def get_params(self, deep=True):
        return {"limit": self.limit}

    def set_params(self, **params):
        self.__dict__.update(params)
        return self

    def fit(self, X, y):
        if self.limit == "broken":
            raise ValueError("no")
        return self

    def predict(self, X):
        return (X[:, 0] > self.limit).astype(np.int64)


def test_the_score_is_what_cross_validation_by_hand_gives():
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(50, 2)), (rng.random(50) < 0.2).astype(np.int64)
    candidates = [Threshold(-1.0), Threshold(0.3), Threshold("broken"), TableClassifier()]
    fold = {}
    for code in (0, 1):
        for at, row in enumerate(np.flatnonzero(codes == code)):
            fold[row] = at % FOLDS
    for candidate, score in zip(candidates, balanced_scores(candidates, X, codes), strict=True):
        right = {0: [], 1: []}
        for row in range(50):
            others = [other for other in range(50) if fold[other] != fold[row]]
            try:
                said = candidate.fit(X[others], codes[others]).predict(X[[row]])[0]
            except ValueError:
                said = None
            right[codes[row]].append(said == codes[row])
        assert score == pytest.approx(np.mean([np.mean(own) for own in right.values()]))


def test_it_takes_the_best_and_ties_go_to_the_first():
    data = load_breast_cancer()
    chosen = AutoClassifier(random_state=0).fit(data.data[:150], data.target[:150])
    assert type(chosen.chosen_) is type(
        chosen.candidates(data.data, 2)[best_of(chosen.candidates(data.data, 2), chosen.scores_)]
    )
    circle = np.random.default_rng(0).normal(size=(300, 2))
    inside = (circle**2).sum(axis=1) < 1.4
    assert isinstance(AutoClassifier(random_state=0).fit(circle, inside).chosen_, TreesClassifier)
    line = circle[:, 0] + circle[:, 1] > 0
    assert isinstance(AutoClassifier(random_state=0).fit(circle, line).chosen_, TableClassifier)
    apart = np.repeat([[0.0], [9.0]], 60, axis=0)
    tied = AutoClassifier(random_state=0).fit(apart, apart[:, 0])
    assert tied.scores_.tolist() == [1, 1]
    assert isinstance(tied.chosen_, TableClassifier)


def test_trees_are_taken_if_they_are_ahead_by_more_than_chance():
    tables, texts = [TableClassifier(), TreesClassifier()], [BayesTextClassifier(), RidgeTextClassifier()]
    for trees, place in ((0.7, 0), (0.71, 0), (0.73, 1), (0.2, 0)):
        assert best_of(tables, np.array([0.7, trees])) == place
    for ridge, place in ((0.7, 0), (0.701, 1), (0.2, 0)):
        assert best_of(texts, np.array([0.7, ridge])) == place


def test_the_choice_of_trees_is_a_function_of_the_subset():
    circle = np.random.default_rng(1).normal(size=(260, 2))
    inside = ((circle**2).sum(axis=1) < 1.4).astype(int)
    assert isinstance(AutoClassifier(random_state=0).fit(circle, inside).chosen_, TreesClassifier)
    report = check_estimator_purity(AutoClassifier(), circle, inside, k=2, d=1, max_test=10)
    assert report.pure, str(report)


def test_boosted_trees_are_opened_again(tmp_path):
    circle = np.random.default_rng(1).normal(size=(260, 2))
    inside = (circle**2).sum(axis=1) < 1.4
    rings = np.digitize((circle**2).sum(axis=1), [0.8, 2.4])
    for learner, y in ((AutoClassifier(), inside.astype(int)), (TreesClassifier("boosting", n_trees=20), rings)):
        model = FiniteAggregationClassifier(learner, k=2, d=1, classes=range(3), n_jobs=1).fit(circle, y)
        kept = [member.model for member in model.members_]
        assert {type(one) for one in kept} == {TreesClassifier}
        model.save(tmp_path / f"model-{y.max()}")
        again = FiniteAggregationClassifier.load(tmp_path / f"model-{y.max()}")
        assert np.array_equal(again.votes(circle).matrix, model.votes(circle).matrix)


def test_tables_by_column_and_as_frames_give_the_same_votes():
    """A class derived from ours knows frames only."""

    class FromFrames(AutoClassifier):
        pass

    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"a": rng.normal(size=400), "b": rng.normal(size=400), "c": rng.choice(["x", "y", None], 400)})
    frame.loc[::9, "a"] = np.nan
    y = ((frame["b"] ** 2 + (frame["c"] == "x")) > 1).to_numpy().astype(int)
    votes = [
        FiniteAggregationClassifier(learner, k=2, d=1, classes=[0, 1], n_jobs=1).fit(frame[:300], y[:300])
        for learner in (AutoClassifier(), FromFrames())
    ]
    chosen = [getattr(member.model, "chosen_", member.model) for model in votes for member in model.members_]
    assert {type(model) for model in chosen} == {TreesClassifier}
    assert np.array_equal(votes[0].votes(frame[300:]).matrix, votes[1].votes(frame[300:]).matrix)
    assert takes_columns(AutoClassifier())
    assert takes_columns(AutoClassifier(["c"]))
    assert not takes_columns(FromFrames())


def test_of_many_samples_some_are_tried_and_all_are_learned(monkeypatch):
    X, y = load_digits(return_X_y=True)
    seen = []
    monkeypatch.setattr(
        TreesClassifier, "fit", lambda self, X, y: (seen.append(len(y)), TableClassifier().fit(X, y))[1]
    )
    AutoClassifier(random_state=0).fit(X, y)
    assert max(seen) <= MOST_TRIED


@pytest.mark.parametrize(
    ("samples", "kinds"),
    [
        (np.zeros((100, 2)), [TableClassifier, TreesClassifier]),
        (np.zeros((99, 2)), [TableClassifier]),
        (np.zeros((100, 20, 11)), [TableClassifier]),
        (sp.csr_matrix(np.eye(3)), [TableClassifier, TreesClassifier]),
        (pd.DataFrame({"a": ["x", "y"] * 50}), [TableClassifier, TreesClassifier]),
        (np.array(["a", "b", "c"], object), [BayesTextClassifier, RidgeTextClassifier, TextClassifier]),
    ],
)
def test_the_list_goes_by_the_kind_of_samples(samples, kinds):
    assert [type(one) for one in AutoClassifier().candidates(samples, 10)] == kinds
    assert [type(one) for one in AutoClassifier(["a"]).candidates(samples, 2)] == [TextClassifier]


def test_of_many_classes_fewer_trees_are_grown_or_none():
    samples = np.zeros((200, 3))
    rounds = {n: AutoClassifier().candidates(samples, n)[1].n_trees for n in (2, 5, 7, 10)}
    assert rounds == {2: 60, 5: 40, 7: 28, 10: 20}
    assert [type(one) for one in AutoClassifier().candidates(samples, 11)] == [TableClassifier]
    assert AutoClassifier(random_state=7).candidates(samples, 2)[1].random_state == 7


def test_bayes_weighs_words_and_leaves_each_text_out_for_real():
    texts, y = rare_texts(40, 0, 0.3)
    model = BayesTextClassifier(smoothing=0.3).fit(texts, y)
    encoded = model._encoded(texts)[:, model.held_].toarray()
    holds = encoded > 0

    def odds(own, among):
        """By word: the log of its share of the texts of a class, less that of the others; 0 where nobody holds it."""
        shares = [(holds[part].sum(axis=0) + 0.3) / (part.sum() + 0.6) for part in (own & among, ~own & among)]
        return np.where(holds[among].any(axis=0), np.log(shares[0]) - np.log(shares[1]), 0.0)

    for at, label in enumerate(model.classes_):
        own = y == label
        left_out = np.array([encoded[row] @ odds(own, np.arange(40) != row) for row in range(40)])
        high, low = np.median(left_out[own]), np.median(left_out[~own])
        apart = (high - low) / 2
        assert apart > 0.1
        assert np.allclose(model.weights_[at], odds(own, np.ones(40, bool)) / apart)
        assert np.isclose(model.bias_[at], -(high + low) / 2 / apart)
    texts, y = np.append(texts, texts[:20]), np.append(y, ["third"] * 20)
    model = BayesTextClassifier().fit(texts, y)
    assert model.decision_function(texts[:3]).shape == (3, 3)
    assert model.predict(texts[:3]).shape == (3,)


def test_leaving_out_by_formula_is_leaving_out():
    """The threshold of each class comes from scores of texts that were left out; here each is left out for real."""
    texts, y = rare_texts(40, 1, 0.3)
    model = RidgeTextClassifier(ridge=0.2).fit(texts, y)
    encoded = model._encoded(texts).toarray()
    products = encoded @ encoded.T + 1
    for at, label in enumerate(model.classes_):
        target = np.where(y == label, 1.0, -1.0)
        share = np.where(y == label, 20 / (y == label).sum(), 20 / (y != label).sum())
        scores = []
        for row in range(40):
            rest = np.delete(np.arange(40), row)
            duals = np.linalg.solve(products[np.ix_(rest, rest)] + np.diag(0.2 / share[rest]), target[rest])
            scores.append(products[row, rest] @ duals)
        scores = np.array(scores)
        inner, outer = scores[y == label].mean(), scores[y != label].mean()
        duals = np.linalg.solve(products + np.diag(0.2 / share), target)
        expected = (products @ duals - (inner + outer) / 2) / ((inner - outer) / 2)
        held = model._encoded(texts)[:, model.held_]
        assert np.allclose(held @ model.weights_[at] + model.bias_[at], expected, atol=1e-6)


def test_a_rare_class_is_found_in_small_subsets():
    """Logistic regression on words answers "ham" to everything here; the choice of each base classifier does not."""
    (texts, y), (test, truth) = rare_texts(400, 0), rare_texts(200, 1)
    said = {}
    for name, learner in (("text", TextClassifier()), ("auto", AutoClassifier())):
        model = FiniteAggregationClassifier(learner, k=4, d=1, classes=["ham", "spam"]).fit(texts, y)
        said[name] = model.certify(test)
    assert said["text"].evaluate(truth).caution is not None
    assert said["auto"].evaluate(truth).caution is None
    assert said["auto"].evaluate(truth).balanced_accuracy > 0.8 > 0.6 > said["text"].evaluate(truth).balanced_accuracy


def test_very_many_texts_need_no_matrix_of_all_pairs(monkeypatch):
    monkeypatch.setattr("poisonproof.learners.text.MOST_LEFT_OUT", 100)
    texts, y = rare_texts(300, 2)
    model = RidgeTextClassifier().fit(texts, y)
    assert balanced(model.predict(texts), y) > 0.9
    three = np.where(np.arange(300) % 3 == 0, "x", y)
    assert RidgeTextClassifier().fit(texts, three).decision_function(texts).shape == (300, 3)


@pytest.mark.parametrize("method", ["forest", "boosting"])
def test_trees_take_what_tables_hold(method):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200), "b": rng.choice(["x", "y", None], 200)})
    frame.loc[::7, "a"] = np.nan
    y = (frame["b"] == "x").to_numpy() ^ (rng.random(200) < 0.05)
    model = TreesClassifier(method, n_trees=20, random_state=0).fit(frame[:150], y[:150])
    assert (model.predict(frame[150:]) == y[150:]).mean() > 0.85
    assert model.predict_proba(frame[150:]).shape == (50, 2)
    rows = sp.csr_matrix(rng.random((60, 5)) * (rng.random((60, 5)) < 0.5))
    labels = np.asarray(rows[:, [0]].todense()).ravel() > 0
    assert (TreesClassifier(method, n_trees=20, random_state=0).fit(rows, labels).predict(rows) == labels).mean() > 0.9


def test_wrong_wishes_end_in_one_sentence():
    with refused("learner.parameter"):
        TreesClassifier("ferns").fit(np.eye(2), [0, 1])
    for learner in (AutoClassifier(), TreesClassifier()):
        with refused("classes.few"):
            learner.fit(np.eye(2), [1, 1])
    with refused("learner.wrong-kind"):
        BayesTextClassifier().fit(pd.DataFrame({"a": ["x", "y"]}), [0, 1])

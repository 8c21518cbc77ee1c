"""Rankings that the ensemble makes: the votes stay as they are, and all the rest is a function of the subset."""

import json

import numpy as np
import pandas
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits, load_iris
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

from poisonproof import FiniteAggregationClassifier, Spread, Votes, certify, load
from poisonproof.cli.main import app
from poisonproof.estimators.base import learner_of
from poisonproof.estimators.prepared import prepare
from poisonproof.learners.auto import AutoClassifier
from poisonproof.learners.feature_maps import VectorFeatures
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from poisonproof.learners.text import TextClassifier
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.run import run
from poisonproof.training.members import (
    Member,
    fit_member,
    ranking_of,
    vote_of,
)

DIGITS = load_digits(return_X_y=True)
POOLED = KernelRidgeClassifier(VectorFeatures(unit=16.0, scale=16.0), gamma=1.0)
pytestmark = pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")


def ensemble(estimator=None, **options):
    return FiniteAggregationClassifier(estimator, **{"k": 6, "d": 2, "classes": range(10), **options})


@pytest.mark.parametrize("estimator", [None, GaussianNB(), POOLED], ids=["table", "probabilities", "pooled"])
def test_rankings_leave_the_votes_alone_and_follow_the_scores(estimator):
    X, y = DIGITS[0][:400], DIGITS[1][:400]
    model = ensemble(estimator).fit(X[:300], y[:300])
    plain, ranked = model.votes(X[300:]), model.votes(X[300:], rankings=True)
    assert plain.rankings is None
    assert np.array_equal(plain.matrix, ranked.matrix)
    assert ranked.rankings.dtype == np.uint8
    source = prepare(model, X[:300], y[:300]).source
    test = model.split_.samples(X[300:])
    learner = learner_of(model)
    for i in (0, 5, 11):
        member = fit_member(learner, i, source.subset(i))
        fed = test.take(np.arange(100), member.form)
        scores = np.asarray(
            getattr(member.model, "decision_function", getattr(member.model, "predict_proba", None))(fed)
        )
        for t in range(100):
            held = ranked.rankings[t, i][: len(member.codes)].tolist()
            head = member.codes.tolist().index(plain.matrix[t, i])  # GaussianNB's probabilities tie at 1 and 0
            order = sorted(range(len(member.codes)), key=lambda c: (c != head, -scores[t, c], c))
            assert held == member.codes[order].tolist()
        assert (ranked.rankings[:, i, len(member.codes) :] == 10).all()
    certificate = model.certify(X[300:], method="run-off")
    assert np.array_equal(certificate.radius, certify(ranked, "run-off").radius)
    assert (certificate.labels == y[300:]).mean() > 0.6


@pytest.mark.parametrize("estimator", [DecisionTreeClassifier(max_depth=3), POOLED], ids=["trees", "pooled"])
def test_one_more_row_and_other_batches_move_only_the_rankings_it_reaches(estimator):
    X, y = DIGITS[0][:301], DIGITS[1][:301]
    model = ensemble(estimator).fit(X[:300], y[:300])
    before = model.votes(X[:40], rankings=True).rankings
    one_by_one = np.concatenate([model.votes(X[t : t + 1], rankings=True).rankings for t in range(40)])
    assert np.array_equal(one_by_one, before)
    after = ensemble(estimator).fit(X, y).votes(X[:40], rankings=True).rankings
    partition = model.split_.partitions(model.split_.samples(X[300:]), model.spread_.n_partitions)[0]
    outside = np.setdiff1d(np.arange(12), model.spread_.subsets_of(int(partition)))
    assert np.array_equal(after[:, outside], before[:, outside])


def test_an_invented_label_takes_no_place_in_rankings_it_does_not_reach():
    """Base classifiers without class 10 would put a label 5 before it if they ranked what they have not seen."""
    X = np.arange(60.0).reshape(30, 2)
    y = np.array([0, 20] * 14 + [10, 30])
    model = FiniteAggregationClassifier(GaussianNB(), k=5, d=1).fit(X, y)
    poisoned = FiniteAggregationClassifier(GaussianNB(), k=5, d=1).fit(np.vstack([X, [[999, 0]]]), np.append(y, 5))
    partition = model.split_.partitions(model.split_.samples(np.array([[999.0, 0.0]])), 5)[0]
    outside = np.setdiff1d(np.arange(5), partition)
    names = [np.append(m.classes_, np.nan) for m in (model, poisoned)]
    before = names[0][model.votes(X, rankings=True).rankings[:, outside]]
    after = names[1][poisoned.votes(X, rankings=True).rankings[:, outside]]
    assert np.isnan(after[..., 4]).all()
    assert np.array_equal(before, after[..., :4], equal_nan=True)
    assert np.isnan(before).any()


class Odd(ClassifierMixin, BaseEstimator):
    """Votes 1; its scores are what a test says."""

    def __init__(self, scores=None):
        self.scores = scores

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.ones(len(X), int)

    def predict_proba(self, X):
        if self.scores == "raise" and X[0, 0] > 1:
            raise ValueError("no")
        wide = {"nan": [0.1, np.nan, 0.2], "narrow": [0.1, 0.2], "rest": [0.2, 0.0, 0.8], "tie": [0.5, 0.5, 0.5]}
        row = wide.get(self.scores, wide["rest"])
        return np.array([row] * len(X))


def rankings_of(member, X, n_classes=6):
    votes = vote_of(member, X, len(X), n_classes)[0]
    return ranking_of(member, X, votes, n_classes)[0].tolist()


def odd(scores):
    return Member(0, Odd(scores).fit(None, [0, 1, 2]), np.array([1, 3, 4]), 1)


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        (odd("rest"), [3, 4, 1]),
        (odd("tie"), [3, 1, 4]),
        (odd("nan"), [3, 1, 4]),
        (odd("narrow"), [3, 1, 4]),
        (Member(0, None, np.array([2]), 2), [2]),
        (Member(0, None, np.array([1, 3, 4]), 4, failure="it raised"), [4, 1, 3]),
        (Member(0, None, np.array([], int), None), []),
    ],
    ids=["scores", "tie", "NaN", "wrong shape", "one class", "failed", "empty"],
)
def test_the_vote_comes_first_whatever_the_scores(member, expected):
    row = [*expected, *[6] * (6 - len(expected))]
    assert rankings_of(member, np.zeros((2, 1))) == [row, row]


def test_a_sample_without_scores_does_not_decide_the_rankings_of_others():
    rows = rankings_of(odd("raise"), np.array([[2.0], [0.0]]))
    assert rows == [[3, 1, 4, 6, 6, 6], [3, 4, 1, 6, 6, 6]]


def test_a_base_classifier_without_scores_gets_one_sentence(tmp_path):
    class OnlyVotes(NearestCentroid):
        decision_function = predict_proba = property()

    X, y = load_iris(return_X_y=True)
    model = FiniteAggregationClassifier(OnlyVotes(), k=3, d=1, classes=range(3)).fit(X, y)
    message = "Rankings need scores, and OnlyVotes has neither decision_function nor predict_proba"
    with pytest.raises(ValueError, match=message):
        model.certify(X, method="run-off")
    with pytest.raises(ValueError, match=message):
        run(load("digits"), ensemble(OnlyVotes()), tmp_path / "run", RunSettings(rankings=True))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("learner", [AutoClassifier(["text"]), TextClassifier(["text"])], ids=["auto", "text"])
def test_columns_of_texts_are_ranked_by_score(learner):
    """`AutoClassifier` had scores and what it chose for such tables had none: classes stood in their order, unsaid."""
    words = ["red", "green", "blue"]
    frame = pandas.DataFrame({"text": [f"{words[i % 3]} thing {i}" for i in range(60)], "n": np.arange(60.0)})
    fitted = FiniteAggregationClassifier(learner, k=2, d=1, classes=range(3)).fit(frame, np.arange(60) % 3)
    asked = pandas.DataFrame({"text": ["green green blue", "blue blue red", "red red green"], "n": [1.0, 2.0, 3.0]})
    assert fitted.votes(asked, rankings=True).rankings.tolist() == [[[1, 2, 0]] * 2, [[2, 0, 1]] * 2, [[0, 1, 2]] * 2]


@pytest.mark.parametrize("scores", ["nan", "narrow", "raise"])
def test_scores_that_nobody_gives_are_not_swallowed(scores):
    X, y = np.full((60, 1), 2.0), np.arange(60) % 3
    model = FiniteAggregationClassifier(Odd(scores), k=2, d=1, classes=range(3)).fit(X + np.arange(60)[:, None], y)
    model.votes(X)
    with pytest.raises(ValueError, match="None of the 2 base classifiers could answer any of the 60 samples"):
        model.votes(X, rankings=True)


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_run_keeps_rankings_and_the_command_line_certifies_them(tmp_path):
    words = ("run", "digits", "--k", 4, "--d", 1, "--n-jobs", 1, "--votes-only", "--out", tmp_path / "run")
    result = invoke(*words, "--rankings")
    assert result.exit_code == 0, result.output
    votes = Votes.load(tmp_path / "run/votes.npy")
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    assert "votes.rankings.npy" in manifest["files"]
    result = invoke("certify", tmp_path / "run/votes.npy", "--method", "run-off", "--json")
    assert json.loads(result.stdout)["radius"] == certify(votes, "run-off").radius.tolist()
    Votes(votes.matrix, votes.spread, votes.classes).save(tmp_path / "plain.npy")
    refused = invoke("certify", tmp_path / "plain.npy", "--method", "run-off")
    assert refused.exit_code == 2
    assert "these votes have none" in refused.output
    again = invoke(*words)
    assert again.exit_code == 2
    assert "its rankings differs" in again.output


def test_a_pooled_run_keeps_rankings_and_goes_on(tmp_path):
    digits = load("digits")
    model = ensemble(POOLED)
    run(digits, model, tmp_path / "run", RunSettings(votes_only=True, rankings=True))
    there = (tmp_path / "run/votes.rankings.npy").read_bytes()
    run(digits, clone(model), tmp_path / "run", RunSettings(votes_only=True, rankings=True))
    assert (tmp_path / "run/votes.rankings.npy").read_bytes() == there
    expected = ensemble(POOLED).fit(digits.train.X, digits.train.labels).votes(digits.test.X, rankings=True)
    assert np.array_equal(np.load(tmp_path / "run/votes.rankings.npy"), expected.rankings)


def test_rankings_made_elsewhere_lie_beside_the_votes(tmp_path):
    rng = np.random.default_rng(0)
    rankings = np.argsort(rng.random((20, 6, 3)), axis=2)
    rankings[0, 0] = 3
    np.save(tmp_path / "v.npy", rankings[..., 0])
    np.save(tmp_path / "v.rankings.npy", rankings)
    for more, inferred in (([], True), (["--classes", 3], False)):
        result = invoke("certify", tmp_path / "v.npy", "--spread", "dpa:6", "--method", "run-off", "--json", *more)
        votes = Votes(rankings[..., 0], Spread.random(6, 1), range(3), classes_inferred=inferred, rankings=rankings)
        assert json.loads(result.stdout)["radius"] == certify(votes, "run-off").radius.tolist()

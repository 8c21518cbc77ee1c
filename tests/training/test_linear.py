"""Linear classifiers asked for their product alone say what their `predict` says of the same batches."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from poisonproof.training import members as linear
from poisonproof.training.members import Member, predict_in_batches, vote_of

X, Y = map(np.ascontiguousarray, load_digits(return_X_y=True))
LINEAR = [LogisticRegression(max_iter=9), SGDClassifier(random_state=0), Perceptron(), LinearSVC(max_iter=50)]


class Derived(LogisticRegression):
    pass


def fitted(learner, n_classes):
    rows = np.flatnonzero(n_classes > Y)[:150]
    return learner.fit(X[rows], Y[rows])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.parametrize("learner", LINEAR, ids=lambda learner: type(learner).__name__)
def test_it_is_what_predict_says_of_the_same_batches(learner, n_classes, monkeypatch):
    model = fitted(learner, n_classes)
    # Scores that rounding decides: every class the same but for the last bits of its sums.
    if n_classes > 2:
        model.coef_[:] = model.coef_[0] * (1 + np.arange(n_classes)[:, None] * 1e-16)
        model.intercept_[:] = model.intercept_[0]
    monkeypatch.setattr(linear, "_products", watched := Watched(linear._products))
    for n in (1, 3, 511, 512, 513, 1400):
        fed = X[-n:] * 1.1
        assert linear._multiplies(model, fed)
        expected = predict_in_batches(model, model.predict, fed, n)
        votes, refused, reason = vote_of(Member(0, model, np.arange(n_classes), 0), fed, n, n_classes)
        assert votes.tolist() == expected.tolist()
        assert not refused.any()
        assert reason is None
    assert watched.calls == 6


class Watched:
    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *given):
        self.calls += 1
        return self.function(*given)


def test_whatever_is_odd_is_asked_as_it_wants_to_be():
    model = fitted(LogisticRegression(max_iter=9), 10)
    assert linear._multiplies(model, X)
    gap = X.copy()
    gap[3, 5] = np.nan
    huge = np.full_like(X, 1e308)  # the sum overflows, the numbers are finite
    assert linear._multiplies(model, huge)
    for fed in (gap, X[:, :5], X.astype(np.float32), np.asfortranarray(X), X.tolist()):
        assert not linear._multiplies(model, fed)
    assert not linear._multiplies(fitted(Derived(max_iter=9), 10), X)
    assert not linear._multiplies(fitted(RidgeClassifier(), 10), X)
    assert not linear._multiplies(fitted(GaussianNB(), 10), X)
    model.predict = lambda X: np.zeros(len(X), int)
    assert not linear._multiplies(model, X)


def test_a_sample_that_predict_refuses_decides_nothing_about_the_others():
    model = fitted(LogisticRegression(max_iter=9), 10)
    fed = X[:20].copy()
    fed[4, 4] = np.nan
    votes, refused, reason = vote_of(Member(0, model, np.arange(10), 7), fed, 20, 10)
    assert refused.nonzero()[0].tolist() == [4]
    assert votes[4] == 7
    assert "NaN" in reason
    others = np.delete(np.arange(20), 4)
    assert votes[others].tolist() == vote_of(Member(0, model, np.arange(10), 7), X[:20], 20, 10)[0][others].tolist()


@pytest.mark.parametrize("n_features", [1, 8, 129, 300])
def test_no_bit_of_a_naive_bayes_knows_how_many_rows_there_are(n_features):
    rng = np.random.default_rng(n_features)
    fed = rng.normal(size=(1100, n_features)) * rng.uniform(0.1, 1e3, n_features)
    model = GaussianNB().fit(fed[:60], rng.integers(0, 3, 60))
    whole = model.predict_joint_log_proba(fed)
    for n in (1, 2, 3, 5, 8, 17, 382, 512, 1099):
        for start in (0, 1, 77):
            part = model.predict_joint_log_proba(fed[start : start + n].copy())
            assert part.tobytes() == whole[start : start + n].tobytes()
    sizes = []

    def ask(batch):
        sizes.append(len(batch))
        return model.predict(batch)

    assert predict_in_batches(model, ask, fed, 1100).tolist() == model.predict(fed).tolist()
    assert sizes == [512, 512, 76]

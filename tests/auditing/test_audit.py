"""The audit: real attacks, real retraining; sound ensembles hold, broken ones are caught."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from poisonproof import (
    FiniteAggregationClassifier,
    Split,
    audit,
    check_estimator_purity,
)
from poisonproof.auditing import audit as auditing
from poisonproof.auditing.attacks import ATTACKS
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from refused import refused
from research.maps.digits import DigitFeatures

DIGITS, LABELS = load_digits(return_X_y=True)
X, Y, TEST = DIGITS[:240], LABELS[:240], DIGITS[300:330]
IMAGES = DIGITS.astype(np.uint8).reshape(-1, 8, 8) * 15
WORDS = [" ".join(f"w{i}" for i in np.flatnonzero(row > 8)) for row in DIGITS[:330]]
FRAME = pd.DataFrame({"a": DIGITS[:330, 20], "b": np.where(DIGITS[:330, 30] > 8, "x", "y"), "c": DIGITS[:330, 42]})


class NearestMean(ClassifierMixin, BaseEstimator):
    """As quick as a learner can be; subclasses add a leak."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        X = self.prepare(X)
        self.means_ = np.array([X[y == c].mean(axis=0) for c in self.classes_])
        return self

    def prepare(self, X):
        return np.clip(np.asarray(X, float).reshape(len(X), -1), -1e6, 1e6)

    def predict(self, X):
        return self.classes_[((self.prepare(X)[:, None, :] - self.means_) ** 2).sum(axis=2).argmin(axis=1)]


def ensemble(learner=None, **options):
    settings = {"k": 12, "d": 3, "classes": range(10)}
    return FiniteAggregationClassifier(learner or NearestMean(), **{**settings, **options})


KINDS = {
    "numbers": (ensemble(), X, TEST),
    "pixel-sum": (ensemble(split="pixel-sum"), X, TEST),
    "labels hashed": (ensemble(split=Split("content", hash_labels=True)), X, TEST),
    "classes inferred": (ensemble(classes=None), X, TEST),
    "d = 1": (ensemble(k=15, d=1), X, TEST),
    "bytes": (ensemble(split=Split(dtype="uint8")), IMAGES[:240], IMAGES[300:330]),
    "sparse": (ensemble(NearestCentroid()), sp.csr_matrix(X), sp.csr_matrix(TEST)),
    "texts": (ensemble(make_pipeline(HashingVectorizer(n_features=64), NearestCentroid())), WORDS[:240], WORDS[300:]),
    "table": (
        ensemble(make_pipeline(OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), GaussianNB())),
        FRAME[:240],
        FRAME[300:],
    ),
    "pooled": (
        ensemble(
            KernelRidgeClassifier(DigitFeatures(copies=1, hand=None), gamma=2.0), k=6, d=2, split=Split(dtype="uint8")
        ),
        IMAGES[:240],
        IMAGES[300:330],
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_sound_ensembles_hold(kind):
    model, samples, test = KINDS[kind]
    report = audit(model, samples, Y, test, targets=2 if kind == "numbers" else 1, all_every=10, seed=3)
    assert report.ok, str(report)
    assert (report.smallest[report.smallest > 0] > report.radius[report.smallest > 0]).all()
    tried = set(report.by_kind())
    dense = isinstance(samples, np.ndarray)
    assert {"remove", "insert", "flip", "modify", "degenerate", "duplicates", "flood"} <= tried
    assert ({"collide", "backdoor"} <= tried) == dense
    assert report.bystanders > len(report.attacks)
    assert all(attack.reach <= attack.size for attack in report.attacks)
    at_radius = [attack for attack in report.attacks if 0 < attack.size <= attack.radius]
    assert not any(attack.moved for attack in at_radius)


def test_whole_contributors_are_attacked():
    model = ensemble(split="group", k=9, d=3)
    report = audit(model, X, Y, TEST, groups=np.arange(240) % 60, targets=3, seed=1)
    assert report.ok, str(report)
    assert report.unit == "contributors"
    assert set(report.by_kind()) == set(ATTACKS)
    assert any(attack.moved and attack.size < 12 for attack in report.attacks), "a contributor brings many samples"


def test_tight_radii_are_put_to_the_test_too():
    report = audit(ensemble(k=8, d=4), X, Y, TEST, targets=3, kinds=["insert", "flip"], method="tight", seed=2)
    assert report.ok, str(report)


class SharesAScaler(NearestMean):
    """The scale of whoever was trained last serves all of them."""

    def fit(self, X, y):
        SharesAScaler.weight = tuple(1 / (0.01 + X.std(axis=0) ** 4))  # an array would be refused: it arrives fitted
        return super().fit(X, y)

    def prepare(self, X):
        return super().prepare(X) * SharesAScaler.weight


class ReadsTheOrder(NearestMean):
    """Depends on how many were trained before it."""

    trained = 0

    def fit(self, X, y):
        ReadsTheOrder.trained += 1
        super().fit(X, y)
        self.means_ = np.roll(self.means_, ReadsTheOrder.trained, axis=0)
        return self


class OwnGenerator(NearestMean):
    """Draws from a generator of its own that nobody reseeds."""

    rng = np.random.default_rng(0)

    def fit(self, X, y):
        super().fit(X, y)
        self.means_ = self.means_ + OwnGenerator.rng.normal(0, 20, self.means_.shape)
        return self


@pytest.mark.parametrize(
    "learner", [SharesAScaler(), ReadsTheOrder(), OwnGenerator()], ids=lambda value: type(value).__name__
)
def test_broken_learners_are_caught_by_the_audit_and_by_the_purity_check(learner):
    report = audit(ensemble(learner), X, Y, TEST, targets=1, kinds=["insert", "remove"], seed=5)
    assert not report.ok
    assert "vote otherwise although no poison reaches them" in str(report)
    assert "VIOLATION" in str(report)
    assert "kinds=['insert']" in str(report)
    assert "seed=5" in str(report)
    assert report.as_dict()["violations"]
    assert not check_estimator_purity(learner, X[:120], Y[:120]).pure


def test_radii_that_are_too_large_are_caught(monkeypatch):
    real = auditing.certify
    monkeypatch.setattr(
        auditing, "certify", lambda votes, method: replace(c := real(votes, method), radius=c.radius + 8)
    )
    report = audit(ensemble(), X, Y, TEST, targets=6, kinds=["insert"], seed=0)
    assert any("moved although their radius is at least the reach" in str(v.violations) for v in report.violations)


def test_costs_that_are_too_small_are_caught(monkeypatch):
    """A label flip where labels are hashed touches two partitions; to count it as one is an error."""
    monkeypatch.setattr(Split, "cost", lambda self, threat: 1)
    report = audit(ensemble(split=Split("content", hash_labels=True)), X, Y, TEST, targets=1, kinds=["flip"])
    assert any("partitions were touched by an attack of size" in str(v.violations) for v in report.violations)


def test_a_split_that_looks_at_other_samples_is_caught(monkeypatch):
    real = Split.partitions
    monkeypatch.setattr(
        Split,
        "partitions",
        lambda self, samples, n, *rest, **more: (real(self, samples, n, *rest, **more) + len(samples)) % n,
    )
    report = audit(ensemble(), X, Y, TEST, targets=1, kinds=["remove"])
    assert any("changed although no poison reaches them" in str(v.violations) for v in report.violations)


def test_an_attack_can_be_repeated_alone():
    one = audit(ensemble(), X, Y, TEST, targets=[4, 9], seed=7)
    again = audit(ensemble(), X, Y, TEST, targets=[4, 9], seed=7)
    assert one.attacks == again.attacks
    pick = next(attack for attack in one.attacks if attack.kind == "degenerate" and attack.target == 1)
    alone = audit(ensemble(), X, Y, TEST, targets=[4, 9], kinds=["degenerate"], sizes=[pick.size], seed=7)
    assert pick in alone.attacks


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"kinds": ["bribe"]}, "audit.kind"),
        ({"targets": 0}, "audit.targets"),
        ({"targets": [99]}, "audit.targets"),
        ({"method": "run-off"}, "audit.method"),
    ],
)
def test_what_cannot_be_audited_is_refused(options, code):
    with refused(code):
        audit(ensemble(), X, Y, TEST, **options)

"""Trusted samples that vote: heard like the others, never removed, and a premise by name."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from poisonproof import (
    BallotClassifier,
    NeighborVoteClassifier,
    PoisonproofError,
    PremiseWarning,
    TrustedSamples,
    certify,
)
from poisonproof.certificates.neighbours import certify_order
from poisonproof.certificates.samples_vote import certify_target
from poisonproof.certificates.trusted_neighbours import certify_order_with_trusted
from poisonproof.maps.vectors import VectorFeatures
from poisonproof.votes.ballots import Ballots
from poisonproof.votes.neighbours import Neighbours

RANDOM = np.random.default_rng(4)
X, Y = RANDOM.normal(size=(160, 3)), RANDOM.integers(0, 3, 160)
ASKED = RANDOM.normal(size=(40, 3))
TRUSTED = slice(0, 130)
REST = slice(130, 160)


def models(trusted):
    return [
        BallotClassifier(near=1.0, classes=range(3), trusted=trusted),
        BallotClassifier(near=1.0, one_sided=True, classes=range(3), trusted=trusted),
        NeighborVoteClassifier(n_neighbors=15, classes=range(3), trusted=trusted),
    ]


@pytest.fixture(params=range(3), ids=["ballots", "one-sided", "neighbours"])
def fitted(request):
    return models(TrustedSamples(X[TRUSTED], Y[TRUSTED]))[request.param].fit(X[REST], Y[REST])


def test_they_are_heard_like_training_samples(fitted):
    """Scores are those of a model that was trained on all; only what can be removed is less."""
    together = clone(fitted).set_params(trusted=None).fit(X, Y)
    assert np.array_equal(fitted._scores(ASKED), together._scores(ASKED))
    assert np.array_equal(fitted.predict_proba(ASKED), together.predict_proba(ASKED))
    ours, theirs = fitted.certify(ASKED), together.certify(ASKED)
    assert np.array_equal(ours.prediction, theirs.prediction)
    assert np.array_equal(ours.margin, theirs.margin)
    for threat in ("insert_remove", "label_flip", "modify", "remove"):
        assert (ours.radius_against(threat) >= np.minimum(theirs.radius_against(threat), 30)).all()
    assert (ours.radius_against("remove") > theirs.radius_against("remove")).any()
    assert "130" in ours.election["words"]
    assert "trusted" in ours.election["words"]


def test_they_are_a_premise_with_number_and_digest(fitted):
    premise = next(premise for premise in fitted.premises_ if premise.what == "trusted samples")
    assert premise.declared
    assert premise.value.startswith("130 trusted samples, SHA-256 ")
    other = clone(fitted).set_params(trusted=(X[TRUSTED] + 1e-9, Y[TRUSTED])).fit(X[REST], Y[REST])
    assert premise not in other.premises_


def test_no_update_removes_them(fitted):
    before = fitted._scores(ASKED)
    assert fitted.update(remove=range(29)) == (29, 0)
    kept = clone(fitted).fit(X[159:], Y[159:])
    assert np.array_equal(fitted._scores(ASKED), kept._scores(ASKED))
    assert len(fitted.trusted_voters_) == 130
    fitted.update(add=(X[130:159], Y[130:159]))
    assert np.array_equal(fitted._scores(ASKED), before)


def test_copies_among_training_samples_are_left_out_row_by_row(fitted):
    """A copy under any label changes nothing, so that no flip of one can push a trusted voter out."""
    before = fitted.certify(ASKED)
    with pytest.warns(PremiseWarning, match="2 training samples are copies of trusted ones and were left out"):
        fitted.update(add=(X[[3, 7, 140]], [1, 2, Y[140]]))
    fitted.update(remove=[32])  # the one that counted
    after = fitted.certify(ASKED)
    assert np.array_equal(before.radius, after.radius)
    assert fitted.n_dropped_ == 2
    assert not fitted.certify(X[TRUSTED]).exact.any()  # copies of these cannot be inserted
    assert fitted.certify(ASKED).exact.any()


def test_saved_and_loaded(fitted, tmp_path: Path):
    fitted.save(tmp_path)
    loaded = type(fitted).load(tmp_path)
    ours, theirs = fitted.certify(ASKED), loaded.certify(ASKED)
    for threat in ("insert_remove", "label_flip", "modify", "remove"):
        assert np.array_equal(ours.radius_against(threat), theirs.radius_against(threat))
    with pytest.warns(PremiseWarning, match="1 training samples are copies"):
        loaded.update(add=(X[:1], Y[:1]))
    with pytest.raises(PoisonproofError, match="set 'trusted' again before you fit"):
        loaded.fit(X[REST], Y[REST])
    data = (tmp_path / "trusted.npz").read_bytes()
    (tmp_path / "trusted.npz").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(PoisonproofError, match=r"trusted\.npz is altered"):
        type(fitted).load(tmp_path)


def test_votes_are_kept_with_them(fitted, tmp_path: Path):
    votes = fitted._votes_of(fitted._heard(ASKED))
    votes.save(tmp_path / "votes.npz")
    loaded = (Ballots if isinstance(votes, Ballots) else Neighbours).load(tmp_path / "votes.npz")
    assert np.array_equal(certify(loaded).radius_against("remove"), fitted.certify(ASKED).radii["remove"])
    with pytest.raises(PoisonproofError, match="lacks the trusted samples that vote"):
        fitted._votes_of(fitted._heard(ASKED)._replace(trusted=None))


def test_a_target_is_never_easier_than_any_other_class(fitted):
    certificate = fitted.certify(ASKED)
    votes = fitted._votes_of(fitted._heard(ASKED))
    smallest = np.full(len(ASKED), 10**6)
    for label in range(3):
        target = certify_target(votes, label)
        smallest = np.where(target.prediction == label, smallest, np.minimum(smallest, target.radius))
    if isinstance(votes, Ballots):
        assert np.array_equal(smallest, certificate.radius)
    else:  # trusted voters count as removable there
        assert (smallest <= certificate.radius).all()
        assert not target.exact.any()


@pytest.mark.parametrize("seed", range(30))
def test_without_trusted_voters_neighbours_are_what_they_were(seed):
    random = np.random.default_rng(seed)
    n, k = int(random.integers(1, 60)), int(random.integers(1, 20))
    listed = n if random.random() < 0.3 else min(n, 2 * k)
    order, inferred = random.integers(0, 3, (20, listed)), bool(random.integers(0, 2))
    plain = certify_order(order, k, n, 3, inferred=inferred)
    other = certify_order_with_trusted(order, np.zeros(order.shape, bool), k, n, 0, 3, inferred=inferred)
    for name in ("prediction", "margin", "insert_remove", "insert", "remove", "label_flip"):
        assert getattr(plain, name).tolist() == getattr(other, name).tolist(), name
    assert (other.modify == np.minimum(plain.modify, n)).all()


def test_unlabelled_ones_shape_and_do_not_vote(tmp_path: Path):
    trusted = TrustedSamples(X[TRUSTED])
    features = trusted.shaped(VectorFeatures(), directions=2, exponent=0.5)
    near = trusted.near(features, 0.2)
    model = BallotClassifier(features, near=near, classes=range(3), trusted=trusted)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X[REST], Y[REST])
    assert model.trusted_voters_ is None
    assert "they do not vote" in next(p.value for p in model.premises_ if p.what == "trusted samples")
    with pytest.warns(PremiseWarning, match="130 training samples are copies of trusted ones and vote"):
        model.fit(X, Y)
    assert model.n_dropped_ == 0
    model.save(tmp_path)
    with pytest.warns(PremiseWarning, match="copies of trusted ones and vote"):
        BallotClassifier.load(tmp_path).update(add=(X[:1], Y[:1]))


def test_a_tables_units_come_from_trusted_rows(tmp_path: Path):
    rows = pd.DataFrame({"age": [20.0, 30.0, 40.0, 50.0, 60.0], "job": list("abcab")})
    training = pd.DataFrame({"age": [21.0, 3e9, 41.0, 51.0], "job": list("abca")})
    trusted = TrustedSamples(rows, [0, 1, 0, 1, 0])
    model = NeighborVoteClassifier(n_neighbors=3, classes=[0, 1], trusted=trusted).fit(training, [0, 1, 0, 1])
    premise = next(p for p in model.premises_ if p.what == "map")
    assert premise.declared
    assert "5 trusted rows" in premise.value
    path = tmp_path / "rows.csv"
    rows.assign(y=[0, 1, 0, 1, 0]).to_csv(path, index=False)
    read = TrustedSamples.read(path, label="y")
    assert (len(read), list(read.y)) == (5, list("01010"))
    assert read.class_sizes(100) == {"0": 60, "1": 40}


def test_what_the_caller_cannot_mean_is_refused():
    with pytest.raises(PoisonproofError, match="must be TrustedSamples"):
        BallotClassifier(near=1.0, trusted=X).fit(X, Y)
    with pytest.raises(PoisonproofError, match="130 trusted samples but 3 labels"):
        TrustedSamples(X[TRUSTED], Y[:3])
    with pytest.raises(PoisonproofError, match="no trusted samples"):
        TrustedSamples(X[:0])
    with pytest.raises(PoisonproofError, match="these trusted samples have none"):
        TrustedSamples(X).class_sizes(10)
    trusted = TrustedSamples(X[TRUSTED], Y[TRUSTED])
    with pytest.raises(PoisonproofError, match="among declared classes"):
        BallotClassifier(near=1.0, trusted=trusted).fit(X[REST], Y[REST])
    with pytest.raises(PoisonproofError, match="beside single samples"):
        BallotClassifier(near=1.0, classes=range(3), trusted=trusted).fit(X[REST], Y[REST], groups=Y[REST])
    with pytest.raises(PoisonproofError, match="1 trusted samples have a label that is not"):
        BallotClassifier(near=1.0, classes=range(3), trusted=(X[:2], [0, 9])).fit(X[REST], Y[REST])
    unreadable = np.where(np.arange(130)[:, None] == 5, np.nan, X[TRUSTED])
    with pytest.raises(PoisonproofError, match="1 trusted samples cannot be read"):
        BallotClassifier(lambda rows: rows, near=1.0, classes=range(3), trusted=(unreadable, Y[TRUSTED])).fit(
            X[REST], Y[REST]
        )

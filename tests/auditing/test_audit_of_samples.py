"""Audits where training samples vote: radii hold against real attacks, exact ones fall to one act more."""

import json
from dataclasses import replace

import numpy as np
import pytest
import xxhash

from colliding import colliding_rows
from command_line import poisonproof
from poisonproof import BallotClassifier, NeighborVoteClassifier, audit, load
from poisonproof.ballots.attacks import features_known
from poisonproof.ballots.maps import map_for
from poisonproof.learners.feature_maps import VectorFeatures
from tables import wine_rows, write_csv

DIGITS = load("digits")
FEW = DIGITS.without(range(200, 1415))
MODELS = {
    "ballots": lambda: BallotClassifier(map_for(FEW), near=2.1, classes=range(10)),
    "one-sided": lambda: BallotClassifier(map_for(FEW), near=2.1, one_sided=True),
    "neighbours": lambda: NeighborVoteClassifier(map_for(FEW), n_neighbors=7, classes=range(10)),
    "inferred": lambda: NeighborVoteClassifier(map_for(FEW), n_neighbors=6),
}


@pytest.mark.parametrize("name", MODELS)
def test_no_attack_breaks_a_radius_and_exact_ones_fall(name):
    report = audit(MODELS[name](), FEW.train.X, FEW.train.labels, FEW.test.X, targets=8, seed=1)
    assert report.ok, str(report)
    assert len(report.attacks) > 40
    assert set(report.by_kind()) == {"insert", "remove", "mixed", "flip", "modify"}
    assert (report.smallest == report.radius + 1).all()  # exact: all radii of these models are
    flips = [attack for attack in report.attacks if attack.kind in ("flip", "modify") and attack.size > attack.radius]
    assert np.mean([attack.moved for attack in flips]) > 0.5
    assert "all votes counted again" in str(report)


def test_radii_that_are_too_large_or_falsely_exact_are_found_out(monkeypatch):
    model = MODELS["ballots"]()
    honest = BallotClassifier.certify

    def too_large(self, X):
        certificate = honest(self, X)
        return replace(certificate, radius=certificate.radius + 1, radii=None)

    monkeypatch.setattr(BallotClassifier, "certify", too_large)
    report = audit(model, FEW.train.X, FEW.train.labels, FEW.test.X, targets=2, kinds=["mixed"])
    assert not report.ok

    def too_small(self, X):
        certificate = honest(self, X)
        return replace(certificate, radius=np.maximum(certificate.radius - 3, 0))

    monkeypatch.setattr(BallotClassifier, "certify", too_small)
    report = audit(model, FEW.train.X, FEW.train.labels, FEW.test.X, targets=6, kinds=["mixed"])
    assert any("called exact" in words for attack in report.violations for words in attack.violations)


def test_the_command_attacks_a_table_and_its_contributors(tmp_path):
    names, rows = wine_rows()
    write_csv(tmp_path / "wine.csv", names, rows)
    words = ["run", tmp_path / "wine.csv", "--label", "class", "--classes", "a,b,c", "--method", "ballots", "--near", 3]
    poisonproof(*words, "--group-column", "maker", "--out", tmp_path / "run")
    told = json.loads(poisonproof("audit", tmp_path / "run", "--targets", 4, "--json").stdout)
    assert told["ok"]
    assert told["unit"] == "contributors"
    done = poisonproof("audit", tmp_path / "run", "--method", "tight", code=2)
    assert "puts finite-aggregation to the test" in " ".join(done.stderr.split())
    done = poisonproof("audit", tmp_path / "run", "--kinds", "backdoor", code=2)
    assert "An attack here is one of" in " ".join(done.stderr.split())


def test_features_are_known_by_content_not_by_its_hash():
    rng = np.random.default_rng(0)
    poison, other = np.array(colliding_rows())
    clean = np.insert(rng.normal(size=(29, len(other))), 7, other, axis=0)
    assert xxhash.xxh64_intdigest(poison.tobytes()) == xxhash.xxh64_intdigest(other.tobytes())
    X, y = np.vstack([poison, clean]), np.r_[0, rng.integers(0, 2, 30)]
    model = BallotClassifier(VectorFeatures(scale=16.0), near=1.0, classes=[0, 1], scale=16.0)
    fitted = model.fit(X, y)
    rows = fitted.voters_.rows.copy()
    before = features_known(BallotClassifier(**model.get_params(deep=False)).fit(X[1:], y[1:]), X[1:])
    for known in (features_known(fitted, X), before):
        again = BallotClassifier(**model.get_params(deep=False))._fit(X, y, None, known)
        np.testing.assert_array_equal(again.voters_.rows, rows)

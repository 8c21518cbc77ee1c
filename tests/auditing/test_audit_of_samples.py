"""Audits where training samples vote: radii hold against real attacks, exact ones fall to one act more."""

import json
from dataclasses import replace

import numpy as np
import pytest

from command_line import poisonproof
from poisonproof import BallotClassifier, NeighborVoteClassifier, audit, load
from poisonproof.maps.choosing import map_for
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
    report = audit(MODELS[name](), FEW.x_train, FEW.y_train, FEW.x_test, targets=8, seed=1)
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
    report = audit(model, FEW.x_train, FEW.y_train, FEW.x_test, targets=2, kinds=["mixed"])
    assert not report.ok

    def too_small(self, X):
        certificate = honest(self, X)
        return replace(certificate, radius=np.maximum(certificate.radius - 3, 0))

    monkeypatch.setattr(BallotClassifier, "certify", too_small)
    report = audit(model, FEW.x_train, FEW.y_train, FEW.x_test, targets=6, kinds=["mixed"])
    assert any("called exact" in words for attack in report.violations for words in attack.violations)


def test_the_command_attacks_a_table_and_its_contributors(tmp_path):
    names, rows = wine_rows()
    write_csv(tmp_path / "wine.csv", names, rows)
    words = ["run", tmp_path / "wine.csv", "--label", "class", "--classes", "a,b,c", "--method", "ballots", "--near", 3]
    poisonproof(*words, "--group-column", "maker", "--out", tmp_path / "run")
    told = json.loads(poisonproof("audit", tmp_path / "run", "--targets", 4, "--json").stdout)
    assert told["ok"]
    assert told["unit"] == "contributors"
    assert (tmp_path / "run" / "audit.svg").exists()
    done = poisonproof("audit", tmp_path / "run", "--method", "tight", code=2)
    assert "is of base classifiers" in " ".join(done.stderr.split())
    done = poisonproof("audit", tmp_path / "run", "--kinds", "backdoor", code=2)
    assert "an attack is one of" in " ".join(done.stderr.split())

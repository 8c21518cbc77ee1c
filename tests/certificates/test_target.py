"""Radii against one target: the formulas word for word, and attackers who try everything."""

import numpy as np
import pytest
from test_certificates import random_spread, random_votes

from ballot_cases import FAMILIES
from ballot_cases import Verdict as BallotVerdict
from poisonproof import Spread, TargetCertificate, Votes, certify
from poisonproof.ballots.tallies import Ballots, Neighbours
from poisonproof.core.split import Split
from refused import refused
from target_oracle import (
    smallest_attack,
    smallest_attack_trying_everything,
    theorem_2_against,
)

METHODS = ("finite-aggregation", "dpa-bound")


def random_votes_of(rng, n, n_classes, n_test):
    return np.array([random_votes(rng, n, n_classes) for _ in range(n_test)])


def test_to_give_everything_reached_to_the_target_is_the_worst_and_no_radius_is_broken():
    """Every rewriting of the reached votes: 200 cases."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        n, n_classes = int(rng.integers(1, 6)), int(rng.integers(2, 4))
        spread, c = random_spread(rng, n), int(rng.integers(n_classes))
        row, table = random_votes(rng, n, n_classes).tolist(), spread.as_table()
        smallest = smallest_attack_trying_everything(row, table, n_classes, c)
        assert smallest == smallest_attack(np.array(row), table, n_classes, c)
        for method in METHODS:
            found = certify(Votes([row], spread, range(n_classes)), method, target=c)
            assert found.already[0] if smallest == 0 else found.radius[0] < smallest, (method, spread, row, c)


def test_no_radius_is_broken_and_with_d_1_each_is_exact():
    """Every set of partitions, 600 cases; never below the radius against any change."""
    rng = np.random.default_rng(2)
    exact = above = 0
    for case in range(60):
        n, n_classes = int(rng.integers(2, 12)), int(rng.integers(2, 6))
        spread, c, unseen = random_spread(rng, n), int(rng.integers(n_classes)), bool(case % 2)
        votes = Votes(random_votes_of(rng, n, n_classes, 10), spread, range(n_classes), classes_inferred=unseen)
        table = spread.as_table()
        smallest = np.array([smallest_attack(row, table, n_classes, c) for row in votes.matrix.astype(np.int64)])
        bounds = {}
        for method in METHODS:
            found, any_change = certify(votes, method, target=c), certify(votes, method)
            bounds[method] = found.radius
            assert np.array_equal(found.prediction, any_change.prediction)
            assert np.array_equal(found.already, smallest == 0)
            assert (found.radius[~found.already] < smallest[~found.already]).all(), (method, spread, votes.matrix, c)
            assert (found.radius[~found.already] >= any_change.radius[~found.already]).all()
            above += int((found.radius > any_change.radius).sum())
            if spread.d == 1 and method != "dpa-bound":
                exact += int((~found.already).sum())
                assert (found.radius + 1 == smallest)[~found.already].all(), (method, spread, votes.matrix, c)
        assert (bounds["dpa-bound"] <= bounds["finite-aggregation"]).all()
    assert exact > 50
    assert above > 80


def test_the_kernel_computes_the_formulas():
    """500 cases with up to 30 base classifiers against plain Python, in any number of threads."""
    rng = np.random.default_rng(3)
    for case in range(50):
        n, n_classes = int(rng.integers(2, 30)), int(rng.integers(2, 9))
        spread, c = random_spread(rng, n), int(rng.integers(n_classes))
        votes = Votes(random_votes_of(rng, n, n_classes, 10), spread, range(n_classes))
        found = certify(votes, target=c, n_jobs=1 + case % 2)
        table = spread.as_table().tolist()
        references = [theorem_2_against(row.tolist(), table, n_classes, c) for row in votes.matrix]
        assert found.radius.tolist() == references, (spread, votes.matrix, c)
        counts = votes.counts()
        leads = [counts[t, p] - counts[t, c] - (c < p) if p != c else 0 for t, p in enumerate(found.prediction)]
        assert found.margin.tolist() == leads


def test_all_classes_must_be_overtaken_not_the_prediction_alone():
    """One vote moves class 0 past the prediction, but not past the two others that have as many votes."""
    votes = Votes([[1, 1, 2, 2, 3, 3]], Spread.random(6, 1), range(4))
    assert certify(votes).radius.tolist() == [0]
    assert certify(votes, target=0).radius.tolist() == [1]


def test_reachable_partitions_and_targets_together():
    votes = Votes([[0, 0, 0, 0, 1, 1]], Spread.random(6, 1), range(3))
    assert certify(votes, target=2).radius.tolist() == [2]
    assert certify(votes, target=2, reachable=[]).radius.tolist() == [6]
    assert certify(votes, target=2, reachable=[0, 1, 2]).radius.tolist() == [2]
    assert certify(votes, target=1, reachable=[4, 5]).radius.tolist() == [6]
    assert "reachable partitions" in str(certify(votes, target=1, reachable=[4, 5]))


def test_a_target_certificate_says_what_it_proves_and_is_saved(tmp_path):
    votes = Votes([[0, 0, 0, 0], [0, 0, 1, 2], [2, 2, 2, 1]], Spread.random(4, 1), ["cat", "dog", "owl"], "content")
    found = certify(votes, target="owl")
    assert found.label == "owl"
    assert found.already.tolist() == [False, False, True]
    assert found.radius.tolist() == [2, 0, 0]
    assert found.withstands(0).tolist() == [True, True, False]
    assert found.certified_share([0, 1, 2, 3]).tolist() == [2 / 3, 1 / 3, 1 / 3, 0]
    assert found.certified_share([0, 1], ["cat", "dog", "owl"]).tolist() == [1, 1 / 2]
    assert found.radius_against("modify").tolist() == [1, 0, 0]
    assert "against turning 2 predictions to 'owl'" in str(found)
    found.save(tmp_path / "t.npz")
    back = TargetCertificate.load(tmp_path / "t.npz")
    assert str(back) == str(found)
    assert back.exact is found.exact is None
    with pytest.raises(ValueError, match="read-only"):
        found.radius[0] = 9
    with refused("certify.target"):
        certify(votes, target="eel")
    for method in ("tight", "run-off"):
        with refused("certify.target"):
            certify(votes, method, target="owl")
    with refused("certificate.no-test"):
        found.certified_share([0], ["owl"] * 3)
    with refused("labels.count"):
        found.certified_share([0], ["owl"])
    with refused("certificate.attack-size"):
        found.withstands(-1)
    loose = certify(Votes(votes.matrix, votes.spread, range(3)), target=1)
    assert loose.radius_against("insert_remove") is loose.radius
    with refused("certificate.split"):
        loose.radius_against("modify")


@pytest.mark.parametrize(("family", "n_cases"), [(name, 40 if "contrib" in name else 120) for name in FAMILIES])
def test_samples_that_vote_no_attack_gives_the_target_and_exact_radii_are_exact(family, n_cases):
    verdict = BallotVerdict()
    for seed in range(n_cases):
        FAMILIES[family](seed, verdict, target=True)
    assert verdict.checked > n_cases // 4
    assert verdict.broken == []
    assert verdict.loose_though_exact == []


def test_a_target_certificate_of_samples_that_vote_is_saved_and_counts_changes_as_two(tmp_path):
    """F = 8, −6 and 0: the leads over classes 1 and 2 are the radii, whatever the third class does."""
    facts = (np.array([[10, 3, 6]]), np.array([12, 12, 12]), np.zeros(3, int), np.array(["cat", "dog", "owl"]))
    ballots = Ballots(*facts, np.array([True]), split=Split("content", "float64"))
    against = {label: certify(ballots, target=label) for label in ("cat", "dog", "owl")}
    assert [found.radius.tolist() for found in against.values()] == [[0], [14], [8]]
    assert certify(ballots).radius.tolist() == [8]
    assert against["cat"].already.tolist() == [True]
    assert against["dog"].exact.tolist() == [True]
    assert against["dog"].radius_against("label_flip").tolist() == [7]
    assert against["dog"].radius_against("modify").tolist() == [7]
    with refused("certificate.act"):
        against["dog"].radius_against("nonsense")
    assert "36 training samples vote" in str(against["dog"])
    against["dog"].save(tmp_path / "t.npz")
    back = TargetCertificate.load(tmp_path / "t.npz")
    assert str(back) == str(against["dog"])
    assert (back.election, back.spread) == (against["dog"].election, None)
    unsure = Ballots(*facts, np.array([False]))
    assert not certify(unsure, target="dog").exact.any()
    with refused("certify.reachable"):
        certify(ballots, target="dog", reachable=[0])
    with refused("certify.target"):
        certify(ballots, target="eel")


def test_neighbours_beyond_the_list_are_counted_for_the_attacker():
    """Of six samples four are listed: what a removal lets in is not known, so one poison may be enough."""
    order = np.array([[0, 0, 0, 0, 1, 1]])
    whole = Neighbours(order, np.array([True]), 4, 6, np.arange(2))
    part = Neighbours(order[:, :4], np.array([True]), 4, 6, np.arange(2))
    assert certify(whole, target=1).radius.tolist() == [2]
    assert certify(whole, target=1).exact.all()
    assert certify(part, target=1).radius.tolist() == [0]
    assert not certify(part, target=1).exact.any()

"""Run-off on the first places of rankings: whatever was not kept, no radius is broken or above that of all places."""

import json

import numpy as np
import pytest

from command_line import poisonproof
from ensembles import random_spread
from poisonproof import Spread, Votes, certify
from poisonproof.core.certify import median_radii_against_targets
from runoff_oracle import as_array, check_cut_case, random_case

ARRAYS = ("prediction", "runner_up", "margin", "radius", "exact")


def test_no_radius_is_broken_however_the_rankings_go_on():
    """300 cases, every set of partitions, n ≤ 14; the twin computes the same formulas."""
    rng = np.random.default_rng(0)
    kept = lost = 0
    for case in range(300):
        unseen = case % 3 == 0
        n_classes = int(rng.integers(3, 6))
        n, places = int(rng.integers(8, 15)), int(rng.integers(1, n_classes))
        (radius, _), (full, _) = check_cut_case(rng, n, n_classes, unseen, places, random_spread(rng, n))
        kept += radius > 0
        lost += radius < full
    assert kept > 60
    assert lost > 5


def ranked(cases, n_classes, places, spread, unseen=False):
    rankings = np.array([as_array(rankings, n_classes) for rankings in cases])[..., :places]
    return Votes(rankings[..., 0], spread, range(n_classes), classes_inferred=unseen, rankings=rankings)


@pytest.mark.parametrize("d", [1, 3])
def test_places_that_hold_all_that_was_ranked_lose_nothing(d):
    """Rankings that end within the places kept are whole: the same certificate, field by field."""
    rng = np.random.default_rng(d)
    spread, n_classes = Spread.random(8, d), 7
    cases = [[r[:3] for r in random_case(rng, 8 * d, n_classes)] for _ in range(40)]
    for unseen in (False, True):
        whole = certify(ranked(cases, n_classes, n_classes, spread, unseen), "run-off")
        cut = certify(ranked(cases, n_classes, 4, spread, unseen), "run-off")
        for name in ARRAYS:
            assert np.array_equal(getattr(whole, name), getattr(cut, name)), name


def test_where_every_base_classifier_names_the_winner_nothing_is_lost():
    """1,000 classes, five places: the rest of the rankings cannot matter, and 990 classes nobody names stay silent."""
    rng = np.random.default_rng(2)
    spread, n_classes = Spread.random(20, 2), 1000
    cases = []
    for _ in range(6):
        orders = [[0, *rng.choice(np.arange(1, 12), 4, replace=False)] for _ in range(40)]
        orders = [rng.permutation(order[:3]).tolist() + order[3:] for order in orders]
        cases.append([(*order, *(c for c in range(n_classes) if c not in order)) for order in orders])
    whole = certify(ranked(cases, n_classes, n_classes, spread), "run-off")
    cut = certify(ranked(cases, n_classes, 5, spread), "run-off")
    assert (whole.prediction == 0).all()
    assert whole.radius.max() > 2
    for name in ARRAYS:
        assert np.array_equal(getattr(whole, name), getattr(cut, name)), name


def test_one_place_knows_no_second_round():
    """Two classes meet, everybody else votes for others: with one place kept nobody knows whom these prefer."""
    rankings = [(0, 1)] * 3 + [(1, 0)] * 2 + [(2, 0, 1)] * 2
    whole = certify(ranked([rankings], 3, 3, Spread.random(7, 1)), "run-off")
    cut = certify(ranked([rankings], 3, 1, Spread.random(7, 1)), "run-off")
    assert whole.prediction.tolist() == cut.prediction.tolist() == [0]
    assert whole.radius.tolist() == [1]
    assert cut.radius.tolist() == [0]
    assert not cut.exact[0]


def test_files_keep_the_places_they_have(tmp_path):
    rng = np.random.default_rng(3)
    votes = ranked([random_case(rng, 9, 6) for _ in range(5)], 6, 2, Spread.random(9, 1))
    votes.save(tmp_path / "v.npy")
    back = Votes.load(tmp_path / "v.npy")
    assert back.rankings.shape == (5, 9, 2)
    assert np.array_equal(certify(back, "run-off").radius, certify(votes, "run-off").radius)


def test_medians_against_targets_of_run_offs_are_those_against_any_change():
    """Who changes no prediction gives none to a target."""
    rng = np.random.default_rng(4)
    cases, spread = [random_case(rng, 9, 4) for _ in range(12)], Spread.random(9, 1)
    cut = ranked(cases, 4, 2, spread)
    any_change = certify(cut, "run-off")
    held = [any_change.radius[any_change.prediction != target] for target in range(4)]
    medians = median_radii_against_targets(cut, any_change)
    assert medians == tuple(int(np.percentile(radii, 50, method="lower")) for radii in held)


def test_a_file_that_does_not_tell_cut_rankings_from_whole_ones_needs_the_number_of_classes(tmp_path):
    """Two places and the code 2: nothing more, or the third class? The radius of one is not that of the other."""
    rankings = np.array([[[0, 2], [0, 2], [0, 2], [1, 0], [1, 0]]])
    np.save(tmp_path / "votes.npy", rankings[..., 0])
    np.save(tmp_path / "votes.rankings.npy", rankings)
    words = ("certify", tmp_path / "votes.npy", "--spread", "dpa:5", "--method", "run-off")
    assert "--classes N" in poisonproof(*words, code=2).stderr
    for n_classes in (2, 3):
        stated = json.loads(poisonproof(*words, "--classes", n_classes, "--json").stdout)
        votes = Votes(rankings[..., 0], Spread(5, (0,)), range(n_classes), rankings=rankings)
        assert stated["radius"] == certify(votes, "run-off").radius.tolist()

"""Run-off: radii against the formulas, word for word, and against attackers who try every ranking.

On the first places of rankings too: whatever was not kept, no radius is broken or above that of all places.
"""

import json

import numpy as np
import pytest

from command_line import poisonproof
from ensembles import random_spread
from poisonproof import Certificate, Spread, Votes, certify
from poisonproof.core.certify import median_radii_against_targets
from refused import refused
from runoff_oracle import (
    as_array,
    check_cut_case,
    elect,
    formula,
    random_case,
    smallest_attack,
    smallest_attack_trying_everything,
)

ARRAYS = ("prediction", "runner_up", "margin", "radius")
CYCLE = [(1, 2, 0), (2, 0, 1), (1, 2, 0), (1, 0, 2), (2, 0, 1), (1, 2, 0)]


def ranked_votes(cases, spread, n_classes, unseen=False, places=None):
    rankings = np.array([as_array(rankings, n_classes) for rankings in cases])[..., :places]
    return Votes(rankings[..., 0], spread, range(n_classes), classes_inferred=unseen, rankings=rankings)


def certified(cases, spread, n_classes, unseen=False):
    return certify(ranked_votes(cases, spread, n_classes, unseen), "run-off")


def test_the_attacker_who_ranks_one_rival_first_or_shares_between_two_is_the_worst():
    """Every ranking of everything reached, on small ensembles: 400 cases; no radius is broken."""
    rng = np.random.default_rng(1)
    for case in range(400):
        unseen = bool(case % 3 == 0)
        n_classes = int(rng.integers(1, 3)) if unseen else int(rng.integers(2, 5))
        n = int(rng.integers(1, 7 - n_classes // 4 - unseen))
        spread, rankings = random_spread(rng, n), random_case(rng, n, n_classes)
        table = spread.as_table().tolist()
        smallest = smallest_attack_trying_everything(rankings, table, n_classes, unseen)
        assert smallest == smallest_attack(rankings, table, n_classes, unseen), (rankings, table)
        certificate = certified([rankings], spread, n_classes, unseen)
        assert certificate.radius[0] < smallest, (spread, rankings)
        assert not certificate.exact[0] or certificate.radius[0] + 1 == smallest


PLANE = Spread(21, (3, 6, 7, 12, 14))  # any two partitions meet, so sums over partitions say too much


def test_no_radius_is_broken_and_exact_ones_are():
    """Every set of partitions, 4,000 cases with n ≤ 12 or 21; with d = 1 every radius is exact."""
    rng = np.random.default_rng(2)
    positive = loose = 0
    for case in range(400):
        unseen = bool(case % 2)
        n, n_classes = int(rng.integers(2, 13)), int(rng.integers(1 if unseen else 2, 5))
        spread = PLANE if case % 5 == 0 else random_spread(rng, n)
        cases = [random_case(rng, spread.n_subsets, n_classes) for _ in range(10)]
        certificate = certified(cases, spread, n_classes, unseen)
        table = spread.as_table().tolist()
        smallest = np.array([smallest_attack(rankings, table, n_classes, unseen) for rankings in cases])
        assert (certificate.radius < smallest).all(), (spread, cases)
        assert (certificate.radius[certificate.exact] + 1 == smallest[certificate.exact]).all(), (spread, cases)
        assert certificate.exact.all() or spread.d > 1
        positive += int((certificate.radius > 0).sum())
        loose += int((~certificate.exact).sum())
    assert positive > 1000
    assert 20 < loose < 400


def test_the_kernel_computes_the_formulas():
    """800 cases against plain Python, and never below the formulas without ⌈T/d⌉."""
    rng = np.random.default_rng(3)
    differing = raised = 0
    for case in range(80):
        unseen = bool(case % 2)
        n, n_classes = int(rng.integers(2, 20)), int(rng.integers(1 if unseen else 2, 6))
        spread = random_spread(rng, n)
        cases = [random_case(rng, n, n_classes) for _ in range(10)]
        certificate = certified(cases, spread, n_classes, unseen)
        table = spread.as_table().tolist()
        references = [formula(rankings, table, n_classes, unseen) for rankings in cases]
        for name in ARRAYS:
            assert getattr(certificate, name).tolist() == [reference[name] for reference in references], (
                name,
                spread,
                cases,
            )
        plain = [formula(rankings, table, n_classes, unseen, members=False)["radius"] for rankings in cases]
        assert (certificate.radius >= plain).all()
        raised += int((certificate.radius > plain).sum())
        most_voted = ranked_votes(cases, spread, n_classes, unseen).counts().argmax(axis=1)
        differing += int((certificate.prediction != most_voted).sum())
    assert differing > 10
    assert raised > 0


def test_gaps_must_not_be_clipped():
    """The form in print clips gaps at 0 and claims radius 1 here; one poison wins.

    Class 1 has votes to spare and meets class 2 in the final, where all others prefer 2. The partitions that reach a
    voter of 2 reach two of 1 as well: all three vote 0, which then ties with 2 and comes first.
    """
    rest = list(range(3, 15))
    groups = [[2, 1, 1]] * 4 + [rest[at : at + 3] for at in range(0, 12, 3)]
    rankings = [
        (first, *[c for c in (2, 1) if c != first], *[c for c in (0, *rest) if c != first])
        for group in groups
        for first in group
    ]
    table = [[3 * (j // 3) + at for at in range(3)] for j in range(24)]
    classes = range(15)
    assert elect(rankings, classes) == 2
    assert formula(rankings, table, 15, members=False, clipped=True)["radius"] == 1
    poisoned = [*[(0, *range(1, 15))] * 3, *rankings[3:]]
    assert elect(poisoned, classes) != 2
    certificate = certified([rankings], Spread.from_table(table), 15)
    assert certificate.radius.tolist() == [0]
    assert certificate.exact.tolist() == [True]


def test_two_conditions_may_need_different_members():
    """The formulas alone give radius 0 here; the smallest attack has size 2, and the certificate says so."""
    table = [[i] for i in range(6)]
    assert formula(CYCLE, table, 3, members=False)["radius"] == 0
    assert smallest_attack_trying_everything(CYCLE, table, 3) == 2
    certificate = certified([CYCLE], Spread.random(6, 1), 3)
    assert certificate.radius.tolist() == [1]
    assert certificate.exact.tolist() == [True]


def closed_form(rankings, n_classes):
    """R1 for d = 1 in print: the two smallest gaps, clipped at 0."""
    p = elect(rankings, range(n_classes))
    votes = [r[0] if r else None for r in rankings]
    gaps = sorted(max(0, votes.count(p) - votes.count(c) + (c > p)) for c in range(n_classes) if c != p)
    return max(-(-gaps[0] // 2), -(-gaps[1] // 2), -(-(gaps[0] + gaps[1]) // 3))


def test_with_d_1_the_first_round_has_a_closed_form():
    """As long as the prediction has two votes: the closed form supposes that there are voters of p to turn."""
    rng = np.random.default_rng(4)
    checked = 0
    for _ in range(500):
        n, n_classes = int(rng.integers(3, 12)), int(rng.integers(3, 6))
        rankings = random_case(rng, n, n_classes)
        p = elect(rankings, range(n_classes))
        if sum(r[:1] == (p,) for r in rankings) >= 2:
            r1 = formula(rankings, [[i] for i in range(n)], n_classes)["r1"]
            assert r1 == closed_form(rankings, n_classes), rankings
            checked += 1
    assert checked > 300


def test_a_single_class_defends_itself_against_invented_ones():
    certificate = certified([[(0,)] * 5, [(0,)] * 2 + [()] * 3, [()] * 5], Spread.random(5, 1), 1, unseen=True)
    assert certificate.radius.tolist() == [2, 0, 0]
    assert certificate.runner_up.tolist() == [1, 1, 1]
    assert certificate.margin.tolist() == [4, 1, 0]


def test_two_classes_meet_in_the_final_whatever_happens():
    """With d = 1, complete rankings and two classes, run-off is plurality."""
    rng = np.random.default_rng(5)
    matrix = rng.integers(0, 2, (300, 15))
    votes = Votes(matrix, Spread.random(15, 1), range(2), rankings=np.stack([matrix, 1 - matrix], axis=2))
    plain, off = certify(votes), certify(votes, "run-off")
    for name in ARRAYS:
        assert np.array_equal(getattr(plain, name), getattr(off, name)), name


def test_many_classes_large_d_and_any_number_of_threads():
    """300 classes need uint16, d = 90 sums above 255: 290 classes that nobody names must change nothing."""
    rng = np.random.default_rng(6)
    spread, n_classes = Spread.random(2, 90), 300
    few = [[tuple(c for c in r if c < 9) for r in random_case(rng, 180, 10)] for _ in range(12)]
    certificate = certify(ranked_votes(few, spread, n_classes), "run-off", n_jobs=2)
    assert ranked_votes(few, spread, n_classes).rankings.dtype == np.uint16
    alone = certify(ranked_votes(few, spread, 10), "run-off", n_jobs=1)
    for name in (*ARRAYS, "exact"):
        assert np.array_equal(getattr(certificate, name), getattr(alone, name)), name


def test_rankings_are_saved_mapped_and_refused_when_altered(tmp_path):
    votes = ranked_votes([CYCLE, CYCLE[::-1]], Spread.random(3, 2), 3)
    votes.save(tmp_path / "v.npy")
    back = Votes.load(tmp_path / "v.npy")
    assert isinstance(back.rankings, np.memmap)
    assert np.array_equal(back.rankings, votes.rankings)
    assert back.rankings.dtype == np.uint8
    assert np.array_equal(certify(back, "run-off").radius, certify(votes, "run-off").radius)
    path = tmp_path / "v.rankings.npy"
    body = bytearray(path.read_bytes())
    body[-1] ^= 1
    path.write_bytes(body)
    with refused("file.damaged"):
        Votes.load(tmp_path / "v.npy")
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"v\.rankings\.npy"):
        Votes.load(tmp_path / "v.npy")
    Votes(votes.matrix, votes.spread, range(3)).save(tmp_path / "plain.npy")
    assert Votes.load(tmp_path / "plain.npy").rankings is None


def changed(at, value):
    rankings = as_array([(0, 1, 2), (1, 2), (), (2, 0, 1)], 3)[None]
    rankings[(0, *at)] = value
    return rankings


@pytest.mark.parametrize(
    ("rankings", "message"),
    [
        (changed((0, 1), 0), "base classifier 0 on test sample 0 names class 0 twice"),
        (changed((0, 1), 4), r"holds 4, but classes are 0 … 2 and 3 stands for nothing more"),
        (changed((0, 1), -1), "holds -1"),
        (
            changed((0, 1), 3),
            "base classifier 0 on test sample 0 goes on with class 2 after a place that holds nothing",
        ),
        (changed((3, slice(None)), [1, 2, 0]), "base classifier 3 on test sample 0 begins with 1, but the vote is 2"),
        (changed((2, 0), 1), "base classifier 2 on test sample 0 begins with 1, but the vote is 3"),
        (changed((0, 0), 0)[..., :0], r"shape \(test samples, base classifiers, classes\), here \(1, 4, 3\)"),
        (changed((0, 0), 0)[..., [0, 1, 2, 2]], r"\(1, 4, 3\), or fewer places from the first on. Got \(1, 4, 4\)"),
        (changed((0, 0), 0).astype(float), "whole numbers, class indices. Got dtype float64"),
    ],
)
def test_what_are_not_rankings_of_these_votes_is_refused_in_one_sentence(rankings, message):
    with pytest.raises(ValueError, match=message):
        Votes([[0, 1, 3, 2]], Spread.random(4, 1), range(3), rankings=rankings)


def test_run_off_without_rankings_is_refused_and_its_certificate_is_saved(tmp_path):
    votes = ranked_votes([CYCLE], Spread.random(6, 1), 3)
    with refused("certify.no-rankings"):
        certify(Votes(votes.matrix, votes.spread, range(3)), "run-off")
    certificate = certify(votes, "run-off")
    certificate.save(tmp_path / "c.npz")
    back = Certificate.load(tmp_path / "c.npz")
    assert back.method == "run-off"
    assert back.exact.tolist() == [True]


# Rankings of which only the first places were kept


def test_no_radius_is_broken_however_the_rankings_go_on():
    """300 cases, every set of partitions, n ≤ 14; the reference computes the same formulas."""
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


@pytest.mark.parametrize("d", [1, 3])
def test_places_that_hold_all_that_was_ranked_lose_nothing(d):
    """Rankings that end within the places kept are whole: the same certificate, field by field."""
    rng = np.random.default_rng(d)
    spread, n_classes = Spread.random(8, d), 7
    cases = [[r[:3] for r in random_case(rng, 8 * d, n_classes)] for _ in range(40)]
    for unseen in (False, True):
        whole = certify(ranked_votes(cases, spread, n_classes, unseen, places=n_classes), "run-off")
        cut = certify(ranked_votes(cases, spread, n_classes, unseen, places=4), "run-off")
        for name in (*ARRAYS, "exact"):
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
    whole = certify(ranked_votes(cases, spread, n_classes, places=n_classes), "run-off")
    cut = certify(ranked_votes(cases, spread, n_classes, places=5), "run-off")
    assert (whole.prediction == 0).all()
    assert whole.radius.max() > 2
    for name in (*ARRAYS, "exact"):
        assert np.array_equal(getattr(whole, name), getattr(cut, name)), name


def test_one_place_knows_no_second_round():
    """Two classes meet, everybody else votes for others: with one place kept nobody knows whom these prefer."""
    rankings = [(0, 1)] * 3 + [(1, 0)] * 2 + [(2, 0, 1)] * 2
    whole = certify(ranked_votes([rankings], Spread.random(7, 1), 3, places=3), "run-off")
    cut = certify(ranked_votes([rankings], Spread.random(7, 1), 3, places=1), "run-off")
    assert whole.prediction.tolist() == cut.prediction.tolist() == [0]
    assert whole.radius.tolist() == [1]
    assert cut.radius.tolist() == [0]
    assert not cut.exact[0]


def test_files_keep_the_places_they_have(tmp_path):
    rng = np.random.default_rng(3)
    votes = ranked_votes([random_case(rng, 9, 6) for _ in range(5)], Spread.random(9, 1), 6, places=2)
    votes.save(tmp_path / "v.npy")
    back = Votes.load(tmp_path / "v.npy")
    assert back.rankings.shape == (5, 9, 2)
    assert np.array_equal(certify(back, "run-off").radius, certify(votes, "run-off").radius)


def test_medians_against_targets_of_run_offs_are_those_against_any_change():
    """Who changes no prediction gives none to a target."""
    rng = np.random.default_rng(4)
    cases, spread = [random_case(rng, 9, 4) for _ in range(12)], Spread.random(9, 1)
    cut = ranked_votes(cases, spread, 4, places=2)
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

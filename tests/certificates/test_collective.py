"""Certified accuracy (one shared attack) against an attacker who tries every set of partitions."""

import dataclasses
import json
from itertools import combinations, count

import numpy as np
import pytest

from command_line import as_process as poisonproof
from oracle import UNSEEN, reached_by, theorem_2, winner
from poisonproof import CertifiedAccuracy, Spread, Votes, certified_accuracy, certify
from poisonproof.core import shared_attack as shared
from refused import refused
from shared_oracle import fewest_right, fewest_right_fast, random_case, stays_right
from tests.helpers.premises import in_words

TWO_SAMPLES = [[0, 0, 0, 1, 1, 2], [1, 1, 2, 0, 0, 0]]


def certified(matrix, y, spread, n_classes, unseen, size, **options):
    return certified_accuracy(Votes(matrix, spread, range(n_classes), classes_inferred=unseen), y, size, **options)


@pytest.mark.parametrize(("method", "cases"), [("finite-aggregation", 250), ("tight", 100)])
def test_the_truth_lies_between_the_bounds_and_time_closes_them(method, cases):
    """Every set of partitions, n ≤ 12; given time, both bounds are the truth."""
    rng = np.random.default_rng(5)
    better = 0
    for _ in range(cases):
        case = random_case(rng, 5, 13, 40)
        matrix, y, spread, n_classes, unseen, size = case
        truth = fewest_right_fast(matrix, y, spread.as_table(), n_classes, unseen, size)
        found = certified(*case, method=method)
        assert found.lower_count == found.upper_count == truth, (case, found)
        assert found.exact
        assert found.gap == 0
        better += found.lower_count > found.certified_count
        votes = Votes(matrix, spread, range(n_classes), classes_inferred=unseen)
        assert found.certified_fraction == certify(votes, method).evaluate(y).certified_fraction(size)
    assert better > cases // 10


def test_the_fast_reference_is_the_slow_one():
    rng = np.random.default_rng(4)
    for _ in range(100):
        matrix, y, spread, n_classes, unseen, size = random_case(rng)
        table = spread.as_table()
        slow = fewest_right(matrix, y, table, n_classes, unseen, size)
        assert fewest_right_fast(matrix, y, table, n_classes, unseen, size) == slow


def test_bounds_are_sound_whenever_time_runs_out(monkeypatch):
    """A clock that ends after any number of looks: 300 cases, n ≤ 13; some are still open when it does."""
    rng = np.random.default_rng(6)
    still_open = loose = closed_late = 0
    for _ in range(300):
        case = random_case(rng, 8, 14, 60)
        looks, last = count(), int(rng.integers(1, 16))
        monkeypatch.setattr(shared, "monotonic", lambda looks=looks, last=last: 1e12 * (next(looks) > last))
        for name, most in (("NODES_AT_ONCE", 4), ("RESTARTS", 2), ("ROUNDS", 3), ("CELLS_PER_TASK", 1000)):
            monkeypatch.setattr(shared, name, int(rng.integers(1, most)))
        found = certified(*case, seed=int(rng.integers(9)))
        matrix, y, spread, n_classes, unseen, size = case
        truth = fewest_right_fast(matrix, y, spread.as_table(), n_classes, unseen, size)
        assert found.certified_count <= found.lower_count <= truth <= found.upper_count, (case, found)
        still_open += not found.exact
        loose += found.certified_count < found.lower_count < truth
        closed_late += found.exact and next(looks) > 8
    assert still_open > 25
    assert loose > 10
    assert closed_late


def test_time_limit_nothing_is_sound_and_attack_size_1_is_exact_without_time():
    rng = np.random.default_rng(7)
    for _ in range(150):
        case = random_case(rng)
        matrix, y, spread, n_classes, unseen, size = case
        found = certified(*case, time_limit=0)
        assert found.certified_count <= found.lower_count
        truth = fewest_right(matrix, y, spread.as_table(), n_classes, unseen, size)
        assert found.lower_count <= truth <= found.upper_count, (case, found)
        one = certified(matrix, y, spread, n_classes, unseen, 1, time_limit=0)
        assert one.lower_count == fewest_right(matrix, y, spread.as_table(), n_classes, unseen, 1), case
        assert one.exact


def test_any_multipliers_are_sound():
    """The certificate does not believe the solver: nonsense for multipliers gives a bound above every attack."""
    rng = np.random.default_rng(8)
    for _ in range(100):
        matrix, y, spread, n_classes, unseen, _ = random_case(rng)
        size = int(rng.integers(2, 4))
        right = [t for t in range(len(y)) if winner(matrix[t], n_classes) == y[t]]
        if not right:
            continue
        truth = len(right) - fewest_right(matrix, y, spread.as_table(), n_classes, unseen, size)
        votes = Votes(matrix, spread, range(n_classes), classes_inferred=unseen)
        size = min(size, spread.n_partitions)
        rivals = shared.Rivals.of(votes, np.array(right), np.array(y, np.int64)[right], size, 1)
        problem = rivals.rows_of(np.arange(len(right)), 1)
        points = [rng.dirichlet(np.ones(problem.n)) * size for _ in range(3)]
        cuts = [problem.cut(0, 0, len(right), at) for at in points]
        assert shared.bound_from(rng.normal(0.3, 1, 3), cuts, np.array([len(right)]), size) >= truth


def test_counting_only_those_who_vote_for_the_label_is_a_flaw():
    """7 base classifiers, 2 test samples, attack size 2: both predictions can flip at once."""
    matrix = [[1, 2, 2, 1, 1, 0, 0], [2, 1, 1, 0, 2, 1, 1]]
    found = certified(matrix, [1, 1], Spread(7, (0,)), 3, False, 2)
    assert fewest_right(matrix, [1, 1], Spread(7, (0,)).as_table(), 3, False, 2) == 0
    assert (found.lower_count, found.upper_count) == (0, 0)


def test_two_samples_of_the_paper():
    """Either prediction can be flipped, but not both: certified fraction 0 %, certified accuracy 50 %."""
    found = certified(TWO_SAMPLES, [0, 0], Spread(6, (0,)), 3, False, 1)
    assert found.certified_fraction == 0.0
    assert found.lower == found.upper == 0.5


def test_certified_accuracy_is_above_the_fraction_on_a_large_ensemble_and_does_not_depend_on_threads():
    rng = np.random.default_rng(0)
    spread = Spread.paper(20, 4)
    matrix = (rng.random((400, 80)) > rng.beta(3, 3, (400, 1))).astype(int) * rng.integers(1, 5, (400, 80))
    for size in (2, 3):
        one, two = (certified(matrix, np.zeros(400, int), spread, 5, False, size, n_jobs=jobs) for jobs in (1, 2))
        assert one.exact
        assert one.certified_count < one.lower_count == two.lower_count
        assert one.attack.tolist() == two.attack.tolist()
    large = certified(matrix, np.zeros(400, int), spread, 5, False, 5, time_limit=3)
    assert large.certified_count < large.lower_count <= large.upper_count


def test_what_does_not_fit_into_memory_is_given_up_not_forgotten(monkeypatch):
    rng = np.random.default_rng(9)
    given_up = 0
    for _ in range(100):
        matrix, y, spread, n_classes, unseen, size = case = random_case(rng, 6, 11, 30)
        monkeypatch.setattr(shared, "MOST_CELLS", int(rng.integers(1, 7)) * spread.n_partitions)
        found = certified(*case)
        truth = fewest_right(matrix, y, spread.as_table(), n_classes, unseen, size)
        assert found.certified_count <= found.lower_count <= truth <= found.upper_count, case
        assert size > 1 or found.exact
        given_up += "given up" in found.proved
    assert given_up > 5


def test_attack_sizes_beyond_the_partitions_and_everyone_abstaining():
    found = certified([[0, 0, 1], [0, 0, 0]], [0, 0], Spread(3, (0,)), 2, False, 50)
    assert found.lower_count == found.upper_count == 0
    assert found.attack.tolist() == [0, 1, 2]
    silent = certified([[1, 1]], [0], Spread(2, (0,)), 1, True, 1)
    assert (silent.lower_count, silent.upper_count, silent.clean_count) == (0, 0, 1)
    assert certified([[1, 1]], [0], Spread(2, (0,)), 1, True, 0).lower == 1.0


def test_the_record_is_frozen_and_speaks():
    found = certified(TWO_SAMPLES, [0, 0], Spread(6, (0,)), 3, False, 1)
    assert isinstance(found, CertifiedAccuracy)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.lower_count = 2
    with pytest.raises(ValueError, match="read-only"):
        found.attack[0] = 1
    assert "Certified accuracy 50.0 % (one shared attack of size 1): at least 1 of 2" in str(found)
    assert "certified fraction 0.0 % (pointwise)" in str(found)
    assert found.as_dict()["attack"] == found.attack.tolist()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"attack_size": -1}, "An attack size must be a whole number ≥ 0. Got -1"),
        ({"attack_size": float("nan")}, "An attack size must be a whole number ≥ 0. Got nan"),
        ({"attack_size": 1.0}, "whole number"),
        ({"attack_size": True}, "whole number"),
        ({"y": [0]}, "There are 2 predictions but 1 labels"),
        ({"y": [6, 7]}, "None of the 2 labels is one of the 2 classes"),
        ({"time_limit": -1}, "'time_limit' must be a number of seconds ≥ 0. Got -1"),
        ({"time_limit": float("nan")}, "'time_limit' must be"),
        ({"time_limit": "long"}, "'time_limit' must be"),
        ({"method": "dpa-bound"}, "must be 'finite-aggregation' or 'tight'"),
        ({"n_jobs": 0}, "'n_jobs'"),
    ],
)
def test_wrong_arguments_get_one_sentence(options, sentence):
    arguments = {"y": [0, 0], "attack_size": 1, **options}
    with pytest.raises(ValueError, match=sentence.replace("(", r"\(")):
        certified_accuracy(Votes([[0, 0, 1], [0, 0, 0]], Spread(3, (0,)), [0, 1]), **arguments)


def test_no_votes_and_no_samples_get_one_sentence():
    with refused("type"):
        certified_accuracy([[0, 1]], [0], 1)


def reachable_reference(row, table, n_classes, unseen, within):
    """Theorem 4, word for word: the largest m such that no m of the reachable Δ_j exceed a margin."""
    p = winner(row, n_classes)
    radii = []
    for c in [c for c in range(n_classes) if c != p] + ([UNSEEN] if unseen else []):
        margin = row.count(p) - row.count(c) - (1 if c < p else 0)
        delta = sorted((sum(1 + (row[i] == p) - (row[i] == c) for i in table[j]) for j in within), reverse=True)
        fits = [m for m in range(len(delta) + 1) if sum(delta[:m]) <= margin]
        radii.append(len(table) if len(delta) in fits or not delta else max(fits, default=0))
    return min(radii)


def test_reachable_partitions_bound_the_attacker_and_no_attack_within_them_breaks_a_radius():
    rng = np.random.default_rng(10)
    never = 0
    for _ in range(400):
        matrix, _, spread, n_classes, unseen, _ = random_case(rng)
        table, n = spread.as_table(), spread.n_partitions
        within = np.flatnonzero(rng.random(n) < rng.random())
        votes = Votes(matrix, spread, range(n_classes), classes_inferred=unseen)
        radius = certify(votes, reachable=within).radius
        mask = np.isin(np.arange(n), within)
        assert certify(votes, reachable=mask).radius.tolist() == radius.tolist()
        assert radius.tolist() == [reachable_reference(row, table, n_classes, unseen, within) for row in matrix]
        assert (radius >= certify(votes).radius).all()
        for row, held in zip(matrix, radius, strict=True):
            for size in range(1, min(held, len(within)) + 1):
                for chosen in combinations(within.tolist(), size):
                    assert stays_right(row, set(reached_by(chosen, table)), n_classes, unseen)
        never += int((radius == n).sum())
    assert never > 100


def test_everything_reachable_is_theorem_2_and_the_premise_says_what_is_trusted():
    rng = np.random.default_rng(11)
    spread = Spread.random(10, 4)
    votes = Votes(rng.choice(3, (50, 40), p=[0.6, 0.3, 0.1]), spread, range(3))
    everything = certify(votes, reachable=np.arange(40))
    for name in ("prediction", "runner_up", "margin", "radius"):
        assert getattr(everything, name).tolist() == getattr(certify(votes), name).tolist()
    assert everything.radius.tolist() == [
        theorem_2([int(v) for v in row], spread.as_table(), 3)["radius"] for row in votes.matrix
    ]
    some = certify(votes, reachable=[3, 5, 4, 9])
    assert "Premise: reachable partitions: 4 of 40: 3–5, 9 (declared)" in str(some)
    assert "reachable partitions: 4 of 40: 3–5, 9 (declared)" in in_words(some.facts())
    scattered, other = (certify(votes, reachable=np.arange(first, 40, 3)) for first in (0, 1))
    assert scattered.premises[-1].text == f"14 of 40: {', '.join(map(str, range(0, 40, 3)))}"
    assert scattered.premises != other.premises
    assert "reachable-partitions" not in {premise.code for premise in certify(votes).premises}


@pytest.mark.parametrize(
    ("reachable", "sentence"),
    [
        ([-1], "must lie in 0 … 2. Got -1"),
        ([3], "must lie in 0 … 2. Got 3"),
        ([0.5], "whole numbers or a mask"),
        ([True, False], "needs 3 entries. Got 2"),
        ([[0, 1]], "list of partitions or a mask"),
    ],
)
def test_wrong_reachable_partitions_get_one_sentence(reachable, sentence):
    votes = Votes([[0, 0, 1]], Spread(3, (0,)), [0, 1])
    with pytest.raises(ValueError, match=sentence):
        certify(votes, reachable=reachable)
    for method in ("tight", "dpa-bound"):
        with refused("certify.reachable"):
            certify(votes, method, reachable=[0])


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "votes.npy", np.array(TWO_SAMPLES))
    np.save(tmp_path / "y.npy", np.zeros(2, int))
    return tmp_path / "votes.npy", "--labels", tmp_path / "y.npy", "--spread", "dpa:6"


def test_the_command_prints_both_bounds(files):
    done = poisonproof("certify", "--shared", *files, "--classes", 3, "--attack-size", "0,1,2")
    assert "fraction, % (pointwise)" in done.stdout
    assert "accuracy, % (one shared attack)" in done.stdout
    rows = [" ".join(line.split()) for line in done.stdout.splitlines()]
    for row in (
        "0 ≥ 100.00 ≥ 100.00 ≥ 100.00, ≤ 100.00",
        "1 ≥ 0.00 ≥ 0.00 ≥ 50.00, ≤ 50.00",
        "2 ≥ 0.00 ≥ 0.00 ≥ 0.00, ≤ 0.00",
    ):
        assert row in rows
    assert "attack size 1: exact" in done.stderr
    record = json.loads(
        poisonproof("certify", "--shared", *files, "--classes", 3, "--attack-size", "1", "--json").stdout
    )
    assert record["accuracies"][0]["lower"] == 0.5
    assert record["accuracies"][0]["certified_fraction"] == 0.0


def test_the_command_says_that_classes_were_inferred_and_refuses_wrong_sizes(files):
    done = poisonproof("certify", "--shared", *files, "--time-limit", 0)
    assert "chosen from this data" in done.stderr
    for wrong in ("-1", "1;2"):
        done = poisonproof("certify", "--shared", *files, f"--attack-size={wrong}", code=2)
        assert "--attack-size must be whole numbers ≥ 0" in done.stderr
    done = poisonproof("certify", "--shared", *files, "--time-limit", "nan", code=2)
    assert "'time_limit' must be a number of seconds ≥ 0" in done.stderr

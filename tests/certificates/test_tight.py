"""The tight certificate: never broken, never below Theorem 2, exact where it says so."""

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

import poisonproof.core.certify
from ensembles import random_spread, random_votes
from oracle import smallest_attack_fast
from poisonproof import Certificate, Spread, Votes, certify


def both(matrix, spread, n_classes, unseen=False):
    votes = Votes(matrix, spread, range(n_classes), classes_inferred=unseen)
    return certify(votes), certify(votes, "tight")


@pytest.mark.parametrize(("iterations", "visits"), [(40, 4_000_000), (0, 4_000_000), (40, 0), (3, 60), (0, 0)])
def test_no_radius_is_broken_whatever_the_limits(iterations, visits, monkeypatch):
    """6,000 cases for each setting, all poisoned sets tried; ties and classes without votes are common."""
    monkeypatch.setattr(poisonproof.core.certify, "DUAL_ITERATIONS", iterations)
    monkeypatch.setattr(poisonproof.core.certify, "PARTITION_VISITS", visits)
    rng = np.random.default_rng(iterations + visits)
    exact = 0
    for case in range(300):
        n, n_classes, unseen = int(rng.integers(2, 13)), int(rng.integers(2, 5)), bool(case % 2)
        spread = random_spread(rng, n)
        matrix = np.array([random_votes(rng, n, n_classes) for _ in range(20)])
        plain, tight = both(matrix, spread, n_classes, unseen)
        table = spread.as_table()
        smallest = np.array([smallest_attack_fast(row, table, n_classes, unseen) for row in matrix])
        assert (tight.radius < smallest).all(), (spread, matrix)
        assert (tight.radius >= plain.radius).all()
        assert (tight.radius[tight.exact] + 1 == smallest[tight.exact]).all()
        assert (tight.prediction == plain.prediction).all()
        assert (tight.margin == plain.margin).all()
        if visits == 4_000_000:
            assert (tight.radius + 1 == smallest).all(), (spread, matrix)
            assert tight.exact.all()
        exact += int(tight.exact.sum())
    assert exact > 1000


def largest_cover(weight, table, size):
    """max cov(H) over |H| ≤ size, as an integer program: x_j chosen, y_i ≤ Σ_{j feeds i} x_j."""
    n = len(table)
    feeds = np.zeros((n, n))
    for j, row in enumerate(table):
        feeds[row, j] = 1
    cost = np.r_[np.zeros(n), -weight.astype(float)]
    rows = [
        LinearConstraint(np.r_[np.ones(n), np.zeros(n)], -np.inf, size),
        LinearConstraint(np.hstack([-feeds, np.eye(n)]), -np.inf, 0),
    ]
    solved = milp(cost, constraints=rows, integrality=np.r_[np.ones(n), np.zeros(n)], bounds=Bounds(0, 1))
    assert solved.success
    return round(-solved.fun)


PLANES = [Spread.planes(3, 4), Spread.planes(4, 2)]  # any two partitions of a group meet
OTHERS = [Spread(40, (0, 1, 2, 3, 4)), Spread.random(10, 4)]


@pytest.mark.parametrize("spread", PLANES + OTHERS, ids=lambda spread: f"{spread.n_subsets} of {spread.d}")
def test_against_an_integer_program_where_overlap_matters(spread):
    """Spreads whose partitions must overlap: radii rise above Theorem 2, and HiGHS agrees with each of them."""
    rng = np.random.default_rng(spread.n_subsets)
    n, raised = spread.n_subsets, 0
    table = spread.as_table()
    for share in (1.0, 0.97, 0.9, 0.8):
        votes = np.where(rng.random(n) < share, 1, rng.integers(0, 3, n))
        plain, tight = both([votes], spread, 3)
        radius, p = int(tight.radius[0]), int(tight.prediction[0])
        counts = np.bincount(votes, minlength=3)
        leads = {c: counts[p] - counts[c] - (c < p) for c in range(3) if c != p}
        weights = {c: 1 + (votes == p).astype(int) - (votes == c) for c in leads}
        assert all(largest_cover(weights[c], table, radius) <= leads[c] for c in leads)
        if tight.exact[0]:
            assert any(largest_cover(weights[c], table, radius + 1) > leads[c] for c in leads)
            c = int(tight.runner_up[0])
            assert largest_cover(weights[c], table, radius + 1) > leads[c]
        assert tight.exact[0] or spread in OTHERS
        raised += radius - int(plain.radius[0])
    assert raised > 0 or spread in OTHERS


def test_at_realistic_scale_and_in_any_number_of_threads():
    rng = np.random.default_rng(5)
    spread = Spread.paper(50, 16)
    matrix = np.array([rng.choice(10, 800, p=[a, 0.9 - a, *[0.1 / 8] * 8]) for a in np.linspace(0.5, 0.85, 24)])
    votes = Votes(matrix, spread, range(10))
    plain, tight = certify(votes), certify(votes, "tight", n_jobs=2)
    assert (tight.radius >= plain.radius).all()
    assert tight.radius.sum() > plain.radius.sum()
    assert np.array_equal(tight.radius, certify(votes, "tight", n_jobs=1).radius)


def test_with_d_1_it_is_theorem_1():
    rng = np.random.default_rng(6)
    matrix = np.array([random_votes(rng, 30, 4) for _ in range(200)])
    plain, tight = both(matrix, Spread.random(30, 1), 4)
    assert (plain.radius == tight.radius).all()
    assert tight.exact.all()


def test_exactness_is_saved_and_shown(tmp_path, tables):
    tight = both([[0, 0, 0, 1]], Spread(4, (0, 1)), 2)[1]
    tight.save(tmp_path / "c.npz")
    back = Certificate.load(tmp_path / "c.npz")
    assert back.exact.tolist() == tight.exact.tolist()
    assert back.to_frame()["exact"].tolist() == tight.exact.tolist()
    with pytest.raises(ValueError, match="read-only"):
        tight.exact[0] = False

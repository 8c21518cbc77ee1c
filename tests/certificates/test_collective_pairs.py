"""The bound of pairs (one shared attack) against its formula in whole numbers and against every attack."""

from fractions import Fraction
from itertools import combinations, count, pairwise

import numpy as np
import pytest

from oracle import winner
from poisonproof import Spread, Votes, certified_accuracy
from poisonproof.certificates.collective import pairs as shared_pairs
from poisonproof.certificates.collective import search as shared_search
from poisonproof.certificates.collective.pairs import PAIR_GRID
from shared_oracle import close_case, fewest_right_fast


def problem_of(matrix, y, spread, n_classes, unseen, size):
    """The rival rows of the test samples that are right, and how many of them the worst attack flips."""
    right = [t for t in range(len(y)) if winner(matrix[t], n_classes) == y[t]]
    rows, prediction = np.array(matrix, np.uint8)[right], np.array(y, np.int64)[right]
    needs, possible = shared_search.possible_rivals(rows, prediction, n_classes, unseen, spread, size, 1)
    problem = shared_search.flippable(rows, prediction, n_classes, spread, size, needs, possible, 1)
    return problem, len(right) - fewest_right_fast(matrix, y, spread.as_table(), n_classes, unseen, size)


def flips_of(problem, attack):
    return int(problem.flips_with_each(attack[:-1])[attack[-1]])


def pair_twin(problem, s, shares, constants):
    """constant + ½ Σ of the r largest "r − 1 largest pair hinges", in fractions, without a grid."""
    r, n = problem.size, problem.n
    value = [[Fraction(0)] * n for _ in range(n)]
    for start, stop in pairwise(problem.starts.tolist()):
        for a, b in combinations(range(n), 2):
            hinges = [Fraction(0)]
            for row in range(start, stop):
                factor = Fraction(2 * int(shares[row]), PAIR_GRID * (r - 1) * int(2 * problem.need[row] - r * s[row]))
                hinges.append(factor * int(problem.delta[row, a] + problem.delta[row, b] - s[row]))
            value[a][b] += max(hinges)
            value[b][a] += max(hinges)
    rows = sorted((sum(sorted(line, reverse=True)[: r - 1]) for line in value), reverse=True)
    return Fraction(int(constants.sum()), PAIR_GRID) + sum(rows[:r]) / 2


def test_any_thresholds_and_shares_are_sound_and_the_kernel_is_its_formula():
    """Thresholds and shares at random: above every attack, and above the formula by what the grid rounds up."""
    rng = np.random.default_rng(20)
    informative = 0
    for _ in range(40):
        problem, truth = problem_of(*close_case(rng, 25))
        n, r, n_rows = problem.n, problem.size, len(problem.need)
        sample = np.repeat(np.arange(len(problem)), np.diff(problem.starts))
        constants = rng.integers(0, PAIR_GRID + 1, len(problem)) * rng.integers(0, 2, len(problem))
        shares = PAIR_GRID - constants[sample]
        s = (rng.random(n_rows) * ((2 * problem.need - 1) // r + 1)).astype(np.int64)
        highest = problem.delta.max(axis=1).astype(np.int64)
        pairs, rows = np.ones((n, n), np.float32), np.ones(n, np.int64)
        live = np.flatnonzero(shares > 0)
        edges = np.concatenate([[0], np.cumsum(np.diff(problem.starts)[constants < PAIR_GRID])])
        given = int(constants.sum()), live, edges, problem.need, s, shares, problem.delta, highest, pairs, rows
        bound = Fraction(shared_pairs.pair_bound(r, 0, *given), PAIR_GRID)
        twin = pair_twin(problem, s, shares, constants)
        assert truth <= twin <= bound <= twin + Fraction(n_rows * r**2 * 8, PAIR_GRID // 64)
        informative += bound < len(problem)
    assert informative > 5


def test_no_attack_is_above_the_bound_of_pairs_or_of_its_chain(monkeypatch):
    """Every attack of close ensembles, with a clock that ends after any number of looks."""
    rng = np.random.default_rng(21)
    below_all = tight = chains_sharper = unfinished = 0
    for case in range(40):
        problem, truth = problem_of(*close_case(rng))
        looks, last = count(), int(rng.integers(1, 40)) if case % 2 else 10**9
        monkeypatch.setattr(shared_pairs, "monotonic", lambda looks=looks, last=last: float(next(looks) > last))
        monkeypatch.setattr(shared_pairs, "STEPS", int(rng.integers(1, 30)))
        known = shared_pairs.bound_by_pairs(problem, 0.5)
        assert known.most >= truth
        bounds = shared_pairs.bound_chains(problem, known, 0.5, 1)
        worst = np.zeros(problem.n, int)
        for attack in combinations(range(problem.n), problem.size):
            worst[attack[0]] = max(worst[attack[0]], flips_of(problem, attack))
        assert worst.max() == truth
        assert (bounds >= worst).all(), (case, bounds, worst)
        assert (bounds[problem.n - problem.size + 1 :] == 0).all()
        below_all += known.most < len(problem)
        tight += bounds.max() == truth
        chains_sharper += bounds.max() < known.most
        unfinished += bounds[0] == known.most
    assert below_all > 15
    assert tight > 2
    assert chains_sharper > 5
    assert unfinished > 5


def test_with_pairs_the_truth_lies_between_the_bounds_and_time_closes_them(monkeypatch):
    """A third of the cases with a clock that ends after any number of looks."""
    monkeypatch.setattr(shared_pairs, "FEWEST_ATTACKS", 0)
    monkeypatch.setattr(shared_pairs, "LEAST_SIZE", 3)
    monkeypatch.setattr(shared_pairs, "STEPS", 20)
    looked = []
    chains = shared_pairs.bound_chains
    monkeypatch.setattr(shared_search, "bound_chains", lambda *given: looked.append(1) or chains(*given))
    rng = np.random.default_rng(22)
    still_open = 0
    for case in range(60):
        matrix, y, spread, n_classes, unseen, size = close_case(rng)
        votes = Votes(matrix, spread, range(n_classes), classes_inferred=unseen)
        looks, last = count(), int(rng.integers(1, 40)) if case % 3 == 0 else 10**9
        for module in (shared_pairs, shared_search):
            monkeypatch.setattr(module, "monotonic", lambda looks=looks, last=last: 1e12 * (next(looks) > last))
        result = certified_accuracy(votes, y, size, n_jobs=1)
        truth = fewest_right_fast(matrix, y, spread.as_table(), n_classes, unseen, size)
        assert result.certified_count <= result.lower_count <= truth <= result.upper_count
        assert result.exact or case % 3 == 0
        still_open += not result.exact
    assert len(looked) > 10
    assert still_open > 2


@pytest.mark.parametrize("exact", [1 << 24, 1 << 12, 1 << 4])
def test_a_grid_that_float32_cannot_hold_is_made_coarser_or_nothing_is_proved(exact):
    live, need, s = np.arange(3), np.array([9, 8, 7]), np.array([2, 1, 0])
    shares, highest = np.full(3, PAIR_GRID), np.array([4, 4, 4])
    total = {
        grid: sum(
            -(-2 * grid // (2 * (2 * int(g) - 3 * int(t)))) * max(8, int(t)) for g, t in zip(need, s, strict=True)
        )
        for grid in (1 << power for power in range(17))
    }
    fitting = max((grid for grid in total if total[grid] < exact), default=0)
    kernel = shared_pairs._fitting_grid.py_func
    assert kernel.__globals__["EXACT"] == 1 << 24
    before = kernel.__globals__["EXACT"]
    try:
        kernel.__globals__["EXACT"] = exact
        assert kernel(live, need, s, shares, 3, highest) == fitting
    finally:
        kernel.__globals__["EXACT"] = before


def test_pairs_are_sharper_than_single_partitions_on_a_large_ensemble():
    """No branch is opened: what the root proves with pairs and what it proves without."""
    rng = np.random.default_rng(0)
    spread = Spread.random(20, 4)
    matrix = (rng.random((400, 80)) > rng.beta(3, 3, (400, 1))).astype(int) * rng.integers(1, 5, (400, 80))
    votes = Votes(matrix, spread, range(5))
    right = np.flatnonzero([winner(row.tolist(), 5) == 0 for row in matrix])
    rows, prediction = np.array(votes.matrix[right]), np.zeros(len(right), np.int64)
    needs, possible = shared_search.possible_rivals(rows, prediction, 5, False, spread, 6, 1)
    at_risk = possible.any(axis=1)
    given = rows[at_risk], prediction[at_risk], 5, spread, 6, needs[at_risk], possible[at_risk], 1
    problem = shared_search.flippable(*given)
    assert shared_pairs.worth_pairs(problem)
    single, weights = shared_search._root(problem, np.inf)
    problem = problem.in_order(np.argsort(-weights, kind="stable"))
    known = shared_pairs.bound_by_pairs(problem, np.inf)
    firsts = shared_pairs.bound_chains(problem, known, np.inf, 1)
    found, _ = shared_search._local_search(problem, np.inf, 0)
    assert found <= firsts.max() <= known.most < single
    assert np.median(firsts) < known.most

"""Stochastic certificates: bounds outward, radii as in slow references, never broken where everything is known."""

from fractions import Fraction
from math import ceil, comb, floor

import numpy as np
import pytest
from scipy.special import betaincinv

import enumerated
from poisonproof.stochastic import radii as confidence
from poisonproof.stochastic.radii import (
    GRID,
    Leads,
    bagging_radii,
    binomial_selection_radii,
    bound_leads,
    bound_terms,
    clopper_pearson,
    infinite_aggregation_radii,
)
from refused import refused


def tail(n, p, s):
    """P(Binomial(n, p) ≥ s), exactly."""
    a, b = p.numerator, p.denominator
    return Fraction(sum(comb(n, j) * a**j * (b - a) ** (n - j) for j in range(s, n + 1)), b**n)


@pytest.mark.parametrize("level", [0.3, 0.01, 5e-8, 1e-13])
@pytest.mark.parametrize("n", [1, 2, 7, 60, 400])
def test_confidence_bounds_are_outward_and_no_more_than_they_must_be(n, level):
    hits = sorted({0, 1, 2, n // 3, n // 2, n - 1, n} & set(range(n + 1)))
    lower, upper = clopper_pearson(hits, n, level)
    exact = Fraction(level)
    for s, low, high in zip(hits, lower.tolist(), upper.tolist(), strict=True):
        assert low == 0 or tail(n, Fraction(low, GRID), s) <= exact
        assert high == GRID or tail(n, Fraction(GRID - high, GRID), n - s) <= exact
        if s:
            assert tail(n, Fraction(low + 8, GRID) + Fraction(low, GRID) / 10**8, s) > exact
    assert lower[0] == 0
    assert upper[-1] == GRID
    assert (lower[1:] >= lower[:-1]).all()


def test_no_draws_no_knowledge():
    assert clopper_pearson(0, 0, 0.1) == (0, GRID)


def test_wrong_numbers_are_named():
    with refused("stochastic.parameter"):
        clopper_pearson([3], 2, 0.1)
    with refused("stochastic.parameter"):
        clopper_pearson([1], 2, 0.0)


@pytest.mark.parametrize("p", [(0.5, 0.3, 0.15), (0.34, 0.33, 0.33), (0.98, 0.02, 0.0), (0.1, 0.0, 0.0)])
def test_bounds_hold_jointly_as_often_as_they_say(p):
    """2,000 times four test samples at alpha = 0.2; a bound that shares alpha wrongly fails here."""
    rng = np.random.default_rng(1)
    times, n_test, n_draws, alpha = 2000, 4, 150, 0.2
    p = np.array(p)
    wrong = 0
    for _ in range(times):
        counts = rng.multinomial(n_draws, [*p, 1 - p.sum()], n_test)[:, :3]
        prediction, lead, _ = bound_leads(counts, n_draws, alpha)
        truth = np.floor((p[prediction][:, None] - p) * GRID)
        truth[np.arange(n_test), prediction] = GRID
        wrong += bool((lead > truth).any())
    assert wrong <= alpha * times + 4 * np.sqrt(times * alpha * (1 - alpha))
    one_sample = clopper_pearson(np.arange(n_draws + 1), n_draws, alpha)
    failing = [bool(one_sample.lower[c] > p[0] * GRID) for c in rng.binomial(n_draws, p[0], times)]
    assert 0.2 * alpha * times < sum(failing) <= alpha * times + 4 * np.sqrt(times * alpha * (1 - alpha))


def test_a_bound_is_checked_whatever_the_inverse_says(monkeypatch):
    honest = clopper_pearson(np.arange(61), 60, 0.01)
    for wrong in (lambda *given: betaincinv(*given) * 1.02, lambda *given: np.full(len(given[0]), np.nan)):
        monkeypatch.setattr(confidence, "betaincinv", wrong)
        found = clopper_pearson(np.arange(61), 60, 0.01)
        assert (found.lower <= honest.lower).all()
        assert (found.upper >= honest.upper).all()


def leads_of(lead, prediction, unseen=False):
    return Leads(np.array([prediction]), np.array([lead], np.int64), unseen)


def random_lead(rng, edges):
    """Leads everywhere, and often right at an edge where a radius changes."""
    if rng.random() < 0.5:
        edge = int(rng.choice(edges))
        return edge + int(rng.integers(-1, 2))
    return int(rng.integers(-GRID // 8, GRID + 1))


def plain(radii, which="radius"):
    return None if radii.abstained[0] else int(getattr(radii, which)[0])


def test_radii_are_those_of_the_slow_references():
    rng = np.random.default_rng(7)
    seen = set()
    for case in range(600):
        n_classes, unseen = int(rng.integers(2, 5)), bool(case % 3 == 0)
        k, n, size = int(rng.choice([1, 2, 3, 10, 24])), int(rng.integers(1, 12)), int(rng.integers(1, 9))
        prediction = int(rng.integers(n_classes))
        edges = [min(GRID, 2 * GRID * r // k) for r in range(k // 2 + 2)]
        edges += [int(GRID * 2 * (1 - (1 - 1 / k) ** r)) for r in range(4)]
        edges += [int(GRID * ((1 - 1 / k) ** -r - 1)) for r in range(4) if k > 1]
        edges += [int(GRID * ((1 + r / n) ** size - 1)) for r in range(3)]
        lead = [min(GRID, random_lead(rng, edges)) for _ in range(n_classes + unseen)]
        lead[prediction] = GRID
        exact = [Fraction(value, GRID) for value in lead]
        leads = leads_of(lead, prediction, unseen)
        terms = rng.integers(0, 2 * GRID + GRID // 4, (n, len(lead)))
        twos = [[Fraction(2)] * n] * len(lead)
        given = [[Fraction(int(t), GRID) for t in column] for column in terms.T]
        got = plain(infinite_aggregation_radii(leads, k, n))
        better = plain(infinite_aggregation_radii(leads, k, n, [terms]))
        assert got == enumerated.theorem_3(exact, prediction, k, twos, unseen)
        assert better == enumerated.theorem_3(exact, prediction, k, given, unseen)
        assert got is None or better >= got
        radii = binomial_selection_radii(leads, k)
        assert plain(radii) == enumerated.selection(exact, prediction, k, unseen)
        assert plain(radii, "changed") == enumerated.selection(exact, prediction, k, unseen, changes=True)
        radii = bagging_radii(leads, n, size)
        assert plain(radii) == enumerated.bagging(exact, prediction, n, size, unseen)
        assert plain(radii, "changed") == enumerated.bagging(exact, prediction, n, size, unseen, changes=True)
        seen |= {("ia", got), ("better", better), ("bagging", plain(radii))}
    assert len(seen) > 20


def test_terms_of_the_votes_of_draws_that_hold_a_sample():
    """By hand: 3 training samples, 2 classes and one unseen."""
    leads = leads_of([GRID, 5, 9], 0, True)
    held, votes = np.array([0, 40, 40]), np.array([[0, 0], [10, 30], [40, 0]])
    (terms,) = bound_terms([votes], held, leads, 0.06)
    level = 0.06 / (2 * 1 * 2 * 3)
    lower, upper = clopper_pearson(votes, held[:, None], level)
    assert terms[0].tolist() == [2 * GRID] * 3
    assert terms[1, 1] == GRID + upper[1, 0] - lower[1, 1]
    assert terms[1, 2] == GRID + upper[1, 0]
    assert terms[2, 1] == 2 * GRID
    assert terms[1, 1] < GRID < terms[1, 2] < 2 * GRID


def test_where_everything_is_known_no_radius_is_broken():
    report = campaign(np.random.default_rng(11), 220)
    for method, found in report.items():
        assert found["broken"] == 0, method
        assert found["certified"] > 60, method
        assert found["positive"] > 20, method
        assert found["tight"] > 10, method


def campaign(rng, cases):
    """Random enumerable ensembles; every data set within each radius is tried, and those one step further."""
    methods = ("theorem 3", "margin only", "selection", "bagging")
    report = {
        name: dict.fromkeys(("cases", "certified", "positive", "tight", "broken", "attacks"), 0) for name in methods
    }
    for _ in range(cases):
        kinds, n_classes = int(rng.integers(2, 4)), int(rng.integers(2, 4))
        learner, turned_by = enumerated.random_learner(rng, kinds, n_classes)
        data = enumerated.random_data(rng, kinds, turned_by)
        n, k, size = sum(data), int(rng.choice([1, 2, 3, 4, 6, 8])), int(rng.integers(1, 4))

        def drawn(other, k=k, learner=learner, n_classes=n_classes):
            return enumerated.bernoulli(other, k, learner, n_classes)

        def bagged(other, size=size, learner=learner, n_classes=n_classes):
            return enumerated.bagged(other, size, learner, n_classes)

        p, b = drawn(data), bagged(data)
        leads, leads_bagged = exact_leads(p), exact_leads(b)
        terms = exact_terms(data, k, learner, n_classes, int(leads.prediction[0]))
        for name, radii, probabilities in (
            ("theorem 3", infinite_aggregation_radii(leads, k, n, [terms]), drawn),
            ("margin only", infinite_aggregation_radii(leads, k, n), drawn),
            ("selection", binomial_selection_radii(leads, k), drawn),
            ("bagging", bagging_radii(leads_bagged, n, size), bagged),
        ):
            judge(report[name], data, radii, probabilities)
    return report


def judge(found, data, radii, probabilities):
    found["cases"] += 1
    if radii.abstained[0]:
        return
    radius, changed = int(radii.radius[0]), int(radii.changed[0])
    prediction = enumerated.winner(probabilities(data))
    found["certified"] += 1
    found["positive"] += radius > 0
    tight = False
    for other, inserted, removed in enumerated.neighbours(data, max(radius + 1, 2 * changed)):
        inside = inserted + removed <= radius or max(inserted, removed) <= changed
        just_outside = inserted + removed == radius + 1
        if not inside and (tight or not just_outside):
            continue
        found["attacks"] += 1
        stays = enumerated.winner(probabilities(other)) == prediction
        found["broken"] += inside and not stays
        tight |= not inside and not stays
    found["tight"] += tight


def exact_leads(p):
    top = enumerated.winner(p)
    lead = [floor((p[top] - value) * GRID) for value in p]
    lead[top] = GRID
    return leads_of(lead, top)


def exact_terms(data, k, learner, n_classes, top):
    rows = []
    for kind, m in enumerate(data):
        if m:
            p = enumerated.bernoulli_with(kind, data, k, learner, n_classes)
            rows += [[ceil((1 + p[top] - value) * GRID) for value in p]] * m
    return np.array(rows, np.int64)

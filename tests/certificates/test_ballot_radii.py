"""Radii of samples that vote, against attackers that try everything."""

import numpy as np
import pytest

from ballot_cases import FAMILIES, Verdict
from ballot_oracle import cut_slowly
from poisonproof import certify
from poisonproof.ballots.radii import certify_counts, cut
from poisonproof.ballots.tallies import Ballots, Neighbours, Voices
from refused import refused
from sample_voters import THREATS

# Radii


@pytest.mark.parametrize(("family", "n_cases"), [(name, 60 if "contrib" in name else 250) for name in FAMILIES])
def test_no_attack_breaks_a_radius_and_exact_ones_are_exact(family, n_cases):
    verdict = Verdict()
    for seed in range(n_cases):
        FAMILIES[family](seed, verdict)
    assert verdict.checked >= n_cases
    assert verdict.broken == []
    assert verdict.loose_though_exact == []


def test_brute_force_would_see_a_radius_that_is_one_too_large():
    verdict = Verdict()
    verdict.compare(radius=2, attack=2, most=4, exact=True, what="too large")
    verdict.compare(radius=0, attack=3, most=4, exact=True, what="too small")
    verdict.compare(radius=2, attack=3, most=4, exact=True, what="right")
    assert verdict.broken == ["too large"]
    assert verdict.loose_though_exact == ["too small"]


def test_radii_of_a_worked_example():
    """MNIST in small: 10 near and 2 far samples of p = 0, 3 near and 9 far of class 1; F = 8 and −6."""
    radii = certify_counts(np.array([[10, 3]]), np.array([12, 12]), np.array([0, 0]), one_sided=False, inferred=False)
    assert [int(getattr(radii, threat)[0]) for threat in THREATS] == [14, 14, 14, 7, 7]
    declared = certify_counts(
        np.array([[10, 3]]), np.array([12, 12]), np.array([12, 30]), one_sided=False, inferred=False
    )
    assert (declared.prediction[0], declared.insert_remove[0]) == (1, 3)  # 20 against 24, and a tie goes to 0


@pytest.mark.parametrize("seed", range(40))
def test_voices_are_cut_by_largest_remainder(seed):
    random = np.random.default_rng(seed)
    ballots = random.integers(-9, 10, random.integers(1, 6))
    voices = int(random.integers(1, 8))
    expected = cut_slowly(ballots.tolist(), voices)
    given = ballots.copy()
    cut(given, voices)
    assert tuple(given.tolist()) == expected
    assert np.abs(given).sum() == min(voices, np.abs(ballots).sum())


@pytest.mark.parametrize("code", [3, 200, -7])
@pytest.mark.parametrize("target", [None, 1])
def test_a_label_written_after_the_check_reaches_no_other_sample(code, target):
    """Neighbours keep the caller's array, and kernels index by its codes."""
    order = np.random.default_rng(1).integers(0, 3, (40, 30))
    neighbours = Neighbours(order, np.zeros(40, np.bool_), 9, 30, np.arange(3))
    before = certify(neighbours, target=target).radius.copy()
    order[::4, ::2] = code
    after = certify(neighbours, target=target).radius
    untouched = np.arange(40) % 4 > 0
    assert (after[untouched] == before[untouched]).all()


@pytest.mark.parametrize(("classes", "starts"), [([0, 2], [0, 1, 2]), ([0, -1], [0, 1, 2]), ([0, 1], [0, 1, 9])])
def test_cells_of_contributors_outside_the_counts_are_refused(classes, starts):
    counts, zeros = np.ones((1, 2), np.int64), np.zeros(2, np.int64)
    voices = Voices(1, np.array(classes), np.array(starts))
    with refused("ballots.counts"):
        Ballots(counts, counts[0], zeros, np.arange(2), np.zeros(1, np.bool_), voices=voices)

"""One shared attack on ballots: its bound against every attack on small worlds, its search against every division."""

from __future__ import annotations

from itertools import product
from time import monotonic

import numpy as np
import pytest

from poisonproof import certified_accuracy
from poisonproof.ballots.tallies import Ballots, Voices, worst_division
from refused import refused
from shared_ballot_oracle import compare_with_every_attack


def slow_division(leads, prediction, size):
    """Every way to divide the acts among the classes."""
    n_classes = leads.shape[1]
    most = 0
    for acts in product(range(size + 1), repeat=n_classes):
        if sum(acts) <= size:
            hit = sum(
                any(acts[p] + acts[c] > row[c] for c in range(n_classes) if c != p)
                for row, p in zip(leads.tolist(), prediction.tolist(), strict=True)
            )
            most = max(most, hit)
    return most


@pytest.mark.parametrize("seed", range(60))
def test_the_search_finds_the_worst_division(seed):
    random = np.random.default_rng(seed)
    n, n_classes, size = int(random.integers(1, 12)), int(random.integers(2, 5)), int(random.integers(0, 7))
    leads, prediction = random.integers(0, 8, (n, n_classes)), random.integers(0, n_classes, n)
    found = worst_division(leads, prediction, size, monotonic() + 60)
    assert found.most == found.shown == slow_division(leads, prediction, size)
    assert found.acts.sum() <= size
    stopped = worst_division(leads, prediction, size, monotonic() - 1)
    assert stopped.shown <= found.most <= stopped.most <= n


@pytest.mark.parametrize("seed", range(150))
def test_no_attack_leaves_fewer_right(seed):
    lower, truth, certified = compare_with_every_attack(seed)
    assert certified <= lower <= truth


def test_dividing_the_budget_is_worth_something():
    """Two samples of different classes, each two acts from another third: no attack of two reaches both."""
    near = np.array([[5, 3, 0, 0], [0, 0, 5, 3]])
    ballots = Ballots(near, np.array([5, 5, 5, 5]), np.zeros(4, np.int64), np.arange(4), np.ones(2, np.bool_), True)
    found = certified_accuracy(ballots, [0, 2], 3)
    assert (found.certified_count, found.lower_count, found.upper_count, found.clean_count) == (0, 1, 1, 2)
    assert "puts 1 at risk" in found.proved
    assert certified_accuracy(ballots, [0, 2], 2).lower_count == 2


def test_what_is_not_known_is_refused():
    near = np.array([[5, 3]])
    shared = {"sizes": np.zeros(2, np.int64), "classes": np.arange(2), "self_near": np.ones(1, np.bool_)}
    voices = Voices(1, np.arange(2), np.array([0, 1, 2]))
    with refused("accuracy.contributors"):
        certified_accuracy(Ballots(near, np.array([5, 5]), **shared, voices=voices), [0], 1)

"""Blocks of ballots: the certificate against its slow reference and against an attacker who tries everything."""

from __future__ import annotations

import numpy as np
import pytest

from poisonproof.core.spread import Spread
from research.blocks.certificate import certify_blocks, verdicts_of
from research.tests.block_oracle import World, broken, random_case, slow_radius


def test_the_fast_certificate_is_the_slow_one() -> None:
    random = np.random.default_rng(1)
    radii = []
    for _ in range(400):
        world, x, samples = random_case(random)
        prediction, radius, flips = world.certified(x, samples)
        assert prediction == world.predict(x, samples)
        assert (radius, flips) == slow_radius(world, x, samples)
        radii.append(radius)
    assert np.bincount(radii)[1:].sum() > 20  # not all of nothing


def test_the_compiled_attacker_tries_what_the_plain_one_tries() -> None:
    random = np.random.default_rng(4)
    fell = 0
    for _ in range(150):
        world, x, samples = random_case(random)
        prediction = world.predict(x, samples)
        for flips in (False, True):
            plain = any(world.predict(x, changed) != prediction for changed in world.attacks(samples, 1, flips))
            assert plain == (broken(world, x, samples, (1,), flips) is not None)
            fell += plain
    assert 50 < fell < 280


def test_no_attack_within_the_radius_changes_a_prediction() -> None:
    random = np.random.default_rng(2)
    tried = 0
    for _ in range(300):
        world, x, samples = random_case(random)
        _, radius, flips = world.certified(x, samples)
        tried += (radius > 0) + (flips > 0)
        assert broken(world, x, samples, range(1, min(radius, 2) + 1), False) is None
        assert broken(world, x, samples, range(1, min(flips, 2) + 1), True) is None
    assert tried > 50


@pytest.mark.parametrize("reached", [1, 2, 3])
def test_unanimous_members_withstand_what_less_than_half_of_them_withstand(reached: int) -> None:
    """Seven members, one class far ahead: the maps decide, as base classifiers do (Theorem 1)."""
    scores = np.zeros((1, 7, 2), np.int64)
    scores[:, :, 0] = 100
    found = certify_blocks(verdicts_of(scores, np.zeros((1, 7), np.bool_)), Spread(7, (0,)), 1000)
    assert found.insert_remove[0] == 3
    assert found.label_flip[0] == 50  # ties go to class 0
    scores[:, :reached, 0] = 3  # three unit moves and the tie
    found = certify_blocks(verdicts_of(scores, np.zeros((1, 7), np.bool_)), Spread(7, (0,)), 1000)
    assert found.insert_remove[0] == 3
    scores[:, :reached, 0] = 2
    found = certify_blocks(verdicts_of(scores, np.zeros((1, 7), np.bool_)), Spread(7, (0,)), 1000)
    assert found.insert_remove[0] == 2


def test_a_member_without_samples_abstains_until_it_is_reached() -> None:
    scores = np.zeros((1, 3, 2), np.int64)
    scores[:, :, 0] = 9
    abstains = np.array([[False, False, True]])
    found = certify_blocks(verdicts_of(scores, abstains), Spread(3, (0,)), 1000)
    assert (found.prediction[0], found.margin[0], found.insert_remove[0]) == (0, 2, 1)


def test_the_attacker_of_these_tests_finds_attacks() -> None:
    """Past the radius there is often an attack: the oracle is no paper tiger."""
    random = np.random.default_rng(3)
    found = 0
    for _ in range(60):
        world, x, samples = random_case(random)
        _, radius, _ = world.certified(x, samples)
        if radius == 0:
            found += broken(world, x, samples, (1,), False) is not None
    assert found > 20
    assert World(Spread(2, (0,)), 2, (0, 0), 3, 0).predict(0, [(0, 1)]) in (0, 1)

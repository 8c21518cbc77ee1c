"""Designed spreads: constructed, checked, and ordinary spreads to everything else."""

from itertools import product
from math import gcd

import numpy as np
import pytest

from poisonproof import Spread
from poisonproof.core.designs import (
    Field,
    checked_overlap,
    plane,
    prime_factors,
    prime_power,
    primitive_polynomial,
    quartic,
)


def times_each_difference(v, residues):
    """How often each non-zero residue is a difference, by looking at all pairs."""
    differences = [(a - b) % v for a, b in product(residues, repeat=2) if a != b]
    return {differences.count(residue) for residue in range(1, v)}


@pytest.mark.parametrize("q", [2, 3, 4, 5, 7, 8, 9, 11, 13])
def test_planes_are_difference_sets(q):
    v, line = plane(q)
    assert v == q * q + q + 1
    assert len(set(line)) == q + 1
    assert line[:2] == [0, 1]
    assert times_each_difference(v, line) == {1}
    spread = Spread.planes(q, 3)
    assert (spread.n_subsets, spread.d, spread.k) == (3 * v, q + 1, pytest.approx(3 * v / (q + 1)))


@pytest.mark.parametrize(("q", "line"), [(3, (0, 1, 3, 9)), (4, (3, 6, 7, 12, 14)), (7, (0, 1, 3, 13, 32, 36, 43, 52))])
def test_constructed_planes_are_the_known_ones_up_to_a_multiplier_and_a_shift(q, line):
    v, ours = plane(q)
    assert checked_overlap(v, line) == 1
    images = {
        frozenset((unit * x + shift) % v for x in line)
        for unit in range(1, v)
        if gcd(unit, v) == 1
        for shift in range(v)
    }
    assert frozenset(ours) in images


@pytest.mark.parametrize(("p", "parameters"), [(37, (37, 9, 2)), (101, (101, 25, 6)), (197, (197, 49, 12))])
def test_quartic_residues_are_difference_sets(p, parameters):
    v, residues = quartic(p)
    assert (v, len(residues), checked_overlap(v, residues)) == parameters
    assert times_each_difference(v, residues) == {parameters[2]}


@pytest.mark.parametrize(("p", "degree"), [(2, 3), (2, 6), (3, 3), (5, 3)])
def test_powers_of_x_are_all_of_the_field(p, degree):
    field = Field(p, primitive_polynomial(p, degree))
    element, seen = field.power(0), set()
    for exponent in range(p**degree - 1):
        assert element == field.power(exponent)
        seen.add(tuple(element))
        element = field.times_x(element)
    assert len(seen) == p**degree - 1
    a, b, c = field.power(5), field.power(11), field.power(17)
    plus = [(x + y) % p for x, y in zip(b, c, strict=True)]
    assert field.times(a, b) == field.power(16)
    assert field.times(a, plus) == [(x + y) % p for x, y in zip(field.times(a, b), field.times(a, c), strict=True)]


def test_factors():
    assert prime_factors(360) == [2, 2, 2, 3, 3, 5]
    assert prime_factors(1) == []
    assert [q for q in range(1, 33) if prime_power(q)] == [
        *(2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25, 27, 29, 31, 32)
    ]  # fmt: skip
    assert prime_power(27) == (3, 3)


@pytest.mark.parametrize(
    "spread",
    [Spread.planes(4, 12), Spread.quartic(37, 2), Spread.from_difference_set(11, (1, 3, 4, 5, 9), 3)],
    ids=repr,
)
def test_they_are_ordinary_spreads(spread, tmp_path):
    spread.save(tmp_path / "spread.npz")
    assert Spread.load(tmp_path / "spread.npz") == spread
    assert Spread.from_dict(spread.as_dict()) == spread
    assert Spread.from_table(spread.as_table()) == spread
    assert Spread(spread.n_subsets, spread.shifts).digest == spread.digest


def test_partitions_share_what_the_design_promises():
    spread = Spread.quartic(37, 3)
    sets = [set(row) for row in spread.as_table().tolist()]
    for a, b in product(range(spread.n_partitions), repeat=2):
        if a != b:
            assert len(sets[a] & sets[b]) == (2 if a % 3 == b % 3 else 0)


def test_known_answers():
    """Part of the definition: a spread must be the same on every machine and in every version."""
    assert Spread.planes(4, 2).shifts == (0, 2, 12, 16, 36)
    assert Spread.planes(9, 1).shifts == (0, 1, 6, 10, 23, 26, 34, 41, 53, 55)
    assert Spread.quartic(37, 1).shifts == (1, 7, 9, 10, 12, 16, 26, 33, 34)
    assert Spread.planes(13, 4).digest.startswith("054d737f76df3de1")


def test_suggestions_are_near_and_true():
    for k, d in ((50, 5), (50, 16), (1200, 16), (10.5, 3), (2, 1)):
        designs = Spread.suggest(k, d)
        assert len(designs) == 6
        for design in designs[:3]:
            spread = Spread.designed(design)
            assert (spread.n_subsets, spread.d, spread.k) == (design.n_subsets, design.d, design.k)
            assert design.n_subsets == design.blocks * design.block_size
            assert checked_overlap(design.block_size, [x // design.blocks for x in spread.shifts]) == design.overlap
    assert Spread.suggest(50, 5)[0].name == "plane:4,12"
    assert Spread.suggest(50, 9)[0].name in ("plane:8,6", "quartic:37,12")
    assert abs(Spread.suggest(1200, 14)[0].k / 1200 - 1) < 0.01
    with pytest.raises(AttributeError, match="cannot assign"):
        Spread.suggest(50, 5)[0].blocks = 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Spread.planes(6, 1), "constructed from a prime power q ≥ 2, .*Got 6"),
        (lambda: Spread.planes(1, 1), "Got 1"),
        (lambda: Spread.planes(3, 0), "'blocks' parameter of a spread must be a whole number ≥ 1. Got 0"),
        (lambda: Spread.quartic(17, 1), "prime p = 4x² \\+ 1 with x odd .*Got 17"),
        (lambda: Spread.quartic(325, 1), "Got 325"),
        (lambda: Spread.quartic(5, 1), "Got 5"),
        (
            lambda: Spread.from_difference_set(13, (0, 1, 3, 8), 2),
            "not a difference set modulo 13: .* 4 is one 0 times",
        ),
        (lambda: Spread.from_difference_set(13, (0,), 2), "not a difference set"),
        (lambda: Spread.from_difference_set(13, (0, 1, 3, 13), 2), "different whole numbers in 0 … v - 1"),
        (lambda: Spread.from_difference_set(13, (0, 1, 1), 2), "different whole numbers"),
        (lambda: Spread.from_difference_set(1, (0,), 2), "v ≥ 2"),
        (lambda: Spread.suggest(0, 3), "'k' of a suggestion must be a number > 0. Got 0"),
        (lambda: Spread.suggest(3, float("nan")), "'d' of a suggestion"),
    ],
)
def test_what_is_no_design_is_refused_in_one_sentence(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_numbers_of_any_library_are_numbers():
    residues = np.array([0, 1, 3], np.int32)
    assert Spread.from_difference_set(np.int64(7), residues, np.int64(2)) == Spread.planes(2, 2)

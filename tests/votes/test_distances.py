"""Distances and counts of voters: exact, and the same however the work is shared out."""

import numpy as np
import pytest

from poisonproof.ballots import voters as engine
from poisonproof.ballots.distances import limit_of, squared_lengths
from poisonproof.ballots.voters import Described, Voters, count_cells, distances_between, nearest_voters, smallest

# Distances


def odd_vectors(n, width, seed=0):
    """Small whole numbers with zeros, duplicates, multiples and opposites among them."""
    random = np.random.default_rng(seed)
    rows = random.integers(-60, 61, (n, width))
    rows[0], rows[1], rows[2], rows[3] = 0, rows[4], -rows[5], 2 * rows[6]
    rows[7] = 0
    rows[7, 0] = 4096
    return rows.astype(np.int16)


def test_distances_are_exact_by_matrices_and_by_rows(monkeypatch):
    rows = odd_vectors(40, 6)
    lengths, short = squared_lengths(rows)
    assert short.all()
    expected = [[int(((a - b) ** 2).sum()) for b in rows.astype(object)] for a in rows.astype(object)]
    codes, hashes = np.arange(40) % 3, np.random.default_rng(1).integers(0, 9, 40).astype(np.uint64)
    voters = Voters(rows, lengths, codes, hashes, np.zeros(40, np.int64))
    test = Described(rows, lengths, short)
    assert distances_between(test, voters).tolist() == expected
    for at_once in (1, 40):  # a few samples go by rows, many by matrices
        nearest = nearest_voters(voters, Described(*(array[:at_once] for array in test)), 40)
        for t in range(at_once):
            order = sorted(range(40), key=lambda j: (expected[t][j], hashes[j], codes[j]))
            assert nearest.codes[t].tolist() == codes[order].tolist()
            assert nearest.distances[t].tolist() == [expected[t][j] for j in order]
    for limit in (0, 40, 5000, 1 << 19):
        slow = [
            [sum(expected[t][j] <= limit and codes[j] == c for j in range(40)) for c in range(3)] for t in range(40)
        ]
        assert count_cells(voters, codes, 3, test, limit).tolist() == slow
    whole = count_cells(voters, codes, 3, test, 5000)
    monkeypatch.setattr(engine, "NUMBERS_PER_BLOCK", 64 * 6)
    monkeypatch.setattr(engine, "TESTS_AT_ONCE", 7)
    monkeypatch.setattr(engine, "DISTANCE_BYTES", 1000)
    assert (count_cells(voters, codes, 3, test, 5000) == whole).all()


def test_a_threshold_is_exactly_what_was_declared():
    assert limit_of(0.1, 10.0) == 1  # 0.1 as a float is a little more than a tenth
    assert limit_of(0.3, 10.0) == 8  # and 0.3 a little less than three tenths
    assert limit_of(2.0, 3) == 36


def test_the_nearest_sample_of_each_contributor():
    rows = np.array([[0], [1], [1], [5], [3]], np.int8)
    lengths = (rows.astype(np.int64) ** 2).ravel()
    voters = Voters(rows, lengths, np.array([0, 1, 0, 1, 1]), np.arange(5, dtype=np.uint64), np.array([2, 2, 0, 0, 4]))
    test = Described(rows[:1], lengths[:1], np.ones(1, np.bool_))
    nearest = nearest_voters(voters, test, 9, one_per_owner=True)
    assert nearest.distances.tolist() == [[0, 1, 9]]
    assert nearest.codes.tolist() == [[0, 0, 1]]


@pytest.mark.parametrize("n_asked", [3, 40])
def test_voters_that_stand_together_by_class_are_counted_alike(n_asked):
    """Rows in the order of their classes are counted in runs; in any other order one by one."""
    random = np.random.default_rng(9)
    rows, codes = random.integers(-9, 10, (3000, 12)).astype(np.int16), random.integers(0, 5, 3000)
    asked = random.integers(-9, 10, (n_asked, 12)).astype(np.int16)
    test = Described(asked, squared_lengths(asked)[0], np.ones(n_asked, bool))
    limits = test.lengths - random.integers(200, 900, n_asked)  # one of its own for each test sample
    expected = [
        [((rows[codes == c].astype(int) - x) ** 2).sum(axis=1) <= test.lengths[t] - limits[t] for c in range(5)]
        for t, x in enumerate(asked.astype(int))
    ]
    for order in (np.arange(3000), np.argsort(codes, kind="stable")):
        own, cells = rows[order], codes[order]
        voters = Voters(own, squared_lengths(own)[0], cells, np.zeros(3000, np.uint64), cells)
        counts = count_cells(voters, cells, 5, test._replace(lengths=limits), 0)
        assert counts.tolist() == [[int(near.sum()) for near in classes] for classes in expected]
    assert 0 < counts.sum() < n_asked * 3000


@pytest.mark.parametrize("reach", [1, 50, 4096, 4097, 2**20, 2**31])
def test_the_value_at_a_rank_is_that_of_all_values_in_order(reach):
    random = np.random.default_rng(reach)
    for count in (1, 2, 7, 500):
        values = random.integers(-reach // 2, reach - reach // 2, count).astype(np.int32)
        crowded = np.where(random.random(count) < 0.9, values // 1000, values).astype(np.int32)
        for own in (values, crowded):
            ranks = {1, count, count // 2 + 1, *random.integers(1, count + 1, 5).tolist()}
            assert {rank: smallest(own, rank) for rank in ranks} == {rank: np.sort(own)[rank - 1] for rank in ranks}

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poisonproof import Spread
from poisonproof.core.spread import resolve_spread
from refused import refused


@st.composite
def spreads(draw):
    n = draw(st.integers(1, 60))
    shifts = draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=n))
    return Spread(n, tuple(shifts))


@given(spreads())
def test_every_spread_is_balanced_and_its_two_directions_agree(spread):
    table = spread.as_table()
    assert np.bincount(table.ravel(), minlength=spread.n_subsets).tolist() == [spread.d] * spread.n_subsets
    for j in range(spread.n_partitions):
        assert spread.subsets_of(j).tolist() == table[j].tolist()
        assert len(set(table[j])) == spread.d
        for i in table[j]:
            assert j in spread.partitions_of(i)
    assert spread.k == spread.n_subsets / spread.d


def test_known_answers():
    assert Spread.paper(50, 5).shifts == (9, 22, 90, 123, 242)
    assert Spread.paper(1200, 1).shifts == (727,)
    assert Spread.random(10, 3).shifts == (2, 12, 24)
    assert Spread.random(10, 3, seed=1).shifts == (11, 15, 22)
    assert Spread.random(50, 16).digest.startswith("bcfe732f5f5829dc")
    assert Spread.random(7, 1).shifts == (0,)


def test_k_is_an_int_when_whole_and_a_fraction_otherwise():
    assert Spread.random(50, 16).k == 50
    assert isinstance(Spread.random(50, 16).k, int)
    assert Spread(7, (0, 1, 3)).k == pytest.approx(7 / 3)


def test_a_table_of_shifts_is_recognised_and_any_balanced_table_taken():
    shifts = Spread(9, (0, 2, 5))
    assert Spread.from_table(shifts.as_table()[:, ::-1]) == shifts
    assert Spread.from_table(shifts.as_table()).shifts == (0, 2, 5)
    assert Spread(9, None, shifts.as_table()) == shifts
    blocks = Spread.from_table([[0, 1], [0, 1], [2, 3], [2, 3]])
    assert blocks.shifts is None
    assert blocks.d == 2
    assert blocks.partitions_of(3).tolist() == [2, 3]
    assert blocks != Spread(4, (0, 1))
    with pytest.raises(ValueError, match="read-only"):
        blocks.table[0, 0] = 3


def test_digest_depends_on_the_map_and_not_on_the_order_of_shifts():
    assert Spread(9, (5, 0, 2)).digest == Spread(9, (0, 2, 5)).digest
    assert Spread(9, (0, 2, 5)).digest != Spread(9, (0, 2, 6)).digest
    assert Spread(9, (0, 2, 5)).digest != Spread(10, (0, 2, 5)).digest
    assert len({Spread(9, (5, 0, 2)), Spread(9, (0, 2, 5))}) == 1


@pytest.mark.parametrize("spread", [Spread.random(5, 4), Spread.from_table([[0, 1], [0, 1], [2, 3], [2, 3]])])
def test_saved_spreads_come_back_and_altered_ones_do_not(spread, tmp_path):
    path = tmp_path / "spread.npz"
    spread.save(path)
    assert Spread.load(path) == spread
    assert Spread.from_dict(spread.as_dict()) == spread
    body = bytearray(path.read_bytes())
    at = body.index(b"shifts.npy" if spread.shifts else b"table.npy") + 140
    body[at] ^= 1
    path.write_bytes(body)
    with refused("file.damaged"):
        Spread.load(path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Spread(0, (0,)), "'n_subsets' parameter of a spread must be a whole number ≥ 1. Got 0"),
        (lambda: Spread.random(0, 3), "'k' parameter of a spread must be a whole number ≥ 1. Got 0"),
        (lambda: Spread.random(3, 0), "'d' parameter"),
        (lambda: Spread.random(2.5, 2), "Got 2.5"),
        (lambda: Spread.paper(-1, 2), "Got -1"),
        (lambda: Spread(5, ()), "at least one shift"),
        (lambda: Spread(5, (0, 0)), "Got 0 more than once"),
        (lambda: Spread(5, (0, 5)), r"must lie in 0 … 4. Got 5"),
        (lambda: Spread(5, (-1, 2)), "Got -1"),
        (lambda: Spread(5, (0.5,)), "whole numbers"),
        (lambda: Spread(5, None), "needs shifts"),
        (lambda: Spread.from_table([0, 1]), "two dimensions"),
        (lambda: Spread.from_table([[0.0], [1.0]]), "whole numbers"),
        (lambda: Spread.from_table([[0], [2]]), "0 … 1"),
        (lambda: Spread.from_table([[0, 0], [1, 1]]), "names a subset twice"),
        (
            lambda: Spread.from_table([[0], [0]]),
            "not balanced: subset 0 is fed by 2 partitions, not by d = 1",
        ),
        (lambda: Spread.from_dict({"shifts": [0]}), "must hold"),
        (lambda: resolve_spread(Spread.random(5, 2), 6, 2), "spread has k = 5 but k = 6 was given too"),
        (lambda: resolve_spread(Spread.random(5, 2), 5, 3), "spread has d = 2 but d = 3"),
    ],
)
def test_what_is_not_a_spread_is_refused_in_one_sentence(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_subsets_outside_the_spread_do_not_exist():
    with pytest.raises(IndexError, match="no partition 10: this spread has 0 … 9"):
        Spread.random(5, 2).subsets_of(10)
    with pytest.raises(IndexError, match="no subset -1"):
        Spread.random(5, 2).partitions_of(-1)

"""Lists and arrays of objects are read cell by cell: no cell is another's business."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from poisonproof.samples.kinds import to_samples
from poisonproof.samples.loose import read_loose

ROWS = [[0.1, 2, 3.5], [1.5, 7, 0.25], [2.5, 4, 1e-9], [3.5, 2, 8.0]]
ODD = {
    "a text": "many",
    "a number as text": "1e3",
    "missing": None,
    "pandas' NA": pd.NA,
    "NaT": pd.NaT,
    "a moment": datetime.datetime(2026, 11, 16),
    "Decimal signalling NaN": Decimal("sNaN"),
    "above every float": 10**400,
    "a dict": {"a": 1},
    "a list": [1, 2],
    "complex": 1 + 2j,
    "bytes": b"x",
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("place", [0, 4])
@pytest.mark.parametrize("objects", [False, True])
def test_one_odd_cell_changes_no_other_row(odd, place, objects):
    rows = [*ROWS[:place], [9.0, ODD[odd], 9.0], *ROWS[place:]]
    X = rows
    if objects:
        X = np.empty((5, 3), object)
        for at, row in enumerate(rows):
            for column, cell in enumerate(row):
                X[at, column] = cell
    samples = to_samples(X)
    clean = to_samples(ROWS)
    others = [row for row in range(5) if row != place]
    assert [samples.key(row) for row in others] == [clean.key(row) for row in range(4)]
    assert samples.layout == clean.layout


def test_texts_that_write_numbers_are_numbers_and_dates_are_microseconds():
    read = read_loose([["1e3", datetime.datetime(1970, 1, 1, 0, 0, 1)], [2.0, "no"], [1, 2]])
    assert read.values[0].tolist() == [1000.0, 1e6]
    assert np.isnan(read.values[1, 1])
    assert read.n_unreadable == 1
    assert "1 cells are no numbers" in " ".join(to_samples([["no", 1], [2.0, 3], [4, 5]]).oddities)


@pytest.mark.parametrize("odd", [[1.0], [1.0, 2.0, 3.0, 4.0], 7, None, "abc"])
def test_a_row_of_another_length_is_missing_by_itself(odd):
    samples = to_samples([odd, *ROWS])
    clean = to_samples(ROWS)
    assert [samples.key(row + 1) for row in range(4)] == [clean.key(row) for row in range(4)]
    assert np.isnan(samples.take([0])).all()


def test_what_numpy_reads_as_numbers_is_left_to_numpy():
    assert read_loose(ROWS) is None
    assert read_loose(np.zeros((2, 2))) is None
    assert read_loose([]) is None


def test_cells_that_are_mostly_no_numbers_are_refused():
    with pytest.raises(ValueError, match="Most cells of X are not numbers, such as 'red' of type str"):
        to_samples([["red", "blue"], ["green", "red"]])

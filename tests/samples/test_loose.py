"""Lists and arrays of objects are read cell by cell: no cell is another's business."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from poisonproof.samples.convert import read_loose, to_samples
from poisonproof.verification import content
from refused import refused

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


def test_only_cells_of_which_none_is_a_number_are_refused():
    with refused("samples.kind"):
        to_samples([["red", "blue"], ["green", "red"]])
    assert np.isfinite(to_samples([["red", "blue"], ["green", 1], ["red", "red"]]).take([1])).sum() == 1


def test_texts_are_read_by_the_number_rule_of_files():
    values = to_samples([["1_000", "\u0663", "2026-11-16"], [1, 2, 3]]).take([0])[0]
    assert np.isnan(values[:2]).all()
    assert values[2] == np.datetime64("2026-11-16", "us").astype(int)


IMAGES = [np.arange(12.0).reshape(3, 4) + place for place in range(4)]


@pytest.mark.parametrize("odd", [np.zeros((3, 3)), np.zeros(12), [[1.0], [2.0, 3.0]], [["x"] * 4] * 3, None, 7, "abc"])
@pytest.mark.parametrize("form", [list, np.ndarray.tolist])
def test_an_image_of_another_shape_is_missing_by_itself(odd, form):
    images = [form(image) for image in IMAGES]
    samples, clean = to_samples([odd, *images]), to_samples(images)
    assert samples.layout == clean.layout == "numbers float64 (3, 4)"
    assert [samples.key(row + 1) for row in range(4)] == [clean.key(row) for row in range(4)]
    assert np.isnan(samples.take([0])).all()


def test_a_declared_width_decides_which_shape_rows_have():
    rows = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0, 7.0], [8.0, 9.0, 10.0], [1.0]]
    assert to_samples(rows).n_features == 2
    samples = to_samples(rows, n_features=3)
    assert np.isnan(samples.take([0, 1, 4])).all()
    assert samples.take([2]).tolist() == [[5.0, 6.0, 7.0]]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("kind", ["M8", "m8"])
def test_arrays_of_times_are_whole_microseconds_whatever_their_unit(kind, unit):
    seconds = np.array([[1_700_000_000, 5], [-7, 0]], f"{kind}[s]")
    times = seconds.astype(f"{kind}[{unit}]")
    assert to_samples(times).take([0, 1]).tolist() == [[1_700_000_000e6, 5e6], [-7e6, 0.0]]
    times[0, 0] = "NaT"
    assert to_samples(times).hashes().tolist() == content.content_hashes(times, "float64").tolist()
    assert to_samples(times).complete().tolist() == content.complete(times).tolist() == [False, True]


def test_arrays_of_texts_and_complex_numbers_are_read_cell_by_cell():
    texts = np.array([["1", "2.5"], ["", "many"]])
    for array in (texts, texts.astype("S"), texts.astype(object)):
        values = to_samples(array).take([0, 1])
        assert values[0].tolist() == [1.0, 2.5]
        assert np.isnan(values[1]).all()
    values = to_samples(np.array([[1 + 0j, 2], [3, 4j]])).take([0, 1])
    assert values[0].tolist() == [1.0, 2.0]
    assert values[1, 0] == 3.0
    assert np.isnan(values[1, 1])

"""Times are whole microseconds by one integer rule, whatever type and resolution they came in."""

import datetime
from fractions import Fraction
from math import floor
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poisonproof.samples.cells import canonical_cell
from poisonproof.samples.convert import to_samples
from poisonproof.verification import content

UNITS = {"as": Fraction(1, 10**12), "fs": Fraction(1, 10**9), "ps": Fraction(1, 10**6), "ns": Fraction(1, 1000)}
UNITS |= {"us": Fraction(1), "ms": Fraction(1000), "s": Fraction(10**6), "m": Fraction(60 * 10**6)}
UNITS |= {"h": Fraction(3600 * 10**6), "D": Fraction(86400 * 10**6), "W": Fraction(7 * 86400 * 10**6)}
COUNTS = st.integers(-(2**62), 2**62)


@given(COUNTS, st.sampled_from(sorted(UNITS)), st.sampled_from([np.timedelta64, np.datetime64]))
def test_every_unit_of_numpy_is_floored_in_integers(count, unit, kind):
    exact = floor(count * UNITS[unit])
    assert canonical_cell(kind(count, unit), "here") == float(exact)


@given(COUNTS, st.sampled_from(["s", "ms", "us", "ns"]))
def test_pandas_counts_as_numpy_does(count, unit):
    count = count // 2**30 if unit == "s" else count // 2**10 if unit in ("ms", "us") else count
    exact = float(floor(count * UNITS[unit]))
    assert canonical_cell(pd.Timedelta(np.timedelta64(count, unit)), "here") == exact
    assert canonical_cell(pd.Timestamp(np.datetime64(count, unit)), "here") == exact


@given(st.datetimes(), st.sampled_from(["UTC", "Asia/Kathmandu", "America/St_Johns"]))
def test_python_pandas_and_numpy_agree_on_moments(moment, zone):
    naive = np.datetime64(moment, "us")
    assert canonical_cell(moment, "") == canonical_cell(naive, "") == canonical_cell(pd.Timestamp(moment), "")
    aware = moment.replace(year=min(max(moment.year, 3), 9997), tzinfo=ZoneInfo(zone))
    assert canonical_cell(aware, "") == canonical_cell(pd.Timestamp(aware), "")
    assert canonical_cell(moment.date(), "") == canonical_cell(naive.astype("M8[D]"), "")


@given(st.integers(-400_000, 400_000))
def test_months_and_years_are_those_of_the_calendar(count):
    for unit in ("M", "Y"):
        days = np.datetime64(count, unit).astype("M8[D]").astype(int)
        assert canonical_cell(np.datetime64(count, unit), "") == float(int(days) * 86400 * 10**6)


def test_what_no_machine_word_holds_is_still_a_number_or_missing():
    assert canonical_cell(np.datetime64(2**62, "Y"), "") == pytest.approx(2**62 * 31556952e6)
    assert canonical_cell(np.timedelta64(2**62, "W"), "") == float(2**62 * 7 * 86400 * 10**6)
    assert canonical_cell(datetime.time(1, 2, 3, 4), "") == 3723000004.0
    assert canonical_cell(np.timedelta64("NaT"), "") is canonical_cell(pd.NaT, "") is None


def durations(rng, n, columns):
    return pd.DataFrame({f"t{i}": pd.to_timedelta(rng.integers(0, 10**13, n), unit="ns") for i in range(columns)})


def forms(column):
    """One column of durations in every type that a frame may bring it in."""
    yield column
    yield column.astype(object)
    yield column.astype("m8[us]")
    yield pd.Series([value.to_timedelta64() for value in column], dtype=object)
    yield column.astype(pd.ArrowDtype(pa.duration("ns")))
    yield column.astype("m8[us]").astype(pd.ArrowDtype(pa.duration("us")))
    yield column.astype("category")


def test_no_row_is_hashed_by_the_resolution_of_its_column():
    column = durations(np.random.default_rng(0), 50, 1)["t0"]
    seen = {tuple(to_samples(pd.DataFrame({"t": form})).hashes().tolist()) for form in forms(column)}
    checked = {tuple(content.content_hashes(pd.DataFrame({"t": form}), "float64").tolist()) for form in forms(column)}
    assert len(seen) == 1
    assert checked == seen


def test_dates_of_every_library_agree_and_the_checker_agrees_with_them():
    moments = pd.Series(pd.to_datetime(np.random.default_rng(1).integers(-(10**18), 10**18, 40), unit="ns"))
    columns = [
        moments, moments.astype(object), moments.astype("M8[us]"), moments.dt.tz_localize("UTC"),
        moments.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"), moments.astype(pd.ArrowDtype(pa.timestamp("ns"))),
        pd.Series(moments.astype("M8[us]").dt.to_pydatetime(), dtype=object),
    ]  # fmt: skip
    assert len({tuple(to_samples(pd.DataFrame({"t": c})).hashes().tolist()) for c in columns}) == 1
    assert len({tuple(content.content_hashes(pd.DataFrame({"t": c}), "float64").tolist()) for c in columns}) == 1
    frame = pd.DataFrame({"t": moments})
    assert to_samples(frame).hashes().tolist() == content.content_hashes(frame, "float64").tolist()

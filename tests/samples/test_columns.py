"""Columns are only how a table is kept: hashes, keys, forms and what is fed are those of reading it cell by cell."""

import datetime
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cell_by_cell
from poisonproof import Split
from poisonproof.samples.cells import cell_codes
from poisonproof.samples.columns import Cells, Column
from poisonproof.samples.convert import to_samples
from poisonproof.samples.kinds import TableSamples, canonical_rank
from poisonproof.samples.schema import MISSING

ROME = ZoneInfo("Europe/Rome")
AUTUMN = datetime.datetime(2026, 10, 25, 2, 30, tzinfo=ROME)
ODD = [
    None, np.nan, -0.0, 0.0, 1, 1.0, True, np.bool_(False), 2**53 + 1, 2**53, 2**63 - 1, -(2**70), 10**400, np.inf,
    "1", "1.0", " 1 ", "", "nan", "NA", "ä", "\0", "−0", "forty", np.str_("forty"), "True", b"1", Decimal("0.1"),
    Decimal("NaN"), Decimal(2**60), Fraction(1, 3), 1 + 0j, 1 + 2j, np.float32(0.1), np.int8(-3), np.uint64(2**64 - 1),
    pd.NA, pd.NaT, pd.Timestamp("2026-11-17 06:00:00.123456789"), pd.Timedelta(-1, "ns"), datetime.date(2026, 11, 17),
    AUTUMN, AUTUMN.replace(fold=1), datetime.time(1, 2, 3), np.datetime64("2026-11", "M"), np.timedelta64("NaT"), [1],
]  # fmt: skip
N = 200


def mixed(rng, n=N):
    cells = np.empty(n, object)
    for row in range(n):
        cells[row] = ODD[rng.integers(len(ODD))]
    return cells


def odd_frame(seed):
    """Columns of every dtype, with the odd cells that each can hold."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=N)
    numbers[rng.integers(0, N, 30)] = np.nan
    numbers[rng.integers(0, N, 30)] = -0.0
    numbers[:4] = np.frombuffer(np.uint64(0x7FF8DEADBEEF0001).tobytes(), np.float64)[0], np.inf, -np.inf, 0.0
    counts = rng.integers(-(2**62), 2**62, N)
    words = np.array(["a", "b", "1", " ", "ä", "é"], object)[rng.integers(0, 6, N)]
    gaps = np.where(rng.random(N) < 0.2, None, words)
    whole = [cell if isinstance(cell, str | float | int) else None for cell in mixed(rng)]
    times = pd.Series(pd.to_datetime(counts // 10, unit="ns")).where(rng.random(N) > 0.1)
    return pd.DataFrame(
        {
            "real": numbers,
            "big": counts,
            "unsigned": counts.astype(np.uint64) * np.uint64(3),
            "flag": rng.random(N) < 0.5,
            "nullable": pd.array(np.where(rng.random(N) < 0.1, None, rng.integers(0, 9, N)), dtype="Int64"),
            "complex": numbers + 0j,
            "objects": pd.Series(mixed(rng), dtype=object),
            "texts": pd.Series(np.where(gaps == "é", "\ud800", gaps), dtype=object),
            "str": gaps,
            "strings": pd.array(
                [None if cell is None else cell.replace("\ud800", "") for cell in gaps], dtype="string"
            ),
            "categories": pd.Categorical(gaps),
            "odd categories": pd.Series(whole, dtype=object).astype("category"),
            "numbered": pd.Categorical(rng.integers(0, 5, N)),
            "moments": times,
            "zoned": times.dt.tz_localize("UTC").dt.tz_convert(ROME),
            "seconds": pd.Series(rng.integers(-(10**9), 10**9, N).astype("M8[s]")),
            "took": pd.Series(pd.to_timedelta(counts // 7, unit="ns")).where(rng.random(N) > 0.1),
            "sparse": pd.arrays.SparseArray(np.where(rng.random(N) < 0.8, 0.0, numbers)),
            "arrow": pd.array([None if cell is None else 3 for cell in gaps], dtype=pd.ArrowDtype(pa.int64())),
            "arrow times": pd.array(counts // 10, dtype=pd.ArrowDtype(pa.timestamp("ns"))),
            "nothing": np.array([None] * N, object),
            7: rng.integers(0, 3, N),
        }
    )


def assert_same(samples, slow, rng):
    assert isinstance(samples, TableSamples)
    assert [column.n_unreadable for column in samples.columns] == [column.n_unreadable for column in slow]
    assert [column.categorical for column in samples.columns] == [column.categorical for column in slow]
    n = len(samples)
    assert samples.hashes(5).tolist() == cell_by_cell.hashes(slow, 5)
    assert samples.content_hashes.tolist() == cell_by_cell.hashes(slow)
    assert [samples.key(row) for row in range(n)] == [cell_by_cell.key(slow, row) for row in range(n)]
    assert list(samples.each_key(np.arange(n))) == [cell_by_cell.key(slow, row) for row in range(n)]
    for size in (0, 1, 7, n):
        rows = rng.integers(0, n, size)
        assert samples.keys(rows) == cell_by_cell.keys(slow, rows)
        part = samples.subset(rows)
        assert part.keys(np.arange(size)) == cell_by_cell.keys(slow, rows)
        form = cell_by_cell.form_of(slow, rows)
        assert samples.form_of(rows) == form
        assert part.form_of(np.arange(size)) == form
        others = rng.integers(0, n, 11)
        for asked in (rows, others):
            fed, expected = samples.take(asked, form), cell_by_cell.take(slow, asked, form)
            pd.testing.assert_frame_equal(fed, expected)
            for at in range(fed.shape[1]):
                assert list(map(repr, fed.iloc[:, at])) == list(map(repr, expected.iloc[:, at]))


@pytest.mark.parametrize("seed", range(4))
def test_a_frame_is_what_its_cells_are(seed):
    frame = odd_frame(seed)
    assert_same(to_samples(frame), cell_by_cell.read_frame(frame), np.random.default_rng(seed))


@pytest.mark.parametrize("rows", [1, 3, 5])
def test_a_few_rows_are_read_by_the_categories_that_they_hold(rows):
    for seed in range(4):
        frame = odd_frame(seed)
        frame["many"] = pd.Categorical(np.where(np.arange(N) % 7, [f"c{i}" for i in range(N)], None))
        few = frame[8 * seed : 8 * seed + rows]
        samples = to_samples(few)
        assert_same(samples, cell_by_cell.read_frame(few), np.random.default_rng(seed))
        assert len(samples.columns[-1].cells) <= rows < len(frame["many"].cat.categories)


@pytest.mark.parametrize("seed", range(3))
def test_a_frame_by_a_schema_is_what_its_cells_are(seed):
    frame, rng = odd_frame(seed).drop(columns=7), np.random.default_rng(seed)
    roles = {name: ("number", "category", "text")[rng.integers(3)] for name in frame.columns}
    roles["texts"] = "text"  # pandas takes no lone surrogate for a category
    samples = Split(schema=roles).samples(frame)
    assert_same(samples, cell_by_cell.read_by_roles(frame, roles, MISSING), rng)


def test_blocks_of_rows_and_parts_change_nothing(monkeypatch):
    """Whatever is done for so many cells at once is what is done for all of them."""
    samples, rng = to_samples(odd_frame(9)), np.random.default_rng(9)
    parts = np.sort(np.concatenate(([0, 0, N, N], rng.integers(0, N, 20))))
    rows = rng.permutation(N)
    expected = [samples.keys(rows[start:stop]) for start, stop in pairwise(parts)]
    hashes, keys = samples.hashes().tolist(), samples.keys(rows)
    for cells in (1, 40, 1000):
        monkeypatch.setattr("poisonproof.samples.kinds.CELLS_AT_ONCE", cells)
        monkeypatch.setattr("poisonproof.samples.kinds.WORDS_AT_ONCE", cells)
        monkeypatch.setattr("poisonproof.samples.kinds.ROWS_AT_ONCE", 1 + cells // 40)
        assert samples.hashes().tolist() == hashes
        assert samples.keys(rows) == keys
        assert list(samples.keys_of_parts(rows, parts)) == expected
        assert list(samples.keys_of_parts(rows[:0], np.zeros(3, int))) == [b"", b""]


def test_a_form_of_other_rows_is_fed_as_cells_are():
    """A column may be numbers here and categories, or objects, where the base classifier was trained."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"a": [1.0, np.nan, 2.0, 5.0], "b": ["x", 1, None, "y"], "c": [None, 1, 2, 3]}, dtype=object)
    frame["a"] = frame["a"].astype(float)
    samples, slow = to_samples(frame), cell_by_cell.read_frame(frame)
    for form in ((1.0, 3.0, "x"), "object", "number", ()):
        rows = rng.integers(0, 4, 9)
        for at in range(3):
            whole = ["number", "number", "number"]
            whole[at] = form
            pd.testing.assert_frame_equal(samples.take(rows, whole), cell_by_cell.take(slow, rows, whole))


def test_codes_never_leave_a_column():
    """One more row may renumber every code; no other row's key, hash or form moves."""
    frame = pd.DataFrame({"a": pd.Categorical(["b", "c", "b"]), "b": ["x", "z", None]})
    more = pd.DataFrame({"a": pd.Categorical(["b", "c", "b", "a"]), "b": ["x", "z", None, "\0"]})
    one, other = to_samples(frame), to_samples(more)
    assert one.columns[0].codes.tolist() != other.columns[0].codes[:3].tolist()
    assert one.hashes().tolist() == other.hashes().tolist()[:3]
    assert one.keys([0, 1, 2]) == other.keys([0, 1, 2])
    assert one.form_of([0, 1]) == other.form_of([0, 1])
    assert other.subset([1, 2]).form_of([0, 1]) == (("b", "c"), "object")


def test_equal_rows_are_ordered_by_label_alone():
    samples = to_samples(pd.DataFrame({"a": ["x", "y", "x", "x"], "b": [1, 2, 1, 1]}))
    rank = canonical_rank(samples, np.array([2, 0, 0, 1]))
    assert (np.argsort(rank[[0, 2, 3]]) == [1, 2, 0]).all()


def test_texts_that_write_numbers_are_told():
    def looks(cells, categorical=False):
        return Column.read(
            "a", np.arange(len(cells)), cells, lambda cell: (cell, False), categorical=categorical
        ).texts_like_numbers()

    assert looks(["1", "2", "x", None, 3.0])
    assert not looks(["1", "x"])
    assert not looks(["1", "2"], categorical=True)
    assert not looks([1.0, None])


def test_cells_have_an_order_of_their_own():
    cells, places = Cells.of(["b", 2.0, "a", -1.0])
    assert cells.values.tolist() == [-1.0, 2.0, "a", "b"]
    assert places.tolist() == [3, 1, 2, 0, -1]
    assert cells.first_text == 2
    assert np.array_equal(cells.words[:-1], cell_codes(cells.values.tolist()))

"""Frames of Polars, PyArrow and pandas hold the same samples: a cell is its value, whoever keeps it."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.tree import DecisionTreeClassifier

from poisonproof import FiniteAggregationClassifier
from poisonproof.samples.convert import digest_of, join_rows, to_samples
from poisonproof.samples.frames import as_frame, as_values
from refused import refused

N = 30
RNG = np.random.default_rng(1)
BIG = 2**60
TABLE = pa.table(
    {
        "whole": pa.array([None if i == 3 else BIG + i for i in range(N)], pa.int64()),
        "real": pa.array([None if i == 4 else float(i) / 3 for i in range(N)], pa.float32()),
        "flag": pa.array([bool(i % 2) for i in range(N)]),
        "city": pa.array([None if i == 5 else ("Rome", "Oslo")[i % 2] for i in range(N)]),
        "when": pa.array([None if i == 6 else i * 1_000_003 for i in range(N)], pa.timestamp("ns", "Europe/Rome")),
        "took": pa.array([i * 1_000_003 for i in range(N)], pa.duration("us")),
        "day": pa.array([datetime.date(2026, 11, 1 + i % 28) for i in range(N)]),
        "price": pa.array([Decimal(i) / 8 for i in range(N)], pa.decimal128(12, 3)),
        "nothing": pa.nulls(N),
    }
)
LABELS = [i // 2 % 2 for i in range(N)]


def polars_frame(table=TABLE):
    return pytest.importorskip("polars").from_arrow(table)


FORMS = {
    "table": lambda: TABLE,
    "batch": lambda: TABLE.combine_chunks().to_batches()[0],
    "chunks": lambda: pa.concat_tables([TABLE.slice(0, 7), TABLE.slice(7)]),
    "pandas": lambda: TABLE.to_pandas(),
    "pandas of Arrow types": lambda: TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": polars_frame,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_library_gives_the_same_samples(form):
    samples = to_samples(FORMS[form]())
    assert samples.kind == "tables"
    assert digest_of(samples) == digest_of(to_samples(TABLE.to_pandas()))
    assert samples.take([0]).columns.tolist() == TABLE.column_names


def test_categories_come_as_categories():
    dictionary = TABLE.set_column(3, "city", TABLE.column(3).dictionary_encode())
    pandas = TABLE.to_pandas().astype({"city": "category"})
    assert digest_of(to_samples(dictionary)) == digest_of(to_samples(pandas))
    polars = pytest.importorskip("polars")
    frame = polars.from_arrow(TABLE).with_columns(polars.col("city").cast(polars.Categorical))
    assert digest_of(to_samples(frame)) == digest_of(to_samples(pandas))


def test_moments_beyond_what_python_counts_are_read():
    far = pa.table({"when": pa.array([0, 10**18], pa.timestamp("us")), "day": pa.array([0, 4_000_000], pa.date32())})
    samples = to_samples(far)
    assert samples.key(0) != samples.key(1)


@pytest.mark.parametrize("form", ["table", "polars"])
def test_a_model_is_fitted_asked_and_updated_with_such_frames(form):
    frame = FORMS[form]()
    model = FiniteAggregationClassifier(k=3, d=2, classes=[0, 1], n_jobs=1).fit(frame, LABELS)
    pandas = FiniteAggregationClassifier(k=3, d=2, classes=[0, 1], n_jobs=1).fit(as_frame(frame), LABELS)
    assert model.feature_names_in_.tolist() == TABLE.column_names
    assert (model.votes(frame).matrix == pandas.votes(as_frame(frame)).matrix).all()
    assert (model.subset_digests_ == pandas.subset_digests_).all()
    model.update(add=(frame[:2], [1, 1]), remove=[0, 5])
    pandas.update(add=(as_frame(frame)[:2], [1, 1]), remove=[0, 5])
    assert (model.subset_digests_ == pandas.subset_digests_).all()


def test_labels_and_contributors_may_be_columns_and_stay_whole_numbers():
    """A missing label turns a column to floats in NumPy's hands, and numbers above 2**53 into their neighbours."""
    X, ids = RNG.normal(size=(N, 2)), [BIG + i % 19 for i in range(N)]
    model = FiniteAggregationClassifier(DecisionTreeClassifier(), k=2, d=2, split="group", classes=[0, 1], n_jobs=1)
    expected = model.fit(X, LABELS, ids).subset_digests_
    for column in (pa.chunked_array([ids]), pa.array(ids)):
        assert (model.fit(X, pa.array(LABELS), column).subset_digests_ == expected).all()
    assert as_values(pa.array([BIG + 1, None])) == [BIG + 1, None]
    polars = pytest.importorskip("polars")
    assert (model.fit(X, polars.Series(LABELS), polars.Series(ids)).subset_digests_ == expected).all()
    assert as_values(polars.Series([BIG + 1, None])) == [BIG + 1, None]


def test_what_is_no_table_for_arrow_is_refused_in_one_sentence():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": polars.Series([2**100, 1], dtype=polars.Int128)})
    with refused("frames.arrow"):
        to_samples(frame)


def test_what_speaks_no_arrow_stays_as_it_is():
    for X in (np.zeros((2, 2)), [["a"]], pd.DataFrame({"a": [1]})):
        assert as_frame(X) is X
    series = pd.Series([1])
    assert as_values(series) is series


@pytest.mark.parametrize("form", ["table", "pandas of Arrow types", "categories", "categories of Arrow types"])
@pytest.mark.parametrize("at", [0, 7, N - 1])
def test_a_text_that_is_not_utf_8_stops_nothing_and_changes_no_other(form, at):
    """Arrow takes whatever bytes a file calls a text; they are read as in CSV and Parquet files, each by itself."""
    bodies = [f"w{i % 3}".encode() for i in range(N)]
    plain = bodies.copy()
    bodies[at], plain[at] = b"K\xf6ln", "Köln".encode()
    samples = []
    for some in (bodies, plain):
        binary = pa.array(some, pa.binary())
        column = pa.Array.from_buffers(pa.string(), N, binary.buffers())
        table = pa.table({"word": column.dictionary_encode() if "categories" in form else column, "x": list(range(N))})
        frame = table.to_pandas(types_mapper=pd.ArrowDtype) if "Arrow" in form else table
        samples.append(to_samples(frame))
        labels = as_values(pa.chunked_array([column]))
        assert labels[at] == "Köln"
    assert digest_of(samples[0]) == digest_of(samples[1])


def test_a_fraction_joins_whole_numbers_that_no_double_holds():
    """Arrow refuses to make one column of both, and one added row stopped an update."""
    old = pd.DataFrame({"x": pd.Series([2**53 + 1, None, 3], dtype="int64[pyarrow]")})
    joined = join_rows(old, pd.DataFrame({"x": pd.Series([0.5], dtype="double[pyarrow]")}))
    assert joined.columns[0].values.tolist()[2:] == [3.0, 0.5]

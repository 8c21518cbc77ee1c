"""The matrix of entry points: whatever odd row comes in, it reaches its own base classifiers and nobody else.

A share of the cases; benchmarks/odd_rows.py goes through all of them.
"""

import csv
import io
import json
import os
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

from drawn import binomial
from entry_points.arrays import EntryPoint, Inputs, estimator, floats_of
from entry_points.cells import cases, faults_of_cells, n_cells
from entry_points.files import write_csv
from entry_points.labels import LABEL_CASES, faults_of_labels, n_labels
from entry_points.matrix import ACTS, MANY, PLACES, STOP, Case, change_of, faults_of, here, odd_names, read
from entry_points.rows import NUMBERS, ODD_LINES, D, honest_rows, odd_row, odd_rows
from entry_points.table import ENTRY_POINTS
from poisonproof import (
    BallotClassifier,
    FiniteAggregationClassifier,
    NeighborVoteClassifier,
)
from poisonproof.cli.main import app

PER_ENTRY_POINT = 6
EXAMPLES = int(os.environ.get("POISONPROOF_FUZZ", "25"))


def present(name):
    entry = ENTRY_POINTS[name]
    if not here(entry):
        pytest.skip(f"this entry point needs {entry.needs}: pip install '.[test]'")
    return entry


def some_of(name):
    """A few odd rows of each entry point, other ones at each, so that together they cover the table."""
    names = odd_names(name)
    start = sum(map(ord, name))
    step = max(1, len(names) // PER_ENTRY_POINT)
    return [names[(start + i * step) % len(names)] for i in range(min(PER_ENTRY_POINT, len(names)))]


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_an_odd_row_reaches_nobody_else(name):
    entry = present(name)
    faults = []
    for at, odd in enumerate(some_of(name)):
        case = Case(entry, odd, ACTS[(at + len(name)) % 4], PLACES[(at + len(odd)) % 3], train=at == 0)
        faults += [f"{case}: {fault}" for fault in faults_of(case)]
    assert faults == []


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_no_row_stops_anything(name):
    """One odd row first, in the middle and last, two for each honest row, and nothing else: only nothing left ends."""
    entry, names = present(name), odd_names(name)
    faults = []
    for at, place in enumerate((*PLACES, MANY, MANY)):
        case = Case(entry, names[(sum(map(ord, name)) + 7 * at) % len(names)], STOP, place)
        faults += [f"{case}: {fault}" for fault in faults_of(case)]
    assert faults == []


@pytest.mark.parametrize("odd", ODD_LINES)
def test_no_line_stops_a_file_of_csv(odd):
    """Not even one that leaves quotes open, which in records may cost its neighbours: a premise."""
    entry = ENTRY_POINTS[".csv with rows in quotes, inferred"]
    assert [fault for place in (*PLACES, MANY) for fault in faults_of(Case(entry, f"line: {odd}", STOP, place))] == []


STOPPED = [
    # What once stopped a run, by name, whatever the rotation above picks.
    ("image folder, inferred", "picture: cut off"),
    ("image folder, declared", "picture: a link that leads out"),
    ("image folder, command", "picture: a pipe"),
    (".svm, inferred", "line: svmlight: above a million"),
    ("texts, list", "sample: missing"),
    ("texts, pandas", "sample: a duration"),
    ("list of images, lists", "shape: missing"),
    ("list of images, arrays", "shape: ragged"),
    ("list of images, lists", "shape: empty"),
]


@pytest.mark.parametrize(("name", "odd"), STOPPED)
@pytest.mark.parametrize("place", [*PLACES, MANY])
def test_what_once_stopped_a_run(name, odd, place):
    assert faults_of(Case(present(name), odd, STOP, place)) == []


KNOWN = [
    # What once got through, by name, whatever the rotation above picks.
    *((".csv with rows in quotes, inferred", f"line: {odd}") for odd in ODD_LINES if odd.startswith("rows in quotes")),
    ("pandas, inferred", "durations: microseconds"),
    ("pandas, objects", "moments: a zone"),
    (".parquet, declared", "durations: ten thousand years"),
    (".parquet, declared", "moments: the year 30000"),
    ("pandas, contributors above 2**53", "group: a neighbour above 2**53"),
    ("list of lists, labels above 2**53", "label: a neighbour above 2**53"),
    ("array float64", "cell a: infinity"),
    ("array, learner without missing values", "cell a: NaN"),
    ("array float64, contributors", "group: missing"),
    ("sparse csr", "entries: signalling NaN"),
    ("sparse coo", "entries: twice"),
    ("sparse csr", "entries: beyond"),
    ("sparse coo, bytes, in parts", "entries: only beyond"),
    ("list of lists", "cell a: a text"),
    ("list of lists", "cell a: a list"),
    ("array of objects", "cell b: Decimal signalling NaN"),
    ("array of objects", "cell big: a moment"),
    ("pandas, inferred", "cell b: complex"),
    ("pandas, inferred", "cell a: a dict"),
    ("texts, list", "sample: missing"),
    ("array float64, classes inferred", "label: missing"),
    ("array float64, classes inferred", "label: a fraction"),
    ("array float64, classes inferred", "label: a float equal to one"),
    ("sparse csr, in parts", "entries: unsorted"),
    ("sparse coo, in parts", "entries: needs a double"),
    ("sparse coo, bytes, in parts", "entries: above a byte"),
    ("array of moments", "moment: nanoseconds"),
    ("array of durations", "moment: microseconds"),
    ("array float64, contributors by moment", "moment of a contributor: nanoseconds"),
    ("array float64, contributors above 2**53 in a categorical", "group: missing"),
    ("array float64, contributors above 2**53 in an array of pandas", "group: missing"),
    ("array of texts", "cell a: a text"),
    ("array, complex", "cell a: complex"),
    ("list of images, arrays", "shape: another shape"),
    ("list of images, lists", "shape: texts"),
    ("list of lists, labels in a column", "label: undeclared"),
    ("pandas, inferred", "moments: the year 30000"),
    (".svm, inferred", "line: svmlight: above a million"),
    ("image folder, declared", "picture: a link that leads out"),
    ("image folder, declared", "picture: a link to itself"),
    ("image folder, declared", "picture: a pipe"),
]


@pytest.mark.parametrize(("name", "odd"), KNOWN)
@pytest.mark.parametrize("act", ["insert", "remove"])
def test_what_once_got_through(name, odd, act):
    case = Case(present(name), odd, act, "first" if act == "insert" else "last", train=True)
    assert faults_of(case) == []


# Hypothesis's own odd cells

CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True),
    st.text(max_size=12),
    st.binary(max_size=6),
    st.decimals(),
    st.fractions(),
    st.complex_numbers(),
    st.dates(),
    st.datetimes(),
    st.timedeltas(),
    st.times(),
    st.lists(st.integers(), max_size=2),
)
ANY_CELL = ["array of objects", "list of lists", "pandas, objects", "texts, list"]


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(
    name=st.sampled_from(ANY_CELL), cell=CELLS, label=CELLS, act=st.sampled_from(ACTS), place=st.sampled_from(PLACES)
)
def test_cells_that_nobody_thought_of(name, cell, label, act, place):
    def odd(row, rows):
        column = "words" if name == "texts, list" else "a"
        return replace(row.having(**{column: cell}), label=label)

    assert faults_of(Case(ENTRY_POINTS[name], repr(cell), act, place), odd) == []


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(
    name=st.sampled_from([".csv by lines, inferred", ".csv of Windows by lines, inferred", ".svm, declared"]),
    line=st.binary(max_size=60).filter(lambda line: b"\n" not in line),
    act=st.sampled_from(ACTS),
    place=st.sampled_from(PLACES),
)
def test_lines_that_nobody_thought_of(name, line, act, place):
    case = Case(ENTRY_POINTS[name], repr(line), act, place)
    assert faults_of(case, lambda row, rows: replace(row, line=line)) == []


# The commands themselves


def run(path, out, *more):
    words = ["run", path, "--label", "class", "--group-column", "maker", "--classes", "0,1", "--k", 5, "--d", 2]
    done = CliRunner().invoke(
        app, [str(word) for word in (*words, "--n-jobs", 1, "--no-undefended", "--out", out, *more)]
    )
    assert done.exit_code == 0, done.output
    return np.load(out / "votes.npy", allow_pickle=False)


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
@pytest.mark.parametrize("odd", ["cell a: a text", "group: unknown", "label: undeclared", "line: an open quote"])
def test_commands_move_no_more_than_the_row_may(tmp_path, odd):
    """`poisonproof run` before and after, the same test file; and `poisonproof update` gives what a fresh run gives."""
    write = write_csv()
    honest = honest_rows("rows")
    train, test = honest[8:], honest[:8]
    (tmp_path / "test").mkdir()
    tested = write(test, tmp_path / "test")
    path = write(train, tmp_path)
    before = run(path, tmp_path / "run", "--test", tested)
    write(change_of("insert", "middle", train, odd_row(odd)).after, tmp_path)
    after = run(path, tmp_path / "fresh", "--test", tested)
    assert (before != after).any(axis=0).sum() <= D
    done = CliRunner().invoke(app, ["update", str(tmp_path / "run"), str(path), "--n-jobs", "1", "--json"])
    assert done.exit_code == 0, done.output
    assert sum(change["retrained"] for change in json.loads(done.stdout)["changes"]) <= D
    assert (np.load(tmp_path / "run" / "votes.npy", allow_pickle=False) == after).all()


# A matrix that cannot fail proves nothing: entry points that leak


def by_type_inference(rows, folder):
    """A CSV read by pandas, which gives each column one type."""
    file = io.StringIO()
    csv.writer(file).writerows([NUMBERS, *([row.cells[name] for name in NUMBERS] for row in rows)])
    frame = pd.read_csv(io.StringIO(file.getvalue()))
    return Inputs(frame, [row.label for row in rows], None, estimator(None))


def behind_a_scaler(rows, folder):
    X = StandardScaler().fit_transform(floats_of(rows))
    return Inputs(X, [row.label for row in rows], None, estimator())


def rounded_like_the_largest(rows, folder):
    """Numbers in the precision that the largest of them leaves."""
    X = floats_of(rows)
    return Inputs(X + np.nanmax(X) - np.nanmax(X), [row.label for row in rows], None, estimator())


def held_out_by_index(rows, folder):
    X, y = floats_of(rows), np.array([str(row.label) for row in rows], object)
    parts = train_test_split(X, y, test_size=0.3, random_state=0)
    model = estimator(classes=["0", "1"])
    return Inputs(parts[0], parts[2], None, model, (parts[1], parts[3]))


def partitioned_by_row_number(rows, folder):
    return Inputs(floats_of(rows), [row.label for row in rows], list(range(len(rows))), estimator(split="group"))


def categories_from_the_data(rows, folder):
    frame = pd.DataFrame({"a": [row.cells["a"] for row in rows], "city": [row.cells["city"] for row in rows]})
    frame["city"] = pd.Categorical(frame["city"]).codes.astype(float)
    return Inputs(frame, [row.label for row in rows], None, estimator(None))


def labels_decide_the_learner(rows, folder):
    learner = DecisionTreeClassifier(max_depth=1 + len({str(row.label) for row in rows}))
    return Inputs(floats_of(rows), [row.label for row in rows], None, estimator(learner))


def stopped_by_infinity(rows, folder):
    X = floats_of(rows)
    if np.isinf(X).any():
        raise ValueError("Input X contains infinity.")
    return Inputs(X, [row.label for row in rows], None, estimator())


ALL = ("insert", "remove", "replace")
LEAKS = [
    (by_type_inference, "cell b: a text", "rows went|rows came", ALL),
    (behind_a_scaler, "cell a: huge", "rows went|rows came", ALL),
    (rounded_like_the_largest, "cell a: huge", "rows went|rows came", ALL),
    (held_out_by_index, "cell a: a fraction", "rows went|rows came", ("insert", "remove")),
    (partitioned_by_row_number, "cell a: a fraction", "rows went|rows came", ("insert", "remove")),
    (categories_from_the_data, "category: a formula", "rows went|rows came", ALL),
    (labels_decide_the_learner, "label: undeclared", r"base classifiers .* moved", ALL),
    (stopped_by_infinity, "cell a: infinity", "one row stops the training", ALL),
]


@pytest.mark.parametrize(
    ("leak", "odd", "fault", "act"), [(leak, odd, fault, act) for leak, odd, fault, acts in LEAKS for act in acts]
)
def test_the_matrix_sees_a_entry_point_that_leaks(leak, odd, fault, act):
    faults = faults_of(Case(EntryPoint(leak.__name__, leak, ()), odd, act, "first"))
    assert faults
    assert re.search(fault, "\n".join(faults))


@pytest.mark.parametrize("place", [*PLACES, MANY])
def test_the_matrix_sees_a_row_that_stops(place):
    assert faults_of(Case(EntryPoint("stopped", stopped_by_infinity, ()), "cell a: infinity", STOP, place))


def test_the_matrix_sees_votes_that_leak():
    """Digests say nothing about a learner that remembers; votes do, and so does update."""
    seen = []

    class Remembering(DecisionTreeClassifier):
        def fit(self, X, y):
            seen.append(len(X))
            return super().fit(X, (y if len(seen) % 2 else y[::-1]))

    def load(rows, folder):
        return Inputs(floats_of(rows), [row.label for row in rows], None, estimator(Remembering(max_depth=3)))

    faults = faults_of(Case(EntryPoint("remembering", load, ()), "cell a: a fraction", "insert", "middle", train=True))
    assert any("votes of" in fault or "other votes" in fault for fault in faults)


def test_the_matrix_sees_an_update_that_forgets():
    """An entry point whose single row is read otherwise than the same row among others."""

    def load(rows, folder):
        X = floats_of(rows)
        return Inputs(X if len(rows) > 1 else X + 1, [row.label for row in rows], None, estimator())

    faults = faults_of(Case(EntryPoint("forgetful", load, ()), "cell a: a fraction", "insert", "middle", train=True))
    assert "update gives other digests than a fresh fit" in faults


def test_a_case_leaves_nothing_behind_for_the_next():
    """The reading of the honest rows is kept; training and updating must not change it."""
    case = Case(
        ENTRY_POINTS["pandas, classes inferred"], "label: a neighbour above 2**53", "insert", "last", train=True
    )
    assert faults_of(case) == faults_of(case) == []


def test_every_kind_of_oddity_comes_through_some_entry_point():
    through = {odd for name in ENTRY_POINTS for odd in odd_names(name)}
    assert through == {odd for table in odd_rows().values() for odd in table}
    assert {kind for entry in ENTRY_POINTS.values() for kind in entry.takes} == set(odd_rows())


def test_honest_rows_feed_base_classifiers_and_both_sides():
    """Otherwise nothing would be there to move."""
    for name in ("array float64", ".csv, declared", ".parquet, command, contributors", "image folder, declared"):
        reading = read(ENTRY_POINTS[name], honest_rows(ENTRY_POINTS[name].rows))
        assert (reading.ensemble.source.sizes > 0).mean() >= 0.9, name
        sides = {row[0] for row in reading.rows} | set(reading.aside.values())
        assert sides in ({"trained", "held out"}, {"trained", True, False}), name


# The same cell by every format


def test_a_cell_is_the_same_by_every_format(tmp_path):
    assert [fault for case in cases() for fault in faults_of_cells(case, tmp_path)] == []
    assert n_cells() >= 3_000


# The same label by every entry point


@pytest.mark.parametrize("case", LABEL_CASES, ids=lambda case: case.name)
def test_a_label_is_the_same_by_every_entry_point(tmp_path, case):
    assert faults_of_labels(case, tmp_path) == []
    assert n_labels() >= 800


def typed_column(cells):
    """One odd cell turns it to text."""
    return pd.read_csv(io.StringIO("y\n" + "".join(f"{cell}\n" for cell in cells)))["y"]


LIBRARIES = {
    "pandas": lambda column: column,
    "pandas of Arrow": lambda column: column.convert_dtypes(dtype_backend="pyarrow"),
    "NumPy": lambda column: column.to_numpy(),
    "pyarrow": lambda column: pytest.importorskip("pyarrow").array(column),
    "polars": lambda column: pytest.importorskip("polars").Series(column.tolist()),
}
GAUSSIAN = GaussianNB()
ESTIMATORS = {
    "ensemble": lambda: FiniteAggregationClassifier(GAUSSIAN, k=5, d=2, classes=[0, 1]),
    "ballots": lambda: BallotClassifier(near=2.0, classes=[0, 1]),
    "neighbours": lambda: NeighborVoteClassifier(n_neighbors=3, classes=[0, 1]),
    "stochastic": lambda: binomial(GAUSSIAN, k=5, n_draws=10, seed=7, classes=[0, 1]),
}


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_one_text_among_typed_labels_moves_nobody(name, library):
    """pandas.read_csv turned every label into a text for one that is, and none was a declared class any more."""
    X = np.random.default_rng(0).normal(size=(81, 3))
    labels = (X[:80, 0] > 0).astype(int)
    clean, odd = (LIBRARIES[library](typed_column(cells)) for cells in (labels, [*labels, "odd"]))
    with_odd, without = ESTIMATORS[name]().fit(X, odd), ESTIMATORS[name]().fit(X[:80], clean)
    (certified, radii), (as_before, radii_before) = (
        (list(map(repr, model.classes_[certificate.prediction])), certificate.radius.tolist())
        for model in (with_odd, without)
        for certificate in [model.certify(X[:40])]
    )
    assert certified == as_before
    assert radii == radii_before
    assert with_odd.score(X[:80], labels) == with_odd.score(X[:80], labels.astype(str)) == without.score(X[:80], labels)
    stated = [premise.declared for premise in with_odd.premises_ if premise.code == "label-types"]
    assert stated == ([] if library == "NumPy" else [False])


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
@pytest.mark.parametrize("library", LIBRARIES)
def test_one_text_among_typed_contributors_moves_no_more_than_its_own_subsets(library):
    """15 of 15 subsets had moved, and 29 certified predictions had changed."""
    X = np.random.default_rng(0).normal(size=(121, 3))
    y, ids = (X[:, 0] > 0).astype(int).tolist(), (np.arange(120) % 40).tolist()
    clean, odd = (LIBRARIES[library](typed_column(cells)) for cells in (ids, [*ids, "odd"]))
    model = FiniteAggregationClassifier(GAUSSIAN, k=5, d=3, split="group", classes=[0, 1])
    digests = [clone(model).fit(X[: len(groups)], y[: len(groups)], groups).subset_digests_ for groups in (clean, odd)]
    assert 0 < (digests[0] != digests[1]).any(axis=1).sum() <= 3
    voting = [
        BallotClassifier(near=2.0, classes=[0, 1]).fit(X[: len(groups)], y[: len(groups)], groups)
        for groups in (clean, odd)
    ]
    assert voting[1].contributors_.keys() - voting[0].contributors_.keys() == {"odd"}

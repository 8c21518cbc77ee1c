"""One poisoned row must not reach anything about another row: the known leaks, one by one."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from poisonproof import PoisonproofError, Split
from poisonproof.samples.cells import canonical_cell
from poisonproof.samples.convert import digest_of, join_rows, take_rows, to_samples
from poisonproof.samples.kinds import canonical_rank
from poisonproof.samples.labels import class_array, label_cells, one_by_one, read_labels
from poisonproof.verification import content
from refused import refused

RNG = np.random.default_rng(0)
NUMBERS = np.round(RNG.normal(size=(40, 5)), 2)
FRAME = pd.DataFrame(
    {
        "age": RNG.integers(18, 90, 40),
        "height": np.where(RNG.random(40) < 0.2, np.nan, RNG.normal(170, 10, 40)),
        "city": RNG.choice(["Rome", "Oslo", "Bern"], 40),
        "member": RNG.random(40) < 0.5,
        "tier": pd.Categorical(RNG.choice(["gold", "tin"], 40)),
        "since": pd.to_datetime(RNG.integers(0, 10**9, 40), unit="s"),
    }
)


def partitions(X, **how):
    split = Split(**how)
    return split.partitions(split.samples(X), 97).tolist()


def test_known_answers():
    """Partitions are the same on every machine, in every process and version; these are from the first."""
    X = np.array([[0.0, 1.5, -2.0], [3.25, np.nan, 1e300]])
    assert to_samples(X).hashes().tolist() == KNOWN["numbers"]
    assert to_samples(sp.csr_matrix(np.nan_to_num(X))).hashes().tolist() == KNOWN["sparse"]
    assert to_samples(np.full((2, 3), 7, np.uint8), dtype="uint8").hashes().tolist() == KNOWN["uint8"]
    assert to_samples(["a text", "ein größerer Text"]).hashes().tolist() == KNOWN["texts"]
    table = pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": [True, False]})
    assert to_samples(table).hashes().tolist() == KNOWN["table"]
    split = Split("group")
    samples = split.samples(X)
    assert split.partitions(samples, 1000, groups=["ann", 7]).tolist() == KNOWN["groups"]
    labelled = Split("content", hash_labels=True)
    assert labelled.partitions(samples, 1000, labels=["yes", "no"]).tolist() == KNOWN["labelled"]


KNOWN = {
    "numbers": [4766150272777819997, 15864539451350995815],
    "sparse": [2624130494173451308, 18351665523985495173],
    "uint8": [6718224606920427166, 6718224606920427166],
    "texts": [10384521023547308274, 12202677255487010062],
    "table": [7144825807437313957, 16367356199385523495],
    "groups": [920, 714],
    "labelled": [292, 89],
}


def test_minus_zero_and_nan_patterns_are_one():
    odd = np.array([0xFFF0000000000123], np.uint64).view(np.float64)[0]
    a, b = np.array([[0.0, np.nan]]), np.array([[-0.0, odd]])
    assert partitions(a) == partitions(b)
    assert to_samples(a).key(0) == to_samples(b).key(0)
    assert to_samples(b).take([0]).tobytes() == a.tobytes()


def test_memory_layout_does_not_matter():
    assert partitions(np.asfortranarray(NUMBERS)) == partitions(NUMBERS) == partitions(NUMBERS[::-1])[::-1]
    assert partitions(NUMBERS.astype(">f8")) == partitions(NUMBERS)


def test_declared_uint8_is_hashed_as_bytes_and_nothing_else_is_taken_for_it():
    images = RNG.integers(0, 256, (5, 4, 4), dtype=np.uint8)
    assert len(set(partitions(images, dtype="uint8"))) > 1
    assert to_samples(images, dtype="uint8").take([1]).dtype == np.uint8
    with refused("samples.dtype"):
        to_samples(images.astype(float), dtype="uint8")


def test_sparse_rows_have_one_form():
    dense = np.where(RNG.random((30, 8)) < 0.3, RNG.normal(size=(30, 8)), 0)
    clean = sp.csr_matrix(dense)
    messy = sp.coo_matrix(clean)
    order = RNG.permutation(messy.nnz)
    row, column, value = messy.row[order], messy.col[order], messy.data[order]
    doubled = sp.coo_matrix(
        (np.r_[value / 2, value / 2, [0.0, -0.0]], (np.r_[row, row, 3, 4], np.r_[column, column, 1, 1])),
        clean.shape,
    )
    raw = sp.csr_matrix((value, (row, column)), clean.shape)
    raw.has_sorted_indices = False
    assert partitions(clean) == partitions(doubled) == partitions(raw) == partitions(sp.csr_array(dense))
    fed = to_samples(doubled).take(range(30))
    assert fed.has_canonical_format
    assert (fed.toarray() == dense).all()
    assert partitions(clean, n_features=8) == partitions(sp.hstack([clean, sp.csr_matrix((30, 4))]).tocsr())


def test_an_all_number_table_is_split_like_its_array():
    assert partitions(pd.DataFrame(NUMBERS)) == partitions(NUMBERS)


def test_categories_are_values_and_are_rebuilt_inside_the_subset():
    wider = FRAME.assign(tier=FRAME["tier"].cat.add_categories(["aaa", "zinc"]))
    assert partitions(wider) == partitions(FRAME)
    assert partitions(FRAME.assign(tier=FRAME["tier"].astype(str))) == partitions(FRAME)
    gold = np.flatnonzero(FRAME["tier"] == "gold")[:3]
    assert to_samples(wider).take(gold)["tier"].cat.categories.tolist() == ["gold"]


def test_a_table_is_fed_in_the_form_of_the_subset_the_base_classifier_saw():
    samples = to_samples(FRAME)
    form = samples.form_of(range(40))
    odd = FRAME.iloc[[0, 1]].astype(object)
    odd["age"] = ["unknown", 33]
    odd["tier"] = ["platinum", "tin"]
    odd["city"] = [None, "Oslo"]
    fed = to_samples(odd).take([0, 1], form)
    assert fed["age"].isna().tolist() == [True, False]
    assert fed["age"].dtype == np.float64
    assert fed["tier"].isna().tolist() == [True, False]
    assert fed["tier"].cat.categories.tolist() == ["gold", "tin"]
    assert fed["city"].tolist()[1] == "Oslo"


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        (None, None),
        (float("nan"), None),
        (pd.NA, None),
        (pd.NaT, None),
        (np.datetime64("NaT"), None),
        (True, 1.0),
        (np.int64(3), 3.0),
        (Decimal("0.5"), 0.5),
        (10**400, None),
        (float("inf"), None),
        (datetime.date(9999, 12, 31), 253402214400e6),
        (datetime.datetime(9999, 12, 31, 23, tzinfo=datetime.timezone(datetime.timedelta(hours=-5))), 253402315200e6),
        (-0.0, 0.0),
        ("1", "1"),
        (np.str_("a"), "a"),
        (np.datetime64("1970-01-01T00:00:01"), 1e6),
        (pd.Timestamp("1970-01-01 00:00:01"), 1e6),
        (datetime.date(1970, 1, 2), 86400e6),
        (np.timedelta64(1, "s"), 1e6),
    ],
)
def test_a_cell_is_a_number_a_text_or_missing(value, canonical):
    assert canonical_cell(value, "here") == canonical


def test_cells_of_other_types_are_missing_and_counted_by_name():
    odd = to_samples(pd.DataFrame({"x": [[1], 2.0, b"b"]}))
    assert odd.oddities == ("2 cells of column 'x' cannot be read and count as missing",)
    assert odd.hashes().tolist() == to_samples(pd.DataFrame({"x": [np.nan, 2.0, np.nan]})).hashes().tolist()
    with refused("type"):
        canonical_cell([1], "here")


def test_canonical_order_depends_on_content_alone():
    labels = RNG.integers(0, 3, 40)
    for X in (NUMBERS, FRAME, sp.csr_matrix(NUMBERS), [str(row) for row in NUMBERS]):
        samples = to_samples(X)
        order = np.argsort(canonical_rank(samples, labels))
        shuffle = RNG.permutation(40)
        again = samples.subset(shuffle)
        shuffled = np.argsort(canonical_rank(again, labels[shuffle]))
        assert shuffle[shuffled].tolist() == order.tolist()
        part = np.sort(RNG.choice(40, 15, replace=False))
        assert part[np.argsort(canonical_rank(samples.subset(part), labels[part]))].tolist() == [
            row for row in order if row in part
        ]


def test_equal_hashes_are_told_apart_by_content_then_label():
    samples = to_samples(np.array([[3.0], [1.0], [2.0], [1.0], [1.0]]))
    samples.__dict__["content_hashes"] = np.zeros(5, np.uint64)
    rank = canonical_rank(samples, np.array([0, 2, 0, 1, 1]))
    keys = [samples.key(row) for row in np.argsort(rank)]
    assert keys == sorted(keys)
    first = [row for row in np.argsort(rank) if samples.values[row, 0] == 1.0]
    assert first[2] == 1


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.zeros((0, 3)), ValueError, "0 sample"),
        (np.zeros(3), ValueError, "2D array"),
        (pd.DataFrame({"x": []}), ValueError, "0 sample"),
        (np.array([[1 + 1j]]), ValueError, "Complex data not supported"),
        (np.array([(1, 2.0)], [("a", int), ("b", float)]), ValueError, "an array of records"),
        ([None, 3], ValueError, "No sample of X is a row of numbers or a text"),
    ],
)
def test_what_are_not_samples_is_refused_in_one_sentence(X, error, message):
    with pytest.raises(error, match=message):
        to_samples(X)


@pytest.mark.parametrize(
    ("X", "how", "message"),
    [
        (FRAME, {"n_features": 5}, "6 features per sample, but 5 were declared"),
        (FRAME, {"dtype": "uint8"}, "Only a dense array can be declared as uint8. Got DataFrame"),
        (["a"], {"dtype": "uint8"}, "Got list"),
        (sp.csr_matrix([[1.0]]), {"dtype": "uint8"}, "Got csr_matrix"),
    ],
)
def test_declarations_hold_for_every_kind_of_sample(X, how, message):
    with pytest.raises(ValueError, match=message):
        Split(**how).samples(X)


def in_parts(form, narrow, dtype, odd=()):
    """Twenty rows of thirty entries in six places, sorted by place, and perhaps an odd one; always the same."""
    rng = np.random.default_rng(7)
    values = rng.integers(50, 250, (20, 30)) / (1 if narrow == np.uint8 else 7)
    rows = [(np.sort(rng.integers(0, 6, 30)), row) for row in values.astype(narrow)]
    rows += [odd] if odd else []
    columns, values = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    lengths = [len(own) for own, _ in rows]
    if form == "csr":
        starts = np.cumsum([0, *lengths])
        return sp.csr_matrix((values.astype(dtype), columns, starts), shape=(len(rows), 6))
    return sp.coo_matrix((values.astype(dtype), (np.repeat(np.arange(len(rows)), lengths), columns)), (len(rows), 6))


@pytest.mark.parametrize(
    ("form", "dtype", "odd", "wider"),
    [
        ("csr", np.float64, ([5, 3, 4], [1.0, 2.0, 3.0]), np.float64),  # unsorted: SciPy sorts all rows
        ("coo", np.float32, ([1], [0.1]), np.float64),
        ("coo", np.uint8, ([1], [300]), np.int64),
        ("coo", np.float64, ([1], [1j]), np.complex128),
    ],
)
def test_entries_of_one_place_are_added_by_a_rule_of_their_own(form, dtype, odd, wider):
    clean, more = in_parts(form, dtype, dtype), in_parts(form, dtype, wider, odd)
    before = to_samples(clean)
    for after in (to_samples(more), to_samples(join_rows(clean, take_rows(more, [20])))):
        assert [after.key(row) for row in range(20)] == [before.key(row) for row in range(20)]
    assert before.hashes().tolist() == content.content_hashes(clean, "float64").tolist()
    if wider != np.complex128:
        assert to_samples(more).hashes().tolist() == content.content_hashes(more, "float64").tolist()
    shuffled = clean.tocoo()
    order = np.random.default_rng(1).permutation(shuffled.nnz)
    places = (shuffled.row[order], shuffled.col[order])
    again = to_samples(sp.coo_matrix((shuffled.data[order], places), shuffled.shape))
    assert again.hashes().tolist() == before.hashes().tolist()


BIG = 2**60


@pytest.mark.parametrize(
    "keys",
    [
        pd.Categorical([BIG, BIG + 1, None]),
        pd.CategoricalIndex([BIG, BIG + 1, None]),
        pd.Series(pd.Categorical([BIG, BIG + 1, None])),
        pd.array([BIG, BIG + 1, None], dtype="Int64"),
        pd.DataFrame({"id": pd.array([BIG, BIG + 1, None], dtype="Int64")}),
    ],
)
def test_ids_in_any_array_of_pandas_stay_whole_though_one_is_missing(keys):
    assert label_cells(one_by_one(keys)) == [float(BIG), BIG + 1, None]


@pytest.mark.parametrize("unit", ["D", "s", "us", "ns"])
def test_labels_that_are_times_do_not_depend_on_the_unit_of_their_array(unit):
    days = np.array(["2026-11-16", "NaT", "1969-12-31"], f"M8[{unit}]")
    expected = [1_794_787_200e6, None, -86_400e6]
    given = [days, pd.Index(days.astype("M8[ns]"))]
    assert [label_cells(one_by_one(keys)) for keys in given] == [expected, expected]


@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
@pytest.mark.parametrize("odd", [["x"], [1, 2], [None], 5, None, "x", [[1]]])
def test_labels_in_a_column_are_read_one_by_one(odd):
    column = [[0], [1], [1], [0]]
    read = label_cells(one_by_one([*column, odd]))
    assert read[:4] == [0.0, 1.0, 1.0, 0.0]
    assert label_cells(one_by_one(one_by_one([*column, odd]))) == read
    with pytest.raises(ValueError, match="y should be a 1d array"):
        one_by_one([[0, 1], [1, 1], [1, 0]])


def test_times_that_pandas_cannot_join_or_hold_are_joined_and_read():
    """`update` joins frames, and pandas looks for a type that holds both columns."""
    pa = pytest.importorskip("pyarrow")
    base = pd.DataFrame({"when": np.array([1, 2], "M8[ns]"), "took": np.array([1, 2], "m8[ns]"), "kind": ["a", "b"]})
    base["kind"] = base["kind"].astype("category")
    far = pd.DataFrame({"when": np.array(["30000-01-01"], "M8[s]"), "took": np.array([10**12], "m8[s]"), "kind": [[1]]})
    joined = to_samples(join_rows(base, far))
    clean = to_samples(base)
    assert joined.layout == clean.layout
    assert [joined.key(row) for row in range(2)] == [clean.key(row) for row in range(2)]
    assert joined.columns[1].values[2] == 1e18
    days = pd.Series(pd.arrays.ArrowExtensionArray(pa.array([2**31 - 1, 1], pa.int32()).cast(pa.date32())))
    for split in (Split(), Split(schema={"day": "number", "n": "number"})):
        day = split.samples(pd.DataFrame({"day": days, "n": [1, 2]})).columns[0].values
        assert day.tolist() == [float((2**31 - 1) * 86_400 * 10**6), 86_400e6]


def test_whole_numbers_of_arrow_are_names_where_a_schema_says_category():
    pa = pytest.importorskip("pyarrow")
    split = Split(schema={"id": "category", "n": "number"})
    for dtype in (pa.int64(), pa.uint64()):
        table = pa.table({"id": pa.array([BIG, BIG + 1, None], dtype), "n": [1, 2, 3]})
        assert split.samples(table).columns[0].values.tolist() == [str(BIG), str(BIG + 1), None]


@pytest.mark.parametrize(
    "labels",
    [
        ["b", "a", "b", ""],
        [1, True, 0, False, 2**53, 2**53 + 1, None],
        ["1", 1, None, "1"],
        [1.0, 1, float("nan"), float("nan"), -0.0, 0],
        [np.float64(1), 1, np.str_("a"), "a", Decimal("1.5"), 1.5],
        [["a"], "b", ("c",), np.array(["d"])],
        [],
    ],
    ids=["texts", "whole numbers", "both", "floats", "other types", "rows of one", "none"],
)
def test_labels_read_once_each_are_what_they_are_one_by_one(labels):
    alone = [label_cells(one_by_one([label]))[0] for label in labels]
    assert [(type(cell), cell) for cell in label_cells(one_by_one(labels))] == [(type(cell), cell) for cell in alone]


def test_an_array_that_somebody_wrote_into_has_another_digest():
    """Its numbers are the caller's own, so no digest of them is remembered; the columns of a table are copies."""
    numbers = np.arange(6.0).reshape(3, 2)
    samples, table = to_samples(numbers), to_samples(pd.DataFrame(numbers, copy=False))
    before = digest_of(samples), digest_of(table)
    numbers[0, 0] = 9
    assert digest_of(samples) == digest_of(to_samples(numbers)) != before[0]
    assert table.columns[0].numbers[0] == 0
    assert digest_of(table) == before[1]


# Classes that are read off labels


@pytest.mark.parametrize(
    ("labels", "named"),
    [
        (["0", "1", "1"], ["0", "1"]),
        ([0, 1, 3.0], [0, 1, 3.0]),
        (["10", "2", "a", "1"], ["1", "2", "10", "a"]),
        ([1, "1", "1"], ["1"]),
        ([1, "1", 1.0, 1.0], [1.0]),
        (["1.0", "1"], ["1"]),  # of two spellings that are used alike, the first in the order of texts
        ([True, 1, False, 0], [0, 1, False, True]),
        ([np.float64(-0.0), "0", 2], ["0", 2]),
        (["x" * 1001, "a", None, "b"], ["a", "b"]),
        ([10**400, 1], [1, 10**400]),
    ],
)
def test_inferred_classes_have_the_spelling_that_most_use_whatever_comes_first(labels, named):
    for order in (labels, labels[::-1]):
        classes = read_labels(order).classes.tolist()
        assert list(map(repr, classes)) == list(map(repr, named))


def test_a_contributor_has_one_vote_on_classes_and_their_names():
    labels = [*["1"] * 3, *["1.0"] * 50, *(f"L{i}" for i in range(70_000)), "2", "2"]
    units = [*"abc", *["evil"] * 70_050, "d", "e"]
    read = read_labels(labels, None, units)
    assert len(read.classes) == 1000
    assert read.classes[:2].tolist() == ["1", "2"]
    assert read.classes.dtype == object
    assert read_labels(labels).classes[0] == "1.0"
    honest = [row for row, unit in enumerate(units) if unit != "evil"]
    assert (read.codes[honest] == [0, 0, 0, 1, 1]).all()
    assert read_labels(["a", "b", "c"], None, ["u", None, "v"]).classes.tolist() == ["a", "c"]


def test_one_long_label_widens_no_array():
    classes = read_labels(["0", "1", "x" * 1000] * 3).classes
    assert classes.nbytes == 24
    assert class_array(["a", "b" * 4_000_000]).nbytes == 16


@pytest.mark.parametrize(
    "classes", [[1, "1"], [1, 1.0], ["True", True], ["a\ud800", "a\udfff"], [None, 1], ["x" * 1001, "a"], [[1], [2]]]
)
def test_declared_classes_that_collide_or_are_no_labels_are_refused(classes):
    with pytest.raises(PoisonproofError):
        read_labels([1, "a"], classes)
    with pytest.raises(PoisonproofError):
        read_labels([], range(65_536))
    assert len(read_labels([], range(65_535)).classes) == 65_535


@pytest.mark.parametrize("declared", [["0", "1"], [0, 1], [0.0, 1.0], [1, "0"]])
def test_declared_classes_keep_their_type(declared):
    read = read_labels([0, "1", "1.0", 0.0, "odd", True], declared)
    assert sorted(map(repr, read.classes.tolist())) == sorted(map(repr, declared))
    assert read.codes.tolist() == [0, 1, 1, 0, -1, -1]


def test_a_target_of_a_regression_is_refused_and_ratings_are_not():
    with pytest.raises(ValueError, match="continuous"):
        read_labels([i + 0.5 for i in range(20)])
    assert len(read_labels([0.5, 1.5, 2.5] * 5).classes) == 3
    assert len(read_labels([*(i + 0.5 for i in range(20)), 1]).classes) == 21  # a row that is none makes them classes

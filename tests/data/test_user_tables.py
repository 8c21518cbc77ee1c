"""A user's tables: one bad row changes how no other row is read, and moves the votes of its own subsets only."""

import gzip
import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import row_by_row as slow
from poisonproof import FiniteAggregationClassifier, Split
from poisonproof.data.arrow_files import ParquetTable
from poisonproof.data.csv import CsvTable
from poisonproof.data.dataset import ReadReport, held_out
from poisonproof.data.files import LONGEST_LINE
from poisonproof.data.guessing import guess_schema
from poisonproof.data.options import ReadOptions
from poisonproof.data.reading import open_files
from poisonproof.data.tables import read_table
from poisonproof.estimators.prepared import prepare_dataset
from poisonproof.learners.presets import learner_for, preset
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.run import run
from poisonproof.samples.cells import number_in
from poisonproof.samples.convert import to_samples
from poisonproof.samples.schema import (
    TableSchema,
    read_schema,
    schema_from_dict,
)
from tables import wine_rows, write_csv

NAMES, ROWS = wine_rows()
BASE = [",".join(row).encode() for row in ROWS]
HEADER = ",".join(NAMES).encode()
CLASSES = ("a", "b", "c")


def write_lines(path, lines, header=HEADER):
    path.write_bytes(b"\n".join([header, *lines]) + b"\n")
    return path


def cell(**cells):
    """A line like the first, with other cells."""
    return ",".join(cells.get(name.replace(" ", "_"), old) for name, old in zip(NAMES, ROWS[0], strict=True)).encode()


def contents(X, labels):
    """The samples and labels as a multiset that depends on nothing but their values."""
    samples = to_samples(X)
    return Counter((samples.key(row), labels[row]) for row in range(len(samples)))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Training lines, and a test file that stays as it is."""
    folder = tmp_path_factory.mktemp("wine")
    write_lines(folder / "test.csv", BASE[::4])
    return folder


TRAINING = [line for at, line in enumerate(BASE) if at % 4]


def opened(place, lines, **how):
    path = write_lines(place / "train.csv", lines)
    how = {"label": "class", "test": place / "test.csv", "classes": CLASSES, **how}
    return open_files(path, ReadOptions(**how))


def votes_of(dataset, folder, k=6, d=3):
    name, _, texts = learner_for(dataset.schema)
    split = Split("content" if dataset.train.groups is None else "group", n_features=dataset.n_features)
    model = FiniteAggregationClassifier(preset(name, texts), k=k, d=d, split=split, classes=CLASSES)
    run(dataset, model, folder, RunSettings(votes_only=True))
    return np.load(folder / "votes.npy"), prepare_dataset(model, dataset)


@pytest.fixture(scope="module")
def clean(place, tmp_path_factory):
    dataset = opened(place, TRAINING)
    return dataset, *votes_of(dataset, tmp_path_factory.mktemp("clean"))


POISONS = {
    "a cell that is no number": (cell(alcohol="twelve"), 1),
    "a new category": (cell(shade="purple"), 1),
    "a new label": (cell(**{"class": "zebra"}), 1),
    "a label in quotes": (cell(**{"class": '"a"'}), 1),
    "an open quote": (b'"' + cell(), 0),
    "a quote at the end": (cell() + b'"', 1),  # of a cell that does not begin with one
    "more after a quote": (cell(shade='"dark"er'), 0),
    "too few cells": (b"1,2,3", 0),
    "too many cells": (cell() + b",1", 0),
    "bytes that are not UTF-8": (cell(shade="§").replace("§".encode(), b"\xff\xfe"), 1),
    "NUL": (cell(shade="da\0rk"), 0),
    "huge": (cell(alcohol="1e308", ash="-1e308"), 1),
    "beyond float": (cell(alcohol="1e999"), 1),
    "NaN in words": (cell(alcohol="NaN", ash="-nan"), 1),
    "infinity": (cell(alcohol="inf"), 1),
    "minus zero": (cell(alcohol="-0.0"), 1),
    "zero": (cell(alcohol="0"), 1),
    "digits of another script": (cell(alcohol="١٢"), 1),
    "no label": (cell(**{"class": ""}), 0),
    "a duplicate": (cell(), 1),
    "a blank line": (b"   ", 0),
    "a carriage return inside": (cell(shade="da\rk"), 0),
    "the header again": (HEADER, 1),
    "all missing": (b"?,?,?,?,?,?,?,?,a", 1),
    "a very long line": (b"1," * (LONGEST_LINE // 2 + 9), 0),
}


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
@pytest.mark.parametrize("what", POISONS)
def test_one_poisoned_line_reaches_its_own_subsets_only(place, clean, tmp_path, what):
    """Wherever it is inserted, every other line is read as before, and at most d base classifiers vote otherwise."""
    line, read = POISONS[what]
    dataset, expected, ensemble = clean
    before = contents(dataset.train.X, dataset.train.labels)
    for at in (0, len(TRAINING) // 2, len(TRAINING)):
        poisoned = opened(place, [*TRAINING[:at], line, *TRAINING[at:]])
        after = contents(poisoned.train.X, poisoned.train.labels)
        assert not before - after
        assert (after - before).total() == read
        assert poisoned.schema == dataset.schema
        assert contents(poisoned.test.X, poisoned.test.labels) == contents(dataset.test.X, dataset.test.labels)
    votes, _ = votes_of(poisoned, tmp_path)
    moved = np.flatnonzero((votes != expected).any(axis=0))
    if read:
        extra = to_samples(poisoned.train.X).subset([len(TRAINING)])
        partition = int(ensemble.split.partitions(extra, ensemble.spread.n_partitions)[0])
        assert set(moved) <= set(ensemble.spread.subsets_of(partition))
    else:
        assert len(moved) == 0


def test_poison_does_move_votes_where_it_may(place, clean, tmp_path):
    """Otherwise the test above could not fail."""
    _, expected, _ = clean
    lines = [cell(alcohol=str(11 + i / 10), **{"class": "c"}) for i in range(20)]
    votes, _ = votes_of(opened(place, [*TRAINING, *lines]), tmp_path)
    assert (votes != expected).any()


@settings(max_examples=150)
@given(st.binary(max_size=60).filter(lambda line: b"\n" not in line), st.integers(0, 40))
def test_no_line_of_any_bytes_changes_how_another_is_read(tmp_path_factory, line, at):
    folder = tmp_path_factory.getbasetemp()
    schema = TableSchema(tuple(zip(NAMES, ["number"] * 6 + ["category", "ignore", "label"], strict=True)))
    some = BASE[:40]
    one, two = (
        read_table(CsvTable(write_lines(folder / "fuzz.csv", lines)), schema, labelled=True)
        for lines in (some, [*some[:at], line, *some[at:]])
    )
    before, after = contents(one.X, one.labels), contents(two.X, two.labels)
    assert not before - after
    assert (after - before).total() <= 1


def test_the_hold_out_moves_nothing_when_a_line_is_inserted(place):
    clean = opened(place, BASE, test=None, held_out=0.25)
    train, test = contents(clean.train.X, clean.train.labels), contents(clean.test.X, clean.test.labels)
    assert 0.15 < test.total() / len(BASE) < 0.35
    sides = Counter()
    for alcohol in range(12):
        poisoned = opened(place, [cell(alcohol=str(alcohol)), *BASE], test=None, held_out=0.25)
        more_train = contents(poisoned.train.X, poisoned.train.labels) - train
        more_test = contents(poisoned.test.X, poisoned.test.labels) - test
        assert more_train.total() + more_test.total() == 1
        sides["test" if more_test else "train"] += 1
    assert set(sides) == {"train", "test"}
    with pytest.raises(ValueError, match="must lie between 0 and 1"):
        opened(place, BASE, test=None, held_out=1.5)


def test_one_contributor_reaches_d_base_classifiers(place, tmp_path):
    how = {"group_column": "maker"}
    dataset = opened(place, TRAINING, **how)
    assert "maker" not in dataset.train.X.columns
    assert dataset.digests()["groups"] != opened(place, TRAINING[::-1], **how).digests()["groups"]
    expected, ensemble = votes_of(dataset, tmp_path / "clean")
    assert ensemble.split.kind == "group"
    maker = dataset.train.groups[0]
    place_of = NAMES.index("maker")
    lines = []
    for line in TRAINING:
        cells = line.decode().split(",")
        if cells[place_of] == maker:
            lines += [",".join(["99", "1e9", *cells[2:-1], "c"]).encode()] * 4
        else:
            lines.append(line)
    votes, _ = votes_of(opened(place, lines, **how), tmp_path / "poisoned")
    moved = np.flatnonzero((votes != expected).any(axis=0))
    own = to_samples(dataset.train.X).subset([0])
    partition = int(ensemble.split.partitions(own, ensemble.spread.n_partitions, groups=[maker])[0])
    assert 0 < len(moved) <= ensemble.spread.d
    assert set(moved) <= set(ensemble.spread.subsets_of(partition))
    held = opened(place, BASE, test=None, held_out=0.3, **how)
    names = [line.decode().split(",")[place_of] for line in BASE]
    aside = dict(zip(names, held_out(None, 0.3, groups=names), strict=True))
    assert not any(aside[name] for name in held.train.groups)
    assert len(held.test) == sum(aside[name] for name in names)


@pytest.mark.parametrize("suffix", ["csv.gz", "parquet"])
def test_other_formats_of_a_table_are_read_as_the_same_samples(place, clean, suffix):
    path = place / f"same.{suffix}"
    if suffix == "csv.gz":
        path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + b"\r\n".join([HEADER, *TRAINING])))
    else:
        frame = pd.DataFrame([line.decode().split(",") for line in TRAINING], columns=NAMES)
        for name in NAMES[:6]:
            frame[name] = pd.to_numeric(frame[name].replace({"": None, "NA": None, "?": None}))
        frame["shade"] = frame["shade"].astype("category")
        frame.to_parquet(path)
    same = open_files(path, ReadOptions(label="class", test=place / "test.csv", classes=CLASSES))
    assert same.digests() == clean[0].digests()
    assert same.schema == clean[0].schema


def test_parquet_cells_are_written_out_in_full(tmp_path):
    moment = pd.Timestamp("2024-05-06 07:08:09.123456")
    frame = pd.DataFrame(
        {
            "whole": pd.array([2**60 + 1, None], "Int64"),
            "real": [0.1 + 0.2, float("inf")],
            "flag": [True, False],
            "when": [moment, pd.NaT],
            "odd": [[1], [2]],
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    table = ParquetTable(tmp_path / "t.parquet")
    assert table.header == ["whole", "real", "flag", "when"]
    roles = tuple((name, "number") for name in table.header)
    read_table(table, TableSchema(roles), labelled=False, report=(report := ReadReport()))
    assert report.ignored == {"odd": "lists or raw bytes"}
    assert report.sentences()[-1] == "t.parquet: columns of lists or raw bytes are ignored: odd"
    (one, first), (two, second) = slow.records_of(table, ReadReport())
    assert (one, two) == (1, 2)
    assert first == ["1152921504606846977", repr(0.1 + 0.2), "True", str(moment)]
    assert second == ["", "", "False", ""]


def test_cells_that_are_not_utf8_in_parquet_cost_their_own_cell_only(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    raw = pa.array([b"fine", b"\xff\xfe", "ä".encode()], pa.binary())
    column = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    pq.write_table(pa.table({"a": column}), tmp_path / "t.parquet")
    report = ReadReport()
    assert [cells for _, cells in slow.records_of(ParquetTable(tmp_path / "t.parquet"), report)] == [
        ["fine"],
        ["ÿþ"],
        ["ä"],
    ]
    assert report.count("cell.not-utf-8") == (1, None)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1.0),
        ("-.5e3", -500.0),
        ("+7.", 7.0),
        ("1_000", None),
        ("١", None),
        ("inf", None),
        ("nan", None),
        ("1e999", None),
        ("0x10", None),
        ("1,5", None),
        ("", None),
    ],
)
def test_numbers_are_plain(text, number):
    assert number_in(text) == number


def test_schemas_are_guessed_by_what_most_cells_are(tmp_path):
    rows = [
        [
            str(i),
            f"{i}.5" if i % 20 else "oops",
            "red" if i % 2 else "blue",
            f"id-{i}",
            f"word {i} of a text",
            "",
            "yn"[i % 2],
        ]
        for i in range(60)
    ]
    path = write_csv(tmp_path / "t.csv", ["", "x", "colour", "id", "note", "nothing", "y"], rows)
    roles = dict(guess_schema(CsvTable(path), "y", None).columns)
    assert roles == {
        "": "ignore",
        "x": "number",
        "colour": "category",
        "id": "ignore",
        "note": "text",
        "nothing": "ignore",
        "y": "label",
    }
    dataset = open_files(path, ReadOptions(label="y"))
    assert any("3 cells of 'x' are not numbers and count as missing" in note for note in dataset.notes)
    assert next(str(p) for p in dataset.premises if p.code == "schema").endswith("(chosen from this data)")
    assert list(dataset.train.X.columns) == ["x", "colour", "note"]


def test_a_schema_is_written_edited_and_given_again(place, tmp_path):
    dataset = opened(place, TRAINING)
    votes_of(dataset, tmp_path / "run")
    record = json.loads((tmp_path / "run" / "schema.json").read_text())
    assert read_schema(tmp_path / "run" / "schema.json") == dataset.schema
    record["columns"]["maker"] = "ignore"
    record["columns"] = dict(reversed(record["columns"].items()))
    record["missing"].append("14.2")
    (tmp_path / "mine.json").write_text(json.dumps(record))
    again = opened(place, TRAINING, label=None, schema=tmp_path / "mine.json")
    assert list(again.train.X.columns) == [name for name in reversed(NAMES) if name not in ("maker", "class")]
    assert not (again.train.X["alcohol"] == 14.2).any()
    assert (dataset.train.X["alcohol"] == 14.2).any()
    assert all(premise.declared for premise in again.premises)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "else"}, "must be an object with"),
        ({"kind": "cats"}, "its kind must be table, images, sparse or arrays"),
        ({"columns": {"x": "numbre"}}, "has the role 'numbre' in the schema; a role is number, category"),
        ({"columns": {"x": "label", "y": "label"}}, "2 columns of the role 'label'"),
        ({"columns": ["x"]}, "must be an object of names and roles"),
        ({"missing": "NA"}, '"missing" must be a list'),
        ({"delimiter": ";;"}, "A delimiter is one character"),
    ],
)
def test_a_wrong_schema_says_what_is_wrong(change, message):
    record = {"format": "poisonproof schema 2", "kind": "table", "columns": {"x": "number", "y": "label"}, **change}
    with pytest.raises(ValueError, match=message):
        schema_from_dict(record)


def test_texts_alone_and_among_other_columns(tmp_path):
    """The learner for texts tells them apart, alone and in a table, and one more line reaches its subsets only."""
    rng = np.random.default_rng(0)
    warm, cold = ["sun", "sand", "beach", "swim", "summer"], ["snow", "ice", "skate", "winter", "frost"]
    lines = []
    for i in range(160):
        words = " ".join([*rng.choice(warm if i % 2 else cold, 3), *rng.choice(warm + cold, 2)])
        lines.append(f"{words},{rng.normal():.3f},{'hot' if i % 2 else 'cold'}".encode())
    lines[5] = b",0.1,hot"
    for header, columns in ((b"note,x,y", ["note", "x"]), (b"note,unused,y", ["note"])):
        record = {"note": "text", "x": "number", "unused": "ignore", "y": "label"}
        roles = {name: role for name, role in record.items() if name.encode() in header.split(b",")}
        schema = {"format": "poisonproof schema 2", "kind": "table", "columns": roles}
        (tmp_path / "s.json").write_text(json.dumps(schema))
        matrices = []
        for name, some in (("clean", lines), ("poisoned", [*lines[:80], b"sun sun sun snow,1e308,cold", *lines[80:]])):
            write_lines(tmp_path / "t.csv", some, header)
            write_lines(tmp_path / "test.csv", lines[:40], header)
            how = ReadOptions(schema=tmp_path / "s.json", test=tmp_path / "test.csv", classes=("hot", "cold"))
            dataset = open_files(tmp_path / "t.csv", how)
            assert dataset.schema.named("text", "number") == columns
            learner, _, texts = learner_for(dataset.schema)
            assert learner == ("auto" if len(columns) == 1 else "text")
            split = Split(n_features=dataset.n_features)
            model = FiniteAggregationClassifier(preset("text", texts), k=4, d=2, split=split, classes=("hot", "cold"))
            folder = tmp_path / f"{name}-{len(columns)}"
            outcome = run(dataset, model, folder)
            matrices.append(np.load(folder / "votes.npy"))
            assert outcome.certificate.evaluate(dataset.test.labels).clean_accuracy > 0.85
        served = FiniteAggregationClassifier.load(folder / "models")
        assert (served.votes(dataset.test.X).matrix == matrices[1]).all()
        one_by_one = [served.votes(to_rows(dataset.test.X, at)).matrix[0] for at in range(8)]
        assert (np.array(one_by_one) == matrices[1][:8]).all()
        moved = np.flatnonzero((matrices[0] != matrices[1]).any(axis=0))
        extra = to_samples(dataset.train.X).subset([80])
        partition = int(split.partitions(extra, served.spread_.n_partitions)[0])
        assert set(moved) <= set(served.spread_.subsets_of(partition))


def to_rows(X, at):
    return X.iloc[[at]] if hasattr(X, "iloc") else X[at : at + 1]


def test_bombs_and_damage_are_refused(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"x,y\n" + (b"1," + b" " * 4000 + b"a\n") * 20_000, 1))
    with pytest.raises(ValueError, match=r"expands to more than 67\.1 MB, which is refused unless --max-size"):
        open_files(path, ReadOptions(label="y"))
    path.write_bytes(gzip.compress(b"x,y\n" + b"1,a\n" * 50)[:-9])
    with pytest.raises(ValueError, match="not a whole gzip file"):
        open_files(path, ReadOptions(label="y"))
    write_lines(tmp_path / "t.csv", TRAINING)
    with pytest.raises(ValueError, match=r"of which at most 1 kB are read unless --max-size .* of memory"):
        open_files(tmp_path / "t.csv", ReadOptions(label="class", most_bytes=1000))
    (tmp_path / "t.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(ValueError, match="is not a whole Parquet file"):
        open_files(tmp_path / "t.parquet", ReadOptions(label="class"))
    pd.DataFrame({"x": np.zeros(10**6), "y": "a"}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="unless --max-size"):
        open_files(tmp_path / "t.parquet", ReadOptions(label="y", most_bytes=10**6))

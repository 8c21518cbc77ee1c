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
from poisonproof import FiniteAggregationClassifier
from poisonproof.data.arrow_files import ParquetTable
from poisonproof.data.csv import CsvTable
from poisonproof.data.dataset import ReadReport
from poisonproof.data.guessing import guess_schema
from poisonproof.data.options import ReadOptions
from poisonproof.data.reading import open_files
from poisonproof.data.tables import read_table
from poisonproof.learners.presets import preset
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.run import run
from poisonproof.samples.cells import number_in
from poisonproof.samples.convert import to_samples
from poisonproof.samples.schema import (
    TableSchema,
    read_schema,
    schema_from_dict,
)
from refused import refused
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


@pytest.mark.parametrize("suffix", ["csv.gz", "parquet"])
def test_other_formats_of_a_table_are_read_as_the_same_samples(place, suffix):
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
    clean = opened(place, TRAINING)
    assert same.digests() == clean.digests()
    assert same.schema == clean.schema
    with refused("data.held-out"):
        opened(place, TRAINING, test=None, held_out=1.5)


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
    run(dataset, FiniteAggregationClassifier(preset("table"), k=6, d=3), tmp_path / "run", RunSettings(votes_only=True))
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


def test_bombs_and_damage_are_refused(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"x,y\n" + (b"1," + b" " * 4000 + b"a\n") * 20_000, 1))
    with refused("data.too-large"):
        open_files(path, ReadOptions(label="y"))
    path.write_bytes(gzip.compress(b"x,y\n" + b"1,a\n" * 50)[:-9])
    with refused("file.damaged"):
        open_files(path, ReadOptions(label="y"))
    write_lines(tmp_path / "t.csv", TRAINING)
    with refused("data.too-large"):
        open_files(tmp_path / "t.csv", ReadOptions(label="class", most_bytes=1000))
    (tmp_path / "t.parquet").write_bytes(b"PAR1 nothing PAR1")
    with refused("file.damaged"):
        open_files(tmp_path / "t.parquet", ReadOptions(label="class"))
    pd.DataFrame({"x": np.zeros(10**6), "y": "a"}).to_parquet(tmp_path / "t.parquet")
    with refused("data.too-large"):
        open_files(tmp_path / "t.parquet", ReadOptions(label="y", most_bytes=10**6))

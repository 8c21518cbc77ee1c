"""Tables read by column are the tables read row by row: CSV as texts, Parquet typed from the file to the samples."""

import csv
import datetime
from collections import Counter
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import row_by_row as slow
from poisonproof import Split, read
from poisonproof.data.arrow_files import ParquetTable
from poisonproof.data.csv import CsvTable
from poisonproof.data.dataset import LEFT_OUT, ReadReport
from poisonproof.data.guessing import guess_schema
from poisonproof.data.tables import read_table
from poisonproof.samples.convert import digest_of, to_samples
from poisonproof.samples.schema import MISSING, TableSchema

N = 120
BIG = 2**60
WORDS = (*MISSING, "999", "-1", "0.5", "7.0", "1e+16", str(BIG + 1), "1", " 3")
CELLS = [
    "", "NA", "7", " 7 ", "7.0", "-0", "0.5", "1e5", "1e400", "inf", "nan", "NAN", "1_000", "٣", "x", "ä", "999", "?",
    "-1", "True", "0x10", "1e+16", str(BIG + 1), "+5", ".5", "5.", "1,5",
]  # fmt: skip


def odd_parquet(path, seed):
    rng = np.random.default_rng(seed)

    def some(values, kind=None):
        chosen = [None if rng.random() < 0.1 else values[rng.integers(len(values))] for _ in range(N)]
        return pa.array(chosen, kind)

    raw = pa.array([b"caf\xe9" if rng.random() < 0.1 else "café".encode() for _ in range(N)], pa.binary())
    latin = pa.Array.from_buffers(pa.string(), N, raw.buffers())
    table = pa.table(
        {
            "whole": some([BIG, BIG + 1, -1, 0, 999, 7], pa.int64()),
            "small": some([-1, 0, 5, 99], pa.int8()),
            "unsigned": some([2**64 - 1, 2**63, 999], pa.uint64()),
            "real": some([0.5, -0.0, 7.0, 1e16, np.nan, np.inf, -np.inf, 1 / 3, 999.0], pa.float64()),
            "single": some([0.1, 0.5, 1e30], pa.float32()),
            "flag": some([True, False]),
            "text": some(CELLS),
            "long": some(CELLS, pa.large_string()),
            "category": some(["a", "b", " a", "NA"]).dictionary_encode(),
            "numbered": some([3, 4, 999]).dictionary_encode(),
            "latin": latin,
            "when": some([0, 1_000_003, -1, -1_000_003], pa.timestamp("ns", "Europe/Rome")),
            "far": some([2**62, -(2**62), 5], pa.timestamp("ms")),
            "seconds": some([-1, 999, 10**9], pa.timestamp("s")),
            "took": some([-1, 999], pa.duration("us")),
            "day": some([datetime.date(2026, 11, 17), datetime.date(1969, 1, 1)]),
            "price": some([Decimal("0.10"), Decimal("999.00"), Decimal(2**60)], pa.decimal128(38, 2)),
            "nothing": pa.nulls(N),
            "who": some(["u1", "u2", " ", "u3"]),
            "label": some(["yes", " no ", "NA"]),
        }
    )
    pq.write_table(table, path, row_group_size=50)
    return table.column_names


def assert_same(part, report, reference, faults, schema):
    assert list(part.names) == reference["rows"]
    odd = {at.column: count for at, (count, _) in report.found.items() if at.code == "cell.not-a-number"}
    assert odd == +reference["odd"]
    assert part.labels.tolist() == reference["columns"][schema.label]
    assert part.groups.tolist() == reference["columns"][schema.group]
    for name, role in schema.columns:
        if role in ("label", "group", "ignore"):
            continue
        expected, column = reference["columns"][name], part.X[name]
        if role == "number":
            assert column.to_numpy().tobytes() == np.array(expected, np.float64).tobytes(), name
        else:
            cells = [None if cell is None or cell != cell else cell for cell in column]
            assert cells == expected, name
    for at, (count, _) in report.found.items():
        if at.code in LEFT_OUT:
            assert count == faults[at.code], at
    expected = pd.DataFrame(
        {
            name: np.array(reference["columns"][name], np.float64)
            if role == "number"
            else pd.Categorical(reference["columns"][name])
            if role == "category"
            else pd.Series([np.nan if cell is None else cell for cell in reference["columns"][name]], dtype=object)
            for name, role in schema.columns
            if role in ("number", "category", "text")
        }
    )
    pd.testing.assert_frame_equal(part.X, expected, check_dtype=False)  # of texts that are all missing
    assert_columns_are_those_of_the_frame(part, expected)


def assert_columns_are_those_of_the_frame(part, frame):
    """The reader makes columns of samples by itself; the slow way is by the DataFrame, which anybody could bring."""
    samples, reference = part.samples, to_samples(frame)
    assert samples.layout == reference.layout
    assert digest_of(samples) == digest_of(reference)
    assert samples.hashes().tobytes() == reference.hashes().tobytes()
    assert samples.form_of(np.arange(len(samples))) == reference.form_of(np.arange(len(reference)))
    assert samples.oddities == reference.oddities == ()
    for ours, theirs in zip(samples.columns, reference.columns, strict=True):
        assert (ours.name, ours.numeric) == (theirs.name, theirs.numeric)
        assert ours._kept.dtype == theirs._kept.dtype
        assert ours._kept.tobytes() == theirs._kept.tobytes()
        assert ours.cells.values.tolist() == theirs.cells.values.tolist()


def roles_for(names, rng):
    keys = {"label": "label", "who": "group"}
    roles = {name: keys.get(name, ("number", "category", "text", "ignore")[rng.integers(4)]) for name in names}
    return tuple({**roles, "text": "category"}.items())


@pytest.mark.parametrize("seed", range(6))
def test_parquet_typed_is_parquet_written_out(tmp_path, seed):
    path, rng = tmp_path / "odd.parquet", np.random.default_rng(seed)
    names = odd_parquet(path, seed)
    schema = TableSchema(roles_for(names, rng), MISSING if seed % 2 else WORDS[seed:])
    report, faults = ReadReport(), Counter()
    part = read_table(ParquetTable(path), schema, labelled=True, report=report)
    reference = slow.read(names, slow.parquet_records(path, faults), schema, faults)
    assert_same(part, report, reference, faults, schema)
    written = list(slow.records_of(ParquetTable(path), seen := ReadReport()))
    assert written == list(slow.parquet_records(path, again := Counter()))
    assert seen.count("cell.not-utf-8")[0] == again["cell.not-utf-8"]


@pytest.mark.parametrize("seed", range(4))
def test_csv_by_column_is_csv_by_row(tmp_path, seed, monkeypatch):
    rng, path = np.random.default_rng(seed), tmp_path / "odd.csv"
    names = ["a", "b", "text", "plain", "who", "label"]
    lines = [";".join(names)]
    for _ in range(N):
        cells = [CELLS[rng.integers(len(CELLS))] for _ in range(3)]
        who, label = ["u1", "", "u2"][rng.integers(3)], ["yes", "no", "?"][rng.integers(3)]
        lines.append(";".join([*cells, str(rng.normal()), who, label]))
    path.write_text("\n".join(lines) + "\n")
    schema = TableSchema(roles_for(names, rng), MISSING if seed % 2 else WORDS[seed:], ";", decimal=",."[seed % 2])
    monkeypatch.setattr("poisonproof.data.csv.BLOCK", 150)
    report, faults, table = ReadReport(), Counter(), CsvTable(path, ";")
    part = read_table(table, schema, labelled=True, report=report)
    reference = slow.read(names, slow.records_of(table, seen := ReadReport()), schema, faults)
    assert_same(
        part, report, reference, faults + Counter({at.code: count for at, (count, _) in seen.found.items()}), schema
    )


def test_the_same_rows_are_the_same_samples_from_every_file_and_library(tmp_path):
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "a": pa.array([None if i % 9 == 0 else float(v) for i, v in enumerate(rng.normal(size=N))]),
            "n": pa.array([int(v) for v in rng.integers(0, 99, N)]),
            "city": pa.array([("Rome", "Oslo", None)[i % 3] for i in range(N)]),
            "label": pa.array([("yes", "no")[i % 2] for i in range(N)]),
        }
    )
    pq.write_table(table, tmp_path / "rows.parquet")
    table.to_pandas().to_csv(tmp_path / "rows.csv", index=False)
    roles = {"a": "number", "n": "number", "city": "category", "label": "label"}
    digests = {
        digest_of(read(tmp_path / f"rows.{kind}", schema=roles, held_out=0).train.samples)
        for kind in ("parquet", "csv")
    }
    features = table.drop_columns(["label"])
    frames = [features, features.to_pandas(), features.to_pandas(types_mapper=pd.ArrowDtype)]
    split = Split(schema={name: role for name, role in roles.items() if role != "label"})
    for frame in (*frames, pytest.importorskip("polars").from_arrow(features)):
        digests.add(digest_of(split.samples(frame)))
    assert len(digests) == 1


def test_a_schema_is_guessed_from_types_as_from_texts(tmp_path):
    odd_parquet(tmp_path / "odd.parquet", 3)
    table = ParquetTable(tmp_path / "odd.parquet")

    rows = [table.header, *(cells for _, cells in slow.records_of(table, ReadReport()))]
    with (tmp_path / "odd.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    guessed = guess_schema(table, "label", "who", "\t")
    assert guessed.columns == guess_schema(CsvTable(tmp_path / "odd.csv"), "label", "who", ",").columns
    assert guessed.named("number")
    assert "nothing" in guessed.named("ignore")

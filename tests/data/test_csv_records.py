"""CSV in records of RFC 4180: one record is one row, whatever its cells hold; with ``lines``, every line is a row."""

import csv
import gzip
import io
import json
import os
import random
import time
import tracemalloc
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import row_by_row as slow
from poisonproof.cli.main import app
from poisonproof.data import csv as csvfile
from poisonproof.data import csv_kernels, files
from poisonproof.data.csv import CsvTable, TextCells, numbers_in
from poisonproof.data.dataset import SPANS_LINES, ReadReport
from poisonproof.data.options import ReadOptions
from poisonproof.data.out_of_core import Source
from poisonproof.data.reading import RowStream, open_files, read
from poisonproof.errors import PoisonproofError
from poisonproof.samples.schema import MISSING, TableSchema, read_schema, schema_from_dict
from refused import refused
from tests.helpers.premises import in_words

FILES = int(os.environ.get("POISONPROOF_FUZZ", "25")) * 40
KINDS = ("faulty quotes", "number of cells", "carriage return", "NUL", "too long")


def written(rows, delimiter=",", end="\n", quoting=csv.QUOTE_MINIMAL):
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows(rows)
    return file.getvalue().encode()


def in_file(folder, content, suffix=".csv"):
    path = folder / f"table{suffix}"
    path.write_bytes(gzip.compress(content, 1) if suffix.endswith(".gz") else content)
    return path


def rows_of(table):
    """Numbers and cells of all rows, what is left out and why, and what spans lines."""
    report = ReadReport(listed=True)
    rows = list(slow.records_of(table, report))
    left_out = [(line, next(kind for kind in KINDS if kind in why)) for line, why in report.unread]
    count, first = report.count(SPANS_LINES)
    return rows, left_out, (count, first or 0)


# Whatever stands in a file: `csv.reader` reads it so, cut anywhere, in memory, streamed and out of core

CELLS = [
    "a",
    "b c",
    "",
    "1.5",
    "x\ny",
    "\n",
    '"',
    'say "no"',
    "\n1,2,3\n",
    "é",
    "p;q",
    "r\r\ns",
    "t\ru",
    "v" * 70,
    "\0w",
]
JUNK = ['"', '"', '""', "\n", "\n", "\r\n", "\r", "\0", " ", "a", "bc", "x" * 30, "DELIMITER", "DELIMITER", "\xff", "é"]


def random_file(rng):
    """Delimiter, width and content: a header, then records as `csv.writer` writes them, and anything else."""
    delimiter, width = rng.choice([",", ";", "\t", " ", "|", "^"]), rng.randint(1, 4)
    quoting, end = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), rng.choice(["\n", "\r\n"])
    content = b"\xef\xbb\xbf" * (rng.random() < 0.2) + written([["abcd"[at] for at in range(width)]], delimiter, end)
    for _ in range(rng.randint(0, 7)):
        if rng.random() < 0.5:
            cells = [rng.choice(CELLS) for _ in range(width + (rng.random() < 0.1))]
            content += written([cells], delimiter, end, quoting)
        else:
            junk = "".join(rng.choice(JUNK) for _ in range(rng.randint(0, 9))).replace("DELIMITER", delimiter)
            content += junk.encode("latin-1" if "\xff" in junk else "utf-8") + rng.choice([b"", b"\n"])
    return delimiter, width, content


def of_stream(path, delimiter=",", *, lines=False, column="a"):
    schema = TableSchema(((column, "text"),), delimiter=delimiter, lines=lines)
    stream = RowStream(path, schema, ReadOptions(), 3)
    return [(name, cells) for block in stream for name, cells in zip(block.part.names, block.cells, strict=True)]


def out_of_core(path, roles, delimiter=",", *, lines=False):
    """What the pass that sorts rows into partitions is given."""
    schema = TableSchema(tuple(roles.items()), missing=(), delimiter=delimiter, lines=lines)
    reader = Source.of(path, ReadOptions(schema=schema)).reader
    return [part for part, _ in reader.batches(schema, labelled=True, report=ReadReport(), rows=2)]


@pytest.mark.parametrize("lines", [False, True], ids=["records", "lines"])
def test_records_are_those_of_the_csv_module(tmp_path, monkeypatch, lines):
    rng, seen = random.Random(7), Counter()
    for _ in range(FILES):
        delimiter, width, content = random_file(rng)
        longest = rng.choice([20, 60, 10**6])
        path = in_file(tmp_path, content, rng.choice([".csv", ".csv.gz"]))
        rows, left_out, spanning = slow.csv_records(
            content.removeprefix(b"\xef\xbb\xbf"), width, longest, delimiter, by_lines=lines
        )
        monkeypatch.setattr(csvfile, "LONGEST_RECORD", longest)
        for block in (1 << 20, rng.randint(1, 40)):
            monkeypatch.setattr(csvfile, "BLOCK", block)
            got = rows_of(CsvTable(path, delimiter, lines=lines))
            assert got == (rows, left_out, spanning), (content, longest, block)
        assert of_stream(path, delimiter, lines=lines) == rows, content
        if width >= 3:
            texts = [(name, cells[0].strip(), cells[1].strip()) for name, cells in rows]
            parts = out_of_core(path, {"a": "label", "b": "group", "c": "category"}, delimiter, lines=lines)
            assert [r for part in parts for r in zip(part.names, part.labels, part.groups, strict=True)] == texts, (
                content
            )
        seen += Counter(kind for _, kind in left_out) + Counter(rows=len(rows))
    assert all(seen[kind] > FILES / 50 for kind in (*KINDS[lines:], "rows")), seen


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.text('ab,"\n\r é', max_size=6), min_size=2, max_size=2), min_size=1, max_size=6))
def test_what_csv_writer_writes_is_what_pandas_reads(tmp_path_factory, rows):
    rows = [["x" + first, second] for first, second in rows]  # pandas skips rows of blanks
    path = in_file(tmp_path_factory.getbasetemp(), written([["a", "b"], *rows], quoting=csv.QUOTE_ALL))
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    expected = [[cell.replace("\r\n", "\n") for cell in cells] for cells in frame.to_numpy().tolist()]
    assert [cells for _, cells in rows_of(CsvTable(path))[0]] == expected


# A record is one row or none, however many lines it has

INNER = "\n".join(f"{i},inner,x" for i in range(4000))
WHOLE = {  # records whose quotes are well formed, and why they are left out: whole, so that no inner line becomes a row
    "too many cells": (f'1,"{INNER}",x,9\n', "number of cells"),
    "too few cells": (f'1,"{INNER}"\n', "number of cells"),
    "a NUL in a quoted cell": (f'1,"{INNER}\0",x\n', "NUL"),
    "beyond the limit": ('1,"' + "9,inner,x\n" * 500_000 + '",x\n', "too long"),
    "a carriage return outside of quotes": (f'1\r,"{INNER}",x\n', "carriage return"),
}
HONEST = [["1", "one line", "ham"], ["2", "a break\nin it", "spam"], ["3", 'said "no"', "ham"], ["4", "", "spam"]]
HEADER = ["id", "text", "kind"]


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
@pytest.mark.parametrize("what", WHOLE)
def test_a_record_is_left_out_whole(tmp_path, monkeypatch, what, suffix):
    """In memory, streamed and out of core; wherever blocks end."""
    record, fault = WHOLE[what]
    path = in_file(tmp_path, written([HEADER, *HONEST[:2]]) + record.encode() + written(HONEST[2:]), suffix)
    numbers = [2, 3, 5 + record.count("\n"), 6 + record.count("\n")]
    for block in (1 << 20, 5003):
        monkeypatch.setattr(csvfile, "BLOCK", block)
        rows, left_out, spanning = rows_of(CsvTable(path))
        assert rows == list(zip(numbers, HONEST, strict=True))
        assert left_out == [(5, fault)]
        assert spanning == (2, 3)
        assert of_stream(path, column="text") == rows
        roles = {"id": "number", "text": "category", "kind": "label"}
        assert [part.names[at] for part in out_of_core(path, roles) for at in range(len(part))] == numbers


@pytest.mark.parametrize(("end", "fault"), [('",x\n', "too long"), ("", "faulty quotes"), ('w"x\n', "faulty quotes")])
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_a_record_beyond_the_limit_is_not_held(tmp_path, monkeypatch, suffix, end, fault):
    """Not even where its end tells that its quotes are faulty, and reading goes on behind its first line."""
    monkeypatch.setattr(csvfile, "LONGEST_RECORD", 1 << 20)
    monkeypatch.setattr(csvfile, "BLOCK", 1 << 18)
    content = written([HEADER, *HONEST]) + b'9,"' + (b"x" * 1000 + b"\n") * 40_000 + end.encode()
    path = in_file(tmp_path, content, suffix)
    rows_of(CsvTable(in_file(tmp_path, written([HEADER, *HONEST]), suffix.replace(".", "s.", 1))))  # compiled
    tracemalloc.start()
    rows, left_out, _ = rows_of(CsvTable(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [cells for _, cells in rows] == HONEST
    assert left_out[0] == (7, fault)
    assert peak < 15e6


LINE = b"x" * 100
ONE_LONG = {  # a record that nobody can hold, whether lines are rows, and whether the file is read
    "a record of many lines": (b'9,"' + (LINE + b"\n") * 40_000 + b'",x\n', False, True),
    "a record of one line": (b"9," + LINE * 40_000 + b"\n", False, True),
    "one line": (b"9," + LINE * 40_000 + b"\n", True, True),
    "many lines that faulty quotes make rows": (b'9,"' + (LINE + b"\n") * 40_000, False, False),
}


@pytest.mark.parametrize("what", ONE_LONG)
def test_one_long_record_does_not_stop_a_compressed_file(tmp_path, monkeypatch, what):
    """What nobody holds does not count as expanded; lines that are rows after all do."""
    record, lines, read_whole = ONE_LONG[what]
    for limit, size in (("LONGEST_RECORD", 1 << 16), ("BLOCK", 1 << 14)):
        monkeypatch.setattr(csvfile, limit, size)
    monkeypatch.setattr(files, "FREE_EXPANSION", 1 << 18)
    rows = [[cell.replace("\n", " ") for cell in row] for row in (HEADER, *HONEST)]
    table = CsvTable(in_file(tmp_path, written(rows) + record + b"5,six,ham\n", ".csv.gz"), lines=lines)
    if read_whole:
        assert len(rows_of(table)[0]) == len(HONEST) + 1
    else:
        with refused("data.too-large"):
            rows_of(table)


HOSTILE = {
    "a quote, then quotes in every line": b'"\n' + b'a",",,,\n' * 1_000_000,
    "open in every line": b'a,"x\n' * 200_000,
    "faulty far away, again and again": (b'a,"\n' + b"b\n" * 20_000 + b'w"x\n') * 20,
}


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_quotes_take_linear_time(tmp_path, monkeypatch, what, suffix):
    """No byte is read more than twice, but for the beginning of a record that a block cuts: that is read once more.

    Where each reading goes on to the end of the file, 320 kB take 9 seconds, and four times as long per doubling.
    """
    monkeypatch.setattr(csvfile, "LONGEST_RECORD", 1 << 16)
    monkeypatch.setattr(csvfile, "BLOCK", 1 << 15)
    cut, n_read = csv_kernels.cut_records, []
    monkeypatch.setattr(csv_kernels, "cut_records", lambda block, *rest: n_read.append(len(block)) or cut(block, *rest))
    content = b"a,b\n" + HOSTILE[what]
    for part in (1 << 18, 1 << 19, len(content)):
        table = CsvTable(in_file(tmp_path, content[:part], suffix))
        n_read.clear()
        started = time.process_time()
        assert sum(len(piece.rows) for piece in table.raw_batches(["a"], ReadReport())) < 2
        assert sum(n_read) < 3 * part
        assert time.process_time() - started < 5 + 20 * part / len(content)


# What a run says of it


def letters(folder, *more, name="letters.csv"):
    rows = [(f"Dear {i},\nsir, madam {i}\nyours", "ham" if i % 2 else "spam") for i in range(40)]
    (folder / name).write_bytes(written([("text", "kind"), *rows]) + b"".join(more))
    return folder / name


def test_that_rows_are_records_is_a_premise_with_how_many_span_lines(tmp_path):
    path = letters(tmp_path)
    dataset = open_files(path, ReadOptions(label="kind", held_out=0.2))
    assert len(dataset.train) + len(dataset.test) == 40
    premise = next(premise for premise in dataset.premises if premise.code == "rows")
    assert premise.value.startswith("CSV records, written by RFC 4180: cells that hold quotes, delimiters")
    assert premise.value.endswith("; 40 of them span lines, the first on line 2")
    assert premise.declared is None
    declared = open_files(path, ReadOptions(schema=dataset.schema.as_dict()["columns"]))
    assert next(premise for premise in declared.premises if premise.code == "rows").declared
    by_lines = open_files(path, ReadOptions(label="kind", lines=True))
    assert by_lines.schema.lines
    assert "rows" not in {premise.code for premise in by_lines.premises}
    assert "; every line is a row" in str(by_lines.schema)
    assert open_files(path, ReadOptions(schema=by_lines.schema)).schema.lines


def test_faulty_quotes_are_announced_with_the_remedy(tmp_path):
    rows = [(i, "5\nfeet" if i % 2 else "6 feet", "ab"[i % 2]) for i in range(60)]
    path = in_file(tmp_path, written([("n", "size", "kind"), *rows]) + b'8,"5" pipe,a\n')
    words = ["run", path, "--label", "kind", "--k", 2, "--learner", "table", "--no-undefended", "--n-jobs", 1, "--out"]
    done = CliRunner().invoke(app, [*map(str, words), str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    note = "1 rows with faulty quotes (--lines takes such quotes as characters) were left out; the first is line 92"
    assert note in " ".join(done.stderr.split())
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert any(note in said for said in manifest["notes"])
    assert any("30 of them span lines, the first on line 3" in premise for premise in in_words(manifest))
    assert "30 of them span lines, the first on line 3" in (tmp_path / "run" / "report.html").read_text()
    path.write_bytes(path.read_bytes().replace(b"5\nfeet", b"5 feet"))
    done = CliRunner().invoke(app, [*map(str, words), str(tmp_path / "lines"), "--lines"])
    assert done.exit_code == 0, done.output
    assert "faulty quotes" not in done.stderr
    assert read_schema(tmp_path / "lines" / "schema.json").lines


def test_lines_are_unquoted_where_they_are_well_formed_by_themselves(tmp_path):
    path = in_file(tmp_path, b'a,b\n"Smith, John",3\n"5 inch",pipe"\n6" pipe,"x\ny",4\n"9" x,5\n')
    assert [cells for _, cells in rows_of(CsvTable(path, lines=True))[0]] == [
        ["Smith, John", "3"],
        ["5 inch", 'pipe"'],
        ['6" pipe', '"x'],
        ['y"', "4"],
        ['"9" x', "5"],
    ]


def test_a_header_is_a_record(tmp_path):
    table = CsvTable(in_file(tmp_path, b'\n \n"a\nb","c,d"\n1,2\n'))
    assert table.header == ["a\nb", "c,d"]
    assert rows_of(table)[0] == [(5, ["1", "2"])]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b'a,"b\n1,2\n', "has a header with faulty quotes"),
        (b"a,b\r1,2\r", "has a header with a carriage return in a cell without quotes"),
        ("a,b\n1,2\n".encode("utf-16"), "has a header with NUL bytes"),
        (b"a,\xffb\n1,2\n", "is not UTF-8"),
        (b"a,a\n1,2\n", "2 columns named 'a'"),
        (b"a;b\n1;2\n", "try --delimiter ';'"),
    ],
)
def test_headers_that_name_no_columns(tmp_path, content, said):
    with pytest.raises(PoisonproofError, match=said):
        CsvTable(in_file(tmp_path, content))


def test_gzip_files_of_several_members_and_damaged_ones(tmp_path):
    rows = written([HEADER, *HONEST])
    path = tmp_path / "table.CSV.GZ"
    whole = b"".join(gzip.compress(rows[at : at + 7]) + b"\0" * (at % 3) for at in range(0, len(rows), 7))
    path.write_bytes(whole)
    assert [cells for _, cells in rows_of(CsvTable(path))[0]] == HONEST
    for damaged in (b"", whole[:-15], whole[:20] + b"x" + whole[21:], whole + b"more"):
        path.write_bytes(damaged)
        with refused("file.damaged"):
            rows_of(CsvTable(path))


def test_schemas_of_before_are_refused(tmp_path):
    record = {"format": "poisonproof schema 2", "kind": "table", "columns": {"x": "number"}, "quotes": "none"}
    with pytest.raises(PoisonproofError, match="'quotes' is read no more"):
        schema_from_dict(record)


# Numbers


numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.randoms(use_true_random=False).map(lambda draws: repr(draws.gauss(0, 10))),
    st.decimals(allow_nan=False, allow_infinity=False, places=5).map(str),
    st.from_regex(r"\A[+-]?[0-9]{0,18}\.?[0-9]{0,18}([eE][+-]?[0-9]{0,5})?\Z"),
    st.text("0123456789+-.eE_ \tnaif", max_size=9),
    st.sampled_from(["9007199254740993", "999999999999999e22", "1e-22", "1e-23", "123456789012345678901234567890"]),
)


@settings(max_examples=500, deadline=None)
@given(st.lists(numbers, min_size=1, max_size=20), st.sampled_from([MISSING, ("0", "1.5"), ()]), st.sampled_from(",."))
def test_numbers_are_what_python_reads(cells, missing, decimal):
    ends = np.cumsum([len(cell.encode()) + 1 for cell in cells], dtype=np.int32) - np.int32(1)
    starts = np.r_[np.int32(0), ends[:-1] + np.int32(1)]
    column = TextCells("\n".join(cells).encode(), starts, ends)
    values, odd = column.numbers(frozenset(missing), decimal)
    expected, odd_ones = numbers_in(cells, frozenset(missing), decimal)
    assert values.tobytes() == expected.tobytes()
    assert odd.tolist() == odd_ones.tolist()
    codes, texts = column.texts(frozenset(missing))
    one_by_one = [None if cell.strip() in missing else cell.strip() for cell in cells]
    assert [None if code < 0 else texts[code] for code in codes] == one_by_one


def test_decimal_commas(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("x;n;kind\n" + "".join(f"{i},5;{i};{'ab'[i % 2]}\n" for i in range(40)) + "3.5;1;a\n")
    data = read(path, label="kind", delimiter=";", held_out=0)
    assert data.schema.decimal == ","
    assert data.train.X[3].tolist() == [3.5, 3.0]
    assert data.train.X[40, 0] != data.train.X[40, 0]  # 3.5 is no number here, in its own row
    assert "decimal commas" in str(data.schema)


def test_thousands_are_not_fractions(tmp_path):
    path = in_file(tmp_path, written([("x", "n", "kind"), *((f"{i + 1},500", i, "ab"[i % 2]) for i in range(40))]))
    assert read(path, label="kind").schema.decimal == "."


@pytest.mark.parametrize("body", ["", "\n\n"])
def test_a_file_with_nothing_but_a_header_has_no_rows(tmp_path, body):
    path = in_file(tmp_path, b"x,kind\n" + body.encode())
    done = CliRunner().invoke(app, ["run", str(path), "--label", "kind", "--out", str(tmp_path / "run")])
    assert done.exit_code == 2
    assert "has no rows" in " ".join(done.stderr.split())

"""Line breaks inside quotes: read as RFC 4180 has it, and one row costs itself, never another."""

import csv
import io
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from poisonproof.cli import app
from poisonproof.data import ReadOptions, open_files, read
from poisonproof.data.readers.csvfile import CsvTable
from poisonproof.data.readers.quotes import grammar
from poisonproof.errors import PoisonproofError

HEADER = ["id", "text", "kind"]


def written(rows, delimiter=","):
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return file.getvalue().encode()


def table(folder, body, quotes="lines", header=HEADER, suffix=".csv"):
    path = folder / f"table{suffix}"
    path.write_bytes(written([header]) + body)
    return CsvTable(path, quotes=quotes)


def rows_in(folder, body, quotes="lines", header=HEADER):
    return [tuple(cells) for _, cells in table(folder, body, quotes, header).records(Counter())]


# Texts without a line that would be a row by itself: that many delimiters do not stand on one line
LINES = st.text('ab "é\r', max_size=5)
TEXTS = st.lists(LINES, min_size=1, max_size=4).map("\n".join).filter(lambda text: not text.endswith("\r"))
ROWS = st.tuples(st.just("7"), TEXTS, st.sampled_from(["ham", "spam"]))


def readable(row):
    """Whether a row can be told from its own lines; a text in the second column always begins on a start."""
    return "\r\n" not in row[1] and "\r" not in row[1]


@settings(max_examples=200)
@given(st.lists(ROWS.filter(readable), max_size=6))
def test_what_csv_writes_is_what_is_read(tmp_path_factory, rows):
    folder = tmp_path_factory.getbasetemp()
    assert rows_in(folder, written(rows)) == rows
    assert rows_in(folder, written(rows), "records") == rows


@settings(max_examples=200)
@given(st.lists(st.tuples(st.text('ab,"\n', max_size=6), st.text('ab,"\n', max_size=6), st.just("x")), max_size=5))
def test_declared_rows_may_hold_anything(tmp_path_factory, rows):
    folder = tmp_path_factory.getbasetemp()
    assert rows_in(folder, written(rows), "records") == rows


HONEST = [
    ("1", "one line", "ham"),
    ("2", "a break\nin it", "spam"),
    ("3", "\nat the beginning", "ham"),
    ("4", "at the end\n", "spam"),
    ("5", 'she said "no"\n\n"no, no"\n', "ham"),
    ("6", "comma, and\nbreak,", "spam"),
    ("7", '"\n"', "ham"),
    ("8", "", "spam"),
]
PIECES = st.sampled_from(
    ['"', '""', ",", "a", "9", "\r", "\0", " ", 'x,"', '",x', '"\n', "\n", "9,b,spam", '9,"b', 'b",spam']
)


@settings(max_examples=600, deadline=None)
@given(st.lists(PIECES, max_size=7).map("".join), st.integers(0, len(HONEST)))
def test_no_bytes_between_rows_change_how_another_row_is_read(tmp_path_factory, poison, at):
    """The attacker's twin: any lines between honest rows; each of those is read, and a line brings one row at most."""
    folder = tmp_path_factory.getbasetemp()
    body = written(HONEST[:at]) + poison.encode() + b"\n" + written(HONEST[at:])
    try:
        after = Counter(rows_in(folder, body))
    except PoisonproofError:  # lines that open and close quotes around rows, twice: refused, and nothing is swallowed
        assert poison.count("\n") >= 3
        return
    assert not Counter(HONEST) - after
    assert (after - Counter(HONEST)).total() <= 1 + poison.count("\n")


@settings(max_examples=300, deadline=None)
@given(st.text('ab ,"\r9\0é', max_size=12), st.integers(0, len(HONEST)))
def test_one_line_never_stops_the_reading(tmp_path_factory, line, at):
    folder = tmp_path_factory.getbasetemp()
    after = Counter(rows_in(folder, written(HONEST[:at]) + line.encode() + b"\n" + written(HONEST[at:])))
    assert not Counter(HONEST) - after
    assert (after - Counter(HONEST)).total() <= 1


@pytest.mark.parametrize("poison", [b'9,"open', b'9,"', b'"', b'","', b'9,"a\nb'])
def test_an_open_quote_costs_its_own_row(tmp_path, poison):
    faults = Counter()
    body = written(HONEST[:3]) + poison + b"\n" + written(HONEST[3:])
    assert [tuple(cells) for _, cells in table(tmp_path, body).records(faults)] == HONEST
    assert faults.total() >= 1


def test_rows_are_named_by_their_first_line(tmp_path):
    assert [number for number, _ in table(tmp_path, written(HONEST)).records(Counter())][:4] == [2, 3, 5, 7]


def test_breaks_of_windows_are_line_feeds(tmp_path):
    body = written(HONEST).replace(b"\n", b"\r\n")
    assert rows_in(tmp_path, body) == HONEST


def half_texts(n):
    return [(f"Dear {i},\nsir, madam {i}\nyours", "ham" if i % 2 else "spam") for i in range(n)]


def test_half_a_text_is_never_a_sample(tmp_path):
    """`sir, madam 3` has as many cells as the header: where the row ends cannot be told from its own lines."""
    path = tmp_path / "letters.csv"
    path.write_bytes(written([("text", "kind"), *half_texts(40)]))
    with pytest.raises(PoisonproofError, match=r"40 texts of .* the first on line 2, .*--multiline"):
        read(path, label="kind")
    rows = open_files(path, ReadOptions(label="kind", quotes="records", held_out=0.2))
    assert sorted([*rows.x_train, *rows.x_test]) == sorted(text for text, _ in half_texts(40))
    assert any(premise.what == "rows" and "closes its own quotes" in premise.value for premise in rows.premises)
    assert open_files(path, ReadOptions(schema=rows.schema)).schema.quotes == "records"


def test_one_such_text_is_told_and_stops_nobody(tmp_path):
    path = tmp_path / "letters.csv"
    path.write_bytes(
        written([("text", "kind"), *half_texts(1), *[(f"a text of number {i}", "ham") for i in range(30)]])
    )
    rows = read(path, label="kind")
    assert any("lines that are rows by themselves" in note for note in rows.notes)


def test_many_open_quotes_are_refused(tmp_path):
    body = b"".join(b'%d,"%d inches,ham\n' % (i, i) for i in range(50)) + written(HONEST)
    with pytest.raises(PoisonproofError, match=r"50 rows of .* --no-quotes"):
        rows_in(tmp_path, body)
    assert len(rows_in(tmp_path, body.replace(b"\nat", b"at"), "none")) >= 50


def test_no_quotes_takes_them_as_characters(tmp_path):
    assert rows_in(tmp_path, b'1,"5 inch,ham\n2,6" pipe,spam\n', "none") == [
        ("1", '"5 inch', "ham"),
        ("2", '6" pipe', "spam"),
    ]


def test_a_declaration_that_is_not_true_is_refused(tmp_path):
    with pytest.raises(PoisonproofError, match=r"begins on line 3 .*--multiline"):
        rows_in(tmp_path, written(HONEST[:1]) + b'9,"open,ham\n' + written(HONEST[1:3]), "records")


def test_the_length_of_a_row_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("poisonproof.data.readers.csvfile.LONGEST_LINE", 50)
    assert rows_in(tmp_path, written([("1", "a\n" * 40, "ham"), *HONEST[:2]])) == HONEST[:2]


@pytest.mark.parametrize("delimiter", [",", "]", "^", "\\", "-", "|", "\t", "§"])
def test_any_delimiter_has_its_grammar(delimiter):
    cells = ["a", f"b{delimiter}c", 'd"e', "f\ng", ""]
    text = written([cells], delimiter).decode().removesuffix("\n")
    assert grammar(delimiter).cells(text) == cells


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("1,a,b", "whole"),
        ('1,"a","b"', "whole"),
        ('1,5" pipe,b', "whole"),
        ('1,"a', "start"),
        ('1,"', "start"),
        ('"', "other"),
        ('",b', "other"),
        ('a",b', "other"),
        ("a", "other"),
        ('1,"a"b,c', "other"),
        ('a","b', "other"),
    ],
)
def test_what_a_line_is_follows_from_the_line(line, kind):
    rules = grammar(",")
    cells = rules.cells(line)
    whole = cells is not None and len(cells) == 3
    assert ("whole" if whole else "start" if rules.opens(line) else "other") == kind


# Data as people have them


def test_decimal_commas(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("x;n;kind\n" + "".join(f"{i},5;{i};{'ab'[i % 2]}\n" for i in range(40)) + "3.5;1;a\n")
    rows = read(path, label="kind", schema=None, delimiter=";")
    assert rows.schema.decimal == ","
    assert rows.X[3].tolist() == [3.5, 3.0]
    assert rows.X[40, 0] != rows.X[40, 0]  # 3.5 is no number here, in its own row
    assert "decimal commas" in str(rows.schema)


def test_thousands_are_not_fractions(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(written([("x", "n", "kind"), *((f"{i + 1},500", i, "ab"[i % 2]) for i in range(40))]))
    assert read(path, label="kind").schema.decimal == "."


@pytest.mark.parametrize("body", ["", "\n\n"])
def test_a_file_with_nothing_but_a_header_has_no_rows(tmp_path, body):
    path = tmp_path / "table.csv"
    path.write_text("x,kind\n" + body)
    done = CliRunner().invoke(app, ["run", str(path), "--label", "kind", "--out", str(tmp_path / "run")])
    assert done.exit_code == 2
    assert "has no rows" in " ".join(done.stderr.split())


def test_options_exclude_each_other(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("x,kind\n1,a\n")
    words = ["run", str(path), "--label", "kind", "--multiline", "--no-quotes"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "leave one" in " ".join(done.stderr.split())

"""Blocks of plain lines are read at once; the same rows, numbers and texts come line by line."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poisonproof.data.readers import csvfile, lines
from poisonproof.data.readers.csvfile import CsvTable
from poisonproof.data.readers.pieces import TextCells, Vocabulary, pieces_of
from poisonproof.data.readers.plain_rows import ByteCells, PlainRows
from poisonproof.data.readers.tables import _role, guess_schema, read_table
from poisonproof.errors import PoisonproofError
from poisonproof.samples.schema import MISSING, TableSchema


class LineByLine:
    """The slow twin: a table that knows nothing of pieces."""

    def __init__(self, table):
        self.path, self.header, self.unreadable, self.records = table.path, table.header, [], table.records


ODD = [
    "", "   ", "1", "1,2,3,4", ",,", " , ,", '"a",1,x', 'a"b,1,x', '"open,1,x', "tail\",1,x", '"two', 'lines",3,x',
    "é,1,ü", "\xa0,1,\u3000", "a,1\0,x", "a\r,1,x", "a,1,x\r", "a,1,x\r\r", "1e999,nan,x", "1_0,1,x", "x" * 70 + ",1,x",
    "\ud800",
    "\x1c1,-0,x", " 7 ,\t8\t, x ", "NA,?,x", "+.5,5.,x", ".,e5,x", "1e,1e+,x", "0x1,1d5,x", "1e22,1e23,x",
]  # fmt: skip


def body(rows, end):
    return b"".join(row.encode("utf-8", "surrogatepass") + end for row in rows)


@st.composite
def files(draw):
    words = st.sampled_from(["u", "v", "vv", "vvu", "", "NA", "é"])
    plain = st.builds("{},{},{}".format, words, st.floats(-9, 9), st.integers(0, 3))
    rows = draw(st.lists(st.one_of(plain, plain, plain, st.sampled_from(ODD)), max_size=25))
    end = draw(st.sampled_from([b"\n", b"\r\n"]))
    delimiter = draw(st.sampled_from([",", "\t", " ", "§"]))
    text = body(["a,b,label", *rows], end)
    whole = text.replace(b",", delimiter.encode())
    return whole if draw(st.booleans()) else whole.removesuffix(end), delimiter


def outcome(table, schema, rows):
    faults = Counter()
    try:
        pieces = list(pieces_of(table, faults, table.header, rows))
    except PoisonproofError as error:
        return str(error)
    read = []
    for piece in pieces:
        for name in table.header:
            values, odd = piece.columns[name].numbers(frozenset(MISSING), ".")
            vocabulary = Vocabulary(frozenset(MISSING))
            codes = piece.columns[name].codes(vocabulary)
            read.append((values.tobytes(), odd.tolist(), codes.tolist(), list(vocabulary.cells)))
            assert piece.columns[name].holds_numbers(3) is None
        read.append(list(piece.rows))
    try:
        part = read_table(table, schema, labelled=True)
    except PoisonproofError as error:
        return read, faults, str(error)
    return read, faults, part.X.to_csv(), part.labels.tolist(), part.names, part.notes


@settings(max_examples=400, deadline=None)
@given(files(), st.sampled_from(["lines", "none", "records"]), st.integers(1, 9), st.integers(1, 150))
def test_rows_are_the_same_line_by_line(tmp_path_factory, file, quotes, rows, block):
    content, delimiter = file
    path = tmp_path_factory.getbasetemp() / "plain.csv"
    path.write_bytes(content)
    schema = TableSchema((("a", "category"), ("b", "number"), ("label", "label")), delimiter=delimiter, quotes=quotes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK", block)
        patch.setattr(lines, "LONGEST_LINE", 160)
        fast = outcome(CsvTable(path, delimiter, quotes=quotes), schema, rows)
        slow = outcome(LineByLine(CsvTable(path, delimiter, quotes=quotes)), schema, rows)
        patch.setattr(lines, "BLOCK", 159)
        other = outcome(LineByLine(CsvTable(path, delimiter, quotes=quotes)), schema, rows)
    assert fast == slow == other


def test_lines_that_are_too_long_are_left_out_wherever_a_block_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "LONGEST_LINE", 40)
    content = [b"x" * size for size in (0, 1, 38, 39, 40, 41, 79, 80, 81, 200, 3)]
    (tmp_path / "f").write_bytes(b"\n".join(content))
    for block in range(1, 40):
        monkeypatch.setattr(lines, "BLOCK", block)
        faults = Counter()
        read = list(lines.every_line(tmp_path / "f", None, faults))
        assert [number for number, _ in read] == list(range(1, 12))
        assert [line for _, line in read] == [None if len(line) > 39 else line for line in content]
        assert faults == {"too long": 6}


def test_plain_blocks_are_read_at_once(tmp_path, monkeypatch):
    """Otherwise the tests above compare the slow way with itself; an odd line costs its own block only."""
    monkeypatch.setattr(lines, "BLOCK", 1000)
    rows = [f"{at},{at % 7},x" for at in range(2000)]
    rows[1000] = '"1,000",3,x'
    (tmp_path / "f.csv").write_text("\n".join(["a,b,label", *rows]))
    runs = list(CsvTable(tmp_path / "f.csv")._runs(Counter()))
    assert sum(isinstance(run, csvfile.ListedRows) for run in runs) == 1
    assert sum(map(len, runs)) == 2000


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
    block = "\n".join(cells).encode()
    ends = np.cumsum([len(cell.encode()) + 1 for cell in cells]) - 1
    starts = np.r_[0, ends[:-1] + 1]
    values, odd = ByteCells(block, starts, ends).numbers(frozenset(missing), decimal)
    expected, odd_ones = TextCells(cells).numbers(frozenset(missing), decimal)
    assert values.tobytes() == expected.tobytes()
    assert odd.tolist() == odd_ones.tolist()


@pytest.mark.parametrize(
    "line",
    ["a,1", "a,1,2,3", 'a,"1",2', "a,1\0,2", "a\r,1,2", ",,", " ,\t,\r", "", "  "],
)
def test_what_is_not_plain_is_left_to_the_lines(line):
    good = b"x,1,2\n"
    assert len(PlainRows.cut(3 * good, 5, ",", 3, quotes=True)) == 3
    assert PlainRows.cut(good + line.encode() + b"\n" + good, 5, ",", 3, quotes=True) is None


def test_bytes_that_are_not_utf_8_are_left_to_the_lines():
    assert PlainRows.cut("é,1,2\n".encode(), 1, ",", 3, quotes=True) is not None
    assert PlainRows.cut(b"\xe9,1,2\n", 1, ",", 3, quotes=True) is None


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(st.one_of(numbers, st.sampled_from(["NA", "", "x", "a b c d e"])), max_size=40), max_size=3))
def test_roles_are_those_of_cells_counted_one_by_one(tmp_path_factory, columns):
    size = max(map(len, columns), default=0)
    padded = [[cell.replace(",", "") for cell in column] + ["7"] * (size - len(column)) for column in columns]
    header = ["label", *(f"c{at}" for at in range(len(padded)))]
    lines = [",".join(["yes", *cells]) for cells in zip(*padded, strict=True)] if padded else ["yes"]
    path = tmp_path_factory.getbasetemp() / "roles.csv"
    path.write_text("\n".join([",".join(header), *lines]))
    guessed = dict(guess_schema(CsvTable(path), "label", None).columns)
    rows = [cells for _, cells in CsvTable(path).records(Counter())]
    for at, name in enumerate(header[1:], 1):
        assert guessed[name] == _role(name, Counter(cells[at].strip() for cells in rows), ".")

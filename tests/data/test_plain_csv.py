"""CSV many lines at once is CSV line by line: the same rows, numbers, faults and refusals."""

from collections import Counter

import numpy as np
import pytest

from poisonproof.data.readers import csvfile, plain_csv
from poisonproof.data.readers.csvfile import CsvTable
from poisonproof.errors import PoisonproofError

ODD = [
    b'7,"x, y",8\n', b'7,"x\ny",8\n', b'"open,2,3\n', b"\n", b"  \n", b"1,2\n", b"1,2,3,4\n", b"1,\xe9,3\n",
    b"1,\0,3\n", b"1,2,3\r\n", b"1,2\r,3\n", b"1,2,3\r\r\n", b"\r\n", b',"",\n', b'5" pipe,1,2\n', b",,\n",
    b"1,\xc3\xa9,3\n", b"x\n",
]  # fmt: skip


def line_by_line(table):
    faults = Counter()
    try:
        return list(table.records(faults)), faults
    except PoisonproofError as error:
        return str(error), faults


def by_piece(table):
    faults, rows = Counter(), []
    try:
        for piece in table.pieces(faults, table.header):
            cells = [piece.columns[name].texts for name in table.header]
            rows.extend(zip(piece.rows, map(list, zip(*cells, strict=True)), strict=True))
    except PoisonproofError as error:
        return str(error), faults
    return rows, faults


@pytest.mark.parametrize("quotes", ["lines", "records", "none"])
@pytest.mark.parametrize("seed", range(12))
def test_it_is_what_is_read_line_by_line(tmp_path, monkeypatch, seed, quotes):
    rng = np.random.default_rng(seed)
    for size in (23, 64, 1000):
        monkeypatch.setattr(plain_csv, "BYTES_AT_ONCE", size)
        for share in (0.0, 0.02, 0.3):
            lines = [
                ODD[rng.integers(len(ODD))] if rng.random() < share else b"%d, %.3f,w%d\n" % (at, rng.normal(), at % 3)
                for at in range(40)
            ]
            body = b"".join([b"\n"] * (seed % 2) + [b"a,b,c\n", *lines])
            for whole in (body, body[:-1], body.replace(b"\n", b"\r\n"), body.replace(b"\n", b"\r\n")[:-1]):
                path = tmp_path / "data.csv"
                path.write_bytes(whole)
                table = CsvTable(path, ",", None, quotes)
                expected, faults = line_by_line(table)
                read, seen = by_piece(table)
                assert read == expected
                assert seen == faults


def test_plain_files_are_not_read_line_by_line(tmp_path, monkeypatch):
    path = tmp_path / "data.csv"
    path.write_text("a\tb\n" + "".join(f"{at}\tx\n" for at in range(50_000)))
    table, given = CsvTable(path, "\t", None), []
    lines = csvfile.every_line
    monkeypatch.setattr(csvfile, "every_line", lambda *given_: given.append(given_[3]) or lines(*given_))
    rows, _ = by_piece(table)
    assert len(rows) == 50_000
    assert rows[-1] == (50_001, ["49999", "x"])
    assert given == [(path.stat().st_size, 50_002)]


def test_compressed_files_and_lines_that_are_too_long_are_read_as_before(tmp_path, monkeypatch):
    import gzip

    path = tmp_path / "data.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n3,4\n"))
    assert by_piece(CsvTable(path, ",", None)) == ([(2, ["1", "2"]), (3, ["3", "4"])], Counter())
    monkeypatch.setattr("poisonproof.data.readers.lines.LONGEST_LINE", 20)
    monkeypatch.setattr(csvfile, "LONGEST_LINE", 20)
    monkeypatch.setattr(plain_csv, "BYTES_AT_ONCE", 16)
    path = tmp_path / "data.csv"
    path.write_bytes(b"a,b\n1,2\n" + b"3," + b"4" * 40 + b"\n5,6\n")
    read, faults = by_piece(CsvTable(path, ",", None))
    assert read == [(2, ["1", "2"]), (4, ["5", "6"])]
    assert faults == {"too long": 1}

"""CSV by RFC 4180, in records of texts. Types are none of its business: a schema reads the cells."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from poisonproof.data.dataset import LEFT_OUT, SPANS_LINES, ReadReport
from poisonproof.data.files import Opens, decoded, is_utf_8, opened
from poisonproof.data.options import ReadOptions
from poisonproof.data.tables import RawBatch, checked_names
from poisonproof.errors import PoisonproofError
from poisonproof.samples.cells import number_in
from poisonproof.samples.columns import RawCells
from poisonproof.samples.schema import check_delimiter

BLOCK = 1 << 20
LONGEST_RECORD = 1 << 22
OTHER_DELIMITERS = {";": ";", "\t": "tab", "|": "|", ",": ","}
REASONS = (  # in the order of the kernel, which counts from 1
    "csv.faulty-quotes",
    "csv.number-of-cells",
    "csv.carriage-return",
    "line.nul",
    "line.too-long",
)


class Cut(NamedTuple):
    """Records of one block: unescaped bytes, where cells end in them (`cut_records`), numbers of first lines; and those
    of records that are left out, each with the place of its reason. So far so many records of the file span lines,
    the first of them from this line on."""

    text: bytes
    edges: NDArray[np.int32]
    firsts: NDArray[np.int64]
    left_out: NDArray[np.int64]
    n_spanning: int
    first_spanning: int


class CsvTable:
    """A CSV file with a header; how it is cut into records, `cut_records` says.

    A row is a record of RFC 4180: cells that hold quotes, delimiters or line breaks are in quotes, and quotes in them
    are doubled. That a row is one record is a premise, for whoever writes a quote that is not closed may join their own
    row to the next ones. With ``lines`` every line is a row, whatever quotes it holds, and there is no such premise.
    """

    kind = "table"

    def __init__(
        self, path: Opens, delimiter: str = ",", most_bytes: int | None = None, *, lines: bool = False
    ) -> None:
        self.path, self.delimiter, self.most_bytes = path, check_delimiter(delimiter), most_bytes
        self.lines, self.unreadable = lines, list[str]()
        self._behind_header = 0, 1  # where, and the number of the line there
        self.header = self._header()

    @classmethod
    def open(cls, path: Opens, options: ReadOptions) -> Self:
        """The table of a file, as the options say how to cut it."""
        return cls(path, options.delimiter or ",", options.most_bytes, lines=options.lines)

    def raw_batches(self, columns: Sequence[str], report: ReadReport) -> Iterator[RawBatch]:
        """The rows by column, a block at a time; what is left out is counted."""
        name, width, spanning = self.path.name, len(self.header), 0
        places = [self.header.index(column) for column in columns]
        for cut in self._cuts(width):
            text, edges, firsts = cut.text, cut.edges, cut.firsts
            for line, why in cut.left_out.tolist():
                report.add(name, REASONS[why - 1], line)
            starts, ends = edges[:-1].reshape(-1, width) + 1, edges[1:].reshape(-1, width)
            for line in _lines_not_utf_8(text, edges[::width], firsts):
                report.add(name, "cell.not-utf-8", line)
            if cut.n_spanning > spanning:
                report.add(name, SPANS_LINES, cut.first_spanning, cut.n_spanning - spanning)
                spanning = cut.n_spanning
            if len(firsts):
                cells = [TextCells(text, starts[:, at], ends[:, at]) for at in places]
                yield RawBatch(firsts, dict(zip(columns, cells, strict=True)))

    def _cuts(self, width: int) -> Iterator[Cut]:
        """The blocks behind the header, cut; or the header itself, whose ``width`` is 0, and nothing else."""
        from poisonproof.data import csv_kernels as kernels  # compiled code is loaded where it is needed

        state = np.zeros(7, np.int64)
        position, state[kernels.LINE] = self._behind_header
        rules = ord(self.delimiter), self.lines, width, LONGEST_RECORD
        with opened(self.path, self.most_bytes) as file:
            file.skip(position)
            held, last, wanted, mark = b"", False, BLOCK, (0, b"", file.mark())
            while held or not last:
                more = file.read(wanted)
                held, last = held + more, not more and wanted > 0
                if position == 0 and held.startswith(codecs.BOM_UTF8):
                    held, position = held[len(codecs.BOM_UTF8) :], len(codecs.BOM_UTF8)
                block = np.frombuffer(held, np.uint8)
                n_lines = held.count(b"\n") + 1
                n_rows = min(n_lines, len(block) // width + 1) if width else 1
                out, firsts = np.empty(len(block) + 1, np.uint8), np.empty(n_rows, np.int64)
                left_out = np.empty((n_lines + 1, 2), np.int64)
                edges = np.empty(1 + n_rows * width, np.int32) if width else np.full(len(block) + 2, -1, np.int32)
                results = out, edges, firsts, left_out
                rows, n_left, used, size = kernels.cut_records(block, last, *rules, state, *results)
                if used < 0:  # what was passed over has faulty quotes: back to where it begins
                    position, held, place = mark
                    file.back(place)
                    last, wanted = False, 0
                else:
                    begun = used + int(state[kernels.START])
                    if begun >= 0 and kernels.CELL <= state[kernels.INSIDE] <= kernels.QUOTED:
                        mark = position + begun, held[begun:], file.mark()
                    elif rows == n_left == 0:
                        file.passed_over(used)
                    held, position = held[used:], position + used
                    wanted = max(BLOCK, len(held))
                n_edges = rows * width if width else int((edges >= 0).sum())
                if not width:
                    self._behind_header = position, int(state[kernels.LINE])
                spanning = int(state[kernels.SPANNING]), int(state[kernels.SPANNED])
                yield Cut(out[:size].tobytes(), edges[: 1 + n_edges], firsts[:rows], left_out[:n_left], *spanning)

    def _header(self) -> list[str]:
        cut = next((cut for cut in self._cuts(0) if len(cut.firsts) or len(cut.left_out)), None)
        if cut is None:
            raise PoisonproofError(f"{self.path} is empty; the first line must name the columns.", code="csv.empty")
        if len(cut.left_out):
            why = LEFT_OUT[REASONS[cut.left_out[0, 1] - 1]]
            raise PoisonproofError(
                f"{self.path} has a header {why}; the first line must name the columns, in UTF-8, and end with a line "
                "feed.",
                code="csv.header",
            )
        cells = zip((cut.edges[:-1] + 1).tolist(), cut.edges[1:].tolist(), strict=True)
        try:
            names = [cut.text[start:end].decode() for start, end in cells]
        except UnicodeDecodeError:
            raise PoisonproofError(
                f"The header of {self.path} is not UTF-8; save the file as UTF-8.", code="csv.encoding"
            ) from None
        if len(names) == 1:
            self._suggest_a_delimiter(names[0])
        return checked_names([name.strip() for name in names], self.path)

    def _suggest_a_delimiter(self, header: str) -> None:
        for other, name in OTHER_DELIMITERS.items():
            if other in header and other != self.delimiter:
                raise PoisonproofError(
                    f"The header of {self.path} is one column by the delimiter {self.delimiter!r}, but it holds "
                    f"{other!r}; try --delimiter '{name}'.",
                    code="csv.delimiter",
                )


class TextCells(RawCells):
    """A column of texts that stand in a buffer of bytes, from and up to these places."""

    def __init__(self, text: bytes, starts: NDArray[np.int32], ends: NDArray[np.int32]) -> None:
        self.text, self.starts, self.ends = text, np.ascontiguousarray(starts), np.ascontiguousarray(ends)

    def numbers(self, missing: frozenset[str], decimal: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Decimal numbers of few digits off the bytes, all others text by text."""
        if decimal != "." or any(number_in(word) is not None for word in missing):
            places, texts = self.different()
            read, not_read = numbers_in(texts, missing, decimal)
            return read[places], not_read[places]
        from poisonproof.data.csv_kernels import EMPTY, OTHER, read_numbers

        values, kinds = np.full(len(self.starts), np.nan), np.empty(len(self.starts), np.uint8)
        read_numbers(np.frombuffer(self.text, np.uint8), self.starts, self.ends, values, kinds)
        odd = (kinds == EMPTY) if "" not in missing else np.zeros(len(kinds), np.bool_)
        if len(rest := np.flatnonzero(kinds == OTHER)):
            places, texts = self._different(self.starts[rest], self.ends[rest])
            read, not_read = numbers_in(texts, missing, decimal)
            values[rest], odd[rest] = read[places], not_read[places]
        return values + 0.0, odd

    def different(self) -> tuple[NDArray[np.int64], list[str]]:
        """Each different text once, in the order in which they come."""
        return self._different(self.starts, self.ends)

    def part(self, start: int, stop: int) -> TextCells:
        """Some of these cells."""
        return TextCells(self.text, self.starts[start:stop], self.ends[start:stop])

    def written(self) -> list[str]:
        """The text of every cell."""
        return self._texts(self.starts, self.ends)

    def _texts(self, starts: NDArray[np.int32], ends: NDArray[np.int32]) -> list[str]:
        return [decoded(self.text[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    def _different(self, starts: NDArray[np.int32], ends: NDArray[np.int32]) -> tuple[NDArray[np.int64], list[str]]:
        """The place of each of these cells among different texts."""
        from poisonproof.data.csv_kernels import different_texts

        places, firsts = np.empty(len(starts), np.int64), np.empty(len(starts), np.int64)
        table = np.full(1 << max(4, (2 * len(starts)).bit_length()), -1)
        n_different = different_texts(np.frombuffer(self.text, np.uint8), starts, ends, table, firsts, places)
        return places, self._texts(starts[firsts[:n_different]], ends[firsts[:n_different]])


def numbers_in(
    texts: list[str], missing: frozenset[str], decimal: str
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Numbers, NaN where a text is none, and which are not missing but odd: all at once if they are written plainly."""
    texts = list(map(str.strip, texts))
    gaps = np.fromiter((text in missing for text in texts), np.bool_, len(texts))
    written = ["nan" if gap else text for text, gap in zip(texts, gaps.tolist(), strict=True)]
    whole = "".join(written)
    try:
        if decimal != "." or not whole.isascii() or "_" in whole:
            raise ValueError
        values = np.fromiter(map(float, written), np.float64, len(written))
        values[np.isinf(values)] = np.nan
    except ValueError:
        read = (None if gap else number_in(text, decimal) for text, gap in zip(texts, gaps.tolist(), strict=True))
        values = np.fromiter((np.nan if number is None else number for number in read), np.float64, len(texts))
    return values + 0.0, np.isnan(values) & ~gaps


def _lines_not_utf_8(text: bytes, edges: NDArray[np.int32], firsts: NDArray[np.int64]) -> list[int]:
    """The first lines of the records that are not UTF-8; records lie between these edges."""
    if is_utf_8(text):
        return []
    places = zip((edges[:-1] + 1).tolist(), edges[1:].tolist(), firsts.tolist(), strict=True)
    return [first for start, end, first in places if not is_utf_8(text[start:end])]

"""CSV as rows of texts. Types are none of its business: a schema reads the cells."""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from poisonproof.data.readers.lines import LONGEST_LINE, NUL, blocks, decoded, lines, lines_of
from poisonproof.data.readers.pieces import ROWS_PER_PIECE, Piece, PieceColumn
from poisonproof.data.readers.plain_rows import JoinedCells, ListedRows, PlainRows
from poisonproof.data.readers.quotes import Grammar, grammar
from poisonproof.errors import PoisonproofError
from poisonproof.samples.schema import Quotes, check_delimiter

OTHER_DELIMITERS = {";": ";", "\t": "tab", "|": "|", ",": ","}
OPEN = "with quotes that do not close"
CELLS = "with another number of cells than the header"
SWALLOWING = "with whole lines inside their quotes"  # see KEPT of data/readers/part.py
FEW_OPEN, SHARE_OPEN = 20, 0.1
FEW_SWALLOWING, SHARE_SWALLOWING = 1, 0.001


class CsvTable:
    """A CSV file with a header. How a row is read depends on its own lines, the header and the delimiter alone.

    Which lines make a row, `quotes` says:

    - ``"lines"``: what each line is by itself (`poisonproof.data.readers.quotes`); a quote that is not closed, or that
      another row closes, costs its own row and no other. Bad rows (open quotes, another number of cells than the
      header, NUL bytes, too long) are left out one by one and counted. The file is refused if many of its quotes stay
      open, or if several texts in quotes hold lines that would be rows by themselves: half a text is no sample.
    - ``"records"``: quotes, whatever lines they span. That every row closes its own is declared: a premise. A file in
      which one does not is refused.
    - ``"none"``: every line is a row, and a quote is a character like any other.
    """

    def __init__(
        self, path: Path, delimiter: str = ",", most_bytes: int | None = None, quotes: Quotes = "lines"
    ) -> None:
        self.path, self.delimiter, self.most_bytes = path, check_delimiter(delimiter), most_bytes
        self.quotes = quotes
        self.header = self._header()
        self.unreadable: list[str] = []

    def records(self, faults: Counter[str]) -> Rows:
        """Number of the first line and cells of every good row."""
        texts = (text for number, block in self._behind_header(faults) for text in _texts(number, block, faults))
        if self.quotes == "records":
            yield from self._by_quotes(texts, faults)
            return
        reader = self._reader(faults)
        for number, text in texts:
            if (row := reader.row(number, text)) is not None:
                yield row
        reader.end()

    def in_pieces(self, faults: Counter[str], wanted: Sequence[str], rows: int) -> Iterator[Piece]:
        """The same rows by column, so many at a time; blocks that are written plainly are read at once."""
        places = {name: self.header.index(name) for name in wanted}
        held: list[PlainRows | ListedRows] = []
        for some in self._runs(faults):
            held.append(some)
            while sum(map(len, held)) >= rows:
                taken, held = _first(held, rows)
                yield _piece(taken, places)
        if held:
            yield _piece(held, places)

    def _runs(self, faults: Counter[str]) -> Iterator[PlainRows | ListedRows]:
        if self.quotes == "records":
            records = self.records(faults)
            while some := list(islice(records, ROWS_PER_PIECE)):
                yield ListedRows(some)
            return
        reader, width, quotes = self._reader(faults), len(self.header), self.quotes == "lines"
        for number, block in self._behind_header(faults):
            if block is not None and reader.between_rows:
                plain = PlainRows.cut(block, number, self.delimiter, width, quotes=quotes)
                if plain is not None:
                    reader.good += len(plain)
                    yield plain
                    continue
            read = [reader.row(at, text) for at, text in _texts(number, block, faults)]
            if some := [row for row in read if row is not None]:
                yield ListedRows(some)
        reader.end()

    def _reader(self, faults: Counter[str]) -> _ByLines | _WithoutQuotes:
        return (_ByLines if self.quotes == "lines" else _WithoutQuotes)(self, faults)

    def _behind_header(self, faults: Counter[str]) -> Iterator[tuple[int, bytes | None]]:
        """The blocks of lines that follow the first line that is not blank."""
        inside = blocks(self.path, self.most_bytes, faults)
        for number, block in inside:
            if block is None:
                continue
            end = 0
            for at, line in lines_of(block, number):
                end = block.find(b"\n", end) + 1 or len(block)
                if line.strip():
                    if end < len(block):
                        yield at + 1, block[end:]
                    yield from inside
                    return

    def _by_quotes(self, texts: Texts, faults: Counter[str]) -> Rows:
        rules, width = grammar(self.delimiter), len(self.header)
        started: _Started | None = None
        for number, text in texts:
            if started is None:
                if text is None or not text.strip():
                    continue
                cells = rules.cells(text)
                if cells is None and rules.is_open(text):
                    started = _Started(rules, number, [text])
                    continue
            elif text is not None and started.takes(text):
                if not rules.closes(text):
                    continue
                number, cells, started = started.number, rules.cells(started.joined), None
            else:
                break
            if cells is None and text.count('"') % 2:
                started = _Started(rules, number, [])
                break
            if cells is None:
                faults[OPEN] += 1
            elif any("\0" in cell for cell in cells):
                faults[NUL] += 1
            elif len(cells) != width:
                faults[CELLS] += 1
            else:
                yield number, cells
        if started is not None:
            raise PoisonproofError(
                f"The row that begins on line {started.number} of {self.path} does not close its quotes, but "
                "--multiline declares that every row does; leave --multiline out, or take that row out."
            )

    def _header(self) -> list[str]:
        faults: Counter[str] = Counter()
        with self.path.open("rb") as file:
            if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                raise PoisonproofError(f"{self.path} is in UTF-16; save it as UTF-8.")
        first = next(lines(self.path, self.most_bytes, faults), None)
        if first is None or faults:
            reason = "is empty" if not faults else f"has a header {next(iter(faults))}"
            raise PoisonproofError(f"{self.path} {reason}; the first line must name the columns.")
        text = decoded(first[1].removeprefix(codecs.BOM_UTF8), faults)
        if faults:
            raise PoisonproofError(f"The header of {self.path} is not UTF-8; save the file as UTF-8.")
        if "\r" in text:
            raise PoisonproofError(f"{self.path} ends its lines with carriage returns; save it with line feeds.")
        names = text.split(self.delimiter) if self.quotes == "none" else grammar(self.delimiter).cells(text)
        if names is None:
            raise PoisonproofError(f"The header of {self.path} opens a quote and does not close it on the same line.")
        if len(names) == 1:
            self._suggest_a_delimiter(names[0])
        return checked_names([name.strip() for name in names], self.path)

    def _suggest_a_delimiter(self, header: str) -> None:
        for other, name in OTHER_DELIMITERS.items():
            if other in header and other != self.delimiter:
                raise PoisonproofError(
                    f"The header of {self.path} is one column by the delimiter {self.delimiter!r}, but it holds "
                    f"{other!r}; try --delimiter '{name}'."
                )


Texts = Iterator[tuple[int, str | None]]
Row = tuple[int, list[str]]
Rows = Iterator[Row]


def _without_nul(text: str | None, faults: Counter[str]) -> str | None:
    if text is not None and "\0" in text:
        faults[NUL] += 1
        return None
    return text


def _texts(number: int, block: bytes | None, faults: Counter[str]) -> Texts:
    if block is None:
        yield number, None
        return
    for at, line in lines_of(block, number):
        yield at, decoded(line, faults)


def _first(held: list[PlainRows | ListedRows], rows: int) -> tuple[list[Any], list[Any]]:
    """So many rows, and the others."""
    taken, left = [], []
    for some in held:
        now = min(rows, len(some))
        if now:
            taken.append(some.part(0, now))
        if now < len(some):
            left.append(some.part(now, len(some)))
        rows -= now
    return taken, left


def _piece(parts: Sequence[PlainRows | ListedRows], places: dict[str, int]) -> Piece:
    columns: dict[str, PieceColumn] = {}
    for name, place in places.items():
        columns[name] = (
            parts[0].column(place) if len(parts) == 1 else JoinedCells([part.column(place) for part in parts])
        )
    return Piece([number for part in parts for number in part.numbers], columns)


class _WithoutQuotes:
    """Every line is a row."""

    between_rows = True

    def __init__(self, table: CsvTable, faults: Counter[str]) -> None:
        self.table, self.faults, self.good = table, faults, 0

    def row(self, number: int, text: str | None) -> Row | None:
        """The row that this line is."""
        text = _without_nul(text, self.faults)
        if text is None or not text.strip():
            return None
        cells = text.split(self.table.delimiter)
        if "\r" in text or len(cells) != len(self.table.header):
            self.faults[CELLS] += 1
            return None
        return number, cells

    def end(self) -> None:
        """No line is left."""


class _ByLines:
    """Lines, one after the other, as rows by what each line is by itself."""

    def __init__(self, table: CsvTable, faults: Counter[str]) -> None:
        self.table, self.faults, self.good = table, faults, 0
        self.rules, self.width = grammar(table.delimiter), len(table.header)
        self.started: _Started | None = None
        self.beyond = _Beyond(self.rules, self.width)

    @property
    def between_rows(self) -> bool:
        """Whether the next line has nothing to do with those before."""
        return self.started is None and self.beyond.open is None

    def row(self, number: int, text: str | None) -> Row | None:
        """The row that this line is or ends."""
        text = _without_nul(text, self.faults)
        rules, faults, started = self.rules, self.faults, self.started
        self.beyond.see(text)
        cells = None if text is None else rules.cells(text)
        whole = cells is not None and len(cells) == self.width and bool(text and text.strip())
        starts = text is not None and not whole and rules.opens(text)
        if started is not None and (text is None or whole or starts or not started.takes(text)):
            faults[OPEN] += 1
            if whole or starts:
                self.beyond.watch(started, text)
            self.started = None
        elif started is not None:
            assert text is not None
            if not rules.closes(text):
                return None
            cells, number, self.started = rules.cells(started.joined), started.number, None
            whole = cells is not None and len(cells) == self.width
            if not whole:
                faults[CELLS] += 1
                return None
        if whole:
            assert cells is not None
            self.good += 1
            return number, cells
        if starts:
            assert text is not None
            self.started = _Started(rules, number, [text])
        elif text is not None and text.strip():
            faults[CELLS if cells is not None else OPEN] += 1
        return None

    def end(self) -> None:
        """No line is left: refuse a file whose rows cannot be told."""
        if self.started is not None:
            self.faults[OPEN] += 1
        self._refuse_half_texts()

    def _refuse_half_texts(self) -> None:
        good, beyond, faults, path = self.good, self.beyond, self.faults, self.table.path
        if beyond.count:
            faults[SWALLOWING] += beyond.count
        if beyond.count > max(FEW_SWALLOWING, SHARE_SWALLOWING * good):
            raise PoisonproofError(
                f"{beyond.count} texts of {path}, the first on line {beyond.first}, hold lines in quotes that "
                "would be rows by themselves, so where a row ends cannot be told from its own lines; say --multiline "
                "if a program wrote the file and closes every quote, or --no-quotes if quotes are ordinary characters."
            )
        if faults[OPEN] > max(FEW_OPEN, SHARE_OPEN * good):
            raise PoisonproofError(
                f"{faults[OPEN]} rows of {path} have quotes that do not close, beside {good} good rows; say "
                "--no-quotes if quotes are ordinary characters there, or --multiline if a program wrote the "
                "file and closes every quote."
            )


@dataclass
class _Started:
    """A row whose quotes are open so far: the number of its first line, and its lines."""

    rules: Grammar
    number: int
    lines: list[str]
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = sum(map(len, self.lines))

    def takes(self, text: str) -> bool:
        """Whether this line can go on with it; then it does."""
        self.size += len(text) + 1
        if self.size > LONGEST_LINE or not (self.rules.stays(text) or self.rules.closes(text)):
            return False
        self.lines.append(text)
        return True

    @property
    def joined(self) -> str:
        """The row so far; a line break is a line feed, on whatever system the file was written."""
        return "\n".join(self.lines)


class _Beyond:
    """What plain quotes would say beside: rows that are whole if they may hold lines that are rows by themselves."""

    def __init__(self, rules: Grammar, width: int) -> None:
        self.rules, self.width = rules, width
        self.count, self.first = 0, 0
        self.open: _Started | None = None

    def watch(self, started: _Started, text: str | None) -> None:
        """Go on with a row that this whole line or other start cut off, unless one is watched already."""
        if self.open is None:
            self.open = started
            self.see(text)

    def see(self, text: str | None) -> None:
        """One line more."""
        if self.open is None:
            return
        if text is None or not self.open.takes(text):
            self.open = None
        elif self.rules.closes(text):
            cells = self.rules.cells(self.open.joined)
            if cells is not None and len(cells) == self.width:
                self.count, self.first = self.count + 1, self.first or self.open.number
            self.open = None


def checked_names(names: list[str], path: Path) -> list[str]:
    """Column names, unless two are equal: which of the two was meant would be a guess."""
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise PoisonproofError(
            f"{path} has {names.count(twice)} columns named '{twice}'; give every column its own name."
        )
    return names

"""CSV as rows of texts. Types are none of its business: a schema reads the cells."""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from poisonproof.data.readers.lines import LONGEST_LINE, NUL, decoded, every_line, lines
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

    def records(self, faults: Counter[str]) -> Iterator[tuple[int, list[str]]]:
        """Number of the first line and cells of every good row."""
        inside = every_line(self.path, self.most_bytes, faults)
        next((line for line in inside if line[1] and line[1].strip()), None)  # the header
        texts: Texts = ((number, None if line is None else decoded(line, faults)) for number, line in inside)
        if self.quotes == "records":
            return self._by_quotes(texts, faults)
        texts = _without_nul(texts, faults)
        return self._by_lines(texts, faults) if self.quotes == "lines" else self._without_quotes(texts, faults)

    def _without_quotes(self, texts: Texts, faults: Counter[str]) -> Rows:
        for number, text in texts:
            if text is None or not text.strip():
                continue
            cells = text.split(self.delimiter)
            if "\r" in text or len(cells) != len(self.header):
                faults[CELLS] += 1
            else:
                yield number, cells

    def _by_lines(self, texts: Texts, faults: Counter[str]) -> Rows:
        rules, width, good = grammar(self.delimiter), len(self.header), 0
        started: _Started | None = None
        beyond = _Beyond(rules, width)
        for number, text in texts:
            beyond.see(text)
            cells = None if text is None else rules.cells(text)
            whole = cells is not None and len(cells) == width and bool(text and text.strip())
            starts = text is not None and not whole and rules.opens(text)
            if started is not None and (text is None or whole or starts or not started.takes(text)):
                faults[OPEN] += 1
                if whole or starts:
                    beyond.watch(started, text)
                started = None
            elif started is not None:
                assert text is not None
                if rules.closes(text):
                    cells, number = rules.cells(started.joined), started.number
                    whole, started = cells is not None and len(cells) == width, None
                    if not whole:
                        faults[CELLS] += 1
                        continue
                else:
                    continue
            if text is None:
                continue
            if whole:
                assert cells is not None
                good += 1
                yield number, cells
            elif starts:
                started = _Started(rules, number, [text])
            elif text.strip():
                faults[CELLS if cells is not None else OPEN] += 1
        if started is not None:
            faults[OPEN] += 1
        self._refuse_half_texts(good, beyond, faults)

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

    def _refuse_half_texts(self, good: int, beyond: _Beyond, faults: Counter[str]) -> None:
        if beyond.count:
            faults[SWALLOWING] += beyond.count
        if beyond.count > max(FEW_SWALLOWING, SHARE_SWALLOWING * good):
            raise PoisonproofError(
                f"{beyond.count} texts of {self.path}, the first on line {beyond.first}, hold lines in quotes that "
                "would be rows by themselves, so where a row ends cannot be told from its own lines; say --multiline "
                "if a program wrote the file and closes every quote, or --no-quotes if quotes are ordinary characters."
            )
        if faults[OPEN] > max(FEW_OPEN, SHARE_OPEN * good):
            raise PoisonproofError(
                f"{faults[OPEN]} rows of {self.path} have quotes that do not close, beside {good} good rows; say "
                "--no-quotes if quotes are ordinary characters there, or --multiline if a program wrote the "
                "file and closes every quote."
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
Rows = Iterator[tuple[int, list[str]]]


def _without_nul(texts: Texts, faults: Counter[str]) -> Texts:
    for number, text in texts:
        bad = text is not None and "\0" in text
        if bad:
            faults[NUL] += 1
        yield number, None if bad else text


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

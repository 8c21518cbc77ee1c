"""CSV as lines of texts. Types are none of its business: a schema reads the cells."""

from __future__ import annotations

import codecs
import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from poisonproof.data.readers.lines import decoded, lines
from poisonproof.errors import PoisonproofError
from poisonproof.samples.schema import check_delimiter

OTHER_DELIMITERS = {";": ";", "\t": "tab", "|": "|", ",": ","}


class CsvTable:
    """A CSV file with a header. How a line is read depends on that line, the header and the delimiter alone.

    Every line is a record: a quote that is not closed on its line makes that line bad and no other. Bad lines
    (open quotes, another number of cells than the header, NUL bytes, too long) are left out one by one and
    counted.
    """

    def __init__(self, path: Path, delimiter: str = ",", most_bytes: int | None = None) -> None:
        self.path, self.delimiter, self.most_bytes = path, check_delimiter(delimiter), most_bytes
        self.header = self._header()
        self.unreadable: list[str] = []

    def records(self, faults: Counter[str]) -> Iterator[tuple[int, list[str]]]:
        """Line number and cells of every good line."""
        inside = lines(self.path, self.most_bytes, faults)
        next(inside)
        width = len(self.header)
        for number, line in inside:
            cells = cells_of(decoded(line, faults), self.delimiter)
            if cells is None:
                faults["with quotes that do not close on their line"] += 1
            elif len(cells) != width:
                faults["with another number of cells than the header"] += 1
            else:
                yield number, cells

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
        names = cells_of(text, self.delimiter)
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


def cells_of(line: str, delimiter: str) -> list[str] | None:
    """The cells of one line; None if a quote stays open or is followed by more than a delimiter."""
    if '"' not in line and "\r" not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error:
        return None


def checked_names(names: list[str], path: Path) -> list[str]:
    """Column names, unless two are equal: which of the two was meant would be a guess."""
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise PoisonproofError(
            f"{path} has {names.count(twice)} columns named '{twice}'; give every column its own name."
        )
    return names

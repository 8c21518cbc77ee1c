"""Which lines of a CSV file belong together, told from each line by itself.

A text in quotes may hold line breaks (RFC 4180). A reader that follows open quotes lets one row swallow its neighbours:
a quote that is never closed, or that another row closes, takes every row between them along. So a line is, by its own
bytes and whatever stands around it, one of three things:

- **whole**: it has as many cells as the header, and every quote is closed. It is a row.
- **a start**: well formed up to a quote that is still open at its end.
- **anything else**: the middle or the end of a text, or broken.

A row is a whole line, or a start with the lines of the third kind that follow it up to the first that completes it.
*No row holds a whole line or a start but as its own first line*, so a row is read from its own lines alone: what
stands before it ended before its first line, what follows begins after its last. A broken row costs itself.

Some lines can be read as a start and as an end. ``7,"`` counts as the start of a text that begins with a line break,
not as the end of one that ends in ``7,``; ``"`` and ``",spam`` count as ends of texts that end with a line break, not
as starts of texts in the first column that begin with one or with a delimiter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

INSIDE = r'[^"]*+(?:""[^"]*+)*+'  # what may stand between the quotes of a cell


@dataclass(frozen=True)
class Grammar:
    """Cells of lines with this delimiter, by RFC 4180; a cell without quotes around it may not hold any."""

    delimiter: str

    @cached_property
    def _cell(self) -> str:
        return rf'(?>"{INSIDE}"|[^"\r{re.escape(self.delimiter)}]*+(?!"))'

    @cached_property
    def _cells(self) -> str:
        return rf"{self._cell}(?:{re.escape(self.delimiter)}{self._cell})*+"

    @cached_property
    def _strict(self) -> re.Pattern[str]:
        return re.compile(self._cells)

    @cached_property
    def _loose(self) -> re.Pattern[str]:
        """The same, but a cell that does not begin with a quote may hold some."""
        cut = re.escape(self.delimiter)
        cell = rf'(?>"{INSIDE}"(?={cut}|\Z)|(?!")[^\r{cut}]*+)'
        return re.compile(rf"{cell}(?:{cut}{cell})*+")

    @cached_property
    def _open(self) -> re.Pattern[str]:
        return re.compile(rf'(?:{self._cell}{re.escape(self.delimiter)})*+"{INSIDE}')

    @cached_property
    def _stays(self) -> re.Pattern[str]:
        """The middle of a text; or the end of one and the beginning of another in the same row."""
        cut = re.escape(self.delimiter)
        return re.compile(rf'{INSIDE}(?:"(?:{cut}{self._cell})*+{cut}"{INSIDE})?')

    @cached_property
    def _closes(self) -> re.Pattern[str]:
        return re.compile(rf'{INSIDE}"(?:{re.escape(self.delimiter)}{self._cell})*+')

    def opens(self, text: str) -> bool:
        """Whether a line is a start; of one that could also be an end, whether its text begins with a line break."""
        if self._open.fullmatch(text) is None:
            return False
        return not self.closes(text) or text.rstrip('"').endswith(self.delimiter)

    def is_open(self, text: str) -> bool:
        """Whether it is well formed up to a quote that is still open, be it the end of a text as well."""
        return self._open.fullmatch(text) is not None

    def stays(self, text: str) -> bool:
        """Whether a line that begins inside quotes also ends inside quotes."""
        return self._stays.fullmatch(text) is not None

    def closes(self, text: str) -> bool:
        """Whether a line that begins inside quotes ends outside of them."""
        return self._closes.fullmatch(text) is not None

    def cells(self, text: str) -> list[str] | None:
        """The cells of a text whose quotes are all closed; None if it is anything else.

        A quote in the middle of a cell is a character, as in ``5" pipe``, unless the line could as well be the end of a
        text that was opened before.
        """
        if '"' not in text and "\r" not in text:
            return text.split(self.delimiter)
        if self._strict.fullmatch(text) is None and (
            self._loose.fullmatch(text) is None or self.stays(text) or self.closes(text)
        ):
            return None
        return self._split(text)

    def _split(self, text: str) -> list[str]:
        cells, at = [], 0
        while True:
            if text.startswith('"', at):
                end = at + 1
                while (end := text.index('"', end)) + 1 < len(text) and text[end + 1] == '"':
                    end += 2
                cells.append(text[at + 1 : end].replace('""', '"'))
                end += 1
            else:
                end = text.find(self.delimiter, at)
                end = len(text) if end < 0 else end
                cells.append(text[at:end])
            if end == len(text):
                return cells
            at = end + 1


@lru_cache
def grammar(delimiter: str) -> Grammar:
    """The grammar of lines with this delimiter, its patterns made once."""
    return Grammar(delimiter)

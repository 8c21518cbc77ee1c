"""Cells of CSV that somebody opens in a spreadsheet: text from data is text there too, never a formula."""

from __future__ import annotations

import re
from typing import Any

# What a spreadsheet takes for the beginning of a formula, full-width forms included.
FORMULA = re.compile("[=+\\-@\t\r\n＝＋－＠]")
NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)


def as_cell(value: Any) -> Any:
    """A cell that no spreadsheet computes: an apostrophe stands before text that would be a formula.

    Numbers stay numbers, -1.5 too. Reading back, take one leading apostrophe off.
    """
    if isinstance(value, str) and FORMULA.match(value) and not NUMBER.fullmatch(value):
        return f"'{value}"
    return value

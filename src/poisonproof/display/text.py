"""Text from data or files, for a reader's eyes: nothing in it can move the cursor, turn the line or hide.

A label, a premise or a file name may hold anything. Printed as it stands, an escape sequence, a carriage return or a
bidirectional control rewrites what stood on the line before it: "NOT VERIFIED" becomes "VERIFIED".
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Sequence

# Controls, formats (bidirectional, zero-width, tags), lone surrogates, private and unassigned, line and paragraph ends.
UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Letters and marks by category that draw nothing: joiners, fillers, variation selectors.
BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")


def shown(text: str) -> str:
    r"""One line in which every character can be seen; what cannot is written as Python writes it, ``\x1b``, ``\u202e``.

    Showing twice is showing once: a backslash stays one.
    """
    if text.isprintable() and not BLANK.search(text):
        return text
    return "".join(_escaped(char) if _is_unseen(char) else char for char in text)


def shown_lines(text: str) -> str:
    """Several lines of our own making, each shown; foreign text must have been shown before it was put into them."""
    return "\n".join(map(shown, text.split("\n")))


def _is_unseen(char: str) -> bool:
    return unicodedata.category(char) in UNSEEN or BLANK.match(char) is not None


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def nearest(name: str, names: Sequence[str]) -> str:
    """What a name was probably meant to be, in words."""
    close = difflib.get_close_matches(name, names, 1, 0.5)
    return f"did you mean '{close[0]}'?" if close else f"there are {', '.join(names[:12])}{', …' * (len(names) > 12)}."

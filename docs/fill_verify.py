"""Fill the table of forgeries in docs/verify.md from tests/helpers/forgeries.py.

    python docs/fill_verify.py

Everything between `<!-- forgeries -->` and `<!-- end -->` is written anew. tests/verification/test_forgeries.py holds
the checker to the same table.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "tests" / "helpers"))

from forgeries import COLUMNS, FORGERIES, Caught  # noqa: E402

HEADER = ("what is forged", "files alone", "data given", "retrained")


def filled(page: str) -> str:
    """The page with the table as the tests have it."""
    return re.sub(
        r"<!-- forgeries -->\n.*?<!-- end -->",
        lambda place: f"<!-- forgeries -->\n{table()}\n<!-- end -->",
        page,
        flags=re.DOTALL,
    )


def table() -> str:
    """How many kinds each column catches, and every kind: caught, or what the verdict names as unchecked."""
    outcomes = [[getattr(forgery, column) for column in COLUMNS] for forgery in FORGERIES]
    counts = [sum(isinstance(row[at], Caught) for row in outcomes) for at in range(len(COLUMNS))]
    lead = (
        f"Of {len(FORGERIES)} kinds of forgery, {counts[0]} are caught by the files alone, {counts[1]} with the data, "
        f"{counts[2]} with all base classifiers trained again. Each of the others is named by the verdict."
    )
    rows = [[forgery.name, *map(_cell, row)] for forgery, row in zip(FORGERIES, outcomes, strict=True)]
    lines = [HEADER, ["---"] * len(HEADER), *rows]
    return "\n".join([lead, "", *(f"| {' | '.join(line)} |" for line in lines)])


def _cell(outcome: object) -> str:
    words = getattr(outcome, "words", "")
    return "caught" if isinstance(outcome, Caught) else f"not checked: {words}".replace("|", "\\|")


if __name__ == "__main__":
    path = DOCS / "verify.md"
    path.write_text(filled(path.read_text("utf-8")), "utf-8")

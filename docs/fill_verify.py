"""Write docs/forgeries.csv from tests/helpers/forgeries.py.

    python docs/fill_verify.py

tests/verification/test_forgeries.py holds the checker to the same table.
"""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "tests" / "helpers"))

from forgeries import COLUMNS, FORGERIES, Caught  # noqa: E402

HEADER = ("what is forged", "files alone", "data given", "retrained")


def table() -> str:
    """Every kind of forgery, and for each column: caught, or what the verdict names as unchecked."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(HEADER)
    for forgery in FORGERIES:
        outcomes = [getattr(forgery, column) for column in COLUMNS]
        lines.writerow(
            [forgery.name, *("caught" if isinstance(one, Caught) else f"not checked: {one.words}" for one in outcomes)]
        )
    return text.getvalue()


if __name__ == "__main__":
    (DOCS / "forgeries.csv").write_text(table(), "utf-8")

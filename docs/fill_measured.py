"""Fill the tables of docs/measured.md from benchmarks/paper/results.json.

    python docs/fill_measured.py

Everything between `<!-- NAME -->` and `<!-- end -->` is written anew.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from poisonproof.paper.tables import joined, tables

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "paper" / "results.json"


def filled(page: str) -> str:
    """The page with its tables from the committed results."""
    made = tables(json.loads(RESULTS.read_text("utf-8")))
    return re.sub(
        r"<!-- (\w+) -->\n.*?<!-- end -->",
        lambda place: f"<!-- {place[1]} -->\n{joined(made[place[1]], 'markdown')}\n<!-- end -->",
        page,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    path = DOCS / "measured.md"
    path.write_text(filled(path.read_text("utf-8")), "utf-8")

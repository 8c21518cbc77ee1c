"""Everything a campaign found, written out: JSON, tables in three formats, figures, and one HTML page."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from poisonproof.display import own_source, templates
from poisonproof.system.files import write_text
from research.paper.figures import figures, save
from research.paper.published import published_cell
from research.paper.results import Measures, collected
from research.paper.tables import joined, tables

SUFFIXES = {"text": "txt", "markdown": "md", "latex": "tex"}
HEADINGS = {
    "table1": "Table 1: certified fraction",
    "table2": "Table 2: what the certificate adds",
    "table3": "Table 3: one shared attack",
    "later": "Against the best later numbers",
    "frontier": "The frontier: k beyond the paper's, designed spreads",
    "medians": "Half of the test set",
    "certificates": "Other certificates on the same votes",
    "costs": "What it cost",
}


def write_campaign(folder: Path, rows: Sequence[Measures], costs: dict[str, Any]) -> dict[str, Any]:
    """Write all of it into a folder; the record of results."""
    results = collected(rows, costs)
    made = tables(results)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "results.json", as_json(results))
    for name, tables_of_name in made.items():
        for form, suffix in SUFFIXES.items():
            write_text(folder / f"{name}.{suffix}", joined(tables_of_name, form))
    pictures = []
    for name, figure in figures(rows).items():
        for suffix in ("svg", "png"):
            save(figure, folder / f"{name}.{suffix}")
        svg = base64.b64encode((folder / f"{name}.svg").read_bytes()).decode()
        pictures.append((name, name.replace("-", ", ", 1).replace("figure", "Figure "), svg))
    above, cells = cells_above(results)
    page = templates().from_string(Path(__file__).with_name("paper.html.j2").read_text("utf-8"))
    parts = [(heading, made[name]) for name, heading in HEADINGS.items()]
    text = page.render(
        css=own_source("page.css"),
        parts=parts,
        pictures=pictures,
        above=above,
        cells=cells,
        quick=", ".join(sorted({str(row["divisor"]) for row in rows if row.get("divisor", 1) > 1})),
    )
    write_text(folder / "paper.html", text)
    return results


def cells_above(results: dict[str, Any]) -> tuple[int, int]:
    """How many cells of the paper's Table 1 are lower than ours, and how many there are."""
    above = cells = 0
    for row in results["certified_fraction"]:
        theirs = published_cell("certified_fraction", row["dataset"], row["k"], row["d"])
        ours = dict(zip(row["attack_size"], row["certified_fraction"], strict=True))
        for size, value in zip(theirs["attack_size"], theirs["certified_fraction"], strict=True) if theirs else ():
            cells += 1
            above += ours.get(size, 0.0) > value
    return above, cells


def as_json(value: Any) -> str:
    """JSON that a person can read and a diff can show: one line for each list of numbers."""
    text = json.dumps(value, indent=1)  # ASCII: it goes to terminals too
    return re.sub(r"\[\s+([-\d.,\s]+?)\s+\]", lambda numbers: f"[{' '.join(numbers[1].split())}]", text) + "\n"

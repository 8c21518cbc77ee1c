"""Fill the tables of docs/measured.md from benchmarks/paper/results.json and benchmarks/frontier/results.json.

    python docs/fill_measured.py

Everything between `<!-- NAME -->` and `<!-- end -->` is written anew.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from poisonproof.paper.tables import joined, tables

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "paper" / "results.json"
FRONTIER = DOCS.parent / "benchmarks" / "frontier" / "results.json"
FROZEN = FRONTIER.with_name("configurations.json")
COLUMNS = {
    "mnist": (50, 100, 200, 300, 500, 1000, 2000, 4000, 6000, 8000),
    "cifar10": (5, 10, 20, 30, 40, 50, 100, 200, 300, 500, 1000),
    "gtsrb": (10, 20, 50, 100, 200, 300, 500, 1000),
}


def parts() -> dict[str, str]:
    """What the page is filled with, by name, from the committed results."""
    made = {name: joined(table, "markdown") for name, table in tables(json.loads(RESULTS.read_text("utf-8"))).items()}
    rows = json.loads(FRONTIER.read_text("utf-8"))["rows"]
    made |= {f"frontier_{name}": frontier_table(rows, name) for name in COLUMNS}
    return {**made, "frontier_missing": missing(rows)}


def filled(page: str) -> str:
    """The page with its tables."""
    made = parts()
    return re.sub(
        r"<!-- (\w+) -->\n.*?<!-- end -->",
        lambda place: f"<!-- {place[1]} -->\n{made[place[1]]}\n<!-- end -->",
        page,
        flags=re.DOTALL,
    )


def frontier_table(rows: list[dict[str, Any]], dataset: str) -> str:
    """Certified fraction of every row on a data set, and beneath it the balanced figure where there is one."""
    sizes = COLUMNS[dataset]
    head = ["track", "method", "clean", *map(str, sizes), "half at"]
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    for row in rows:
        if row["dataset"] == dataset:
            cells = [row["track"], _words(row), _pair(row["clean"], row["balanced"])]
            balanced = row["balanced_certified_fraction"] or [None] * len(row["attack_size"])
            for size in sizes:
                at = row["attack_size"].index(size)
                cells.append(_pair(row["certified_fraction"][at], balanced[at]))
            cells.append("–" if row["half_at"] is None else f"{row['half_at']:,}")
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def missing(rows: list[dict[str, Any]]) -> str:
    """How many frozen configurations of each map have no result yet."""
    measured = [_words(row) + row["dataset"] for row in rows]
    counts: dict[str, int] = {}
    for row in json.loads(FROZEN.read_text("utf-8"))["rows"]:
        named = {**row, "family": "", "parameters": {**row["parameters"], "map": {"name": row["map"]}}}
        if _words(named) + row["dataset"] not in measured:
            counts[row["map"]] = counts.get(row["map"], 0) + 1
    if not counts:
        return "Every frozen configuration was measured.\n"
    listed = "; ".join(f"{name} ({count})" for name, count in counts.items())
    return f"Frozen and not measured yet, with the number of configurations: {listed}.\n"


def _words(row: dict[str, Any]) -> str:
    settings = row["parameters"]
    if row["family"] == "ensemble":
        return f"{row['method']}, k = {settings['k']:g}, d = {settings['d']}"
    what = f"K = {settings['n_neighbors']:,}" if "n_neighbors" in settings else f"near {settings['near']:g}"
    return f"{row['method']}, {settings['map']['name']}, {what}"


def _pair(share: float, balanced: float | None) -> str:
    return f"{share:.1f}" if balanced is None else f"{share:.1f} ({balanced:.1f})"


if __name__ == "__main__":
    path = DOCS / "measured.md"
    path.write_text(filled(path.read_text("utf-8")), "utf-8")

"""Fill the tables of research/paper/measured.md from the results of research/paper and research/frontier.

    python -m research.fill_measured

Everything between `<!-- NAME -->` and `<!-- end -->` is written anew.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from research.paper.published import published_cell
from research.paper.tables import joined, tables

PAGE = Path(__file__).parent / "paper" / "measured.md"
RESULTS = PAGE.parent / "results" / "results.json"
WEAK = RESULTS.with_name("weak.json")
FRONTIER = PAGE.parents[1] / "frontier" / "results.json"
ENCODER = "public encoder"  # a track that never shares a table with others
FROZEN = FRONTIER.with_name("configurations.json")
COLUMNS = {
    "mnist": (50, 100, 200, 300, 500, 1000, 2000, 4000, 6000, 8000),
    "cifar10": (5, 10, 20, 30, 40, 50, 100, 200, 300, 500, 1000),
    "gtsrb": (10, 20, 50, 100, 200, 300, 500, 1000),
}
BEHIND_ENCODER = {
    "mnist": (20, 50, 100, 200, 300, 400),
    "cifar10": (5, 20, 50, 100, 200, 300, 500, 1000, 2000),
    "gtsrb": (5, 10, 20, 50, 100, 200),
    "ag_news": (3, 5, 10, 15, 20, 30, 50),
    "reviews": (3, 5, 10, 15, 20, 30, 50),
}


GOALS = {  # set beforehand, from small trials: certified fraction by attack size, and half of the test set at
    ("mnist", "from scratch"): (
        {50: 98.3, 100: 97.9, 200: 97.2, 300: 96.6, 500: 96.0, 1000: 94.0, 2000: 91.5, 4000: 84.0},
        8400,
    ),
    ("mnist", "from scratch, no class sizes declared"): ({}, 7900),
    ("mnist", "from scratch, flipped labels alone"): ({}, 4000),
    ("cifar10", "from scratch"): (
        {10: 63.0, 20: 59.5, 30: 55.5, 40: 53.5, 50: 51.0, 100: 45.5, 200: 41.0, 300: 37.0, 500: 31.0},
        56,
    ),
    ("cifar10", "two public photographs"): (
        {10: 63.0, 20: 59.5, 30: 55.5, 40: 53.5, 50: 51.0, 100: 45.5, 200: 41.0, 300: 37.0, 500: 31.0},
        56,
    ),
    ("cifar10", "trusted images"): (
        {5: 69.0, 20: 67.5, 50: 63.5, 100: 58.5, 200: 52.5, 300: 47.0, 500: 37.0},
        255,
    ),
    ("gtsrb", "from scratch"): ({100: 80.0, 200: 67.0, 300: 58.0, 500: 46.0}, 420),
    ("gtsrb", "trusted images"): ({50: 94.0, 100: 91.0, 200: 86.0, 300: 80.0}, 900),
}
NAMES = {"mnist": "MNIST", "cifar10": "CIFAR-10", "gtsrb": "GTSRB"}


def parts() -> dict[str, str]:
    """What the page is filled with, by name, from the committed results."""
    made = {name: joined(table, "markdown") for name, table in tables(json.loads(RESULTS.read_text("utf-8"))).items()}
    weak = json.loads(WEAK.read_text("utf-8"))
    made |= {f"weak_{name}": joined(tables(weak)[name], "markdown") for name in ("table1", "table2", "costs")}
    made["weak_gains"] = weak_gains(weak)
    measured = json.loads(FRONTIER.read_text("utf-8"))["rows"]
    rows = [row for row in measured if row["track"] != ENCODER]
    behind = [row for row in measured if row["track"] == ENCODER]
    made |= {f"frontier_{name}": frontier_table(rows, name) for name in COLUMNS}
    made |= {f"encoder_{name}": frontier_table(behind, name, sizes) for name, sizes in BEHIND_ENCODER.items()}
    return {**made, "frontier_missing": missing(rows), "frontier_goals": goals(rows)}


def filled(page: str) -> str:
    """The page with its tables."""
    made = parts()
    return re.sub(
        r"<!-- (\w+) -->\n.*?<!-- end -->",
        lambda place: f"<!-- {place[1]} -->\n{made[place[1]]}\n<!-- end -->",
        page,
        flags=re.DOTALL,
    )


def frontier_table(rows: list[dict[str, Any]], dataset: str, sizes: tuple[int, ...] = ()) -> str:
    """Certified fraction of every row on a data set, and beneath it the balanced figure where there is one."""
    sizes = sizes or COLUMNS[dataset]
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


def goals(rows: list[dict[str, Any]]) -> str:
    """Each goal, what the best row of its track reached, and by how much it was missed."""
    head = ("data set", "track", "attack size", "goal", "best measured", "by", "")
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    for (dataset, track), (shares, half_at) in GOALS.items():
        own = [row for row in rows if row["dataset"] == dataset and _of_track(row, track)]
        if not own:
            continue
        for size, goal in shares.items():
            best = max(own, key=lambda row: row["certified_fraction"][row["attack_size"].index(size)])
            reached = best["certified_fraction"][best["attack_size"].index(size)]
            verdict = "reached" if reached >= goal else f"missed by {goal - reached:.2f}"
            cells = (NAMES[dataset], track, f"{size:,}", f"{goal:g} %", f"{reached:.2f} %", _words(best), verdict)
            lines.append("| " + " | ".join(cells) + " |")
        best = max(own, key=lambda row: row["half_at"] or 0)
        reached = best["half_at"] or 0
        verdict = "reached" if reached >= half_at else f"missed by {half_at - reached:,}"
        cells = (NAMES[dataset], track, "half at", f"{half_at:,}", f"{reached:,}", _words(best), verdict)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def weak_gains(weak: dict[str, Any]) -> str:
    """For the largest d of each data set and k: gains over d = 1, and how many radii grow, beside the paper's."""
    head = ("data set", "k", "d", "base accuracy, %", "greatest gain over d = 1", "least", "radius grows, %")
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    for dataset, k in dict.fromkeys((row["dataset"], row["k"]) for row in weak["statistics"]):
        d = max(row["d"] for row in weak["statistics"] if (row["dataset"], row["k"]) == (dataset, k))
        ours = {kind: _cell(weak[kind], dataset, k, d) for kind in ("statistics", "certified_fraction")}
        theirs = {kind: published_cell(kind, dataset, k, d) for kind in ours}
        gains = _gains(ours["certified_fraction"], _cell(weak["certified_fraction"], dataset, k, 1))
        paper = _gains(theirs["certified_fraction"], published_cell("certified_fraction", dataset, k, 1))
        shares = (("base_accuracy", 3), ("fraction_radius_larger", 6))
        cells = [dataset, f"{k:g}", str(d), *[""] * 4]
        for name, place in shares:
            cells[place] = f"{ours['statistics'][name]:.2f} / {theirs['statistics'][name]:.2f}"
        for choose, place in ((max, 4), (min, 5)):
            size, size_of_paper = choose(gains, key=gains.__getitem__), choose(paper, key=paper.__getitem__)
            cells[place] = f"{gains[size]:+.2f} at {size} / {paper[size_of_paper]:+.2f} at {size_of_paper}"
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(rows: list[dict[str, Any]], dataset: str, k: float, d: int) -> dict[str, Any]:
    return next(row for row in rows if (row["dataset"], row["k"], row["d"]) == (dataset, k, d))


def _gains(row: dict[str, Any], base: dict[str, Any]) -> dict[int, float]:
    """What a row certifies beyond another, by the attack sizes of both."""
    before = dict(zip(base["attack_size"], base["certified_fraction"], strict=True))
    after = zip(row["attack_size"], row["certified_fraction"], strict=True)
    return {size: share - before[size] for size, share in after if size in before}


def _of_track(row: dict[str, Any], track: str) -> bool:
    flips = row["threat"] == "label_flip"
    if track == "from scratch, flipped labels alone":
        return flips and row["track"] == "from scratch"
    if track == "from scratch, no class sizes declared":
        undeclared = row["parameters"].get("class_sizes") == "none" and not row["parameters"].get("one_sided")
        return not flips and row["track"] == "from scratch" and undeclared
    return not flips and row["track"] == track


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
        behind = f", {settings['map']['name']}" if "map" in settings else ""
        return f"{row['method']}{behind}, k = {settings['k']:g}, d = {settings['d']}"
    if "n_neighbors" in settings:
        what = f"K = {settings['n_neighbors']:,}"
    elif "near_share" in settings:
        what = f"near share {100 * settings['near_share']:g} %"
    else:
        what = f"near {settings['near']:g}"
    return f"{row['method']}, {settings['map']['name']}, {what}"


def _pair(share: float, balanced: float | None) -> str:
    return f"{share:.1f}" if balanced is None else f"{share:.1f} ({balanced:.1f})"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")

"""The files of a comparison; compare.html has a curve for each method, and opens without a network."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from poisonproof.comparison import Comparison, Row
from poisonproof.display import stairs, ticks
from poisonproof.report.comparison import cells, header, markdown, remarks, title
from poisonproof.report.figures import comparison_curves
from poisonproof.report.page import own_source, templates
from poisonproof.system.files import write_text

FILES = ("compare.json", "compare.md", "compare.svg", "compare.html")
HUES = {
    "dpa": 210,
    "finite": 155,
    "designed": 280,
    "infinite": 35,
    "binomial": 330,
    "bagging": 10,
    "neighbours": 50,
    "ballots": 190,
}
OTHER_HUES = (60, 185, 100, 245)


@dataclass(frozen=True)
class Curve:
    """The certified fraction of one method as a path, and how it is drawn."""

    title: str
    path: str
    hue: int
    line: str


def write_comparison(comparison: Comparison, folder: Path) -> None:
    """Write the table as JSON and Markdown, the curves as SVG, and both as a page."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = (
        json.dumps(comparison.as_dict(), indent=1, ensure_ascii=False) + "\n",
        markdown(comparison),
        comparison_curves(comparison),
        comparison_page(comparison),
    )
    for name, text in zip(FILES, texts, strict=True):
        write_text(folder / name, text)


def comparison_page(comparison: Comparison) -> str:
    """The page as HTML; names are data and are escaped wherever they stand."""
    certified = [row for row in comparison.rows if row.certificate is not None]
    largest = max((int(row.certificate.radius.max(initial=0)) for row in certified if row.certificate), default=0)
    top = largest + 1
    sizes = np.arange(top + 1)
    curves = []
    for at, row in enumerate(certified):
        assert row.certificate is not None
        shares = row.certificate.evaluate(comparison.y_test).certified_fraction(sizes)
        curves.append(Curve(row.title, stairs(shares), _hue(row, at), _line(row)))
    return (
        templates()
        .get_template("compare.html.j2")
        .render(
            name=comparison.dataset,
            title=title(comparison),
            unit=comparison.unit,
            majority=comparison.majority_share,
            curves=curves,
            ticks=ticks(top),
            header=header(comparison),
            rows=[cells(comparison, row) for row in comparison.rows],
            balanced=[(row.title, _balanced(row, comparison)) for row in certified],
            sizes=comparison.attack_sizes,
            remarks=remarks(comparison),
            style=own_source("page.css"),
        )
    )


def _balanced(row: Row, comparison: Comparison) -> list[float]:
    assert row.certificate is not None
    shares = row.certificate.evaluate(comparison.y_test).certified_fraction_balanced(list(comparison.attack_sizes))
    return [float(share) for share in shares]


def _hue(row: Row, at: int) -> int:
    """One hue for the methods that share their base classifiers."""
    return HUES.get(row.name.partition("-")[0], OTHER_HUES[at % len(OTHER_HUES)])


def _line(row: Row) -> str:
    if not row.proves:
        return "chance"
    return "thick" if row.name.endswith("tight") else "dashed" if row.name.endswith("run-off") else "plain"

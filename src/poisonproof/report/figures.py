"""Figures that stand in files of their own, as SVG text."""

from __future__ import annotations

import re
from io import StringIO
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from poisonproof.auditing.audit import AuditReport
    from poisonproof.comparison import Comparison

LINES = {  # of each row of a comparison: colour by base classifiers, thin for Theorem 2, thick for tight
    "dpa": ("#777777", "-", 1.2),
    "dpa-run-off": ("#777777", "--", 1.4),
    "finite": ("#0b6e4f", "-", 1.2),
    "finite-tight": ("#0b6e4f", "-", 2.4),
    "finite-run-off": ("#0b6e4f", "--", 1.4),
    "designed": ("#2b6cb0", "-", 1.2),
    "designed-tight": ("#2b6cb0", "-", 2.4),
    "infinite": ("#c77700", ":", 1.8),
    "binomial": ("#7b3fa0", ":", 1.8),
    "bagging": ("#b0413e", ":", 1.8),
    "neighbours": ("#14213d", "-.", 1.6),
    "ballots": ("#14213d", "--", 2.2),
}


def audit_scatter(report: AuditReport) -> str:
    """Certified radius against the smallest attack that really moved the prediction, one dot per target."""
    figure = Figure(figsize=(5.2, 4.4), layout="constrained")
    axes = figure.subplots()
    hit = report.smallest > 0
    top = int(max(report.radius.max(initial=0), report.smallest.max(initial=0))) + 2
    axes.fill_between([0, top], [0, top], color="#b0413e", alpha=0.10, linewidth=0)
    broken = "an attack on or below this line breaks the proof"
    axes.plot([0, top], [0, top], color="#b0413e", linewidth=1, label=broken)
    axes.scatter(report.radius[hit], report.smallest[hit], color="#0b6e4f", s=22, label="smallest successful attack")
    axes.scatter(
        report.radius[~hit], np.full(int((~hit).sum()), top), marker="^", color="#777777", s=22, label="none succeeded"
    )
    axes.set_xlabel(f"certified radius ({report.unit})")
    axes.set_ylabel(f"attack size ({report.unit})")
    axes.set_xlim(-0.5, int(report.radius.max(initial=0)) + 1)
    axes.set_ylim(0, top + 1)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right", frameon=False, fontsize=8)
    return _svg(figure)


def comparison_curves(comparison: Comparison) -> str:
    """Certified fraction against attack size, one line per method: full for a proof, dotted for a probability."""
    figure = Figure(figsize=(9, 4.4), layout="constrained")
    axes = figure.subplots()
    rows = [row for row in comparison.rows if row.certificate is not None]
    largest = max((int(row.certificate.radius.max(initial=0)) for row in rows if row.certificate), default=0)
    sizes = np.arange(largest + 2)
    for row in rows:
        assert row.certificate is not None
        colour, line, width = LINES[row.name]
        fraction = row.certificate.evaluate(comparison.y_test).certified_fraction(sizes)
        axes.step(sizes, fraction * 100, where="post", label=row.title, color=colour, linestyle=line, linewidth=width)
    axes.set_xlabel(f"attack size ({comparison.unit})")
    axes.set_ylabel("certified fraction, % (pointwise)")
    axes.set_ylim(0, 100)
    axes.set_xlim(0, sizes[-1])
    axes.spines[["top", "right"]].set_visible(False)
    if rows:
        dotted = (
            "" if all(row.proves for row in rows) else "\ndotted: for the ideal classifier,\nwith probability 99.9 %"
        )
        title = f"certified by{dotted}"
        axes.legend(
            loc="center left",
            bbox_to_anchor=(1, 0.5),
            frameon=False,
            title=title,
            alignment="left",
            fontsize=9,
            title_fontsize=9,
        )
    return _svg(figure)


def _svg(figure: Figure) -> str:
    buffer = StringIO()
    with mpl.rc_context({"svg.hashsalt": "bezoar", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    text = buffer.getvalue()
    return re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)

"""Figures that stand in files of their own, as SVG text."""

from __future__ import annotations

import re
from io import StringIO
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from bezoar.auditing import AuditReport


def audit_scatter(report: AuditReport) -> str:
    """Certified radius against the smallest attack that really moved the prediction, one dot per target."""
    figure = Figure(figsize=(5.2, 4.4), layout="constrained")
    axes = figure.subplots()
    hit = report.smallest > 0
    top = int(max(report.radius.max(initial=0), report.smallest.max(initial=0))) + 2
    axes.fill_between([0, top], [0, top], color="#b0413e", alpha=0.10, linewidth=0)
    axes.plot([0, top], [0, top], color="#b0413e", linewidth=1, label="an attack below this line breaks the proof")
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


def _svg(figure: Figure) -> str:
    buffer = StringIO()
    with mpl.rc_context({"svg.hashsalt": "bezoar", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    text = buffer.getvalue()
    return re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)

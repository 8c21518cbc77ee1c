"""Curves of runs side by side, whoever votes in them: the share of test samples, and the mean over classes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from poisonproof.display import shown
from research.paper.beside import Voted, labels
from research.paper.figures import COLOURS

LINES = {"base classifiers": "-", "ballots": "--", "neighbours": "-."}
MUCH_FARTHER = 10  # of two runs, one reaches so many times the attack sizes of the other


def beside_curves(runs: Sequence[Voted]) -> Figure:
    """Certified fraction against attack size, one line per run; to its right the same as the mean over classes.

    Attack sizes are drawn by their logarithm where one run reaches ten times as far as another.
    """
    figure = Figure(figsize=(10.4, 3.8), layout="constrained")
    pointwise, balanced = figure.subplots(1, 2, sharex=True)
    reaches = [int(run.certificate.radius.max(initial=0)) + 1 for run in runs]
    for run, label, reach, colour in zip(runs, labels(runs), reaches, cycle(COLOURS), strict=False):
        sizes = np.arange(reach + 1)
        style: dict[str, Any] = {"where": "post", "color": colour, "linewidth": 1.6}
        style["linestyle"] = LINES.get(run.method, ":")
        name = f"{shown(label)}; half at {run.half_at}".replace("$", r"\$")
        pointwise.step(sizes, 100 * run.certificate.evaluate(run.y).certified_fraction(sizes), label=name, **style)
        balanced.step(sizes, 100 * run.certificate.evaluate(run.y).certified_fraction_balanced(sizes), **style)
    constant = runs[0].certificate.evaluate(runs[0].y).majority_share
    pointwise.axhline(100 * constant, color="#999999", linewidth=0.8, linestyle=":", label="a constant answer")
    pointwise.set_ylabel("certified fraction, % (pointwise)")
    balanced.set_ylabel("balanced: mean over classes, %")
    for axes in (pointwise, balanced):
        if max(reaches) >= MUCH_FARTHER * min(reaches):
            axes.set_xscale("symlog", linthresh=10)
        axes.set_xlabel(f"attack size ({runs[0].certificate.unit})")
        axes.set_ylim(0, 100)
        axes.set_xlim(0)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(shown(runs[0].dataset), fontsize=10, parse_math=False)
    figure.legend(loc="outside right center", frameon=False, fontsize=8)
    return figure

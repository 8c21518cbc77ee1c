"""The paper's Figures 3 and 4 and the frontier, drawn from the measures of rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from poisonproof.display import shown
from poisonproof.errors import PoisonproofError
from research.paper.published import published, published_cell
from research.paper.results import THEOREM, Measures, label_of

COLOURS = ("#777777", "#2b6cb0", "#0b6e4f", "#c77700", "#b0413e", "#7b3fa0")
FORMATS = ("png", "svg", "pdf")
LETTERS_BESIDE_A_PANEL = 36


def figures(rows: Sequence[Measures]) -> dict[str, Figure]:
    """Figure 3 and Figure 4 for each data set and k, and the frontier of each data set."""
    made: dict[str, Figure] = {}
    plain = [row for row in rows if not row["designed"]]
    for dataset, k in dict.fromkeys((row["dataset"], row["k"]) for row in plain):
        of_one_k = [row for row in plain if (row["dataset"], row["k"]) == (dataset, k)]
        if len(of_one_k) > 1 or published_cell("statistics", dataset, k, of_one_k[0]["d"]):
            stem = f"{dataset.lower().replace('-', '')}-k{k:g}"
            made[f"figure3-{stem}"] = certified_curves(of_one_k)
            made[f"figure4-{stem}"] = bound_improvement(of_one_k)
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        of_one_set = [row for row in rows if row["dataset"] == dataset]
        if len({row["k"] for row in of_one_set}) > 2:
            made[f"frontier-{dataset.lower().replace('-', '')}"] = frontier_curves(of_one_set)
    return made


def certified_curves(rows: Sequence[Measures]) -> Figure:
    """Figure 3: certified fraction against attack size for each d, and the gain over d = 1; dots are the paper's.

    The gain is drawn where there are a run with d = 1 and others.
    """
    base = next((row for row in rows if row["d"] == 1), None) if len(rows) > 1 else None
    gain_label = None if base is None else f"change against d = {label_of(base)}, points"
    figure, left, right = _panels(rows[0], gain_label)
    for row, colour in zip(rows, cycle(COLOURS), strict=False):
        sizes, share = _curve(row, THEOREM)
        left.step(sizes, share, where="post", color=colour, linewidth=1.6, label=f"d = {_words(row)}")
        theirs = published_cell("certified_fraction", row["dataset"], row["k"], row["d"])
        if theirs:
            left.plot(theirs["attack_size"], theirs["certified_fraction"], "o", color=colour, markersize=3.5)
        if right is not None and base is not None and row is not base:
            _, before = _curve(base, THEOREM)
            n = max(len(share), len(before))
            gain = np.pad(share, (0, n - len(share))) - np.pad(before, (0, n - len(before)))
            right.step(np.arange(n), gain, where="post", color=colour, linewidth=1.4)
    if any(published_cell("certified_fraction", row["dataset"], row["k"], row["d"]) for row in rows):
        left.plot([], [], "o", color="#555555", markersize=3.5, label="paper")
        _later_points(left, rows[0])
    left.set_ylim(0, 100)
    left.legend(frameon=False, fontsize=8, loc="best")
    return figure


def bound_improvement(rows: Sequence[Measures]) -> Figure:
    """Figure 4: Theorem 2 against the DPA bound on the same base classifiers, and the gain where d is above 1."""
    gains = any(row["d"] > 1 for row in rows)
    figure, left, right = _panels(rows[0], "Theorem 2 less DPA bound, points" if gains else None)
    for row, colour in zip(rows, cycle(COLOURS), strict=False):
        sizes, share = _curve(row, THEOREM)
        _, bound = _curve(row, "dpa-bound")
        left.step(sizes, share, where="post", color=colour, linewidth=1.6, label=f"d = {_words(row)}, Theorem 2")
        left.step(np.arange(len(bound)), bound, where="post", color=colour, linewidth=1, linestyle=":")
        if right is not None:
            gain = share - np.pad(bound, (0, len(share) - len(bound)))
            right.step(sizes, gain, where="post", color=colour, linewidth=1.4)
    left.plot([], [], ":", color="#555555", linewidth=1, label="DPA bound")
    left.set_ylim(0, 100)
    left.legend(frameon=False, fontsize=8, loc="best")
    return figure


def frontier_curves(rows: Sequence[Measures]) -> Figure:
    """Every k, one line each: full for plain spreads (largest d), dashed for designed ones with the tight bound."""
    figure = Figure(figsize=(7.6, 4.2), layout="constrained")
    axes = figure.subplots()
    plain = {row["k"]: row for row in sorted(rows, key=lambda row: row["d"]) if not row["designed"]}
    designed = [row for row in rows if row["designed"] and "tight" in row["certified"]]
    colours = mpl.colormaps["viridis"](np.linspace(0, 0.85, max(2, len(plain))))
    for (k, row), colour in zip(sorted(plain.items()), colours, strict=False):
        axes.step(
            *_curve(row, THEOREM), where="post", color=colour, linewidth=1.6, label=f"k = {k:g}, d = {_words(row)}"
        )
    for row in designed:
        near = int(np.argmin([abs(k - row["k"]) for k in sorted(plain)]))
        label = f"designed, k = {row['k']:.4g}, d = {row['d']}"
        axes.step(*_curve(row, "tight"), where="post", color=colours[near], linewidth=1.3, linestyle="--", label=label)
    axes.axhline(50, color="#999999", linewidth=0.7)
    axes.set_xlabel("attack size (training samples)")
    axes.set_ylabel("certified fraction, % (pointwise)")
    axes.set_title(shown(rows[0]["dataset"]), fontsize=10, parse_math=False)
    axes.set_ylim(0, 100)
    axes.set_xlim(0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a figure; the format is the suffix of the name, the bytes are the same every time."""
    kind = check_format(path)
    dates = {"svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}
    with mpl.rc_context({"svg.hashsalt": "bezoar", "svg.fonttype": "none"}):
        figure.savefig(path, metadata=dates[kind], dpi=140)


def check_format(path: Path) -> str:
    """The format that a file's name asks for; one sentence if there is no such format."""
    kind = path.suffix.lstrip(".")
    if kind not in FORMATS:
        raise PoisonproofError(f"A figure is written as .{', .'.join(FORMATS)}. Got {path.name} instead.")
    return kind


def _panels(row: Measures, gain_label: str | None) -> tuple[Figure, Any, Any]:
    """A figure with a panel of curves and, if there is a gain to show, another for it; no panel stays empty."""
    labels = ["certified fraction, % (pointwise)", *([] if gain_label is None else [gain_label])]
    figure = Figure(figsize=(4.6 * len(labels), 3.6), layout="constrained")
    axes = figure.subplots(1, len(labels), squeeze=False)[0]
    for side, label in zip(axes, labels, strict=True):
        side.set_xlabel("attack size (training samples)")
        side.set_ylabel(fill(shown(label), LETTERS_BESIDE_A_PANEL), parse_math=False)
        side.spines[["top", "right"]].set_visible(False)
    if gain_label is not None:
        axes[1].axhline(0, color="#999999", linewidth=0.7)
    figure.suptitle(f"{shown(row['dataset'])}, k = {row['k']:g}", fontsize=10, parse_math=False)
    return figure, axes[0], axes[1] if gain_label is not None else None


def _words(row: Measures) -> str:
    """What a legend calls a run; nothing in it is markup."""
    return shown(label_of(row)).replace("$", r"\$")


def _later_points(axes: Any, row: Measures) -> None:
    """The best published numbers of any method at this k."""
    for theirs in published()["run_off_election_and_boosted"]["best_published"]:
        if (theirs["dataset"], theirs["k"]) == (row["dataset"], row["k"]):
            axes.plot(theirs["attack_size"], theirs["value"], "k+", markersize=6, label="best published")


def _curve(row: Measures, method: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Attack sizes and certified fraction in percent; the last size is one beyond the largest radius."""
    counts = np.array([*row["certified"][method], 0])
    return np.arange(len(counts)), 100 * counts / row["n_test"]

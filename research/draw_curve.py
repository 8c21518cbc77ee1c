"""Draw docs/curve.svg, the picture of the README: a real run beside the best published figures.

poisonproof run mnist --data-dir DIR --learner research.learners:digits --k 1200 --d 16 --votes-only --out runs/mnist
python -m research.draw_curve runs/mnist DIR docs/curve.svg
"""

from __future__ import annotations

import re
import sys
from io import StringIO
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from poisonproof import Votes, certify, load
from poisonproof.system.files import read_record, write_text
from research.paper.published import NAMES, published_for

OURS, THEIRS, INK, SOFT = "#0b6e4f", "#b35900", "#24292f", "#57606a"


def draw(run: Path, folder: Path) -> str:
    """The certified fraction of a run against attack size, as SVG text."""
    certificate = certify(Votes.load(run / "votes.npy"))
    manifest = read_record(run / "manifest.json")
    name = manifest["settings"]["dataset"]["name"]
    y = load(name, folder).test.labels
    spread = certificate.spread
    published = published_for(name, len(certificate), certificate.unit, spread.k)
    sizes = np.arange(int(certificate.radius.max()) + 2)
    fraction = 100 * certificate.evaluate(y).certified_fraction(sizes)
    changes = np.flatnonzero(np.r_[True, np.diff(fraction) != 0, True][: len(sizes)])

    figure = Figure(figsize=(7.2, 3.7), layout="constrained")
    axes = figure.subplots()
    axes.fill_between(sizes[changes], fraction[changes], step="post", color=OURS, alpha=0.12, linewidth=0)
    label = f"poisonproof, {spread.n_subsets:,} base classifiers (k = {spread.k:g}, d = {spread.d})"
    axes.step(sizes[changes], fraction[changes], where="post", color=OURS, linewidth=2, label=label)
    axes.scatter(
        [cell.attack_size for cell in published],
        [cell.percent for cell in published],
        color=THEIRS,
        zorder=3,
        s=30,
        label=f"best published (k = {spread.k:g})",
    )
    beside = {"textcoords": "offset points", "ha": "center", "fontsize": 8.5}
    for cell in published:
        here = fraction[cell.attack_size]
        axes.annotate(f"{np.floor(here * 10) / 10:.1f}", (cell.attack_size, here), (0, 6), color=OURS, **beside)
        axes.annotate(f"{cell.percent:.1f}", (cell.attack_size, cell.percent), (0, -13), color=THEIRS, **beside)
    axes.set_xlabel("attack size: training samples inserted or removed", color=SOFT)
    axes.set_ylabel("certified fraction, % (pointwise)", color=SOFT)
    axes.set_title(
        f"{NAMES.get(name, name)}: test images that are right and cannot be changed", loc="left", fontsize=11, color=INK
    )
    axes.set_xlim(0, sizes[-1])
    axes.set_ylim(0, 108)
    axes.set_yticks(range(0, 101, 25))
    axes.tick_params(colors=SOFT)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower left", frameon=False, fontsize=9)
    buffer = StringIO()
    with mpl.rc_context({"svg.hashsalt": "bezoar", "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, facecolor="white")
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    return re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), text)


if __name__ == "__main__":
    run, folder, out = map(Path, sys.argv[1:4])
    write_text(out, draw(run, folder))

"""Draw paper/figures/frontier.svg from frontier/results.json: the best certified fraction of each family.

python -m research.draw_frontier
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

FRONTIER = Path(__file__).parent / "frontier" / "results.json"
PICTURE = Path(__file__).parent / "paper" / "figures" / "frontier.svg"
NAMES = {"mnist": "MNIST", "cifar10": "CIFAR-10", "gtsrb": "GTSRB"}
FAMILIES = {
    "base classifiers vote": ("#777777", lambda row: row["family"] == "ensemble"),
    "plain radius neighbours (Jia et al. 2022)": ("#c77700", lambda row: row["parameters"].get("one_sided", False)),
    "neighbours": ("#2b6cb0", lambda row: "n_neighbors" in row["parameters"] and row["track"] == "from scratch"),
    "ballots": (
        "#0b6e4f",
        lambda row: row["method"] == "ballots" and row["track"] == "from scratch" and row["family"] == "samples vote",
    ),
    "ballots, by two public photographs": ("#4a9d7c", lambda row: row["track"] == "two public photographs"),
    "blocks of ballots": ("#7b3fa0", lambda row: row["family"] == "blocks"),
    "with 1,000 trusted images": ("#b0413e", lambda row: row["track"] == "trusted images"),
}


def drawn() -> Figure:
    """Three panels, one for each data set."""
    measured = json.loads(FRONTIER.read_text("utf-8"))["rows"]
    rows = [row for row in measured if row["threat"] == "insert_remove" and row["track"] != "public encoder"]
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    for axes, (dataset, name) in zip(figure.subplots(1, 3), NAMES.items(), strict=True):
        for label, (colour, belongs) in FAMILIES.items():
            own = [row for row in rows if row["dataset"] == dataset and belongs(row)]
            if own:
                best = [max(shares) for shares in zip(*(row["certified_fraction"] for row in own), strict=True)]
                axes.plot(own[0]["attack_size"], best, color=colour, linewidth=1.4, label=label)
        axes.set_xscale("symlog", linthresh=10)
        axes.set_xlim(0, 10000)
        axes.set_ylim(0, 100)
        axes.set_title(name, fontsize=10)
        axes.set_xlabel("attack size")
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("certified fraction, % (pointwise)")
    figure.axes[1].legend(frameon=False, fontsize=7, loc="upper right")
    return figure


if __name__ == "__main__":
    with mpl.rc_context({"svg.hashsalt": "poisonproof", "svg.fonttype": "none"}):
        drawn().savefig(PICTURE, metadata={"Date": None})

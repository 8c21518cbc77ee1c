"""poisonproof plot: the paper's figures of one or several runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from poisonproof.cli import options
from poisonproof.cli.table import Runs, beside_each_other, opened_run
from poisonproof.errors import PoisonproofError

EXAMPLES = (
    "Example: `poisonproof plot runs/digits --out digits.png`; "
    "`poisonproof plot runs/mnist-d1 runs/mnist-d16 --figure 4 --out mnist.pdf --data-dir DIR`"
)


def command(
    runs: Runs,
    out: Annotated[Path, typer.Option("--out", help="File to write: .png, .svg or .pdf.")],
    figure: Annotated[
        str,
        typer.Option(
            "--figure",
            help="`3` certified fraction and what d adds, `4` Theorem 2 against the DPA bound, `frontier` every k.",
        ),
    ] = "3",
    data_dir: options.DataDir = None,
    json: options.Json = False,
) -> None:
    """The figures of the paper from runs on one data set, published numbers as dots where there are any.

    Figures 3 and 4 compare runs of one k; `frontier` takes any. Runs that k and d do not tell apart are labelled by
    what they differ in. If training samples vote in some of the runs, all curves stand in one figure, and beside them
    the same as means over classes; figure 4 is of base classifiers only.
    """
    from poisonproof.paper.beside_figure import beside_curves
    from poisonproof.paper.figures import (
        bound_improvement,
        certified_curves,
        check_format,
        frontier_curves,
        save,
    )
    from poisonproof.paper.results import told_apart

    kinds = {"3": certified_curves, "4": bound_improvement, "frontier": frontier_curves}
    if figure not in kinds:
        raise PoisonproofError(f"The figure is one of {', '.join(kinds)}. Got '{figure}' instead.")
    check_format(out)
    opened = [opened_run(run, data_dir) for run in runs]
    measures = [one.measures for one in opened if one.measures is not None]
    rows = sorted(told_apart(measures), key=lambda row: (row["k"], row["d"]))
    voted = beside_each_other(opened)
    if len({run.dataset for run in voted} or {row["dataset"] for row in rows}) > 1:
        raise PoisonproofError("These runs are of different data sets; draw each data set by itself.")
    if voted and figure == "4":
        if not rows:
            raise PoisonproofError(
                f"Figure 4 sets Theorem 2 against the DPA bound, both of base classifiers; in {runs[0]} samples vote."
            )
        omitted = ", ".join(run.folder for run in voted if run.said is not None)
        options.note(f"left out: {omitted}, where samples vote; figure 4 is about two bounds of base classifiers")
        voted = []
    if not voted and figure != "frontier" and len({row["k"] for row in rows}) > 1:
        raise PoisonproofError(f"Figure {figure} compares runs of one k; use --figure frontier for several.")
    save(beside_curves(voted) if voted else kinds[figure](rows), out)
    if json:
        options.print_json({"out": str(out), "figure": figure, "runs": [str(run) for run in runs]})
    else:
        options.note(f"figure: {out}")

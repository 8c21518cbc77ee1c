"""poisonproof plot: the paper's figures of one or several runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from poisonproof.cli import options
from poisonproof.cli.table import Runs, measures_of
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
    what they differ in.
    """
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
    rows = sorted(told_apart([measures_of(run, data_dir) for run in runs]), key=lambda row: (row["k"], row["d"]))
    if len({row["dataset"] for row in rows}) > 1:
        raise PoisonproofError("These runs are of different data sets; draw each data set by itself.")
    if figure != "frontier" and len({row["k"] for row in rows}) > 1:
        raise PoisonproofError(f"Figure {figure} compares runs of one k; use --figure frontier for several.")
    save(kinds[figure](rows), out)
    if json:
        options.print_json({"out": str(out), "figure": figure, "runs": [str(run) for run in runs]})
    else:
        options.note(f"figure: {out}")

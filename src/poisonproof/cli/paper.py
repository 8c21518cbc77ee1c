"""poisonproof paper: the paper's tables and figures from our own runs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from poisonproof.cli import options
from poisonproof.cli.progress import progress_bar
from poisonproof.errors import PoisonproofError

EXAMPLES = (
    "Example: `poisonproof paper --quick --data-dir DIR`; `poisonproof paper --data-dir DIR --out runs/paper`; "
    "`poisonproof paper --only mnist --data-dir DIR`; `poisonproof paper --collect --out runs/paper`"
)

PRINTED = ("certified_fraction", "statistics", "certified_accuracy_attack_size_1")


def command(
    data_dir: options.DataDir = None,
    out: Annotated[
        Path, typer.Option("--out", help="Where runs, tables and figures go; what is there is kept.")
    ] = Path("runs/paper"),
    only: Annotated[str, typer.Option("--only", help="Data sets, such as mnist,gtsrb.")] = "mnist,cifar10,gtsrb",
    frontier: Annotated[
        bool, typer.Option("--frontier/--no-frontier", help="Also larger k and designed spreads.")
    ] = True,
    quick: Annotated[
        bool, typer.Option("--quick", help="A few thousand training images, smaller k: see it work in minutes.")
    ] = False,
    collect: Annotated[
        bool, typer.Option("--collect", help="Train nothing: tables and figures of what has been run.")
    ] = False,
    learner: options.Learner = None,
    download: options.Download = False,
    n_jobs: options.Jobs = -1,
    json: options.Json = False,
) -> None:
    """Run all rows of the paper's Table 1 and beyond; write its tables and figures beside the published numbers.

    The rows of one data set share features and kernels. Interrupted, the same command goes on.
    """
    from poisonproof.data import load
    from poisonproof.paper.campaign import (
        QUICK,
        costs,
        measured,
        quick_look,
        run_rows,
    )
    from poisonproof.paper.page import cells_above, write_campaign
    from poisonproof.paper.rows import (
        chosen,
        frontier_rows,
        learner_of,
        table_rows,
    )
    from poisonproof.paper.tables import joined, tables
    from poisonproof.system.progress import watched

    options.warnings_as_notes()
    if quick and out == Path("runs/paper"):
        out = Path("runs/paper-quick")
    records, spent = [], {}
    for name in chosen([part.strip() for part in only.split(",") if part.strip()]):
        rows = table_rows(name, QUICK[name][2] if quick else 1)
        rows += frontier_rows(name) if frontier and not quick else []
        if not collect:
            dataset = load(name, data_dir, download=download)
            dataset = quick_look(dataset) if quick else dataset
            (out / name).mkdir(parents=True, exist_ok=True)
            with progress_bar(name) as progress, watched(progress):
                run_rows(
                    dataset,
                    rows,
                    partial(learner_of, name, learner),
                    out / name,
                    n_jobs=n_jobs,
                )
        records += measured(out / name, rows)
        spent[name] = costs(out / name)
    if not records:
        raise PoisonproofError(f"Nothing has been run in {out} yet; leave --collect out.")
    results = write_campaign(out, records, spent)
    above, cells = cells_above(results)
    if json:
        options.print_json({name: results[name] for name in PRINTED} | {"above": above, "cells": cells})
        return
    made = tables(results)
    options.print_lines(joined([*made["table1"], *made["table2"], *made["table3"]], "text"))
    options.note(f"{above} of {cells} cells of the paper's Table 1 are higher here" if cells else "a quick look")
    options.note(f"tables, figures and page: {out / 'paper.html'}")

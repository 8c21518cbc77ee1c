"""The paper's campaign, tables and figures: `python -m research.paper run|table|plot`, from the repository's root.

python -m research.paper run --quick --data-dir DIR
python -m research.paper run --data-dir DIR --out runs/paper
python -m research.paper run --collect --out runs/paper
python -m research.paper table runs/mnist-d1 runs/mnist-d16 --data-dir DIR --format latex
python -m research.paper plot runs/mnist-d1 runs/mnist-d16 --figure 4 --out mnist.pdf --data-dir DIR
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from poisonproof.cli import options, output
from poisonproof.cli.main import OneSentence
from poisonproof.cli.output import progress_bar
from poisonproof.core.certificate import Certificate
from poisonproof.core.votes import Votes
from poisonproof.errors import PoisonproofError
from poisonproof.runs.manifest import Manifest
from poisonproof.runs.recipe import reopen
from poisonproof.system.files import write_text
from poisonproof.system.progress import watched
from research.datasets import load
from research.paper import beside_tables
from research.paper.beside import Voted, check_comparable
from research.paper.beside_figure import beside_curves
from research.paper.campaign import QUICK, costs, measured, quick_look, run_rows
from research.paper.figures import bound_improvement, certified_curves, check_format, frontier_curves, save
from research.paper.measure import measure
from research.paper.page import as_json, cells_above, write_campaign
from research.paper.results import collected, told_apart
from research.paper.rows import chosen, frontier_rows, learner_of, table_rows
from research.paper.tables import joined, tables

app = typer.Typer(cls=OneSentence, rich_markup_mode=None, no_args_is_help=True, pretty_exceptions_enable=False)
PRINTED = ("certified_fraction", "statistics", "certified_accuracy_attack_size_1")


@app.command("run")
def campaign(
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
    download: Annotated[bool, typer.Option("--download", help="Fetch official files that are missing.")] = False,
    n_jobs: options.Jobs = -1,
    json: options.Json = False,
) -> None:
    """Run all rows of the paper's Table 1 and beyond; write its tables and figures beside the published numbers.

    The rows of one data set share features and kernels. Interrupted, the same command goes on.
    """
    output.warnings_as_notes()
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
        output.print_json({name: results[name] for name in PRINTED} | {"above": above, "cells": cells})
        return
    made = tables(results)
    output.print_lines(joined([*made["table1"], *made["table2"], *made["table3"]], "text"))
    output.note(f"{above} of {cells} cells of the paper's Table 1 are higher here" if cells else "a quick look")
    output.note(f"tables, figures and page: {out / 'paper.html'}")


Runs = Annotated[list[Path], typer.Argument(help="Directories of runs.", show_default=False)]
KINDS = {
    "1": "table1",
    "2": "table2",
    "3": "table3",
    "later": "later",
    "frontier": "frontier",
    "medians": "medians",
    "certificates": "certificates",
}
RECORDS = {
    "1": "certified_fraction",
    "2": "statistics",
    "3": "certified_accuracy_attack_size_1",
    "frontier": "frontier",
    "medians": "frontier",
}


@app.command("table")
def table_of(
    runs: Runs,
    table: Annotated[
        str,
        typer.Option(
            "--table",
            help="`1` certified fraction, `2` statistics, `3` one shared attack of size 1, `later` the best published "
            "numbers, `frontier` the best over all k, `medians`, `certificates`.",
        ),
    ] = "1",
    form: Annotated[str, typer.Option("--format", help="`text`, `markdown`, `latex` or `json`.")] = "text",
    data_dir: options.DataDir = None,
    out: Annotated[Path | None, typer.Option("--out", help="A file instead of the terminal.")] = None,
    json: options.Json = False,
) -> None:
    """The tables of the paper from runs, with the published numbers beside ours where there are any.

    The test labels are read again from where each run found its data. Runs that k and d do not tell apart are labelled
    by what they differ in. If training samples vote in some of the runs, table 1 is one table for all, with the mean
    over classes in brackets; columns that are about base classifiers are left out for them, and that is said.
    """
    if table not in KINDS:
        raise PoisonproofError(f"The table is one of {', '.join(KINDS)}. Got '{table}' instead.")
    opened = [opened_run(run, data_dir) for run in runs]
    voted = beside_each_other(opened)
    results = collected(told_apart([one.measures for one in opened if one.measures is not None]))
    in_json = json or form == "json"
    text = _as_json(table, results, voted) if in_json else _as_text(table, results, voted, form)
    if not text:
        raise PoisonproofError(f"These runs have nothing for table '{table}': nobody published numbers for their k.")
    if out is None:
        output.print_lines(text.removesuffix("\n"))
    else:
        write_text(out, text)


def _as_json(table: str, results: dict[str, Any], voted: Sequence[Voted]) -> str:
    if table not in RECORDS:
        raise PoisonproofError(f"Table '{table}' has no JSON form; use --format text, markdown or latex.")
    of_base, samples = results[RECORDS[table]], [run for run in voted if run.said is not None]
    if not samples:
        return as_json(of_base)
    if table == "1":
        return as_json(beside_tables.records_of(voted))
    if table == "2":
        return as_json([*of_base, *beside_tables.statistics_of(samples)])
    if table == "3":
        return as_json([*of_base, *beside_tables.shared_of(samples)])
    best = beside_tables.best_of(voted)
    return as_json({name: {**of_base.get(name, {}), "of_all": best[name]} for name in best})


def _as_text(table: str, results: dict[str, Any], voted: Sequence[Voted], form: str) -> str:
    samples = [run for run in voted if run.said is not None]
    if not samples:
        return joined(tables(results)[KINDS[table]], form)
    of_base = tables(results)[KINDS[table]] if len(samples) < len(voted) else []
    if table == "1":
        return joined(beside_tables.side_by_side(voted), form)
    if table == "2":
        return joined([*of_base, *beside_tables.statistics(samples)], form)
    if table == "3":
        return joined([*of_base, *beside_tables.shared(samples)], form)
    if table == "frontier":
        return joined([*of_base, *beside_tables.frontier(voted)], form)
    if table == "medians":
        return joined([*of_base, *beside_tables.medians(samples)], form)
    why = beside_tables.OF_BASE_CLASSIFIERS[table]
    if len(samples) == len(voted):
        raise PoisonproofError(f"There is no table '{table}' of {samples[0].folder}, where samples vote: {why}.")
    output.note(f"left out: {', '.join(run.folder for run in samples)}, where samples vote; {why}")
    return joined(of_base, form)


class OpenedRun(NamedTuple):
    """A complete run with its true labels; ``measures`` are those of base classifiers, if they vote in it."""

    folder: Path
    manifest: Manifest
    certificate: Certificate
    y: Any
    measures: dict[str, Any] | None


def opened_run(run: Path, data_dir: Path | None) -> OpenedRun:
    """A complete run, its test labels read from the data again."""
    reopened = reopen(run, None, data_dir)
    reopened.check_same_data(run)
    manifest, y = reopened.manifest, reopened.dataset.test.labels
    certificate = Certificate.load(run / "certificate.npz")
    if manifest.settings.election is not None:
        return OpenedRun(run, manifest, certificate, y, None)
    measures = measure(Votes.load(run / "votes.npy"), certificate, y, manifest)
    measures |= {"asked_learner": (manifest.recipe or {}).get("learner"), "folder": run.name}
    return OpenedRun(run, manifest, certificate, y, measures)


def beside_each_other(opened: Sequence[OpenedRun]) -> list[Voted]:
    """The runs side by side, if samples vote in any of them; otherwise none, and the paper's own forms serve."""
    if all(one.measures is not None for one in opened):
        return []
    voted = [Voted.of(one.folder, one.manifest, one.certificate, one.y) for one in opened]
    check_comparable(voted)
    return voted


@app.command("plot")
def plot(
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
        output.note(f"left out: {omitted}, where samples vote; figure 4 is about two bounds of base classifiers")
        voted = []
    if not voted and figure != "frontier" and len({row["k"] for row in rows}) > 1:
        raise PoisonproofError(f"Figure {figure} compares runs of one k; use --figure frontier for several.")
    save(beside_curves(voted) if voted else kinds[figure](rows), out)
    if json:
        output.print_json({"out": str(out), "figure": figure, "runs": [str(run) for run in runs]})
    else:
        output.note(f"figure: {out}")


if __name__ == "__main__":
    app()

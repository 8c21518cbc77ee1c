"""poisonproof table: the paper's tables of one or several runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from poisonproof.cli import options
from poisonproof.cli.reopening import check_same_data, reopen_data
from poisonproof.errors import PoisonproofError

EXAMPLES = (
    "Example: `poisonproof table runs/digits`; `poisonproof table runs/mnist-d1 runs/mnist-d16 --data-dir DIR --format "
    "latex`; `poisonproof table runs/digits --table 3 --format json`"
)
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


def command(
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
    by what they differ in.
    """
    from poisonproof.paper.page import as_json
    from poisonproof.paper.results import collected, told_apart
    from poisonproof.paper.tables import joined, tables
    from poisonproof.system.files import write_text

    if table not in KINDS:
        raise PoisonproofError(f"The table is one of {', '.join(KINDS)}. Got '{table}' instead.")
    results = collected(told_apart([measures_of(run, data_dir) for run in runs]))
    if json or form == "json":
        if table not in RECORDS:
            raise PoisonproofError(f"Table '{table}' has no JSON form; use --format text, markdown or latex.")
        text = as_json(results[RECORDS[table]])
    else:
        text = joined(tables(results)[KINDS[table]], form)
    if not text:
        raise PoisonproofError(f"These runs have nothing for table '{table}': nobody published numbers for their k.")
    if out is None:
        options.print_lines(text.removesuffix("\n"))
    else:
        write_text(out, text)


def measures_of(run: Path, data_dir: Path | None) -> dict[str, Any]:
    """The measures of a complete run, its test labels read from the data again."""
    from poisonproof.certificates.methods import Certificate
    from poisonproof.paper.measure import measure
    from poisonproof.votes.votes import Votes

    reopened = reopen_data(run, None, data_dir)
    check_same_data(run, reopened)
    if reopened.manifest.settings.election is not None:
        raise PoisonproofError(f"The paper's tables and figures are of base classifiers; in {run} samples vote.")
    votes = Votes.load(run / "votes.npy")
    certificate = Certificate.load(run / "certificate.npz")
    measures = measure(votes, certificate, reopened.dataset.y_test, reopened.manifest)
    return measures | {"asked_learner": (reopened.manifest.asked or {}).get("learner"), "folder": run.name}

"""poisonproof table: the paper's tables of one or several runs, whoever votes in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from poisonproof.cli import options
from poisonproof.cli.reopening import check_same_data, reopen_data
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.certificates.certificate import Certificate
    from poisonproof.paper.beside import Voted
    from poisonproof.runs.manifest import Manifest

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
    by what they differ in. If training samples vote in some of the runs, table 1 is one table for all, with the mean
    over classes in brackets; columns that are about base classifiers are left out for them, and that is said.
    """
    from poisonproof.paper.results import collected, told_apart
    from poisonproof.system.files import write_text

    if table not in KINDS:
        raise PoisonproofError(f"The table is one of {', '.join(KINDS)}. Got '{table}' instead.")
    opened = [opened_run(run, data_dir) for run in runs]
    voted = beside_each_other(opened)
    results = collected(told_apart([one.measures for one in opened if one.measures is not None]))
    as_json = json or form == "json"
    text = _as_json(table, results, voted) if as_json else _as_text(table, results, voted, form)
    if not text:
        raise PoisonproofError(f"These runs have nothing for table '{table}': nobody published numbers for their k.")
    if out is None:
        options.print_lines(text.removesuffix("\n"))
    else:
        write_text(out, text)


def _as_json(table: str, results: dict[str, Any], voted: Sequence[Voted]) -> str:
    from poisonproof.paper import beside_tables
    from poisonproof.paper.page import as_json

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
    from poisonproof.paper import beside_tables
    from poisonproof.paper.tables import joined, tables

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
    options.note(f"left out: {', '.join(run.folder for run in samples)}, where samples vote; {why}")
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
    from poisonproof.certificates.methods import Certificate
    from poisonproof.paper.measure import measure
    from poisonproof.votes.votes import Votes

    reopened = reopen_data(run, None, data_dir)
    check_same_data(run, reopened)
    manifest, y = reopened.manifest, reopened.dataset.y_test
    certificate = Certificate.load(run / "certificate.npz")
    if manifest.settings.election is not None:
        return OpenedRun(run, manifest, certificate, y, None)
    measures = measure(Votes.load(run / "votes.npy"), certificate, y, manifest)
    measures |= {"asked_learner": (manifest.asked or {}).get("learner"), "folder": run.name}
    return OpenedRun(run, manifest, certificate, y, measures)


def beside_each_other(opened: Sequence[OpenedRun]) -> list[Voted]:
    """The runs side by side, if samples vote in any of them; otherwise none, and the paper's own forms serve."""
    from poisonproof.paper.beside import Voted, check_comparable

    if all(one.measures is not None for one in opened):
        return []
    voted = [Voted.of(one.folder, one.manifest, one.certificate, one.y) for one in opened]
    check_comparable(voted)
    return voted

"""bezoar update: change the training data of a run without starting over."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bezoar.cli import options, reopening
from bezoar.cli.run import progress_bar

if TYPE_CHECKING:
    from bezoar.data import Dataset

EXAMPLES = "Example: `bezoar update runs/digits --remove 3,17`; `bezoar update runs/my.csv-k20-d16 my.csv`"


def command(
    run: reopening.Run,
    data: reopening.Data = None,
    remove: Annotated[
        str | None,
        typer.Option("--remove", help="Training rows to leave out, as they stand now: `3,17`, or a file of numbers."),
    ] = None,
    data_dir: options.DataDir = None,
    n_jobs: options.Jobs = -1,
    json: options.Json = False,
) -> None:
    """Make a run what it would be on changed data; train only the base classifiers whose subset changed.

    DATA is the data as it should be now: your file with rows added, deleted or corrected. What was concluded from
    the old data is deleted first; votes and base classifiers that saw a removed sample are overwritten.
    """
    from bezoar.report.page import write_report
    from bezoar.run import run as run_again

    options.warnings_as_notes()
    reopened = reopening.reopen(run, data, data_dir, n_jobs)
    asked = reopened.manifest["asked"]
    dataset = replace(reopened.dataset, name=reopened.manifest["settings"]["dataset"]["name"])
    if data is not None:
        asked = {**{name: asked[name] for name in ("learner", "options", "plan") if name in asked}, "data": data}
    if remove is not None:
        dataset, asked = _removed(dataset, asked, reopening.row_numbers(remove))
    with progress_bar() as progress:
        outcome = run_again(
            dataset,
            reopened.model,
            run,
            votes_only=reopened.manifest["settings"]["votes_only"],
            rankings=bool(reopened.manifest["settings"]["rankings"]),
            update=True,
            asked=asked,
            say=options.note,
            progress=progress,
        )
    write_report(outcome)
    changes = outcome.manifest["changes"]
    if json:
        options.print_json({"out": str(run), "changes": changes, "n_train": outcome.manifest["n_train"]})
        return
    last = changes[-1] if changes else {"retrained": 0, "of": outcome.certificate.spread.n_subsets}
    options.print_line(
        f"{run}: {outcome.manifest['n_train']} training samples; {last['retrained']} of {last['of']} base classifiers "
        "were trained again, the others stand."
    )


def _removed(dataset: Dataset, asked: dict[str, Any], rows: list[int]) -> tuple[Dataset, dict[str, Any]]:
    """The data without these rows, and what is to be remembered: which rows of the source are gone."""
    import numpy as np

    gone = asked.get("removed", [])
    source = asked.get("removed_from") or dataset.digests()
    n_source = len(dataset.y_train) + len(gone)
    still = np.setdiff1d(np.arange(n_source), gone)
    smaller = dataset.without(rows)
    return smaller, {**asked, "removed": sorted([*gone, *still[rows].tolist()]), "removed_from": source}

"""poisonproof update: change the training data of a run without starting over."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poisonproof.cli import encoding, options, output, reading, reopening
from poisonproof.cli.output import progress_bar
from poisonproof.cli.reopening_partitions import bound_of, reopen_partitions

if TYPE_CHECKING:
    from poisonproof.data.dataset import Dataset
    from poisonproof.runs.removal import LeftOut

UNDEFENDED = ("undefended_accuracy", "strong_undefended_accuracy", "strong_undefended", "no_undefended")
EXAMPLES = "Example: `poisonproof update runs/digits --remove 3,17`; `poisonproof update runs/my.csv-k20-d1 my.csv`"


def command(
    run: reopening.Run,
    data: reopening.Data = None,
    remove: Annotated[
        str | None,
        typer.Option(
            "--remove",
            help="Training rows of the data to leave out, from 0: `3,17`, or a file of numbers. Those left out before "
            "keep their numbers.",
        ),
    ] = None,
    learner: reopening.Learner = None,
    encoder: encoding.Again = None,
    undefended: Annotated[
        bool,
        typer.Option(
            "--undefended/--no-undefended",
            help="Also train undefended models on all of the changed data, to compare with. Otherwise the run has no "
            "such figures any more.",
        ),
    ] = False,
    data_dir: options.DataDir = None,
    n_jobs: options.Jobs = -1,
    json: options.Json = False,
) -> None:
    """Make a run what it would be on changed data, read by its own schema; train only what that changes.

    Where training samples vote, nothing is trained: samples come and go, only new ones are described, and votes are
    counted. A map whose units were read off the data stays as it is.

    DATA is the data as it should be now: your file with rows added, deleted or corrected. What was concluded from
    the old data is deleted first; votes and base classifiers that saw a removed sample are overwritten.

    Interrupted, the same command goes on, and so does `poisonproof update RUN`. Repeated, it changes nothing: rows are
    numbered as in the data itself, also after some of them were left out.
    """
    reading.check_run(run)
    from poisonproof.runs.manifest import RunSettings
    from poisonproof.runs.report import write_report
    from poisonproof.runs.run import run as run_again
    from poisonproof.system.progress import watched

    output.warnings_as_notes()
    rows = [] if remove is None else reopening.row_numbers(remove)
    stored = reopen_partitions(run, data, rows, n_jobs, learner, encoder)
    reopened = stored or reopening.reopen(run, data, data_dir, n_jobs, learner, encoder)
    before, settings = reopened.manifest.asked or {}, reopened.manifest.settings
    kept = ("data", "learner", "encoder", "options", "plan", "attack_size", "max_memory")
    asked: dict[str, Any] = {name: before[name] for name in kept if name in before}
    if data is not None:
        asked["data"] = data
    dataset, left_out = reopened.dataset, reopened.left_out
    if rows and stored is None:
        dataset, left_out = _less(reopened, rows)
    if left_out is not None:
        asked["left_out"] = left_out.as_dict()
    with progress_bar() as progress, watched(progress):
        outcome = run_again(
            replace(dataset, name=settings.name),
            reopened.model,
            run,
            RunSettings(
                settings.votes_only,
                bool(settings.rankings),
                undefended,
                update=True,
                asked=asked,
                max_memory=None if stored is None else bound_of(before),
            ),
        )
    if stored is None:
        _forget(reopened, left_out)
    write_report(outcome)
    changes = list(outcome.manifest.changes)
    if json:
        facts = {name: getattr(outcome.manifest, name) for name in UNDEFENDED}
        output.print_json({"out": str(run), "changes": changes, "n_train": outcome.manifest.n_train, **facts})
        return
    if outcome.manifest.no_undefended is not None:
        output.note(f"undefended models: {outcome.manifest.no_undefended}")
    if outcome.certificate.spread is None:
        output.print_line(f"{run}: {outcome.certificate.voters}; nothing was trained, all votes are counted.")
        return
    nothing = {"retrained": 0, "of": outcome.certificate.spread.n_subsets}
    last = changes[-1] if len(changes) > len(reopened.manifest.changes) else nothing
    output.print_line(
        f"{run}: {outcome.manifest.n_train} training samples; {last['retrained']} of {last['of']} base classifiers "
        "were trained again, the others stand."
    )


def _forget(reopened: reopening.Reopened, left_out: LeftOut | None) -> None:
    """Delete the embeddings of rows that are left out, unless an equal row stays."""
    from poisonproof.learners.inspection import public_map_of
    from poisonproof.samples.convert import take_rows

    encoder = public_map_of(getattr(reopened.model, "estimator", reopened.model))
    if encoder is None or left_out is None:
        return
    gone = encoder.forget(take_rows(reopened.source.train.X, left_out.rows(reopened.source)))
    if gone:
        output.note(f"{gone} embeddings of removed rows were deleted from the cache")


def _less(reopened: reopening.Reopened, rows: list[int]) -> tuple[Dataset, LeftOut]:
    """The data without these rows of its source, and what is to be remembered of all that are left out."""
    from poisonproof.runs.removal import LeftOut

    left_out = (reopened.left_out or LeftOut.nothing()).and_rows(reopened.source, rows)
    if reopened.left_out is not None and left_out.marks == reopened.left_out.marks:
        output.note("these rows were left out already")
    return reopened.source.without(left_out.rows(reopened.source)), left_out

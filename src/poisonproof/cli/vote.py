"""poisonproof vote: base classifiers that were trained and kept say what they think."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poisonproof.cli import (
    encoding,
    options,
    predict,
    reading,
    reopening,
)
from poisonproof.cli import run as running
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.data import ReadOptions

EXAMPLES = (
    "Example: `poisonproof vote runs/my`; `poisonproof vote runs/my new.csv --out new.npy`, then `poisonproof certify "
    "new.npy`"
)


@options.taking("read", reading.read_options, only=("skip_bad", "max_size"))
def command(
    run: reopening.Run,
    data: Annotated[
        Path | None, typer.Argument(help="New samples, of the kind that the run was trained on; else its test samples.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Where to write votes on new samples, for `poisonproof certify`: NAME.npy."),
    ] = None,
    data_dir: options.DataDir = None,
    learner: reopening.Learner = None,
    encoder: encoding.Again = None,
    n_jobs: options.Jobs = -1,
    json: options.Json = False,
    *,
    read: ReadOptions,
) -> None:
    """Let the base classifiers of a run vote: on its test samples, or on new ones.

    On its test samples the run is completed, with certificate and report, as `poisonproof run` would. Votes on new
    samples are written to a file that knows its spread and split.
    """
    from poisonproof.report.page import write_report
    from poisonproof.runs.manifest import RunSettings
    from poisonproof.runs.run import run as go_on
    from poisonproof.system.progress import watched

    options.warnings_as_notes()
    if data is None:
        reopened = reopening.reopen(run, None, data_dir, n_jobs, learner, encoder)
        reopening.check_same_data(run, reopened)
        settings = RunSettings(reopened.manifest.settings.votes_only, bool(reopened.manifest.settings.rankings))
        with running.progress_bar("voting") as progress, watched(progress):
            outcome = go_on(reopened.dataset, reopened.model, run, settings)
        running.show(outcome, write_report(outcome), json)
        return
    if out is None or out.suffix != ".npy":
        raise PoisonproofError("Votes on new samples need a file to be written to: --out NAME.npy.")
    asked = predict.asked_again(run, data, read, n_jobs, learner)
    with running.progress_bar("voting") as progress, watched(progress):
        votes = predict.votes_on(asked, data)
    votes.save(out)
    if json:
        options.print_json({"out": str(out), "samples": votes.n_test, "base_classifiers": votes.spread.n_subsets})
    else:
        options.print_line(
            f"{out}: votes of {votes.spread.n_subsets} base classifiers on {votes.n_test} samples; "
            f"`poisonproof certify {out}` certifies them."
        )

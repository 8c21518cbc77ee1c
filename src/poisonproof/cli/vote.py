"""poisonproof vote: who was kept says what they think: base classifiers, or training samples."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poisonproof.cli import (
    encoding,
    options,
    output,
    predict,
    reading,
    reopening,
)
from poisonproof.cli import run as running
from poisonproof.cli.output import progress_bar
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.data import ReadOptions

EXAMPLES = (
    "Example: `poisonproof vote runs/my`; `poisonproof vote runs/my new.csv --out new.npy`, then `poisonproof certify "
    "new.npy`"
)


@options.taking("read", reading.read_options, only=("max_size",))
def command(
    run: reopening.Run,
    data: Annotated[
        Path | None, typer.Argument(help="New samples, of the kind that the run was trained on; else its test samples.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Where to write votes on new samples, for `poisonproof certify`: NAME.npy; NAME.npz where training "
            "samples vote.",
        ),
    ] = None,
    data_dir: options.DataDir = None,
    learner: reopening.Learner = None,
    encoder: encoding.Again = None,
    n_jobs: options.Jobs = -1,
    json: options.Json = False,
    *,
    read: ReadOptions,
) -> None:
    """Let the base classifiers or the voting samples of a run vote: on its test samples, or on new ones.

    On its test samples the run is completed, with certificate and report, as `poisonproof run` would. Votes on new
    samples are written to a file that knows its spread and split, or the map and how samples vote.
    """
    from poisonproof.ballots.certify import election_of
    from poisonproof.core.votes import Votes
    from poisonproof.report.page import write_report
    from poisonproof.runs.manifest import RunSettings
    from poisonproof.runs.run import run as go_on
    from poisonproof.system.progress import watched

    output.warnings_as_notes()
    if data is None:
        reopened = reopening.reopen(run, None, data_dir, n_jobs, learner, encoder)
        reopening.check_same_data(run, reopened)
        settings = RunSettings(reopened.manifest.settings.votes_only, bool(reopened.manifest.settings.rankings))
        with progress_bar("voting") as progress, watched(progress):
            outcome = go_on(reopened.dataset, reopened.model, run, settings)
        running.show(outcome, write_report(outcome), json)
        return
    if out is None or out.suffix not in (".npy", ".npz"):
        raise PoisonproofError("Votes on new samples need a file to be written to: --out NAME.npy (or .npz).")
    opened = predict.open_run_and_data(run, data, read, n_jobs, predict.OwnCode(learner, encoder))
    by_samples = opened.saved.manifest.settings.election is not None
    suffix = ".npz" if by_samples else ".npy"
    if out.suffix != suffix:
        voters = "training samples" if by_samples else "base classifiers"
        raise PoisonproofError(
            f"In {run} {voters} vote, and that is kept as {suffix}: --out {out.with_suffix(suffix)}."
        )
    with progress_bar("voting") as progress, watched(progress):
        votes = predict.votes_on(opened, data)
    votes.save(out)
    if isinstance(votes, Votes):
        count, words = {"base_classifiers": votes.spread.n_subsets}, f"{votes.spread.n_subsets} base classifiers"
    else:
        election = election_of(votes)
        count, words = {"voters": election["n_voters"]}, f"{election['n_voters']} training samples"
    if json:
        output.print_json({"out": str(out), "samples": votes.n_test, **count})
    else:
        output.print_line(
            f"{out}: votes of {words} on {votes.n_test} samples; `poisonproof certify {out}` certifies them."
        )

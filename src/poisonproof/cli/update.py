"""poisonproof update: change the training data of a run without starting over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poisonproof.cli import options, output, reading
from poisonproof.cli.output import progress_bar

if TYPE_CHECKING:
    from poisonproof.runs.recipe import Reopened

UNDEFENDED = ("undefended_accuracy", "strong_undefended_accuracy", "strong_undefended", "no_undefended")
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
LONGEST_NAME = 255  # of a file, as most systems have it; a longer text is row numbers
EXAMPLES = "Example: `poisonproof update runs/digits --remove 3,17`; `poisonproof update runs/my.csv-k20-d1 my.csv`"


def command(
    run: options.Run,
    data: options.RunData = None,
    remove: Annotated[
        str | None,
        typer.Option(
            "--remove",
            help="Training rows of the data to leave out, from 0: `3,17` (pictures by their names), or a file with one "
            "on each line. Those left out before keep their numbers; none are left out any more with `''`.",
        ),
    ] = None,
    learner: options.LearnerAgain = None,
    encoder: options.EncoderAgain = None,
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
    from poisonproof.display import bytes_of
    from poisonproof.runs.manifest import RunSettings
    from poisonproof.runs.recipe import UserCode, reopen
    from poisonproof.runs.report import write_report
    from poisonproof.runs.run import run as run_again
    from poisonproof.system.progress import watched

    output.warnings_as_notes()
    user_code = UserCode(learner, encoder)
    with progress_bar("reading") as progress, watched(progress):
        rows = None if remove is None else row_names(remove)
        reopened = reopen(run, data, data_dir, user_code, remove=rows, stored=True)
    for note in reopened.source.notes:
        output.note(note)
    recipe, before = reopened.recipe, reopened.manifest.settings
    settings = RunSettings(
        before.votes_only,
        bool(before.rankings),
        undefended,
        update=True,
        recipe=recipe.as_dict(),
        max_memory=None if recipe.max_memory is None else bytes_of(recipe.max_memory),
    )
    dataset = replace(reopened.dataset, name=before.name)
    with progress_bar() as progress, watched(progress):
        model = reopened.model(run, user_code, n_jobs)
        outcome = run_again(dataset, model, run, settings)
    _delete_embeddings(model, reopened)
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


def _delete_embeddings(model: Any, reopened: Reopened) -> None:
    """Delete the embeddings of rows that are left out, unless an equal row stays."""
    import numpy as np

    from poisonproof.learners.inspection import public_map_of

    encoder, left_out = public_map_of(getattr(model, "estimator", model)), reopened.recipe.left_out
    if encoder is None or left_out is None:
        return
    gone = encoder.delete(reopened.source.train.take(np.array(left_out.of(reopened.source), np.int64)).X)
    if gone:
        output.note(f"{gone} embeddings of removed rows were deleted from the cache")


def row_names(text: str) -> list[int | str]:
    """Rows named on the command line: numbers or names of pictures with commas between, or a file with one per line."""
    if text and len(text) <= LONGEST_NAME and Path(text).is_file() and Path(text).suffix.lower() not in PICTURES:
        text = ",".join(Path(text).read_text().split())
    names = [name.strip() for name in text.split(",") if name.strip()]
    return [int(name) if name.lstrip("-").isdigit() else name for name in names]

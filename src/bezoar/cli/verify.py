"""bezoar verify: an independent check of a run or a certificate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bezoar.cli import completion, options, reopening
from bezoar.cli.run import progress_bar

if TYPE_CHECKING:
    from bezoar.data import Dataset

NOT_VERIFIED = 3
EXAMPLES = (
    "Example: `bezoar verify runs/digits --dataset digits --retrain 20`; "
    "`bezoar verify certificate.npz --votes votes.npy`"
)


def command(
    path: Annotated[Path, typer.Argument(help="Run directory, or a certificate (.npz).")],
    votes: Annotated[Path | None, typer.Option("--votes", help="The votes (.npy) of a loose certificate.")] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset",
            autocompletion=completion.of_data,
            help="Data to check against; by default what the run was made from.",
        ),
    ] = None,
    data_dir: Annotated[Path | None, typer.Option("--data-dir", help="Folder that holds its files.")] = None,
    sample: Annotated[
        int | None, typer.Option("--sample", min=1, help="Recompute only that many radii, drawn at random.")
    ] = None,
    retrain: Annotated[
        int, typer.Option("--retrain", min=0, help="Train that many base classifiers again, drawn at random.")
    ] = 0,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Of the draws; by default a fresh one, which no forger can know."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Check that radii follow from votes, and all else that files and data can tell. Exit code 3: not verified.

    The checker shares no code with what makes certificates. The verdict is one line; what failed or could not be
    checked goes to stderr, and `--json` prints every check.
    """
    from bezoar import verify

    wanted = dataset is not None or data_dir is not None or retrain > 0
    at_hand = _data(path, dataset, data_dir) if wanted else None
    with progress_bar("checking") as progress:
        verdict = verify(
            path,
            votes=votes,
            data=at_hand,
            groups=None if at_hand is None else at_hand.groups,
            sample=sample,
            retrain=retrain,
            seed=seed,
            progress=progress,
        )
    if json:
        options.print_json(verdict.as_dict())
    else:
        options.print_line(verdict.verdict)
        for check in (*verdict.failed, *verdict.not_checked):
            options.note(f"{check.outcome}: {check.name}: {check.words}")
    if not verdict.ok:
        raise typer.Exit(NOT_VERIFIED)


def _data(path: Path, dataset: str | None, data_dir: Path | None) -> Dataset:
    """The data at hand: of a run, read as the run read it; of a loose certificate, by name."""
    from bezoar import data
    from bezoar.files import read_record

    manifest = read_record(path / "manifest.json") if (path / "manifest.json").exists() else {}
    if manifest.get("asked"):
        return reopening.reopen(path, dataset, data_dir).dataset
    name = dataset or manifest.get("settings", {}).get("dataset", {}).get("name")
    if name is None:
        raise ValueError(f"{path} does not say which data it was made from; give --dataset.")
    return data.load(name, data_dir)

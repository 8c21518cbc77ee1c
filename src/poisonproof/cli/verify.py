"""poisonproof verify: an independent check of a run or a certificate."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from poisonproof.cli import completion, options, reopening
from poisonproof.cli.run import progress_bar
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.data import Dataset

GIGABYTES = 8.0
MOST_ENTRIES = 1_000_000
NAMED = "the data that the run names"
EXAMPLES = (
    "Example: `poisonproof verify runs/digits --dataset digits --retrain 20`; "
    "`poisonproof verify certificate.npz --votes votes.npy`"
)


class AtHand(NamedTuple):
    """The data to check against, if there are any, and in words where they come from, or why there are none."""

    dataset: Dataset | None
    source: str


def command(
    path: Annotated[Path, typer.Argument(help="Run directory, or a certificate (.npz).")],
    votes: Annotated[Path | None, typer.Option("--votes", help="The votes (.npy) of a loose certificate.")] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset",
            autocompletion=completion.of_data,
            help="Data to check against; by default what the run was made from, if it is still there.",
        ),
    ] = None,
    data_dir: Annotated[Path | None, typer.Option("--data-dir", help="Folder that holds its files.")] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample", min=1, help="Recompute radii of, and ask about, only that many test samples, drawn at random."
        ),
    ] = None,
    ask: Annotated[
        bool, typer.Option("--ask/--no-ask", help="Ask the kept base classifiers whether they vote as stated.")
    ] = True,
    retrain: Annotated[
        int, typer.Option("--retrain", min=0, help="Train that many base classifiers again, drawn at random.")
    ] = 0,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Of the draws; by default a fresh one, which no forger can know."),
    ] = None,
    formal: Annotated[
        bool,
        typer.Option(
            "--formal", help="Have radii checked by poisonproof-check, too, which is proved in Coq (make proof)."
        ),
    ] = False,
    witness: Annotated[
        Path | None, typer.Option("--witness", help="Keep what poisonproof-check was shown in this file.")
    ] = None,
    max_size: Annotated[
        float, typer.Option("--max-size", help="How many GB the files may have in all; more is refused.")
    ] = GIGABYTES,
    json: options.Json = False,
) -> None:
    """Check that radii follow from votes, votes from base classifiers, and all else that files and data can tell.

    VERIFIED (exit code 0): base classifiers were trained again, or those that the run kept were asked, on data with
    the digests that it states. CONSISTENT (5): nothing contradicts, but the files alone were looked at. NOT VERIFIED
    (3): something is false, or could not be checked. The checker shares no code with what makes certificates. The
    verdict is one line and names what was not checked; the reasons go to stderr, and `--json` prints every check.
    """
    from poisonproof import verify

    if not max_size > 0:
        raise PoisonproofError(f"--max-size must be above 0. Got {max_size}.")
    at_hand = _at_hand(path, dataset, data_dir, retrain > 0)
    if at_hand.dataset is None and path.is_dir():
        options.note(at_hand.source)
    with progress_bar("checking") as progress:
        verdict = verify(
            path,
            votes=votes,
            data=at_hand.dataset,
            sample=sample,
            ask=ask,
            retrain=retrain,
            seed=seed,
            formal=formal,
            witness=witness,
            max_bytes=int(max_size * 1e9),
            source=at_hand.source,
            progress=progress,
        )
    if json:
        options.print_json(verdict.as_dict())
    else:
        options.print_line(verdict.verdict)
        for check in (*verdict.failed, *verdict.not_checked):
            options.note(f"{check.outcome}: {check.name}: {check.words}")
    if verdict.exit_code:
        raise typer.Exit(verdict.exit_code)


def _at_hand(path: Path, dataset: str | None, data_dir: Path | None, needed: bool) -> AtHand:
    """The data that were given; otherwise those that the run names, if they are there and have its digests."""
    if dataset is not None or data_dir is not None:
        return AtHand(_data(path, dataset, data_dir), "the data given")
    if not needed and not os.path.lexists(path / "manifest.json"):
        return AtHand(None, "no data")
    try:
        named = _named_data(path)
    except (ValueError, TypeError, LookupError, AttributeError, OSError, ImportError) as error:
        if needed and not os.path.lexists(path / "manifest.json"):
            raise
        return AtHand(None, f"the data that the run names could not be read ({error}); give --dataset.")
    if named is None:
        return AtHand(None, "the data that the run names no longer have the digests that it states; give --dataset.")
    return AtHand(named, NAMED)


def _named_data(path: Path) -> Dataset | None:
    """The data that a manifest names, which may be anybody's; None if their digests are not those that it states."""
    manifest = _manifest(path)
    asked = manifest.get("asked") or {}
    for name in (asked.get("data"), *(asked.get("options", {}).get(option) for option in ("test", "schema"))):
        if name is not None:
            _refuse_odd_files(Path(name))
    named = _data(path, None, None)
    stated = {name: digest for name, digest in manifest["settings"]["dataset"].items() if name != "name"}
    return named if named.digests() == stated else None


def _manifest(path: Path) -> dict[str, Any]:
    """What a run says of itself; nothing if it is amiss, which the checker itself tells."""
    from poisonproof.errors import DamagedFileError
    from poisonproof.system.archives import NoRegularFileError
    from poisonproof.system.files import read_record

    try:
        return read_record(path / "manifest.json")
    except (FileNotFoundError, NotADirectoryError, DamagedFileError, NoRegularFileError):
        return {}


def _refuse_odd_files(path: Path) -> None:
    """A pipe or a device that a stranger's manifest names is not waited for, wherever it lies below a folder."""
    if not path.exists():
        return
    places = (Path(place) / name for place, _, names in os.walk(path) for name in names) if path.is_dir() else [path]
    for count, place in enumerate(places):
        if count > MOST_ENTRIES:
            raise PoisonproofError(f"{path} holds more than {MOST_ENTRIES} files")
        if place.exists() and not stat.S_ISREG(place.stat().st_mode):
            raise PoisonproofError(f"{place} is no regular file")


def _data(path: Path, dataset: str | None, data_dir: Path | None) -> Dataset:
    """The data at hand: of a run, read as the run read it; of a loose certificate, by name."""
    from poisonproof import data

    manifest = _manifest(path)
    if manifest.get("asked"):
        return reopening.reopen(path, dataset, data_dir).dataset
    name = dataset or manifest.get("settings", {}).get("dataset", {}).get("name")
    if name is None:
        raise PoisonproofError(f"{path} does not say which data it was made from; give --dataset.")
    return data.load(name, data_dir)

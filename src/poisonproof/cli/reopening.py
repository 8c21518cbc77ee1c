"""A run's data and ensemble once more, from what its manifest says was asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from poisonproof.cli import encoding, following, options, reading
from poisonproof.cli.learning import with_learner
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.data.dataset import Dataset
    from poisonproof.data.options import ReadOptions
    from poisonproof.runs.manifest import Manifest
    from poisonproof.runs.removal import LeftOut

LONGEST_NAME = 255  # of a file, as most systems have it; a longer text is row numbers

Run = Annotated[Path, typer.Argument(help="Directory of a run.")]
Data = Annotated[
    str | None,
    options.data_argument("The data, if it is not where the run found it; read with the run's options."),
]


Test = Annotated[Path | None, typer.Option("--test", help="File or folder with the test samples.")]
Learner = Annotated[
    str | None,
    typer.Option(
        "--learner", help="The learner of your own that the run was made with, `MODULE:OBJECT`; its module is imported."
    ),
]


class ReopenedData(NamedTuple):
    """A run with its data at hand: the source as it was read, what the run leaves out of it, and its learner.

    ``learner`` is None where the run names one of somebody's own that the user has not named.
    """

    manifest: Manifest
    dataset: Dataset
    source: Dataset
    left_out: LeftOut | None
    learner: Any


class Reopened(NamedTuple):
    """The same with its classifier, not yet fitted."""

    manifest: Manifest
    dataset: Dataset
    model: Any
    source: Dataset
    left_out: LeftOut | None


def begun(run: Path, *, strict: bool = True) -> tuple[Manifest, dict[str, Any], ReadOptions]:
    """The manifest of a run that has its ensemble, what was asked for, and how its data are read.

    They are read by the run's own schema, whatever would be guessed from them now. Entries of the manifest that no run
    writes are refused, or, if not ``strict``, left out.
    """
    from poisonproof.data.options import ReadOptions
    from poisonproof.runs.folder import check_plain
    from poisonproof.runs.manifest import Manifest
    from poisonproof.samples.schema import schema_from_dict

    check_plain(run)
    if not (run / "manifest.json").exists():
        raise PoisonproofError(f"{run} holds no run; make one with `poisonproof run DATA --out {run}`.")
    manifest = Manifest.read(run, strict=strict)
    asked = manifest.asked
    if asked is None:
        raise PoisonproofError(
            f"The run in {run} was not made by the command line and does not say how to read its data."
        )
    by_samples = manifest.settings.election is not None
    if manifest.status == "running" if by_samples else not (run / "spread.npz").exists():
        raise PoisonproofError(
            f"The run in {run} is not complete; the `poisonproof run` command that began it goes on with it."
        )
    read = ReadOptions.from_dict(asked["options"])
    stated = manifest.settings.schema
    return manifest, asked, read if stated is None else replace(read, schema=schema_from_dict(stated))


def reopen_data(
    run: Path,
    data: str | None,
    data_dir: Path | None,
    learner: str | None = None,
    encoder: str | None = None,
    test: Path | None = None,
    *,
    strict: bool = True,
) -> ReopenedData:
    """The data set read as for the run, with its premises. Nothing that only the run's files name is imported.

    ``test`` is where the file with the run's test samples is now.
    """
    from poisonproof.data.reading import held_out_premise
    from poisonproof.learners.presets import is_object_name

    manifest, asked, read = begun(run, strict=strict)
    by_samples = manifest.settings.election is not None
    if test is not None and read.test is None:
        raise PoisonproofError(f"The test samples of the run in {run} come with its data; leave --test out.")
    at_hand = read if test is None else replace(read, test=test)
    source, estimator = reading.open_data(data or asked["data"], data_dir, at_hand), None
    if test is not None:
        stated = {premise.code: premise for premise in (*source.premises, *held_out_premise(read))}
        source = replace(source, premises=tuple(stated.values()))
    of_run = asked.get("encoder")
    own_encoder = encoding.must_be_named(of_run) and encoder is None
    named = not is_object_name(asked["learner"]) or learner == asked["learner"]
    if named and not own_encoder and not by_samples:
        chosen = encoding.checked_again(run, of_run, encoder)
        source, estimator = with_learner(source, asked["learner"], chosen, quiet=True)  # nothing is chosen any more
    source = following.with_premises(source, asked.get("plan"))
    if data is not None:
        return ReopenedData(manifest, source, source, None, estimator)
    dataset, left_out = _less_left_out(run, source, asked, manifest.settings.digests)
    return ReopenedData(manifest, dataset, source, left_out, estimator)


def reopen(
    run: Path,
    data: str | None,
    data_dir: Path | None,
    n_jobs: int = -1,
    learner: str | None = None,
    encoder: str | None = None,
) -> Reopened:
    """The data set read as for the run, and its classifier, not yet fitted."""
    from poisonproof import Spread
    from poisonproof.runs.election import election_named
    from poisonproof.system.files import opening_only

    manifest, dataset, source, left_out, estimator = reopen_data(run, data, data_dir, learner, encoder)
    checked_learner(run, (manifest.asked or {})["learner"], learner)
    stated = ((manifest.settings.election or {}).get("map") or {}).get("of")
    of_run = encoding.checked_again(run, (manifest.asked or {}).get("encoder", stated), encoder)
    classes = None if dataset.classes is None else dataset.classes.tolist()
    model_of = election_named(manifest.settings.method).model_of
    if manifest.settings.election is not None:
        at_hand = None if of_run is None else encoding.encoder_of(of_run)
        with opening_only(at_hand):
            voters = model_of(manifest.settings, classes, n_jobs=n_jobs, encoder=at_hand)
        return Reopened(manifest, dataset, voters, source, left_out)
    spread = Spread.load(run / "spread.npz")
    model = model_of(manifest.settings, classes, estimator=estimator, spread=spread, n_jobs=n_jobs)
    return Reopened(manifest, dataset, model, source, left_out)


def checked_learner(run: Path, of_run: str | None, given: str | None) -> str | None:
    """The name of the run's learner; one of the user's own must be named again, because importing it runs its code."""
    from poisonproof.learners.presets import is_object_name

    if given is not None and given != of_run:
        raise PoisonproofError(f"The run in {run} was made with the learner '{of_run}', not '{given}'.")
    if is_object_name(of_run) and given is None:
        raise PoisonproofError(
            f"The run in {run} was made with a learner of somebody's own; if its module is yours, say so again: "
            f"--learner {of_run}."
        )
    return of_run


def _less_left_out(
    run: Path, source: Dataset, asked: dict[str, Any], stated: dict[str, str]
) -> tuple[Dataset, LeftOut | None]:
    """The source less the rows that earlier updates removed, and their marks; none if the source lost them itself."""
    from poisonproof.runs.removal import LeftOut

    if "left_out" not in asked or source.digests() == stated:
        return source, None
    left_out = LeftOut.from_dict(asked["left_out"])
    smaller = source.without(left_out.rows(source))
    if smaller.digests() != stated:
        raise PoisonproofError(
            f"{asked['data']} is not what it was when rows were removed from it; "
            f"give the data as it should be now: `poisonproof update {run} DATA`."
        )
    return smaller, left_out


def check_same_data(run: Path, reopened: Reopened | ReopenedData) -> None:
    """Refuse data that the run was not made from."""
    if reopened.dataset.digests() != reopened.manifest.settings.digests:
        raise PoisonproofError(
            f"This is not the data that the run in {run} was made from; `poisonproof update {run} DATA` makes it so."
        )


def row_numbers(text: str) -> list[int]:
    """Rows named on the command line: numbers, or a file with one per line."""
    if len(text) <= LONGEST_NAME and Path(text).is_file():
        text = ",".join(Path(text).read_text().split())
    try:
        return [int(number) for number in text.split(",") if number.strip()]
    except ValueError:
        raise PoisonproofError(
            f"'{text[:40]}' is neither row numbers like 3,17 nor a file with one on each line."
        ) from None

"""A run's data and ensemble once more, from what its manifest says was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from bezoar.cli import completion, following, reading
from bezoar.cli.run import with_learner

if TYPE_CHECKING:
    from bezoar.data import Dataset
    from bezoar.estimator import FiniteAggregationClassifier

Run = Annotated[Path, typer.Argument(help="Directory of a run.")]
Data = Annotated[
    str | None,
    typer.Argument(
        autocompletion=completion.of_data,
        help="The data, if it is not where the run found it; read with the run's options.",
    ),
]


class Reopened(NamedTuple):
    """A run with its data at hand."""

    manifest: dict[str, Any]
    dataset: Dataset
    model: FiniteAggregationClassifier


def reopen(run: Path, data: str | None, data_dir: Path | None, n_jobs: int = -1) -> Reopened:
    """The data set read as for the run, and its ensemble, not yet fitted."""
    from bezoar import FiniteAggregationClassifier, Split, Spread
    from bezoar.files import read_record
    from bezoar.plain import check_plain

    check_plain(run)
    if not (run / "manifest.json").exists():
        raise ValueError(f"{run} holds no run; make one with `bezoar run DATA --out {run}`.")
    manifest = read_record(run / "manifest.json")
    asked = manifest.get("asked")
    if asked is None:
        raise ValueError(f"The run in {run} was not made by the command line and does not say how to read its data.")
    if not (run / "spread.npz").exists():
        raise ValueError(f"The run in {run} is not complete; the `bezoar run` command that began it goes on with it.")
    said = {
        option: Path(value) if option in ("test", "schema") else value for option, value in asked["options"].items()
    }
    if "schema" in said and not said["schema"].exists():
        said["schema"] = run / "schema.json"
    samples = reading.open_named_or_own(data or asked["data"], data_dir, said)
    samples, estimator = with_learner(samples, asked["learner"])
    samples = following.with_premise(samples, asked.get("plan"))
    if data is None and asked.get("removed"):
        samples = _without_removed(run, samples, asked)
    model = FiniteAggregationClassifier(
        estimator,
        spread=Spread.load(run / "spread.npz"),
        split=Split.from_dict(manifest["settings"]["split"]),
        classes=None if samples.classes is None else samples.classes.tolist(),
        n_jobs=n_jobs,
    )
    return Reopened(manifest, samples, model)


def _without_removed(run: Path, samples: Dataset, asked: dict[str, Any]) -> Dataset:
    """The data less the rows that earlier updates removed, if it is still the data they were rows of."""
    if samples.digests() != asked["removed_from"]:
        raise ValueError(
            f"{asked['data']} is not what it was when rows were removed from it; "
            f"give the data as it should be now: `bezoar update {run} DATA`."
        )
    return samples.without(asked["removed"])


def check_same_data(run: Path, reopened: Reopened) -> None:
    """Refuse data that the run was not made from."""
    stated = {name: value for name, value in reopened.manifest["settings"]["dataset"].items() if name != "name"}
    if reopened.dataset.digests() != stated:
        raise ValueError(
            f"This is not the data that the run in {run} was made from; `bezoar update {run} DATA` makes it so."
        )


def row_numbers(text: str) -> list[int]:
    """Rows named on the command line: numbers, or a file with one per line."""
    if Path(text).is_file():
        text = ",".join(Path(text).read_text().split())
    try:
        return [int(number) for number in text.split(",") if number.strip()]
    except ValueError:
        raise ValueError(f"'{text[:40]}' is neither row numbers like 3,17 nor a file with one on each line.") from None

"""Options about a user's own files, which become one record; and the data that they open."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poisonproof.cli import options, output
from poisonproof.cli.output import progress_bar
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.data.dataset import Dataset
    from poisonproof.data.options import ReadOptions

OWN = "Your own data"


def read_options(
    *,
    label: Annotated[
        str | None, typer.Option("--label", help="Column of a table that holds the labels.", rich_help_panel=OWN)
    ] = None,
    test: Annotated[
        Path | None, typer.Option("--test", help="File or folder with the test samples.", rich_help_panel=OWN)
    ] = None,
    held_out: Annotated[
        float | None,
        typer.Option(
            "--held-out",
            help="Otherwise the share of samples to test on, by a hash of their content.",
            rich_help_panel=OWN,
        ),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            "--schema", help="How to read the files: a run's schema.json, perhaps edited.", rich_help_panel=OWN
        ),
    ] = None,
    group_column: Annotated[
        str | None,
        typer.Option(
            "--group-column",
            help="Column of contributors' ids; the radius then counts contributors.",
            rich_help_panel=OWN,
        ),
    ] = None,
    classes: Annotated[str | None, options.classes_option(OWN)] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(
            "--delimiter", help="What separates the cells of CSV; `,` unless you say otherwise.", rich_help_panel=OWN
        ),
    ] = None,
    lines: Annotated[
        bool,
        typer.Option(
            "--lines",
            help="CSV: every line is a row, whatever quotes it holds. For files to which others append raw lines.",
            rich_help_panel=OWN,
        ),
    ] = False,
    image_size: Annotated[
        str | None, typer.Option("--image-size", help="`WIDTHxHEIGHT` to resize images to.", rich_help_panel=OWN)
    ] = None,
    colour: Annotated[
        bool | None,
        typer.Option(
            "--colour/--grey", help="What images are read as; otherwise as most of them are.", rich_help_panel=OWN
        ),
    ] = None,
    n_features: Annotated[
        int | None, typer.Option("--n-features", help="Number of features of svmlight rows.", rich_help_panel=OWN)
    ] = None,
    max_size: Annotated[
        float | None,
        typer.Option(
            "--max-size",
            help="How many GB may be read, after expansion; 4 unless you say otherwise.",
            rich_help_panel=OWN,
        ),
    ] = None,
) -> ReadOptions:
    """How the files are to be read, as the command line says it."""
    from poisonproof.data.options import ReadOptions

    if max_size is not None and not max_size > 0:
        raise PoisonproofError(f"--max-size must be above 0. Got {max_size}.")
    if held_out is not None and not 0 < held_out < 1:
        raise PoisonproofError(f"--held-out must lie between 0 and 1. Got {held_out}.", code="data.held-out")
    return ReadOptions(
        label=label,
        group_column=group_column,
        test=test,
        held_out=held_out,
        schema=schema,
        classes=None if classes is None else options.named_classes(classes),
        delimiter=delimiter,
        lines=lines,
        image_size=None if image_size is None else _size(image_size),
        colour=colour,
        n_features=n_features,
        most_bytes=None if max_size is None else int(max_size * 1e9),
    )


def words_of(read: ReadOptions) -> list[str]:
    """What to type to the same effect."""
    words: list[str] = []
    for name, value in read.as_dict().items():
        if name == "colour":
            words.append("--colour" if value else "--grey")
        elif name == "lines":
            words.append("--lines")
        elif name == "most_bytes":
            words += ["--max-size", f"{value / 1e9:g}"]
        else:
            text = (
                "x".join(map(str, value)) if name == "image_size" else ",".join(value) if name == "classes" else value
            )
            words += [f"--{name.replace('_', '-')}", str(text)]
    return words


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.lower().partition("x")
    if not (width.isdigit() and height.isdigit() and int(width) and int(height)):
        raise PoisonproofError(f"'{text}' is not a size of images: give WIDTHxHEIGHT, such as 32x32.")
    return int(width), int(height)


def check(name: str, read: ReadOptions) -> None:
    """Refuse a name that is no data, and columns that are not there, before anything heavy is imported."""
    from poisonproof.data import probe

    probe.check(name, read)


def check_run(run: Path) -> None:
    """Refuse a folder that holds no run, before anything heavy is imported."""
    if not (run / "manifest.json").exists():
        raise PoisonproofError(
            f"{run} holds no run; make one with `poisonproof run DATA --out {run}`.", code="run.missing"
        )


def open_data(name: str, data_dir: Path | None, read: ReadOptions) -> Dataset:
    """A data set by its name, or from the user's own files; what was left out of them is noted."""
    from poisonproof import registry
    from poisonproof.data.probe import check

    if name not in registry.names("datasets"):
        check(name, read)
    from poisonproof.runs import recipe

    with progress_bar(f"reading {Path(name).name}"):
        dataset = recipe.open_data(name, read, data_dir)
    for note in dataset.notes:
        output.note(note)
    return dataset

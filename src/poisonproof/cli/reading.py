"""Options about a user's own files, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poisonproof.cli import options
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.data import Dataset

OWN = "Your own data"


Label = Annotated[
    str | None, typer.Option("--label", help="Column of a table that holds the labels.", rich_help_panel=OWN)
]
Test = Annotated[Path | None, typer.Option("--test", help="File or folder with the test samples.", rich_help_panel=OWN)]
HeldOut = Annotated[
    float | None,
    typer.Option(
        "--held-out", help="Otherwise the share of samples to test on, by a hash of their content.", rich_help_panel=OWN
    ),
]
SchemaFile = Annotated[
    Path | None,
    typer.Option("--schema", help="How to read the files: a run's schema.json, perhaps edited.", rich_help_panel=OWN),
]
GroupColumn = Annotated[
    str | None,
    typer.Option(
        "--group-column", help="Column of contributors' ids; the radius then counts contributors.", rich_help_panel=OWN
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(
        "--classes",
        help="The labels that may occur, `a,b,c`. Otherwise they are read off the data.",
        rich_help_panel=OWN,
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter", help="What separates the cells of CSV; `,` unless you say otherwise.", rich_help_panel=OWN
    ),
]
ImageSize = Annotated[
    str | None, typer.Option("--image-size", help="`WIDTHxHEIGHT` to resize images to.", rich_help_panel=OWN)
]
Colour = Annotated[
    bool | None,
    typer.Option(
        "--colour/--grey", help="What images are read as; otherwise as most of them are.", rich_help_panel=OWN
    ),
]
NFeatures = Annotated[
    int | None, typer.Option("--n-features", help="Number of features of svmlight rows.", rich_help_panel=OWN)
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave out images that cannot be read.", rich_help_panel=OWN)]
MaxSize = Annotated[
    float | None,
    typer.Option(
        "--max-size", help="How many GB may be read, after expansion; 4 unless you say otherwise.", rich_help_panel=OWN
    ),
]


def open_named_or_own(name: str, data_dir: Path | None, said: dict[str, Any], *, download: bool = False) -> Dataset:
    """A data set by its name, or from the user's own files."""
    from poisonproof import data

    given = {option: value for option, value in said.items() if value is not None and value is not False}
    if name in data.DATASETS:
        if given:
            raise PoisonproofError(
                f"--{next(iter(given))} is for your own files; write ./{name} for a folder of that name."
            )
        return data.load(name, data_dir, download=download)
    if not Path(name).exists():
        raise PoisonproofError(
            f"There is no data set '{name}' (there are {', '.join(data.DATASETS)}), and no file or folder of that "
            f"name; {_what_else(name, data.DATASETS)}"
        )
    found = data.open_own(Path(name), how(given))
    for note in found.notes:
        options.note(note)
    return found


def _what_else(name: str, known: Sequence[str]) -> str:
    """What was probably meant, among the data sets and what lies in the current folder; or something to try."""
    from difflib import get_close_matches

    close = get_close_matches(name, [*known, *sorted(item.name for item in Path().iterdir())], 1, 0.6)
    return f"did you mean '{close[0]}'?" if close else "`poisonproof example table` writes a small one to try."


def how(said: dict[str, Any]) -> Any:
    """The options as the readers take them."""
    from poisonproof.data import How

    size, classes, gigabytes = said.get("image-size"), said.get("classes"), said.get("max-size")
    if gigabytes is not None and not gigabytes > 0:
        raise PoisonproofError(f"--max-size must be above 0. Got {gigabytes}.")
    return How(
        label=said.get("label"),
        group_column=said.get("group-column"),
        test=said.get("test"),
        held_out=said.get("held-out"),
        schema=said.get("schema"),
        classes=None if classes is None else [name.strip() for name in classes.split(",")],
        delimiter=said.get("delimiter"),
        image_size=None if size is None else _size(size),
        colour={"colour": True, "grey": False}.get(said.get("colour", "")),
        n_features=said.get("n-features"),
        skip_bad=said.get("skip-bad", False),
        most_bytes=None if gigabytes is None else int(gigabytes * 1e9),
    )


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.lower().partition("x")
    if not (width.isdigit() and height.isdigit() and int(width) and int(height)):
        raise PoisonproofError(f"'{text}' is not a size of images: give WIDTHxHEIGHT, such as 32x32.")
    return int(width), int(height)

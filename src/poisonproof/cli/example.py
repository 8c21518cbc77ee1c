"""poisonproof example: small real data to try the other commands on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from poisonproof.cli import completion, options, output

EXAMPLES = "Example: `poisonproof example table` and `poisonproof run tumours.csv --label diagnosis --k 20 --d 4`"


def command(
    name: Annotated[
        str | None,
        typer.Argument(
            help="`table` (CSV with categories and missing cells), `contributors` (the same with ids), `text`, "
            "`images` (a folder) or `votes`; without a name they are listed.",
            autocompletion=completion.of_examples,
        ),
    ] = None,
    folder: Annotated[Path, typer.Argument(help="Where to write.")] = Path(),
    json: options.Json = False,
) -> None:
    """Write a small real data set from what scikit-learn and SciPy carry along, and say which command to type next."""
    from poisonproof.examples import EXAMPLES as CHOICES
    from poisonproof.examples import write_example

    if name is None:
        if json:
            output.print_json({"examples": {choice: _words(write) for choice, write in CHOICES.items()}})
            return
        for choice, write in CHOICES.items():
            output.print_line(f"{choice:<14}{_words(write)}")
        output.print_line("Next: poisonproof example table")
        return
    written = write_example(name, folder)
    if json:
        output.print_json({"out": str(written.path), "words": written.words, "next": written.command})
        return
    output.print_line(f"{written.path}: {written.words}.")
    output.print_line(f"Next: {written.command}")


def _words(write: Callable[..., Any]) -> str:
    """What an example is, by the first line of what writes it."""
    return (write.__doc__ or "").split("\n", 1)[0].rstrip(".")

"""poisonproof example: small real data to try the other commands on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from poisonproof.cli import completion, options

EXAMPLES = "Example: `poisonproof example table` and `poisonproof run tumours.csv --label diagnosis --k 20 --d 4`"


def command(
    name: Annotated[
        str,
        typer.Argument(
            help="`table` (CSV with categories and missing cells), `contributors` (the same with ids), `text`, "
            "`images` (a folder) or `votes`.",
            autocompletion=completion.of_examples,
        ),
    ],
    folder: Annotated[Path, typer.Argument(help="Where to write.")] = Path(),
    json: options.Json = False,
) -> None:
    """Write a small real data set from what scikit-learn and SciPy carry along, and say which command to type next."""
    from poisonproof.examples import write_example

    written = write_example(name, folder)
    if json:
        options.print_json({"out": str(written.path), "words": written.words, "next": written.command})
        return
    options.print_line(f"{written.path}: {written.words}.")
    options.print_line(f"Next: {written.command}")

"""Options that several commands share."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Callable, Container
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poisonproof.cli import completion
from poisonproof.display.text import shown, shown_lines
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof import Spread

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
K = Annotated[int, typer.Option("--k", help="Inverse sensitivity: a sample reaches 1/k of the base classifiers.")]
D = Annotated[int, typer.Option("--d", help="Spread degree: how many base classifiers a sample reaches.")]
Download = Annotated[
    bool, typer.Option("--download", help="Fetch official files that are missing; checksums are known.")
]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", envvar="POISONPROOF_DATA", help="Folder that holds the data files.")
]
Jobs = Annotated[int, typer.Option("--n-jobs", help="Worker processes; -1 means one per core.")]
SpreadName = Annotated[
    str | None,
    typer.Option(
        "--spread",
        autocompletion=completion.of_spreads,
        help="FILE, `paper:K,D`, `random:K,D[,SEED]`, `dpa:K` (d = 1), or designed for the tight certificate: "
        "`plane:Q,GROUPS`, `quartic:P,GROUPS`, `difference:V,GROUPS,R1,R2,…` (`poisonproof spread K D` suggests some).",
    ),
]
SplitName = Annotated[
    str, typer.Option("--split", autocompletion=completion.of_splits, help="`content` or `pixel-sum`.")
]
WIDE = 1000
FORMS = "paper:K,D, random:K,D,SEED, dpa:K, plane:Q,GROUPS, quartic:P,GROUPS or difference:V,GROUPS,R1,R2,…"


def parse_spread(text: str) -> Spread:
    """A spread from a file or from its name."""
    from poisonproof import Spread

    kind, _, rest = text.partition(":")
    makers: dict[str, tuple[Callable[..., Spread], Container[int]]] = {
        "paper": (Spread.paper, (2,)),
        "random": (Spread.random, (2, 3)),
        "dpa": (lambda k: Spread.random(k, 1), (1,)),
        "plane": (Spread.planes, (2,)),
        "quartic": (Spread.quartic, (2,)),
        "difference": (
            lambda v, groups, *residues: Spread.from_difference_set(v, residues, groups),
            range(3, sys.maxsize),
        ),
    }
    if kind in makers and rest:
        make, counts = makers[kind]
        try:
            numbers = [int(number) for number in rest.split(",")]
        except ValueError:
            numbers = []
        if len(numbers) not in counts:
            raise PoisonproofError(f"'{text}' is not a spread: give {FORMS} with whole numbers.")
        return make(*numbers)
    if not Path(text).exists():
        raise PoisonproofError(f"'{text}' is neither a file nor a spread: give {FORMS}.")
    return Spread.load(text)


def print_json(record: dict[str, Any]) -> None:
    """JSON on stdout, in ASCII: no character of it moves a cursor or turns a line."""
    typer.echo(json.dumps(record))


def print_line(text: str) -> None:
    """One line on stdout, whatever the data put into it."""
    typer.echo(shown(text))


def print_lines(text: str) -> None:
    """A text of ours on stdout; its lines are ours, what it quotes was shown when it was put into them."""
    typer.echo(shown_lines(text))


def print_table(title: str, header: list[str], rows: list[list[str]], *, left: int = 0) -> None:
    """A table on stdout, its first ``left`` columns of words; plain and as wide as it is when it is not a terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    def cell(text: str) -> Text:
        """Text, not markup: a label `[red]` is no colour."""
        return Text(shown(text))

    table = Table(title=cell(title), title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
    for at, name in enumerate(header):
        table.add_column(cell(name), justify="left" if at < left else "right")
    for row in rows:
        table.add_row(*map(cell, row))
    console = Console(soft_wrap=True)
    if not console.is_terminal:
        console.width = WIDE
    console.print(table)


def fits_terminal(header: list[str], rows: list[list[str]]) -> bool:
    """Whether a table of these cells is no wider than the terminal, if there is one."""
    from rich.console import Console

    console = Console()
    widths = [max(map(len, column)) + 3 for column in zip(header, *rows, strict=True)]
    return not console.is_terminal or sum(widths) <= console.width


def note(text: str) -> None:
    """A line on stderr."""
    typer.echo(shown(f"poisonproof: {text}"), err=True)


def note_lines(text: str) -> None:
    """A text of several lines on stderr."""
    typer.echo(shown_lines(text), err=True, nl=False)


class log_as_notes(logging.Handler):  # noqa: N801
    """Within, what the library logs is shown as one line each."""

    def __enter__(self) -> None:
        self.logger = logging.getLogger("poisonproof")
        self.before = self.logger.level
        self.logger.setLevel(logging.INFO)
        self.logger.addHandler(self)

    def __exit__(self, *error: object) -> None:
        self.logger.removeHandler(self)
        self.logger.setLevel(self.before)

    def emit(self, record: logging.LogRecord) -> None:
        """A line on stderr."""
        note(record.getMessage())


def warnings_as_notes() -> None:
    """Show premise warnings as one line each."""
    from poisonproof import PremiseWarning

    def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if issubclass(category, PremiseWarning):
            note(str(message))

    warnings.simplefilter("always", PremiseWarning)
    warnings.showwarning = show

"""What commands print: data on stdout, notes and progress on stderr. No other module of the command line prints.

Everything goes through `display.shown`: nothing that data say can move the cursor, turn the line or hide.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from typing import TYPE_CHECKING, Any

import typer

from poisonproof.display import shown, shown_lines

if TYPE_CHECKING:
    from rich.progress import Progress

WIDE = 1000


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
    from poisonproof.premises import PremiseWarning

    def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if issubclass(category, PremiseWarning):
            note(str(message))

    warnings.simplefilter("always", PremiseWarning)
    warnings.showwarning = show


class progress_bar:  # noqa: N801
    """A bar on a terminal's stderr; silence elsewhere, where Rich, which draws it, is not even imported."""

    def __init__(self, of_what: str = "training") -> None:
        self.of_what = of_what
        self.bar: Progress | None = None

    def __enter__(self) -> progress_bar:
        if not sys.stderr.isatty():
            return self
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.bar.add_task(shown(self.of_what), total=None)
        self.bar.start()
        return self

    def __call__(self, done: int, total: int | None) -> None:
        """Show how much is done, of how much, if that is known."""
        if self.bar is not None:
            self.bar.update(self.task, completed=done, total=total)

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.stop()

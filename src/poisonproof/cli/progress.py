"""A bar on a terminal while something takes its time."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from poisonproof.display import shown

if TYPE_CHECKING:
    from rich.progress import Progress


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

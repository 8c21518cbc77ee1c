"""A bar on a terminal while something takes its time."""

from __future__ import annotations

from poisonproof.display.text import shown


class progress_bar:  # noqa: N801
    """A bar on a terminal's stderr, silence elsewhere."""

    def __init__(self, of_what: str = "training") -> None:
        self.of_what = of_what

    def __enter__(self) -> progress_bar:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self.bar = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
        self.task = self.bar.add_task(shown(self.of_what), total=None)
        self.bar.start()
        return self

    def __call__(self, done: int, total: int | None) -> None:
        """Show how much is done, of how much, if that is known."""
        self.bar.update(self.task, completed=done, total=total)

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

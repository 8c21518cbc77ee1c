"""The command line. One small file per command; stdout is data, stderr is progress.

Exit codes: 0 done, VERIFIED, gate met; 2 the command or its input was wrong (one sentence on stderr); 3 NOT VERIFIED by
`poisonproof verify`, or `poisonproof audit` found a violation; 4 the machine gave out (a full disk, a dead worker, no
memory) and the same command goes on; 5 CONSISTENT by `poisonproof verify`: nothing contradicts, but not enough was
given to verify; 6 `poisonproof gate` is not met; 130 interrupted; 1 a defect of poisonproof.
"""

from __future__ import annotations

import errno
import functools
import sys
import traceback
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from poisonproof import __version__
from poisonproof.cli import (
    accuracy,
    attest,
    audit,
    certify,
    compare,
    doctor,
    example,
    gate,
    options,
    plan,
    predict,
    run,
    serve,
    split,
    spread,
    train,
    update,
    verify,
    vote,
)
from poisonproof.display import shown
from poisonproof.errors import PoisonproofError

FULL = (errno.ENOSPC, errno.EDQUOT)
OUR_MISTAKE = (
    "this is a defect of poisonproof, not of your command or data; please report it with the lines above and the "
    "output of `poisonproof doctor` (CONTRIBUTING.md says where, SECURITY.md if a radius may be wrong)."
)
GOES_ON = "What was finished is kept, and the same command goes on from there."


class ShownErrors(TyperGroup):
    """Commands whose complaints about words that they were given show these words and do not obey them."""

    def make_context(self, *args: Any, **more: Any) -> Any:
        """Read what stands before the command."""
        return _with_shown_errors(super().make_context, *args, **more)

    def invoke(self, ctx: Any) -> Any:
        """Read the rest, and do it."""
        return _with_shown_errors(super().invoke, ctx)


def _with_shown_errors(act: Callable[..., Any], *args: Any, **more: Any) -> Any:
    try:
        return act(*args, **more)
    except Exception as error:
        if hasattr(error, "format_message"):  # a usage error, of Click or of Typer's own copy of it
            error.message = shown(error.message)  # type: ignore[attr-defined]
        raise


app = typer.Typer(
    name="poisonproof",
    cls=ShownErrors,
    help="Classifiers with a proof against training-data poisoning (Finite Aggregation).",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def graceful(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with bad input and interruption ending in one sentence instead of a traceback."""

    @functools.wraps(command)
    def wrapped(*args: Any, **given: Any) -> None:
        try:
            with options.log_as_notes():
                command(*args, **given)
        except BrokenPipeError:
            raise
        except (PoisonproofError, OSError, MemoryError) as error:  # whatever else is raised is our own mistake
            gave_out = _machine_gave_out(error)
            options.note(f"{_sentence(error)}{f' {GOES_ON}' if gave_out else ''}")
            raise typer.Exit(4 if gave_out else 2) from None
        except KeyboardInterrupt:
            options.note(f"interrupted. {GOES_ON}")
            raise typer.Exit(130) from None

    return wrapped


def _machine_gave_out(error: Exception) -> bool:
    """Whether nothing was wrong with the command: a full disk, a dead worker, no memory."""
    return isinstance(error, ChildProcessError | MemoryError) or getattr(error, "errno", None) in FULL


def _sentence(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return f"There is not enough memory ({error})." if str(error) else "There is not enough memory."
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}."
    return str(error)


for _room in (
    plan,
    run,
    train,
    vote,
    predict,
    serve,
    audit,
    update,
    verify,
    attest,
    gate,
    certify,
    accuracy,
    compare,
    split,
    spread,
    example,
    doctor,
):
    app.command(_room.__name__.rpartition(".")[2], epilog=_room.EXAMPLES)(graceful(_room.command))


def _print_version(wanted: bool) -> None:
    if wanted:
        options.print_line(__version__)
        raise typer.Exit


@app.callback()
def _common(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    pass


def main() -> None:
    """Run the command line. A defect of ours ends in its traceback, shown like everything else."""
    try:
        app()
    except Exception:
        options.note_lines(traceback.format_exc())
        options.note(OUR_MISTAKE)
        sys.exit(1)

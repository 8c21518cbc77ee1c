"""The command line: commands by name from the registry, each imported when it is the one that runs.

Exit codes: 0 done, VERIFIED, gate met; 2 the command or its input was wrong (one sentence on stderr); 3 NOT VERIFIED by
`poisonproof verify`, or `poisonproof audit` found a violation; 4 out of memory, disk or workers, and the same command
goes on; 5 CONSISTENT by `poisonproof verify`: nothing contradicts, but not enough was given to verify; 6 `poisonproof
gate` is not met; 130 interrupted; 1 a defect of poisonproof.
"""

from __future__ import annotations

import errno
import sys
import traceback
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException
from typer.main import get_command_from_info
from typer.models import CommandInfo

from poisonproof import __version__, registry
from poisonproof.cli import options, output
from poisonproof.errors import PoisonproofError

FULL = (errno.ENOSPC, errno.EDQUOT)
OUR_MISTAKE = (
    "this is a defect of poisonproof, not of your command or data; please report it with the lines above and the "
    "output of `poisonproof doctor` (CONTRIBUTING.md says where, SECURITY.md if a radius may be wrong)."
)
GOES_ON = "What was finished is kept, and the same command goes on from there."
REMOVED = {  # commands that there were, and where their work is done now
    "accuracy": "`poisonproof certify VOTES --shared` bounds the accuracy left under one attack on all test samples.",
    "paper": "In a checkout `python -m research.paper` makes the paper's tables and figures.",
    "plot": "`report.html` in a run's folder draws its curve; in a checkout `python -m research.paper` draws several.",
    "spread": "In Python `Spread.suggest(k, d)` lists designed spreads; a run takes one as `--spread plane:4,12`.",
    "table": "`poisonproof run --json` prints a run's figures; in a checkout `python -m research.paper` makes tables.",
    "train": "`poisonproof run` trains, votes and certifies; an interrupted run goes on with the same command.",
    "vote": "`poisonproof predict RUN NEW --votes --out NAME` saves votes on new samples.",
}


def load(name: str) -> TyperCommand:
    """A command with its options; its module is imported here."""
    function = registry.find("commands", name)
    epilog = import_module(function.__module__).EXAMPLES[name]
    info = CommandInfo(name=name, cls=Loaded, callback=function, epilog=epilog)
    command = get_command_from_info(info, pretty_exceptions_short=False, rich_markup_mode=None)
    assert isinstance(command, TyperCommand)
    return command


class Loaded(TyperCommand):
    """A command with its options, whose body may ask which of them were typed."""

    def invoke(self, ctx: Any) -> Any:
        """Run it."""
        options.running.set(ctx)
        return super().invoke(ctx)


class OneSentence(TyperGroup):
    """Commands in which whatever goes wrong is one line on stderr and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command. An error that its user can fix, and what interrupts it, is one sentence and an exit code."""
        try:
            with output.log_as_notes():
                return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (PoisonproofError, OSError, MemoryError) as error:  # whatever else is raised is our own mistake
            code = 4 if _out_of_resources(error) else 2
            output.note(f"{_sentence(error)}{f' {GOES_ON}' if code == 4 else ''}")
        except KeyboardInterrupt:
            code = 130
            output.note(f"interrupted. {GOES_ON}")
        raise typer.Exit(code) from None

    def main(self, args: Any = None, prog_name: Any = None, *, standalone_mode: bool = True, **more: Any) -> Any:  # type: ignore[override]
        """Read the words and run the command; words that cannot be read are one line on stderr, exit code 2."""
        words = list(sys.argv[1:] if args is None else args) or ["--help"]
        if not standalone_mode:
            return super().main(words, prog_name, standalone_mode=False, **more)
        try:
            code = super().main(words, prog_name, standalone_mode=False, **more)
        except Exception as error:
            if not isinstance(error, TyperException) or not hasattr(error, "ctx"):
                raise
            code = 2
            output.note(f"{error.format_message().rstrip('.')}; see `{error.ctx.command_path} --help`.")
        sys.exit(code)


class Unloaded(TyperCommand):
    """A command by its name and its line of help; reading its options loads it."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **more: Any) -> Any:
        """The context of the command itself."""
        assert self.name is not None
        return load(self.name).make_context(info_name, args, parent, **more)


class Commands(OneSentence):
    """The commands of the registry."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, in the registry's order."""
        return registry.names("commands")

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command of this name; None if there is none."""
        if cmd_name in registry.names("commands"):
            return Unloaded(cmd_name, help=registry.help_of("commands", cmd_name), rich_markup_mode=None)
        return None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the words name; the nearest is said where there is none."""
        if args[0] in REMOVED:
            sentence = f"There is no `poisonproof {args[0]}` any more. {REMOVED[args[0]]}"
            raise PoisonproofError(sentence, code="command.removed")
        registry.help_of("commands", args[0])
        return super().resolve_command(ctx, args)


def _out_of_resources(error: Exception) -> bool:
    """Whether nothing was wrong with the command: a full disk, a dead worker, no memory."""
    return isinstance(error, ChildProcessError | MemoryError) or getattr(error, "errno", None) in FULL


def _sentence(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return f"There is not enough memory ({error})." if str(error) else "There is not enough memory."
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}."
    return str(error)


app = typer.Typer(
    name="poisonproof",
    cls=Commands,
    help="Classifiers with a proof against training-data poisoning (Finite Aggregation).",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(requested: bool) -> None:
    if requested:
        output.print_line(__version__)
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
        output.note_lines(traceback.format_exc())
        output.note(OUR_MISTAKE)
        sys.exit(1)

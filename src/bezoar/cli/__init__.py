"""The command line. One small file per command; stdout is data, stderr is progress.

Exit codes: 0 done; 2 the command or its input was wrong (one sentence on stderr); 130 interrupted;
1 a defect of bezoar.
"""

from __future__ import annotations

import sys

import typer

from bezoar import __version__
from bezoar.cli import certify, run, split

app = typer.Typer(
    name="bezoar",
    help="Classifiers with a proof against training-data poisoning (Finite Aggregation).",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command("run", epilog=run.EXAMPLES)(run.command)
app.command("certify", epilog=certify.EXAMPLES)(certify.command)
app.command("split", epilog=split.EXAMPLES)(split.command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _common(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    pass


def main() -> None:
    """Run the command line; bad input ends in one sentence and exit code 2."""
    try:
        app()
    except (ValueError, TypeError, ImportError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            sys.exit(0)
        typer.echo(f"bezoar: {_sentence(error)}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("bezoar: interrupted; the same command goes on from here", err=True)
        sys.exit(130)


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}."
    return str(error)

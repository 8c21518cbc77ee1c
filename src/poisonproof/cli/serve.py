"""poisonproof serve: a kept run answers over HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from poisonproof.cli import options, output, predict, reading
from poisonproof.cli.output import progress_bar
from poisonproof.errors import PoisonproofError

EXAMPLES = (
    "Example: `poisonproof serve runs/digits`, then "
    "`curl -s localhost:8000/predict -H 'content-type: application/json' -d @rows.json`"
)
HOST, PORT = "127.0.0.1", 8000


def command(
    run: Annotated[Path, typer.Argument(help="Directory of a complete run that kept its base classifiers.")],
    host: Annotated[
        str, typer.Option("--host", help="Where to listen; other machines can ask only if you say so.")
    ] = HOST,
    port: Annotated[int, typer.Option("--port", min=0, help="Port to listen on; 0 lets the system choose.")] = PORT,
    max_body: Annotated[float, typer.Option("--max-body", help="Megabytes of the body of one request.")] = 4.0,
    max_rows: Annotated[int, typer.Option("--max-rows", min=1, help="Rows of one request.")] = 4096,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds for the body of a request to arrive.")] = 10.0,
    learner: options.LearnerAgain = None,
    encoder: options.EncoderAgain = None,
    json: options.Json = False,
) -> None:
    """Serve prediction, radius and runner-up over HTTP: `POST /predict` with JSON rows, CSV or images.

    Answers are those of `poisonproof predict`, to the bit. `/schema` says how rows are read,
    `/premises` what every radius takes as given, `/health` and `/metrics` are for machines. Ctrl-C or SIGTERM ends it
    when what is being answered has been answered. There is no encryption and no password: for others than this machine
    put a proxy before it that has them.
    """
    reading.check_run(run)
    from poisonproof.runs.answers import SavedRun
    from poisonproof.runs.recipe import UserCode
    from poisonproof.serving.app import ServeSettings, serve

    for name, number in (("--max-body", max_body), ("--timeout", timeout)):
        if not number > 0:
            raise PoisonproofError(f"{name} must be above 0. Got {number}.")
    output.warnings_as_notes()
    settings = ServeSettings(host, port, int(max_body * 1e6), max_rows, timeout)
    with progress_bar("opening"):
        kept = SavedRun.open(run, predict.types_vouched_for(run, UserCode(learner, encoder)))
    if not settings.is_loopback:
        output.note(
            f"WARNING: other machines can ask this server on {host}, without encryption and without a password; put a "
            "proxy before it that has them, or leave --host out"
        )

    def ready(address: str) -> None:
        if json:
            output.print_json({"address": address, "run": str(run), "pid": os.getpid()})
        else:
            output.print_line(f"{address} answers for {run}; {address}/schema says how rows are read.")

    serve(kept, settings, ready)

"""poisonproof audit: poison a run's training data for real and watch its certificate hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from poisonproof.cli import completion, encoding, options, output, reopening
from poisonproof.cli.output import progress_bar

VIOLATED = 3
EXAMPLES = (
    "Example: `poisonproof audit runs/digits --targets 5`; `poisonproof audit runs/digits --kinds insert,flip --seed 7`"
)


def command(
    run: reopening.Run,
    data: reopening.Data = None,
    targets: Annotated[int, typer.Option("--targets", min=1, help="How many test samples to attack.")] = 5,
    kinds: Annotated[
        str | None,
        typer.Option(
            "--kinds",
            autocompletion=completion.of_attacks,
            help="Which attacks: `remove,insert,flip,…`; otherwise all that apply.",
        ),
    ] = None,
    attack_size: options.AttackSizes = None,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            autocompletion=completion.one_of("finite-aggregation", "tight"),
            help="`finite-aggregation` or `tight`.",
        ),
    ] = "finite-aggregation",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of targets and attacks; the same gives the same.")] = 0,
    learner: reopening.Learner = None,
    encoder: encoding.Again = None,
    data_dir: options.DataDir = None,
    json: options.Json = False,
) -> None:
    """Remove, insert, flip, rewrite, plant backdoors, flood; retrain; compare with what was certified.

    Writes `audit.json` and `audit.svg` (certified radius against the smallest attack that worked) into the run.
    Exit code 3: an attack worked that the certificate excludes, and the case is printed.
    """
    from poisonproof import audit
    from poisonproof.report.figures import audit_scatter
    from poisonproof.runs.folder import only_writer
    from poisonproof.system.files import write_record, write_text
    from poisonproof.system.progress import watched

    output.warnings_as_notes()
    reopened = reopening.reopen(run, data, data_dir, learner=learner, encoder=encoder)
    reopening.check_same_data(run, reopened)
    dataset = reopened.dataset
    with only_writer(run):
        with progress_bar("attacks on targets") as progress, watched(progress):
            report = audit(
                reopened.model,
                dataset.train.X,
                dataset.train.labels,
                dataset.test.X,
                groups=dataset.train.groups,
                targets=targets,
                kinds=None if kinds is None else [kind.strip() for kind in kinds.split(",")],
                sizes=None if attack_size is None else options.whole_numbers("--attack-size", attack_size),
                method=method,
                seed=seed,
            )
        write_record(run / "audit.json", report.as_dict())
        write_text(run / "audit.svg", audit_scatter(report))
    if json:
        output.print_json(report.as_dict())
    else:
        output.print_table(
            "attacks with retraining",
            ["kind", "attacks", "moved the prediction", "violations"],
            [[kind, *(str(count) for count in row.values())] for kind, row in report.by_kind().items()],
        )
        output.print_lines(str(report))
        output.note(f"picture: {Path(run / 'audit.svg')}")
    if not report.ok:
        raise typer.Exit(VIOLATED)

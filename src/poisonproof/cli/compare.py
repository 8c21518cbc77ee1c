"""poisonproof compare: what each method certifies on the same data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poisonproof import registry
from poisonproof.cli import completion, options, output, reading
from poisonproof.cli.output import progress_bar
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.ballots.options import VoterOptions
    from poisonproof.data.options import ReadOptions
    from poisonproof.planning.compare import Comparison

EXAMPLES = (
    "Example: `poisonproof compare digits --k 20 --classifiers 160`; "
    "`poisonproof compare my.csv --label class --rows finite,finite-tight,designed-tight --out comparison`"
)


OF_VOTERS = (
    *("near", "n_neighbors", "class_sizes", "class_sizes_from", "one_sided", "voices"),
    *("features", "unit", "units"),
)


@options.taking("voters", registry.find("options", "voters"), only=OF_VOTERS)
@options.taking("read", reading.read_options)
def command(
    data: options.Data,
    voters: VoterOptions,
    k: options.K = 50,
    classifiers: Annotated[
        int, typer.Option("--classifiers", help="Base classifiers that each method may train; d is this over k.")
    ] = 800,
    rows: Annotated[
        str | None,
        typer.Option(
            "--rows",
            autocompletion=completion.of_rows,
            help="Which of dpa, dpa-run-off, finite, finite-tight, finite-run-off, designed, designed-tight, "
            "infinite, binomial, bagging, neighbours, ballots, with commas between; otherwise all.",
        ),
    ] = None,
    attack_size: options.AttackSizes = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for compare.html, compare.json and compare.md.")
    ] = None,
    learner: options.Learner = None,
    encoder: options.Encoder = None,
    data_dir: options.DataDir = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            min=0,
            help="Of the methods that draw their subsets. It must have been a secret to whoever wrote training data or "
            "chose test samples; otherwise each draws its own.",
        ),
    ] = None,
    n_jobs: options.Jobs = -1,
    json: options.Json = False,
    *,
    read: ReadOptions,
) -> None:
    """One table: DPA, Finite Aggregation, designed spreads, run-off, the methods that hold with a probability, and
    neighbours and ballots, where the training samples vote.

    All on the same data and test samples; base classifiers with the same learner, the same k and at most as many of
    them. Samples vote with --n-neighbors and --near, or with what a pilot on training samples finds best at the middle
    one of the attack sizes (k / 4 unless you name some), which is a premise. Nothing is written without --out.
    """
    reading.check(data, read)
    from poisonproof.planning.compare import FILES, METHODS, compare, write_comparison
    from poisonproof.runs.recipe import encoder_for, with_learner
    from poisonproof.system.progress import watched

    output.warnings_as_notes()
    sizes = None if attack_size is None else options.whole_numbers("--attack-size", attack_size)
    if out is not None and out.exists() and not out.is_dir():
        raise PoisonproofError(f"{out} is a file; --out takes a folder.")
    wanted = tuple(METHODS) if rows is None else [name.strip() for name in rows.split(",")]
    samples = reading.open_data(data, data_dir, read)
    chosen = encoder_for(samples.schema, encoder, learner)
    features, given = voters.of_rows(samples, chosen, wanted, n_jobs)
    samples, estimator = with_learner(samples, learner, chosen)
    with progress_bar("working") as progress, watched(progress):
        comparison = compare(
            samples,
            estimator,
            k=k,
            n_classifiers=classifiers,
            rows=wanted,
            sizes=sizes,
            seed=seed,
            n_jobs=n_jobs,
            voters=given,
            features=features,
        )
    if out is not None:
        write_comparison(comparison, out)
        output.note(f"written: {', '.join(str(out / name) for name in FILES)}")
    if json:
        output.print_json(comparison.as_dict())
        return
    _print(comparison)
    for premise in samples.premises:
        output.note(f"premise: {premise}")


def _print(comparison: Comparison) -> None:
    """One table or, on a narrow terminal, its columns in two."""
    from poisonproof.planning import compare as report

    header, rows = report.header(comparison), [report.cells(comparison, row) for row in comparison.rows]
    sizes = [at for at, name in enumerate(header) if name.isdigit()]
    parts = [list(range(len(header)))]
    if not output.fits_terminal(header, rows):
        parts = [[at for at in parts[0] if at not in sizes], [0, 1, *sizes]]
    for part, title in zip(parts, (report.title(comparison), ""), strict=False):
        output.print_table(title, [header[at] for at in part], [[row[at] for at in part] for row in rows], left=2)
    for remark in report.remarks(comparison):
        output.print_line(remark)

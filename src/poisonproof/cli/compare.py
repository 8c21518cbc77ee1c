"""poisonproof compare: what each method certifies on the same data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poisonproof.cli import completion, encoding, options, reading
from poisonproof.cli.learning import with_learner
from poisonproof.cli.run import progress_bar
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.comparison import Comparison
    from poisonproof.data import ReadOptions

EXAMPLES = (
    "Example: `poisonproof compare digits --k 20 --classifiers 160`; "
    "`poisonproof compare my.csv --label class --rows finite,finite-tight,designed-tight --out comparison`"
)


@options.taking("read", reading.read_options)
def command(
    data: options.Data,
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
            "infinite, binomial, bagging, with commas between; otherwise all.",
        ),
    ] = None,
    attack_size: options.AttackSizes = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for compare.json, compare.md and compare.svg.")
    ] = None,
    learner: options.Learner = None,
    encoder: encoding.Name = None,
    data_dir: options.DataDir = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the methods that draw their subsets.")] = 0,
    n_jobs: options.Jobs = -1,
    json: options.Json = False,
    *,
    read: ReadOptions,
) -> None:
    """One table: DPA, Finite Aggregation, designed spreads, run-off, and the methods that hold with a probability.

    All on the same data, with the same learner, the same k and at most as many base classifiers. Nothing is written
    without --out.
    """
    from poisonproof.comparison import METHODS, compare
    from poisonproof.report import comparison as report
    from poisonproof.system.progress import watched

    options.warnings_as_notes()
    sizes = None if attack_size is None else options.whole_numbers("--attack-size", attack_size)
    if out is not None and out.exists() and not out.is_dir():
        raise PoisonproofError(f"{out} is a file; --out takes a folder.")
    samples = reading.open_data(data, data_dir, read)
    samples, estimator = with_learner(samples, learner, encoding.for_data(samples.schema, encoder, learner))
    with progress_bar("working") as progress, watched(progress):
        comparison = compare(
            samples,
            estimator,
            k=k,
            n_classifiers=classifiers,
            rows=tuple(METHODS) if rows is None else [name.strip() for name in rows.split(",")],
            sizes=sizes,
            seed=seed,
            n_jobs=n_jobs,
        )
    if out is not None:
        report.write_comparison(comparison, out)
        options.note(f"written: {', '.join(str(out / name) for name in report.FILES)}")
    if json:
        options.print_json(comparison.as_dict())
        return
    _print(comparison)
    for premise in samples.premises:
        options.note(f"premise: {premise}")


def _print(comparison: Comparison) -> None:
    """One table or, on a narrow terminal, its columns in two."""
    from poisonproof.report import comparison as report

    header, rows = report.header(comparison), [report.cells(comparison, row) for row in comparison.rows]
    sizes = [at for at, name in enumerate(header) if name.isdigit()]
    parts = [list(range(len(header)))]
    if not options.fits_terminal(header, rows):
        parts = [[at for at in parts[0] if at not in sizes], [0, 1, *sizes]]
    for part, title in zip(parts, (report.title(comparison), ""), strict=False):
        options.print_table(title, [header[at] for at in part], [[row[at] for at in part] for row in rows], left=2)
    for remark in report.remarks(comparison):
        options.print_line(remark)

"""bezoar run: from a data set to a certificate and a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bezoar.cli import options

if TYPE_CHECKING:
    from bezoar.run import Outcome

EXAMPLES = (
    "Example: `bezoar run digits --k 50 --d 16 --out runs/digits`; "
    "`bezoar run mnist --data-dir DIR --learner digits --k 1200 --d 16 --votes-only`"
)


def command(
    dataset: Annotated[str, typer.Argument(help="`digits` (embedded), or `mnist`, `cifar10`, `gtsrb` from files.")],
    k: options.K = 50,
    d: options.D = 16,
    out: Annotated[Path | None, typer.Option("--out", help="Run directory; an interrupted run goes on there.")] = None,
    spread: options.SpreadName = None,
    learner: Annotated[
        str, typer.Option("--learner", help="`table`; `digits` for glyphs, `signs` for emblems.")
    ] = "table",
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", envvar="BEZOAR_DATA", help="Folder that holds the data files.")
    ] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch official files that are missing; checksums are known.")
    ] = False,
    split: Annotated[str, typer.Option("--split", help="`content` or `pixel-sum`.")] = "content",
    n_jobs: Annotated[int, typer.Option("--n-jobs", help="Worker processes; -1 means one per core.")] = -1,
    votes_only: Annotated[bool, typer.Option("--votes-only", help="Do not keep the base classifiers.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="Go on with the run that --out holds, or refuse such a folder.")
    ] = True,
    json: options.Json = False,
) -> None:
    """Split, train, vote and certify; write a run directory with report.html.

    Prints the certified fraction at a range of attack sizes, and the accuracy of the same learner trained
    undefended on all data: the price of the proof.
    """
    from bezoar import FiniteAggregationClassifier, Split, data
    from bezoar.learners.presets import preset
    from bezoar.report.page import write_report
    from bezoar.run import run

    options.warnings_as_notes()
    samples = data.load(dataset, data_dir, download=download)
    model = FiniteAggregationClassifier(
        preset(learner),
        k=k,
        d=d,
        spread=options.parse_spread(spread) if spread else None,
        split=Split(split, samples.dtype),  # type: ignore[arg-type]
        classes=samples.classes.tolist(),
        n_jobs=n_jobs,
    )
    folder = out or Path("runs") / f"{dataset}-k{k}-d{d}"
    with _progress() as progress:
        outcome = run(samples, model, folder, votes_only=votes_only, resume=resume, say=options.note, progress=progress)
    report = write_report(outcome)
    _print(outcome, report, json)


def _print(outcome: Outcome, report: Path, json: bool) -> None:
    from bezoar.report.page import percent
    from bezoar.run import attack_sizes

    certificate, y = outcome.certificate, outcome.y_test
    sizes = attack_sizes(certificate)
    fractions = certificate.certified_fraction(y, sizes)
    if json:
        options.print_json(
            {
                "out": str(outcome.folder),
                "report": str(report),
                "k": certificate.spread.k,
                "d": certificate.spread.d,
                "undefended_accuracy": outcome.undefended_accuracy,
                "clean_accuracy": certificate.clean_accuracy(y),
                "base_accuracy": outcome.base_accuracy,
                "attack_size": sizes,
                "certified_fraction": fractions.tolist(),
                "premises": outcome.manifest["premises"],
                "seconds": outcome.seconds,
            }
        )
        return
    options.print_table(
        f"{outcome.manifest['settings']['dataset']['name']}: {len(certificate)} test samples, "
        f"{certificate.spread.n_subsets} base classifiers (k = {certificate.spread.k:g}, d = {certificate.spread.d})",
        ["attack size", "certified fraction, % (pointwise)", "undefended accuracy, % (no guarantee)"],
        [
            [str(size), percent(fraction), percent(outcome.undefended_accuracy) if size == 0 else "?"]
            for size, fraction in zip(sizes, fractions, strict=True)
        ],
    )
    for premise in outcome.manifest["premises"]:
        options.note(f"premise: {premise}")
    options.note(f"report: {report}")


class _progress:  # noqa: N801
    """A bar on a terminal's stderr, silence elsewhere."""

    def __enter__(self) -> _progress:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        columns = (TextColumn("base classifiers"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.bar = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
        self.task = self.bar.add_task("", total=None)
        self.bar.start()
        return self

    def __call__(self, done: int, total: int) -> None:
        self.bar.update(self.task, completed=done, total=total)

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

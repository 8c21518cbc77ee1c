"""poisonproof plan and compare: who should vote, and how, for an attack size; what each method certifies."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poisonproof.cli import options, output
from poisonproof.cli.options import VoterOptions
from poisonproof.cli.output import progress_bar
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.data.options import ReadOptions
    from poisonproof.planning.compare import Comparison
    from poisonproof.planning.plan import Candidate, Plan

EXAMPLES = {
    "plan": "Example: `poisonproof plan digits --attack-size 5`; `poisonproof plan my.csv --label class --attack-size "
    "10 --out p.json`, then `poisonproof run my.csv --label class --plan p.json`",
    "compare": "Example: `poisonproof compare digits --k 20 --classifiers 160`; "
    "`poisonproof compare my.csv --label class --rows finite,finite-tight,designed-tight --out comparison`",
}


@options.taking("read", options.read_options)
def plan(
    data: Annotated[
        str, options.data_argument("A data set by name, or your own files, as `poisonproof run` takes them.")
    ],
    attack_size: Annotated[
        int, typer.Option("--attack-size", help="How many poisons predictions should withstand.", show_default=False)
    ],
    k: Annotated[str | None, typer.Option("--k", help="The k to try, `20,50,100`; otherwise a range.")] = None,
    d: Annotated[str | None, typer.Option("--d", help="The spread degrees to try; otherwise 1,4.")] = None,
    out: Annotated[Path, typer.Option("--out", help="File for the plan; `poisonproof run --plan` follows it.")] = Path(
        "plan.json"
    ),
    learner: options.Learner = None,
    encoder: options.Encoder = None,
    data_dir: options.DataDir = None,
    n_jobs: options.Jobs = -1,
    json: options.Json = False,
    *,
    read: ReadOptions,
) -> None:
    """Try on held-out training samples what certifies most at an attack size: base classifiers at several k and d, or
    training samples that vote.

    Recommends one, writes the plan and prints the command that follows it; that run then says how good the promise was.
    Test samples are not looked at. The same data and question get the same plan on any machine.
    """
    options.check_data(data, read)
    from poisonproof.planning import plan as planning
    from poisonproof.runs.recipe import encoder_for, encoder_of, with_learner
    from poisonproof.system.progress import watched

    output.warnings_as_notes()
    _refuse_another_file(out)
    ks = None if k is None else options.whole_numbers("--k", k)
    ds = planning.DEGREES if d is None else options.whole_numbers("--d", d)
    dataset = options.open_data(data, data_dir, read)
    mapped_by = encoder_for(dataset.schema, encoder, learner)
    dataset, estimator = with_learner(dataset, learner, mapped_by)
    features = None if mapped_by is None else encoder_of(mapped_by)
    with progress_bar("pilot") as progress, watched(progress):
        found = planning.plan(
            dataset, attack_size, estimator, ks=ks, ds=ds, features=features, learner_name=learner, n_jobs=n_jobs
        )
    found.save(out)
    output.note(f"written: {out}")
    words = None if found.chosen is None else _next_command(found, data, read, out, data_dir, n_jobs, mapped_by)
    if json:
        output.print_json({**asdict(found), "out": str(out), "next": words})
    else:
        _print_plan(found)
    if words is None:
        raise PoisonproofError(found.why_nothing, code="plan.nothing")
    if not json:
        output.print_line(f"Next: {words}")


def _refuse_another_file(out: Path) -> None:
    from poisonproof.planning.plan import Plan

    if out.exists():
        try:
            Plan.load(out)
        except (ValueError, OSError):
            raise PoisonproofError(
                f"{out} exists and is not a plan; choose another --out.", code="file.taken"
            ) from None


def _next_command(
    plan: Plan, data: str, read: ReadOptions, out: Path, data_dir: Path | None, n_jobs: int, encoder: str | None
) -> str:
    """What to type next: the run that follows the plan."""
    words = ["poisonproof", "run", data, *options.words_of(read)]
    more = {"data-dir": data_dir, "encoder": encoder, "n-jobs": None if n_jobs == -1 else n_jobs}
    for name, value in more.items():
        words += [] if value is None else [f"--{name}", str(value)]
    folder = Path("runs") / f"{plan.data['name']}-attack-size-{plan.attack_size}"
    return shlex.join([*words, "--plan", str(out), "--out", str(folder)])


def _print_plan(plan: Plan) -> None:
    from poisonproof.display import percent

    def cells(at: int, one: Candidate) -> list[str]:
        balanced = f"{percent(one.certified_balanced)} ± {100 * one.error:.1f}"
        mark = "→" if at == plan.chosen else ""
        return [mark, " ".join(one.options), percent(one.clean), percent(one.certified), balanced]

    output.print_table(
        f"{plan.data['name']}, {plan.n_train} training samples, attack size {plan.attack_size} ({plan.unit}): "
        "estimates in %",
        ["", "poisonproof run DATA with", "right", "certified", "balanced"],
        [cells(at, one) for at, one in enumerate(plan.candidates)],
        left=2,
    )
    output.print_line(
        f"Certified (pointwise), and its mean over classes; a constant answer has {percent(plan.majority_share)} and, "
        f"balanced, {percent(plan.constant)} at every attack size."
    )
    if plan.chosen is not None:
        output.print_line(f"Recommended: {plan.why}.")
        for remark in plan.remarks:
            output.print_line(remark)


@options.taking("voters", VoterOptions.known(), without=("method",))
@options.taking("read", options.read_options)
def compare(
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
            autocompletion=options.one_of(lambda: import_module("poisonproof.planning.compare").titles(), several=True),
            help="Which of dpa, dpa-run-off, finite, finite-tight, finite-run-off, designed, designed-tight, "
            "infinite, binomial, bagging, neighbours, ballots, with commas between; otherwise all.",
        ),
    ] = None,
    attack_size: options.AttackSizes = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for compare.html and compare.json.")] = None,
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
    options.check_data(data, read)
    from poisonproof.planning import compare as comparing
    from poisonproof.runs.recipe import encoder_for, with_learner
    from poisonproof.system.progress import watched

    output.warnings_as_notes()
    sizes = None if attack_size is None else options.whole_numbers("--attack-size", attack_size)
    if out is not None and out.exists() and not out.is_dir():
        raise PoisonproofError(f"{out} is a file; --out takes a folder.", code="file.taken")
    wanted = list(comparing.titles()) if rows is None else [name.strip() for name in rows.split(",")]
    samples = options.open_data(data, data_dir, read)
    chosen = encoder_for(samples.schema, encoder, learner)
    features, given = voters.of_rows(samples, chosen, wanted, n_jobs)
    samples, estimator = with_learner(samples, learner, chosen)
    with progress_bar("working") as progress, watched(progress):
        comparison = comparing.compare(
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
        comparison.write(out)
        output.note(f"written: {', '.join(str(out / name) for name in comparing.FILES)}")
    if json:
        output.print_json(comparison.as_dict())
        return
    _print_comparison(comparison)
    for premise in samples.premises:
        output.note(f"premise: {premise}")


def _print_comparison(comparison: Comparison) -> None:
    """One table or, on a narrow terminal, its columns in two."""
    header, rows = comparison.header, [comparison.cells(row) for row in comparison.rows]
    parts = [list(range(len(header)))]
    if not output.fits_terminal(header, rows):
        first_size = next(at for at, name in enumerate([*header, "0"]) if name.isdigit())
        parts = [list(range(first_size)), [0, 1, *range(first_size, len(header))]]
    for part, title in zip(parts, (comparison.title, ""), strict=False):
        output.print_table(title, [header[at] for at in part], [[row[at] for at in part] for row in rows], left=2)
    for remark in comparison.remarks:
        output.print_line(remark)

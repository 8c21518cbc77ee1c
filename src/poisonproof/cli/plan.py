"""poisonproof plan: which k and d, and what they will cost."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poisonproof.cli import encoding, options, output, reading
from poisonproof.cli.learning import with_learner
from poisonproof.cli.output import progress_bar
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.data import ReadOptions
    from poisonproof.planning.families import Candidate
    from poisonproof.planning.plan import Plan, Row

EXAMPLES = (
    "Example: `poisonproof plan digits --attack-size 5`; `poisonproof plan my.csv --label class --attack-size 10 --out "
    "p.json`, then `poisonproof run my.csv --label class --plan p.json`"
)


@options.taking("read", reading.read_options)
def command(
    data: Annotated[
        str, options.data_argument("A data set by name, or your own files, as `poisonproof run` takes them.")
    ],
    attack_size: Annotated[
        int | None, typer.Option("--attack-size", help="How many poisons predictions should withstand.")
    ] = None,
    k: Annotated[
        str | None,
        typer.Option("--k", help="The k to consider, `20,50,100`; otherwise a range."),
    ] = None,
    d: Annotated[
        str | None,
        typer.Option("--d", help="The spread degrees to consider; otherwise 1,4,16."),
    ] = None,
    designs: Annotated[
        bool, typer.Option("--designs/--no-designs", help="Consider designed spreads, with the tight certificate.")
    ] = True,
    seconds: Annotated[float, typer.Option("--seconds", help="About how long the pilot may train.")] = 90.0,
    out: Annotated[Path, typer.Option("--out", help="File for the plan; `poisonproof run --plan` follows it.")] = Path(
        "plan.json"
    ),
    learner: options.Learner = None,
    encoder: encoding.Name = None,
    data_dir: options.DataDir = None,
    n_jobs: options.Jobs = -1,
    votes_only: Annotated[bool, typer.Option("--votes-only", help="The run will not keep base classifiers.")] = False,
    json: options.Json = False,
    *,
    read: ReadOptions,
) -> None:
    """Predict, from a small pilot on the training data, what each k, d and spread would certify and cost.

    Recommends one, writes the plan and prints the command that follows it; that run then says how good the prediction
    was. What neighbours and ballots would certify stands beside it. Test samples are not looked at.
    """
    from poisonproof.planning.families import best_of_each, where_samples_vote
    from poisonproof.planning.plan import DEGREES, make_plan
    from poisonproof.system.progress import watched

    output.warnings_as_notes()
    if attack_size is None:
        raise PoisonproofError("Say with --attack-size how many poisons predictions should withstand.")
    _refuse_another_file(out)
    ks = None if k is None else options.whole_numbers("--k", k)
    ds = None if d is None else options.whole_numbers("--d", d)
    dataset = reading.open_data(data, data_dir, read)
    mapped_by = encoding.for_data(dataset.schema, encoder, learner)
    dataset, estimator = with_learner(dataset, learner, mapped_by)
    with progress_bar("pilot") as progress, watched(progress):
        plan = make_plan(
            dataset,
            estimator,
            attack_size=attack_size,
            learner_name=learner,
            ks=ks,
            ds=DEGREES if ds is None else ds,
            designs=designs,
            keep_members=not votes_only,
            seconds=seconds,
            n_jobs=n_jobs,
        )
    plan.save(out)
    output.note(f"written: {out}")
    words = [] if plan.recommended is None else [next_command(plan, data, read, out, data_dir, n_jobs, encoder)]
    if plan.recommended is None:
        output.note(f"WARNING: nothing is recommended: {plan.why_nothing}")
    features = None if mapped_by is None else encoding.encoder_of(mapped_by)
    samples_vote = best_of_each(where_samples_vote(dataset, attack_size, features))
    if json:
        voting = [asdict(one) for one in samples_vote]
        output.print_json({**asdict(plan), "samples_vote": voting, "out": str(out), "next": words})
        return
    _print_plan(plan)
    _print_samples_vote(samples_vote, attack_size)
    for command_line in words:
        output.print_line(f"Next: {command_line}")


def _refuse_another_file(out: Path) -> None:
    from poisonproof.planning.plan import Plan

    if out.exists():
        try:
            Plan.load(out)
        except (ValueError, OSError):
            raise PoisonproofError(f"{out} exists and is not a plan; choose another --out.") from None


def next_command(
    plan: Plan,
    data: str,
    read: ReadOptions,
    out: Path,
    data_dir: Path | None,
    n_jobs: int,
    encoder: str | None = None,
) -> str:
    """What to type next: the run that follows the plan, and certifies by the method that it goes by."""
    words = ["poisonproof", "run", data, *reading.words_of(read)]
    if data_dir is not None:
        words += ["--data-dir", str(data_dir)]
    if encoder is not None:
        words += ["--encoder", encoder]
    if n_jobs != -1:
        words += ["--n-jobs", str(n_jobs)]
    if not plan.keep_members:
        words.append("--votes-only")
    choice = plan.choice
    folder = Path("runs") / f"{plan.data['name']}-k{choice.k:g}-d{choice.d}"
    words += ["--plan", str(out), "--out", str(folder)]
    return shlex.join(words)


def _print_samples_vote(candidates: list[Candidate], attack_size: int) -> None:
    from poisonproof.display import percent

    if candidates:
        output.print_table(
            f"If the training samples vote themselves (estimated; attack size {attack_size}; no class sizes declared)",
            ["run DATA with", "clean, %", "certified fraction, % (pointwise)", "balanced, % (mean over classes)"],
            [
                [one.option, percent(one.clean), percent(one.certified), percent(one.certified_balanced)]
                for one in candidates
            ],
            left=1,
        )


def _print_plan(plan: Plan) -> None:
    from poisonproof.display import in_bytes, percent

    def cells(at: int, row: Row) -> list[str]:
        return [
            "→" if at == plan.recommended else "",
            f"{row.k:.4g}",
            str(row.d),
            row.spread,
            str(row.n_members),
            f"{row.subset_size:.0f}" if row.subset_size >= 10 else f"{row.subset_size:.1f}",
            percent(row.clean),
            percent(row.certified),
            percent(row.clean_balanced),
            f"{percent(row.certified_balanced)} ± {100 * row.error:.1f}",
            _duration(row.seconds),
            in_bytes(row.memory),
            in_bytes(row.disk),
        ]

    header = ["", "k", "d", "spread", "classifiers", "samples each", "clean, %", f"certified at {plan.attack_size}, %"]
    header += ["balanced clean, %", f"balanced certified at {plan.attack_size}, %"]
    output.print_table(
        f"{plan.data['name']}: {plan.n_train} training samples, {plan.learner.partition('(')[0]}, attack size "
        f"{plan.attack_size} ({plan.unit}). Everything is estimated, from "
        f"{sum(pilot.n_members for pilot in plan.pilots)} base classifiers at k = "
        f"{', '.join(str(pilot.k) for pilot in plan.pilots)} that took "
        f"{sum(pilot.seconds for pilot in plan.pilots):.0f} s",
        [*header, "train and vote", "memory", "disk"],
        [cells(at, row) for at, row in enumerate(plan.rows)],
    )
    output.print_line(
        "Certified fraction (pointwise), ± the pilot's standard error; random spreads by Theorem 2, designed ones by "
        f"the tight certificate. Balanced: mean over classes. A constant answer has {percent(plan.majority_share)} % "
        f"and, balanced, {percent(plan.constant)} %, at every attack size."
    )
    for remark in plan.remarks:
        output.print_line(remark)
    if plan.recommended is None:
        output.print_line(f"Nothing is recommended: {plan.why_nothing}")
        return
    choice = plan.choice
    output.print_line(
        f"Recommended: k = {choice.k:g}, d = {choice.d}, {choice.spread} spread. Of those within the standard error "
        "of the best balanced figure, it is the fastest to train."
    )


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.0f} h"

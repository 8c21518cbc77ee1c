"""poisonproof plan: who should vote, and how, for an attack size."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poisonproof.cli import options, output, reading
from poisonproof.cli.output import progress_bar
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.data.options import ReadOptions
    from poisonproof.planning.plan import Candidate, Plan

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
    reading.check(data, read)
    from poisonproof.planning.plan import DEGREES, plan
    from poisonproof.runs.recipe import encoder_for, encoder_of, with_learner
    from poisonproof.system.progress import watched

    output.warnings_as_notes()
    _refuse_another_file(out)
    ks = None if k is None else options.whole_numbers("--k", k)
    ds = DEGREES if d is None else options.whole_numbers("--d", d)
    dataset = reading.open_data(data, data_dir, read)
    mapped_by = encoder_for(dataset.schema, encoder, learner)
    dataset, estimator = with_learner(dataset, learner, mapped_by)
    features = None if mapped_by is None else encoder_of(mapped_by)
    with progress_bar("pilot") as progress, watched(progress):
        found = plan(
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
            raise PoisonproofError(f"{out} exists and is not a plan; choose another --out.") from None


def _next_command(
    plan: Plan, data: str, read: ReadOptions, out: Path, data_dir: Path | None, n_jobs: int, encoder: str | None
) -> str:
    """What to type next: the run that follows the plan."""
    words = ["poisonproof", "run", data, *reading.words_of(read)]
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

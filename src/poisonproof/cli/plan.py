"""poisonproof plan: which k and d, and what they will cost."""

from __future__ import annotations

import shlex
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poisonproof.cli import encoding, growth, options, reading
from poisonproof.cli.learning import with_learner
from poisonproof.cli.progress import progress_bar
from poisonproof.cli.run import DEFAULT_K
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.data import ReadOptions
    from poisonproof.planning.families import Candidate
    from poisonproof.planning.formulas import TradeOff
    from poisonproof.planning.plan import Plan, Row

EXAMPLES = (
    "Example: `poisonproof plan digits --attack-size 5`; `poisonproof plan my.csv --label class --attack-size 10 --out "
    "p.json`, then `poisonproof run my.csv --label class --plan p.json`; `poisonproof plan --samples 60000 --classes "
    "10`; `poisonproof plan --samples 1e9 --rows-per-file 1e6 --k 1000 --d 1,16`"
)
FORMULAS = "Without data"


@options.taking("read", reading.read_options)
def command(
    data: Annotated[
        str | None,
        options.data_argument("A data set by name, or your own files, as `poisonproof run` takes them."),
    ] = None,
    attack_size: Annotated[
        int | None, typer.Option("--attack-size", help="How many poisons predictions should withstand.")
    ] = None,
    k: Annotated[
        str | None,
        typer.Option("--k", help="The k to consider, `20,50,100`; otherwise a range, or 20 with --rows-per-file."),
    ] = None,
    d: Annotated[
        str | None,
        typer.Option("--d", help="The spread degrees to consider; otherwise 1,4,16, or 1 with --rows-per-file."),
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
    samples: Annotated[
        str | None,
        typer.Option("--samples", help="Number of training samples, `60000` or `1e9`.", rich_help_panel=FORMULAS),
    ] = None,
    cores: Annotated[
        int | None, typer.Option("--cores", help="Cores to train on; 1, on a cluster 1,000.", rich_help_panel=FORMULAS)
    ] = None,
    cost: Annotated[
        float | None,
        typer.Option(
            "--seconds-per-sample",
            help="Of training, for a base classifier on one core; 0.001.",
            rich_help_panel=FORMULAS,
        ),
    ] = None,
    rows_per_file: Annotated[
        str | None,
        typer.Option(
            "--rows-per-file",
            help="With --samples: storage, network, CPU hours and memory on a cluster, for files of so many rows.",
            rich_help_panel=FORMULAS,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", help="Columns of those files; 20.", rich_help_panel=FORMULAS),
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option("--workers", help="Workers of one core in that cluster; 1,000.", rich_help_panel=FORMULAS),
    ] = None,
    *,
    read: ReadOptions,
) -> None:
    """Predict, from a small pilot on the training data, what each k, d and spread would certify and cost.

    Recommends one, writes the plan and prints the command that follows it; that run then says how good the prediction
    was. What neighbours and ballots would certify stands beside it. Test samples are not looked at. Without data
    (--samples, --classes) the trade-off is explained by formulas; with --samples and --rows-per-file, what an ensemble
    and ballots take on a cluster, estimated from measured runs.
    """
    from poisonproof.planning.families import best_of_each, where_samples_vote
    from poisonproof.planning.plan import DEGREES, make_plan
    from poisonproof.system.progress import watched

    options.warnings_as_notes()
    cluster = {"rows-per-file": rows_per_file, "columns": columns, "workers": workers}
    if data is None:
        grown = rows_per_file is not None
        about_data = {
            **reading.words_of(replace(read, classes=None)),
            **({} if grown else {"k": k, "d": d}),
            "learner": learner,
            "encoder": encoder,
        }
        given = [name for name, value in {**about_data, "votes-only": votes_only}.items() if value]
        if given:
            raise PoisonproofError(f"--{given[0]} is about data; say which, `poisonproof plan DATA`.")
        n_classes = None if read.classes is None else len(read.classes)
        if grown:
            for name, number in (("attack-size", attack_size), ("cores", cores), ("seconds-per-sample", cost)):
                if number is not None:
                    raise PoisonproofError(f"--{name} has no part in what --rows-per-file asks; leave one of them out.")
            _on_a_cluster(samples, cluster, n_classes, k, d, json)
            return
        for name, text in cluster.items():
            if text is not None:
                raise PoisonproofError(f"--{name} is about files on a cluster; give --rows-per-file with it.")
        n_samples = None if samples is None else growth.amount("--samples", samples)
        _without_data(n_samples, n_classes, attack_size, cores, cost, json)
        return
    for name, value in {"samples": samples, **cluster, "cores": cores, "seconds-per-sample": cost}.items():
        if value is not None:
            raise PoisonproofError(f"Give DATA or --{name}, not both: with data at hand, it is counted and measured.")
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
    options.note(f"written: {out}")
    words = [] if plan.recommended is None else next_command(plan, data, read, out, data_dir, n_jobs, encoder)
    if plan.recommended is None:
        options.note(f"WARNING: nothing is recommended: {plan.why_nothing}")
    features = None if mapped_by is None else encoding.encoder_of(mapped_by)
    samples_vote = best_of_each(where_samples_vote(dataset, attack_size, features))
    if json:
        voting = [asdict(one) for one in samples_vote]
        options.print_json({**asdict(plan), "samples_vote": voting, "out": str(out), "next": words})
        return
    _print_plan(plan)
    _print_samples_vote(samples_vote, attack_size)
    for at, command_line in enumerate(words):
        options.print_line(f"{'then' if at else 'Next'}: {command_line}")


def _on_a_cluster(
    samples: str | None, cluster: dict[str, str | None], n_classes: int | None, k: str | None, d: str | None, json: bool
) -> None:
    from poisonproof.planning.growth import Scene

    if samples is None:
        raise PoisonproofError("Say with --samples how many training samples stand in files of --rows-per-file.")
    amounts = {
        name.replace("-", "_"): growth.amount(f"--{name}", text)
        for name, text in {"samples": samples, **cluster}.items()
        if text is not None
    }
    scene = Scene(**amounts, **({} if n_classes is None else {"classes": n_classes}))
    ks = [DEFAULT_K] if k is None else options.whole_numbers("--k", k)
    ds = [1] if d is None else options.whole_numbers("--d", d)
    growth.show(scene, ks, ds, json)


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
) -> list[str]:
    """What to type next: the run that follows the plan and, for a designed spread, its tight certificate."""
    words = ["poisonproof", "run", data]
    for name, value in reading.words_of(read).items():
        words += [f"--{value}"] if name == "colour" else [f"--{name}"] if value is True else [f"--{name}", str(value)]
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
    more = ["poisonproof", "certify", str(folder / "votes.npy"), "--method", "tight"]
    return [shlex.join(words), *([shlex.join(more)] if choice.method == "tight" else [])]


def _print_samples_vote(candidates: list[Candidate], attack_size: int) -> None:
    from poisonproof.display.numbers import percent

    if candidates:
        options.print_table(
            f"If the training samples vote themselves (estimated; attack size {attack_size}; no class sizes declared)",
            ["run DATA with", "clean, %", "certified fraction, % (pointwise)", "balanced, % (mean over classes)"],
            [
                [one.option, percent(one.clean), percent(one.certified), percent(one.certified_balanced)]
                for one in candidates
            ],
            left=1,
        )


def _print_plan(plan: Plan) -> None:
    from poisonproof.display.numbers import in_bytes, percent

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
    options.print_table(
        f"{plan.data['name']}: {plan.n_train} training samples, {plan.learner.partition('(')[0]}, attack size "
        f"{plan.attack_size} ({plan.unit}). Everything is estimated, from "
        f"{sum(pilot.n_members for pilot in plan.pilots)} base classifiers at k = "
        f"{', '.join(str(pilot.k) for pilot in plan.pilots)} that took "
        f"{sum(pilot.seconds for pilot in plan.pilots):.0f} s",
        [*header, "train and vote", "memory", "disk"],
        [cells(at, row) for at, row in enumerate(plan.rows)],
    )
    options.print_line(
        "Certified fraction (pointwise), ± the pilot's standard error; random spreads by Theorem 2, designed ones by "
        f"the tight certificate. Balanced: mean over classes. A constant answer has {percent(plan.majority_share)} % "
        f"and, balanced, {percent(plan.constant)} %, at every attack size."
    )
    for remark in plan.remarks:
        options.print_line(remark)
    if plan.recommended is None:
        options.print_line(f"Nothing is recommended: {plan.why_nothing}")
        return
    choice = plan.choice
    options.print_line(
        f"Recommended: k = {choice.k:g}, d = {choice.d}, {choice.spread} spread. Of those within the standard error "
        "of the best balanced figure, it is the fastest to train."
    )


def _without_data(
    samples: int | None,
    n_classes: int | None,
    attack_size: int | None,
    cores: int | None,
    cost: float | None,
    json: bool,
) -> None:
    from poisonproof.planning.formulas import (
        CLUSTER_CORES,
        CLUSTER_SAMPLES,
        SECONDS_PER_SAMPLE,
        trade_off,
    )

    if samples is None or n_classes is None:
        raise PoisonproofError("Give DATA and --attack-size or, to estimate without data, --samples and --classes.")
    assumed = SECONDS_PER_SAMPLE if cost is None else cost
    here = trade_off(
        samples, n_classes, attack_size=attack_size, cores=1 if cores is None else cores, seconds_per_sample=assumed
    )
    cluster = trade_off(
        CLUSTER_SAMPLES, n_classes, cores=CLUSTER_CORES if cores is None else cores, seconds_per_sample=assumed
    )
    if json:
        both = {"here": here, "cluster": cluster}
        options.print_json(
            {"estimated": True, **{name: {**asdict(one), "assumptions": one.assumptions} for name, one in both.items()}}
        )
        return
    options.print_line(
        "k: a sample reaches 1/k of the base classifiers, so nothing is certified beyond k/2 poisons, and a subset "
        "holds 1/k of the samples: larger k withstands more, with weaker base classifiers. d: base classifiers are "
        "k·d; a larger d makes votes less noisy and costs d times as much. What this does to accuracy only data can "
        "tell: `poisonproof plan DATA --attack-size M`."
    )
    _print_trade_off(here, "")
    _print_trade_off(cluster, "On a cluster: ")


def _print_trade_off(trade: TradeOff, where: str) -> None:
    from poisonproof.display.numbers import in_bytes

    cores = f"{trade.cores:,} core{'s' * (trade.cores > 1)}"
    lead = [] if trade.attack_size is None else [f"lead needed at {trade.attack_size}, % of votes"]
    options.print_table(
        f"{where}{trade.samples:,} training samples, {trade.classes} classes, {cores} (estimated)",
        [
            "k",
            "d",
            "classifiers",
            "samples each",
            "per class",
            "certifies at most",
            *lead,
            "core hours",
            "takes",
            "votes",
            "certify",
        ],
        [
            [
                f"{line.k:,}",
                str(line.d),
                f"{line.base_classifiers:,}",
                f"{line.subset_size:,.3g}" if line.subset_size < 100 else f"{line.subset_size:,.0f}",
                f"{line.per_class:,.2g}" if line.per_class < 10 else f"{line.per_class:,.0f}",
                f"{line.wall:,} poisons",
                *([] if line.lead is None else [f"{100 * line.lead:.0f}"]),
                f"{line.core_hours:,.3g}" if line.core_hours < 100 else f"{line.core_hours:,.0f}",
                _duration(3600 * line.wall_hours),
                in_bytes(line.votes_bytes),
                _duration(line.certify_seconds),
            ]
            for line in trade.lines
        ],
    )
    for assumption in trade.assumptions:
        options.print_line(assumption)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.0f} h"

"""poisonproof run and update: from a data set to a certificate and a report, and again when the data change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from poisonproof.cli import options, output
from poisonproof.cli.options import AUTO, ENSEMBLE, VoterOptions
from poisonproof.cli.output import progress_bar
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.data.dataset import Dataset
    from poisonproof.data.options import ReadOptions
    from poisonproof.planning.plan import Plan
    from poisonproof.runs.recipe import Recipe, Reopened
    from poisonproof.runs.run import Outcome

EXAMPLES = {
    "run": "Example: `poisonproof run digits --k 50 --d 16 --out runs/digits`; `poisonproof run my.csv --label class "
    "--k 20`; `poisonproof run mnist.npz --learner glyphs --k 1200 --d 16`; `poisonproof run my.csv --label class "
    "--method neighbours --n-neighbors 200`",
    "update": "Example: `poisonproof update runs/digits --remove 3,17`; `poisonproof update runs/my.csv-k20-d1 my.csv`",
}
SAID_BY_PLAN = ("k", "d", "spread", "learner")
UNDEFENDED = ("undefended_accuracy", "strong_undefended_accuracy", "strong_undefended", "no_undefended")
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
LONGEST_NAME = 255  # of a file, as most systems have it; a longer text is row numbers
DEFAULT_K = 20
OF_BASE_CLASSIFIERS = ("k", "d", "spread", "split", "max_memory", "plan", "learner")


@dataclass(frozen=True)
class EnsembleOptions:
    """What `poisonproof run` is told about the ensemble and its folder."""

    data: options.Data
    k: options.K = DEFAULT_K
    d: options.D = 1
    out: Annotated[Path | None, typer.Option("--out", help="Run directory; an interrupted run goes on there.")] = None
    spread: options.SpreadName = None
    learner: options.Learner = None
    encoder: options.Encoder = None
    data_dir: options.DataDir = None
    split: options.SplitName = "content"
    n_jobs: options.Jobs = -1
    max_memory: Annotated[
        str | None,
        typer.Option(
            "--max-memory",
            help="Bytes that may be taken, such as 4GB. Of a CSV, a Parquet file or a folder of them, rows go to "
            "partitions on disk, in OUT/partitions, and base classifiers read their own.",
        ),
    ] = None
    plan: Annotated[
        Path | None,
        typer.Option("--plan", help="Follow what `poisonproof plan` wrote: who votes and how; compare afterwards."),
    ] = None

    def refuse_for(self, what: str) -> None:
        """Refuse options that are about base classifiers, where there are none."""
        names = [name for name in self.given_of_base_classifiers if name not in ("learner", "plan")]
        if names:
            raise PoisonproofError(
                f"--{names[0].replace('_', '-')} is about base classifiers; leave it or {what} out.",
                code="options.conflict",
            )

    @property
    def given_of_base_classifiers(self) -> list[str]:
        """The options about base classifiers that were typed, or say something else than they say by themselves."""
        return [name for name in OF_BASE_CLASSIFIERS if self._given(name)]

    def _given(self, name: str) -> bool:
        return getattr(self, name) != getattr(type(self), name) or options.typed(name)


@options.taking("ensemble", EnsembleOptions)
@options.taking("voters", VoterOptions.known())
@options.taking("read", options.read_options)
def run(
    ensemble: EnsembleOptions,
    voters: VoterOptions,
    votes_only: Annotated[
        bool, typer.Option("--votes-only", help="Do not keep the base classifiers, or the features of voting samples.")
    ] = False,
    rankings: Annotated[
        bool,
        typer.Option("--rankings", help="Keep rankings too, for `poisonproof certify OUT/votes.npy --method run-off`."),
    ] = False,
    undefended: Annotated[
        bool,
        typer.Option(
            "--undefended/--no-undefended",
            help="Also train the learner, and a strong one, on all data at once: the price of the proof.",
        ),
    ] = True,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="Go on with the run that --out holds, or refuse such a folder.")
    ] = True,
    attack_size: Annotated[
        int | None,
        typer.Option(
            "--attack-size",
            help="The attack size to withstand: the table, the page and its headline show it. Unless you say who "
            "votes and how, a pilot chooses what certifies most at it on training data, as `poisonproof plan` does.",
        ),
    ] = None,
    json: options.Json = False,
    *,
    read: ReadOptions,
) -> None:
    """Split, train, vote and certify; write a run directory with report.html.

    With `--method ballots` or `--method neighbours` nothing is trained: the training samples themselves vote, through a
    fixed map, and one poison is one vote.

    Prints the certified fraction at a range of attack sizes, as a share of test samples and as the mean over classes
    (balanced), and the accuracy of the same learner trained undefended on all data, and of a strong one (gradient
    boosting for tables, tf-idf with n-grams for texts, the encoder head or the preset for images): the price of the
    proof. If a constant answer would do as well, that is said first.
    """
    options.check_data(ensemble.data, read)
    with progress_bar("starting"):  # what is imported takes seconds
        from poisonproof.runs import run as runs
        from poisonproof.runs.manifest import RunSettings
        from poisonproof.runs.report import write_report
        from poisonproof.system.progress import watched

    if attack_size is not None and attack_size < 0:
        raise PoisonproofError(
            f"--attack-size must be a whole number of 0 or more. Got {attack_size}.", code="options.value"
        )
    voters.check()
    followed = follow(ensemble, voters, read, attack_size)
    if followed is not None:
        ensemble, voters = followed.ensemble, followed.voters
        attack_size = followed.record["attack_size"] if attack_size is None else attack_size
    made = prepare(ensemble, voters, read, followed)
    recipe = replace(made.recipe, attack_size=attack_size, plan=None if followed is None else followed.record)
    settings = RunSettings(
        votes_only, rankings, undefended, resume, recipe=recipe.as_dict(), max_memory=made.max_memory
    )
    with progress_bar() as progress, watched(progress):
        outcome = runs.run(recipe.following(made.dataset), made.model, made.folder, settings)
    report = write_report(outcome)
    show(outcome, report, json)


class Made(NamedTuple):
    """The recipe of a run, its data and classifier, its folder, and the bytes that it may take."""

    recipe: Recipe
    dataset: Dataset
    model: Any
    folder: Path
    max_memory: int | None = None


def prepare(
    ensemble: EnsembleOptions, voters: VoterOptions, read: ReadOptions, followed: Followed | None = None
) -> Made:
    """Read the data, unless a pilot did, and put the classifier together, as the command line says."""
    from poisonproof.core.split import Split
    from poisonproof.core.spread import Spread
    from poisonproof.display import bytes_of
    from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier
    from poisonproof.estimators.prepared import split_of
    from poisonproof.runs.recipe import NONE, Recipe, encoder_for, open_partitions, with_learner
    from poisonproof.runs.run import refuse_another, refuse_strangers
    from poisonproof.system.progress import watched
    from poisonproof.training.engine import engine_of

    def opened() -> Dataset:
        known = None if followed is None else followed.samples
        return options.open_data(ensemble.data, ensemble.data_dir, read) if known is None else known

    output.warnings_as_notes()
    if not voters.train:
        ensemble.refuse_for(f"--method {voters.method}")
        samples = opened()
        if followed is not None:
            followed.check(samples)
        model = voters.classifier(samples, ensemble.learner, ensemble.n_jobs, ensemble.encoder)
        folder = ensemble.out or Path("runs") / f"{samples.name}-{voters.method}"
        return Made(Recipe(ensemble.data, read, encoder=ensemble.encoder or NONE), samples, model, folder)
    most = None if ensemble.max_memory is None else bytes_of(ensemble.max_memory)
    spread = options.parse_spread(ensemble.spread) if ensemble.spread else None
    table = None if most is None else Recipe(ensemble.data, read).table()
    samples = opened() if table is None else table.outline()
    encoder = encoder_for(samples.schema, ensemble.encoder, ensemble.learner)
    samples, estimator = with_learner(samples, ensemble.learner, encoder)
    if table is not None and engine_of(estimator).pooled:  # which bounds its own memory
        table, (samples, estimator) = None, with_learner(opened(), ensemble.learner, encoder)
    recipe = Recipe(
        ensemble.data,
        read,
        ensemble.learner,
        NONE if encoder is None else encoder,
        max_memory=None if table is None else ensemble.max_memory,
    )
    grouped = samples.train.groups is not None
    if grouped and ensemble.split != "content":
        raise PoisonproofError(
            f"With a column of contributors the split is 'group'; leave --split {ensemble.split} out.",
            code="options.conflict",
        )
    model = FiniteAggregationClassifier(
        estimator,
        k=ensemble.k,
        d=ensemble.d,
        spread=spread,
        split=Split("group" if grouped else ensemble.split, samples.dtype, samples.n_features),  # type: ignore[arg-type]
        classes=None if samples.classes is None else samples.classes.tolist(),
        n_jobs=ensemble.n_jobs,
    )
    spread = spread or Spread.random(ensemble.k, ensemble.d)
    name = f"{samples.name}-k{str(round(spread.k, 1)).removesuffix('.0')}-d{spread.d}"
    folder = ensemble.out or Path("runs") / name
    if table is not None:
        refuse_strangers(folder)
        refuse_another(folder, spread)
        with progress_bar("reading") as progress, watched(progress):
            samples = open_partitions(recipe, table, samples, estimator, spread, split_of(model), folder)
        for note in samples.notes:
            output.note(note)
    if followed is not None:
        followed.check(samples, estimator)
    return Made(recipe, samples, model, folder, most)


def show(outcome: Outcome, report: Path, json: bool) -> None:
    """What came out, on stdout; on stderr first, if so it is, that a constant answer would do as well."""
    from poisonproof.core.certificate import attack_sizes
    from poisonproof.runs.report import Summary, asked_size, beside_plan, broken_promise, premises_in_short

    certificate, requested, planned = outcome.certificate, asked_size(outcome), beside_plan(outcome)
    sizes = sorted({*attack_sizes(certificate), *([] if requested is None else [requested])})
    summary = Summary(outcome, sizes, requested)
    for warning in (broken_promise(outcome), summary.warning):
        if warning is not None:
            output.note(f"WARNING: {warning}")
    if json:
        output.print_json(
            {
                "out": str(outcome.folder),
                "report": str(report),
                **outcome.election.in_json(certificate),
                "undefended_accuracy": outcome.undefended_accuracy,
                "strong_undefended_accuracy": outcome.manifest.strong_undefended_accuracy,
                "strong_undefended": outcome.manifest.strong_undefended,
                "base_accuracy": outcome.base_accuracy,
                **summary.as_dict(),
                "premises": [premise.words for premise in outcome.manifest.premises or ()],
                "seconds": outcome.seconds,
                "plan": {one.name: {"predicted": one.predicted, "obtained": one.obtained} for one in planned} or None,
            }
        )
        return
    name, voters = outcome.manifest.settings.name, outcome.election.in_title(certificate)
    output.print_table(f"{name}: {len(certificate)} test samples, {voters}", *summary.table(), left=1)
    output.print_line(summary.line)
    if summary.behind is not None:
        output.print_line(summary.behind)
    if planned:
        promised, obtained, _ = planned[-1].cells()
        output.print_line(f"Promised by the plan: {promised} balanced; came out: {obtained}.")
    output.note(premises_in_short(outcome))
    output.note(f"report: {report}")


# A run that follows a plan


@dataclass(frozen=True)
class Followed:
    """What a run takes from a plan: the options as if its choice had been typed, and what the manifest keeps of it.

    ``plan`` is None where an interrupted run goes on with the choice that it had; ``samples`` are the data, if they
    were read for the pilot.
    """

    ensemble: EnsembleOptions
    voters: VoterOptions
    record: dict[str, Any]
    plan: Plan | None = None
    samples: Dataset | None = None

    def check(self, samples: Dataset, estimator: Any = None) -> None:
        """Refuse data that the plan was not made on."""
        if self.plan is not None:
            self.plan.check(samples, estimator)


def follow(
    ensemble: EnsembleOptions, voters: VoterOptions, read: ReadOptions, attack_size: int | None
) -> Followed | None:
    """The plan that the options ask for, from a file or by a pilot; None if they say themselves who votes and how."""
    from poisonproof.planning.plan import Plan, plan
    from poisonproof.runs.recipe import encoder_for, encoder_of, with_learner
    from poisonproof.system.progress import watched

    if ensemble.plan is not None:
        found = Plan.load(ensemble.plan)
        twice = [name for name in SAID_BY_PLAN if name in ensemble.given_of_base_classifiers]
        twice += ["method"] * (voters.method is not None)
        if twice:
            raise PoisonproofError(f"--plan says what --{twice[0]} is; leave one of them out.", code="options.conflict")
        return _followed(replace(ensemble, learner=found.learner_name), voters, found.followed(), found)
    own = {name for name in ensemble.given_of_base_classifiers if name != "learner"}
    if voters.method == AUTO:
        ensemble.refuse_for("--method auto")
    elif voters.method not in (None, ENSEMBLE) or not attack_size or {"k", "spread"} & own:
        return None
    if not attack_size:
        raise PoisonproofError(
            "--method auto needs --attack-size: how many poisons predictions should withstand.", code="options.missing"
        )
    if "max_memory" in own:
        raise PoisonproofError(
            "With --max-memory no pilot is made; say --k, or give a --plan of the same data.", code="options.missing"
        )
    output.warnings_as_notes()
    samples = options.open_data(ensemble.data, ensemble.data_dir, read)
    out = ensemble.out or Path("runs") / f"{samples.name}-attack-size-{attack_size}"
    ensemble = replace(ensemble, out=out)
    if (earlier := _earlier(out)) is not None:
        return _followed(ensemble, voters, earlier, None, samples)
    encoder = encoder_for(samples.schema, ensemble.encoder, ensemble.learner)
    with progress_bar("pilot") as progress, watched(progress):
        found = plan(
            samples,
            attack_size,
            with_learner(samples, ensemble.learner, encoder, quiet=True)[1],
            methods=(ENSEMBLE,) if voters.method == ENSEMBLE else None,
            features=None if encoder is None else encoder_of(encoder),
            learner_name=ensemble.learner,
            n_jobs=ensemble.n_jobs,
        )
    record = found.followed()
    output.note(f"method: {record['why']}; --method chooses another")
    if record["method"] != ENSEMBLE and encoder is not None:
        ensemble = replace(ensemble, encoder=encoder)
    return _followed(ensemble, voters, record, found, samples)


def _followed(
    ensemble: EnsembleOptions,
    voters: VoterOptions,
    record: dict[str, Any],
    plan: Plan | None,
    samples: Dataset | None = None,
) -> Followed:
    """The options as if a choice had been typed."""
    method, parameters = record["method"], record["parameters"]
    if method == ENSEMBLE:
        ensemble = replace(ensemble, k=int(parameters["k"]), d=int(parameters["d"]))
    return Followed(ensemble, voters.following(method, parameters), record, plan, samples)


def _earlier(out: Path) -> dict[str, Any] | None:
    """What the run that a folder holds follows, so that it goes on as it began."""
    from poisonproof.runs.manifest import FILE, Manifest

    if not (out / FILE).exists():
        return None
    followed = (Manifest.read(out).recipe or {}).get("plan")
    return followed if isinstance(followed, dict) else None


# The data change


def update(
    run: options.Run,
    data: options.RunData = None,
    remove: Annotated[
        str | None,
        typer.Option(
            "--remove",
            help="Training rows of the data to leave out, from 0: `3,17` (pictures by their names), or a file with one "
            "on each line. Those left out before keep their numbers; none are left out any more with `''`.",
        ),
    ] = None,
    learner: options.LearnerAgain = None,
    encoder: options.EncoderAgain = None,
    undefended: Annotated[
        bool,
        typer.Option(
            "--undefended/--no-undefended",
            help="Also train undefended models on all of the changed data, to compare with. Otherwise the run has no "
            "such figures any more.",
        ),
    ] = False,
    data_dir: options.DataDir = None,
    n_jobs: options.Jobs = -1,
    json: options.Json = False,
) -> None:
    """Make a run what it would be on changed data, read by its own schema; train only what that changes.

    Where training samples vote, nothing is trained: samples come and go, only new ones are described, and votes are
    counted. A map whose units were read off the data stays as it is.

    DATA is the data as it should be now: your file with rows added, deleted or corrected. What was concluded from
    the old data is deleted first; votes and base classifiers that saw a removed sample are overwritten.

    Interrupted, the same command goes on, and so does `poisonproof update RUN`. Repeated, it changes nothing: rows are
    numbered as in the data itself, also after some of them were left out.
    """
    options.check_run(run)
    from poisonproof.display import bytes_of
    from poisonproof.runs import run as runs
    from poisonproof.runs.manifest import RunSettings
    from poisonproof.runs.recipe import UserCode, reopen
    from poisonproof.runs.report import write_report
    from poisonproof.system.progress import watched

    output.warnings_as_notes()
    user_code = UserCode(learner, encoder)
    with progress_bar("reading") as progress, watched(progress):
        rows = None if remove is None else row_names(remove)
        reopened = reopen(run, data, data_dir, user_code, remove=rows, stored=True)
    for note in reopened.source.notes:
        output.note(note)
    recipe, before = reopened.recipe, reopened.manifest.settings
    settings = RunSettings(
        before.votes_only,
        bool(before.rankings),
        undefended,
        update=True,
        recipe=recipe.as_dict(),
        max_memory=None if recipe.max_memory is None else bytes_of(recipe.max_memory),
    )
    dataset = replace(reopened.dataset, name=before.name)
    with progress_bar() as progress, watched(progress):
        model = reopened.model(run, user_code, n_jobs)
        outcome = runs.run(dataset, model, run, settings)
    _delete_embeddings(model, reopened)
    write_report(outcome)
    changes = list(outcome.manifest.changes)
    if json:
        facts = {name: getattr(outcome.manifest, name) for name in UNDEFENDED}
        output.print_json({"out": str(run), "changes": changes, "n_train": outcome.manifest.n_train, **facts})
        return
    if outcome.manifest.no_undefended is not None:
        output.note(f"undefended models: {outcome.manifest.no_undefended}")
    change = changes[-1] if len(changes) > len(reopened.manifest.changes) else None
    words = outcome.election.updated(outcome.certificate, outcome.manifest.n_train or 0, change)
    output.print_line(f"{run}: {words}")


def _delete_embeddings(model: Any, reopened: Reopened) -> None:
    """Delete the embeddings of rows that are left out, unless an equal row stays."""
    import numpy as np

    from poisonproof.learners.inspection import public_map_of

    encoder, left_out = public_map_of(getattr(model, "estimator", model)), reopened.recipe.left_out
    if encoder is None or left_out is None:
        return
    gone = encoder.delete(reopened.source.train.take(np.array(left_out.of(reopened.source), np.int64)).X)
    if gone:
        output.note(f"{gone} embeddings of removed rows were deleted from the cache")


def row_names(text: str) -> list[int | str]:
    """Rows named on the command line: numbers or names of pictures with commas between, or a file with one per line."""
    if text and len(text) <= LONGEST_NAME and Path(text).is_file() and Path(text).suffix.lower() not in PICTURES:
        text = ",".join(Path(text).read_text().split())
    names = [name.strip() for name in text.split(",") if name.strip()]
    return [int(name) if name.lstrip("-").isdigit() else name for name in names]

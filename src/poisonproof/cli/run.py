"""poisonproof run: from a data set to a certificate and a report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from poisonproof import registry
from poisonproof.cli import following, options, output, reading
from poisonproof.cli.following import Followed
from poisonproof.cli.output import progress_bar
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.ballots.options import VoterOptions
    from poisonproof.core.certificate import Certificate
    from poisonproof.data.dataset import Dataset
    from poisonproof.data.options import ReadOptions
    from poisonproof.runs.outcome import Outcome
    from poisonproof.runs.recipe import Recipe

EXAMPLES = (
    "Example: `poisonproof run digits --k 50 --d 16 --out runs/digits`; `poisonproof run my.csv --label class --k 20`; "
    "`poisonproof run mnist.npz --learner glyphs --k 1200 --d 16`; `poisonproof run my.csv --label class "
    "--method neighbours --n-neighbors 200`"
)

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
    plan: following.PlanFile = None

    def refuse_for(self, what: str) -> None:
        """Refuse options that are about base classifiers, where there are none."""
        names = [name for name in self.given_of_base_classifiers if name not in ("learner", "plan")]
        if names:
            raise PoisonproofError(f"--{names[0].replace('_', '-')} is about base classifiers; leave it or {what} out.")

    @property
    def given_of_base_classifiers(self) -> list[str]:
        """The options about base classifiers that were typed, or say something else than they say by themselves."""
        return [name for name in OF_BASE_CLASSIFIERS if self._given(name)]

    def _given(self, name: str) -> bool:
        return getattr(self, name) != getattr(type(self), name) or options.typed(name)


@options.taking("ensemble", EnsembleOptions)
@options.taking("voters", registry.find("options", "voters"))
@options.taking("read", reading.read_options)
def command(
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
    fixed map, and one poison is one voice.

    Prints the certified fraction at a range of attack sizes, as a share of test samples and as the mean over classes
    (balanced), and the accuracy of the same learner trained undefended on all data, and of a strong one (gradient
    boosting for tables, tf-idf with n-grams for texts, the encoder head or the preset for images): the price of the
    proof. If a constant answer would do as well, that is said first.
    """
    reading.check(ensemble.data, read)
    with progress_bar("starting"):  # what is imported takes seconds
        from poisonproof.runs.manifest import RunSettings
        from poisonproof.runs.report import write_report
        from poisonproof.runs.run import run
        from poisonproof.system.progress import watched

    if attack_size is not None and attack_size < 0:
        raise PoisonproofError(f"--attack-size must be a whole number of 0 or more. Got {attack_size}.")
    voters.check()
    followed = Followed.of(ensemble, voters, read, attack_size)
    if followed is not None:
        ensemble, voters = followed.ensemble, followed.voters
        attack_size = followed.record["attack_size"] if attack_size is None else attack_size
    made = (prepare_samples if voters.by_samples else prepare)(ensemble, voters, read, followed)
    recipe = replace(made.recipe, attack_size=attack_size, plan=None if followed is None else followed.record)
    settings = RunSettings(
        votes_only, rankings, undefended, resume, recipe=recipe.as_dict(), max_memory=made.max_memory
    )
    with progress_bar() as progress, watched(progress):
        outcome = run(recipe.following(made.dataset), made.model, made.folder, settings)
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
    """Read the data, unless a pilot did, and put the ensemble together, as the command line says."""
    from poisonproof.core.split import Split
    from poisonproof.core.spread import Spread
    from poisonproof.display import bytes_of
    from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier
    from poisonproof.estimators.prepared import split_of
    from poisonproof.runs.folder import refuse_another, refuse_strangers
    from poisonproof.runs.recipe import NONE, Recipe, encoder_for, open_partitions, with_learner
    from poisonproof.system.progress import watched
    from poisonproof.training.engine import engine_of

    output.warnings_as_notes()
    most = None if ensemble.max_memory is None else bytes_of(ensemble.max_memory)
    spread = options.parse_spread(ensemble.spread) if ensemble.spread else None
    source = None if most is None else Recipe(ensemble.data, read).table()
    if source is not None:
        samples = source.outline()
        encoder = encoder_for(samples.schema, ensemble.encoder, ensemble.learner)
        samples, estimator = with_learner(samples, ensemble.learner, encoder)
        source = None if engine_of(estimator).pooled else source  # a pooled learner bounds its own memory
    if source is None:
        opened = None if followed is None else followed.samples
        samples = opened or reading.open_data(ensemble.data, ensemble.data_dir, read)
        encoder = encoder_for(samples.schema, ensemble.encoder, ensemble.learner)
        samples, estimator = with_learner(samples, ensemble.learner, encoder)
    recipe = Recipe(
        ensemble.data,
        read,
        ensemble.learner,
        NONE if encoder is None else encoder,
        max_memory=None if source is None else ensemble.max_memory,
    )
    if samples.train.groups is not None and ensemble.split != "content":
        raise PoisonproofError(
            f"With a column of contributors the split is 'group'; leave --split {ensemble.split} out."
        )
    kind = "group" if samples.train.groups is not None else ensemble.split
    model = FiniteAggregationClassifier(
        estimator,
        k=ensemble.k,
        d=ensemble.d,
        spread=spread,
        split=Split(kind, samples.dtype, samples.n_features),  # type: ignore[arg-type]
        classes=None if samples.classes is None else samples.classes.tolist(),
        n_jobs=ensemble.n_jobs,
    )
    spread = spread or Spread.random(ensemble.k, ensemble.d)
    name = f"{samples.name}-k{str(round(spread.k, 1)).removesuffix('.0')}-d{spread.d}"
    folder = ensemble.out or Path("runs") / name
    if source is not None:
        refuse_strangers(folder)
        refuse_another(folder, spread)
        with progress_bar("reading") as progress, watched(progress):
            samples = open_partitions(recipe, source, samples, estimator, spread, split_of(model), folder)
        for note in samples.notes:
            output.note(note)
    if followed is not None:
        followed.check(samples, estimator)
    return Made(recipe, samples, model, folder, most)


def prepare_samples(
    ensemble: EnsembleOptions, voters: VoterOptions, read: ReadOptions, followed: Followed | None = None
) -> Made:
    """Read the data, unless a pilot did, and put the classifier together in which its samples vote."""
    from poisonproof.runs.recipe import NONE, Recipe

    output.warnings_as_notes()
    ensemble.refuse_for(f"--method {voters.method}")
    opened = None if followed is None else followed.samples
    samples = opened or reading.open_data(ensemble.data, ensemble.data_dir, read)
    if followed is not None:
        followed.check(samples)
    model = voters.classifier(samples, ensemble.learner, ensemble.n_jobs, ensemble.encoder)
    folder = ensemble.out or Path("runs") / f"{samples.name}-{voters.method}"
    return Made(Recipe(ensemble.data, read, encoder=ensemble.encoder or NONE), samples, model, folder)


def show(outcome: Outcome, report: Path, json: bool) -> None:
    """What came out, on stdout; on stderr first, if so it is, that a constant answer would do as well."""
    from poisonproof.core.certificate import attack_sizes
    from poisonproof.runs.summary import (
        RareClass,
        Summary,
        asked_size,
        beside_plan,
        broken_promise,
        headline_size,
        premises_in_short,
    )

    certificate, requested = outcome.certificate, asked_size(outcome)
    sizes = sorted({*attack_sizes(certificate), *([] if requested is None else [requested])})
    summary = Summary.of(outcome, sizes, requested)
    scarcity, planned = RareClass.of(outcome, headline_size(outcome)), beside_plan(outcome)
    if (broken := broken_promise(outcome)) is not None:
        output.note(f"WARNING: {broken}")
    if summary.warning is not None:
        output.note(f"WARNING: {summary.warning}")
    if scarcity is not None:
        output.note(scarcity.sentence)
    if json:
        output.print_json(
            {
                "out": str(outcome.folder),
                "report": str(report),
                **_voters_of(certificate),
                "undefended_accuracy": outcome.undefended_accuracy,
                "strong_undefended_accuracy": outcome.manifest.strong_undefended_accuracy,
                "strong_undefended": outcome.manifest.strong_undefended,
                "base_accuracy": outcome.base_accuracy,
                **summary.as_dict(),
                "rare_class": None if scarcity is None else scarcity.as_dict(),
                "premises": [premise.words for premise in outcome.manifest.premises or ()],
                "seconds": outcome.seconds,
                "plan": {figure.name: figure.as_dict() for figure in planned} or None,
            }
        )
        return
    name = outcome.manifest.settings.name
    output.print_table(f"{name}: {len(certificate)} test samples, {_in_words(certificate)}", *summary.table(), left=1)
    output.print_line(summary.line)
    if scarcity is None and summary.behind is not None:
        output.print_line(summary.behind)
    if planned:
        output.print_line(
            f"Promised by the plan: {planned[-1].cells()[0]} balanced; came out: {planned[-1].cells()[1]}."
        )
    output.note(premises_in_short(outcome))
    output.note(f"report: {report}")


def _voters_of(certificate: Certificate) -> dict[str, Any]:
    """Who voted, for JSON: base classifiers by k and d, or training samples by their election."""
    spread = certificate.spread
    if spread is None:
        return {"method": certificate.method, "election": certificate.election}
    return {"method": certificate.method, "k": spread.k, "d": spread.d}


def _in_words(certificate: Certificate) -> str:
    spread = certificate.spread
    if spread is None:
        return certificate.voters
    return f"{spread.n_subsets} base classifiers (k = {spread.k:g}, d = {spread.d})"

"""A run that follows a plan: one that a file holds, or one that a pilot makes for the requested attack size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poisonproof.cli import output, reading
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.ballots.options import VoterOptions
    from poisonproof.cli.run import EnsembleOptions
    from poisonproof.data.dataset import Dataset
    from poisonproof.data.options import ReadOptions
    from poisonproof.planning.plan import Plan

PlanFile = Annotated[
    Path | None,
    typer.Option("--plan", help="Follow what `poisonproof plan` wrote: who votes and how; compare afterwards."),
]
ENSEMBLE, AUTO = "ensemble", "auto"
SAID_BY_PLAN = ("k", "d", "spread", "learner")


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

    @classmethod
    def of(
        cls, ensemble: EnsembleOptions, voters: VoterOptions, read: ReadOptions, attack_size: int | None
    ) -> Followed | None:
        """The plan that the options ask for; None if they say themselves who votes and how."""
        if ensemble.plan is not None:
            return cls._from_file(ensemble.plan, ensemble, voters)
        methods = {AUTO: None, ENSEMBLE: (ENSEMBLE,)}
        own = [name for name in ensemble.given_of_base_classifiers if name != "learner"]
        if voters.method == AUTO:
            ensemble.refuse_for("--method auto")
        elif voters.method not in (None, ENSEMBLE) or not attack_size or {"k", "spread"} & {*own}:
            return None
        if not attack_size:
            raise PoisonproofError("--method auto needs --attack-size: how many poisons predictions should withstand.")
        if "max_memory" in own:
            raise PoisonproofError("With --max-memory no pilot is made; say --k, or give a --plan of the same data.")
        return cls._by_pilot(ensemble, voters, read, attack_size, methods.get(voters.method or AUTO))

    @classmethod
    def _from_file(cls, path: Path, ensemble: EnsembleOptions, voters: VoterOptions) -> Followed:
        from poisonproof.planning.plan import Plan

        plan = Plan.load(path)
        twice = [name for name in SAID_BY_PLAN if name in ensemble.given_of_base_classifiers]
        twice += ["method"] * (voters.method is not None)
        if twice:
            raise PoisonproofError(f"--plan says what --{twice[0]} is; leave one of them out.")
        ensemble = replace(ensemble, learner=plan.learner_name)
        return cls(*_as_typed(ensemble, voters, plan.followed()), plan.followed(), plan)

    @classmethod
    def _by_pilot(
        cls,
        ensemble: EnsembleOptions,
        voters: VoterOptions,
        read: ReadOptions,
        attack_size: int,
        methods: tuple[str, ...] | None,
    ) -> Followed:
        from poisonproof.planning.plan import METHODS, plan
        from poisonproof.runs.recipe import encoder_for, encoder_of, with_learner
        from poisonproof.system.progress import watched

        output.warnings_as_notes()
        samples = reading.open_data(ensemble.data, ensemble.data_dir, read)
        ensemble = replace(ensemble, out=ensemble.out or Path("runs") / f"{samples.name}-attack-size-{attack_size}")
        assert ensemble.out is not None
        if (earlier := _earlier(ensemble.out)) is not None:
            return cls(*_as_typed(ensemble, voters, earlier), earlier, None, samples)
        encoder = encoder_for(samples.schema, ensemble.encoder, ensemble.learner)
        estimator = with_learner(samples, ensemble.learner, encoder, quiet=True)[1]
        with output.progress_bar("pilot") as progress, watched(progress):
            found = plan(
                samples,
                attack_size,
                estimator,
                methods=METHODS if methods is None else methods,
                features=None if encoder is None else encoder_of(encoder),
                learner_name=ensemble.learner,
                n_jobs=ensemble.n_jobs,
            )
        record = found.followed()
        output.note(f"method: {record['why']}; --method chooses another")
        if record["method"] != ENSEMBLE and encoder is not None:
            ensemble = replace(ensemble, encoder=encoder)
        return cls(*_as_typed(ensemble, voters, record), record, found, samples)

    def check(self, samples: Dataset, estimator: Any = None) -> None:
        """Refuse data that the plan was not made on."""
        if self.plan is not None:
            self.plan.check(samples, estimator)


def _as_typed(
    ensemble: EnsembleOptions, voters: VoterOptions, followed: dict[str, Any]
) -> tuple[EnsembleOptions, VoterOptions]:
    method, parameters = followed["method"], followed["parameters"]
    if method == ENSEMBLE:
        ensemble = replace(ensemble, k=int(parameters["k"]), d=int(parameters["d"]))
    return ensemble, voters.following(method, parameters)


def _earlier(out: Path) -> dict[str, Any] | None:
    """What the run that a folder holds follows, so that it goes on as it began."""
    from poisonproof.runs.manifest import FILE, Manifest

    if not (out / FILE).exists():
        return None
    followed = (Manifest.read(out).recipe or {}).get("plan")
    return followed if isinstance(followed, dict) else None

"""Who votes, and how, for an attack size that somebody fears: a pilot on the training data chooses, and says why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poisonproof.cli import encoding, output, reading
from poisonproof.cli.learning import with_learner
from poisonproof.cli.voters import BALLOTS, ENSEMBLE, NEIGHBOURS, VoterOptions
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.cli.run import EnsembleOptions
    from poisonproof.data import Dataset, ReadOptions
    from poisonproof.premises import Premise

PREMISE = "choice-of-method"
DEFAULT_K = 20
VOTES_PER_POISON = 6  # k for an attack size: it is withstood by a lead of a third of the votes; benchmarks/RESULTS.md


def k_for(attack_size: int) -> int:
    """The k for an attack size where no pilot chooses it."""
    return max(DEFAULT_K, VOTES_PER_POISON * attack_size)


@dataclass(frozen=True)
class Choice:
    """A method, its parameters and why; ``samples`` are the data that were read for it."""

    method: str
    parameters: dict[str, float]
    why: str
    encoder: str | None
    out: Path
    samples: Dataset

    def applied_to(self, ensemble: EnsembleOptions, voters: VoterOptions) -> tuple[EnsembleOptions, VoterOptions]:
        """The options as if the choice had been typed."""
        voters, ensemble = replace(voters, method=self.method), replace(ensemble, out=self.out)
        if self.method == BALLOTS:
            voters = replace(voters, near=self.parameters["near"])
        elif self.method == NEIGHBOURS:
            voters = replace(voters, n_neighbors=int(self.parameters["n_neighbors"]))
        elif self.parameters:
            return replace(ensemble, k=int(self.parameters["k"]), d=int(self.parameters["d"])), voters
        return replace(ensemble, encoder=self.encoder or ensemble.encoder), voters

    def as_dict(self) -> dict[str, Any]:
        """For the manifest."""
        return {"method": self.method, "parameters": self.parameters, "why": self.why}


def choose(ensemble: EnsembleOptions, read: ReadOptions, attack_size: int | None) -> Choice:
    """The method that certifies most at an attack size, by a pilot; an interrupted run goes on with its own choice."""
    from poisonproof.planning.families import candidates

    if not attack_size:
        raise PoisonproofError("--method auto needs --attack-size: how many poisons predictions should withstand.")
    ensemble.refuse_for("--method auto")
    output.warnings_as_notes()
    samples = reading.open_data(ensemble.data, ensemble.data_dir, read, download=ensemble.download)
    encoder = encoding.for_data(samples.schema, ensemble.encoder, ensemble.learner)
    out = ensemble.out or Path("runs") / f"{samples.name}-attack-size-{attack_size}"
    if (earlier := _earlier(out)) is not None:
        return Choice(**earlier, encoder=encoder, out=out, samples=samples)
    features = None if encoder is None else encoding.encoder_of(encoder)
    estimator = with_learner(samples, ensemble.learner, encoder, quiet=True)[1]
    try:
        best, *others = candidates(samples, estimator, attack_size, features)
    except PoisonproofError as error:
        output.note(f"method: {ENSEMBLE}; no pilot could be made ({str(error).removesuffix('.')})")
        parameters: dict[str, float] = {"k": k_for(attack_size), "d": 1}
        return Choice(ENSEMBLE, parameters, f"{ENSEMBLE}, without a pilot", encoder, out, samples)
    figures = ", ".join(f"{one.words} {100 * one.certified_balanced:.1f} %" for one in others)
    why = (
        f"{best.words}: on held-out training samples it certifies most at attack size {attack_size}, "
        f"{100 * best.certified_balanced:.1f} % on average over classes (estimated); {figures or 'nothing else'}"
    )
    output.note(f"method: {why}; --method chooses another")
    return Choice(best.method, best.parameters, why, encoder, out, samples)


def with_premise(dataset: Dataset, choice: dict[str, Any]) -> Dataset:
    """The data set with what a run takes as given: who could poison the pilot could change the choice.

    So the parameters that it chose are not called declared, either.
    """
    from poisonproof.premises import Premise

    premises = (*dataset.premises, *_of_parameters(choice), Premise(PREMISE, str(choice["why"]), declared=False))
    return replace(dataset, premises=premises)


def _of_parameters(choice: dict[str, Any]) -> list[Premise]:
    from poisonproof.core.spread import Spread
    from poisonproof.estimators.prepared import spread_premise
    from poisonproof.planning.voting import PARAMETERS
    from poisonproof.premises import Premise

    parameters = choice["parameters"]
    if not parameters:
        return []
    if choice["method"] == ENSEMBLE:
        return [spread_premise(Spread.random(int(parameters["k"]), int(parameters["d"])), declared=False)]
    (value,) = parameters.values()
    return [Premise(PARAMETERS[choice["method"]], value, declared=False)]


def _earlier(out: Path) -> dict[str, Any] | None:
    """The choice of the run that a folder holds, so that it goes on as it began."""
    from poisonproof.runs.manifest import FILE, Manifest

    if not (out / FILE).exists():
        return None
    choice = (Manifest.read(out).asked or {}).get("choice")
    return choice if isinstance(choice, dict) and choice.keys() == {"method", "parameters", "why"} else None

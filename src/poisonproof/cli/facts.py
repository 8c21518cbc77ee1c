"""A run, verified, with the facts that evidence and gates are made from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from poisonproof.cli import options, output
from poisonproof.cli.output import progress_bar
from poisonproof.cli.verify import at_hand, learner_of
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.evidence.facts import Facts

DataName = Annotated[
    str | None,
    options.data_argument("Data to check against; by default what the run was made from, if it is still there."),
]
Retrain = Annotated[
    int, typer.Option("--retrain", min=0, help="Train that many base classifiers again, drawn at random.")
]


class Brought(NamedTuple):
    """What of a run has to be named again: somebody's own code, because importing it runs it, and a file of tests."""

    learner: str | None = None
    encoder: str | None = None
    test: Path | None = None


def verified_facts(
    run: Path, dataset: str | None, data_dir: Path | None, retrain: int = 0, brought: Brought | None = None
) -> Facts:
    """The facts about a run; exit code 3, and the verdict on stderr, if something about it is false."""
    from poisonproof import verify
    from poisonproof.evidence.facts import gather
    from poisonproof.verification.verdict import CheckFailed

    if not (run / "manifest.json").exists():
        raise PoisonproofError(f"{run} holds no run; make one with `poisonproof run DATA --out {run}`.")
    learner, encoder, test = brought or Brought()
    data = at_hand(run, dataset, data_dir, given=dataset is not None, needed=retrain > 0, test=test)
    with progress_bar("checking") as progress:
        verdict = verify(
            run,
            data=data.dataset,
            retrain=retrain,
            source=data.source,
            estimator=learner_of(run, learner, encoder),
            progress=progress,
        )
    if data.dataset is None and verdict.consistent:
        raise PoisonproofError(f"Figures need the labels of the test samples; {data.source}")
    try:
        return gather(run, data.dataset, verdict)
    except CheckFailed as error:
        output.note(str(error))
        raise typer.Exit(3) from None

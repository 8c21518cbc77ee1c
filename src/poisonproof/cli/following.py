"""A run that follows a plan: what it takes from it, and what it says afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poisonproof.cli import options
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.data import Dataset
    from poisonproof.planning.plan import Plan
    from poisonproof.runs.run import Outcome

PlanFile = Annotated[
    Path | None,
    typer.Option(
        "--plan", help="Take k, d, spread and learner from what `poisonproof plan` wrote; compare afterwards."
    ),
]


def open_plan(path: Path, others: dict[str, bool]) -> Plan:
    """A plan, unless one of the options that it stands for was given too."""
    from poisonproof.planning.plan import Plan

    twice = [name for name, given in others.items() if given]
    if twice:
        raise PoisonproofError(f"--plan says what {twice[0]} is; leave one of them out.")
    return Plan.load(path)


def with_premise(samples: Dataset, followed: dict[str, Any] | None) -> Dataset:
    """The data set, with what a followed plan chose from it among the premises."""
    from poisonproof.planning.plan import followed_premise

    return samples if followed is None else samples.but(premises=(*samples.premises, followed_premise(followed)))


def print_beside(outcome: Outcome) -> None:
    """Predicted beside obtained, if the run followed a plan."""
    from poisonproof.report.planned import beside_plan

    figures = beside_plan(outcome)
    if figures:
        options.print_table(
            "What the plan predicted (estimated) beside what came out",
            ["", "predicted", "obtained", "difference"],
            [[figure.what, *figure.cells()] for figure in figures],
            left=1,
        )

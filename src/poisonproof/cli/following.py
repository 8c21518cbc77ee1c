"""A run that follows a plan: what it takes from it, and what it says afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poisonproof.cli import options

if TYPE_CHECKING:
    from poisonproof.data import Dataset
    from poisonproof.runs.outcome import Outcome

PlanFile = Annotated[
    Path | None,
    typer.Option(
        "--plan", help="Take k, d, spread and learner from what `poisonproof plan` wrote; compare afterwards."
    ),
]


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

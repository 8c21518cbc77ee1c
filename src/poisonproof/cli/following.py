"""A run that follows a plan: what it takes from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poisonproof.cli import options

if TYPE_CHECKING:
    from poisonproof.data import Dataset

PlanFile = Annotated[
    Path | None,
    typer.Option(
        "--plan", help="Take k, d, spread and learner from what `poisonproof plan` wrote; compare afterwards."
    ),
]


def with_premise(samples: Dataset, followed: dict[str, Any] | None) -> Dataset:
    """The data set, with the premise that a pilot chose the spread: who could poison it could change the choice."""
    if followed is None:
        return samples
    from poisonproof.core.spread import Spread
    from poisonproof.estimators.prepared import spread_premise

    random = followed["spread"] == "random"
    spread = Spread.random(followed["k"], followed["d"]) if random else options.parse_spread(followed["spread"])
    return replace(samples, premises=(*samples.premises, spread_premise(spread, declared=False)))

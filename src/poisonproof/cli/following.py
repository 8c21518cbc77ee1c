"""A run that follows a plan: what it takes from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from poisonproof.data import Dataset

PlanFile = Annotated[
    Path | None,
    typer.Option(
        "--plan", help="Take k, d, spread and learner from what `poisonproof plan` wrote; compare afterwards."
    ),
]


def with_premise(samples: Dataset, followed: dict[str, Any] | None) -> Dataset:
    """The data set, with what a followed plan chose from it among the premises."""
    if followed is None:
        return samples
    from poisonproof.planning.plan import followed_premise

    return samples.but(premises=(*samples.premises, followed_premise(followed)))

"""How good was the plan? What it promised beside what a run came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from poisonproof.runs.outcome import Outcome


@dataclass(frozen=True)
class Figure:
    """One promised share beside the obtained one."""

    name: str
    what: str
    predicted: float
    obtained: float

    def cells(self) -> list[str]:
        """Both in words, and how far apart they are."""
        points = 100 * (self.predicted - self.obtained)
        return [f"{100 * self.predicted:.1f} %", f"{100 * self.obtained:.1f} %", f"{points:+.1f} points"]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return {"predicted": self.predicted, "obtained": self.obtained}


def beside_plan(outcome: Outcome) -> list[Figure]:
    """Clean accuracy and certified fractions, promised and obtained; nothing if no plan was followed."""
    followed = (outcome.manifest.asked or {}).get("plan")
    if followed is None:
        return []
    figures, size = outcome.figures, followed["attack_size"]
    at, balanced = f"at attack size {size}", "the same, balanced (mean over classes)"
    fraction = float(figures.certified_fraction([size])[0])
    of_classes = float(figures.certified_fraction_balanced([size])[0])
    return [
        Figure("clean_accuracy", "clean accuracy", followed["clean"], figures.clean_accuracy),
        Figure("certified_fraction", f"certified fraction (pointwise) {at}", followed["certified"], fraction),
        Figure("certified_fraction_balanced", balanced, followed["certified_balanced"], of_classes),
    ]


def broken_promise(outcome: Outcome) -> str | None:
    """One sentence if a run came to less than two standard errors below what its plan promised, with what to try."""
    followed, figures = (outcome.manifest.asked or {}).get("plan"), beside_plan(outcome)
    if followed is None:
        return None
    figure = figures[-1]
    if figure.obtained >= figure.predicted - 2 * followed["error"]:
        return None
    other = f"; the next best was `{followed['next_best']}`" if followed["next_best"] else ""
    return (
        f"the plan promised {100 * figure.predicted:.1f} ± {100 * followed['error']:.1f} % certified on average over "
        f"classes at attack size {followed['attack_size']}, and {100 * figure.obtained:.1f} % came out{other}"
    )

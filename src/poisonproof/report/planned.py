"""How good was the plan? What it predicted beside what a run came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from poisonproof.runs.outcome import Outcome


@dataclass(frozen=True)
class Figure:
    """One predicted number beside the obtained one; a share, or seconds."""

    name: str
    what: str
    predicted: float
    obtained: float

    def cells(self) -> list[str]:
        """Both in words, and how far apart they are."""
        if self.name == "seconds":
            ratio = self.predicted / max(self.obtained, 1e-9)
            return [f"{self.predicted:.1f} s", f"{self.obtained:.1f} s", f"×{ratio:.2f}"]
        points = 100 * (self.predicted - self.obtained)
        return [f"{100 * self.predicted:.1f} %", f"{100 * self.obtained:.1f} %", f"{points:+.1f} points"]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return {"predicted": self.predicted, "obtained": self.obtained}


def beside_plan(outcome: Outcome) -> list[Figure]:
    """Clean accuracy, certified fraction and seconds, predicted and obtained; nothing if no plan was followed.

    Seconds are left out once the training data of the run was changed: most base classifiers were not trained then.
    """
    followed = (outcome.manifest.asked or {}).get("plan")
    if followed is None:
        return []
    certificate, size = outcome.certificate, followed["attack_size"]
    method = ", tight certificate" if followed["method"] == "tight" else ""
    figures = [
        Figure("clean_accuracy", "clean accuracy", followed["clean"], certificate.clean_accuracy(outcome.y_test)),
        Figure(
            "certified_fraction",
            f"certified fraction (pointwise) at attack size {size}{method}",
            followed["certified"],
            float(certificate.certified_fraction(outcome.y_test, [size])[0]),
        ),
    ]
    if "certified_balanced" in followed:  # plans of the first kind did not balance
        figures.append(
            Figure(
                "certified_fraction_balanced",
                f"the same, balanced (mean over classes){method}",
                followed["certified_balanced"],
                float(certificate.certified_fraction_balanced(outcome.y_test, [size])[0]),
            )
        )
    if not outcome.manifest.changes:
        seconds = outcome.seconds["train and vote"]
        figures.append(Figure("seconds", "time to train and vote", followed["seconds"], seconds))
    return figures

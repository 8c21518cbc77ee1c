"""What many answers come to, counted as they pass: the usual answer, the radii and, where labels are known, the truth.

A constant answer is perfectly robust; so the share of the most frequent answer stands beside the radii, and the
majority share and the balanced figures beside what is right and certified.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from poisonproof.samples.cells import text_of
from poisonproof.samples.labels import Cell, label_cells
from poisonproof.serving.kept import Answers, Question

MOST_LABELS = 10_000
RIGHT, CERTIFIED = 0, 1


class AnswerTally:
    """Counts over all answers given so far; what it holds does not grow with their number."""

    def __init__(self, question: Question, unit: str) -> None:
        self.question, self.unit = question, unit
        self.predictions, self.radii, self.labels = Counter[str](), Counter[int](), Counter[Cell]()
        self.right: dict[Cell, list[int]] = defaultdict(lambda: [0, 0])
        self.withheld = self.unread = 0

    def add(self, answers: Answers, labels: Sequence[str | None] | None = None) -> None:
        """Count these answers; ``labels`` are the cells of the label column, None where they are missing."""
        certificate = answers.certificate
        predicted = certificate.labels.tolist()
        self.predictions.update(map(str, predicted))
        self.radii.update(certificate.radius.tolist())
        self.withheld += int(answers.withheld.sum())
        if labels is None or len(self.labels) > MOST_LABELS:
            return
        both = zip(label_cells(labels), label_cells(predicted), certificate.radius.tolist(), strict=True)
        for label, answer, radius in both:
            if label is not None:
                self.labels[label] += 1
                self.right[label][RIGHT] += answer == label
                self.right[label][CERTIFIED] += answer == label and radius >= (self.question.attack_size or 0)

    def __len__(self) -> int:
        return self.radii.total()

    @property
    def usual(self) -> tuple[Any, float]:
        """The most frequent answer and its share of all."""
        answer, count = max(self.predictions.items(), key=lambda item: item[1])
        return answer, count / len(self)

    @property
    def truth(self) -> dict[str, Any]:
        """What is right, beside what a constant answer has; nothing where labels are not known."""
        total = self.labels.total()
        if not total or len(self.labels) > MOST_LABELS:
            return {}
        shares = [[count / self.labels[label] for count in self.right[label]] for label in self.labels]
        figures = {
            "labelled": total,
            "clean_accuracy": sum(right[RIGHT] for right in self.right.values()) / total,
            "majority_share": max(self.labels.values()) / total,
            "balanced_accuracy": float(np.mean([share[RIGHT] for share in shares])),
        }
        if self.question.attack_size is not None:
            figures["certified_fraction"] = sum(right[CERTIFIED] for right in self.right.values()) / total
            figures["certified_fraction_balanced"] = float(np.mean([share[CERTIFIED] for share in shares]))
        return {name: value if name == "labelled" else _down(value) for name, value in figures.items()}

    def as_dict(self) -> dict[str, Any]:
        """The figures by name; shares are rounded down."""
        answer, share = self.usual
        held = sorted(self.radii)
        record: dict[str, Any] = {
            "samples": len(self),
            "unit": self.unit,
            "most_frequent_answer": answer,
            "its_share": _down(share),
            "smallest_radius": held[0],
            "median_radius": self._median(),
            "largest_radius": held[-1],
        }
        if (size := self.question.attack_size) is not None:
            certified = sum(count for radius, count in self.radii.items() if radius >= size)
            record |= {"attack_size": size, "certified_share": _down(certified / len(self))}
        if self.question.min_radius is not None:
            record |= {"withheld": self.withheld}
        if self.unread:
            record |= {"unread": self.unread}
        return record | self.truth

    @property
    def warning(self) -> str | None:
        """What must be said before any figure, or None."""
        answer, share = self.usual
        if share == 1.0 and len(self) > 1:
            return f"every answer is '{answer}'; a constant answer is perfectly robust, and says nothing"
        truth = self.truth
        if truth and len(self.labels) > 1 and truth["clean_accuracy"] <= truth["majority_share"]:
            label = text_of(self.labels.most_common(1)[0][0], "a label")
            return (
                f"always answering '{label}' would be right as often or more ({truth['majority_share']:.1%} of the "
                f"labelled samples, against {truth['clean_accuracy']:.1%})"
            )
        return None

    def _median(self) -> int:
        """The lower median of the radii."""
        seen, half = 0, (len(self) + 1) // 2
        for radius in sorted(self.radii):
            seen += self.radii[radius]
            if seen >= half:
                return radius
        return 0


def _down(share: float) -> float:
    return int(share * 10_000 + 1e-9) / 10_000

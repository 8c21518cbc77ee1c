"""Answers of a saved run for new samples: prediction, radius, runner-up and share of votes, and what they come to.

`predict` (files) and `serve` (HTTP) both answer by `SavedRun.answers`, so their answers are the same to the bit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.certificate import UNSEEN, Certificate
from poisonproof.core.certify import certify
from poisonproof.data.reading import SCHEMAS
from poisonproof.errors import PoisonproofError
from poisonproof.runs.election import Fitted, election_named
from poisonproof.runs.manifest import Manifest
from poisonproof.runs.run import check_plain
from poisonproof.samples.cells import text_of
from poisonproof.samples.labels import Cell, label_cells
from poisonproof.samples.schema import Schema, schema_from_dict

COLUMNS, REASON = ("prediction", "radius", "runner_up", "vote_share"), "reason"
MAX_BLOCK_VOTES, MAX_BLOCK_ROWS = 1 << 26, 1 << 14
BASE_CLASSIFIER_ROWS = 512  # base classifiers predict so many rows at a time; blocks are multiples of it
MAX_LABELS = 10_000  # distinct labels that a summary counts


@dataclass(frozen=True)
class Question:
    """What an answer holds beyond prediction, radius, runner-up and share of votes.

    Attributes
    ----------
    target : label
        Also how many poisons it takes until the answer could become this class.
    attack_size : int
        Also whether the answer is certified at this attack size.
    min_radius : int
        No answer where the radius is smaller.
    """

    target: Any = None
    attack_size: int | None = None
    min_radius: int | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of an answer's entries; the last says why a sample could not be read, and is None otherwise."""
        more = {"target_radius": self.target, "certified": self.attack_size}
        return (*COLUMNS, *(name for name, value in more.items() if value is not None), REASON)

    def unanswered(self, reason: str) -> tuple[Any, ...]:
        """The answer for a sample that cannot be read."""
        return (*[None] * (len(self.columns) - 1), reason)


@dataclass(frozen=True, eq=False)
class Answers:
    """Prediction, radius and the rest for some samples; ``withheld`` where the radius is below what was asked for."""

    certificate: Certificate
    share: NDArray[np.float64]
    question: Question
    target_radius: Sequence[int | None] | None

    @property
    def withheld(self) -> NDArray[np.bool_]:
        """Where no answer is given."""
        return self.certificate.radius < (self.question.min_radius or 0)

    def __len__(self) -> int:
        return len(self.certificate)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """One tuple for each sample, by the columns of the question; None where there is no answer."""
        certificate, withheld = self.certificate, self.withheld
        names = [*certificate.classes.tolist(), UNSEEN]
        for at in range(len(self)):
            radius = int(certificate.radius[at])
            row: tuple[Any, ...] = (
                None if withheld[at] else names[int(certificate.prediction[at])],
                radius,
                names[int(certificate.runner_up[at])],
                float(self.share[at]),
            )
            if self.target_radius is not None:
                row += (self.target_radius[at],)
            if self.question.attack_size is not None:
                row += (radius >= self.question.attack_size,)
            yield (*row, None)


@dataclass(frozen=True, eq=False)
class SavedRun:
    """A complete run that saved its model, opened to answer: base classifiers, or training samples that vote."""

    folder: Path
    manifest: Manifest
    schema: Schema
    fitted: Fitted

    @classmethod
    def open(cls, folder: Path, trusted: Sequence[str] = (), n_jobs: int | None = 1) -> SavedRun:
        """Open a run; refuse, in one sentence, what is no run, not complete, or saved no model."""
        check_plain(folder)
        manifest = Manifest.of_run(folder)
        settings, election = manifest.settings, election_named(manifest.settings.method)
        if not (folder / "models" / "model.json").exists():
            raise PoisonproofError(election.again(folder, settings))
        schema = SCHEMAS.get(settings.name) if settings.schema is None else schema_from_dict(settings.schema)
        fitted = election.open(folder, trusted, n_jobs, manifest.method)
        if schema is None or (settings.schema is None and schema.n_features != fitted.model.n_features_in_):
            raise PoisonproofError(
                f"The run in {folder} is of the data set '{settings.name}' and has no schema to read other files by; "
                "train on files of your own with `poisonproof run FILE --label COLUMN`.",
                code="run.no-schema",
            )
        return cls(folder, manifest, schema, fitted)

    @property
    def model(self) -> Any:
        """The fitted classifier."""
        return self.fitted.model

    @property
    def unit(self) -> str:
        """What radii count."""
        return "contributors" if self.model.split_.kind == "group" else "training samples"

    @property
    def premises(self) -> list[str]:
        """What every radius takes as given."""
        return [str(premise) for premise in self.model.premises_]

    @property
    def block_rows(self) -> int:
        """How many samples to answer at a time, so that their votes fit into memory."""
        rows = min(MAX_BLOCK_ROWS, MAX_BLOCK_VOTES // self.fitted.n_voters)
        return max(BASE_CLASSIFIER_ROWS, rows - rows % BASE_CLASSIFIER_ROWS)

    def answers(self, X: Any, question: Question = Question()) -> Answers:
        """Prediction, radius and what else is asked, for each of these samples."""
        tallies = self.fitted.tallies([self.fitted.ask(X)])
        certificate = self.fitted.certify(tallies)
        share = self.fitted.shares(tallies)[np.arange(len(certificate)), certificate.prediction]
        target_radius = None
        if question.target is not None:
            against = certify(tallies, target=question.target)
            pairs = zip(against.already, against.radius, strict=True)
            target_radius = [None if already else int(radius) for already, radius in pairs]
        return Answers(certificate, share, question, target_radius)


class AnswerSummary:
    """What many answers come to, counted block by block; its memory does not grow with their number.

    A constant answer is perfectly robust. So the share of the most frequent answer stands beside the radii, and the
    majority share and the balanced figures beside what is right and certified, where labels are known.
    """

    def __init__(self, question: Question, unit: str) -> None:
        self.question, self.unit = question, unit
        self.predictions, self.radii, self.labels = Counter[str](), Counter[int](), Counter[Cell]()
        self.right: dict[Cell, list[int]] = defaultdict(lambda: [0, 0])  # by label: right, right and certified
        self.withheld = self.unread = 0

    def add(self, answers: Answers, labels: Sequence[str | None] | None = None) -> None:
        """Count these answers; ``labels`` are the cells of the label column, None where they are missing."""
        certificate = answers.certificate
        predicted = certificate.labels.tolist()
        self.predictions.update(map(str, predicted))
        self.radii.update(certificate.radius.tolist())
        self.withheld += int(answers.withheld.sum())
        if labels is None or len(self.labels) > MAX_LABELS:
            return
        both = zip(label_cells(labels), label_cells(predicted), certificate.radius.tolist(), strict=True)
        for label, answer, radius in both:
            if label is not None:
                self.labels[label] += 1
                self.right[label][0] += answer == label
                self.right[label][1] += answer == label and radius >= (self.question.attack_size or 0)

    def __len__(self) -> int:
        return self.radii.total()

    @property
    def most_frequent(self) -> tuple[Any, float]:
        """The most frequent answer and its share of all."""
        answer, count = max(self.predictions.items(), key=lambda item: item[1])
        return answer, count / len(self)

    @property
    def accuracy(self) -> dict[str, Any]:
        """The figures against known labels, beside the majority share; empty without labels."""
        total = self.labels.total()
        if not total or len(self.labels) > MAX_LABELS:
            return {}
        shares = [[count / self.labels[label] for count in self.right[label]] for label in self.labels]
        figures = {
            "labelled": total,
            "clean_accuracy": sum(right[0] for right in self.right.values()) / total,
            "majority_share": max(self.labels.values()) / total,
            "balanced_accuracy": float(np.mean([share[0] for share in shares])),
        }
        if self.question.attack_size is not None:
            figures["certified_fraction"] = sum(right[1] for right in self.right.values()) / total
            figures["certified_fraction_balanced"] = float(np.mean([share[1] for share in shares]))
        return {name: value if name == "labelled" else _rounded_down(value) for name, value in figures.items()}

    def as_dict(self) -> dict[str, Any]:
        """The figures by name; shares are rounded down."""
        answer, share = self.most_frequent
        radii = sorted(self.radii)
        record: dict[str, Any] = {
            "samples": len(self),
            "unit": self.unit,
            "most_frequent_answer": answer,
            "its_share": _rounded_down(share),
            "smallest_radius": radii[0],
            "median_radius": self._median(),
            "largest_radius": radii[-1],
        }
        if (size := self.question.attack_size) is not None:
            certified = sum(count for radius, count in self.radii.items() if radius >= size)
            record |= {"attack_size": size, "certified_share": _rounded_down(certified / len(self))}
        if self.question.min_radius is not None:
            record |= {"withheld": self.withheld}
        if self.unread:
            record |= {"unread": self.unread}
        return record | self.accuracy

    @property
    def warning(self) -> str | None:
        """What a reader should know before any figure, or None."""
        answer, share = self.most_frequent
        if share == 1.0 and len(self) > 1:
            return f"every answer is '{answer}'; a constant answer is perfectly robust, and says nothing"
        figures = self.accuracy
        if figures and len(self.labels) > 1 and figures["clean_accuracy"] <= figures["majority_share"]:
            label = text_of(self.labels.most_common(1)[0][0], "a label")
            return (
                f"always answering '{label}' would be right as often or more ({figures['majority_share']:.1%} of the "
                f"labelled samples, against {figures['clean_accuracy']:.1%})"
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


def _rounded_down(share: float) -> float:
    return int(share * 10_000 + 1e-9) / 10_000

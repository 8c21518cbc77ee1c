"""A run whose base classifiers were kept, opened to be asked.

Whoever asks, by a file or by HTTP, asks here; so both get the same answers to the bit.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.certificates.certificate import UNSEEN, Certificate
from poisonproof.certificates.methods import certify
from poisonproof.certificates.samples_vote import speaking
from poisonproof.data.named import SCHEMAS
from poisonproof.errors import PoisonproofError
from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier
from poisonproof.estimators.samples_vote import SampleVoteClassifier
from poisonproof.premises import PremiseWarning
from poisonproof.runs.election import CLASSIFIERS
from poisonproof.runs.manifest import FILE, Manifest
from poisonproof.runs.plain import check_plain
from poisonproof.samples.schema import ArraySchema, ImageSchema, Schema, schema_from_dict
from poisonproof.training.member_list import UnansweredError
from poisonproof.votes.ballots import Ballots
from poisonproof.votes.neighbours import Neighbours
from poisonproof.votes.votes import Votes

COLUMNS, REASON = ("prediction", "radius", "runner_up", "vote_share"), "reason"
MOST_VOTES = 1 << 26  # at once
MOST_ROWS, ROW_STEP = 1 << 14, 512


@dataclass(frozen=True)
class Question:
    """What is asked beyond prediction, radius, runner-up and share of votes; None where nothing is.

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
        """What the entries of an answer are called; the last says why there is none, of a sample that was not read."""
        more = {"target_radius": self.target, "certified": self.attack_size}
        return (*COLUMNS, *(name for name, asked in more.items() if asked is not None), REASON)

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
class KeptRun:
    """A run's schema and its model, base classifiers or samples that vote, ready to answer."""

    folder: Path
    manifest: Manifest
    schema: Schema
    model: FiniteAggregationClassifier | SampleVoteClassifier

    @classmethod
    def open(cls, folder: Path, trusted: Sequence[str] = (), n_jobs: int | None = 1) -> KeptRun:
        """Open a run; refuse, in one sentence, what is no run, not complete, or kept no base classifiers."""
        check_plain(folder)
        manifest = _manifest(folder)
        schema = _schema(folder, manifest)
        _check_models(folder, manifest)
        election = manifest.settings.election
        kind = FiniteAggregationClassifier if election is None else CLASSIFIERS[election["method"]]
        model = kind.load(folder / "models", trusted=trusted).set_params(n_jobs=n_jobs)
        if manifest.settings.schema is None and _width(schema) != model.n_features_in_:
            raise _no_schema(folder, manifest)
        return cls(folder, manifest, schema, model)

    @property
    def unit(self) -> str:
        """What radii count."""
        return "contributors" if self.model.split_.kind == "group" else "training samples"

    @property
    def premises(self) -> list[str]:
        """What every radius takes as given."""
        return [str(premise) for premise in self.model.premises_]

    @property
    def rows_at_once(self) -> int:
        """How many samples are asked about at a time, so that their votes stay small."""
        model = self.model
        each = len(model.voters_) if isinstance(model, SampleVoteClassifier) else model.spread_.n_subsets
        rows = min(MOST_ROWS, MOST_VOTES // each)
        return max(ROW_STEP, rows - rows % ROW_STEP)

    @property
    def ensemble(self) -> FiniteAggregationClassifier:
        """The base classifiers; one sentence where training samples vote."""
        if isinstance(self.model, SampleVoteClassifier):
            raise PoisonproofError(
                f"The run in {self.folder} has no base classifiers, its training samples vote; `poisonproof predict` "
                "answers for new samples."
            )
        return self.model

    @property
    def _flips_only(self) -> bool:
        """Whether the training samples shaped the map, so that nothing is claimed but of flipped labels."""
        model = self.model
        return isinstance(model, SampleVoteClassifier) and getattr(model.map_.features, "label_flips_only", False)

    def votes(self, X: Any) -> Votes:
        """What the base classifiers say about these samples; none is refused because nobody can answer it."""
        model = self.ensemble
        if model.n_jobs == 1:
            return model._asked(X)
        try:
            return model.votes(X)
        except UnansweredError as error:  # these samples are some of more, and may be the only such ones
            warnings.warn(str(error), PremiseWarning, stacklevel=2)
            return model._asked(X)

    def answers(self, X: Any, question: Question = Question()) -> Answers:
        """Prediction, radius and what else is asked, for each of these samples."""
        votes: Votes | Ballots | Neighbours
        if isinstance(self.model, SampleVoteClassifier):
            votes = self.model._votes_of(self.model._heard(X))
            certificate = certify(votes)
            counts = speaking(votes)
            share = counts[np.arange(len(counts)), certificate.prediction] / np.maximum(counts.sum(axis=1), 1)
        else:
            votes = self.votes(X)
            certificate = certify(votes, self.manifest.method or "finite-aggregation")  # type: ignore[call-overload]
            counts = votes.counts()
            share = counts[np.arange(len(counts)), certificate.prediction] / votes.spread.n_subsets
        target = None
        if question.target is not None:
            wanted = certify(votes, target=question.target)
            if self._flips_only:
                wanted = replace(wanted, radius=np.zeros(len(wanted), np.int64))
            target = [
                None if already else int(radius) for already, radius in zip(wanted.already, wanted.radius, strict=True)
            ]
        return Answers(certificate, share, question, target)


def _manifest(folder: Path) -> Manifest:
    if not (folder / FILE).exists():
        raise PoisonproofError(f"{folder} holds no run; make one with `poisonproof run DATA --out {folder}`.")
    manifest = Manifest.read(folder)
    if manifest.status not in ("complete", "trained"):
        raise PoisonproofError(
            f"The run in {folder} is not complete; the `poisonproof run` command that began it goes on with it."
        )
    return manifest


def _schema(folder: Path, manifest: Manifest) -> Schema:
    if manifest.settings.schema is not None:
        return schema_from_dict(manifest.settings.schema)
    if manifest.settings.name not in SCHEMAS:
        raise _no_schema(folder, manifest)
    return SCHEMAS[manifest.settings.name]


def _no_schema(folder: Path, manifest: Manifest) -> PoisonproofError:
    return PoisonproofError(
        f"The run in {folder} is of the data set '{manifest.settings.name}' and has no schema to read other files by; "
        "train on files of your own with `poisonproof run FILE --label COLUMN`."
    )


def _width(schema: Schema) -> int:
    """How many numbers a sample of a named data set has."""
    if isinstance(schema, ImageSchema):
        return schema.width * schema.height * (3 if schema.colour else 1)
    return prod(schema.shape) if isinstance(schema, ArraySchema) else -1


def _check_models(folder: Path, manifest: Manifest) -> None:
    if not (folder / "models" / "model.json").exists():
        settings = manifest.settings
        if settings.election is not None:
            raise PoisonproofError(
                f"The run in {folder} kept no voters (--votes-only); run the same command without it, with another "
                "--out."
            )
        schema = "" if settings.schema is None else f"--schema {folder / 'schema.json'} "
        raise PoisonproofError(
            f"The run in {folder} kept no base classifiers (--votes-only); train them with "
            f"`poisonproof run {settings.name} {schema}--k {settings.k:g} --d {settings.d} --out {folder}-models`."
        )

"""Runs in which training samples vote: described, counted and kept; how they vote stands in the run's manifest.

Everything that decides is in that record, the map too, with the units that were read off the data, if they were: so a
run can be opened again, changed, and checked by somebody else, and nothing is settled a second time from other rows.

Nothing is trained. What samples say of test samples stands in blocks on disk, each known by the voters and the test
samples it is about: a run that was killed goes on with the blocks that are missing, and a block that is no longer true
of the data is counted again. A run that goes on describes its samples again; embeddings come from their cache.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from poisonproof.ballots.classifiers import (
    OF_THE_RULE,
    BallotClassifier,
    Heard,
    NeighborVoteClassifier,
    SampleVoteClassifier,
)
from poisonproof.ballots.maps import OWN, map_of, record_of
from poisonproof.ballots.tallies import Ballots, Neighbours
from poisonproof.core.certificate import Certificate
from poisonproof.core.split import Split
from poisonproof.core.votes import labels_to_json, load_tallies
from poisonproof.data.dataset import Dataset
from poisonproof.errors import DamagedFileError, PoisonproofError, WrongTypeError
from poisonproof.estimators.prepared import split_of
from poisonproof.learners.inspection import describe
from poisonproof.premises import Premise, PublicMap
from poisonproof.runs.election import Election, Fitted, VotersInEvidence, threat_model
from poisonproof.runs.manifest import Identity, RunSettings
from poisonproof.samples.convert import digest_of
from poisonproof.system.files import open_arrays, reading, write_arrays
from poisonproof.system.progress import counted

FORMAT = "poisonproof counts 1"
TESTS_PER_BLOCK = 1024
FILES = ("model.json", "voters.npz", "map.skops")
PARAMETERS = ("near", "n_neighbors", "one_sided", "voices", "class_sizes_from")
log = logging.getLogger(__name__)


class SampleElection(Election):
    """Training samples that vote."""

    classifier: ClassVar[type[SampleVoteClassifier]]
    premise: ClassVar[str]
    """The code of the premise that states the parameter of the rule."""

    def __init__(self, dataset: Dataset, model: SampleVoteClassifier, settings: RunSettings) -> None:
        super().__init__(dataset, model, settings)
        if settings.rankings:
            raise PoisonproofError(
                "Rankings are those of base classifiers; where samples vote, leave --rankings out.",
                code="options.other-method",
            )
        if settings.max_memory is not None:
            raise PoisonproofError(
                "--max-memory bounds pooled learners; samples that vote take a fixed amount of memory.",
                code="options.other-method",
            )
        if type(model) is not self.classifier:
            raise WrongTypeError(
                f"A run cannot keep a {type(model).__name__} yet; fit and save it by itself.", code="run.classifier"
            )
        self.fitted = self._fitted()
        self.split, self.n_train = self.fitted.split_, len(self.fitted.voters_)
        self.record = election_record(self.fitted)
        name = self.record["map"]["name"]
        words = f"{model.method}, map {describe(self.fitted.map_.features) if name == OWN else name}"
        self.identity = self._identity(words, self.fitted.classes_, election=self.record)
        self.test = self.split.samples(dataset.test.samples)

    def _fitted(self) -> SampleVoteClassifier:
        """A classifier with the same parameters, fitted; the premises of the data set stand in place of its own.

        Of the rule of the vote the data set says only who chose it: its words are the classifier's.
        """
        model, train = self.model, self.dataset.train
        fitted: SampleVoteClassifier = type(model)(**model.get_params(deep=False))
        split = split_of(model)
        self.dataset.check_schema(split.schema)
        fitted.fit(split.samples(train.samples), train.labels, train.groups)
        premises = {premise.code: premise for premise in fitted.premises_}
        for premise in self.dataset.premises:
            rule = premises.get(premise.code) if premise.code in OF_THE_RULE else None
            premises[premise.code] = premise if rule is None else replace(rule, declared=premise.declared)
        fitted.premises_ = tuple(premises.values())
        return fitted

    def vote(self, folder: Path, stale: Callable[[int], None]) -> Ballots | Neighbours:
        """What the voters say of all test samples: blocks that are there and still true, and the others counted now."""
        stale(0)  # nothing is trained
        voters, test = self._voters_digest(), self.test
        starts = range(0, len(test), TESTS_PER_BLOCK)
        paths = [folder / "votes" / f"block-{number:05d}.npz" for number in range(len(starts))]
        for path in set((folder / "votes").glob("*.npz")) - set(paths):
            path.unlink()  # about test samples that are no longer there
        parts: list[Heard] = []
        for start, path in counted([*zip(starts, paths, strict=True)], len(starts)):
            part = test.subset(np.arange(start, min(start + TESTS_PER_BLOCK, len(test))))
            facts = {"format": FORMAT, "voters": voters, "samples": digest_of(part), "first_sample": start}
            heard = _read(path, facts, len(part))
            if heard is None:
                heard = self.fitted._heard(part)
                write_arrays(path, {"votes": heard.said, "own": heard.own}, facts)
            parts.append(heard)
        return self.fitted._votes_of(Heard.joined(parts))

    def _voters_digest(self) -> str:
        """SHA-256 of all that counts depend on but the test samples: how votes are counted, and every voter."""
        model, voters = self.fitted, self.fitted.voters_
        stated = [self.record, labels_to_json(model.classes_), model.split_.as_dict()]
        digest = hashlib.sha256(json.dumps(stated, sort_keys=True).encode())
        for array in (voters.rows, voters.codes, voters.hashes, voters.owners):
            digest.update(f"{array.dtype.str} {array.shape} ".encode())
            digest.update(np.ascontiguousarray(array).view(np.uint8).data)
        return digest.hexdigest()

    def save(self, folder: Path) -> None:
        """Keep the voters."""
        if not self.settings.votes_only:
            self.fitted.save(folder / "models")

    @staticmethod
    def threats(split: Split) -> dict[str, int | str]:
        """A flipped label is one voter lost and one gained, as any change is."""
        threats = threat_model(split)
        flip = "flip the label of a training sample"
        return {**threats, flip: 2} if flip in threats else threats

    @classmethod
    def files(cls, folder: Path, identity: Identity) -> list[str]:
        """What samples said, and the voters."""
        return [cls.result, *([] if identity.votes_only else [f"models/{name}" for name in FILES])]

    @classmethod
    def tallies(cls, folder: Path) -> Ballots | Neighbours:
        """What the samples of a run said."""
        return load_tallies(folder / cls.result)

    @classmethod
    def open(cls, folder: Path, trusted: Sequence[str], n_jobs: int | None, method: str | None) -> FittedSamples:
        """The voters of a run."""
        return FittedSamples(cls.classifier.load(folder / "models", trusted=trusted).set_params(n_jobs=n_jobs))

    @classmethod
    def model_of(
        cls,
        folder: Path,
        identity: Identity,
        classes: Sequence[Any] | None,
        *,
        n_jobs: int | None,
        estimator: Any,
        encoder: PublicMap | None,
    ) -> SampleVoteClassifier:
        """The classifier of a run, not yet fitted; the map is the one on record, wherever its units came from.

        Of an encoder, the one that is given is taken, with its cache, if it is the one on record.
        """
        assert identity.election is not None
        parameters = {name: value for name, value in identity.election.items() if name not in ("method", "map")}
        parameters["scale"] = parameters.pop("steps_per_unit")
        if isinstance(parameters.get("class_sizes"), list):
            parameters["class_sizes"] = dict(parameters["class_sizes"])
            classes = None  # they are the keys
        features, split = map_of(identity.election["map"], encoder), Split.from_dict(identity.split)
        kind: Any = cls.classifier
        return kind(features, split=split, classes=classes, n_jobs=n_jobs, **parameters)

    @classmethod
    def chosen(cls, parameters: dict[str, Any]) -> list[Premise]:
        """The parameter of the rule."""
        return [Premise(cls.premise, value, declared=False) for value in parameters.values()]

    @staticmethod
    def in_evidence(certificate: Certificate, manifest: dict[str, Any]) -> VotersInEvidence:
        """How they vote, and by which map."""
        election, settings = certificate.election, dict(manifest["settings"]["election"])
        assert election is not None
        if manifest["settings"]["split"]["kind"] != "group":
            settings.pop("voices", None)  # of contributors alone
        if not isinstance(settings.get("class_sizes"), list):
            settings.pop("class_sizes_from", None)  # of sizes that there are
        return VotersInEvidence(
            f"A classifier without training, in which {election['words']} ({manifest['settings']['learner']})",
            f"training samples that vote through a fixed map ({certificate.method})",
            {"election": {"voters": election["n_voters"], "words": election["words"], **settings}},
        )


class FittedSamples(Fitted):
    """Training samples that vote."""

    model: SampleVoteClassifier

    @property
    def n_voters(self) -> int:
        """How many training samples vote."""
        return len(self.model.voters_)

    def ask(self, X: Any) -> Heard:
        """What all training samples say of these samples."""
        return self.model._heard(X)

    def tallies(self, parts: Sequence[Heard]) -> Ballots | Neighbours:
        """What was said of several lots of samples."""
        return self.model._votes_of(Heard.joined(parts))

    def shares(self, tallies: Ballots | Neighbours) -> NDArray[np.float64]:
        """Of what speaks for any class."""
        counts = tallies.scores()
        return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)


class BallotElection(SampleElection):
    """Every training sample votes about every test sample."""

    classifier, premise = BallotClassifier, "near"
    result = "ballots.npz"
    kept = (result, *(f"models/{name}" for name in FILES))

    @staticmethod
    def whose_votes(certificate: Certificate) -> str:
        """Near samples of a class and far ones of the others."""
        return "Ballots that speak for each class"

    @staticmethod
    def remedy(certificate: Certificate, n_train: int) -> str:
        """The class list, or another threshold."""
        if certificate.classes_inferred and certificate.method == "ballots":
            return "declare the labels that may occur with --classes, or how large classes are with --class-sizes"
        return "try another --near, --class-sizes from outside this data, or other --features"


class NeighborElection(SampleElection):
    """The nearest training samples vote."""

    classifier, premise = NeighborVoteClassifier, "number-of-neighbors"
    result = "neighbours.npz"
    kept = (result, *(f"models/{name}" for name in FILES))

    @staticmethod
    def whose_votes(certificate: Certificate) -> str:
        """The nearest."""
        return "Votes of the nearest training samples"

    @staticmethod
    def remedy(certificate: Certificate, n_train: int) -> str:
        """Fewer neighbors, or another map."""
        return "try a smaller --n-neighbors, other --features, or more data of the rare classes"


def election_record(model: SampleVoteClassifier) -> dict[str, Any]:
    """How a fitted classifier votes: its parameters and its map, as plain values."""
    sizes = getattr(model, "class_sizes", None)
    if isinstance(sizes, Mapping):
        sizes = [[label, size] for label, size in zip(model.classes_.tolist(), model.sizes_.tolist(), strict=True)]
    record = {
        "method": model.method,
        **{name: getattr(model, name) for name in PARAMETERS if hasattr(model, name)},
        **({"class_sizes": sizes} if hasattr(model, "class_sizes") else {}),
        "steps_per_unit": model.map_.scale,
        "map": record_of(model.map_.features),
    }
    plain: dict[str, Any] = json.loads(json.dumps(record, default=lambda number: number.item()))
    return plain


def _read(path: Path, facts: dict[str, Any], count: int) -> Heard | None:
    """A block that is whole and about these voters and test samples; otherwise None."""
    if not path.exists():
        return None
    try:
        arrays, stated = open_arrays(path, ("votes", "own"))
        with reading(path):
            if stated != facts:
                return None
            votes: NDArray[Any] = arrays["votes"]
            self_near: NDArray[Any] = arrays["own"]
            if votes.ndim != 2 or len(votes) != count or self_near.shape != (count,) or self_near.dtype != np.bool_:
                raise DamagedFileError(f"{path} is altered: its arrays are not about {count} test samples.")
    except DamagedFileError as error:
        log.warning("%s It is counted again.", error)
        return None
    return Heard(votes, self_near)

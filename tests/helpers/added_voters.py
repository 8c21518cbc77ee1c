"""A family of voters from outside the package: the training samples that share a cell of a fixed grid vote.

One insertion or removal changes one count by 1, and so a lead by 1 at most: the radius is the smallest lead.
"""

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from poisonproof import registry
from poisonproof.core.certificate import Certificate
from poisonproof.core.split import Split
from poisonproof.core.votes import labels_from_json, labels_to_json
from poisonproof.errors import PoisonproofError, check_format
from poisonproof.premises import Premise, from_records, to_records
from poisonproof.runs.election import Election
from poisonproof.samples.labels import read_labels
from poisonproof.system.files import open_arrays, write_arrays, write_record

NAME, FORMAT = "grid", "grid counts 1"


class GridClassifier(BaseEstimator):
    method = NAME

    def __init__(self, unit=1.0, classes=None, split="content", n_jobs=None):
        self.unit, self.classes, self.split, self.n_jobs = unit, classes, split, n_jobs

    def fit(self, samples, y):
        if self.classes is None:
            raise PoisonproofError("A grid needs its classes declared: an invented one would win every empty cell.")
        read = read_labels(y, self.classes)
        self.classes_, kept = read.classes, read.codes >= 0
        self.split_, self.n_features_in_ = Split.of(self.split), samples.n_features
        self.cells_, self.codes_ = self.cells(samples)[kept], read.codes[kept]
        self.premises_ = (
            Premise("grid", self.unit, declared=True),
            Premise("classes", self.classes_.tolist(), declared=True),
        )
        return self

    def cells(self, samples):
        """A number for the cell of each sample; gaps count as 0."""
        rows = np.floor(np.nan_to_num(samples.values) / self.unit).astype(np.int64)
        digests = [hashlib.sha256(row.tobytes()).digest()[:8] for row in rows]
        return np.array([int.from_bytes(digest, "little", signed=True) for digest in digests], np.int64)

    def counts(self, samples):
        same = self.cells(samples)[:, None] == self.cells_
        return np.stack([np.bincount(self.codes_[row], minlength=len(self.classes_)) for row in same])

    def tallies(self, counts):
        return GridCounts(counts, self.classes_, self.split_, self.premises_, self.unit, len(self.codes_))


@dataclass(frozen=True, eq=False)
class GridCounts:
    counts: Any
    classes: Any
    split: Split
    premises: tuple[Premise, ...]
    unit: float
    n_voters: int

    @property
    def n_test(self):
        return len(self.counts)

    @property
    def election(self):
        words = f"of {self.n_voters} training samples those in the same cell vote"
        return {"kind": NAME, "words": words, "n_voters": self.n_voters, "unit": self.unit}

    def scores(self):
        return self.counts

    def take(self, rows):
        return replace(self, counts=self.counts[rows])

    def certify(self, method=None, *, target=None, reachable=None, n_jobs=-1):
        if target is not None or reachable is not None:
            raise PoisonproofError("A grid certifies against any change alone.")
        prediction, rows = self.counts.argmax(axis=1), np.arange(self.n_test)
        after = np.arange(len(self.classes)) < prediction[:, None]
        leads = self.counts[rows, prediction][:, None] - self.counts - after
        leads[rows, prediction] = np.iinfo(np.int64).max
        margin = leads.min(axis=1)
        arrays = {
            "prediction": prediction,
            "runner_up": leads.argmin(axis=1),
            "margin": margin,
            "radius": margin.copy(),
        }
        facts = {"split": self.split, "premises": self.premises, "election": self.election}
        return Certificate(**arrays, method=NAME, classes=self.classes, **facts)

    def certified_accuracy(self, y, attack_size, **limits):
        raise PoisonproofError("What one attack leaves of all test samples is not known of a grid.")

    def save(self, path):
        facts = {"classes": labels_to_json(self.classes), "split": self.split.as_dict(), "unit": self.unit}
        facts |= {"premises": to_records(self.premises), "n_voters": self.n_voters, "format": FORMAT}
        write_arrays(path, {"counts": self.counts}, facts)

    @classmethod
    def load(cls, path):
        arrays, facts = open_arrays(path, ("counts",))
        check_format(path, facts.pop("format"), FORMAT)
        facts |= {"classes": labels_from_json(facts["classes"]), "premises": from_records(facts["premises"])}
        return cls(arrays["counts"], **facts | {"split": Split.from_dict(facts["split"])})


class GridElection(Election):
    result, kept = "grid.npz", ("grid.npz", "models/model.json", "models/voters.npz")

    def __init__(self, dataset, model, settings):
        super().__init__(dataset, model, settings)
        self.split = Split.of(model.split)
        self.model.fit(self.split.samples(dataset.train.samples), dataset.train.labels)
        self.n_train, self.test = len(model.codes_), self.split.samples(dataset.test.samples)
        self.identity = self._identity(NAME, model.classes_, election={"method": NAME, "unit": model.unit})

    def vote(self, folder, stale):
        stale(0)
        return self.model.tallies(self.model.counts(self.test))

    def save(self, folder):
        voters = {"cells": self.model.cells_, "codes": self.model.codes_}
        write_arrays(folder / "models" / "voters.npz", voters, {"classes": self.model.classes_.tolist()})
        write_record(folder / "models" / "model.json", {"unit": self.model.unit, "split": self.split.as_dict()})

    @staticmethod
    def files(folder, identity):
        return ["grid.npz", "models/model.json", "models/voters.npz"]

    tallies = staticmethod(lambda folder: GridCounts.load(folder / "grid.npz"))
    open = None  # such a run answers no new samples

    @staticmethod
    def model_of(folder, identity, classes, *, n_jobs, estimator, encoder):
        return GridClassifier(identity.election["unit"], classes, Split.from_dict(identity.split), n_jobs)


def add():
    registry.add("elections", NAME, GridElection)
    registry.add("tallies", FORMAT, GridCounts)

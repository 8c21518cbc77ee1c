"""Neighbours: the labels of the nearest training samples of every test sample, nearest first."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError, check_format
from poisonproof.partition.split import Split
from poisonproof.premises import Premise, from_records, to_records
from poisonproof.system.files import open_arrays, reading, write_arrays
from poisonproof.votes.votes import labels_from_json, labels_to_json

FORMAT = "poisonproof neighbours 1"
ARRAYS = ("order", "first")


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The nearest training samples of every test sample, by label.

    Parameters
    ----------
    order : array (n_test, n_listed) of class codes
        Nearest first; the first ``n_neighbors`` vote, the others stand ready.
    first : array (n_test,) of bool
        Whether a copy of the test sample would come before all of them: then radii are exact.
    n_neighbors : int
        How many vote.
    n_samples : int
        How many training samples, or contributors, there are in all.
    classes : array (n_classes,)
        Labels, in increasing order.
    contributors : bool
        Whether each voter is a contributor, heard by its nearest sample.
    """

    order: NDArray[Any]
    first: NDArray[np.bool_]
    n_neighbors: int
    n_samples: int
    classes: NDArray[Any]
    contributors: bool = False
    classes_inferred: bool = False
    split: Split | None = None
    rule: dict[str, Any] = field(default_factory=dict, repr=False)
    premises: tuple[Premise, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if self.order.ndim != 2 or self.first.shape != self.order.shape[:1]:
            raise PoisonproofError(f"The order of neighbours must be a table. Got shape {self.order.shape}.")
        if self.order.size and not 0 <= int(self.order.min()) <= int(self.order.max()) < len(self.classes):
            raise PoisonproofError(f"Neighbours must be class codes below {len(self.classes)}.")
        if self.n_neighbors < 1 or not min(self.n_neighbors, self.n_samples) <= self.order.shape[1] <= self.n_samples:
            raise PoisonproofError(
                f"There must be at least {self.n_neighbors} neighbours in order, or all {self.n_samples} samples. "
                f"Got {self.order.shape[1]}."
            )

    @property
    def n_test(self) -> int:
        """Number of test samples."""
        return len(self.order)

    def counts(self) -> NDArray[np.int64]:
        """Votes for each class, an array (n_test, n_classes)."""
        voting = self.order[:, : self.n_neighbors]
        return np.stack([(voting == c).sum(axis=1) for c in range(len(self.classes))], axis=1).astype(np.int64)

    def save(self, path: str | Path) -> None:
        """Write a self-describing npz file with digests."""
        facts = {
            "format": FORMAT,
            "n_neighbors": self.n_neighbors,
            "n_samples": self.n_samples,
            "contributors": self.contributors,
            "classes": labels_to_json(self.classes),
            "classes_inferred": self.classes_inferred,
            "split": self.split.as_dict() if self.split else None,
            "rule": self.rule,
            "premises": to_records(self.premises),
        }
        write_arrays(path, {"order": self.order, "first": self.first}, facts)

    @classmethod
    def load(cls, path: str | Path) -> Neighbours:
        """Read what `save` wrote; refuse it if anything was altered."""
        arrays, facts = open_arrays(path, ARRAYS)
        check_format(path, facts.get("format"), FORMAT)
        with reading(path):
            return cls(
                arrays["order"],
                arrays["first"],
                facts["n_neighbors"],
                facts["n_samples"],
                labels_from_json(facts["classes"]),
                contributors=facts["contributors"],
                classes_inferred=facts["classes_inferred"],
                split=Split.from_dict(facts["split"]) if facts["split"] else None,
                rule=facts["rule"],
                premises=from_records(facts["premises"]),
            )

"""Ballots: what all training samples together say about every test sample, in whole numbers.

This is to samples that vote what `poisonproof.Votes` is to base classifiers: everything a certificate needs, to be
kept, sent and certified by somebody else.

Neighbours: the labels of the nearest training samples of every test sample, nearest first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.split import Split
from poisonproof.core.votes import labels_from_json, labels_to_json
from poisonproof.errors import DamagedFileError, PoisonproofError, check_format
from poisonproof.premises import Premise, from_records, to_records
from poisonproof.system.files import open_arrays, reading, write_arrays

BALLOTS_FORMAT = "poisonproof ballots 1"
BALLOT_ARRAYS = ("near", "totals", "sizes", "self_near")


@dataclass(frozen=True, eq=False)
class Voices:
    """Whose samples stand in which cell, where contributors vote.

    Parameters
    ----------
    most : int
        What a contributor's ballots are cut to: the sum of their magnitudes.
    classes : array (n_cells,)
        The class of each cell.
    starts : array (n_contributors + 1,)
        Where the cells of each contributor begin.
    """

    most: int
    classes: NDArray[np.int64]
    starts: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name in ("classes", "starts"):  # kernels index by them, so nobody may write into them after the check
            copied = np.array(getattr(self, name), np.int64)
            copied.flags.writeable = False
            object.__setattr__(self, name, copied)

    def divide(self, n_cells: int, n_classes: int) -> bool:
        """Whether the cells of contributors are these, from the first to the last, each of one of these classes."""
        if self.classes.shape != (n_cells,) or self.starts.ndim != 1 or not len(self.starts):
            return False
        known = ((self.classes >= 0) & (self.classes < n_classes)).all()
        return bool(known and self.starts[0] == 0 and self.starts[-1] == n_cells and (np.diff(self.starts) >= 0).all())


@dataclass(frozen=True, eq=False)
class Ballots:
    """Near samples and all samples of every class, for every test sample.

    Parameters
    ----------
    near : array (n_test, n_cells)
        How many training samples of each cell are near. A cell is a class; with ``voices`` it is what one contributor
        has of one class.
    totals : array (n_cells,)
        How many training samples each cell has.
    sizes : array (n_classes,)
        Declared class sizes, zero if there are none.
    classes : array (n_classes,)
        Labels, in increasing order.
    self_near : array (n_test,) of bool
        Whether a copy of the test sample would be near it: then radii are exact.
    one_sided : bool
        Whether far samples count 0 instead of −1.
    classes_inferred : bool
        Whether the class list was read off the training data.
    """

    near: NDArray[np.int64]
    totals: NDArray[np.int64]
    sizes: NDArray[np.int64]
    classes: NDArray[Any]
    self_near: NDArray[np.bool_]
    one_sided: bool = False
    classes_inferred: bool = False
    split: Split | None = None
    voices: Voices | None = None
    rule: dict[str, Any] = field(default_factory=dict, repr=False)
    premises: tuple[Premise, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        cells, n_classes = len(self.totals), len(self.classes)
        shapes = {"near": (len(self.near), cells), "sizes": (n_classes,), "self_near": (len(self.near),)}
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise PoisonproofError(f"The '{name}' of ballots is {getattr(self, name).shape} instead of {shape}.")
        if (self.near < 0).any() or (self.near > self.totals).any() or (self.sizes < 0).any():
            raise PoisonproofError("Ballots must count from 0 to the samples there are, and class sizes from 0 on.")
        if (self.voices is None and cells != n_classes) or (self.classes_inferred and self.sizes.any()):
            raise PoisonproofError(
                "Ballots need a count for every class, and no class sizes unless classes are declared."
            )
        if self.voices is not None and not self.voices.divide(cells, n_classes):
            raise PoisonproofError(
                f"The cells of contributors must divide {cells} counts among {n_classes} classes. Got "
                f"{len(self.voices.classes)} classes and {len(self.voices.starts)} beginnings."
            )

    @property
    def n_test(self) -> int:
        """Number of test samples."""
        return len(self.near)

    @property
    def n_voices(self) -> int:
        """What all voters together can say for or against a class: one each, or the voices of each contributor."""
        if self.voices is not None:
            return self.voices.most * (len(self.voices.starts) - 1)
        return int(self.totals.sum())

    def save(self, path: str | Path) -> None:
        """Write a self-describing npz file with digests."""
        arrays = {name: getattr(self, name) for name in BALLOT_ARRAYS}
        if self.voices is not None:
            arrays |= {"cell_classes": self.voices.classes, "starts": self.voices.starts}
        facts = {
            "format": BALLOTS_FORMAT,
            "classes": labels_to_json(self.classes),
            "one_sided": self.one_sided,
            "classes_inferred": self.classes_inferred,
            "split": self.split.as_dict() if self.split else None,
            "voices": None if self.voices is None else self.voices.most,
            "rule": self.rule,
            "premises": to_records(self.premises),
        }
        write_arrays(path, arrays, facts)

    @classmethod
    def load(cls, path: str | Path) -> Ballots:
        """Read what `save` wrote; refuse it if anything was altered."""
        arrays, facts = open_arrays(path, BALLOT_ARRAYS)
        check_format(path, facts.get("format"), BALLOTS_FORMAT)
        with reading(path):
            voices = None
            if facts["voices"] is not None:
                voices = Voices(facts["voices"], arrays.pop("cell_classes"), arrays.pop("starts"))
            if set(arrays) != set(BALLOT_ARRAYS):
                raise DamagedFileError(f"{path} is altered: it holds {', '.join(sorted(arrays))}.")
            return cls(
                **arrays,
                classes=labels_from_json(facts["classes"]),
                one_sided=facts["one_sided"],
                classes_inferred=facts["classes_inferred"],
                split=Split.from_dict(facts["split"]) if facts["split"] else None,
                voices=voices,
                rule=facts["rule"],
                premises=from_records(facts["premises"]),
            )


NEIGHBORS_FORMAT = "poisonproof neighbours 1"
NEIGHBOR_ARRAYS = ("order", "first")


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
            "format": NEIGHBORS_FORMAT,
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
        arrays, facts = open_arrays(path, NEIGHBOR_ARRAYS)
        check_format(path, facts.get("format"), NEIGHBORS_FORMAT)
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

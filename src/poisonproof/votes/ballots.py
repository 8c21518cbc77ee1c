"""Ballots: what all training samples together say about every test sample, in whole numbers.

This is to samples that vote what `poisonproof.Votes` is to base classifiers: everything a certificate needs, to be
kept, sent and certified by somebody else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import DamagedFileError, PoisonproofError, check_format
from poisonproof.partition.split import Split
from poisonproof.premises import Premise, from_records, to_records
from poisonproof.system.files import open_arrays, reading, write_arrays
from poisonproof.votes.votes import labels_from_json, labels_to_json

FORMAT = "poisonproof ballots 1"
ARRAYS = ("near", "totals", "sizes", "self_near")


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
        arrays = {name: getattr(self, name) for name in ARRAYS}
        if self.voices is not None:
            arrays |= {"cell_classes": self.voices.classes, "starts": self.voices.starts}
        facts = {
            "format": FORMAT,
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
        arrays, facts = open_arrays(path, ARRAYS)
        check_format(path, facts.get("format"), FORMAT)
        with reading(path):
            voices = None
            if facts["voices"] is not None:
                voices = Voices(facts["voices"], arrays.pop("cell_classes"), arrays.pop("starts"))
            if set(arrays) != set(ARRAYS):
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

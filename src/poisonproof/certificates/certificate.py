"""The certificate: what was proved, for every test sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poisonproof import __version__
from poisonproof.display.text import shown
from poisonproof.errors import DamagedFileError, PoisonproofError, check_format, missing_extra
from poisonproof.partition.split import Split, Threat
from poisonproof.partition.spread import Spread
from poisonproof.premises import Premise
from poisonproof.system.files import open_arrays, reading, write_arrays
from poisonproof.votes.votes import class_indices, labels_from_json, labels_to_json

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "poisonproof certificate 1"
UNSEEN = "(a label the training data has not shown)"


@dataclass(frozen=True, eq=False)
class Certificate:
    """For every test sample: whatever an attacker inserts into or removes from the training data, up to
    ``radius`` samples in total, the prediction stays the same.

    Deterministic, without a failure probability, for any base classifiers that are functions of
    their own subset, and under the premises listed. It says nothing about whether a prediction is right.

    Attributes
    ----------
    prediction : array (n_test,) of class indices
        The most voted class; ties go to the smallest index. With method "run-off": the winner of the final.
    runner_up : array (n_test,) of class indices
        The class that sets the radius: the first by (its own radius, its margin, its index). The
        number of classes means a class that the training data has not shown (see `Votes`). With method "run-off":
        the class that would win the final, or, of two that would keep the prediction out of it, the one with fewer
        votes.
    margin : array (n_test,)
        The smallest lead over another class, less one where a tie would go against the prediction.
        With method "run-off": the lead over the other finalist in the final, less one likewise.
    radius : array (n_test,)
        The largest attack size proved not to change the prediction.
    exact : array (n_test,) of bool, or None
        With methods "tight" and "run-off": where an attack of size radius + 1 was found, so that no larger radius is
        true of base classifiers that do the attacker's will.
    origin : dict, or None
        Where the votes come from: data set and its digests, learner, threat model, versions. A run fills it.
    """

    prediction: NDArray[np.int64]
    runner_up: NDArray[np.int64]
    margin: NDArray[np.int64]
    radius: NDArray[np.int64]
    method: str
    classes: NDArray[Any] = field(repr=False)
    spread: Spread = field(repr=False)
    split: Split | None = None
    classes_inferred: bool = False
    premises: tuple[Premise, ...] = field(default=(), repr=False)
    exact: NDArray[np.bool_] | None = None
    origin: dict[str, Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for array in self._arrays().values():
            array.flags.writeable = False

    def _arrays(self) -> dict[str, NDArray[Any]]:
        names = ("prediction", "runner_up", "margin", "radius", "exact")
        return {name: array for name in names if (array := getattr(self, name)) is not None}

    def __len__(self) -> int:
        return len(self.radius)

    @property
    def labels(self) -> NDArray[Any]:
        """The predicted labels."""
        return self.classes[self.prediction]

    @property
    def unit(self) -> str:
        """What the radius counts."""
        return "contributors" if self.split and self.split.kind == "group" else "training samples"

    def right(self, y: ArrayLike) -> NDArray[np.bool_]:
        """Whether each prediction is the given label; with inferred classes, no prediction is a label they lack."""
        truth = class_indices(y, self.classes, self.classes_inferred)
        if len(truth) != len(self):
            raise PoisonproofError(
                f"There are {len(self)} predictions but {len(truth)} labels; give one label per test sample."
            )
        return self.prediction == truth

    def clean_accuracy(self, y: ArrayLike) -> float:
        """Share of test samples that are right."""
        return float(self.right(y).mean())

    def certified_fraction(self, y: ArrayLike, attack_sizes: int | Sequence[int] | NDArray[Any]) -> NDArray[np.float64]:
        """Share of test samples that are right *and* have radius ≥ each attack size (pointwise)."""
        return shares_that_withstand(self.radius[self.right(y)], attack_sizes, len(self))

    def radius_against(self, threat: Threat) -> NDArray[np.int64]:
        """How many acts of this kind each prediction withstands.

        ``"insert_remove"``: samples inserted or removed. ``"label_flip"``: labels changed.
        ``"modify"``: samples changed in any way. Needs to know the split, but for the first.
        """
        if self.split is None:
            if threat == "insert_remove":
                return self.radius
            raise PoisonproofError(
                f"What '{threat}' costs depends on the split, and these votes do not say how they were split; "
                "give Votes(..., split=...)."
            )
        return self.radius // self.split.cost(threat)

    def to_frame(self) -> pd.DataFrame:
        """One row per test sample: prediction and runner-up as labels, margin and radius."""
        try:
            import pandas as pd
        except ImportError:
            raise missing_extra("Certificate.to_frame", "pandas", "tables") from None
        names = np.append(self.classes.astype(object), UNSEEN)
        frame = {
            "prediction": self.labels,
            "runner_up": names[self.runner_up],
            "margin": self.margin,
            "radius": self.radius,
        }
        return pd.DataFrame(frame if self.exact is None else {**frame, "exact": self.exact})

    def facts(self) -> dict[str, Any]:
        """Everything that is not an array, as plain values."""
        return {
            "method": self.method,
            "k": self.spread.k,
            "d": self.spread.d,
            "n_subsets": self.spread.n_subsets,
            "spread": self.spread.as_dict(),
            "spread_digest": self.spread.digest,
            "split": self.split.as_dict() if self.split else None,
            "unit": self.unit,
            "classes": labels_to_json(self.classes),
            "classes_inferred": self.classes_inferred,
            "premises": [[p.what, p.value, p.declared] for p in self.premises],
            "origin": self.origin,
        }

    def save(self, path: str | Path) -> None:
        """Write a self-describing npz file with digests."""
        write_arrays(path, self._arrays(), {"format": FORMAT, "poisonproof": __version__, **self.facts()})

    @classmethod
    def load(cls, path: str | Path) -> Certificate:
        """Read a certificate; refuse one that was altered.

        The digests catch damage, not a forger who writes new ones: only the votes can do that.
        """
        arrays, facts = open_arrays(path, ("prediction", "runner_up", "margin", "radius"))
        check_format(path, facts.get("format"), FORMAT)
        with reading(path):
            certificate = cls(
                **arrays,
                method=facts["method"],
                classes=labels_from_json(facts["classes"]),
                spread=Spread.from_dict(facts["spread"]),
                split=Split.from_dict(facts["split"]) if facts["split"] else None,
                classes_inferred=facts["classes_inferred"],
                premises=tuple(Premise(*premise) for premise in facts["premises"]),
                origin=facts.get("origin"),
            )
            certificate._check(path)
        return certificate

    def _check(self, path: str | Path) -> None:
        """One sentence if the arrays of a file cannot be a certificate's."""
        for name, array in self._arrays().items():
            kind = "b" if name == "exact" else "iu"
            if array.shape != self.radius.shape or array.ndim != 1 or array.dtype.kind not in kind:
                raise DamagedFileError(f"{path} is altered: '{name}' is an array {array.shape} of {array.dtype}.")
            if kind == "iu" and array.min(initial=0) < 0:
                raise DamagedFileError(f"{path} is altered: '{name}' holds {array.min()}.")
        if self.prediction.max(initial=0) >= len(self.classes) or self.runner_up.max(initial=0) > len(self.classes):
            raise DamagedFileError(f"{path} is altered: it names a class beyond its {len(self.classes)} classes.")

    def _repr_html_(self) -> str:
        """For notebooks."""
        from poisonproof.display.notebook import certificate_html

        ensemble = f"{self.spread.n_subsets} base classifiers, k = {self.spread.k:g}, d = {self.spread.d}"
        title = f"Certificate ({self.method}) for {len(self):,} predictions"
        return certificate_html(title, self.radius, len(self), self.unit, [ensemble], self.premises)

    def __str__(self) -> str:
        radii = (
            f"radius median {np.percentile(self.radius, 50, method='lower'):d}, "
            f"smallest {self.radius.min()}, largest {self.radius.max()}"
            if len(self)
            else "no radius"
        )
        lines = [
            f"Certificate ({self.method}) for {len(self)} predictions: {radii} {self.unit}.",
            f"{self.spread.n_subsets} base classifiers, k = {self.spread.k:g}, d = {self.spread.d}.",
        ]
        return "\n".join(map(shown, lines + [f"Premise: {premise}" for premise in self.premises]))


def shares_that_withstand(
    radii: NDArray[np.int64], attack_sizes: int | Sequence[int] | NDArray[Any], n_test: int
) -> NDArray[np.float64]:
    """For each attack size, how many of these radii reach it, as a share of all test samples."""
    sizes = np.asarray(attack_sizes)
    if not np.issubdtype(sizes.dtype, np.integer) or (sizes < 0).any():
        raise PoisonproofError(f"Attack sizes must be whole numbers ≥ 0. Got {attack_sizes!r} instead.")
    held = np.sort(radii)
    return (len(held) - np.searchsorted(held, sizes)) / n_test


def attack_sizes(certificate: Certificate) -> list[int]:
    """Round attack sizes up to the largest radius, for a table."""
    largest = int(certificate.radius.max(initial=0))
    steps: Sequence[int] = [m * 10**e for e in range(7) for m in (1, 2, 3, 5)] + [15, 25, 150, 250, 400]
    return [0, *sorted(step for step in steps if step <= largest)] + ([largest] if largest not in [0, *steps] else [])

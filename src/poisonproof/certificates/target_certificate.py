"""The certificate against one target: how many poisons until a prediction could become a given class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poisonproof import __version__
from poisonproof.certificates.voters import check_arrays, facts_of_voters, voters_in_words, voters_of
from poisonproof.display.text import shown
from poisonproof.errors import DamagedFileError, PoisonproofError, check_format
from poisonproof.partition.split import Split, Threat
from poisonproof.partition.spread import Spread
from poisonproof.premises import Premise, from_records, to_records
from poisonproof.system.files import open_arrays, reading, write_arrays
from poisonproof.votes.votes import class_indices, labels_from_json, labels_to_json

FORMAT = "poisonproof target certificate 1"
ARRAYS = ("prediction", "margin", "radius")


@dataclass(frozen=True, eq=False)
class TargetCertificate:
    """For every test sample that is not predicted as the target: whatever an attacker inserts into or removes from the
    training data, up to ``radius`` samples in total, the prediction does not become the target.

    This is what a backdoor or a targeted attack is after. It holds as a `Certificate` does, for base classifiers that
    are functions of their own subset and under the premises listed. The prediction may change to a *third* class
    within the radius: only `Certificate.radius` excludes that, and it is never larger.

    Attributes
    ----------
    prediction : array (n_test,) of class indices
    target : int
        The class index that the attacker wants.
    margin : array (n_test,)
        The prediction's lead over the target, less one where a tie would go to the target. 0 where
        the target is predicted.
    radius : array (n_test,)
        The largest attack size proved not to turn the prediction to the target. 0 where the target is predicted
        already: there is nothing left to defend, and `withstands` does not count such samples.
    exact : array (n_test,) of bool, or None
        Ballots and neighbours: where an attack of size radius + 1 is known that turns the prediction to the target.
    spread : Spread, or None
        What base classifiers were made with; None where training samples vote.
    election : dict, or None
        Where training samples vote: how, and how many, as plain values.
    """

    prediction: NDArray[np.int64]
    target: int
    margin: NDArray[np.int64]
    radius: NDArray[np.int64]
    method: str
    classes: NDArray[Any] = field(repr=False)
    # None where samples vote, as in `Certificate`.
    spread: Spread = field(default=None, repr=False)  # type: ignore[assignment]
    split: Split | None = None
    classes_inferred: bool = False
    premises: tuple[Premise, ...] = field(default=(), repr=False)
    exact: NDArray[np.bool_] | None = None
    election: dict[str, Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for array in self._arrays().values():
            array.flags.writeable = False

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {name: array for name in (*ARRAYS, "exact") if (array := getattr(self, name)) is not None}

    def __len__(self) -> int:
        return len(self.radius)

    @property
    def label(self) -> Any:
        """The label of the target."""
        return self.classes.tolist()[self.target]

    @property
    def unit(self) -> str:
        """What the radius counts."""
        return "contributors" if self.split and self.split.kind == "group" else "training samples"

    @property
    def already(self) -> NDArray[np.bool_]:
        """Where the target is predicted without any attack."""
        return self.prediction == self.target

    def withstands(self, attack_size: int) -> NDArray[np.bool_]:
        """Where no attack of this size gives the target; nowhere that it is predicted already."""
        return ~self.already & (self.radius >= _sizes(attack_size))

    def certified_share(
        self, attack_sizes: int | Sequence[int] | NDArray[Any], y: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Share of test samples that no attack of each size can turn to the target (pointwise).

        With their true labels ``y``, the share of those that are not of the target class: the others are meant to be
        predicted as the target.
        """
        counted = np.ones(len(self), np.bool_)
        if y is not None:
            truth = class_indices(y, self.classes, inferred=self.classes_inferred)
            if len(truth) != len(self):
                raise PoisonproofError(
                    f"There are {len(self)} predictions but {len(truth)} labels; give one label per test sample."
                )
            counted = truth != self.target
        if not counted.any():
            raise PoisonproofError("There is no test sample of another class than the target, so there is no share.")
        held = np.sort(self.radius[counted & ~self.already])
        return (len(held) - np.searchsorted(held, _sizes(attack_sizes))) / int(counted.sum())

    def radius_against(self, threat: Threat) -> NDArray[np.int64]:
        """How many acts of this kind do not turn each prediction to the target; see `Certificate.radius_against`.

        Where samples vote, a changed sample counts as one removed and one inserted, which is sound and seldom exact.
        """
        if threat == "insert_remove":
            return self.radius
        if threat not in get_args(Threat):
            raise PoisonproofError(f"A threat is one of {list(get_args(Threat))}. Got {threat!r} instead.")
        if self.election is not None:
            return self.radius if self.unit == "contributors" else self.radius // 2
        if self.split is None:
            raise PoisonproofError(
                f"What '{threat}' costs depends on the split, and these votes do not say how they were split; "
                "give Votes(..., split=...)."
            )
        return self.radius // self.split.cost(threat)

    def facts(self) -> dict[str, Any]:
        """Everything that is not an array, as plain values."""
        return {
            "method": self.method,
            "target": self.target,
            **facts_of_voters(self.spread, self.election),
            "split": self.split.as_dict() if self.split else None,
            "unit": self.unit,
            "classes": labels_to_json(self.classes),
            "classes_inferred": self.classes_inferred,
            "premises": to_records(self.premises),
        }

    def save(self, path: str | Path) -> None:
        """Write a self-describing npz file with digests."""
        write_arrays(path, self._arrays(), {"format": FORMAT, "poisonproof": __version__, **self.facts()})

    @classmethod
    def load(cls, path: str | Path) -> TargetCertificate:
        """Read a certificate; refuse one that was altered."""
        arrays, facts = open_arrays(path, ARRAYS)
        check_format(path, facts.get("format"), FORMAT)
        with reading(path):
            parts: dict[str, Any] = arrays | voters_of(facts)
            certificate = cls(
                **parts,
                target=facts["target"],
                method=facts["method"],
                classes=labels_from_json(facts["classes"]),
                split=Split.from_dict(facts["split"]) if facts["split"] else None,
                classes_inferred=facts["classes_inferred"],
                premises=from_records(facts["premises"]),
            )
            certificate._check(path)
        return certificate

    def _check(self, path: str | Path) -> None:
        """One sentence if the arrays of a file cannot be a certificate's."""
        check_arrays(path, self._arrays(), len(self))
        codes = [self.target, int(self.prediction.max(initial=0))]
        if not all(type(code) is int and 0 <= code < len(self.classes) for code in codes):
            raise DamagedFileError(f"{path} is altered: it names a class beyond its {len(self.classes)} classes.")

    def __str__(self) -> str:
        held = self.radius[~self.already]
        radii = (
            f"radius median {np.percentile(held, 50, method='lower'):d}, smallest {held.min()}, largest {held.max()}"
            if len(held)
            else "no radius"
        )
        lines = [
            f"Certificate ({self.method}) against turning {len(held)} predictions to {self.label!r}: {radii} "
            f"{self.unit}; {len(self) - len(held)} are predicted so already.",
            f"{voters_in_words(self.spread, self.election)}.",
        ]
        return "\n".join(map(shown, lines + [f"Premise: {premise}" for premise in self.premises]))


def _sizes(attack_sizes: int | Sequence[int] | NDArray[Any]) -> NDArray[Any]:
    sizes = np.asarray(attack_sizes)
    if not np.issubdtype(sizes.dtype, np.integer) or (sizes < 0).any():
        raise PoisonproofError(f"Attack sizes must be whole numbers ≥ 0. Got {attack_sizes!r} instead.")
    return sizes

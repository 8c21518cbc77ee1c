"""The certificate: what was proved, for every test sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from poisonproof import __version__
from poisonproof.certificates.shares import Figures
from poisonproof.certificates.voters import check_arrays, facts_of_voters, voters_in_words, voters_of
from poisonproof.display.text import shown
from poisonproof.errors import DamagedFileError, PoisonproofError, check_format, missing_extra
from poisonproof.partition.split import Split, Threat
from poisonproof.partition.spread import Spread
from poisonproof.premises import Premise, from_records, to_records
from poisonproof.system.files import open_arrays, reading, write_arrays
from poisonproof.votes.votes import labels_from_json, labels_to_json

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "poisonproof certificate 1"
UNSEEN = "(a label the training data has not shown)"
OF_THREAT = "radius_against_"

Act = Threat | Literal["insert", "remove"]
ACTS: tuple[Act, ...] = (*get_args(Threat), "insert", "remove")


@dataclass(frozen=True, eq=False)
class Certificate(Figures):
    """For every test sample: whatever an attacker inserts into or removes from the training data, up to
    ``radius`` samples in total, the prediction stays the same.

    Deterministic, without a failure probability, under the premises listed: for any base classifiers that are functions
    of their own subset, or for training samples that vote through a fixed map. It says nothing about whether a
    prediction is right.

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
        true of base classifiers that do the attacker's will. With ballots and neighbours: where such an attack is known
        to change the prediction.
    spread : Spread, or None
        What base classifiers were made with; None where training samples vote.
    election : dict, or None
        Where training samples vote: how, and how many, as plain values.
    radii : dict of arrays, or None
        Where training samples vote: a radius for every other threat, by name; see `radius_against`.
    origin : dict, or None
        Where the votes come from: data set and its digests, learner, threat model, versions. A run fills it.
    """

    prediction: NDArray[np.int64]
    runner_up: NDArray[np.int64]
    margin: NDArray[np.int64]
    radius: NDArray[np.int64]
    method: str
    classes: NDArray[Any] = field(repr=False)
    spread: Spread | None = field(default=None, repr=False)
    split: Split | None = None
    classes_inferred: bool = False
    premises: tuple[Premise, ...] = field(default=(), repr=False)
    exact: NDArray[np.bool_] | None = None
    origin: dict[str, Any] | None = field(default=None, repr=False)
    election: dict[str, Any] | None = field(default=None, repr=False)
    radii: dict[str, NDArray[np.int64]] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for array in self._arrays().values():
            array.flags.writeable = False

    def _arrays(self) -> dict[str, NDArray[Any]]:
        names = ("prediction", "runner_up", "margin", "radius", "exact")
        arrays = {name: array for name in names if (array := getattr(self, name)) is not None}
        return arrays | {OF_THREAT + threat: array for threat, array in (self.radii or {}).items()}

    @property
    def labels(self) -> NDArray[Any]:
        """The predicted labels."""
        return self.classes[self.prediction]

    @property
    def unit(self) -> str:
        """What the radius counts."""
        return "contributors" if self.split and self.split.kind == "group" else "training samples"

    @property
    def voters(self) -> str:
        """Who voted, in words."""
        return voters_in_words(self.spread, self.election)

    @property
    def ensemble(self) -> Spread:
        """The spread of the base classifiers that voted; one sentence where training samples did."""
        if self.spread is None:
            raise PoisonproofError(f"There are no base classifiers here, and no spread: {self.voters}.")
        return self.spread

    def radius_against(self, threat: Act) -> NDArray[np.int64]:
        """How many acts of this kind each prediction withstands.

        ``"insert_remove"``: samples inserted or removed; ``"insert"`` or ``"remove"``: nothing but that.
        ``"label_flip"``: labels changed; in blocks of ballots to other classes, as the premises say. ``"modify"``:
        samples changed in any way. Where base classifiers vote, the last two need to know the split. Where samples
        vote, at most all of them can go or change, so a radius of their number says that no attack of the kind
        succeeds.
        """
        if threat not in ACTS:
            raise PoisonproofError(f"A threat is one of {list(ACTS)}. Got {threat!r} instead.")
        if self.radii is not None and threat in self.radii:
            return self.radii[threat]
        if threat == "insert_remove" or threat == "insert" or threat == "remove":  # both is more than either
            return self.radius
        if self.split is None:
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
            **facts_of_voters(self.spread, self.election),
            "split": self.split.as_dict() if self.split else None,
            "unit": self.unit,
            "classes": labels_to_json(self.classes),
            "classes_inferred": self.classes_inferred,
            "premises": to_records(self.premises),
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
            threats = [name for name in arrays if name.startswith(OF_THREAT)]
            radii = {name.removeprefix(OF_THREAT): arrays.pop(name) for name in threats}
            if not set(radii) <= set(ACTS):
                raise DamagedFileError(f"{path} is altered: it states radii against {sorted(set(radii) - set(ACTS))}.")
            parts: dict[str, Any] = arrays | voters_of(facts)
            certificate = cls(
                **parts,
                method=facts["method"],
                classes=labels_from_json(facts["classes"]),
                split=Split.from_dict(facts["split"]) if facts["split"] else None,
                classes_inferred=facts["classes_inferred"],
                premises=from_records(facts["premises"]),
                origin=facts.get("origin"),
                radii=radii or None,
            )
            certificate._check(path)
        return certificate

    def _check(self, path: str | Path) -> None:
        """One sentence if the arrays of a file cannot be a certificate's."""
        check_arrays(path, self._arrays(), len(self))
        if self.prediction.max(initial=0) >= len(self.classes) or self.runner_up.max(initial=0) > len(self.classes):
            raise DamagedFileError(f"{path} is altered: it names a class beyond its {len(self.classes)} classes.")

    def _repr_html_(self) -> str:
        """For notebooks."""
        from poisonproof.display.notebook import certificate_html

        title = f"Certificate ({self.method}) for {len(self):,} predictions"
        return certificate_html(title, self.radius, len(self), self.unit, [self.voters], self.premises)

    def __str__(self) -> str:
        radii = (
            f"radius median {np.percentile(self.radius, 50, method='lower'):d}, "
            f"smallest {self.radius.min()}, largest {self.radius.max()}"
            if len(self)
            else "no radius"
        )
        lines = [
            f"Certificate ({self.method}) for {len(self)} predictions: {radii} {self.unit}.",
            f"{self.voters}.",
        ]
        return "\n".join(map(shown, lines + [f"Premise: {premise}" for premise in self.premises]))


def attack_sizes(certificate: Certificate) -> list[int]:
    """Round attack sizes up to the largest radius, for a table."""
    largest = int(certificate.radius.max(initial=0))
    steps: Sequence[int] = [m * 10**e for e in range(7) for m in (1, 2, 3, 5)] + [15, 25, 150, 250, 400]
    return [0, *sorted(step for step in steps if step <= largest)] + ([largest] if largest not in [0, *steps] else [])

"""The stochastic certificate: what holds for every test sample, and with which probability."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Context, Decimal
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poisonproof.core.certificate import check_arrays
from poisonproof.core.metrics import Figures
from poisonproof.core.split import Threat
from poisonproof.core.votes import labels_from_json, labels_to_json
from poisonproof.display import shown
from poisonproof.errors import DamagedFileError, PoisonproofError, check_format
from poisonproof.premises import Premise, from_records, to_records
from poisonproof.system.files import open_arrays, reading, write_arrays

FORMAT = "poisonproof stochastic certificate 1"
ARRAYS = ("prediction", "abstained", "radius", "radius_changed")


@dataclass(frozen=True, eq=False)
class StochasticCertificate(Figures):
    """With probability at least 1 − ``failure_probability`` over the draw of the subsets, jointly for all test
    samples where it does not abstain: the ideal classifier says the prediction, and whatever an attacker
    inserts into or removes from the training data, up to ``radius`` samples in total, it still does.

    The ideal classifier says what base classifiers on random subsets say most probably; the draws only estimate
    it. The training data and the test samples must have been fixed without knowledge of the seed. What the
    attacker does within the radius may be done in full knowledge of it. The statement is about these test
    samples together; more of them, certified later, are another statement with a failure probability of its own.

    Attributes
    ----------
    prediction : array (n_test,) of class indices
        The most voted class of the draws. Nothing is claimed about it where the certificate abstains.
    abstained : array (n_test,) of bool
        Where the draws do not say which class the ideal classifier says.
    radius : array (n_test,)
        Insertions and removals, 1 each; 0 where it abstains.
    radius_changed : array (n_test,)
        Insertions, removals and changes of a training sample (features, label or both), 1 each; 0 where it
        abstains. The unit of the papers on randomised selection and bagging.
    method : str
    classes : array
        The label of each class index.
    failure_probability : float
    seed : int
    n_draws : int
    """

    prediction: NDArray[np.int64]
    abstained: NDArray[np.bool_]
    radius: NDArray[np.int64]
    radius_changed: NDArray[np.int64]
    method: str
    classes: NDArray[Any] = field(repr=False)
    failure_probability: float
    seed: int
    n_draws: int
    premises: tuple[Premise, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        for name in ARRAYS:
            getattr(self, name).flags.writeable = False

    @property
    def unit(self) -> str:
        """What the radius counts."""
        return "training samples inserted or removed"

    @property
    def labels(self) -> np.ma.MaskedArray[Any, Any]:
        """The predicted labels, masked where the certificate abstains."""
        return np.ma.masked_array(self.classes[self.prediction], self.abstained)

    @property
    def confidence(self) -> str:
        """The probability with which it holds, in words; its digits are never rounded up."""
        holds = Context(prec=28, rounding=ROUND_FLOOR).subtract(
            Decimal(100), 100 * Decimal(repr(self.failure_probability))
        )
        return f"holds with probability at least {holds.normalize():f} %, over the draw of the subsets"

    @property
    def classes_inferred(self) -> bool:  # type: ignore[override]
        """Whether the class list was read off the training data."""
        return any(premise.code == "classes" and not premise.declared for premise in self.premises)

    def right(self, y: ArrayLike) -> NDArray[np.bool_]:
        """Whether each prediction is the given label and is certified at all: an abstention is not right."""
        return super().right(y) & ~self.abstained

    def radius_against(self, threat: Threat) -> NDArray[np.int64]:
        """How many acts of this kind each prediction withstands.

        ``"insert_remove"``: samples inserted or removed. ``"label_flip"`` and ``"modify"``: samples changed.
        """
        if threat not in get_args(Threat):
            raise PoisonproofError(f"A threat is one of {list(get_args(Threat))}. Got {threat!r} instead.")
        return self.radius if threat == "insert_remove" else self.radius_changed

    def facts(self) -> dict[str, Any]:
        """Everything that is not an array, as plain values."""
        return {
            "method": self.method,
            "failure_probability": self.failure_probability,
            "seed": self.seed,
            "n_draws": self.n_draws,
            "unit": self.unit,
            "classes": labels_to_json(self.classes),
            "premises": to_records(self.premises),
        }

    def save(self, path: str | Path) -> None:
        """Write a self-describing npz file with digests."""
        write_arrays(path, {name: getattr(self, name) for name in ARRAYS}, {"format": FORMAT, **self.facts()})

    @classmethod
    def load(cls, path: str | Path) -> StochasticCertificate:
        """Read a certificate; refuse one that was altered."""
        arrays, facts = open_arrays(path, ARRAYS)
        check_format(path, facts.get("format"), FORMAT)
        with reading(path):
            certificate = cls(
                **arrays,
                method=facts["method"],
                classes=labels_from_json(facts["classes"]),
                failure_probability=facts["failure_probability"],
                seed=facts["seed"],
                n_draws=facts["n_draws"],
                premises=from_records(facts["premises"]),
            )
            certificate._check(path)
        return certificate

    def _check(self, path: str | Path) -> None:
        """One sentence if what a file holds cannot be a certificate's."""
        check_arrays(path, {name: getattr(self, name) for name in ARRAYS}, len(self))
        if self.prediction.max(initial=0) >= len(self.classes):
            raise DamagedFileError(f"{path} is altered: it names a class beyond its {len(self.classes)} classes.")
        if (self.radius[self.abstained] > 0).any() or (self.radius_changed[self.abstained] > 0).any():
            raise DamagedFileError(f"{path} is altered: it states a radius where it abstains.")
        if not 0 < self.failure_probability < 1:
            raise DamagedFileError(f"{path} is altered: it fails with probability {self.failure_probability}.")

    def _repr_html_(self) -> str:
        """For notebooks."""
        from poisonproof.display import certificate_html

        lines = [
            f"abstentions: {int(self.abstained.sum()):,}; the radii are those of the others",
            f"It {self.confidence}: {self.n_draws} draws, seed {self.seed}",
        ]
        title = f"Stochastic certificate ({self.method}) for {len(self):,} predictions"
        radii = self.radius[~self.abstained]
        return certificate_html(title, radii, len(self), self.unit, lines, self.premises)

    def __str__(self) -> str:
        held = self.radius[~self.abstained]
        radii = f"radius median {np.percentile(held, 50, method='lower'):d}, " if len(held) else "no radius, "
        changed = self.radius_changed[~self.abstained]
        beside = f" (or median {np.percentile(changed, 50, method='lower'):d} changed)" if len(held) else ""
        lines = [
            f"Stochastic certificate ({self.method}) for {len(self)} predictions: {radii}"
            f"{int(self.abstained.sum())} abstentions; {self.unit}{beside}.",
            f"It {self.confidence}: {self.n_draws} draws, seed {self.seed}.",
        ]
        return "\n".join(map(shown, lines + [f"Premise: {premise}" for premise in self.premises]))

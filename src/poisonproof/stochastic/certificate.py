"""The stochastic certificate: what holds for every test sample, and with which probability."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from pathlib import Path
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.certificate import Act, BaseCertificate
from poisonproof.core.split import Threat
from poisonproof.errors import DamagedFileError, PoisonproofError


@dataclass(frozen=True, eq=False, kw_only=True)
class StochasticCertificate(BaseCertificate):
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
    failure_probability : float
    seed : int
    n_draws : int
    """

    FORMAT: ClassVar[str] = "poisonproof stochastic certificate 2"
    ARRAYS: ClassVar[tuple[str, ...]] = ("prediction", "abstained", "radius", "radius_changed")
    STATED: ClassVar[tuple[str, ...]] = ("failure_probability", "seed", "n_draws")

    abstained: NDArray[np.bool_]
    radius_changed: NDArray[np.int64]
    failure_probability: float
    seed: int
    n_draws: int

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "election", {"words": f"{self.n_draws} base classifiers on random subsets"})

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

    def _right(self, truth: NDArray[np.int64]) -> NDArray[np.bool_]:
        return super()._right(truth) & ~self.abstained

    def radius_against(self, threat: Act) -> NDArray[np.int64]:
        """How many acts of this kind each prediction withstands.

        ``"insert_remove"``: samples inserted or removed. ``"label_flip"`` and ``"modify"``: samples changed.
        """
        if threat not in get_args(Threat):
            raise PoisonproofError(
                f"A threat is one of {list(get_args(Threat))}. Got {threat!r} instead.", code="certify.threat"
            )
        return self.radius if threat == "insert_remove" else self.radius_changed

    def _check(self, path: str | Path) -> None:
        super()._check(path)
        if (self.radius[self.abstained] > 0).any() or (self.radius_changed[self.abstained] > 0).any():
            raise DamagedFileError(f"{path} is altered: it states a radius where it abstains.")
        if not 0 < self.failure_probability < 1:
            raise DamagedFileError(f"{path} is altered: it fails with probability {self.failure_probability}.")

    def _held(self) -> NDArray[np.int64]:
        return self.radius[~self.abstained]

    def _lines(self) -> list[str]:
        changed = self.radius_changed[~self.abstained]
        beside = f" (or median {np.percentile(changed, 50, method='lower'):d} changed)" if len(changed) else ""
        return [
            f"Stochastic certificate ({self.method}) for {len(self)} predictions: {self._radii_in_words()} "
            f"{self.unit}{beside}.",
            f"abstentions: {int(self.abstained.sum()):,}; the radii are those of the others.",
            f"It {self.confidence}: {self.n_draws} draws, seed {self.seed}.",
        ]

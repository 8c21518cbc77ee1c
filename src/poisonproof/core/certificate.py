"""Certificates: what was proved, for every test sample; against any change, or against being turned to one class.

What they state alike: who votes (base classifiers with their spread, or training samples with their election), and
arrays with one entry for every test sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poisonproof import __version__
from poisonproof.core.split import Split, Threat
from poisonproof.core.spread import Spread
from poisonproof.core.votes import labels_from_json, labels_to_json
from poisonproof.errors import DamagedFileError, PoisonproofError, check_format, missing_extra
from poisonproof.premises import Premise, from_records, to_records
from poisonproof.system.files import open_arrays, reading, write_arrays

if TYPE_CHECKING:
    import pandas as pd

    from poisonproof.core.metrics import Evaluation


UNSEEN = "(a label the training data has not shown)"
OF_THREAT = "radius_against_"

Act = Threat | Literal["insert", "remove"]
ACTS: tuple[Act, ...] = (*get_args(Threat), "insert", "remove")


@dataclass(frozen=True, eq=False, kw_only=True)
class BaseCertificate:
    """What certificates have in common: a file with an entry for every test sample, classes, voters and premises.

    Attributes
    ----------
    classes : array
        The label of each class index.
    spread : Spread, or None
        What base classifiers were made with; None where training samples vote, or subsets are drawn at random.
    election : dict, or None
        Without a spread: who votes, how, and how many, as plain values.
    classes_inferred : bool
        Whether the class list was read off the training data.
    """

    FORMAT: ClassVar[str]
    ARRAYS: ClassVar[tuple[str, ...]]
    """The arrays that every such certificate has."""
    STATED: ClassVar[tuple[str, ...]] = ()
    """Plain values that only this kind of certificate states."""

    prediction: NDArray[np.int64]
    radius: NDArray[np.int64]
    method: str
    classes: NDArray[Any] = field(repr=False)
    spread: Spread | None = field(default=None, repr=False)
    split: Split | None = None
    classes_inferred: bool = False
    premises: tuple[Premise, ...] = field(default=(), repr=False)
    election: dict[str, Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for array in self._arrays().values():
            array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.radius)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        exact = getattr(self, "exact", None)
        return {name: getattr(self, name) for name in self.ARRAYS} | ({} if exact is None else {"exact": exact})

    @property
    def unit(self) -> str:
        """What the radius counts."""
        return "contributors" if self.split and self.split.kind == "group" else "training samples"

    @property
    def voters(self) -> str:
        """Who votes, in one clause."""
        if self.spread is not None:
            return f"{self.spread.n_subsets} base classifiers, k = {self.spread.k:g}, d = {self.spread.d}"
        assert self.election is not None
        return str(self.election["words"])

    def evaluate(self, y: ArrayLike) -> Evaluation:
        """The figures of this test set, given its labels."""
        from poisonproof.core.metrics import Evaluation, codes_and_labels

        truth, labels = codes_and_labels(y, self.classes, inferred=self.classes_inferred)
        if len(truth) != len(self):
            raise PoisonproofError(
                f"There are {len(self)} predictions but {len(truth)} labels; give one label per test sample.",
                code="labels.count",
            )
        return Evaluation(self.prediction, self.radius, truth, self._right(truth), labels)

    def _right(self, truth: NDArray[np.int64]) -> NDArray[np.bool_]:
        return self.prediction == truth

    def radius_against(self, threat: Act) -> NDArray[np.int64]:
        """How many acts of this kind each radius holds against.

        ``"insert_remove"``: samples inserted or removed; ``"insert"`` or ``"remove"``: nothing but that.
        ``"label_flip"``: labels changed. ``"modify"``: samples changed in any way. Where base classifiers vote, the
        last two need to know the split. Where samples vote, a changed sample counts as one removed and one inserted,
        which is sound and seldom exact; a `Certificate` states exact radii instead, and since at most all samples can
        go or change, one of their number says that no attack of the kind succeeds.
        """
        if threat not in ACTS:
            raise PoisonproofError(f"A threat is one of {list(ACTS)}. Got {threat!r} instead.", code="certificate.act")
        if threat == "insert_remove" or threat == "insert" or threat == "remove":  # both is more than either
            return self.radius
        if self.election is not None:
            return self.radius if self.unit == "contributors" else self.radius // 2
        if self.split is None:
            raise PoisonproofError(
                f"What '{threat}' costs depends on the split, and these votes do not say how they were split; "
                "give Votes(..., split=...).",
                code="certificate.split",
            )
        return self.radius // self.split.cost(threat)

    def facts(self) -> dict[str, Any]:
        """Everything that is not an array, as plain values."""
        spread = self.spread
        return {
            "method": self.method,
            **(
                {"spread": None, "election": self.election}
                if spread is None
                else {
                    "k": spread.k,
                    "d": spread.d,
                    "n_subsets": spread.n_subsets,
                    "spread": spread.as_dict(),
                    "spread_digest": spread.digest,
                }
            ),
            "split": self.split.as_dict() if self.split else None,
            "unit": self.unit,
            "classes": labels_to_json(self.classes),
            "classes_inferred": self.classes_inferred,
            "premises": to_records(self.premises),
            **{name: getattr(self, name) for name in self.STATED},
        }

    def save(self, path: str | Path) -> None:
        """Write a self-describing npz file with digests."""
        write_arrays(path, self._arrays(), {"format": self.FORMAT, "poisonproof": __version__, **self.facts()})

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a certificate; refuse one that was altered.

        The digests catch damage, not a forger who writes new ones: only the votes can do that.
        """
        arrays, facts = open_arrays(path, cls.ARRAYS)
        check_format(path, facts.get("format"), cls.FORMAT)
        with reading(path):
            election = facts.get("election")
            if election is not None and (facts["spread"] is not None or not isinstance(election.get("words"), str)):
                raise PoisonproofError("it states base classifiers and samples that vote, and only one can be")
            certificate = cls(
                **cls._fields(arrays),
                spread=Spread.from_dict(facts["spread"]) if election is None else None,
                election=election,
                method=facts["method"],
                classes=labels_from_json(facts["classes"]),
                split=Split.from_dict(facts["split"]) if facts["split"] else None,
                classes_inferred=facts["classes_inferred"],
                premises=from_records(facts["premises"]),
                **{name: facts[name] for name in cls.STATED},
            )
            certificate._check(path)
        return certificate

    @classmethod
    def _fields(cls, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
        """The arrays of a file by the fields that hold them."""
        return arrays

    def _check(self, path: str | Path) -> None:
        """One sentence if a file's arrays are not, each, one number from 0 on, or one yes or no, per test sample."""
        for name, array in self._arrays().items():
            kind = "b" if name in ("exact", "abstained") else "iu"
            if array.shape != (len(self),) or array.dtype.kind not in kind:
                raise DamagedFileError(f"{path} is altered: '{name}' is an array {array.shape} of {array.dtype}.")
            if kind == "iu" and array.min(initial=0) < 0:
                raise DamagedFileError(f"{path} is altered: '{name}' holds {array.min()}.")
        self._check_codes(path, self.prediction, below=len(self.classes))

    def _check_codes(self, path: str | Path, codes: Any, below: int) -> None:
        if np.min(codes, initial=0) < 0 or np.max(codes, initial=0) >= below:
            raise DamagedFileError(f"{path} is altered: it names a class beyond its {len(self.classes)} classes.")

    def _held(self) -> NDArray[np.int64]:
        """The radii of predictions of which something is claimed."""
        return self.radius

    def _radii_in_words(self) -> str:
        held = self._held()
        if not len(held):
            return "no radius"
        median = np.percentile(held, 50, method="lower")
        return f"radius median {median:d}, smallest {held.min()}, largest {held.max()}"

    def _lines(self) -> list[str]:
        """What it says of itself before its premises; the first is its headline."""
        return [
            f"Certificate ({self.method}) for {len(self)} predictions: {self._radii_in_words()} {self.unit}.",
            f"{self.voters}.",
        ]

    def __str__(self) -> str:
        from poisonproof.display import shown

        return "\n".join(map(shown, self._lines() + [f"Premise: {premise}" for premise in self.premises]))

    def _repr_html_(self) -> str:
        """For notebooks."""
        from poisonproof.display import certificate_html

        headline, *lines = self._lines()
        return certificate_html(headline.partition(":")[0], self._held(), len(self), self.unit, lines, self.premises)


@dataclass(frozen=True, eq=False, kw_only=True)
class Certificate(BaseCertificate):
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
        true of base classifiers that do the attacker's will. Of samples that vote: where such an attack is known
        to change the prediction.
    radii : dict of arrays, or None
        Where training samples vote: a radius for every other threat, by name; see `radius_against`.
    origin : dict, or None
        Where the votes come from: data set and its digests, learner, threat model, versions. A run fills it.
    """

    FORMAT: ClassVar[str] = "poisonproof certificate 2"
    ARRAYS: ClassVar[tuple[str, ...]] = ("prediction", "runner_up", "margin", "radius")
    STATED: ClassVar[tuple[str, ...]] = ("origin",)

    runner_up: NDArray[np.int64]
    margin: NDArray[np.int64]
    exact: NDArray[np.bool_] | None = None
    radii: dict[str, NDArray[np.int64]] | None = field(default=None, repr=False)
    origin: dict[str, Any] | None = field(default=None, repr=False)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return super()._arrays() | {OF_THREAT + threat: array for threat, array in (self.radii or {}).items()}

    @property
    def labels(self) -> NDArray[Any]:
        """The predicted labels."""
        return self.classes[self.prediction]

    @property
    def ensemble(self) -> Spread:
        """The spread of the base classifiers that voted; one sentence where training samples did."""
        if self.spread is None:
            raise PoisonproofError(
                f"There are no base classifiers here, and no spread: {self.voters}.", code="certificate.no-members"
            )
        return self.spread

    def radius_against(self, threat: Act) -> NDArray[np.int64]:
        """How many acts of this kind each prediction withstands."""
        if self.radii is not None and threat in self.radii:
            return self.radii[threat]
        return super().radius_against(threat)

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

    @classmethod
    def _fields(cls, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
        threats = [name for name in arrays if name.startswith(OF_THREAT)]
        radii = {name.removeprefix(OF_THREAT): arrays.pop(name) for name in threats}
        if not set(radii) <= set(ACTS):
            raise PoisonproofError(f"it states radii against {sorted(set(radii) - set(ACTS))}")
        return {**arrays, "radii": radii or None}

    def _check(self, path: str | Path) -> None:
        super()._check(path)
        self._check_codes(path, self.runner_up, below=len(self.classes) + 1)


@dataclass(frozen=True, eq=False, kw_only=True)
class TargetCertificate(BaseCertificate):
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
        Of samples that vote: where an attack of size radius + 1 is known that turns the prediction to the target.
    """

    FORMAT: ClassVar[str] = "poisonproof target certificate 2"
    ARRAYS: ClassVar[tuple[str, ...]] = ("prediction", "margin", "radius")
    STATED: ClassVar[tuple[str, ...]] = ("target",)

    target: int
    margin: NDArray[np.int64]
    exact: NDArray[np.bool_] | None = None

    @property
    def label(self) -> Any:
        """The label of the target."""
        return self.classes.tolist()[self.target]

    @property
    def already(self) -> NDArray[np.bool_]:
        """Where the target is predicted without any attack."""
        return self.prediction == self.target

    def withstands(self, attack_size: int) -> NDArray[np.bool_]:
        """Where no attack of this size gives the target; nowhere that it is predicted already."""
        from poisonproof.core.metrics import checked_sizes

        return ~self.already & (self.radius >= checked_sizes(attack_size))

    def certified_share(
        self, attack_sizes: int | Sequence[int] | NDArray[Any], y: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Share of test samples that no attack of each size can turn to the target (pointwise).

        With their true labels ``y``, the share of those that are not of the target class: the others are meant to be
        predicted as the target.
        """
        from poisonproof.core.metrics import number_that_withstand

        counted = np.ones(len(self), np.bool_)
        if y is not None:
            counted = self.evaluate(y).truth != self.target
        if not counted.any():
            raise PoisonproofError(
                "There is no test sample of another class than the target, so there is no share.",
                code="certificate.no-test",
            )
        return number_that_withstand(self.radius[counted & ~self.already], attack_sizes) / int(counted.sum())

    def _check(self, path: str | Path) -> None:
        super()._check(path)
        if type(self.target) is not int:
            raise DamagedFileError(f"{path} is altered: its target is no class.")
        self._check_codes(path, self.target, below=len(self.classes))

    def _held(self) -> NDArray[np.int64]:
        return self.radius[~self.already]

    def _lines(self) -> list[str]:
        held = len(self._held())
        return [
            f"Certificate ({self.method}) against turning {held} predictions to {self.label!r}: "
            f"{self._radii_in_words()} {self.unit}; {len(self) - held} are predicted so already.",
            f"{self.voters}.",
        ]


def attack_sizes(certificate: Certificate) -> list[int]:
    """Round attack sizes up to the largest radius, for a table."""
    largest = int(certificate.radius.max(initial=0))
    steps: Sequence[int] = [m * 10**e for e in range(7) for m in (1, 2, 3, 5)] + [15, 25, 150, 250, 400]
    return [0, *sorted(step for step in steps if step <= largest)] + ([largest] if largest not in [0, *steps] else [])

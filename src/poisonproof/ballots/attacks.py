"""Attacks on elections in which training samples vote: rows are added, taken and changed for real, and all vote again.

Each attack is the strongest of its kind that the proofs know (docs/proofs/ballots.md) and as large as the radius
against its kind, which must hold, and then one larger; where a radius is called exact, that one must work. All other
targets are asked, too: what an attack on one does to the rest is certified, too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from poisonproof.auditing.attacks import NOBODY, Poison, Rows, apply_poison
from poisonproof.auditing.audit import Attack, Request, abbreviate
from poisonproof.ballots.classifiers import BallotClassifier, NeighborVoteClassifier, SampleVoteClassifier
from poisonproof.ballots.voters import Known, distances_between
from poisonproof.core.certificate import Certificate
from poisonproof.premises import PremiseWarning
from poisonproof.samples.convert import take_rows
from poisonproof.samples.frames import as_frame
from poisonproof.samples.labels import named

COPIES_OF_A_CONTRIBUTOR = 4


@dataclass(frozen=True, eq=False)
class VoteContext:
    """What the attacker sees: the rows, who votes how about every target, and what is certified."""

    model: SampleVoteClassifier
    X: Any
    labels: list[Any]
    groups: list[Any] | None
    targets: Any
    distances: NDArray[np.int32]
    certificate: Certificate

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row of the training data that each voter is."""
        places = self.model.places_
        rows = np.empty(len(self.model.voters_), np.int64)
        kept = np.flatnonzero(places >= 0)
        rows[places[kept]] = kept
        return rows

    def rival(self, target: int) -> Any:
        """The label the attacker would like to see: the runner-up's, or one that nobody has shown and sorts first."""
        code, classes = int(self.certificate.runner_up[target]), self.certificate.classes.tolist()
        if code < len(classes):
            return classes[code]
        return "" if isinstance(classes[0], str) else min(classes) - 1

    def codes(self, target: int) -> tuple[int, int]:
        """Prediction and runner-up."""
        return int(self.certificate.prediction[target]), int(self.certificate.runner_up[target])

    def is_far(self, target: int) -> NDArray[np.bool_]:
        """Which voters are far in a way that counts."""
        model, distances = self.model, self.distances[target]
        if not isinstance(model, BallotClassifier) or model.one_sided:
            return np.zeros(len(distances), np.bool_)
        return np.asarray(distances > model._limit())

    def order(self, target: int) -> NDArray[np.int64]:
        """Voters, nearest first."""
        voters = self.model.voters_
        return np.lexsort((voters.codes, voters.hashes, self.distances[target]))

    def holding(self, target: int) -> NDArray[np.int64]:
        """Rows that hold the prediction, those that cost the lead most first."""
        p, c = self.codes(target)
        order = self.order(target)
        codes, far = self.model.voters_.codes[order], self.is_far(target)[order]
        useful = np.where(far, codes == c, codes == p)
        thirds = (codes != p) & (codes != c)
        return self.rows[np.concatenate([order[useful], order[thirds]])]

    def against(self, target: int, row: int) -> Any:
        """The label that a row is given by a flip: the rival's, or the prediction's if the row is a far one's."""
        p, _ = self.codes(target)
        label = self.certificate.classes.tolist()[p]
        far = self.is_far(target)[self.model.places_[row]]
        return label if far and self.labels[row] != label else self.rival(target)

    def units(self, target: int, count: int) -> list[NDArray[np.int64]]:
        """What to take or turn, one unit each: a row, or all rows of a contributor."""
        rows = self.holding(target)
        if self.groups is None:
            return [rows[at : at + 1] for at in range(min(count, len(rows)))]
        owners = list(dict.fromkeys(self.groups[row] for row in rows))[:count]
        return [np.flatnonzero([group == owner for group in self.groups]) for owner in owners]

    def copies(self, target: int, count: int) -> tuple[Any, tuple[Any, ...], tuple[Any, ...] | None]:
        """The target under the rival's label, once for each unit; a contributor brings several."""
        each = 1 if self.groups is None else max(COPIES_OF_A_CONTRIBUTOR, getattr(self.model, "voices", 1))
        owners = None if self.groups is None else tuple(f"attacker {at // each}" for at in range(count * each))
        rows = take_rows(self.targets, [target] * (count * each))
        return rows, (self.rival(target),) * (count * each), owners


def insert(context: VoteContext, target: int, size: int) -> Poison | None:
    """Copies of x under the runner-up's label."""
    return Poison(size, NOBODY, *context.copies(target, size))


def remove(context: VoteContext, target: int, size: int) -> Poison | None:
    """Take away what holds the prediction, the nearest first."""
    units = context.units(target, size)
    if len(units) < size or sum(map(len, units)) >= len(context.labels):
        return None
    return Poison(size, np.concatenate(units))


def flip(context: VoteContext, target: int, size: int) -> Poison | None:
    """Give what holds the prediction another label."""
    return _changed(context, target, size, lambda rows: (take_rows(context.X, rows), context.against))


def modify(context: VoteContext, target: int, size: int) -> Poison | None:
    """Turn what holds the prediction into x under the runner-up's label."""
    label = context.rival(target)
    return _changed(
        context, target, size, lambda rows: (take_rows(context.targets, [target] * len(rows)), lambda *_: label)
    )


def _changed(context: VoteContext, target: int, size: int, made: Callable[[Any], Any]) -> Poison | None:
    """Rows that hold the prediction, changed in place: ``made`` gives the samples, and a label for target and row."""
    units = context.units(target, size)
    if len(units) < size:
        return None
    rows = np.concatenate(units)
    owners = None if context.groups is None else tuple(context.groups[row] for row in rows)
    samples, label = made(rows)
    return Poison(size, rows, samples, tuple(label(target, int(row)) for row in rows), owners)


def mixed(context: VoteContext, target: int, size: int) -> Poison | None:
    """Copies and removals in the proportion that the proof of exactness names."""
    if context.groups is not None:
        return None
    inserted = _best_share(context, target, size)
    removed = context.holding(target)[: size - inserted]
    if len(removed) < size - inserted:
        return None
    if inserted == 0:
        return Poison(size, removed) if len(removed) < len(context.labels) else None
    return Poison(size, removed, *context.copies(target, inserted))


def _best_share(context: VoteContext, target: int, size: int) -> int:
    """How many of so many acts should be insertions: for neighbours, where G(K − e + q) is smallest."""
    model = context.model
    if not isinstance(model, NeighborVoteClassifier):
        return size
    p, c = context.codes(target)
    codes = model.voters_.codes[context.order(target)]
    gap = np.concatenate([[0], np.cumsum((codes == p).astype(np.int64) - (codes == c))])
    shares = np.arange(size + 1)
    kept = np.clip(model.n_neighbors - shares + (size - shares), 0, len(codes))
    return int(gap[kept].argmin())


ATTACKS: dict[str, tuple[str, Callable[[VoteContext, int, int], Poison | None]]] = {
    "insert": ("insert", insert),
    "remove": ("remove", remove),
    "mixed": ("insert_remove", mixed),
    "flip": ("label_flip", flip),
    "modify": ("modify", modify),
}


def features_known(fitted: SampleVoteClassifier, X: Any) -> Known:
    """The features of the samples that a model was fitted on, so that those who stay need not be described again."""
    kept = np.flatnonzero(fitted.places_ >= 0)
    keys = fitted.split_.samples(as_frame(X)).each_key(kept)
    return Known(dict(zip(keys, fitted.places_[kept].tolist(), strict=True)), fitted.voters_.rows)


class SampleAudit:
    """A fitted election, its targets, and attacks upon them."""

    kinds: ClassVar[Sequence[str]] = tuple(ATTACKS)
    counted_kinds: ClassVar[Sequence[str]] = ("insert", "remove", "mixed")
    methods: ClassVar[Sequence[str]] = ("finite-aggregation",)  # what is asked for where nothing is; there is but one
    how: ClassVar[str] = "all votes counted again"
    watched: ClassVar[str] = (
        "{bystanders} times another target was asked after an attack, and judged by its own radius."
    )

    def __init__(self, model: SampleVoteClassifier, rows: Rows, X_test: Any, request: Request) -> None:
        self.request, self.n_untouched = request, 0
        fitted = self._fitted(model, rows, None)
        # A map that was made from the rows is a premise: the attacks are judged with it as it stands.
        self.model = type(model)(**model.get_params(deep=False)).set_params(
            features=fitted.map_.features, scale=fitted.map_.scale
        )
        self.known = features_known(fitted, rows.X)
        self.rows = rows._replace(labels=named(rows.labels, fitted.classes_))
        targets = take_rows(X_test, request.targets)
        self.n_targets = len(request.targets)
        self.certificate: Certificate = fitted.certify(targets)
        distances = distances_between(fitted._describe_test(targets), fitted.voters_)
        self.context = VoteContext(fitted, *self.rows, targets, distances, self.certificate)

    def suits(self, target: int, kind: str) -> bool:
        """Every kind is tried on every target."""
        return True

    def escalate(self, kind: str, target: int) -> list[Attack]:
        """Attacks as large as the radius against this kind, and one larger; or of the sizes that were asked for."""
        radius = int(self.certificate.radius_against(ATTACKS[kind][0])[target])  # type: ignore[arg-type]
        done = []
        for size in (radius, radius + 1) if self.request.sizes is None else self.request.sizes:
            if size <= 0:
                continue
            attack = self._attack(kind, target, size)
            if attack is None:
                break
            done.append(attack)
        return done

    def _attack(self, kind: str, target: int, size: int) -> Attack | None:
        """Carry out one attack, or None if it cannot be had on this data."""
        (threat, make), certificate = ATTACKS[kind], self.certificate
        poison = make(self.context, target, size)
        if poison is None:
            return None
        moved = self._labels_after(poison) != certificate.labels.astype(object)
        radii = certificate.radius_against(threat)  # type: ignore[arg-type]
        violations = []
        if len(broken := np.flatnonzero(moved & (radii >= size))):
            violations.append(
                f"the predictions of {abbreviate(broken)} moved although they withstand {size} acts ({threat})"
            )
        exact = certificate.exact is not None and bool(certificate.exact[target]) and self.rows.groups is None
        if kind == "mixed" and exact and size == int(certificate.radius[target]) + 1 and not moved[target]:
            violations.append(f"{size} acts did not move the prediction of {target}, whose radius is called exact")
        self.n_untouched += len(moved) - 1
        return Attack(kind, target, size, size, int(radii[target]), bool(moved[target]), 0, tuple(violations))

    def _labels_after(self, poison: Poison) -> NDArray[Any]:
        """What everybody says of all targets once the rows are changed."""
        poisoned = self._fitted(self.model, apply_poison(self.rows, poison, self.context.model.split_), self.known)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PremiseWarning)
            return poisoned.predict(self.context.targets).astype(object)

    def _fitted(self, model: SampleVoteClassifier, rows: Rows, known: Known | None) -> SampleVoteClassifier:
        fitted: SampleVoteClassifier = type(model)(**model.get_params(deep=False))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PremiseWarning)
            return fitted._fit(*rows, known)

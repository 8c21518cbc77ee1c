"""The audit where training samples vote: rows are added, taken and changed for real, and everybody votes again.

Each attack is as large as the radius against its kind, which must hold, and then one larger; where a radius is called
exact, that one must work. All other targets are asked, too: what an attack on one does to the rest is certified, too.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.auditing.attacks import Poison
from poisonproof.auditing.report import Attack, AuditReport, few
from poisonproof.auditing.sample_attacks import SAMPLE_ATTACKS, Voting, distances_of
from poisonproof.ballots.classifiers import SampleVoteClassifier
from poisonproof.ballots.voters import Known
from poisonproof.errors import PoisonproofError
from poisonproof.premises import PremiseWarning
from poisonproof.samples.convert import count_rows, join_rows, take_rows
from poisonproof.samples.frames import as_frame
from poisonproof.samples.labels import named, one_by_one
from poisonproof.system.progress import counted


def audit_samples(
    model: SampleVoteClassifier,
    X: Any,
    y: Any,
    groups: Any,
    targets: Any,
    kinds: Sequence[str] | None,
    sizes: Sequence[int] | None,
    seed: int,
) -> AuditReport:
    """Attack these targets in every way and compare what happens with what is certified."""
    chosen = list(SAMPLE_ATTACKS) if kinds is None else list(kinds)
    for kind in chosen:
        if kind not in SAMPLE_ATTACKS:
            raise PoisonproofError(
                f"Where samples vote, an attack is one of {list(SAMPLE_ATTACKS)}. Got {kind!r} instead."
            )
    course = _Course(model, X, y, groups, targets)
    n_targets = count_rows(targets)
    plan = [(target, kind) for target in range(n_targets) for kind in chosen]
    done: list[Attack] = []
    for target, kind in counted(plan, len(plan)):
        done += course.climb(kind, target, sizes)
    smallest = np.zeros(n_targets, np.int64)
    for attack in done:
        known = smallest[attack.target]
        if attack.moved and attack.kind in ("insert", "remove", "mixed") and (known == 0 or attack.size < known):
            smallest[attack.target] = attack.size
    certificate = course.voting.certificate
    return AuditReport(
        tuple(done), certificate.radius, smallest, course.n_bystanders, seed, certificate.unit, of_samples=True
    )


def features_known(fitted: SampleVoteClassifier, X: Any) -> Known:
    """The features of the samples that a model was fitted on, so that those who stay need not be described again."""
    kept = np.flatnonzero(fitted.places_ >= 0)
    keys = fitted.split_.samples(as_frame(X)).each_key(kept)
    return Known(dict(zip(keys, fitted.places_[kept].tolist(), strict=True)), fitted.voters_.whole().rows)


class _Course:
    """A fitted election, its targets, and attacks upon them."""

    def __init__(self, model: SampleVoteClassifier, X: Any, y: Any, groups: Any, targets: Any) -> None:
        X = X if hasattr(X, "shape") or isinstance(X, list) else np.asarray(X)
        labels, owners = one_by_one(y), None if groups is None else list(groups)
        self.n_bystanders = 0
        fitted = self._fitted(model, X, labels, owners, None)
        labels = named(labels, fitted.classes_)
        # A map that was made from the rows is a premise: the attacks are judged with it as it stands.
        self.model = type(model)(**model.get_params(deep=False)).set_params(
            features=fitted.map_.features, scale=fitted.map_.scale
        )
        self.known = features_known(fitted, X)
        certificate = fitted.certify(targets)
        distances = distances_of(fitted, targets)
        self.voting = Voting(fitted, X, labels, owners, targets, distances, certificate)

    def climb(self, kind: str, target: int, sizes: Sequence[int] | None) -> list[Attack]:
        """Attacks as large as the radius against this kind, and one larger; or of the sizes given."""
        threat, _ = SAMPLE_ATTACKS[kind]
        radius = int(self.voting.certificate.radius_against(threat)[target])  # type: ignore[arg-type]
        wanted = [size for size in (radius, radius + 1) if size > 0] if sizes is None else [s for s in sizes if s > 0]
        done = []
        for size in wanted:
            attack = self.attack(kind, target, size)
            if attack is None:
                break
            done.append(attack)
        return done

    def attack(self, kind: str, target: int, size: int) -> Attack | None:
        """Carry out one attack, or None if it cannot be had on this data."""
        threat, make = SAMPLE_ATTACKS[kind]
        certificate = self.voting.certificate
        poison = make(self.voting, target, size)
        if poison is None:
            return None
        moved = self._labels_after(poison) != certificate.labels.astype(object)
        radii = certificate.radius_against(threat)  # type: ignore[arg-type]
        violations = []
        if len(broken := np.flatnonzero(moved & (radii >= size))):
            violations.append(f"the predictions of {few(broken)} moved although they withstand {size} acts ({threat})")
        exact = certificate.exact is not None and bool(certificate.exact[target]) and self.voting.groups is None
        if kind == "mixed" and exact and size == int(certificate.radius[target]) + 1 and not moved[target]:
            violations.append(f"{size} acts did not move the prediction of {target}, whose radius is called exact")
        self.n_bystanders += len(moved) - 1
        return Attack(kind, target, size, size, int(radii[target]), bool(moved[target]), 0, tuple(violations))

    def _labels_after(self, poison: Poison) -> NDArray[Any]:
        """What everybody says of all targets once the rows are changed."""
        voting = self.voting
        stay = np.setdiff1d(np.arange(len(voting.labels)), poison.removed)
        X, labels = take_rows(voting.X, stay), [voting.labels[row] for row in stay]
        owners = None if voting.groups is None else [voting.groups[row] for row in stay]
        if poison.added is not None:
            X, labels = join_rows(X, poison.added), [*labels, *poison.labels]
            owners = None if owners is None else [*owners, *(poison.groups or ())]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PremiseWarning)
            poisoned = self._fitted(self.model, X, labels, owners, self.known)
            return poisoned.predict(voting.targets).astype(object)

    def _fitted(
        self, model: SampleVoteClassifier, X: Any, labels: list[Any], groups: list[Any] | None, known: Known | None
    ) -> SampleVoteClassifier:
        fitted: SampleVoteClassifier = type(model)(**model.get_params(deep=False))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PremiseWarning)
            return fitted._fit(X, labels, groups, known)

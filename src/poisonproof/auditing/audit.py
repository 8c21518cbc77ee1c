"""The audit: poison the training data for real, retrain, and watch the certificate hold.

Every attack is carried out: training samples are removed, added or rewritten, the base classifiers that this
reaches are trained again, and the prediction is compared with what the certificate says. Base classifiers
that it does not reach must not move by a bit; some of them are trained again to see. One violation shows that
a premise of the proof is false (most likely that a base classifier is not a function of its subset alone).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from poisonproof.auditing.attacks import (
    ATTACKS,
    Poison,
    Scene,
    with_trigger,
)
from poisonproof.auditing.report import Attack, AuditReport, few
from poisonproof.auditing.sample_audit import audit_samples
from poisonproof.ballots.classifiers import BallotClassifier, NeighborVoteClassifier, SampleVoteClassifier
from poisonproof.core.certify import Certificate, certify
from poisonproof.errors import PoisonproofError
from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier
from poisonproof.estimators.prepared import Prepared, prepare
from poisonproof.premises import PremiseWarning
from poisonproof.samples.convert import count_rows, join_rows, take_rows
from poisonproof.samples.labels import label_cells, named, one_by_one
from poisonproof.system.progress import counted
from poisonproof.training.engine import engine_of

GROWTH = 1.3
LARGEST = 3


def audit(
    model: FiniteAggregationClassifier | SampleVoteClassifier,
    X: Any,
    y: Any,
    X_test: Any,
    *,
    groups: Any = None,
    targets: int | Sequence[int] = 10,
    kinds: Iterable[str] | None = None,
    sizes: Sequence[int] | None = None,
    method: str = "finite-aggregation",
    bystanders: int = 2,
    all_every: int = 25,
    seed: int = 0,
) -> AuditReport:
    """Attack a model for real and compare what happens with what is certified.

    For each target and kind of attack: an attack as large as the radius, which must fail, one larger, and so
    on until the prediction moves or the attack is several times as large as the radius.

    Parameters
    ----------
    model : FiniteAggregationClassifier, BallotClassifier or NeighborVoteClassifier
        Its parameters; it is fitted afresh.
    X, y, groups : training data
    X_test : samples
        Where targets are taken from.
    targets : int or row numbers
        How many test samples to attack, or which.
    kinds : names, optional
        Of `poisonproof.auditing.attacks.ATTACKS`, or `SAMPLE_ATTACKS` where samples vote; default all that the data
        allows.
    sizes : attack sizes, optional
        Instead of the growing ones.
    method : str
        The certificate to put to the test.
    bystanders : int
        How many base classifiers out of reach to retrain with every attack.
    all_every : int
        Retrain all of them with every so-many-th attack.
    seed : int
        Of the choice of targets and of everything random in the attacks.
    """
    if isinstance(model, SampleVoteClassifier):
        if not isinstance(model, BallotClassifier | NeighborVoteClassifier):
            raise PoisonproofError(
                f"An audit attacks base classifiers, ballots or neighbors. Got {type(model).__name__}."
            )
        if method != "finite-aggregation":
            raise PoisonproofError(f"Method {method!r} is of base classifiers, and here training samples vote.")
        plain = take_rows(X_test, _chosen(targets, count_rows(X_test), seed))
        return audit_samples(model, X, y, groups, plain, None if kinds is None else list(kinds), sizes, seed)
    if method not in ("finite-aggregation", "dpa-bound", "tight"):
        raise PoisonproofError(f"An audit puts certificates of the plurality vote to the test. Got method {method!r}.")
    chosen = list(ATTACKS) if kinds is None else list(kinds)
    for kind in chosen:
        if kind not in ATTACKS:
            raise PoisonproofError(f"An attack is one of {list(ATTACKS)}. Got {kind!r} instead.")
    course = _Course(model, X, y, groups, X_test, _Wanted(targets, chosen, method, bystanders, all_every, seed))
    done: list[Attack] = []
    plan = [(target, kind) for target in range(course.n_targets) for kind in chosen if course.suits(target, kind)]
    for target, kind in counted(plan, len(plan)):
        done += course.climb(kind, target, sizes)
    smallest = np.zeros(course.n_targets, np.int64)
    for attack in done:
        if attack.moved and (smallest[attack.target] == 0 or attack.size < smallest[attack.target]):
            smallest[attack.target] = attack.size
    certificate = course.certificate
    return AuditReport(tuple(done), certificate.radius, smallest, course.n_bystanders, seed, certificate.unit)


class _Wanted(NamedTuple):
    """What is to be attacked, how, and which base classifiers are watched meanwhile."""

    targets: int | Sequence[int]
    kinds: list[str]
    method: str
    bystanders: int
    all_every: int
    seed: int


class _Course:
    """A fitted ensemble, its targets, and attacks upon them."""

    def __init__(
        self,
        model: FiniteAggregationClassifier,
        X: Any,
        y: Any,
        groups: Any,
        X_test: Any,
        wanted: _Wanted,
    ) -> None:
        self.X, self.labels = X if hasattr(X, "shape") or isinstance(X, list) else np.asarray(X), one_by_one(y)
        self.groups = None if groups is None else list(groups)
        self.wanted = wanted
        self.n_bystanders = self.n_attacks = 0
        self.base = base = self._prepare(model, self.X, self.labels, self.groups)
        self.labels = named(self.labels, base.classes)
        # The class list is a premise: the attacks are judged with it as it stands.
        self.model = clone(model).set_params(classes=base.classes.tolist())
        plain = take_rows(X_test, _chosen(wanted.targets, count_rows(X_test), wanted.seed))
        self.n_plain = count_rows(plain)
        triggered = "backdoor" in wanted.kinds and isinstance(plain, np.ndarray) and plain.dtype.kind in "iuf"
        self.targets = join_rows(plain, with_trigger(plain)) if triggered else plain
        self.split, self.spread = base.split, base.spread
        self.test = self.split.samples(self.targets)
        self.votes = self._retrained(base, np.arange(len(base.digests)))
        self.certificate: Certificate = certify(base.votes(self.votes), wanted.method)  # type: ignore[call-overload]
        self.partition = self.split.partitions(
            base.data.samples, self.spread.n_partitions, label_cells(self.labels), self.groups
        )

    @property
    def n_targets(self) -> int:
        return count_rows(self.targets)

    def suits(self, target: int, kind: str) -> bool:
        """A backdoor is tried on targets that carry the trigger, everything else on those that do not."""
        return (target >= self.n_plain) == (kind == "backdoor")

    def climb(self, kind: str, target: int, sizes: Sequence[int] | None) -> list[Attack]:
        """Attacks of growing size, the first as large as the radius."""
        radius = int(self.certificate.radius[target])
        if sizes is not None:
            return [attack for size in sizes if (attack := self.attack(kind, target, size))]
        done: list[Attack] = []
        size = max(1, radius)
        while size <= LARGEST * (radius + 2):
            attack = self.attack(kind, target, size)
            if attack is None:
                break
            done.append(attack)
            if attack.moved or kind in ("duplicates", "flood"):
                break
            size = radius + 1 if size == radius else max(size + 1, int(size * GROWTH))
        return done

    def attack(self, kind: str, target: int, size: int) -> Attack | None:
        """Carry out one attack, or None if it cannot be had on this data."""
        rng = np.random.default_rng([self.wanted.seed, target, list(ATTACKS).index(kind), size])
        scene = Scene(
            self.X,
            self.labels,
            self.groups,
            self.targets,
            self.split,
            self.partition,
            self.votes,
            self.certificate,
            rng,
        )
        poison = ATTACKS[kind](scene, target, size)
        return None if poison is None else self._carry_out(poison, kind, target, rng)

    def _carry_out(self, poison: Poison, kind: str, target: int, rng: np.random.Generator) -> Attack:
        poisoned, touched = self._poisoned(poison)
        changed = np.flatnonzero((poisoned.digests != self.base.digests).any(axis=1))
        reached = np.unique(self.spread.as_table()[touched])
        rest = np.setdiff1d(np.arange(len(poisoned.digests)), changed)
        self.n_attacks += 1
        count = len(rest) if self.n_attacks % self.wanted.all_every == 1 else min(self.wanted.bystanders, len(rest))
        watched = np.sort(rng.choice(rest, count, replace=False))
        again = np.concatenate([changed, watched]).astype(np.int64)
        votes = self.votes.copy()
        votes[:, again] = self._retrained(poisoned, again)
        violations = []
        if len(astray := np.setdiff1d(changed, reached)):
            violations.append(f"the subsets {few(astray)} changed although no poison reaches them")
        astray = watched[(votes[:, watched] != self.votes[:, watched]).any(axis=0)]
        if len(astray):
            violations.append(f"the base classifiers {few(astray)} vote otherwise although no poison reaches them")
        votes[:, watched] = self.votes[:, watched]
        if len(touched) > poison.size:
            violations.append(f"{len(touched)} partitions were touched by an attack of size {poison.size}")
        moved = self.base.votes(votes).counts().argmax(axis=1) != self.certificate.prediction
        broken = np.flatnonzero(moved & (self.certificate.radius >= len(touched)))
        if len(broken):
            violations.append(
                f"the predictions of {few(broken)} moved although their radius is at least the reach, {len(touched)}"
            )
        self.n_bystanders += len(watched)
        return Attack(
            kind,
            target,
            poison.size,
            len(touched),
            int(self.certificate.radius[target]),
            bool(moved[target]),
            len(changed),
            tuple(violations),
        )

    def _poisoned(self, poison: Poison) -> tuple[Prepared, NDArray[np.int64]]:
        """The ensemble after the attack, and the partitions that were touched."""
        stay = np.setdiff1d(np.arange(len(self.labels)), poison.removed)
        X, labels = take_rows(self.X, stay), [self.labels[row] for row in stay]
        groups = None if self.groups is None else [self.groups[row] for row in stay]
        touched = [self.partition[poison.removed]]
        if poison.added is not None:
            touched.append(
                self.split.partitions(
                    self.split.samples(poison.added),
                    self.spread.n_partitions,
                    label_cells(poison.labels),
                    poison.groups,
                )
            )
            X, labels = join_rows(X, poison.added), [*labels, *poison.labels]
            groups = None if groups is None else [*groups, *(poison.groups or ())]
        return self._prepare(self.model, X, labels, groups), np.unique(np.concatenate(touched))

    def _prepare(self, model: FiniteAggregationClassifier, X: Any, y: Any, groups: Any) -> Prepared:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PremiseWarning)
            return prepare(model, X, y, groups)

    def _retrained(self, data: Prepared, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Votes of these base classifiers on the targets, trained on this data."""
        engine, n_classes = engine_of(data.learner), len(self.base.classes)
        return engine.votes(data.learner, data.source, indices.tolist(), self.test, n_classes, n_jobs=1)


def _chosen(targets: int | Sequence[int], n_test: int, seed: int) -> list[int]:
    if isinstance(targets, int):
        if targets < 1:
            raise PoisonproofError(f"An audit needs at least one target. Got {targets}.")
        rng = np.random.default_rng(seed)
        return [int(row) for row in np.sort(rng.choice(n_test, min(targets, n_test), replace=False))]
    rows = [int(row) for row in targets]
    if not rows or min(rows) < 0 or max(rows) >= n_test:
        raise PoisonproofError(f"Targets must be test samples 0 … {n_test - 1}. Got {targets!r} instead.")
    return rows

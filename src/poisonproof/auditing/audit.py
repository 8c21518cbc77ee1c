"""The audit: poison the training data for real, retrain, and watch the certificate hold.

Every attack is carried out: training samples are removed, added or rewritten, the base classifiers that this
reaches are trained again, and the prediction is compared with what the certificate says. Base classifiers
that it does not reach must not move by a bit; some of them are trained again to see. One violation shows that
a premise of the proof is false (most likely that a base classifier is not a function of its subset alone).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from poisonproof import registry
from poisonproof.auditing.attacks import ATTACKS, AttackContext, Poison, Rows, apply_poison, with_trigger
from poisonproof.core.certify import Certificate, certify
from poisonproof.display import shown
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
BYSTANDERS = 2


@dataclass(frozen=True)
class Attack:
    """One attack that was carried out.

    ``reach`` is the number of partitions it touched, never more than ``size``, and a prediction whose radius is
    at least the reach must not move.
    """

    kind: str
    target: int
    size: int
    reach: int
    radius: int
    moved: bool
    retrained: int
    violations: tuple[str, ...] = ()


@dataclass(frozen=True)
class AuditReport:
    """What an audit did and found.

    Attributes
    ----------
    attacks : tuple of Attack
    radius : array (targets,)
        The certified radius of each target; the second half carries a backdoor's trigger, where there is one.
    smallest : array (targets,)
        Size of the smallest attack that really moved each prediction; 0 where none did.
    bystanders : int
        How many no poison reached and were asked again all the same, to see whether they moved.
    seed : int
    unit : str
        What sizes count.
    """

    attacks: tuple[Attack, ...]
    radius: NDArray[np.int64]
    smallest: NDArray[np.int64]
    bystanders: int
    seed: int
    unit: str
    how: str
    """What came after each attack."""
    watched: str
    """What was watched besides, as a sentence of the numbers."""

    @property
    def violations(self) -> tuple[Attack, ...]:
        """Attacks that the certificate excludes and that worked all the same."""
        return tuple(attack for attack in self.attacks if attack.violations)

    @property
    def ok(self) -> bool:
        """Whether nothing was violated."""
        return not self.violations

    def by_kind(self) -> dict[str, dict[str, int]]:
        """For each kind of attack: how many were run, how many moved the prediction, how many violations."""
        kinds = dict.fromkeys(attack.kind for attack in self.attacks)
        return {
            kind: {
                "attacks": len(of_kind),
                "moved": sum(attack.moved for attack in of_kind),
                "violations": sum(bool(attack.violations) for attack in of_kind),
            }
            for kind in kinds
            if (of_kind := [attack for attack in self.attacks if attack.kind == kind])
        }

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for a file."""
        return {
            "ok": self.ok,
            "seed": self.seed,
            "unit": self.unit,
            "n_attacks": len(self.attacks),
            "by_kind": self.by_kind(),
            "retrained": sum(attack.retrained for attack in self.attacks),
            "bystanders": self.bystanders,
            "radius": self.radius.tolist(),
            "smallest": self.smallest.tolist(),
            "violations": [vars(attack) for attack in self.violations],
        }

    def __str__(self) -> str:
        moved = sum(attack.moved for attack in self.attacks)
        retrained = sum(attack.retrained for attack in self.attacks)
        lines = [
            f"{len(self.attacks)} attacks on {len(self.radius)} predictions, each with {self.how}: {moved} moved the "
            f"prediction, {len(self.violations)} against the certificate.",
            self.watched.format(retrained=retrained, bystanders=self.bystanders),
        ]
        hit = self.smallest > 0
        if hit.any():
            gap = float(np.median(self.smallest[hit] / (self.radius[hit] + 1)))
            lines.append(
                f"{int(hit.sum())} predictions were moved by some attack; the smallest took {gap:.2f} times the least "
                "size that the certificate does not exclude (median)."
            )
        for attack in self.violations:
            lines += [f"VIOLATION: {words} ({_case(attack, self.seed)})" for words in attack.violations]
        return "\n".join(map(shown, lines))


def abbreviate(indices: NDArray[np.int64]) -> str:
    """The first of some numbers."""
    return ", ".join(str(int(index)) for index in indices[:5]) + (", …" if len(indices) > 5 else "")


def _case(attack: Attack, seed: int) -> str:
    return (
        f"again: the same targets, kinds=['{attack.kind}'], sizes=[{attack.size}], seed={seed}; "
        f"target {attack.target}, radius {attack.radius}"
    )


class Request(NamedTuple):
    """What is to be attacked, how, and which base classifiers are watched meanwhile."""

    targets: list[int]
    kinds: list[str] | None
    sizes: Sequence[int] | None
    method: str
    all_every: int
    seed: int


class Audited(Protocol):
    """A fitted model under attack: `EnsembleAudit`, or another that the registry knows.

    ``counted_kinds`` are the kinds of attack whose size is one of the radius itself, ``methods`` the certificates that
    can be put to the test. ``how`` and ``watched`` are an `AuditReport`'s.
    """

    kinds: ClassVar[Sequence[str]]
    counted_kinds: ClassVar[Sequence[str]]
    methods: ClassVar[Sequence[str]]
    how: ClassVar[str]
    watched: ClassVar[str]
    certificate: Certificate
    n_targets: int
    n_untouched: int

    def __init__(self, model: Any, rows: Rows, X_test: Any, request: Request) -> None: ...

    def suits(self, target: int, kind: str) -> bool:
        """Whether this kind of attack is tried on this target."""
        ...

    def escalate(self, kind: str, target: int) -> list[Attack]:
        """Attacks of growing size, the first as large as the radius, or of the sizes that were asked for."""
        ...


def audit(
    model: Any,
    X: Any,
    y: Any,
    X_test: Any,
    *,
    groups: Any = None,
    targets: int | Sequence[int] = 10,
    kinds: Iterable[str] | None = None,
    sizes: Sequence[int] | None = None,
    method: str = "finite-aggregation",
    all_every: int = 25,
    seed: int = 0,
) -> AuditReport:
    """Attack a model for real and compare what happens with what is certified.

    For each target and kind of attack: an attack as large as the radius, which must fail, one larger, and so
    on until the prediction moves or the attack is several times as large as the radius.

    Parameters
    ----------
    model : FiniteAggregationClassifier, or a classifier in which the training samples vote
        Its parameters; it is fitted afresh.
    X, y, groups : training data
    X_test : samples
        Where targets are taken from.
    targets : int or row numbers
        How many test samples to attack, or which.
    kinds : names, optional
        Of `poisonproof.auditing.attacks.ATTACKS`, or those of other voters; default all that the data allows.
    sizes : attack sizes, optional
        Instead of the growing ones.
    method : str
        The certificate to put to the test.
    all_every : int
        With every so-many-th attack, train all base classifiers out of its reach again, and else two of them.
    seed : int
        Of the choice of targets and of everything random in the attacks.
    """
    chosen = None if kinds is None else list(kinds)
    known = registry.names("audits")
    named_so = [one.__name__ for one in type(model).__mro__ if one.__name__ in known]
    if not named_so:
        raise PoisonproofError(
            f"An audit attacks one of {', '.join(known)}. Got {type(model).__name__}.", code="audit.model"
        )
    under_attack: type[Audited] = registry.find("audits", named_so[0])
    if method not in under_attack.methods:
        raise PoisonproofError(
            f"An audit of a {type(model).__name__} puts {', '.join(under_attack.methods)} to the test. Got method "
            f"{method!r}.",
            code="audit.method",
        )
    for kind in chosen or ():
        if kind not in under_attack.kinds:
            raise PoisonproofError(
                f"An attack here is one of {list(under_attack.kinds)}. Got {kind!r} instead.", code="audit.kind"
            )
    rows = Rows(
        X if hasattr(X, "shape") or isinstance(X, list) else np.asarray(X),
        one_by_one(y),
        None if groups is None else list(groups),
    )
    request = Request(_chosen(targets, count_rows(X_test), seed), chosen, sizes, method, all_every, seed)
    audited = under_attack(model, rows, X_test, request)
    plan = [
        (target, kind)
        for target in range(audited.n_targets)
        for kind in chosen or under_attack.kinds
        if audited.suits(target, kind)
    ]
    done = [attack for target, kind in counted(plan, len(plan)) for attack in audited.escalate(kind, target)]
    smallest = np.zeros(audited.n_targets, np.int64)
    for attack in done:
        known = smallest[attack.target]
        if attack.moved and attack.kind in audited.counted_kinds and (known == 0 or attack.size < known):
            smallest[attack.target] = attack.size
    radius, unit = audited.certificate.radius, audited.certificate.unit
    return AuditReport(tuple(done), radius, smallest, audited.n_untouched, seed, unit, audited.how, audited.watched)


class EnsembleAudit:
    """A fitted ensemble, its targets, and attacks upon them."""

    kinds: ClassVar[Sequence[str]] = tuple(ATTACKS)
    counted_kinds: ClassVar[Sequence[str]] = tuple(ATTACKS)
    methods: ClassVar[Sequence[str]] = ("finite-aggregation", "dpa-bound", "tight")
    how: ClassVar[str] = "retraining"
    watched: ClassVar[str] = (
        "{retrained} base classifiers retrained; {bystanders} that no poison reached were retrained too and compared "
        "to the bit."
    )

    def __init__(self, model: Any, rows: Rows, X_test: Any, request: Request) -> None:
        self.request = request
        self.n_untouched = self.n_attacks = 0
        self.base = base = self._prepare(model, rows)
        self.rows = rows._replace(labels=named(rows.labels, base.classes))
        # The class list is a premise: the attacks are judged with it as it stands.
        self.model = clone(model).set_params(classes=base.classes.tolist())
        plain = take_rows(X_test, request.targets)
        self.n_plain = count_rows(plain)
        numbers = isinstance(plain, np.ndarray) and plain.dtype.kind in "iuf"
        triggered = numbers and (request.kinds is None or "backdoor" in request.kinds)
        self.targets = join_rows(plain, with_trigger(plain)) if triggered else plain
        self.n_targets = count_rows(self.targets)
        self.split, self.spread = base.split, base.spread
        self.test = self.split.samples(self.targets)
        self.votes = self._retrained(base, np.arange(len(base.digests)))
        self.certificate: Certificate = certify(base.votes(self.votes), request.method)  # type: ignore[call-overload]
        self.partition = self.split.partitions(
            base.data.samples, self.spread.n_partitions, label_cells(self.rows.labels), rows.groups
        )

    def suits(self, target: int, kind: str) -> bool:
        """A backdoor is tried on targets that carry the trigger, everything else on those that do not."""
        return (target >= self.n_plain) == (kind == "backdoor")

    def escalate(self, kind: str, target: int) -> list[Attack]:
        """Attacks of growing size, the first as large as the radius, or of the sizes that were asked for."""
        radius, sizes = int(self.certificate.radius[target]), self.request.sizes
        if sizes is not None:
            return [attack for size in sizes if (attack := self._attack(kind, target, size))]
        done: list[Attack] = []
        size = max(1, radius)
        while size <= LARGEST * (radius + 2):
            attack = self._attack(kind, target, size)
            if attack is None:
                break
            done.append(attack)
            if attack.moved or kind in ("duplicates", "flood"):
                break
            size = radius + 1 if size == radius else max(size + 1, int(size * GROWTH))
        return done

    def _attack(self, kind: str, target: int, size: int) -> Attack | None:
        """Carry out one attack, or None if it cannot be had on this data."""
        rng = np.random.default_rng([self.request.seed, target, list(ATTACKS).index(kind), size])
        context = AttackContext(*self.rows, self.targets, self.split, self.partition, self.votes, self.certificate, rng)
        poison = ATTACKS[kind](context, target, size)
        return None if poison is None else self._carry_out(poison, kind, target, rng)

    def _carry_out(self, poison: Poison, kind: str, target: int, rng: np.random.Generator) -> Attack:
        poisoned, touched = self._poisoned(poison)
        changed = np.flatnonzero((poisoned.digests != self.base.digests).any(axis=1))
        reached = np.unique(self.spread.as_table()[touched])
        rest = np.setdiff1d(np.arange(len(poisoned.digests)), changed)
        self.n_attacks += 1
        count = len(rest) if self.n_attacks % self.request.all_every == 1 else min(BYSTANDERS, len(rest))
        watched = np.sort(rng.choice(rest, count, replace=False))
        again = np.concatenate([changed, watched]).astype(np.int64)
        votes = self.votes.copy()
        votes[:, again] = self._retrained(poisoned, again)
        violations = []
        if len(astray := np.setdiff1d(changed, reached)):
            violations.append(f"the subsets {abbreviate(astray)} changed although no poison reaches them")
        astray = watched[(votes[:, watched] != self.votes[:, watched]).any(axis=0)]
        if len(astray):
            violations.append(
                f"the base classifiers {abbreviate(astray)} vote otherwise although no poison reaches them"
            )
        votes[:, watched] = self.votes[:, watched]
        if len(touched) > poison.size:
            violations.append(f"{len(touched)} partitions were touched by an attack of size {poison.size}")
        moved = self.base.votes(votes).counts().argmax(axis=1) != self.certificate.prediction
        broken = np.flatnonzero(moved & (self.certificate.radius >= len(touched)))
        if len(broken):
            violations.append(
                f"the predictions of {abbreviate(broken)} moved although their radius is at least the reach, "
                f"{len(touched)}"
            )
        self.n_untouched += len(watched)
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
        touched = [self.partition[poison.removed]]
        if poison.added is not None:
            added = self.split.samples(poison.added)
            cells = label_cells(poison.labels)
            touched.append(self.split.partitions(added, self.spread.n_partitions, cells, poison.groups))
        rows = apply_poison(self.rows, poison, self.split)
        return self._prepare(self.model, rows), np.unique(np.concatenate(touched))

    def _prepare(self, model: FiniteAggregationClassifier, rows: Rows) -> Prepared:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PremiseWarning)
            return prepare(model, *rows)

    def _retrained(self, data: Prepared, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Votes of these base classifiers on the targets, trained on this data."""
        engine, n_classes = engine_of(data.learner), len(self.base.classes)
        return engine.votes(data.learner, data.source, indices.tolist(), self.test, n_classes, n_jobs=1)


def _chosen(targets: int | Sequence[int], n_test: int, seed: int) -> list[int]:
    if isinstance(targets, int):
        if targets < 1:
            raise PoisonproofError(f"An audit needs at least one target. Got {targets}.", code="audit.targets")
        rng = np.random.default_rng(seed)
        return [int(row) for row in np.sort(rng.choice(n_test, min(targets, n_test), replace=False))]
    rows = [int(row) for row in targets]
    if not rows or min(rows) < 0 or max(rows) >= n_test:
        raise PoisonproofError(
            f"Targets must be test samples 0 … {n_test - 1}. Got {targets!r} instead.", code="audit.targets"
        )
    return rows

"""What an audit did and found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.display import shown


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
        Base classifiers that no poison reached and that were trained again to see whether they moved.
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
    of_samples: bool = False
    """Whether training samples vote; then bystanders are other targets that were asked."""

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
        how = "all votes counted again" if self.of_samples else "retraining"
        lines = [
            f"{len(self.attacks)} attacks on {len(self.radius)} predictions, each with {how}: {moved} moved the "
            f"prediction, {len(self.violations)} against the certificate.",
            f"{self.bystanders} times another target was asked after an attack, and judged by its own radius."
            if self.of_samples
            else f"{sum(attack.retrained for attack in self.attacks)} base classifiers retrained; {self.bystanders} "
            "that no poison reached were retrained too and compared to the bit.",
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


def few(indices: NDArray[np.int64]) -> str:
    """The first of some numbers."""
    return ", ".join(str(int(index)) for index in indices[:5]) + (", …" if len(indices) > 5 else "")


def _case(attack: Attack, seed: int) -> str:
    return (
        f"again: the same targets, kinds=['{attack.kind}'], sizes=[{attack.size}], seed={seed}; "
        f"target {attack.target}, radius {attack.radius}"
    )

"""Runs side by side, whoever votes in them: base classifiers, ballots or neighbours, labelled by what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from poisonproof.ballots.tallies import Ballots, Neighbours
from poisonproof.core.certificate import Certificate
from poisonproof.core.shared_attack import certified_accuracy
from poisonproof.errors import PoisonproofError
from poisonproof.runs.election import election_named
from poisonproof.runs.manifest import Manifest
from research.paper.measure import half
from research.paper.published import NAMES

ROUND = tuple(m * 10**e for e in range(7) for m in (1, 2, 5))
LEADING = {"near": "near = {:g}", "n_neighbors": "K = {:g}", "k": "k = {:g}", "d": "d = {:g}"}
"""What every label states; anything else only where it tells runs apart."""


@dataclass(frozen=True)
class Voted:
    """A complete run: who voted, by which parameters, what is certified, and the true labels.

    ``said``: where training samples vote, what they said; None for base classifiers.
    """

    folder: str
    dataset: str
    method: str
    parameters: Mapping[str, Any]
    certificate: Certificate = field(repr=False)
    y: Any = field(repr=False)
    said: Ballots | Neighbours | None = field(default=None, repr=False)
    test_digest: str = ""

    @classmethod
    def of(cls, run: Path, manifest: Manifest, certificate: Certificate, y: Any) -> Voted:
        """A run from its folder."""
        identity = manifest.settings
        election = identity.election
        facts: dict[str, Any] = {"training samples": manifest.n_train}
        if election is None:
            method, counts = "base classifiers", None
            facts = {"k": identity.k, "d": identity.d, "learner": identity.learner, **facts}
            facts["spread"] = identity.spread_digest
        else:
            method = str(election["method"])
            counts = election_named(method).tallies(run)
            facts = {**{name: value for name, value in election.items() if name not in ("method", "map")}, **facts}
            facts = {**facts, "map": election["map"]["name"], "columns of the map": repr(election["map"])}
        facts["premises"] = repr(manifest.premises)
        name = NAMES.get(identity.name, identity.name)
        digests = identity.digests
        tests = repr(sorted(item for item in digests.items() if "test" in item[0]))
        return cls(run.name, name, method, facts, certificate, y, counts, tests)

    @property
    def clean(self) -> float:
        """Clean accuracy."""
        return self.certificate.evaluate(self.y).clean_accuracy

    @property
    def half_at(self) -> int:
        """The largest attack size at which half of the test samples are right and certified; 0 if there is none."""
        radius = self.certificate.radius[self.certificate.evaluate(self.y).right]
        counts = np.cumsum(np.bincount(radius, minlength=1)[::-1])[::-1].tolist()
        return half(counts, len(self.certificate))

    @property
    def tied(self) -> float:
        """Where samples vote: the share of test samples on which two classes share the first place."""
        assert self.said is not None
        first_two = np.sort(self.said.scores(), axis=1)[:, -2:]
        return float((first_two[:, 0] == first_two[:, -1]).mean()) if first_two.shape[1] > 1 else 0.0

    def shared_attack(self, size: int) -> float | None:
        """A lower bound of the accuracy that one attack of this size leaves; None where none is known."""
        if not isinstance(self.said, Ballots) or self.said.voices is not None:
            return None
        return certified_accuracy(self.said, self.y, size).lower_count / len(self.certificate)

    def record(self, label: str, sizes: Sequence[int]) -> dict[str, Any]:
        """Plain values, shares in percent."""
        certificate, y = self.certificate, self.y
        return {
            "dataset": self.dataset,
            "method": self.method,
            "voters": label,
            "unit": certificate.unit,
            "majority_share": _percent(certificate.evaluate(y).majority_share),
            "clean_accuracy": _percent(self.clean),
            "balanced_accuracy": _percent(certificate.evaluate(y).balanced_accuracy),
            "attack_size": list(sizes),
            "certified_fraction": [
                _percent(share) for share in certificate.evaluate(y).certified_fraction(list(sizes))
            ],
            "certified_fraction_balanced": [
                _percent(share) for share in certificate.evaluate(y).certified_fraction_balanced(list(sizes))
            ],
            "half_at": self.half_at,
        }


def labels(runs: Sequence[Voted]) -> list[str]:
    """What each run is called: who votes, its parameters, and what else tells it from others of its method.

    Two that nothing tells apart but their folders are called by those.
    """
    return [
        _label(run, [one for one in runs if (one.dataset, one.method) == (run.dataset, run.method)]) for run in runs
    ]


def check_comparable(runs: Sequence[Voted]) -> None:
    """Refuse runs that no table can hold side by side: radii of different things, other test samples."""
    units = {run.certificate.unit for run in runs}
    if len(units) > 1:
        raise PoisonproofError(f"Radii of these runs count {' and '.join(sorted(units))}; show each kind by itself.")
    for name in dict.fromkeys(run.dataset for run in runs):
        of_set = [run for run in runs if run.dataset == name]
        other = next((run for run in of_set if run.test_digest != of_set[0].test_digest), None)
        if other is not None:
            raise PoisonproofError(
                f"{of_set[0].folder} and {other.folder} have different test samples of {name}; side by side their "
                "figures would say nothing."
            )


def sizes_for(runs: Sequence[Voted]) -> list[int]:
    """Round attack sizes up to the largest radius of any."""
    largest = max(int(run.certificate.radius.max(initial=0)) for run in runs)
    return [size for size in ROUND if size <= largest] or [1]


def _label(run: Voted, alike: Sequence[Voted]) -> str:
    parts = [LEADING[name].format(value) for name, value in run.parameters.items() if name in LEADING]
    title = run.method if run.said is not None or not parts else ""
    not_told_apart: list[Voted] = [one for one in alike if _leading(one) == _leading(run)]
    for name, value in run.parameters.items():
        if name in LEADING or len(not_told_apart) == 1 or name in ("premises", "columns of the map"):
            continue
        if len({repr(one.parameters.get(name)) for one in not_told_apart}) > 1:
            parts.append(_in_words(name, value))
            not_told_apart = [one for one in not_told_apart if repr(one.parameters.get(name)) == repr(value)]
    if len(not_told_apart) > 1:
        parts.append(run.folder)
    return ", ".join([*([title] if title else []), *parts])


def _leading(run: Voted) -> list[Any]:
    return [value for name, value in run.parameters.items() if name in LEADING]


def _in_words(name: str, value: Any) -> str:
    if name == "class_sizes":
        return "no class sizes" if value is None else "class sizes of the rows" if value == "rows" else "declared sizes"
    if name == "one_sided":
        return "one-sided" if value else "two-sided"
    if name in ("learner", "metric"):
        return str(value).partition("(")[0]
    if name == "spread":
        return f"spread {str(value)[:8]}"
    return f"{name.replace('_', ' ')} {value}"


def _percent(share: float) -> float:
    """Two digits, rounded down, as everything that is certified."""
    return int(10000 * share + 1e-6) / 100

"""Base classifiers, neighbours or ballots? What each would certify at one attack size, from held-out training samples.

All figures are estimates, and none enters a certificate. That the method was chosen from this data does, as a premise.
Families are compared under the same premises: class sizes are not declared, and ballots are tried only where the class
list is, because classes that were read off the data leave them nearly nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.ballots.distances import Nearness, write_distances
from poisonproof.ballots.maps import map_for
from poisonproof.ballots.neighbor_radii import certify_order
from poisonproof.ballots.radii import Radii, certify_counts
from poisonproof.ballots.voters import Map, Voters, nearest_voters
from poisonproof.core.metrics import balanced_shares
from poisonproof.data import Dataset
from poisonproof.errors import PoisonproofError
from poisonproof.planning.plan import make_plan
from poisonproof.samples.labels import read_labels

SEED = 0x66616D696C79
MOST_ASKED = 400
NEIGHBOURS_PER_POISON = (2.5, 3, 4, 6, 10, 20)
NEAR_SHARES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
SECONDS = 10.0
STEPS_PER_UNIT = 64.0


@dataclass(frozen=True)
class Candidate:
    """One way to vote, and what is predicted of it at the attack size: shares, and means over classes (balanced)."""

    method: str
    parameters: dict[str, float]
    clean: float
    certified: float
    certified_balanced: float

    @property
    def words(self) -> str:
        """The method with its parameters."""
        return f"{self.method} ({', '.join(f'{name} = {value:g}' for name, value in self.parameters.items())})"

    @property
    def option(self) -> str:
        """What to type for it."""
        named = " ".join(f"--{name.replace('_', '-')} {value:g}" for name, value in self.parameters.items())
        return f"--method {self.method} {named}"


def candidates(
    dataset: Dataset, estimator: Any, attack_size: int, features: Any = None, *, seconds: float = SECONDS
) -> list[Candidate]:
    """The best of each family at an attack size, the best of all at the head; families that do not apply are left out.

    ``features`` is the map of voting samples; otherwise the one for this kind of data.
    """
    if attack_size < 1:
        raise PoisonproofError(f"To choose a method the attack size must be at least 1. Got {attack_size}.")
    members = _of_members(dataset, estimator, attack_size, seconds)
    best = best_of_each([*where_samples_vote(dataset, attack_size, features), *members])
    if not best:
        raise PoisonproofError(f"No method can be tried at attack size {attack_size} with so few training samples.")
    return best


def best_of_each(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The best candidate of each family by the balanced figure, the best of all at the head."""
    best: dict[str, Candidate] = {}
    for one in candidates:
        if one.method not in best or one.certified_balanced > best[one.method].certified_balanced:
            best[one.method] = one
    return sorted(best.values(), key=lambda one: -one.certified_balanced)


def _of_members(dataset: Dataset, estimator: Any, attack_size: int, seconds: float) -> list[Candidate]:
    try:
        plan = make_plan(dataset, estimator, attack_size=attack_size, ds=(1, 4), designs=False, seconds=seconds)
    except PoisonproofError:  # too few samples for so large an attack
        return []
    return [
        Candidate("ensemble", {"k": row.k, "d": row.d}, row.clean, row.certified, row.certified_balanced)
        for row in plan.rows
    ]


def where_samples_vote(dataset: Dataset, attack_size: int, features: Any = None) -> list[Candidate]:
    """Neighbours and ballots over their parameters, asked about training samples that do not vote."""
    if dataset.train.groups is not None:
        return []  # contributors vote by other rules, of which no pilot is made
    samples = dataset.train.samples
    declared = None if dataset.classes is None else dataset.classes.tolist()
    read = read_labels(dataset.train.labels, declared)
    map_ = Map.of(map_for(dataset) if features is None else features, STEPS_PER_UNIT, samples)
    described = map_.describe(samples)
    usable = np.flatnonzero((read.codes >= 0) & described.readable)
    asked = usable[np.argsort(samples.hashes(SEED)[usable], kind="stable")[: min(MOST_ASKED, len(usable) // 4)]]
    voting = np.setdiff1d(usable, asked)
    if not len(asked) or len(voting) <= 2 * attack_size:
        return []
    voters = Voters.of(
        type(described)(described.rows[voting], described.lengths[voting], described.readable[voting]),
        read.codes[voting],
        samples.content_hashes[voting],
        np.zeros(len(voting), np.int64),
    )
    test = type(described)(described.rows[asked], described.lengths[asked], described.readable[asked])
    nearness, truth, n_classes = Nearness("euclidean", map_.mirrored), read.codes[asked], len(read.classes)
    candidates = []
    ks = sorted({min(math.ceil(share * attack_size), len(voting) // 2) for share in NEIGHBOURS_PER_POISON})
    nearest = nearest_voters(voters, test, nearness, 2 * ks[-1])
    for k in ks:
        order = nearest.codes[:, : 2 * k]
        radii = certify_order(order, k, len(voting), n_classes, inferred=declared is None)
        candidates.append(_candidate("neighbours", {"n_neighbors": k}, radii, truth, attack_size))
    if declared is None:
        return candidates
    products = nearness.products(nearness.fed(test.rows), nearness.fed(voters.rows))
    distances = np.empty(products.shape, np.int32)
    write_distances(products, test.lengths, voters.lengths, False, distances)
    totals = np.bincount(voters.codes, minlength=n_classes)
    for limit in np.quantile(distances, NEAR_SHARES):
        near = float(f"{math.sqrt(limit) / map_.scale:.3g}")
        is_near = distances <= nearness.limit(near, map_.scale)
        counts = np.stack([np.bincount(voters.codes[row], minlength=n_classes) for row in is_near])
        radii = certify_counts(counts, totals, np.zeros(n_classes, np.int64), one_sided=False, inferred=False)
        candidates.append(_candidate("ballots", {"near": near}, radii, truth, attack_size))
    return candidates


def _candidate(
    method: str, parameters: dict[str, float], radii: Radii, truth: NDArray[np.int64], attack_size: int
) -> Candidate:
    right = radii.prediction == truth
    held = right & (radii.insert_remove >= attack_size)
    balanced = float(balanced_shares(truth, right, radii.insert_remove, attack_size))
    return Candidate(method, parameters, float(right.mean()), float(held.mean()), balanced)

"""A pilot for samples that vote: what neighbors and ballots say of held-out training samples, over their parameters.

Class sizes are not declared, and ballots are tried only where the class list is, because classes that were read off the
data leave them nearly nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.ballots.distances import limit_of
from poisonproof.ballots.maps import map_for
from poisonproof.ballots.neighbor_radii import certify_order
from poisonproof.ballots.radii import certify_counts
from poisonproof.ballots.voters import Map, Voters, distances_between, nearest_voters
from poisonproof.data.dataset import Dataset
from poisonproof.samples.labels import read_labels

NEIGHBORS_PER_POISON = (2.5, 3, 4, 6, 10, 20)
NEAR_SHARES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
STEPS_PER_UNIT = 64.0


class Answered(NamedTuple):
    """What one choice of parameters answers for the held-out samples, -1 for what it cannot read, and with what radius.

    Attributes
    ----------
    method : str
    parameters : dict
    prediction, radius : int array (samples,)
    """

    method: str
    parameters: dict[str, float]
    prediction: NDArray[np.int64]
    radius: NDArray[np.int64]


def pilot(
    dataset: Dataset, voting: NDArray[np.int64], held_out: NDArray[np.int64], attack_size: int, features: Any = None
) -> Iterator[Answered]:
    """Each choice of parameters, where the training rows ``voting`` vote on the rows ``held_out``.

    ``features`` is the map, otherwise the one for this kind of data. Contributors vote by other rules, of which no
    pilot is made.
    """
    if dataset.train.groups is not None:
        return
    declared = None if dataset.classes is None else dataset.classes.tolist()
    read = read_labels(dataset.train.labels, declared)
    samples, n_classes = dataset.train.samples, len(read.classes)
    map_ = Map.of(map_for(dataset) if features is None else features, STEPS_PER_UNIT, samples)
    described = map_.describe(samples)
    voting = voting[(read.codes[voting] >= 0) & described.readable[voting]]
    if len(voting) <= 2 * attack_size:
        return

    def rows(chosen: NDArray[np.int64]) -> Any:
        return type(described)(described.rows[chosen], described.lengths[chosen], described.readable[chosen])

    def answered(method: str, parameters: dict[str, float], radii: Any) -> Answered:
        readable = described.readable[held_out]
        prediction = np.where(readable, radii.prediction, -1)
        return Answered(method, parameters, prediction, np.where(readable, radii.insert_remove, 0))

    table, test = rows(voting), rows(held_out)
    hashes, alone = samples.content_hashes[voting], np.zeros(len(voting), np.int64)
    voters = Voters(table.rows, table.lengths, read.codes[voting], hashes, alone)
    ks = sorted({min(math.ceil(share * attack_size), len(voting) // 2) for share in NEIGHBORS_PER_POISON})
    nearest = nearest_voters(voters, test, 2 * ks[-1])
    for k in ks:
        radii = certify_order(nearest.codes[:, : 2 * k], k, len(voting), n_classes, inferred=declared is None)
        yield answered("neighbours", {"n_neighbors": k}, radii)
    if declared is None:
        return
    distances = distances_between(test, voters)
    totals = np.bincount(voters.codes, minlength=n_classes)
    for limit in np.quantile(distances, NEAR_SHARES):
        near = float(f"{math.sqrt(limit) / map_.scale:.3g}")
        is_near = distances <= limit_of(near, map_.scale)
        counts = np.stack([np.bincount(voters.codes[row], minlength=n_classes) for row in is_near])
        sizes = certify_counts(counts, totals, np.zeros(n_classes, np.int64), one_sided=False, inferred=False)
        yield answered("ballots", {"near": near}, sizes)

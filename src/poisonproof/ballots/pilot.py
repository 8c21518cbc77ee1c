"""A pilot for samples that vote: what neighbors and ballots say of held-out training samples, over their parameters;
and their rows in a comparison, with the parameters that such a pilot chooses.

Class sizes are not declared, and ballots are tried only where the class list is, because classes that were read off the
data leave them nearly nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from poisonproof import registry
from poisonproof.ballots.classifiers import SampleVoteClassifier
from poisonproof.ballots.distances import limit_of
from poisonproof.ballots.maps import map_for
from poisonproof.ballots.neighbor_radii import certify_order
from poisonproof.ballots.radii import certify_counts
from poisonproof.ballots.voters import Map, Voters, distances_between, nearest_voters
from poisonproof.core.certify import certify
from poisonproof.core.split import Split
from poisonproof.data.dataset import Dataset
from poisonproof.errors import PoisonproofError
from poisonproof.planning.compare import Row, Rows
from poisonproof.planning.plan import Tried, best_of_each, plan
from poisonproof.premises import restated
from poisonproof.samples.labels import read_labels

NEIGHBORS_PER_POISON = (2.5, 3, 4, 6, 10, 20)
NEAR_SHARES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
STEPS_PER_UNIT = 64.0


def pilot(
    dataset: Dataset, voting: NDArray[np.int64], held_out: NDArray[np.int64], attack_size: int, features: Any = None
) -> Iterator[Tried]:
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

    def answered(method: str, parameters: dict[str, float], radii: Any) -> Tried:
        readable = described.readable[held_out]
        prediction = np.where(readable, radii.prediction, -1)
        return Tried(method, parameters, 0, prediction, np.where(readable, radii.insert_remove, 0))

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


class SampleRows(Rows):
    """Training samples that vote, as the classifiers given say or by a pilot at the attack size that is feared."""

    titles: ClassVar = {"neighbours": "neighbours", "ballots": "ballots"}
    hues: ClassVar = {"neighbours": 50, "ballots": 190}

    def rows(self, names: Sequence[str]) -> Iterator[Row]:
        """These rows."""
        for name in names:
            kind, given = registry.find("elections", name).classifier, self.bench.voters.get(name)
            if given is not None and not isinstance(given, kind):
                raise PoisonproofError(
                    f"The row '{name}' is of a {kind.__name__}. Got {type(given).__name__} instead.",
                    code="options.value",
                )
            try:
                model = given or self._by_pilot(name)
            except PoisonproofError as error:
                yield Row(name, self.titles[name], str(error).removesuffix("."))
            else:
                yield self._row(name, model, by_pilot=given is None)

    @staticmethod
    def remark(rows: Sequence[Row]) -> str:
        """That nothing is trained, and what is taken as given instead."""
        return (
            f"In {' and '.join(row.name for row in rows)} the training samples vote through a fixed map, which is a "
            "premise, and nothing is trained; parameters by a pilot were chosen from this data."
        )

    def _row(self, name: str, model: SampleVoteClassifier, *, by_pilot: bool) -> Row:
        data, chosen = self.bench.dataset, registry.find("elections", name).premise
        model.fit(data.train.X, data.train.labels, data.train.groups)
        model.premises_ = restated(model.premises_, data.premises)
        certificate = certify(model._votes_of(model._heard(data.test.X)))
        if by_pilot:
            stated = (replace(one, declared=False) if one.code == chosen else one for one in certificate.premises)
            certificate = replace(certificate, premises=tuple(stated))
        parameter = f"K = {model.n_neighbors}" if hasattr(model, "n_neighbors") else f"near = {model.near:g}"
        how = f", by a pilot at {self.bench.feared}" if by_pilot else ""
        return Row(name, f"{self.titles[name]}, {parameter}{how}", None, certificate)

    def _by_pilot(self, name: str) -> SampleVoteClassifier:
        """The classifier that certifies most at that attack size; one sentence if no pilot can be made."""
        bench, data = self.bench, self.bench.dataset
        if data.train.groups is not None:
            raise PoisonproofError("no pilot is made of contributors that vote")
        if name == "ballots" and data.classes is None:
            raise PoisonproofError("classes that were read off the data leave ballots nearly nothing; declare them")
        features = map_for(data) if bench.features is None else bench.features
        chosen = best_of_each(plan(data, bench.feared, methods=(name,), features=features).candidates)[0]
        given = {what: int(value) if what == "n_neighbors" else value for what, value in chosen.parameters.items()}
        split = Split("content", data.dtype, data.n_features)
        kind: type[SampleVoteClassifier] = registry.find("elections", name).classifier
        return kind(features, **given, split=split, classes=bench.classes, n_jobs=bench.n_jobs)

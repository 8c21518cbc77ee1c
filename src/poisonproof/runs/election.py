"""How training samples vote, as a run's manifest states it, and the classifier that votes so.

Everything that decides is in the record, the map too, with the units that were read off the data, if they were: so a
run can be opened again, changed, and checked by somebody else, and nothing is settled a second time from other rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from poisonproof.ballots.classifiers import BallotClassifier, NeighborVoteClassifier, SampleVoteClassifier
from poisonproof.ballots.maps import OWN, map_of, record_of
from poisonproof.core.split import Split
from poisonproof.errors import PoisonproofError
from poisonproof.learners.feature_maps import PublicMap
from poisonproof.learners.inspection import describe

CLASSIFIERS: dict[str, type[SampleVoteClassifier]] = {
    kind.method: kind for kind in (BallotClassifier, NeighborVoteClassifier)
}
METHODS = ("ensemble", *CLASSIFIERS)


def election_of(model: SampleVoteClassifier) -> dict[str, Any]:
    """The record of a fitted classifier: its parameters and its map, as plain values."""
    if type(model) not in CLASSIFIERS.values():
        raise PoisonproofError(
            f"A run is made of base classifiers, ballots or neighbours. Got {type(model).__name__}, which a run cannot "
            "keep yet; fit and save it by itself."
        )
    sizes = getattr(model, "class_sizes", None)
    if isinstance(sizes, Mapping):
        sizes = [[label, size] for label, size in zip(model.classes_.tolist(), model.sizes_.tolist(), strict=True)]
    names = ("near", "n_neighbors", "metric", "one_sided", "voices", "class_sizes_from")
    parameters = {name: getattr(model, name) for name in names if hasattr(model, name)}
    record = {
        "method": model.method,
        **parameters,
        **({"class_sizes": sizes} if hasattr(model, "class_sizes") else {}),
        "steps_per_unit": model.map_.scale,
        "map": record_of(model.map_.features),
    }
    plain: dict[str, Any] = json.loads(json.dumps(record, default=lambda number: number.item()))
    return plain


def voters_in_words(model: SampleVoteClassifier) -> str:
    """What stands in a manifest where the learner of base classifiers does."""
    name = record_of(model.map_.features)["name"]
    return f"{model.method}, map {describe(model.map_.features) if name == OWN else name}"


def classifier_of(
    election: Mapping[str, Any],
    *,
    split: Split,
    classes: Sequence[Any] | None,
    n_jobs: int | None = None,
    encoder: PublicMap | None = None,
) -> SampleVoteClassifier:
    """The classifier of a record, not yet fitted; the map is the one that is stated, wherever its units came from.

    Of an encoder, the one at hand is taken, with its cache, if it is the one on record.
    """
    parameters = {name: value for name, value in election.items() if name not in ("method", "map", "steps_per_unit")}
    if isinstance(parameters.get("class_sizes"), list):
        parameters["class_sizes"] = dict(parameters["class_sizes"])
        classes = None  # they are the keys
    kind: Any = CLASSIFIERS[election["method"]]
    return kind(
        map_of(election["map"], encoder),
        scale=election["steps_per_unit"],
        split=split,
        classes=classes,
        n_jobs=n_jobs,
        **parameters,
    )

"""Learners whose base classifiers are sums of columns and words: what a stack takes of them, and gives them back as.

Only a learner's very own class is among them, nothing derived from it, which may answer otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.learners.auto import AutoClassifier
from poisonproof.learners.table import TableClassifier
from poisonproof.learners.table_stack import Lane
from poisonproof.learners.text import BayesTextClassifier, RidgeTextClassifier, TextClassifier, WordReading

LEARNERS: dict[str, type[Any]] = {
    "table": TableClassifier,
    "text": TextClassifier,
    "bayes": BayesTextClassifier,
    "ridge": RidgeTextClassifier,
}
NAMES = {kind: name for name, kind in LEARNERS.items()}


def chosen(model: Any) -> Any:
    """The model that answers: what was chosen, where there was a choice."""
    return getattr(model, "chosen_", model) if type(model) is AutoClassifier else model


def is_sum(model: Any) -> bool:
    """Whether a fitted base classifier can be stacked; one of texts must know which columns hold none."""
    model = chosen(model)
    return type(model) in NAMES and (type(model) is not TextClassifier or hasattr(model, "others_"))


def reading_of(learner: Any) -> WordReading | None:
    """How a learner among `LEARNERS` reads words."""
    return None if isinstance(learner, TableClassifier) else learner.readings[0]


def lane_of(model: Any) -> Lane:
    """What a stack takes of a fitted model."""
    if isinstance(model, TableClassifier):
        return _lane(model, model, np.zeros(0, np.int64), model.n_iter_)
    return _lane(model, getattr(model, "table_", None), model.held_, 0)


def _lane(model: Any, table: Any, held: NDArray[np.int64], iterations: int) -> Lane:
    if table is None:
        none = np.zeros(0)
        return Lane(
            model.weights_, model.bias_, sparse=False, mean=none, scale=none, flagged=np.zeros(0, np.int64),
            categories=[], held=held, iterations=iterations,
        )  # fmt: skip
    return Lane(
        model.weights_, model.bias_, table.sparse_, table.mean_, table.scale_, table.flagged_, table.categories_, held,
        iterations,
    )  # fmt: skip


def model_of(
    lane: Lane, name: str, parameters: Mapping[str, Any], n_features: int, feature_names: NDArray[Any] | None,
    others: list[int],
) -> Any:  # fmt: skip
    """The model that a lane was, of the learner of this name and these parameters.

    ``others`` are the columns that hold no texts, where there are columns of texts.
    """
    model = LEARNERS[name](**parameters)
    model.classes_ = np.arange(max(len(lane.bias), 2))
    model.weights_, model.bias_ = lane.weights, lane.bias
    if name == "table":
        model.n_iter_, model.n_features_in_ = lane.iterations, n_features
        if feature_names is not None:
            model.feature_names_in_ = feature_names
        return _with_encoding(model, lane)
    model.held_ = lane.held
    if name == "text":
        model.others_ = others
        model.table_ = _with_encoding(TableClassifier(), lane) if others else None
    return model


def _with_encoding(table: TableClassifier, lane: Lane) -> TableClassifier:
    table.categories_, table.sparse_ = lane.categories, lane.sparse
    table.mean_, table.scale_, table.flagged_ = lane.mean, lane.scale, lane.flagged
    return table

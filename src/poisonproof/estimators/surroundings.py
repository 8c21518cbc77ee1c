"""What stands around a model while it is fitted, as far as it can be seen: pipelines in front of it, searches over it.

A step that was fitted on all training samples before ours split them carries one poisoned sample to every base
classifier. A search that picked k, d or the learner by scores on this data made them a premise. Both are the caller's
to know; where scikit-learn's own `Pipeline.fit` or a search's `fit` calls us, we see them too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sklearn.utils import get_tags

from poisonproof.learners.inspection import fitted_parts
from poisonproof.premises import Premise
from poisonproof.system.machine import is_a

BEFORE = "fitted-before-the-split"
NOTHING_BEFORE = Premise(BEFORE, [], declared=None)
STATELESS = (  # they learn nothing, and scikit-learn 1.6 does not say so of the second
    "sklearn.feature_extraction._hash.FeatureHasher",
    "sklearn.feature_extraction.text.HashingVectorizer",
)
OF_THE_SPREAD = ("k", "d", "spread")


@dataclass(frozen=True)
class Surroundings:
    """What was seen around a fit: what was fitted before the split, in words, and parameters that a search chose."""

    fitted: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """What was fitted before the split, in one line."""
        return "; ".join(self.fitted)

    def restated(self, premises: Sequence[Premise]) -> tuple[Premise, ...]:
        """The premises as they stand in these surroundings."""
        return tuple(self._restated(premise) for premise in premises)

    def _restated(self, premise: Premise) -> Premise:
        if premise.code == BEFORE and self.fitted:
            return Premise(BEFORE, list(self.fitted), declared=False)
        heads = {name.partition("__")[0] for name in self.chosen}
        names = {
            "spread": OF_THE_SPREAD,
            "split": ("split",),
            "learner": ("estimator",),
            "classes": ("classes",),
            "map": ("features", "scale"),
            "near": ("near",),
            "number-of-neighbors": ("n_neighbors",),
            "class-sizes": ("class_sizes", "one_sided"),
            "votes-per-contributor": ("voices",),
        }
        if heads & set(names.get(premise.code, ())):
            return replace(premise, declared=False)
        return premise


def seen_around(model: Any) -> Surroundings:
    """The surroundings of a model that is being fitted, from the calls that led here; none if they cannot be read."""
    try:
        return _seen(model)
    except Exception:  # what others keep in their frames is no reason to fail
        return Surroundings()


def _seen(model: Any) -> Surroundings:
    fitted: list[str] = []
    chosen: list[str] = []
    carried, prefix = model, ""
    for caller in _callers():
        if _is_pipeline(caller) and caller.steps[-1][1] is carried:
            fitted += [words for name, step in caller.steps[:-1] for words in _fitted_before(name, step)]
            carried, prefix = caller, f"{caller.steps[-1][0]}__{prefix}"
        elif (
            is_a(caller, "sklearn.model_selection._search", "BaseSearchCV")
            and getattr(caller, "best_estimator_", None) is carried
        ):
            names = list(caller.best_params_)
            chosen += [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
            carried, prefix = caller, ""
    return Surroundings(tuple(fitted), tuple(chosen))


def _fitted_before(name: str, step: Any) -> list[str]:
    learning = [
        f"step '{path}' ({type(inner).__name__}) was fitted on all training samples"
        for path, inner in learning_steps(name, step)
    ]
    return learning + [f"step '{name}' arrived fitted, {part}" for part in fitted_parts(step)]


def _callers() -> Iterator[Any]:
    """The objects whose methods are running, from the inside out."""
    frame = sys._getframe(1)
    while frame is not None:
        if "self" in frame.f_code.co_varnames:
            yield frame.f_locals.get("self")
        frame = frame.f_back  # type: ignore[assignment]


def learning_steps(path: str, step: Any) -> list[tuple[str, Any]]:
    """Steps that need fitting, inside compound ones too."""
    if step is None or isinstance(step, str):
        return []
    if _is_pipeline(step):
        inner: Sequence[tuple[str, Any]] = step.steps
    elif is_a(step, "sklearn.pipeline", "FeatureUnion"):
        inner = step.transformer_list
    elif is_a(step, "sklearn.compose", "ColumnTransformer"):
        if any(callable(columns) for _, _, columns in step.transformers):
            return [(path, step)]  # it chooses its columns by looking at the data
        inner = [*((name, part) for name, part, _ in step.transformers), ("remainder", step.remainder)]
    elif is_a(step, "sklearn.frozen", "FrozenEstimator"):
        return []  # it arrived fitted and learns no more
    else:
        learns = get_tags(step).requires_fit and f"{type(step).__module__}.{type(step).__qualname__}" not in STATELESS
        return [(path, step)] if learns else []
    return [learning for name, part in inner for learning in learning_steps(f"{path}__{name}", part)]


def _is_pipeline(thing: Any) -> bool:
    return is_a(thing, "sklearn.pipeline", "Pipeline")

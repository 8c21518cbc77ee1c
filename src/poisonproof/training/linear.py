"""Linear classifiers of scikit-learn on plain arrays, asked for their product alone.

Most of what their `predict` takes on a batch is spent before it multiplies. What it does to an array of finite numbers
is one product, one sum and the place of the largest score; here the same is done on the same batches, to the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.training.asking import batches


def multiplies(model: Any, fed: Any) -> bool:
    """Whether what this model says of these samples is the product: its methods are scikit-learn's, nothing is odd."""
    kind = type(model)
    if not kind.__module__.startswith("sklearn.") or not {"predict", "decision_function"}.isdisjoint(vars(model)):
        return False
    from sklearn.linear_model._base import LinearClassifierMixin

    if getattr(kind, "predict", None) is not LinearClassifierMixin.predict:
        return False
    if getattr(kind, "decision_function", None) is not LinearClassifierMixin.decision_function:
        return False
    if not (isinstance(fed, np.ndarray) and fed.ndim == 2 and fed.dtype == np.float64 and fed.flags.c_contiguous):
        return False
    coef, intercept = getattr(model, "coef_", None), getattr(model, "intercept_", None)
    if not (isinstance(coef, np.ndarray) and isinstance(intercept, np.ndarray)) or hasattr(model, "feature_names_in_"):
        return False
    if coef.shape[1:] != fed.shape[1:]:
        return False
    with np.errstate(all="ignore"):
        return bool(np.isfinite(fed.sum()) or np.isfinite(fed).all())


def answers(model: Any, fed: NDArray[np.float64]) -> NDArray[Any]:
    """What `predict` says of each batch, one after the other, where the model `multiplies`."""
    classes = np.empty(len(fed), model.classes_.dtype)
    with np.errstate(all="ignore"):
        for start, batch in batches(fed, len(fed)):
            scores = batch @ model.coef_.T + model.intercept_
            places = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
            classes[start : start + len(batch)] = model.classes_[places[: len(fed) - start]]
    return classes

"""Asking a feature map so that the company of a sample does not change what the map says of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.samples.batches import ONE_BY_ONE, declares
from poisonproof.samples.convert import count_rows, take_rows


def ask_map(features: Any, X: Any, method: str = "__call__", **how: Any) -> NDArray[Any]:
    """What a map says of samples: of all at once if its own class is marked (`ONE_BY_ONE`), otherwise one at a time."""
    ask = features if method == "__call__" else getattr(features, method)
    n_samples = count_rows(X)
    if declares(features, ONE_BY_ONE) or n_samples <= 1:
        return np.asarray(ask(X, **how))
    return np.concatenate([np.asarray(ask(take_rows(X, [row]), **how)) for row in range(n_samples)])

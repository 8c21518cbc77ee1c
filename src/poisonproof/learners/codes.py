"""The labels of a subset as codes; every learner here needs two classes at least."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError


def classes_and_codes(learner: Any, y: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The classes in increasing order and the place of each label among them; one sentence if there is only one."""
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise PoisonproofError(
            f"{type(learner).__name__} needs samples of at least 2 classes; got {len(classes)} class."
        )
    return classes, codes


def is_plain_codes(y: Any) -> bool:
    """Whether labels are what base classifiers are fed: whole numbers in a plain row, and nothing to check."""
    return type(y) is np.ndarray and y.ndim == 1 and y.dtype == np.int64

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

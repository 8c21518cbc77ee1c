"""What is to be trained: a learner, its samples, and which of them feed which base classifier."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.partition.subsets import Subsets
from poisonproof.samples.kinds import Samples


class Training(NamedTuple):
    """What the engine trains from: the arguments of `fit_members`."""

    estimator: Any
    samples: Samples
    codes: NDArray[np.int64]
    subsets: Subsets

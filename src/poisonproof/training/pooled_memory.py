"""How much memory the base classifiers of a pooled learner take, told before any of it is taken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poisonproof.core.votes import vote_dtype
from poisonproof.display import in_bytes
from poisonproof.errors import PoisonproofError
from poisonproof.learners.kernel_ridge import NUMBERS_PER_PRODUCT, ROWS_PER_PRODUCT, Pool
from poisonproof.system.determinism import n_cores
from poisonproof.system.machine import memory, peak_bytes
from poisonproof.training.pooled import FEWEST_AT_ONCE
from poisonproof.training.work import Training

REMEDY = "a larger k makes subsets smaller, a smaller d fewer of them"


@dataclass(frozen=True)
class PooledMemory:
    """Bytes, estimated from above from the sizes of the arrays; what the process has taken so far is counted in.

    Attributes
    ----------
    training : int
        While base classifiers are trained.
    voting : int
        While they vote, without the kernel.
    kernel_column : int
        For each test sample that is asked at the same time.
    undefended : int
        While one model is trained on all data.
    before : int
        Of all of these, what the process has taken at most so far.
    """

    training: int
    voting: int
    kernel_column: int
    undefended: int
    before: int

    @property
    def least(self) -> int:
        """The least that will do: the fewest test samples at once."""
        return max(self.training, self.voting + FEWEST_AT_ONCE * self.kernel_column)

    def kernel_bytes(self, bound: int) -> int:
        """What the bound leaves for the kernel, or one sentence that says how much is needed."""
        if bound < self.least:
            raise PoisonproofError(
                f"--max-memory {in_bytes(bound, up=True)} is not enough: this needs {in_bytes(self.least, up=True)}; "
                f"give at least that, or choose other subsets ({REMEDY})."
            )
        return (bound - self.voting) * 4 // max(1, self.kernel_column)

    def check_machine(self) -> None:
        """Raise before any work is done if the machine has not that much memory at all."""
        total = memory().total
        needed = self.least - self.before
        if total is not None and needed > total:
            raise MemoryError(
                f"this needs {in_bytes(needed, up=True)} and the machine has {in_bytes(total, up=True)}; choose other "
                f"subsets with --k and --d ({REMEDY})"
            )


def pooled_memory(training: Training, n_classes: int, n_test: int, *, rankings: bool = False) -> PooledMemory:
    """What a pooled learner will need for these subsets."""
    one: Pool = training.estimator.share(training.samples.take([0]))
    copies, width = one.copies, one.rows.shape[1]
    n_rows = len(training.samples) * copies
    features = n_rows * (width * one.rows.itemsize + 8)
    rows = training.subsets.sizes * copies
    members = int((rows * (8 + 4 * n_classes)).sum())
    largest = int(rows.max(initial=0))
    threads = n_cores()
    votes = n_test * len(rows) * np.dtype(vote_dtype(n_classes)).itemsize * (2 * n_classes if rankings else 1)
    at_once = max(1, min(ROWS_PER_PRODUCT, NUMBERS_PER_PRODUCT // max(1, width)))
    before = peak_bytes()
    return PooledMemory(
        before + features + 2 * members + threads * _solving(largest, width),
        before + features + members + votes + threads * at_once * width * 8,
        4 * n_rows + threads * at_once * 8 + width * 8,
        before + features + _solving(n_rows, width),
        before,
    )


def _solving(rows: int, width: int) -> int:
    """The kernel of one subset in both precisions and its factor, and the features it is made of."""
    return 24 * rows * rows + 8 * rows * width

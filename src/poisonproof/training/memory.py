"""Bytes that training and voting take, estimated from above before any is taken: what `--max-memory` goes by."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from poisonproof.core.votes import vote_dtype
from poisonproof.display import in_bytes
from poisonproof.errors import PoisonproofError
from poisonproof.learners.kernel_ridge import NUMBERS_PER_PRODUCT, ROWS_PER_PRODUCT, Pool
from poisonproof.samples.kinds import Samples
from poisonproof.system.machine import memory, peak_bytes, resident_bytes
from poisonproof.system.parallel import smallest_worker
from poisonproof.system.threads import n_cores
from poisonproof.training.engine import FEWEST_AT_ONCE, MEMBERS_PER_FILE, ArraySource, Resources, TrainingSource

log = logging.getLogger(__name__)
FED = 8  # a subset as it is read, in order, as it is fed, and what the learner makes of it
PROCESS_BYTES = 300_000_000  # of a worker that has imported what learners need
REMEDY = "a larger k makes subsets smaller, a smaller --held-out fewer votes"
POOLED_REMEDY = "a larger k makes subsets smaller, a smaller d fewer of them"


@dataclass(frozen=True)
class MemberMemory:
    """Bytes, estimated from above.

    What a learner takes for itself nobody can tell beforehand; it is reckoned as a multiple of the samples it is fed.

    Attributes
    ----------
    held : int
        In this process: what it has taken so far, and the votes.
    trained : int
        Wherever a base classifier is trained and asked.
    flight : int
        Of the votes of one block of base classifiers, on their way.
    whole : int
        Of all training samples.
    """

    held: int
    trained: int
    flight: int
    whole: int = 0

    def at(self, jobs: int) -> int:
        """With so many workers; one is this process itself."""
        processes = 0 if jobs == 1 else jobs * PROCESS_BYTES
        return self.held + (2 * jobs + 1) * self.flight + jobs * self.trained + processes

    @property
    def undefended(self) -> int:
        """While one model is trained on all data."""
        return self.held + FED * self.whole

    def check_machine(self) -> None:
        """What a learner takes for itself nobody can tell, so nothing is refused."""

    def within(self, bound: int, n_jobs: int | None) -> Resources:
        """How many workers may be used, or one sentence that says how much is needed.

        Workers of a cluster have memory of their own: each of them must hold what one base classifier takes.
        """
        worker = smallest_worker()
        if worker is not None:
            memory, name = worker
            need = PROCESS_BYTES + self.trained
            if memory < need:
                raise PoisonproofError(
                    f"The worker {name} may take {in_bytes(memory)}, but a base classifier on its subset takes about "
                    f"{in_bytes(need, up=True)}; start workers with a memory_limit of at least that, or choose other "
                    f"subsets ({REMEDY}).",
                    code="memory.too-small",
                )
            return Resources(n_jobs)
        wanted = effective_n_jobs(n_jobs)
        jobs = next((jobs for jobs in range(wanted, 0, -1) if self.at(jobs) <= bound), 0)
        if not jobs:
            raise PoisonproofError(
                f"--max-memory {in_bytes(bound, up=True)} is not enough: this needs about "
                f"{in_bytes(self.at(1), up=True)}, of which {in_bytes(self.trained)} for one base classifier on its "
                f"subset; give at least that, or choose other subsets ({REMEDY}).",
                code="memory.too-small",
            )
        if jobs < wanted:
            log.warning(
                "%d of %d workers are used: more would take more than --max-memory %s", jobs, wanted, in_bytes(bound)
            )
        return Resources(jobs)

    def spare(self, bound: int, n_jobs: int | None, *, undefended: bool) -> int:
        """How many bytes every process may use to hold partitions that it has read, whatever else it does.

        They stay until the end, so the models without a defence must fit beside them, where they are trained at all.
        Half of what is left is not given away: small arrays take more than their bytes.
        """
        worker = smallest_worker()
        jobs = effective_n_jobs(n_jobs) if worker is None else 1  # those of a cluster have memory of their own
        whole = self.undefended if undefended else 0
        taken = max(self.at(jobs), whole if whole <= bound else 0)
        here = max(0, bound - taken) // (2 * (1 if jobs == 1 else jobs + 1))
        return here if worker is None else min(here, max(0, worker[0] - PROCESS_BYTES - self.trained) // 2)


def member_memory(source: TrainingSource, test: Samples, n_classes: int, *, rankings: bool = False) -> MemberMemory:
    """What base classifiers will need that are trained one by one."""
    votes = len(test) * vote_dtype(n_classes)().itemsize * (n_classes if rankings else 1)
    return MemberMemory(
        resident_bytes() + 2 * votes * len(source),
        FED * source.n_bytes + 3 * test.n_bytes,
        MEMBERS_PER_FILE * votes,
        source.whole_bytes,
    )


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

    def within(self, bound: int, n_jobs: int | None) -> Resources:
        """What the bound leaves for the kernel, or one sentence that says how much is needed."""
        if bound < self.least:
            raise PoisonproofError(
                f"--max-memory {in_bytes(bound, up=True)} is not enough: this needs {in_bytes(self.least, up=True)}; "
                f"give at least that, or choose other subsets ({POOLED_REMEDY}).",
                code="memory.too-small",
            )
        return Resources(n_jobs, kernel_bytes=(bound - self.voting) * 4 // max(1, self.kernel_column))

    def spare(self, bound: int, n_jobs: int | None, *, undefended: bool) -> int:
        """Nothing: training samples are in memory."""
        return 0

    def check_machine(self) -> None:
        """Raise before any work is done if the machine has not that much memory at all."""
        total = memory().total
        needed = self.least - self.before
        if total is not None and needed > total:
            raise MemoryError(
                f"this needs {in_bytes(needed, up=True)} and the machine has {in_bytes(total, up=True)}; choose other "
                f"subsets with --k and --d ({POOLED_REMEDY})"
            )


def pooled_memory(
    learner: Any, source: ArraySource, n_classes: int, n_test: int, *, rankings: bool = False
) -> PooledMemory:
    """What a pooled learner will need for these subsets."""
    one: Pool = learner.share(source.samples.take([0]))
    copies, width = one.copies, one.rows.shape[1]
    n_rows = len(source.samples) * copies
    features = n_rows * (width * one.rows.itemsize + 8)
    rows = source.sizes * copies
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

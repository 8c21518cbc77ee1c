"""How much memory base classifiers take that are trained one by one, told before any of it is taken.

What a learner takes for itself nobody can tell beforehand; it is reckoned as a multiple of the samples it is fed.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from joblib import effective_n_jobs

from poisonproof.core.votes import vote_dtype
from poisonproof.data.store import StoredSubsets
from poisonproof.display import in_bytes
from poisonproof.errors import PoisonproofError
from poisonproof.samples.kinds import Samples
from poisonproof.system.machine import resident_bytes
from poisonproof.system.parallel import smallest_worker
from poisonproof.training.member_files import MEMBERS_PER_FILE
from poisonproof.training.work import Training

FED = 8  # a subset as it is read, in order, as it is fed, and what the learner makes of it
PROCESS_BYTES = 300_000_000  # of a worker that has imported what learners need
REMEDY = "a larger k makes subsets smaller, a smaller --held-out fewer votes"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MemberMemory:
    """Bytes, estimated from above.

    Attributes
    ----------
    held : int
        In this process: what it has taken so far, and the votes.
    trained : int
        Wherever a base classifier is trained and asked.
    flight : int
        Of the answers of one block of base classifiers, on their way.
    """

    held: int
    trained: int
    flight: int

    @classmethod
    def of(cls, training: Training, n_classes: int, test: Samples, *, rankings: bool = False) -> MemberMemory:
        """What an ensemble takes on these samples."""
        votes = len(test) * vote_dtype(n_classes)().itemsize * (n_classes if rankings else 1)
        subsets = training.subsets
        if isinstance(subsets, StoredSubsets):
            fed = int(subsets.n_bytes.max())
        else:
            fed = int(subsets.sizes.max() / max(1, len(training.samples)) * training.samples.n_bytes)
        return cls(resident_bytes() + 2 * votes * len(subsets), FED * fed + 3 * test.n_bytes, MEMBERS_PER_FILE * votes)

    def at(self, jobs: int) -> int:
        """With so many workers; one is this process itself."""
        processes = 0 if jobs == 1 else jobs * PROCESS_BYTES
        return self.held + (2 * jobs + 1) * self.flight + jobs * self.trained + processes

    def jobs_within(self, bound: int, n_jobs: int | None) -> int | None:
        """How many workers may be used, or one sentence that says how much is needed.

        Workers of a cluster have memory of their own: each of them must hold what one base classifier takes.
        """
        worker = smallest_worker()
        if worker is not None:
            need = PROCESS_BYTES + self.trained
            if worker.memory < need:
                raise PoisonproofError(
                    f"The worker {worker.name} may take {in_bytes(worker.memory)}, but a base classifier on its subset "
                    f"takes about {in_bytes(need, up=True)}; start workers with a memory_limit of at least that, or "
                    f"choose other subsets ({REMEDY})."
                )
            return n_jobs
        wanted = effective_n_jobs(n_jobs)
        jobs = next((jobs for jobs in range(wanted, 0, -1) if self.at(jobs) <= bound), 0)
        if not jobs:
            raise PoisonproofError(
                f"--max-memory {in_bytes(bound, up=True)} is not enough: this needs about "
                f"{in_bytes(self.at(1), up=True)}, of which {in_bytes(self.trained)} for one base classifier on its "
                f"subset; give at least that, or choose other subsets ({REMEDY})."
            )
        if jobs < wanted:
            log.warning(
                "%d of %d workers are used: more would take more than --max-memory %s", jobs, wanted, in_bytes(bound)
            )
        return jobs

    def spare(self, training: Training, bound: int, jobs: int, *, undefended: bool) -> int:
        """How many bytes every process may use to keep partitions that it has read, whatever else it does.

        They stay until the end, so the models without a defence must fit beside them, where they are trained at all.
        Half of what is left is not given away: small arrays take more than their bytes.
        """
        worker = smallest_worker()
        jobs = jobs if worker is None else 1  # those of a cluster have memory of their own
        whole = self.undefended(training) if undefended else 0
        taken = max(self.at(jobs), whole if whole <= bound else 0)
        here = max(0, bound - taken) // (2 * (1 if jobs == 1 else jobs + 1))
        return here if worker is None else min(here, max(0, worker.memory - PROCESS_BYTES - self.trained) // 2)

    def undefended(self, training: Training) -> int:
        """While one model is trained on all data."""
        subsets = training.subsets
        whole = int(subsets.store.bytes.sum()) if isinstance(subsets, StoredSubsets) else training.samples.n_bytes
        return self.held + FED * whole

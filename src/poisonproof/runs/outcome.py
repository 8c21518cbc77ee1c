"""What a run came to, whoever voted, and what stands around it: what each stage took, and what an attacker pays."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.certificate import Certificate, attack_sizes
from poisonproof.core.metrics import Evaluation
from poisonproof.core.votes import Votes
from poisonproof.display import percent
from poisonproof.errors import PoisonproofError
from poisonproof.runs.manifest import Identity, Manifest
from poisonproof.samples.kinds import Samples
from poisonproof.system.machine import environment

FIRST_SIZES = 6


@dataclass(frozen=True)
class Outcome:
    """A completed run.

    Where training samples vote there are no base classifiers, and so neither their accuracy nor partitions.
    """

    folder: Path
    certificate: Certificate
    y_test: NDArray[Any]
    seconds: dict[str, float]
    manifest: Manifest
    x_test: Any
    votes: Any
    """What the voters said: votes, ballots or neighbours."""
    test: Samples | None = None
    """The test samples in canonical form."""
    undefended_accuracy: float | None = None
    base_accuracy: float | None = None
    partition_sizes: NDArray[np.int64] | None = None
    train_counts: NDArray[np.int64] | None = None
    """Training samples of each class, where base classifiers vote."""

    @cached_property
    def figures(self) -> Evaluation:
        """What the certificate says about the test set."""
        return self.certificate.evaluate(self.y_test)

    @property
    def strong_undefended(self) -> tuple[float, str] | None:
        """Test accuracy of what a practitioner would train without a guarantee, and what that is; if it is known."""
        share, words = self.manifest.strong_undefended_accuracy, self.manifest.strong_undefended
        return None if share is None or words is None else (share, words)

    @property
    def ensemble_votes(self) -> Votes:
        """The votes of base classifiers; one sentence where training samples vote."""
        if not isinstance(self.votes, Votes):
            raise PoisonproofError(f"The run in {self.folder} has no base classifiers: {self.certificate.voters}.")
        return self.votes


def first_figures(certificate: Certificate, y_test: NDArray[Any]) -> str:
    """What is known once votes are certified, for people who wait while the undefended models are trained."""
    if not len(certificate):
        return "there are no test samples"
    sizes = attack_sizes(certificate)
    sizes = sizes[:: -(-len(sizes) // FIRST_SIZES)]
    figures = certificate.evaluate(y_test)
    shares = zip(sizes, figures.certified_fraction(sizes), figures.certified_fraction_balanced(sizes), strict=True)
    listed = ", ".join(f"{percent(share)} ({percent(balanced)}) at {size}" for size, share, balanced in shares)
    return (
        f"certified fraction, % (pointwise; balanced in brackets): {listed}; always answering the most frequent label: "
        f"{percent(figures.majority_share)}"
    )


class Clock:
    """What each stage took, in seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.started = time.perf_counter()

    def stop(self, stage: str, earlier: float = 0.0) -> None:
        """A stage ended, and took so long before an interruption."""
        now = time.perf_counter()
        self.seconds[stage] = round(now - self.started + earlier, 3)
        self.started = now


def origin_of(identity: Identity, threats: dict[str, int | str]) -> dict[str, Any]:
    """What a certificate says about where it comes from when it leaves the folder."""
    return {
        "dataset": identity.dataset,
        "learner": identity.learner,
        "threat_model": threats,
        "environment": environment(),
    }

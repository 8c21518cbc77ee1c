"""What k and d trade, in numbers that need no data: nothing here was run, everything is estimated.

The formulas: one training sample reaches d of n = k·d base classifiers, so nothing is certified beyond k/2 poisons
(Theorem 2); a subset holds samples/k samples; at attack size M the winner must lead by 2M/k of the votes. Costs follow
from assumptions, each of which is stated with its number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poisonproof.errors import PoisonproofError
from poisonproof.votes.votes import vote_dtype

CLUSTER_SAMPLES = 10**9
CLUSTER_CORES = 1000
SECONDS_PER_SAMPLE = 0.001
ROWS_HASHED_PER_SECOND = 6.5e6
VOTES_CERTIFIED_PER_SECOND = 5e8
TEST_SAMPLES = 10_000
DEGREES = (1, 16)
STEPS = 5


@dataclass(frozen=True)
class Line:
    """One pair of k and d: what must hold, and what it costs. Everything is estimated."""

    k: int
    d: int
    base_classifiers: int
    subset_size: float
    per_class: float
    wall: int
    lead: float | None
    """The share of votes by which a prediction must lead at the attack size; None without an attack size."""
    core_hours: float
    wall_hours: float
    votes_bytes: int
    certify_seconds: float


@dataclass(frozen=True)
class TradeOff:
    """Lines in increasing k, and what they assume."""

    samples: int
    classes: int
    attack_size: int | None
    cores: int
    seconds_per_sample: float
    lines: tuple[Line, ...]

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the costs follow from, one sentence each."""
        return (
            f"Training takes {self.seconds_per_sample:g} s per training sample and base classifier on one core, and d "
            f"times as long in all as training on everything once; the cores share it evenly.",
            f"Votes are kept for {TEST_SAMPLES:,} test samples, {vote_dtype(self.classes)().itemsize} byte(s) each; "
            f"a core certifies {VOTES_CERTIFIED_PER_SECOND:.0e} of them per second.",
            f"The split hashes {ROWS_HASHED_PER_SECOND:.1e} samples per second and core: "
            f"{self.samples / ROWS_HASHED_PER_SECOND / self.cores:.2g} s here.",
        )


def trade_off(
    samples: int,
    classes: int,
    *,
    attack_size: int | None = None,
    cores: int = 1,
    seconds_per_sample: float = SECONDS_PER_SAMPLE,
) -> TradeOff:
    """What each k and d would mean for this many training samples, by formulas alone."""
    if samples < 2:
        raise PoisonproofError(f"The number of samples must be at least 2. Got {samples}.")
    if classes < 2:
        raise PoisonproofError(f"The number of classes must be at least 2, for one needs no classifier. Got {classes}.")
    if cores < 1:
        raise PoisonproofError(f"The number of cores must be at least 1. Got {cores}.")
    if not seconds_per_sample > 0:
        raise PoisonproofError(f"The seconds per sample must be more than 0. Got {seconds_per_sample}.")
    if attack_size is not None and not 1 <= attack_size <= (samples - 1) // 2:
        raise PoisonproofError(
            f"The attack size must lie in 1 … {(samples - 1) // 2}, below half of the {samples} training samples, "
            f"since nothing is certified beyond k/2. Got {attack_size}."
        )
    low = max(10.0, samples ** (1 / 3)) if attack_size is None else 2.5 * attack_size
    high = max(2.0, samples / (2 * classes))
    ks = sorted({_round(k) for k in np.geomspace(min(low, samples), min(samples, max(low * 1.6, high)), STEPS)})
    least = 2 if attack_size is None else 2 * attack_size + 1
    ks = sorted({min(samples, max(least, k)) for k in ks})
    lines = tuple(_line(samples, classes, k, d, attack_size, cores, seconds_per_sample) for k in ks for d in DEGREES)
    return TradeOff(samples, classes, attack_size, cores, seconds_per_sample, lines)


def _round(k: float) -> int:
    """To two digits."""
    digits = max(0, int(np.floor(np.log10(k))) - 1)
    return round(k / 10**digits) * 10**digits


def _line(
    samples: int, classes: int, k: int, d: int, attack_size: int | None, cores: int, seconds_per_sample: float
) -> Line:
    hours = samples * d * seconds_per_sample / 3600
    votes = k * d * TEST_SAMPLES
    return Line(
        k,
        d,
        k * d,
        samples / k,
        samples / k / classes,
        k // 2,
        None if attack_size is None else 2 * attack_size / k,
        hours,
        hours / min(cores, k * d),
        votes * vote_dtype(classes)().itemsize,
        votes / VOTES_CERTIFIED_PER_SECOND,
    )

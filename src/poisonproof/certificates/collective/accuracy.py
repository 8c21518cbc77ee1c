"""Certified accuracy: what one attack of a given size leaves of the accuracy on a whole test set."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Literal, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poisonproof.certificates.collective.ballots import leads_at_risk, worst_division
from poisonproof.certificates.methods import certify
from poisonproof.display.text import shown
from poisonproof.errors import PoisonproofError, WrongTypeError
from poisonproof.premises import Premise, to_records
from poisonproof.votes.ballots import Ballots
from poisonproof.votes.votes import Votes

MOST_CELLS = 1 << 26  # rival rows times partitions that are held in memory


@dataclass(frozen=True, eq=False)
class CertifiedAccuracy:
    """Whatever an attacker inserts into or removes from the training data, up to ``attack_size`` samples in total, at
    least ``lower_count`` of the test samples stay right (one shared attack: the same poisons face all of them).

    Deterministic, under the premises listed, for any base classifiers that are functions of their own subset.

    Attributes
    ----------
    attack_size : int
    n_test : int
        Number of test samples.
    lower_count : int
        Proved: no attack of that size leaves fewer right. Never below ``certified_count``.
    upper_count : int
        What the best attack found leaves right, if the base classifiers that it reaches do the attacker's will.
    certified_count : int
        Right, and with a radius of at least the attack size (pointwise: each may face its own attack).
    attack : array of partition indices
        The partitions which that best attack poisons.
    proved : str
        How the lower count was proved, in words.
    seconds : float
        What it took.
    """

    attack_size: int
    n_test: int
    lower_count: int
    upper_count: int
    certified_count: int
    clean_count: int
    attack: NDArray[np.int64] = field(repr=False)
    method: str
    proved: str
    seconds: float
    classes_inferred: bool = False
    premises: tuple[Premise, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        self.attack.flags.writeable = False

    @property
    def lower(self) -> float:
        """Certified accuracy (one shared attack): a lower bound, as a share."""
        return self.lower_count / self.n_test

    @property
    def upper(self) -> float:
        """Accuracy under the best attack found, as a share."""
        return self.upper_count / self.n_test

    @property
    def gap(self) -> float:
        """How far apart the two bounds are, as a share; 0 means that both are exact."""
        return (self.upper_count - self.lower_count) / self.n_test

    @property
    def certified_fraction(self) -> float:
        """Share of test samples that are right and have radius ≥ attack size (pointwise)."""
        return self.certified_count / self.n_test

    @property
    def clean_accuracy(self) -> float:
        """Share of test samples that are right without an attack."""
        return self.clean_count / self.n_test

    @property
    def exact(self) -> bool:
        """Whether the best attack found leaves exactly what was proved."""
        return self.lower_count == self.upper_count

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        counts = ("attack_size", "n_test", "lower_count", "upper_count", "certified_count", "clean_count")
        shares = ("lower", "upper", "gap", "certified_fraction", "clean_accuracy", "exact", "method", "proved")
        return {
            **{name: getattr(self, name) for name in (*counts, *shares, "seconds")},
            "attack": self.attack.tolist(),
            "classes_inferred": self.classes_inferred,
            "premises": to_records(self.premises),
        }

    def __str__(self) -> str:
        lower, fraction = (1000 * held // self.n_test / 10 for held in (self.lower_count, self.certified_count))
        lines = [
            f"Certified accuracy {lower:.1f} % (one shared attack of size {self.attack_size}): at least "
            f"{self.lower_count} of {self.n_test} test samples stay right; {self.proved}.",
            f"The best attack found leaves {self.upper_count} right; certified fraction {fraction:.1f} % (pointwise).",
        ]
        return "\n".join(map(shown, lines + [f"Premise: {premise}" for premise in self.premises]))


def certified_accuracy(
    votes: Votes | Ballots,
    y: ArrayLike,
    attack_size: SupportsIndex,
    *,
    method: Literal["finite-aggregation", "tight"] = "finite-aggregation",
    time_limit: float = 60.0,
    seed: int = 0,
    n_jobs: int = -1,
) -> CertifiedAccuracy:
    """How many test samples stay right under any one attack of a size, from both sides.

    The lower count is proved for every attack of at most that size and for every set of partitions that it may hit; it
    is never below the pointwise count, and it is sound whenever the time runs out. Attack sizes 0 and 1 are exact and
    not subject to the time limit. It holds under the same assumptions as `certify`.

    Parameters
    ----------
    votes : Votes or Ballots
        Of ballots the best attack found is copies of one test sample, so the upper count says little.
    y : array (n_test,) of labels
        The true labels; accuracy is counted against them.
    attack_size : int ≥ 0
        Training samples inserted plus removed.
    method : "finite-aggregation" or "tight"
        The pointwise radii to start from. "tight" takes longer and may leave fewer test samples in play.
    time_limit : float
        Seconds for the bounds (reading the votes comes on top).
    seed : int
        Seed of the search for an attack; it does not touch what is proved.
    n_jobs : int
        Threads; -1 means one per core. Unless the time runs out the result does not depend on it.
    """
    started = monotonic()
    size, limit = _checked(votes, attack_size, method, time_limit)
    if isinstance(votes, Ballots):
        return _of_ballots(votes, y, size, started, limit)
    certificate = certify(votes, method, n_jobs=n_jobs)
    right = certificate.right(y)
    if votes.n_test == 0:
        raise PoisonproofError("A certified accuracy needs at least one test sample. Got none.")
    at_risk = np.flatnonzero(right & (certificate.radius < size))
    clean, n_at_risk = int(right.sum()), len(at_risk)
    attack: tuple[int, ...] = ()
    if n_at_risk == 0:
        flipped, proved = 0, "no prediction that is right can be changed by an attack of that size (pointwise)"
    else:
        search = _Search(votes, at_risk, certificate.prediction[at_risk], min(size, votes.spread.n_partitions), n_jobs)
        flipped, attack, proved = search.run(monotonic() + limit, seed)
    lost = _lost(votes.matrix[at_risk], certificate.prediction[at_risk], attack, votes) if attack else 0
    if lost == flipped and n_at_risk:
        proved = "exact, an attack that leaves no more was found"
    return CertifiedAccuracy(
        attack_size=size,
        n_test=votes.n_test,
        lower_count=clean - flipped,
        upper_count=clean - lost,
        certified_count=clean - n_at_risk,
        clean_count=clean,
        attack=np.array(attack, np.int64),
        method=method,
        proved=proved,
        seconds=monotonic() - started,
        classes_inferred=votes.classes_inferred,
        premises=votes.premises,
    )


def _of_ballots(ballots: Ballots, y: ArrayLike, size: int, started: float, limit: float) -> CertifiedAccuracy:
    if ballots.n_test == 0:
        raise PoisonproofError("A certified accuracy needs at least one test sample. Got none.")
    leads, prediction, movable, clean = leads_at_risk(ballots, y, size)
    division = worst_division(leads, prediction, size, started + limit)
    whole = "the worst division" if division.most == division.shown else "a bound of the worst division"
    proved = f"{whole} of the attack among the classes puts {division.most} at risk"
    if not len(leads):
        proved = "no prediction that is right can be changed by an attack of that size (pointwise)"
    return CertifiedAccuracy(
        attack_size=size,
        n_test=ballots.n_test,
        lower_count=clean - division.most,
        upper_count=clean - movable,
        certified_count=clean - len(leads),
        clean_count=clean,
        attack=np.zeros(0, np.int64),
        method="ballots",
        proved=proved,
        seconds=monotonic() - started,
        classes_inferred=ballots.classes_inferred,
        premises=ballots.premises,
    )


def _checked(votes: Votes | Ballots, attack_size: SupportsIndex, method: str, time_limit: float) -> tuple[int, float]:
    if not isinstance(votes, Votes | Ballots):
        raise WrongTypeError(
            "certified_accuracy takes poisonproof.Votes, which know their spread, or the ballots of samples. "
            f"Got {type(votes).__name__} instead."
        )
    try:
        size = operator.index(attack_size)
    except TypeError:
        size = -1
    if size < 0 or isinstance(attack_size, bool | np.bool_):
        raise PoisonproofError(f"An attack size must be a whole number ≥ 0. Got {attack_size!r} instead.")
    if method not in ("finite-aggregation", "tight"):
        raise PoisonproofError(
            f"The 'method' of certified_accuracy must be 'finite-aggregation' or 'tight'. Got {method!r} instead."
        )
    if not isinstance(time_limit, int | float | np.number) or math.isnan(time_limit) or time_limit < 0:
        raise PoisonproofError(f"The 'time_limit' must be a number of seconds ≥ 0. Got {time_limit!r} instead.")
    return size, float(time_limit)


class _Search:
    """Bounds on the flips among test samples that are at risk one by one."""

    def __init__(
        self, votes: Votes, at_risk: NDArray[np.int64], prediction: NDArray[np.int64], size: int, n_jobs: int
    ) -> None:
        from poisonproof.certificates.collective.search import possible_rivals

        self.matrix = np.ascontiguousarray(votes.matrix[at_risk])
        self.prediction, self.size, self.n_jobs, self.spread = prediction, size, n_jobs, votes.spread
        self.n_classes = len(votes.classes)
        sizes = self.n_classes, votes.classes_inferred, votes.spread, size
        self.needs, self.possible = possible_rivals(self.matrix, prediction, *sizes, n_jobs)

    def problem(self, samples: NDArray[np.int64]) -> Any:
        from poisonproof.certificates.collective.search import flippable

        chosen = self.matrix[samples], self.prediction[samples], self.n_classes, self.spread, self.size
        return flippable(*chosen, self.needs[samples], self.possible[samples], self.n_jobs)

    def run(self, deadline: float, seed: int) -> tuple[int, tuple[int, ...], str]:
        """At most how many flip, an attack, and how that was proved."""
        from poisonproof.certificates.collective.search import bracket

        blocks = self._blocks()
        if self.size == 1:
            flips = np.zeros(self.spread.n_partitions, np.int64)
            for block in blocks:
                flips += self.problem(block).flips_with_each(())
            return int(flips.max()), (int(flips.argmax()),), "exact, by counting for every partition"
        result = bracket(self.problem(blocks[0]), deadline, seed, self.n_jobs)
        conceded = len(self.matrix) - len(blocks[0])
        proved = f"by bounds on every attack, {result.opened} branches opened before the time ran out"
        if conceded:
            proved += f", with {conceded} test samples that did not fit into memory given up"
        return result.most + conceded, result.attack, proved

    def _blocks(self) -> list[NDArray[np.int64]]:
        """Test samples in blocks that fit into memory; first those that are hardest to flip."""
        ease = np.where(self.possible, self.size * self.spread.d - self.needs, -np.inf).max(axis=1)
        order = np.argsort(ease, kind="stable")
        rows = np.cumsum(self.possible.sum(axis=1)[order])
        most = max(1, MOST_CELLS // self.spread.n_partitions)
        edges = np.flatnonzero(np.diff((rows - 1) // most)) + 1
        return [np.sort(block) for block in np.split(order, edges)]


def _lost(matrix: NDArray[Any], prediction: NDArray[np.int64], attack: tuple[int, ...], votes: Votes) -> int:
    """How many predictions change if all base classifiers that the attack reaches vote for the best rival."""
    reached = np.zeros(votes.spread.n_subsets, np.bool_)
    for partition in attack:
        reached[votes.spread.subsets_of(partition)] = True
    kept = matrix[:, ~reached]
    left = np.stack([(kept == c).sum(axis=1) for c in range(len(votes.classes))], axis=1)
    rows = np.arange(len(matrix))
    held = left[rows, prediction]
    ahead = left + reached.sum() + (np.arange(left.shape[1]) < prediction[:, None]) > held[:, None]
    ahead[rows, prediction] = False
    unseen = (reached.sum() >= held) if votes.classes_inferred else np.zeros(len(matrix), np.bool_)
    return int((ahead.any(axis=1) | unseen).sum())

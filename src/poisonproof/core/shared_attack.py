"""Certified accuracy: what one attack of a given size leaves of the accuracy on a whole test set.

One attack on many test samples: how many predictions it can flip, from above and from below.

From above, any number of seconds gives a sound bound:

1. *Root.* HiGHS maximises Σ θ_g over fractional attacks 0 ≤ w ≤ 1, Σ w ≤ size, with θ_g, the flips of a bundle of test
   samples, below cuts "constant + column · w" that the kernels make at one w after another. Its number is not used:
   its multipliers are rounded to a grid, and the weighted sum of the cuts is a bound in whole numbers, whatever the
   multipliers are.
2. *Branch and bound.* Partitions are put in a fixed order; an attack is a chain j₁ < j₂ < … of positions. A node is the
   beginning of a chain, its bound that of its last partition (`bound_children`), and the node with the largest bound
   is opened next. A chain that lacks one partition is counted exactly. The largest bound among unopened nodes and
   counted attacks is a bound on all attacks at every moment; when no node exceeds the best attack found, it is exact.

From below: an explicit attack, by local search (exchange one partition for the best other one).
"""

from __future__ import annotations

import heapq
import math
import operator
from dataclasses import dataclass, field
from itertools import count, pairwise
from time import monotonic
from typing import Any, Literal, NamedTuple, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog

from poisonproof.core.certify import certify
from poisonproof.core.shared_attack_kernels import (
    CONSTANT,
    GRID,
    Cut,
    RivalRows,
    bound_children,
    choose_hinges,
    fill_rows,
    find_rivals,
)
from poisonproof.core.spread import Spread
from poisonproof.core.votes import Tallies, Votes
from poisonproof.display import shown
from poisonproof.errors import PoisonproofError, WrongTypeError
from poisonproof.premises import Premise, to_records
from poisonproof.system.threads import in_threads

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
    votes: Votes | Tallies,
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
    votes : Votes, or what other voters said
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
    if not isinstance(votes, Votes) and isinstance(votes, Tallies):
        return votes.certified_accuracy(y, attack_size, time_limit=time_limit)
    if not isinstance(votes, Votes):
        raise WrongTypeError(
            "certified_accuracy takes poisonproof.Votes, which know their spread, or what samples said. "
            f"Got {type(votes).__name__} instead."
        )
    size, limit = attack_size_of(attack_size, time_limit)
    if method not in ("finite-aggregation", "tight"):
        raise PoisonproofError(
            f"The 'method' of certified_accuracy must be 'finite-aggregation' or 'tight'. Got {method!r} instead.",
            code="accuracy.parameter",
        )
    certificate = certify(votes, method, n_jobs=n_jobs)
    right = certificate.evaluate(y).right
    if votes.n_test == 0:
        raise PoisonproofError(
            "A certified accuracy needs at least one test sample. Got none.", code="certificate.no-test"
        )
    at_risk = np.flatnonzero(right & (certificate.radius < size))
    clean, n_at_risk = int(right.sum()), len(at_risk)
    attack: tuple[int, ...] = ()
    if n_at_risk == 0:
        flipped, proved = 0, "no prediction that is right can be changed by an attack of that size (pointwise)"
    else:
        most, deadline = min(size, votes.spread.n_partitions), monotonic() + limit
        prediction = certificate.prediction[at_risk]
        flipped, attack, proved = _most_flips(votes, at_risk, prediction, most, deadline, seed, n_jobs)
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


def attack_size_of(attack_size: SupportsIndex, time_limit: float) -> tuple[int, float]:
    """Attack size and seconds as numbers, or one sentence."""
    try:
        size = operator.index(attack_size)
    except TypeError:
        size = -1
    if size < 0 or isinstance(attack_size, bool | np.bool_):
        raise PoisonproofError(
            f"An attack size must be a whole number ≥ 0. Got {attack_size!r} instead.", code="certificate.attack-size"
        )
    if not isinstance(time_limit, int | float | np.number) or math.isnan(time_limit) or time_limit < 0:
        raise PoisonproofError(
            f"The 'time_limit' must be a number of seconds ≥ 0. Got {time_limit!r} instead.", code="accuracy.parameter"
        )
    return size, float(time_limit)


def _most_flips(
    votes: Votes,
    at_risk: NDArray[np.int64],
    prediction: NDArray[np.int64],
    size: int,
    deadline: float,
    seed: int,
    n_jobs: int,
) -> tuple[int, tuple[int, ...], str]:
    """At most how many of the test samples that are at risk one by one flip, an attack, and how that was proved."""
    rivals = Rivals.of(votes, at_risk, prediction, size, n_jobs)
    blocks = rivals.blocks()
    if size == 1:
        flips = sum(rivals.rows_of(block, n_jobs).flips_with_each(()) for block in blocks)
        return int(np.max(flips)), (int(np.argmax(flips)),), "exact, by counting for every partition"
    result = bracket(rivals.rows_of(blocks[0], n_jobs), deadline, seed, n_jobs)
    conceded = len(at_risk) - len(blocks[0])
    proved = f"by bounds on every attack, {result.opened} branches opened before the time ran out"
    if conceded:
        proved += f", with {conceded} test samples that did not fit into memory given up"
    return result.most + conceded, result.attack, proved


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


MULTIPLIER_GRID = 1 << 10
GROUPS = 20
ROUNDS = 20
MASTER_CELLS = 1_000_000  # of the linear programme's matrix
CELLS_PER_TASK = 1 << 27
NODES_AT_ONCE = 16
RESTARTS = 40  # in a row that find nothing better
SMALL = 1 << 14  # cells; below that threads cost more than they bring


class Rivals(NamedTuple):
    """Test samples at risk: what every rival needs, and whether Theorem 2 leaves it a chance.

    A column per class, and one more for an unseen class.
    """

    matrix: NDArray[Any]
    prediction: NDArray[np.int64]
    spread: Spread
    n_classes: int
    size: int
    needs: NDArray[np.int64]
    possible: NDArray[np.bool_]

    @classmethod
    def of(
        cls, votes: Votes, at_risk: NDArray[np.int64], prediction: NDArray[np.int64], size: int, n_jobs: int
    ) -> Rivals:
        """All rivals of some test samples, which are predicted so, under attacks of a size."""
        matrix, n_classes = np.ascontiguousarray(votes.matrix[at_risk]), len(votes.classes)
        needs = np.zeros((len(matrix), n_classes + votes.classes_inferred), np.int64)
        possible = np.zeros(needs.shape, np.bool_)
        arrays, small = votes.spread.arrays, _small(votes.spread)

        def work(start: int, stop: int) -> None:
            part = slice(start, stop)
            outputs = needs[part], possible[part]
            find_rivals(matrix[part], arrays, n_classes, prediction[part], size, small, *outputs)

        in_threads(len(matrix), 64, work, n_jobs)
        return cls(matrix, prediction, votes.spread, n_classes, size, needs, possible)

    def blocks(self) -> list[NDArray[np.int64]]:
        """Test samples in blocks that fit into memory; first those that are hardest to flip."""
        ease = np.where(self.possible, self.size * self.spread.d - self.needs, -np.inf).max(axis=1)
        order = np.argsort(ease, kind="stable")
        rows = np.cumsum(self.possible.sum(axis=1)[order])
        most = max(1, MOST_CELLS // self.spread.n_partitions)
        edges = np.flatnonzero(np.diff((rows - 1) // most)) + 1
        return [np.sort(block) for block in np.split(order, edges)]

    def rows_of(self, samples: NDArray[np.int64], n_jobs: int) -> RivalRows:
        """The rival rows of some of the test samples."""
        matrix, prediction, possible = self.matrix[samples], self.prediction[samples], self.possible[samples]
        sample, rival = (np.ascontiguousarray(index, np.int64) for index in np.nonzero(possible))
        small, shape = _small(self.spread), (len(sample), self.spread.n_partitions)
        weight, delta = np.empty(shape, np.uint8), np.empty(shape, small.dtype)
        tops = np.empty((len(sample), self.size + 1), np.int64)

        def work(start: int, stop: int) -> None:
            part = slice(start, stop)
            rows, outputs = (sample[part], rival[part]), (weight[part], delta[part], tops[part])
            fill_rows(matrix, self.spread.arrays, self.n_classes, prediction, *rows, small, *outputs)

        in_threads(len(sample), 64, work, n_jobs)
        starts = np.searchsorted(sample, np.arange(len(matrix) + 1))
        need, table = self.needs[samples][sample, rival], self.spread.arrays.table
        return RivalRows(self.size, starts, need, weight, delta, tops, table, self.spread.feeding)


def _small(spread: Spread) -> NDArray[Any]:
    return np.empty(0, np.int16 if 2 * spread.d < np.iinfo(np.int16).max else np.int32)


class Bracket(NamedTuple):
    """At most ``most`` samples flip; the attack flips ``found`` of them."""

    most: int
    found: int
    attack: tuple[int, ...]
    opened: int = 0


def bracket(problem: RivalRows, deadline: float, seed: int, n_jobs: int) -> Bracket:
    """Bounds from both sides, as good as the time allows."""
    started = monotonic()
    most, weights = _root(problem, deadline)
    order = np.argsort(-weights, kind="stable")
    problem, weights = problem.in_order(order), weights[order]
    found, attack = _local_search(problem, started + 2 * (deadline - started) / 5, seed)
    result = _branch(problem, weights, Bracket(max(most, found), found, attack), deadline, n_jobs)
    return result._replace(attack=tuple(sorted(order[list(result.attack)].tolist())))


def _root(problem: RivalRows, deadline: float) -> tuple[int, NDArray[np.float64]]:
    """A bound from HiGHS's multipliers, recomputed in whole numbers, and weights that say which partitions matter."""
    n, size, n_samples = problem.n, problem.size, problem.n_samples
    n_rounds = min(ROUNDS, max(1, MASTER_CELLS // n))
    edges = np.linspace(0, n_samples, min(GROUPS, n_samples, max(1, MASTER_CELLS // (n * n_rounds))) + 1).astype(int)
    sizes = np.diff(edges)
    most, at = n_samples, np.full(n, size / n)
    weights = at
    cuts: list[Cut] = []
    for _ in range(n_rounds):
        cuts += [problem.cut(bundle, *ends, at) for bundle, ends in enumerate(pairwise(edges.tolist()))]
        newest = cuts[-len(sizes) :]
        seconds = deadline - monotonic()
        answer = _solve_master(cuts, sizes, size, seconds) if seconds > 0 else None
        if answer is None:
            break
        weights, multipliers, ceiling = answer
        most = min(most, bound_from(multipliers, cuts, sizes, size))
        if ceiling - sum(cut.constant + float(cut.column @ at) / GRID for cut in newest) < 0.5:
            break
        at = 0.7 * at + 0.3 * weights
    # The last cuts break ties between partitions that the solution leaves out.
    last = np.sum([cut.column for cut in newest], axis=0, dtype=np.float64)
    return most, weights + 1e-6 * last / max(last.max(), 1.0)


def _solve_master(
    cuts: list[Cut], sizes: NDArray[np.int64], size: int, seconds: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], float] | None:
    """max Σ θ_g, θ_g ≤ its cuts: the fractional attack, one multiplier per cut, the value; None if time ran out."""
    n, n_bundles, n_cuts = len(cuts[0].column), len(sizes), len(cuts)
    rows = np.zeros((n_cuts + 1, n + n_bundles))
    rows[:n_cuts, :n] = np.array([cut.column for cut in cuts]) / -GRID
    rows[np.arange(n_cuts), n + np.array([cut.bundle for cut in cuts])] = 1.0
    rows[n_cuts, :n] = 1.0
    answer = linprog(
        np.concatenate([np.zeros(n), np.full(n_bundles, -1.0)]),
        A_ub=rows,
        b_ub=np.array([*(cut.constant for cut in cuts), size], np.float64),
        bounds=np.array([[0.0, 1.0]] * n + [[0.0, float(members)] for members in sizes]),
        method="highs",
        options={"time_limit": seconds},
    )
    if answer.status != 0:
        return None
    return np.clip(answer.x[:n], 0, 1), -answer.ineqlin.marginals[:n_cuts], -float(answer.fun)


def bound_from(multipliers: NDArray[np.float64], cuts: list[Cut], sizes: NDArray[np.int64], size: int) -> int:
    """⌊Σ multiplier · cut⌋ at the worst attack; what a bundle's multipliers lack of 1 goes to "all of its samples".

    Each cut holds for every attack, so any multipliers ≥ 0 that sum to at most 1 in each bundle are sound.
    """
    left = [MULTIPLIER_GRID] * len(sizes)
    constant, column = 0, np.zeros(len(cuts[0].column), np.int64)
    for cut, multiplier in zip(cuts, multipliers, strict=True):
        parts = min(left[cut.bundle], max(0, int(MULTIPLIER_GRID * multiplier + 0.5)))
        left[cut.bundle] -= parts
        constant += parts * cut.constant
        column += parts * cut.column.astype(np.int64)
    constant += sum(rest * int(members) for rest, members in zip(left, sizes, strict=True))
    worst = int(np.sort(column)[::-1][:size].sum())
    return (constant * GRID + worst) // (GRID * MULTIPLIER_GRID)


def _local_search(problem: RivalRows, deadline: float, seed: int) -> tuple[int, tuple[int, ...]]:
    """The best attack found: the leading partitions, improved one by one, and restarts near the best."""
    rng = np.random.default_rng(seed)
    best, best_found = list(range(problem.size)), -1
    in_vain = 0
    while in_vain < RESTARTS:
        attack = list(best)
        if best_found >= 0:
            for slot in rng.choice(problem.size, -(-problem.size // 3), replace=False):
                free = np.setdiff1d(np.arange(problem.n), attack)
                if len(free):
                    attack[slot] = int(rng.choice(free))
        found, stale, slot = -1, 0, 0
        while stale < problem.size and (found < 0 or monotonic() < deadline):
            others = attack[:slot] + attack[slot + 1 :]
            flips = problem.flips_with_each(others)
            flips[others] = -1
            if flips.max() > found:
                found, attack[slot], stale = int(flips.max()), int(flips.argmax()), 0
            else:
                stale += 1
            slot = (slot + 1) % problem.size
        in_vain += 1
        if found > best_found:
            best, best_found, in_vain = attack, found, 0
        if monotonic() >= deadline or best_found == problem.n_samples:
            break
    return best_found, tuple(best)


def _branch(
    problem: RivalRows,
    weights: NDArray[np.float64],
    known: Bracket,
    deadline: float,
    n_jobs: int,
) -> Bracket:
    """Branch and bound, best first, until the bracket closes or the time is up."""
    if monotonic() >= deadline:
        return known
    even = 0.5 * weights / max(weights.sum(), 1e-9) + 0.5 / problem.n
    hinges: dict[int, NDArray[Any]] = {}
    number = count()
    opened = 0
    # (−bound, number, chain, positions that continue it, their bounds, largest first)
    heap: list[tuple[int, int, tuple[int, ...], NDArray[Any], NDArray[Any]]] = []
    chains: list[tuple[tuple[int, ...], int]] = [((), known.most)]
    while chains and known.most > known.found:
        for remaining in {problem.size - len(chain) - 1 for chain, _ in chains} - {0} - hinges.keys():
            hinges[remaining] = _hinges(problem, even, remaining)
        bounds = _open(problem, hinges, chains, deadline, n_jobs)
        opened += len(chains)
        for (chain, _), below in zip(chains, bounds, strict=True):
            if len(chain) == problem.size - 1 and monotonic() < deadline and below.max() > known.found:
                known = known._replace(found=int(below.max()), attack=(*chain, int(below.argmax())))
        for (chain, _), below in zip(chains, bounds, strict=True):
            positions = np.flatnonzero(below > known.found)
            if len(positions):
                positions = positions[np.argsort(-below[positions], kind="stable")]
                entry = (-int(below[positions[0]]), next(number), chain, positions, below[positions])
                heapq.heappush(heap, entry)
        known = known._replace(most=max(known.found, min(known.most, -heap[0][0] if heap else 0)))
        if monotonic() >= deadline:
            break
        chains = []
        while heap and len(chains) < NODES_AT_ONCE and -heap[0][0] > known.found:
            bound, _, chain, positions, below = heapq.heappop(heap)
            chains.append(((*chain, int(positions[0])), -bound))
            if len(positions) > 1:
                heapq.heappush(heap, (-int(below[1]), next(number), chain, positions[1:], below[1:]))
    if not chains:
        known = known._replace(most=known.found)
    return known._replace(opened=opened)


def _hinges(problem: RivalRows, even: NDArray[np.float64], remaining: int) -> NDArray[Any]:
    width = int(problem.tops[:, remaining].max()) + 1
    hinges = np.full(
        (len(problem.need), width), CONSTANT, np.int16 if 2 * problem.d <= np.iinfo(np.int16).max else np.int32
    )
    choose_hinges(problem, even * remaining, remaining, hinges)
    return hinges


def _open(
    problem: RivalRows,
    hinges: dict[int, NDArray[Any]],
    chains: list[tuple[tuple[int, ...], int]],
    deadline: float,
    n_jobs: int,
) -> list[NDArray[np.int64]]:
    """For each chain, the bound of every partition that may continue it (0 elsewhere).

    What the time does not allow keeps the bound of the chain.
    """
    results, tasks = [], []
    width = max(1, CELLS_PER_TASK // problem.delta.size)
    for at, (chain, bound) in enumerate(chains):
        first, stop = (chain[-1] + 1 if chain else 0), problem.n - (problem.size - len(chain) - 1)
        below = np.zeros(problem.n, np.int64)
        below[first:stop] = bound
        results.append(below)
        step = width if len(chain) < problem.size - 1 else problem.n
        tasks += [(at, start, min(start + step, stop)) for start in range(first, stop, step)]

    def work(number: int, _: int) -> None:
        if monotonic() >= deadline:
            return
        at, start, stop = tasks[number]
        chain, bound = chains[at]
        remaining = problem.size - len(chain) - 1
        if remaining == 0:
            results[at][start:stop] = problem.flips_with_each(chain)[start:stop]
            return
        below = np.empty(problem.n, np.int64)
        gains, cover = problem.gains(chain)
        scratch = problem.columns(), problem.columns()
        bound_children(start, stop, remaining, problem, hinges[remaining], gains, cover, *scratch, below)
        results[at][start:stop] = np.minimum(below[start:stop], bound)

    in_threads(len(tasks), 1, work, n_jobs if problem.delta.size > SMALL else 1)
    return results

"""From the votes of a few base classifiers to the certified fraction of many.

A test sample is described by its vote shares: the probability that a base classifier trained on a random subset votes
for the right class, for the strongest rival, and so on. A pilot of m base classifiers shows them only through m draws,
so counting certified samples among the pilot's own votes would be biased: m draws look more decided than the shares
behind them, or less. Here the distribution of shares over samples is estimated first, by maximum likelihood over
a grid (expectation maximisation, which takes the noise of m draws out again). Then votes of as many base classifiers as
are asked for are drawn from it, and the certificate itself is computed on them.

All of this is an estimate. No certificate depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import ndtri

from poisonproof.core.certify import certify
from poisonproof.core.spread import Spread
from poisonproof.core.votes import Votes, vote_dtype
from poisonproof.system.determinism import one_linear_algebra_thread

RIGHT_STEPS = 48
STRONGEST = (0.12, 0.25, 0.38, 0.5, 0.62, 0.74, 0.86, 0.96)
SECOND = (0.1, 0.3, 0.5, 0.7, 0.9)
ITERATIONS = 80  # more fit the noise of the pilot's own votes: its likelihood grows, its predictions get worse
FEWEST_CLASSES = 4  # fewer are filled up with classes that nobody votes for, so that there is always a third rival
MOST_VOTES = 10_000_000  # drawn for one prediction
LINEAR = 0.7
NUMBERS_AT_ONCE = 1 << 22
FEWEST_SAMPLES, MOST_SAMPLES = 400, 1000


@dataclass(frozen=True)
class VoteShares:
    """How vote shares are distributed over test samples.

    Attributes
    ----------
    weights : array (RIGHT_STEPS, profiles)
        The probability of each pair: a cell of right shares, and a profile of what rivals have of the rest.
    profiles : array (profiles, 2)
        The strongest rival's share of the wrong votes, and the second's share of what is left then. All other
        classes share the remainder equally.
    n_classes : int
    abstaining : float
        Share of base classifiers whose subset is empty.
    """

    weights: NDArray[np.float64]
    profiles: NDArray[np.float64]
    n_classes: int
    abstaining: float = 0.0


def balancing(truth: NDArray[np.int64]) -> NDArray[np.float64]:
    """Weights of samples that give each class that occurs the same weight in all; they sum to 1."""
    _, codes, counts = np.unique(truth, return_inverse=True, return_counts=True)
    return np.asarray(1 / (counts[codes] * len(counts)))


def estimate_shares(
    counts: NDArray[np.int64],
    truth: NDArray[np.int64],
    abstaining: float = 0.0,
    weights: NDArray[np.float64] | None = None,
) -> VoteShares:
    """The distribution of vote shares that most likely gave these votes.

    Parameters
    ----------
    counts : array (samples, classes)
        Votes of the pilot's base classifiers, none of which was trained on the sample. Rows may have different totals.
    truth : array (samples,)
        The right class of each sample.
    abstaining : float
        Share of base classifiers that abstain; their votes are not among the counts.
    weights : array (samples,), optional
        How much each sample counts, in all 1; otherwise all alike. With `balancing`, fractions predicted from the
        shares are means over classes.
    """
    n_samples, n_classes = counts.shape
    rows = np.arange(n_samples)
    right = counts[rows, truth].astype(np.float64)
    wrong = np.zeros((n_samples, max(n_classes, FEWEST_CLASSES) - 1))
    keep = np.arange(n_classes)[None, :] != truth[:, None]
    wrong[:, : n_classes - 1] = counts[keep].reshape(n_samples, -1)
    profiles = np.array([(b, c) for b in STRONGEST for c in SECOND if (1 - b) * c <= b])
    of_right = _scaled(_log_right(right, wrong.sum(axis=1)))
    of_profile = _scaled(np.stack([_log_profile(wrong, *profile) for profile in profiles], axis=1))
    of_sample = np.full(n_samples, 1 / n_samples) if weights is None else weights
    of_cell = np.full((RIGHT_STEPS, len(profiles)), 1 / (RIGHT_STEPS * len(profiles)))
    with one_linear_algebra_thread():
        for _ in range(ITERATIONS):
            total = ((of_right @ of_cell) * of_profile).sum(axis=1)
            of_cell *= of_right.T @ (of_profile * (of_sample / total)[:, None])
    return VoteShares(of_cell / of_cell.sum(), profiles, n_classes, abstaining)


def _angles(places: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Right shares at places in 0 … RIGHT_STEPS, spaced so that m draws are equally noisy everywhere."""
    return np.asarray(np.sin(np.pi / 2 * places / RIGHT_STEPS) ** 2)


def _log_right(right: NDArray[np.float64], wrong: NDArray[np.float64]) -> NDArray[np.float64]:
    shares = _angles(np.arange(RIGHT_STEPS) + 0.5)
    return np.outer(right, np.log(shares)) + np.outer(wrong, np.log1p(-shares))


def _log_profile(wrong: NDArray[np.float64], strongest: float, second: float) -> NDArray[np.float64]:
    """Log-likelihood of the wrong votes if any two rivals may be the strongest and the second, all equally likely.

    Σ over ordered pairs of rivals of x_i·y_j = Σx·Σy − Σxy, with x and y how much more likely their votes are than
    under an equal share.
    """
    n_rivals = wrong.shape[1]
    first, other = strongest, (1 - strongest) * second
    rest = (1 - strongest) * (1 - second) / (n_rivals - 2)
    x, y = wrong * np.log(first / rest), wrong * np.log(other / rest)
    x_top, y_top = x.max(axis=1, keepdims=True), y.max(axis=1, keepdims=True)
    x, y = np.exp(x - x_top), np.exp(y - y_top)
    pairs = x.sum(axis=1) * y.sum(axis=1) - (x * y).sum(axis=1)
    with np.errstate(divide="ignore"):
        pairs = np.log(np.maximum(pairs, 0.0))
    return np.asarray(wrong.sum(axis=1) * np.log(rest) + x_top[:, 0] + y_top[:, 0] + pairs)


def _scaled(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.exp(logs - logs.max(axis=1, keepdims=True))


def predicted_fraction(
    shares: VoteShares,
    spread: Spread,
    attack_sizes: Sequence[int],
    *,
    method: Any = "dpa-bound",
    seed: int = 0,
) -> NDArray[np.float64]:
    """The certified fraction (pointwise) to expect at these attack sizes from an ensemble with this spread.

    The certificate is computed on votes drawn from the shares; attack size 0 gives the clean accuracy. By default it
    counts 2d votes for every poison, because on real votes Theorem 2 gains little over that: the partitions that help a
    sample most have all their d base classifiers on its side, which independent draws would not show.
    """
    n_samples = int(np.clip(MOST_VOTES // spread.n_subsets, FEWEST_SAMPLES, MOST_SAMPLES))
    votes, truth = draw_votes(shares, spread, n_samples, np.random.default_rng(seed))
    return certify(votes, method).certified_fraction(truth, list(attack_sizes))


def draw_votes(
    shares: VoteShares, spread: Spread, n_samples: int, rng: np.random.Generator
) -> tuple[Votes, NDArray[np.int64]]:
    """Votes on samples with these shares, and their right classes.

    Samples go through the distribution in equal steps of the lead, which leaves little to chance. Base classifiers that
    share partitions do not err independently: each draw is a normal number of which `LINEAR` of the variance comes from
    the subset's partitions, one number for each, and the rest from the base classifier alone.
    """
    n_classes = max(shares.n_classes, FEWEST_CLASSES)
    steps, profiles = (part.ravel() for part in np.indices(shares.weights.shape))
    lead = _angles(steps + 0.5) - (1 - _angles(steps + 0.5)) * shares.profiles[profiles, 0]
    order = np.argsort(lead, kind="stable")
    reached = np.cumsum(shares.weights.ravel()[order])
    picked = order[np.searchsorted(reached, (np.arange(n_samples) + 0.5) / n_samples * reached[-1])]
    right = _angles(steps[picked] + rng.random(n_samples))
    strongest, second = shares.profiles[profiles[picked]].T
    wrong = 1 - right
    others = wrong * (1 - strongest) * (1 - second) / (n_classes - 3)
    widths = np.stack([right, wrong * strongest, wrong * (1 - strongest) * second, *[others] * (n_classes - 3)], axis=1)
    bounds = ndtri(np.minimum(np.cumsum(widths, axis=1), 1.0)).astype(np.float32)
    bounds[:, -1] = np.inf
    names = rng.permuted(np.tile(np.arange(n_classes, dtype=vote_dtype(n_classes)), (n_samples, 1)), axis=1)
    matrix = np.empty((n_samples, spread.n_subsets), names.dtype)
    feeding = _feeding(spread)
    size = max(1, NUMBERS_AT_ONCE // spread.n_subsets)
    for start in range(0, n_samples, size):
        rows = range(start, min(start + size, n_samples))
        drawn = rng.standard_normal((len(rows), spread.n_subsets), np.float32)
        if spread.d > 1:
            shared = feeding @ rng.standard_normal((spread.n_partitions, len(rows)), np.float32)
            drawn = np.sqrt(np.float32(1 - LINEAR)) * drawn + np.sqrt(np.float32(LINEAR)) * shared.T
        for row in rows:
            matrix[row] = names[row, np.searchsorted(bounds[row], drawn[row - start])]
    if shares.abstaining:
        matrix[:, rng.random(spread.n_subsets) < shares.abstaining] = n_classes
    return Votes(matrix, spread, range(n_classes)), names[:, 0].astype(np.int64)


def _feeding(spread: Spread) -> csr_array:
    """The mean of a subset's partitions, times √d: of independent normal numbers it is one again."""
    table = spread.as_table()
    partition = np.repeat(np.arange(spread.n_partitions), spread.d)
    value = np.full(table.size, 1 / np.sqrt(spread.d), np.float32)
    return csr_array((value, (table.ravel(), partition)), shape=(spread.n_subsets, spread.n_partitions))

"""Certificates of ensembles whose subsets are drawn at random: pure mathematics, from vote counts to radii.

Let p_c(D) be the probability that a base classifier trained on a random subset of D says c. The *ideal*
classifier says the class of the largest p_c(D), ties to the smaller class index. It cannot be computed, but a
number of draws bounds every p_c(D), and the certificates below turn such bounds into radii: with probability
at least 1 − alpha over the draws, jointly for all test samples given, the ideal classifier trained on D says
the prediction, and so it does on every D' within the radius. Where the bounds do not say which class is the
largest, the certificate abstains.

Bounds are simultaneous over test samples and classes, from both sides (alpha over 2 · test samples · classes
each): which class leads is read off the same draws, so all of them must be right at once.

Bounds and leads are whole numbers in units of 1/GRID, rounded to the safe side; all that follows is exact or
rounded to the safe side too.

Clopper–Pearson bounds on probabilities, rounded outward to a grid of whole numbers.

From here on a probability p is a whole number of 1/GRID, so that everything a certificate does with
bounds is exact. A lower bound is on or below the true Clopper–Pearson bound, an upper bound on or above.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, takewhile
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv

from poisonproof.errors import PoisonproofError

MOST_K = 1 << 20
_FINE = 128  # bits of the fixed-point powers in `binomial_selection_radii`


class Leads(NamedTuple):
    """The leading class of each test sample and a lower bound on its lead over every class.

    ``lead[t, c]`` bounds p_prediction − p_c from below, in units of 1/GRID; the column of the prediction itself
    is GRID. With ``unseen`` a last column stands for a class that the training data has not shown: p = 0, and it
    wins ties.
    """

    prediction: NDArray[np.int64]
    lead: NDArray[np.int64]
    unseen: bool

    @property
    def wins_ties(self) -> NDArray[np.bool_]:
        """Whether a tie with that class would go against the prediction."""
        wins = np.arange(self.lead.shape[1]) < self.prediction[:, None]
        if self.unseen:
            wins[:, -1] = True
        return wins


class StochasticRadii(NamedTuple):
    """Where the certificate abstains, and two radii, both 0 there.

    ``radius`` counts insertions and removals, 1 each. ``changed`` counts insertions, removals and changes of a
    sample (features, label or both), 1 each.
    """

    abstained: NDArray[np.bool_]
    radius: NDArray[np.int64]
    changed: NDArray[np.int64]


def bound_leads(counts: NDArray[np.int64], n_draws: int, alpha: float, *, unseen: bool = False) -> Leads:
    """Bounds on the leads of the most voted classes that hold jointly with probability at least 1 − alpha.

    Parameters
    ----------
    counts : array (n_test, n_classes)
        Votes for each class among ``n_draws`` independent draws; a base classifier may abstain.
    n_draws : int
    alpha : float
    unseen : bool
        Whether an attacker could bring up a class that the training data has not shown.
    """
    n_test, n_classes = counts.shape
    prediction = counts.argmax(axis=1)
    rows = np.arange(n_test)
    lower, upper = clopper_pearson(counts, n_draws, alpha / (2 * max(1, n_test) * n_classes))
    top = lower[rows, prediction][:, None]
    lead = top - upper
    lead[rows, prediction] = GRID
    return Leads(prediction, np.column_stack([lead, top]) if unseen else lead, unseen)


def infinite_aggregation_radii(
    leads: Leads, k: int, n_train: int, terms: Iterable[NDArray[np.int64]] | None = None
) -> StochasticRadii:
    """Theorem 3 of Wang, Levine and Feizi (2022): each sample of D is in a subset with probability 1/k.

    Couple the subsets of D and D' as S ∩ D and S ∩ D', S drawn from their union. They differ only if S holds
    an inserted or a removed sample. Then the vote v of S ∩ D may turn into one for the rival c, which costs the
    lead W = 1 + [v = p] − [v = c] ≤ 2. By the union bound a removed sample x costs (1/k)·E[W | x in S], its
    ``term`` over k, and an inserted one, of which S ∩ D knows nothing, (1/k)·(1 + lead). So the prediction p
    stays as long as the sum of the r largest of these numbers is at most k·lead, and less where c wins ties.

    The sum holds the lead itself, through insertions. With i of them the condition reads
    Σ terms + i ≤ (k − i)·lead: if it holds for a lower bound on the lead it holds for the lead.

    A changed sample is in the subset of D exactly where its new form is in that of D', so it costs what its
    removal costs: both radii are the same.

    Parameters
    ----------
    leads : Leads
    k : int
    n_train : int
        Number of training samples.
    terms : iterable of arrays (n_train, lead.shape[1]), optional
        For each test sample, upper bounds on the terms of removals, in units of 1/GRID (see `bound_terms`).
        Without them every term is 2, the most it can be: the margin-only form. No term counts more than that,
        so the radii with terms are never below those without, on the same leads.
    """
    room = k * leads.lead - leads.wins_ties
    abstained = room.min(axis=1) < 0
    if terms is None:
        removed = np.minimum(np.maximum(room, 0) // (2 * GRID), n_train)
        radius = removed + np.where(
            removed == n_train, np.maximum(room - removed * 2 * GRID, 0) // (GRID + np.maximum(leads.lead, 0)), 0
        )
    else:
        radius = np.zeros_like(room)
        for row, terms_of_row in enumerate(terms):
            if not abstained[row]:
                radius[row] = _fits(np.minimum(terms_of_row, 2 * GRID), GRID + leads.lead[row], room[row])
    radius[np.arange(len(radius)), leads.prediction] = np.iinfo(np.int64).max
    smallest = np.where(abstained, 0, radius.min(axis=1))
    return StochasticRadii(abstained, smallest, smallest.copy())


def _fits(removals: NDArray[np.int64], insertion: NDArray[np.int64], room: NDArray[np.int64]) -> NDArray[np.int64]:
    """For every column: how many of the largest costs fit the room, with unlimited copies of that of an insertion."""
    descending = -np.sort(-np.maximum(removals, insertion), axis=0)
    total = np.cumsum(descending, axis=0)
    fit = (total <= room).sum(axis=0)
    used = total[-1] if len(total) else np.zeros_like(room)
    return fit + np.where(fit == len(removals), (room - used) // insertion, 0)


def bound_terms(
    conditional: Iterable[NDArray[np.int64]],
    held: NDArray[np.int64],
    leads: Leads,
    alpha: float,
) -> Iterable[NDArray[np.int64]]:
    """Upper bounds on E[W | x in S] for every training sample x, jointly with probability at least 1 − alpha.

    Among the draws that hold x the subset without x is still a fair draw, so the votes of these draws bound
    p_{c|x}. Simultaneous over test samples, classes and training samples, from both sides.

    Parameters
    ----------
    conditional : iterable of arrays (n_train, n_classes), one per test sample
        Votes for each class among the draws that hold each training sample.
    held : array (n_train,)
        How many draws hold each training sample.
    leads : Leads
    alpha : float
    """
    n_test, n_classes = len(leads.prediction), leads.lead.shape[1] - leads.unseen
    level = alpha / (2 * max(1, n_test) * n_classes * len(held))
    times, kind = np.unique(held, return_inverse=True)
    possible = np.minimum(np.arange(times[-1] + 1), times[:, None])
    table = clopper_pearson(possible, times[:, None], level)
    for prediction, counts in zip(leads.prediction, conditional, strict=True):
        lower, upper = (side[kind[:, None], counts] for side in table)
        if leads.unseen:
            lower = np.column_stack([lower, np.zeros(len(lower), np.int64)])
        yield GRID + upper[:, [prediction]] - lower


def binomial_selection_radii(leads: Leads, k: int) -> StochasticRadii:
    """Randomised selection (Chen et al. 2020): the same subsets, by the probability that one of them meets no poison.

    With changes counted as 1, as published: a subset meets r inserted, removed or changed samples with
    probability q = 1 − (1 − 1/k)^r; otherwise the coupled subsets of D and D' are equal (see
    `infinite_aggregation_radii`). So no p_c moves by more than q, and 2q < lead for every class is enough.

    Insertions and removals do less. Let a = 1 − 1/k and C = D ∩ D'. A subset of C is a subset of D given that
    it meets none of the e removed samples, which has probability a^e, so the lead over C is at least
    (lead − 1 + a^e) / a^e. A subset of D' meets none of the i inserted samples with probability a^i and is then
    one of C, so the lead over D' is at least a^i times that, less 1 − a^i. It is positive where
    1 + a^(e − i) − 2 a^e < lead. Among i + e ≤ r the left side is largest at i = r, e = 0 (along i = r − e it
    falls in e), so the radius is the largest r with a^(−r) − 1 < lead: as for bagging.

    Powers are taken in fixed point, rounded down at every step, so no cost is too small.
    """
    one = 1 << _FINE
    inserted = (GRID * (one - stay) // stay + 1 for stay in takewhile(bool, _powers(k)))
    changed = ((2 * GRID * (one - stay) >> _FINE) + 1 for stay in _powers(k))
    abstained, radius = _largest_below(leads, inserted)
    return StochasticRadii(abstained, radius, _largest_below(leads, changed)[1])


def _powers(k: int) -> Iterator[int]:
    """(1 − 1/k)^r in fixed point, rounded down, for r = 1, 2, …"""
    stay = 1 << _FINE
    while True:
        stay = stay * (k - 1) // k
        yield stay


def bagging_radii(leads: Leads, n_train: int, subset_size: int) -> StochasticRadii:
    """Bagging (Jia, Cao and Gong 2021): subsets of K samples drawn from the n of D with replacement.

    Let D' have n' samples, m of them in common with D. A tuple of common samples is (n/n')^K times as likely
    under D' as under D, and the others may vote as they like. So p_p(D') ≥ (n/n')^K (p_p − 1 + (m/n)^K) and
    p_c(D') ≤ (n/n')^K p_c + 1 − (m/n')^K, and the prediction stays where
    (n'/n)^K − 2 (m/n)^K + 1 < lead.

    With i insertions and e removals n' = n + i − e and m = n − e. Among i + e ≤ r the left side is largest at
    i = r, e = 0 (its slope in e along i = r − e is 2K/n times (1 − e/n)^(K−1) − (1 + (r − 2e)/n)^(K−1), which
    is not positive), so the radius is the largest r with (1 + r/n)^K − 1 < lead.

    The paper's own unit also counts a change as 1: m = max(n, n') − r. Where 2 − 2 (1 − r/n)^K < lead ≤ 1, the
    left side falls in n' from n on (its slope has the sign of n'^(K−1) − 2 (n' − r)^(K−1), which is then
    negative) and it rises up to n; so n' = n is the worst, and that inequality is the condition.
    """
    whole = n_train**subset_size
    inserted = (GRID * ((n_train + r) ** subset_size - whole) // whole + 1 for r in count(1))
    changed = (2 * GRID * (whole - max(0, n_train - r) ** subset_size) // whole + 1 for r in count(1))
    abstained, radius = _largest_below(leads, inserted)
    return StochasticRadii(abstained, radius, _largest_below(leads, changed)[1])


def _largest_below(leads: Leads, needs: Iterator[int]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Where the smallest lead is not positive, and elsewhere how many of the growing needs it meets."""
    smallest = leads.lead.min(axis=1)
    table = list(takewhile(lambda need: need <= GRID, needs))
    abstained = smallest <= 0
    return abstained, np.where(abstained, 0, np.searchsorted(np.array(table, np.int64), smallest, side="right"))


GRID = 1 << 32
# betainc is good to a few units in the last place; a bound must pass with this much to spare.
SLACK = 1e-9


class Interval(NamedTuple):
    """Lower and upper bounds, in units of 1/GRID."""

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]


def clopper_pearson(successes: ArrayLike, trials: ArrayLike, level: float) -> Interval:
    """Bounds that each fail with probability at most ``level``, whatever the true probability is.

    With X ~ Binomial(trials, p), the lower bound is the largest p with P(X ≥ successes) ≤ level (0 without
    successes), and the upper bound its mirror image. Each side has the whole level: an interval of both
    fails with probability at most twice that.
    """
    hits, tries = np.broadcast_arrays(np.asarray(successes, np.int64), np.asarray(trials, np.int64))
    if hits.size and not ((hits >= 0) & (hits <= tries)).all():
        raise PoisonproofError(
            "There must be 0 … trials successes; votes for a class cannot be more than draws.",
            code="stochastic.parameter",
        )
    if not 0 < level < 1:
        raise PoisonproofError(
            f"The level of a confidence bound must lie strictly between 0 and 1. Got {level!r} instead.",
            code="stochastic.parameter",
        )
    return Interval(_lower(hits, tries, level), GRID - _lower(tries - hits, tries, level))


def _lower(successes: NDArray[np.int64], trials: NDArray[np.int64], level: float) -> NDArray[np.int64]:
    base = int(trials.max(initial=0)) + 1
    different, where = np.unique(successes.ravel() * base + trials.ravel(), return_inverse=True)
    return _lower_of_pairs(different // base, different % base, level)[where].reshape(successes.shape)


def _lower_of_pairs(hits: NDArray[np.int64], trials: NDArray[np.int64], level: float) -> NDArray[np.int64]:
    """The guess of `betaincinv`, taken down the grid until the tail probability is seen to be small enough."""
    some = hits > 0
    a, b = np.where(some, hits, 1).astype(np.float64), np.where(some, trials - hits + 1, 1).astype(np.float64)
    guess = np.nan_to_num(betaincinv(a, b, level), nan=1.0)
    bound = np.where(some, np.floor(np.nextafter(guess, 0.0) * GRID), 0).astype(np.int64)
    step = 1
    while True:
        fails = (bound > 0) & ~(betainc(a, b, bound / GRID) <= level * (1 - SLACK))
        if not fails.any():
            return bound
        bound[fails] = np.maximum(bound[fails] - step, 0)
        step *= 2

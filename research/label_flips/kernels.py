"""How many flipped labels a prediction withstands, from what each flip can do inside each base classifier.

*One base classifier.* The scores of kernel ridge are linear in the labels: with g = (K + λI)⁻¹ k_x, f_c(x) is the sum
of g_i over the training samples of class c (targets of 1; class weights would move with the labels). K, λ and k_x do
not depend on labels. To vote c instead of v, f_c must come level with f_v at least; a flip adds to f_c − f_v at most

    2·g_i⁺ for a sample of class v,      2·g_i⁻ for one of class c,      |g_i| for any other.

So no fewer flips do it than the least number whose largest benefits come to f_v − f_c. Two more ways are counted: all
samples of v may be flipped, so that v is no class of the subset any more; and all samples may become c.

*Class weights.* With targets of N_c^−b times a factor that all classes share (``balance`` = b), f_c is the sum of g_i
over the samples of c, divided by N_c^b, and a flip moves N_c too. Look at each class by itself: if a samples leave v
and e come, f_v is lowest when those with the largest g leave and those with the smallest come; the same for c the other
way round. Of t flips at most t touch each class, so c comes level no sooner than the first t at which the highest f_c
over a′ + e′ ≤ t reaches the lowest f_v over a + e ≤ t. For given counts the weights are given too, so this holds for
any b. That one flip may have to serve both sides is not counted, in the attacker's favour.

*Rounding.* The base classifier itself computes in floating point. ``extra_i`` bounds what one flip adds to the error of
a score, ``base_c`` the error of f_c before; both count for the attacker. See `research.label_flips.certificate`.

*The ensemble.* Against rival c the attacker must gain more than m_c = N_p − N_c − [c < p] votes. A base classifier that
votes p gives 1 for leaving p (L flips) or 2 for c (P flips); one that votes for a third class gives 1 for c. Replace
each of them by its convex hull: two steps of P/2 if P < 2L, else steps of L and P − L. Then the m_c + 1 cheapest steps
cost no more than any attack, because every attack costs at least the hulls of what it gains. A flipped sample is in the
subsets of d base classifiers, so r flips of samples are at most r·d flips in base classifiers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.system.compiled import njit

NEVER = np.iinfo(np.int32).max


@njit(nogil=True, cache=True)
def member_costs(
    g: NDArray[np.float64],
    extra: NDArray[np.float64],
    codes: NDArray[np.int64],
    scores: NDArray[np.float64],
    base: NDArray[np.float64],
    votes: NDArray[Any],
    costs: NDArray[np.int32],
) -> None:
    """Fill costs[t, c]: the fewest flips after which the base classifier could vote c on test sample t; 0 for its vote.

    ``g`` and ``extra`` are arrays (samples, tests), ``scores`` and ``base`` (classes, tests), ``codes`` the class of
    each sample. ``costs`` may be a strided view.
    """
    n, n_classes = len(codes), len(scores)
    counts = np.zeros(n_classes, np.int64)
    for code in codes:
        counts[code] += 1
    benefits = np.empty(n)
    for t in range(len(votes)):
        v = votes[t]
        for c in range(n_classes):
            if c == v:
                costs[t, c] = 0
                continue
            lacking = (scores[v, t] - scores[c, t] - base[v, t] - base[c, t]) * (1 - 1e-9)
            most = max(1, min(counts[v], n - counts[c]))
            for i in range(n):
                value = g[i, t]
                if codes[i] == v:
                    benefits[i] = 2 * max(value, 0.0)
                elif codes[i] == c:
                    benefits[i] = 2 * max(-value, 0.0)
                else:
                    benefits[i] = abs(value)
                benefits[i] += 2 * extra[i, t]
            ordered = np.sort(benefits)
            flips = 0
            while flips < most and lacking > 0:
                flips += 1
                lacking -= ordered[n - flips]
            costs[t, c] = max(1, flips)


@njit(nogil=True, cache=True)
def weighted_member_costs(
    g: NDArray[np.float64],
    extra: NDArray[np.float64],
    codes: NDArray[np.int64],
    n_classes: int,
    balance: float,
    votes: NDArray[Any],
    costs: NDArray[np.int32],
) -> None:
    """The same for targets that are weighted by how rare a class is; all that rounding may do is in ``extra``."""
    n = len(codes)
    counts = np.zeros(n_classes, np.int64)
    for code in codes:
        counts[code] += 1
    weight = np.empty(2 * n + 2)
    for count in range(1, len(weight)):
        weight[count] = count**-balance
    # Prefix sums: what leaves a class and what comes to it, the most useful first.
    leaving, coming = np.zeros(n + 1), np.zeros(n + 1)
    lowest = np.empty(n + 1)
    for t in range(len(votes)):
        v = votes[t]
        low, high = g[:, t] - extra[:, t], g[:, t] + extra[:, t]
        by_low, by_high = np.argsort(low), np.argsort(-high)
        out, into = _prefixes(low, by_low[::-1], by_low, codes, v, leaving, coming)
        total = low[codes == v].sum()
        slack = 1e-9 * np.abs(g[:, t]).sum()  # what our own sums and powers may be off, many times over
        known = 0  # lowest f_v for so many flips, worked out as far as it is needed
        lowest[0] = total * weight[counts[v]]
        rival_out, rival_in = np.zeros(n + 1), np.zeros(n + 1)
        for c in range(n_classes):
            if c == v:
                costs[t, c] = 0
                continue
            rivals_out, rivals_in = _prefixes(high, by_high[::-1], by_high, codes, c, rival_out, rival_in)
            ours = high[codes == c].sum() if counts[c] else 0.0
            highest = ours * weight[counts[c]] if counts[c] else -np.inf
            flips = 0
            while flips < counts[v] and highest + slack < lowest[flips]:
                flips += 1
                if flips > known:
                    known = flips
                    lowest[flips] = lowest[flips - 1]
                    for came in range(min(flips, into) + 1):
                        left = counts[v] - (flips - came)
                        if flips - came <= out and left + came > 0:
                            score = (total - leaving[flips - came] + coming[came]) * weight[left + came]
                            lowest[flips] = min(lowest[flips], score)
                for gone in range(min(flips, rivals_out) + 1):
                    held = counts[c] - gone + flips - gone
                    if flips - gone <= rivals_in and held > 0:
                        score = (ours - rival_out[gone] + rival_in[flips - gone]) * weight[held]
                        highest = max(highest, score)
            costs[t, c] = max(1, flips)


@njit(nogil=True, cache=True)
def _prefixes(
    values: NDArray[np.float64],
    order_out: NDArray[np.int64],
    order_in: NDArray[np.int64],
    codes: NDArray[np.int64],
    c: int,
    out: NDArray[np.float64],
    into: NDArray[np.float64],
) -> tuple[int, int]:
    """Fill sums of the first values of class c in one order, and of all other classes in another; how many of each."""
    n_out = n_in = 0
    for i in order_out:
        if codes[i] == c:
            out[n_out + 1] = out[n_out] + values[i]
            n_out += 1
    for i in order_in:
        if codes[i] != c:
            into[n_in + 1] = into[n_in] + values[i]
            n_in += 1
    return n_out, n_in


@njit(nogil=True, cache=True)
def flip_radii(
    votes: NDArray[Any],
    costs: NDArray[np.int32],
    n_classes: int,
    d: int,
    most: int,
    prediction: NDArray[np.int64],
    radius: NDArray[np.int64],
) -> None:
    """Fill prediction and radius of each row of votes; costs[t, i, c] as `member_costs` gives them, or `NEVER`.

    ``most`` is the radius where no number of flips changes the prediction.
    """
    n_test, n = votes.shape
    steps = np.empty(2 * n, np.int64)
    counts = np.zeros(n_classes + 1, np.int64)
    for t in range(n_test):
        counts[:] = 0
        for i in range(n):
            counts[min(votes[t, i], n_classes)] += 1
        p = int(np.argmax(counts[:n_classes]))
        prediction[t] = p
        radius[t] = most
        for c in range(n_classes):
            if c == p:
                continue
            lead = counts[p] - counts[c] - (c < p)
            n_steps = 0
            for i in range(n):
                v = votes[t, i]
                wanted = np.int64(costs[t, i, c])
                if v == c:
                    continue
                if v == p:
                    leaving = np.int64(NEVER)
                    for x in range(n_classes):
                        if x != p:
                            leaving = min(leaving, np.int64(costs[t, i, x]))
                    if leaving >= NEVER:
                        continue
                    if wanted < 2 * leaving:
                        steps[n_steps], steps[n_steps + 1] = wanted, wanted
                    else:
                        steps[n_steps], steps[n_steps + 1] = 2 * leaving, 2 * (wanted - leaving)
                    n_steps += 2
                elif wanted < NEVER:
                    steps[n_steps] = 2 * wanted
                    n_steps += 1
            if n_steps <= lead:
                continue
            cheapest = np.sort(steps[:n_steps])
            total = 0
            for at in range(lead + 1):
                total += cheapest[at]
            needed = (total + 1) // 2
            radius[t] = min(radius[t], max(0, (needed - 1) // d))

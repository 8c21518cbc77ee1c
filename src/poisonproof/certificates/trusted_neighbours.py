"""Radii of nearest neighbours where some voters are trusted: they vote like the others and cannot be removed.

G(M) is how many more of the first M samples are of the prediction p than of a rival c, u_p(M) and u_o(M) how many
samples of p, and of neither, among the first M an attacker can remove. e insertions and q removals leave a lead of
G(M) − e − min(q, u_p(M)) at least, with M = K − e + q, and to remove samples of c is never better than not to. So q is
at most u_p(M) + u_o(M). Proof: docs/ballots.md, Theorem 8. Without trusted voters this is what `neighbours` computes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.certificates.ballots import Counts, Radii
from poisonproof.certificates.neighbours import ROWS_PER_TASK, most_voted
from poisonproof.system.compiled import njit
from poisonproof.system.threads import in_threads


def certify_order_with_trusted(
    order: NDArray[Any],
    trusted: NDArray[np.bool_],
    n_neighbors: int,
    n_samples: int,
    n_trusted: int,
    n_classes: int,
    *,
    inferred: bool,
    n_jobs: int = -1,
) -> Radii:
    """Radii from the labels of the nearest samples, and which of these samples are trusted.

    Parameters
    ----------
    order : array (n_test, n_listed) of class codes
        As in `certify_order`, trusted samples among them. No training sample has the content of a trusted one.
    trusted : array (n_test, n_listed) of bool
    n_samples : int
        How many samples there are in all, trusted ones included.
    n_trusted : int
    """
    arrays = [np.empty(len(order), np.int64) for _ in range(8)]

    def work(start: int, stop: int) -> None:
        parts = [array[start:stop] for array in arrays]
        codes = order[start:stop].astype(np.int64)
        n_free = n_samples - n_trusted
        _certify_rows(codes, ~trusted[start:stop], n_neighbors, n_samples, n_free, n_classes, inferred, *parts)

    in_threads(len(order), ROWS_PER_TASK, work, n_jobs)
    prediction, runner_up, margin, insert_remove, insert, remove, label_flip, modify = arrays
    exact = np.ones(len(order), np.bool_)
    return Radii(prediction, runner_up, margin, insert_remove, insert, remove, label_flip, modify, exact)


@njit(nogil=True, cache=True)
def _certify_rows(
    order: NDArray[Any],
    free: NDArray[np.bool_],
    k: int,
    n_samples: int,
    n_free: int,
    n_classes: int,
    inferred: bool,
    prediction: Counts,
    runner_up: Counts,
    margin: Counts,
    insert_remove: Counts,
    insert: Counts,
    remove: Counts,
    label_flip: Counts,
    modify: Counts,
) -> None:
    listed = order.shape[1]
    n_votes = min(k, listed)
    for t in range(len(order)):
        p = most_voted(order[t, :n_votes], n_classes)
        prediction[t], runner_up[t] = p, -1
        margin[t] = insert_remove[t] = insert[t] = n_samples + k
        remove[t] = label_flip[t] = modify[t] = n_free
        if listed < n_samples:  # a radius never claims what the list does not show
            insert_remove[t], remove[t] = listed - k, min(n_free, listed - k)
            modify[t] = min(n_free, listed - k)
        for c in range(n_classes + inferred):
            if c == p:
                continue
            tie = 1 if c < p or c == n_classes else 0
            leads, free_p, free_other = _running(order[t], free[t], p, c)
            lead = max(0, leads[n_votes] - tie)
            both, changed = _smallest(leads, free_p, free_other, k, n_samples, n_free, tie)
            if runner_up[t] < 0 or (both - 1, lead) < (insert_remove[t], margin[t]):
                runner_up[t] = c
            margin[t] = min(margin[t], lead)
            insert_remove[t] = min(insert_remove[t], both - 1)
            modify[t] = min(modify[t], changed - 1)
            insert[t] = min(insert[t], _inserted(leads, k, tie) - 1)
            label_flip[t] = min(label_flip[t], _flipped(lead, free_p[n_votes], free_other[n_votes], n_free))
            if c != n_classes:
                remove[t] = min(remove[t], _removed(leads, free_p, free_other, k, n_samples, n_free, tie) - 1)


@njit(nogil=True, cache=True)
def _running(order: NDArray[Any], free: NDArray[np.bool_], p: int, c: int) -> tuple[Counts, Counts, Counts]:
    """Of the first M samples, for every M: G(M), u_p(M), u_o(M)."""
    leads, free_p, free_other = (
        np.zeros(len(order) + 1, np.int64),
        np.zeros(len(order) + 1, np.int64),
        np.zeros(len(order) + 1, np.int64),
    )
    for at in range(len(order)):
        leads[at + 1] = leads[at] + (order[at] == p) - (order[at] == c)
        free_p[at + 1] = free_p[at] + (free[at] and order[at] == p)
        free_other[at + 1] = free_other[at] + (free[at] and order[at] != p and order[at] != c)
    return leads, free_p, free_other


@njit(nogil=True, cache=True)
def _smallest(
    leads: Counts, free_p: Counts, free_other: Counts, k: int, n_samples: int, n_free: int, tie: int
) -> tuple[int, int]:
    """The least e + q, and the least max(e, q), with G(M) − e − min(q, u_p(M)) < tie and q ≤ u_p(M) + u_o(M).

    For every D = q − e, with M = min(K + D, n), the least e; what it takes from the lead only grows with e.
    """
    listed = len(leads) - 1
    both, changed = n_samples + k + 1, n_free + 1
    for more in range(-k, n_samples + 1):
        first = min(k + more, n_samples)
        if first > listed:
            break
        needed = leads[first] - tie + 1
        e = max(0, -more)
        if e + min(e + more, free_p[first]) < needed:
            e = -((more - needed) // 2)
            if e + more > free_p[first]:
                e = needed - free_p[first]
        q = e + more
        if q <= free_p[first] + free_other[first]:
            both = min(both, e + q)
            changed = min(changed, max(e, q))
    return max(1, both), max(1, changed)  # an invented class may tie already, and need only appear


@njit(nogil=True, cache=True)
def _inserted(leads: Counts, k: int, tie: int) -> int:
    """The least e with G(K − e) − e < tie."""
    for size in range(k + 1):
        if leads[min(k - size, len(leads) - 1)] - size < tie:
            return max(1, size)
    return k + 1


@njit(nogil=True, cache=True)
def _removed(leads: Counts, free_p: Counts, free_other: Counts, k: int, n_samples: int, n_free: int, tie: int) -> int:
    """The least q with G(K + q) − min(q, u_p) < tie, no sample of the rival having to go."""
    for size in range(n_free + 1):
        first = min(k + size, n_samples)
        if first > len(leads) - 1:
            break
        if size <= free_p[first] + free_other[first] and leads[first] - min(size, free_p[first]) < tie:
            return max(1, size)
    return n_free + 1


@njit(nogil=True, cache=True)
def _flipped(lead: int, twos: int, ones: int, n_free: int) -> int:
    """Flips of free voters of p cost 2, of a third class 1."""
    if lead // 2 < twos:
        return lead // 2
    left = lead - 2 * twos
    return twos + left if left < ones else n_free

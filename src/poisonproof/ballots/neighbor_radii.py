"""Radii of nearest neighbours: the K nearest training samples vote; from their labels in order to radii.

G(M) is how many more of the first M samples are of the prediction p than of a rival. e insertions at x push the last e
voters out, q removals let the next q in, so the voters are the e poisons and the first M = K − e + q others less q of
them: the lead stays at or above G(M) − e − q, and the attacker picks e and q. Proofs: docs/proofs/ballots.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.ballots.radii import Counts, Radii
from poisonproof.system.compiled import njit
from poisonproof.system.threads import in_threads

ROWS_PER_TASK = 64


def certify_order(
    order: NDArray[Any],
    n_neighbors: int,
    n_samples: int,
    n_classes: int,
    *,
    inferred: bool,
    contributors: bool = False,
    n_jobs: int = -1,
) -> Radii:
    """Radii from the labels of the nearest training samples.

    Parameters
    ----------
    order : array (n_test, n_listed) of class codes
        Labels of the nearest training samples, nearest first; at least n_neighbors of them, or all there are. A radius
        never claims what the list does not show: K further samples are enough for all threats but removal, of which
        at most n_listed − K are stated.
    n_samples : int
        How many training samples there are in all.
    contributors : bool
        Each voter is a contributor, shown by its nearest sample: then one act may replace a voter, and what counts as
        a modification of samples is the radius.
    """
    arrays = [np.empty(len(order), np.int64) for _ in range(8)]
    exact = np.ones(len(order), np.bool_)

    def work(start: int, stop: int) -> None:
        parts = [array[start:stop] for array in arrays]
        codes = order[start:stop].astype(np.int64)  # one type, so that the kernel is compiled once
        _certify_rows(codes, n_neighbors, n_samples, n_classes, inferred, contributors, *parts)

    in_threads(len(order), ROWS_PER_TASK, work, n_jobs)
    prediction, runner_up, margin, *radii = arrays
    insert_remove, insert, remove, label_flip, modify = radii
    return Radii(prediction, runner_up, margin, insert_remove, insert, remove, label_flip, modify, exact)


@njit(nogil=True, cache=True)
def _certify_rows(
    order: NDArray[Any],
    n_neighbors: int,
    n_samples: int,
    n_classes: int,
    inferred: bool,
    contributors: bool,
    prediction: Counts,
    runner_up: Counts,
    margin: Counts,
    insert_remove: Counts,
    insert: Counts,
    remove: Counts,
    label_flip: Counts,
    modify: Counts,
) -> None:
    n_listed = order.shape[1]
    n_votes = min(n_neighbors, n_listed)
    of_p = np.empty(n_listed + 1, np.int64)
    of_c = np.empty(n_listed + 1, np.int64)
    for t in range(len(order)):
        p = most_voted(order[t, :n_votes], n_classes)
        _running(order[t], p, of_p)
        prediction[t], runner_up[t], nearest = p, -1, 0  # the lead over the runner-up
        margin[t] = insert_remove[t] = insert[t] = remove[t] = label_flip[t] = modify[t] = n_samples + n_neighbors
        for c in range(n_classes + inferred):
            if c == p:
                continue
            _running(order[t], c, of_c)
            invented = c == n_classes
            tie = 1 if c < p or invented else 0
            lead = max(0, of_p[n_votes] - of_c[n_votes] - tie)
            both = _both(of_p, of_c, n_neighbors, n_samples, tie)
            changed = _changed(of_p, of_c, n_neighbors, n_samples, tie)
            flipped = _flipped(lead, of_p[n_votes], n_votes - of_p[n_votes] - of_c[n_votes], n_samples)
            limit = changed if contributors else both
            if runner_up[t] < 0 or (limit, lead) < (insert_remove[t], nearest):
                runner_up[t], nearest = c, lead
            insert_remove[t] = min(insert_remove[t], limit)
            margin[t] = min(margin[t], lead)
            insert[t] = min(insert[t], _inserted(of_p, of_c, n_neighbors, tie))
            modify[t] = min(modify[t], changed)
            label_flip[t] = min(label_flip[t], changed if contributors else flipped)
            if not invented:
                remove[t] = min(remove[t], _removed(of_p, of_c, n_neighbors, n_samples, tie))
        remove[t] = min(remove[t], n_samples)


@njit(nogil=True, cache=True)
def most_voted(labels: NDArray[Any], n_classes: int) -> int:
    """The class that stands most often among the labels; ties go to the smaller one."""
    counts = np.zeros(n_classes, np.int64)
    for label in labels:
        if 0 <= label < n_classes:  # the caller may have written into the array since it was checked
            counts[label] += 1
    winner = 0
    for c in range(1, n_classes):
        if counts[c] > counts[winner]:
            winner = c
    return winner


@njit(nogil=True, cache=True)
def _running(order: NDArray[Any], c: int, running: Counts) -> None:
    """running[M]: how many of the first M are of class c."""
    running[0] = 0
    for at in range(len(order)):
        running[at + 1] = running[at] + (order[at] == c)


@njit(nogil=True, cache=True)
def _lead(of_p: Counts, of_c: Counts, first: int) -> int:
    """G(M), read as G(n) beyond the last sample."""
    at = min(first, len(of_p) - 1)
    return of_p[at] - of_c[at]


@njit(nogil=True, cache=True)
def _both(of_p: Counts, of_c: Counts, k: int, n_samples: int, tie: int) -> int:
    """The largest r with G(M) − r' ≥ tie for r' ≤ r and M = K − r', K − r' + 2, …, K + r'.

    The window of r' is that of r' − 2 and its two new ends, so two running minima are enough.
    """
    listed = len(of_p) - 1
    smallest = np.full(2, k + n_samples, np.int64)
    for size in range(k + 1):
        if k + size > listed and listed < n_samples:
            return size - 1
        even = size % 2
        smallest[even] = min(smallest[even], _lead(of_p, of_c, k - size), _lead(of_p, of_c, k + size))
        if smallest[even] - size < tie:
            return max(0, size - 1)
    return k


@njit(nogil=True, cache=True)
def _changed(of_p: Counts, of_c: Counts, k: int, n_samples: int, tie: int) -> int:
    """The largest r with G(K − e + q) − e − q ≥ tie for all e, q ≤ r.

    Of all e, q with the same K − e + q the largest count, so with D = q − e: G(K + D) + |D| − 2r ≥ tie for |D| ≤ r.
    """
    listed = len(of_p) - 1
    smallest = k + n_samples
    for size in range(k + 1):
        if k + size > listed and listed < n_samples:
            return size - 1
        smallest = min(smallest, _lead(of_p, of_c, k - size) + size, _lead(of_p, of_c, k + size) + size)
        if smallest - 2 * size < tie:
            return max(0, size - 1)
    return k


@njit(nogil=True, cache=True)
def _inserted(of_p: Counts, of_c: Counts, k: int, tie: int) -> int:
    """The largest r with G(K − e) − e ≥ tie for e ≤ r."""
    for size in range(k + 1):
        if _lead(of_p, of_c, k - size) - size < tie:
            return max(0, size - 1)
    return k


@njit(nogil=True, cache=True)
def _removed(of_p: Counts, of_c: Counts, k: int, n_samples: int, tie: int) -> int:
    """The largest r with G(K + q) − min(q, samples of p) ≥ tie for q ≤ r, unless samples of the rival must go too."""
    listed = len(of_p) - 1
    for size in range(n_samples + 1):
        if k + size > listed and listed < n_samples:
            return size - 1
        at = min(k + size, listed)
        if size > at - of_c[at]:
            continue
        if of_p[at] - of_c[at] - min(size, of_p[at]) < tie:
            return max(0, size - 1)
    return n_samples


@njit(nogil=True, cache=True)
def _flipped(lead: int, twos: int, ones: int, n_samples: int) -> int:
    """Flips of voters of p cost 2, of a third class 1."""
    if lead // 2 < twos:
        return lead // 2
    left = lead - 2 * twos
    return twos + left if left < ones else n_samples

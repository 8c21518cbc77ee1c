"""Radii of ballots where contributors vote: each has one voice, however many samples it sends.

The ballots of a contributor are a whole vector over the classes, cut to a length (sum of magnitudes) of at most B, its
voices. So whatever a malicious contributor sends, it holds a lead down by B at most, and the lead it gave is lost.
Proofs: docs/ballots.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poisonproof.certificates.ballots import NEVER, Counts, Radii
from poisonproof.system.compiled import copy_into, njit
from poisonproof.system.threads import in_threads
from poisonproof.votes.ballots import Voices

ROWS_PER_TASK = 8


def certify_voices(
    near: NDArray[np.integer],
    totals: Counts,
    sizes: Counts,
    voices: Voices,
    *,
    one_sided: bool,
    inferred: bool,
    n_jobs: int = -1,
) -> tuple[Counts, Radii]:
    """Scores (n_test, n_classes) of all voices together, and radii that count contributors.

    Parameters
    ----------
    near : array (n_test, n_cells)
        Near samples in each cell; a cell is what one contributor has of one class.
    totals : array (n_cells,)
        Samples in each cell.
    sizes : array (n_classes,)
        Declared constants, in voices.
    voices : Voices
        The length to which a contributor's ballots are cut, the class of each cell, and where the cells of each
        contributor begin.
    """
    n_test, n_classes = len(near), len(sizes)
    scores = np.empty((n_test, n_classes), np.int64)
    arrays = [np.empty(n_test, np.int64) for _ in range(6)]

    def work(start: int, stop: int) -> None:
        parts = [array[start:stop] for array in arrays]
        cells = np.ascontiguousarray(near[start:stop], dtype=np.int64)
        rule = (voices.classes, voices.starts, sizes, voices.most, one_sided, inferred)
        _certify_rows(cells, totals, *rule, scores[start:stop], *parts)

    in_threads(n_test, ROWS_PER_TASK, work, n_jobs)
    prediction, runner_up, margin, radius, insert, remove = arrays
    exact = np.ones(n_test, np.bool_)
    # A contributor may do anything to its own samples: flips and changes cost what the rest costs.
    return scores, Radii(prediction, runner_up, margin, radius, insert, remove, radius.copy(), radius.copy(), exact)


@njit(nogil=True, cache=True)
def cut(ballots: Counts, voices: int) -> None:
    """Cut whole numbers to a sum of magnitudes of at most ``voices``, in place, by largest remainder.

    Among equal remainders the earlier entry is served first.
    """
    length = 0
    for i in range(len(ballots)):
        length += abs(ballots[i])
    if length <= voices:
        return
    remainders = np.empty(len(ballots), np.int64)
    left = voices
    negative = ballots < 0
    for i in range(len(ballots)):
        share = abs(ballots[i]) * voices
        ballots[i] = share // length
        remainders[i] = share % length
        left -= ballots[i]
    for _ in range(left):
        best = 0
        for i in range(1, len(ballots)):
            if remainders[i] > remainders[best]:
                best = i
        ballots[best] += 1
        remainders[best] = -1
    for i in range(len(ballots)):
        if negative[i]:
            ballots[i] = -ballots[i]


@njit(nogil=True, cache=True)
def heard_rows(
    near: Counts,
    totals: Counts,
    classes: Counts,
    starts: Counts,
    sizes: Counts,
    voices: int,
    one_sided: bool,
    heard: Counts,
    scores: Counts,
) -> None:
    """Fill what is heard of every cell about one test sample, and the score of every class."""
    copy_into(scores, sizes)
    for g in range(len(starts) - 1):
        for cell in range(starts[g], starts[g + 1]):
            heard[cell] = near[cell] if one_sided else 2 * near[cell] - totals[cell]
        cut(heard[starts[g] : starts[g + 1]], voices)
        for cell in range(starts[g], starts[g + 1]):
            scores[classes[cell]] += heard[cell]


@njit(nogil=True, cache=True)
def _certify_rows(
    near: Counts,
    totals: Counts,
    classes: Counts,
    starts: Counts,
    sizes: Counts,
    voices: int,
    one_sided: bool,
    inferred: bool,
    scores: Counts,
    prediction: Counts,
    runner_up: Counts,
    margin: Counts,
    radius: Counts,
    insert: Counts,
    remove: Counts,
) -> None:
    n_contributors, n_classes = len(starts) - 1, len(sizes)
    heard = np.empty(len(totals), np.int64)
    gains = np.empty(n_contributors, np.int64)
    held = np.zeros(n_classes, np.int64)
    for cell in range(len(classes)):
        held[classes[cell]] += 1
    for t in range(len(near)):
        total = scores[t]
        heard_rows(near[t], totals, classes, starts, sizes, voices, one_sided, heard, total)
        p = 0
        for c in range(1, n_classes):
            if total[c] > total[p]:
                p = c
        prediction[t], runner_up[t], nearest = p, -1, 0  # the lead over the runner-up
        margin[t] = radius[t] = insert[t] = NEVER
        remove[t] = n_contributors
        if inferred and n_classes > 1:
            remove[t] = held[p] - 1
        for c in range(n_classes + inferred):
            if c == p:
                continue
            invented = c == n_classes
            lead = total[p] - 1 if invented else total[p] - total[c] - (c < p)
            lead = max(0, lead)
            count = 0
            for g in range(n_contributors):
                gain = 0
                for cell in range(starts[g], starts[g + 1]):
                    if classes[cell] == p:
                        gain += heard[cell]
                    elif classes[cell] == c:
                        gain -= heard[cell]
                if gain > 0:
                    gains[count] = gain
                    count += 1
            largest = np.sort(gains[:count])[::-1]
            turned = most_turned(largest, voices, lead)
            if runner_up[t] < 0 or (turned, lead) < (radius[t], nearest):
                runner_up[t], nearest = c, lead
            radius[t], margin[t] = min(radius[t], turned), min(margin[t], lead)
            insert[t] = min(insert[t], lead // voices)
            if not invented:
                remove[t] = min(remove[t], most_turned(largest, 0, lead))


@njit(nogil=True, cache=True)
def most_turned(largest: Counts, voices: int, lead: int) -> int:
    """How many contributors can turn against p: each costs its gain and its voices, newcomers their voices alone."""
    for count in range(len(largest)):
        lead -= largest[count] + voices
        if lead < 0:
            return count
    return len(largest) + lead // voices if voices else NEVER

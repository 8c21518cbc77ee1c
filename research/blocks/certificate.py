"""Blocks of ballots: members learn a map each from their own subset, and all training samples vote in every map.

One poison can change the maps of the d members it feeds, and with them any verdict of theirs. In every other member it
moves the lead of one class over another by 1 at most. So with r poisons, for the prediction p and a rival c, call what
a member is worth to p: +1 if its verdict is p by more than r can undo, −1 if c could win in it within r, 0 otherwise.
Members that are reached are worth −1 at worst. With w the worths and Δ_j = Σ over the members that partition j feeds
of (1 + w): if (sum of the r largest Δ_j) ≤ Σ w − [c < p] for every c, no r poisons change the prediction. Proof:
research/blocks/README.md.

A flipped label changes no map, for maps are learned without labels; it moves a lead by 2 at most.

Arrays in, arrays out, in int64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.spread import Spread
from poisonproof.system.compiled import njit
from poisonproof.system.threads import in_threads

Counts = NDArray[np.int64]
NEVER = np.iinfo(np.int64).max // 4  # poisons that no verdict withstands and no class needs
ROWS_PER_TASK = 16


class BlockRadii(NamedTuple):
    """For every test sample: the prediction, the class that sets the radius, the margin of verdicts, and radii."""

    prediction: Counts
    runner_up: Counts
    margin: Counts
    insert_remove: Counts
    label_flip: Counts


class Verdicts(NamedTuple):
    """What members say of test samples, and how many poisons that do not reach a member would change it.

    ``verdict``: array (n_test, n_members) of class codes; the number of classes for a member that abstains.
    ``needed``: array (n_test, n_members, n_classes), the least number of unit moves with which a class could win; 0 for
    the verdict itself. Rivals are the classes, which must be declared.
    """

    verdict: Counts
    needed: Counts


def verdicts_of(scores: NDArray[np.int64], abstains: NDArray[np.bool_]) -> Verdicts:
    """From the score of every class in every member (n_test, n_members, n_classes); ties go to the smaller class.

    Class c wins a member when its score is above that of smaller classes and not below that of larger ones. The classes
    must be declared: with the last sample of one that was read off the rows it would vanish, and its members' verdicts
    go to others without any gap being closed.
    """
    n_classes = scores.shape[2]
    verdict = scores.argmax(axis=2)
    needed = np.zeros(scores.shape, np.int64)
    for c in range(n_classes):
        before = scores[:, :, :c].max(axis=2, initial=-NEVER) + 1
        behind = scores[:, :, c:].max(axis=2, initial=-NEVER)
        needed[:, :, c] = np.maximum(np.maximum(before, behind) - scores[:, :, c], 0)
    verdict = np.where(abstains, n_classes, verdict)
    needed[np.broadcast_to(abstains, verdict.shape)] = NEVER  # until it is reached, it abstains
    return Verdicts(verdict, needed)


def certify_blocks(verdicts: Verdicts, spread: Spread, n_samples: int) -> BlockRadii:
    """Radii from verdicts; sound for every spread. No more labels than there are samples can be flipped."""
    verdict = np.ascontiguousarray(verdicts.verdict, dtype=np.int64)
    needed = np.ascontiguousarray(verdicts.needed, dtype=np.int64)
    arrays = [np.zeros(len(verdict), np.int64) for _ in range(5)]
    table = np.array([spread.subsets_of(partition) for partition in range(spread.n_partitions)], np.int64)

    def work(start: int, stop: int) -> None:
        _certify(
            verdict[start:stop],
            needed[start:stop],
            table,
            n_samples,
            *(array[start:stop] for array in arrays),
        )

    in_threads(len(verdict), ROWS_PER_TASK, work)
    return BlockRadii(*arrays)


@njit(nogil=True, cache=True)
def _certify(
    verdicts: Counts,
    needed: Counts,
    table: Counts,
    n_samples: int,
    prediction: Counts,
    runner_up: Counts,
    margin: Counts,
    insert_remove: Counts,
    label_flip: Counts,
) -> None:
    n_members, n_classes = needed.shape[1], needed.shape[2]
    worth = np.empty(n_members, np.int64)
    own_radius = np.empty(n_members, np.int64)
    for t in range(len(verdicts)):
        votes = np.zeros(n_classes, np.int64)
        for i in range(n_members):
            if verdicts[t, i] < n_classes:
                votes[verdicts[t, i]] += 1
        p = int(np.argmax(votes))
        for i in range(n_members):  # unit moves that a verdict for p withstands
            own_radius[i] = -1
            if verdicts[t, i] == p:
                least = NEVER
                for c in range(n_classes):
                    if c != p:
                        least = min(least, needed[t, i, c])
                own_radius[i] = least - 1
        best, flips = len(table), n_samples
        smallest, first = NEVER, n_classes
        any_rival = False
        for c in range(n_classes):
            if c == p:
                continue
            tie = 1 if c < p else 0
            lead = votes[p] - votes[c] - tie
            radius = best
            while radius > 0 and not _withstands(t, c, radius, own_radius, needed, table, tie, worth):
                radius -= 1
            if not any_rival or (radius, lead) < (best, smallest):
                first, smallest, any_rival = c, lead, True
            best = min(best, radius)
            flips = _withstood_flips(t, c, flips, own_radius, needed, tie, worth)
        prediction[t], runner_up[t], margin[t] = p, first, max(min(smallest, n_members), 0)
        insert_remove[t], label_flip[t] = best, flips


@njit(nogil=True, cache=True)
def _worths(t: int, c: int, moves: int, own_radius: Counts, needed: Counts, worth: Counts) -> int:
    """What every member that is not reached is worth after so many unit moves, at worst; and the sum."""
    total = 0
    for i in range(len(own_radius)):
        worth[i] = 1 if own_radius[i] >= moves else -1 if needed[t, i, c] <= moves else 0
        total += worth[i]
    return total


@njit(nogil=True, cache=True)
def _withstood_flips(t: int, c: int, most: int, own_radius: Counts, needed: Counts, tie: int, worth: Counts) -> int:
    """The most flipped labels, up to a number, after which the members' worths are still enough; 0 if none are."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if _worths(t, c, 2 * middle, own_radius, needed, worth) >= tie:
            low = middle
        else:
            high = middle - 1
    return low


@njit(nogil=True, cache=True)
def _withstands(
    t: int, c: int, radius: int, own_radius: Counts, needed: Counts, table: Counts, tie: int, worth: Counts
) -> bool:
    lead = _worths(t, c, radius, own_radius, needed, worth) - tie
    if lead < 0:
        return False
    counts = np.zeros(2 * table.shape[1] + 1, np.int64)  # partitions by their Δ
    for j in range(table.shape[0]):
        delta = 0
        for i in table[j]:
            delta += 1 + worth[i]
        counts[delta] += 1
    left = radius
    for delta in range(len(counts) - 1, 0, -1):
        taken = min(left, counts[delta])
        lead -= taken * delta
        left -= taken
        if lead < 0:
            return False
        if left == 0:
            break
    return True

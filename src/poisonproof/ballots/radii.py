"""Radii of ballots: every training sample votes about x through a fixed map; from whole counts to exact radii.

A sample of class c adds +1 to F_c if it is near x and −1 if it is far (two-sided), or +1 and 0 (one-sided). One
insertion or removal moves one F by 1, so it changes a lead by 1 at most. Proofs: docs/proofs/ballots.md.

Everything here is arrays in, arrays out, in int64.

Radii of ballots where contributors vote: each has one voice, however many samples it sends.

The ballots of a contributor are a whole vector over the classes, cut to a length (sum of magnitudes) of at most B, its
voices. So whatever a malicious contributor sends, it holds a lead down by B at most, and the lead it gave is lost.
Proofs: docs/proofs/ballots.md.

How many poisons until the prediction could become one given class, where training samples vote; in integers.

Notation as in `poisonproof.ballots.radii` and `poisonproof.ballots.neighbor_radii`; c is the target. After an
attack c is the prediction if and only if it stands above *every* other class x, that is F_x − F_c + [x < c] ≤ 0.

*Ballots.* One poison moves one F by 1. With declared classes c needs F_p − F_c − [c < p] + 1 of them, and so many
copies of the test sample labelled c are enough: they lift c above p, and p stood above all others. So the lead over c
alone is the radius, and it is **exact**. With inferred classes a class also vanishes with its last sample; then a
poisons lift c, and each class x that is still above it is held down one by one or loses its T_x samples, whichever is
cheaper: the smallest attack is the least a + Σ_x min((F_x − F_c + [x < c] − a)⁺, T_x) over a ≥ 0. Exact again.

*Neighbours.* Nothing serves c better than copies of the test sample labelled c, and removals of others: of e such
copies and q removals the voters are the e copies and the first M = K − e + q others less q of them. With n_x(M) of
class x among the first M, c can win exactly if Σ_x (n_x(M) − n_c(M) − e + [x < c])⁺ ≤ q ≤ M − n_c(M). e + q counts
samples; a contributor may do both at once, so with contributors e and q may each be as large as the attack. **Exact**
where a copy of the test sample comes first.

*Voices.* One class x that stays above c is enough, so the largest radius over all x of the election between x and c is
sound. It is exact where the contributors that cost x most, turned to c, make it win: that attack is tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.certify import TargetRadii
from poisonproof.system.compiled import copy_into, njit
from poisonproof.system.threads import in_threads

if TYPE_CHECKING:
    from poisonproof.ballots.tallies import Ballots, Neighbours, Voices

Counts = NDArray[np.int64]
NEVER = np.iinfo(np.int64).max  # no attack of any size


class Radii(NamedTuple):
    """For every test sample: prediction, the class that sets the radius, margin, and a radius for each threat.

    ``exact``: whether an attack of size ``insert_remove`` + 1 is known to succeed.
    """

    prediction: Counts
    runner_up: Counts
    margin: Counts
    insert_remove: Counts
    insert: Counts
    remove: Counts
    label_flip: Counts
    modify: Counts
    exact: NDArray[np.bool_]

    @property
    def others(self) -> dict[str, Counts]:
        """The radii beside the one that a certificate is known by, by threat."""
        return {name: getattr(self, name) for name in ("insert", "remove", "label_flip", "modify")}


@dataclass(frozen=True)
class Leads:
    """Who leads by how much: the prediction p, and for every rival its lead less one where a tie goes against p.

    With inferred classes the last column is a class that nobody has seen: without votes, and it wins ties. The column
    of the prediction itself holds `NEVER`.
    """

    prediction: Counts
    leads: Counts

    @classmethod
    def of(cls, scores: Counts, inferred: bool) -> Leads:
        """From the score of every class (n_test, n_classes); ties go to the smaller class."""
        prediction = scores.argmax(axis=1)
        rows, classes = np.arange(len(scores)), np.arange(scores.shape[1])
        top = scores[rows, prediction][:, None]
        leads = top - scores - (classes < prediction[:, None])
        leads[rows, prediction] = NEVER
        if inferred:
            leads = np.column_stack([leads, np.maximum(top - 1, 0)])
        return cls(prediction, leads)

    @property
    def runner_up(self) -> Counts:
        """The rival with the smallest lead, the first of several."""
        return self.leads.argmin(axis=1)

    @property
    def margin(self) -> Counts:
        """The smallest lead; never negative."""
        return self.leads.min(axis=1)


def certify_counts(
    near: Counts,
    totals: Counts,
    sizes: Counts,
    *,
    one_sided: bool,
    inferred: bool,
) -> Radii:
    """Exact radii from counts.

    Parameters
    ----------
    near : array (n_test, n_classes)
        How many training samples of each class are near each test sample.
    totals : array (n_classes,)
        How many training samples each class has.
    sizes : array (n_classes,)
        Constants from outside, added to the scores: declared class sizes, zero with inferred classes.
    one_sided : bool
        Far samples count 0 instead of −1.
    inferred : bool
        Whether the class list was read off the training data: then one more rival stands for any class that an
        attacker invents, and a class vanishes with its last sample.
    """
    near, totals = np.asarray(near, np.int64), np.asarray(totals, np.int64)
    far = totals - near
    scores = near + sizes if one_sided else near - far + sizes
    standing = Leads.of(scores, inferred)
    return Radii(
        standing.prediction,
        standing.runner_up,
        standing.margin,
        insert_remove=standing.margin.copy(),
        insert=standing.margin.copy(),
        remove=_removals(near, far, totals, standing, one_sided, inferred),
        label_flip=_changes(near, totals, standing, one_sided, inferred, features_too=False),
        modify=_changes(near, totals, standing, one_sided, inferred, features_too=True),
        exact=np.ones(len(near), np.bool_),
    )


def _removals(
    near: Counts,
    far: Counts,
    totals: Counts,
    standing: Leads,
    one_sided: bool,
    inferred: bool,
) -> Counts:
    """Removing a near sample of p or a far one of the rival costs 1, anything else nothing or less.

    The lead is lost at once with more than m such samples; with fewer, never. Where classes are inferred, a rival must
    keep one sample to be there, and p vanishes with its last one.
    """
    rows, n_classes = np.arange(len(near)), near.shape[1]
    leads = standing.leads[:, :n_classes]
    useful = near[rows, standing.prediction][:, None] + (0 if one_sided else far)
    if inferred and not one_sided:
        useful = useful - (near == 0)
    radius = np.where(useful > leads, leads, NEVER).min(axis=1)
    if inferred and n_classes > 1:
        radius = np.minimum(radius, totals[standing.prediction] - 1)
    return np.minimum(radius, totals.sum())


def _changes(
    near: Counts, totals: Counts, standing: Leads, one_sided: bool, inferred: bool, *, features_too: bool
) -> Counts:
    """Samples changed in place: some cost the lead 2 each (``twos``), some 1 (``ones``), the others nothing.

    2: a near sample of p becomes one of the rival, a far one of the rival one of p. 1: a sample of a third class.
    One-sided, far samples weigh nothing until they are moved to x, which costs 1.
    """
    rows, n_samples = np.arange(len(near)), int(totals.sum())
    near_p = near[rows, standing.prediction][:, None]
    totals_p = totals[standing.prediction][:, None]
    if inferred:  # the class that nobody has seen has no samples, near or far
        near = np.column_stack([near, np.zeros(len(near), np.int64)])
        totals = np.append(totals, 0)
    if one_sided:
        twos = np.broadcast_to(near_p, near.shape)
        ones = (n_samples if features_too else near.sum(axis=1, keepdims=True)) - near_p - near
    else:
        twos = near_p + totals - near
        ones = n_samples - totals_p - totals
    radius = withstood(standing.leads, twos, ones, n_samples)
    if inferred:  # without a lead over it, the class that nobody has seen need only appear
        radius[:, -1] = np.where(standing.leads[:, -1] == 0, 0, radius[:, -1])
    return radius.min(axis=1)


def withstood(leads: Counts, twos: Counts, ones: Counts, most: int) -> Counts:
    """The largest r with 2·min(r, twos) + min((r − twos)⁺, ones) ≤ lead; ``most`` where no r is too many."""
    by_twos = leads // 2
    then = leads - 2 * np.minimum(twos, by_twos)
    radius = np.where(by_twos < twos, by_twos, np.where(then < ones, twos + then, most))
    return np.minimum(radius, most)


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


TARGET_ROWS_PER_TASK = 16
NO_END = np.iinfo(np.int64).max // 4  # a declared class does not vanish


def by_ballots(ballots: Ballots, target: int, n_jobs: int = -1) -> TargetRadii:
    """Radii of ballots, of samples or of contributors."""
    if ballots.voices is not None:
        return _by_voices(ballots, target, n_jobs)
    scores = (ballots.near if ballots.one_sided else 2 * ballots.near - ballots.totals) + ballots.sizes
    gaps, prediction, margin = _gaps(scores, target)
    ends = ballots.totals if ballots.classes_inferred else np.full(len(ballots.totals), NO_END)
    smallest = np.full(len(scores), NO_END, np.int64)
    # The cost is piecewise linear in a: it is least where some class is level with c, or as cheap to remove as to pass.
    for lifted in [np.zeros(len(scores), np.int64), *gaps.T, *(gaps - ends).T]:
        lift = np.maximum(lifted, 0)
        left = np.minimum(np.maximum(gaps - lift[:, None], 0), ends)
        smallest = np.minimum(smallest, lift + left.sum(axis=1))
    return _found(prediction, target, margin, smallest - 1, ballots.self_near)


def by_neighbours(neighbours: Neighbours, target: int, n_jobs: int = -1) -> TargetRadii:
    """Radii of nearest neighbours, samples or contributors."""
    _, prediction, margin = _gaps(neighbours.scores(), target)
    radius = np.zeros(neighbours.n_test, np.int64)

    def work(start: int, stop: int) -> None:
        codes = neighbours.order[start:stop].astype(np.int64)
        facts = (neighbours.n_neighbors, neighbours.n_samples, len(neighbours.classes), neighbours.contributors)
        _target_rows(codes, target, *facts, prediction[start:stop], radius[start:stop])

    in_threads(neighbours.n_test, TARGET_ROWS_PER_TASK, work, n_jobs)
    listed = neighbours.order.shape[1] >= min(2 * neighbours.n_neighbors, neighbours.n_samples)
    return _found(prediction, target, margin, radius, neighbours.first & listed)


def _by_voices(ballots: Ballots, target: int, n_jobs: int) -> TargetRadii:
    voices = ballots.voices
    assert voices is not None
    n_classes = len(ballots.classes)
    scores, radius = np.empty((len(ballots.near), n_classes), np.int64), np.zeros(len(ballots.near), np.int64)
    shown = np.zeros(len(radius), np.bool_)
    ends = np.full(n_classes, NO_END)
    if ballots.classes_inferred:
        ends = np.bincount(voices.classes, minlength=n_classes).astype(np.int64)

    def work(start: int, stop: int) -> None:
        part = slice(start, stop)
        cells = np.ascontiguousarray(ballots.near[part], dtype=np.int64)
        facts = (ballots.totals, voices.classes, voices.starts, ballots.sizes, voices.most, ballots.one_sided)
        _voice_rows(cells, *facts, ends, target, scores[part], radius[part], shown[part])

    in_threads(len(radius), TARGET_ROWS_PER_TASK, work, n_jobs)
    _, prediction, margin = _gaps(scores, target)
    return _found(prediction, target, margin, radius, ballots.self_near & shown)


def _gaps(scores: Counts, target: int) -> tuple[Counts, Counts, Counts]:
    """By how much each class must fall against the target; the prediction; its lead, less one where a tie is lost."""
    before = np.arange(scores.shape[1]) < target
    gaps = scores - scores[:, target][:, None] + before
    gaps[:, target] = 0
    prediction = scores.argmax(axis=1)
    return gaps, prediction, gaps[np.arange(len(scores)), prediction] - 1


def _found(prediction: Counts, target: int, margin: Counts, radius: Counts, exact: NDArray[np.bool_]) -> TargetRadii:
    already = prediction == target
    return TargetRadii(
        prediction, np.where(already, 0, margin), np.where(already, 0, np.maximum(radius, 0)), exact & ~already
    )


@njit(nogil=True, cache=True)
def _target_rows(
    order: NDArray[Any],
    target: int,
    k: int,
    n_samples: int,
    n_classes: int,
    contributors: bool,
    prediction: Counts,
    radius: Counts,
) -> None:
    """Bisection over the size of the attack: one more copy of the test sample never hurts the target."""
    n_listed = order.shape[1]
    running = np.zeros((n_listed + 1, n_classes), np.int64)
    for t in range(len(order)):
        if prediction[t] == target:
            continue
        for at in range(n_listed):
            running[at + 1] = running[at]
            if 0 <= order[t, at] < n_classes:  # the caller may have written into the array since it was checked
                running[at + 1, order[t, at]] += 1
        withstood, lost = 0, k  # K copies outvote everybody
        while lost - withstood > 1:
            size = (withstood + lost) // 2
            if _turned(running, target, k, n_samples, size, contributors):
                lost = size
            else:
                withstood = size
        radius[t] = withstood


@njit(nogil=True, cache=True)
def _turned(running: Counts, target: int, k: int, n_samples: int, size: int, contributors: bool) -> bool:
    """Whether some attack of this size gives the target; beyond what is listed, none is ruled out."""
    n_listed, n_classes = len(running) - 1, running.shape[1]
    for removed in range(size + 1):
        copies = min(size if contributors else size - removed, k)
        first = k - copies + removed
        if first > n_listed and n_listed < n_samples:
            return True
        votes = running[min(first, n_listed)]
        ours = votes[target] + copies
        if ours == 0 and target > 0:
            continue
        others = lacking = 0
        for x in range(n_classes):
            if x != target:
                others += votes[x]
                lacking += max(0, votes[x] - ours + (x < target))
        if lacking <= removed <= others:
            return True
    return False


@njit(nogil=True, cache=True)
def _voice_rows(
    near: Counts,
    totals: Counts,
    classes: Counts,
    starts: Counts,
    sizes: Counts,
    voices: int,
    one_sided: bool,
    ends: Counts,
    target: int,
    scores: Counts,
    radius: Counts,
    shown: NDArray[np.bool_],
) -> None:
    n_contributors, n_classes = len(starts) - 1, len(sizes)
    heard = np.empty(len(totals), np.int64)
    gains = np.empty(n_contributors, np.int64)
    for t in range(len(near)):
        heard_rows(near[t], totals, classes, starts, sizes, voices, one_sided, heard, scores[t])
        best = -1
        for x in range(n_classes):
            lead = scores[t, x] - scores[t, target] - (target < x)
            if x == target or lead < 0:
                continue
            gains[:] = 0
            for g in range(n_contributors):
                for cell in range(starts[g], starts[g + 1]):
                    gains[g] += heard[cell] * (int(classes[cell] == x) - int(classes[cell] == target))
            ranked = np.argsort(-gains, kind="mergesort")
            largest = gains[ranked][: (gains > 0).sum()]
            withstood = min(most_turned(largest, voices, lead), ends[x] - 1)
            if withstood > best:
                best = withstood
                after = scores[t].copy()
                for at in range(min(best + 1, len(largest))):
                    for cell in range(starts[ranked[at]], starts[ranked[at] + 1]):
                        after[classes[cell]] -= heard[cell]
                after[target] += (best + 1) * voices
                shown[t] = np.argmax(after) == target
        radius[t] = max(best, 0)

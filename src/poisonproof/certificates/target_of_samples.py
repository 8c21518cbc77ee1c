"""How many poisons until the prediction could become one given class, where training samples vote; in integers.

Notation as in `poisonproof.certificates.ballots` and `poisonproof.certificates.neighbours`; c is the target. After an
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

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.certificates.ballots import Counts
from poisonproof.certificates.contributors import heard_rows, most_turned
from poisonproof.certificates.target import TargetRadii
from poisonproof.system.compiled import njit
from poisonproof.system.threads import in_threads
from poisonproof.votes.ballots import Ballots
from poisonproof.votes.neighbours import Neighbours

ROWS_PER_TASK = 16
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
    _, prediction, margin = _gaps(neighbours.counts(), target)
    radius = np.zeros(neighbours.n_test, np.int64)

    def work(start: int, stop: int) -> None:
        codes = neighbours.order[start:stop].astype(np.int64)
        facts = (neighbours.n_neighbors, neighbours.n_samples, len(neighbours.classes), neighbours.contributors)
        _target_rows(codes, target, *facts, prediction[start:stop], radius[start:stop])

    in_threads(neighbours.n_test, ROWS_PER_TASK, work, n_jobs)
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

    in_threads(len(radius), ROWS_PER_TASK, work, n_jobs)
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

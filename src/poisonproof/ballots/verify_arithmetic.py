"""The arithmetic of samples that vote, slowly and in plain Python; nothing of it is shared with what it checks.

Theorems as in docs/proofs/ballots.md. p is the class with the most votes, the smaller on ties; m_c
its lead over c, less one where a tie would go to c. With inferred classes one more rival stands for any class that an
attacker invents: it has no votes, wins ties, and its code is the number of classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Sums(NamedTuple):
    """What one test sample's votes prove, by the names of a certificate's arrays."""

    prediction: int
    runner_up: int
    margin: int
    radius: int
    insert: int
    remove: int
    label_flip: int
    modify: int


class Rule(NamedTuple):
    """How ballots are counted: declared sizes, one-sided or not, classes read off the data or not."""

    sizes: Sequence[int]
    one_sided: bool
    inferred: bool


class Lead(NamedTuple):
    """A rival and the lead over it, less the tie-break; never negative."""

    lead: int
    code: int


def winner(scores: Sequence[int]) -> int:
    """The largest score; the smaller class on ties."""
    return max(range(len(scores)), key=lambda c: (scores[c], -c))


def leads_of(scores: Sequence[int], p: int, inferred: bool) -> list[Lead]:
    """The lead of p over every rival."""
    known = [Lead(scores[p] - score - (c < p), c) for c, score in enumerate(scores) if c != p]
    return [*known, *([Lead(max(0, scores[p] - 1), len(scores))] if inferred else [])]


def by_ballots(near: Sequence[int], totals: Sequence[int], rule: Rule) -> Sums:
    """Theorems 1 to 4, from the near samples and all samples of each class."""
    n, n_classes, one_sided = sum(totals), len(totals), rule.one_sided
    far = [total - close for total, close in zip(totals, near, strict=True)]
    scores = [near[c] - (0 if one_sided else far[c]) + rule.sizes[c] for c in range(n_classes)]
    p = winner(scores)
    rivals = leads_of(scores, p, rule.inferred)
    smallest = min(rivals)
    removals, flips, changes = [n], [n], [n]
    if rule.inferred and n_classes > 1:
        removals.append(totals[p] - 1)
    for m, c in rivals:
        invented = c == n_classes
        near_c, far_c, n_c = (0, 0, 0) if invented else (near[c], far[c], totals[c])
        useful = near[p] + (0 if one_sided else far_c)
        if not invented:
            kept = 1 if rule.inferred and not one_sided and near_c == 0 else 0
            removals.append(m if useful - kept > m else n)
        if invented and m == 0:
            flips.append(0)
            changes.append(0)
        elif one_sided:
            flips.append(_withstood(m, near[p], sum(near) - near[p] - near_c, n))
            changes.append(_withstood(m, near[p], n - near[p] - near_c, n))
        else:
            flips.append(_withstood(m, useful, n - totals[p] - n_c, n))
            changes.append(flips[-1])
    m = smallest.lead
    return Sums(p, smallest.code, m, m, m, min(removals), min(flips), min(changes))


def _withstood(m: int, twos: int, ones: int, n: int) -> int:
    """Theorem 4: the largest r with 2·min(r, A) + min((r − A)⁺, B) ≤ m, n if there is none larger."""
    if 2 * twos > m:
        return min(m // 2, n)
    rest = m - 2 * twos
    return min(twos + rest, n) if ones > rest else n


def by_neighbours(
    order: NDArray[np.integer], k: int, n: int, n_classes: int, *, inferred: bool, contributors: bool
) -> Sums:
    """Theorems 5 and 6, from the labels of the nearest voters; no radius claims what the list does not show."""
    listed = len(order)
    votes = [int((order[:k] == c).sum()) for c in range(n_classes)]
    p = winner(votes)
    of_p = np.concatenate([[0], np.cumsum(order == p)])
    steps = k + 1 if listed == n else min(k, listed - k) + 1  # attack sizes whose windows lie within the list
    size = np.arange(steps)
    bounds: list[tuple[int, int, int]] = []
    threats: dict[str, list[int]] = {"insert": [], "remove": [n], "label_flip": [], "modify": []}
    for m, c in leads_of(votes, p, inferred):
        of_c = np.concatenate([[0], np.cumsum(order == c)]) if c < n_classes else np.zeros(listed + 1, np.int64)
        tie = int(c < p or c == n_classes)
        gap = (of_p - of_c)[np.minimum(np.arange(2 * k + 1), listed)]
        ends = np.minimum(gap[k - size], gap[k + size])
        windows = np.empty(steps, np.int64)
        for parity in (0, 1):
            windows[parity::2] = np.minimum.accumulate(ends[parity::2])
        both = _first_harm(windows - size < tie)
        changed = _first_harm(np.minimum.accumulate(ends + size) - 2 * size < tie)
        pushed = np.arange(k + 1)
        lead = max(0, m)
        bounds.append((changed if contributors else both, lead, c))
        threats["insert"].append(_first_harm(gap[k - pushed] - pushed < tie))
        threats["modify"].append(changed)
        thirds = min(k, listed) - votes[p] - (votes[c] if c < n_classes else 0)
        threats["label_flip"].append(changed if contributors else _withstood(lead, votes[p], thirds, n))
        if c < n_classes:
            threats["remove"].append(_removals(of_p, of_c, k, n, tie))
    radius, _, runner_up = min(bounds)
    margin = min(lead for _, lead, _ in bounds)
    return Sums(p, runner_up, margin, radius, **{name: min(radii) for name, radii in threats.items()})


def _first_harm(harmful: NDArray[np.bool_]) -> int:
    """The largest size of which neither it nor a smaller one does harm; of size 0 it is never asked."""
    bad = np.flatnonzero(harmful)
    return max(0, int(bad[0]) - 1) if len(bad) else len(harmful) - 1


def _removals(of_p: NDArray[np.int64], of_c: NDArray[np.int64], k: int, n: int, tie: int) -> int:
    listed = len(of_p) - 1
    shown = n if listed == n else listed - k
    for size in range(shown + 1):
        at = min(k + size, listed)
        if size > at - of_c[at]:
            continue  # samples of c would have to go, too
        if of_p[at] - of_c[at] - min(size, int(of_p[at])) < tie:
            return max(0, size - 1)
    return shown


def cut_to(ballots: Sequence[int], voices: int) -> list[int]:
    """Whole numbers cut to a sum of magnitudes of at most ``voices``, by largest remainder, the earlier first."""
    length = sum(map(abs, ballots))
    if length <= voices:
        return list(ballots)
    shares = [divmod(abs(value) * voices, length) for value in ballots]
    left = voices - sum(whole for whole, _ in shares)
    served = sorted(range(len(ballots)), key=lambda at: (-shares[at][1], at))[:left]
    sizes = [whole + (at in served) for at, (whole, _) in enumerate(shares)]
    return [-size if value < 0 else size for size, value in zip(sizes, ballots, strict=True)]


def by_voices(
    near: Sequence[int],
    totals: Sequence[int],
    classes: Sequence[int],
    starts: Sequence[int],
    voices: int,
    rule: Rule,
) -> Sums:
    """Theorem 7, from what each contributor's samples of each class say."""
    n_classes, n = len(rule.sizes), len(starts) - 1
    cast: list[dict[int, int]] = []
    for g in range(n):
        cells = range(starts[g], starts[g + 1])
        votes = cut_to([near[at] if rule.one_sided else 2 * near[at] - totals[at] for at in cells], voices)
        cast.append(dict(zip((classes[at] for at in cells), votes, strict=True)))
    scores = [rule.sizes[c] + sum(voice.get(c, 0) for voice in cast) for c in range(n_classes)]
    p = winner(scores)
    bounds, inserts = [], []
    removals = [n, *([sum(p in voice for voice in cast) - 1] if rule.inferred and n_classes > 1 else [])]
    for lead, c in leads_of(scores, p, rule.inferred):
        gains = sorted((voice.get(p, 0) - voice.get(c, 0) for voice in cast), reverse=True)
        gains = [gain for gain in gains if gain > 0]
        costs = np.cumsum([gain + voices for gain in gains])
        turned = int((costs <= lead).sum())
        if turned == len(gains):
            turned += (lead - int(costs[-1] if len(gains) else 0)) // voices
        bounds.append((turned, lead, c))
        inserts.append(lead // voices)
        gone = np.cumsum(gains)
        if c < n_classes and len(gains) and gone[-1] > lead:
            removals.append(int((gone <= lead).sum()))
    radius, _, runner_up = min(bounds)
    margin = min(lead for _, lead, _ in bounds)
    return Sums(p, runner_up, margin, radius, min(inserts), min(removals), radius, radius)


# Counting votes again. Features are whole numbers, so products in double precision are exact, and a squared distance is
# a whole number.

LONGEST_SQUARED = 1 << 24
PRODUCTS_AT_ONCE = 1 << 24


@dataclass(frozen=True, eq=False)
class VoterRows:
    """The voters of a run, from its data: features, class codes, content hashes and contributors' numbers.

    ``places``: which voter each training sample is; -1 for those that were left out.
    """

    rows: NDArray[np.float64]
    codes: NDArray[np.int64]
    hashes: NDArray[np.uint64]
    owners: NDArray[np.int64] | None
    places: NDArray[np.int64]
    election: dict[str, Any]
    features: Any

    def distances(self, test: NDArray[np.float64]) -> NDArray[np.int64]:
        """The distance of every voter to each of these test samples, as whole numbers."""
        left, right = squares(test), squares(self.rows)
        return left[:, None] + right[None, :] - 2 * (test @ self.rows.T).astype(np.int64)

    @property
    def limit(self) -> int:
        """The greatest distance that counts as near."""
        return greatest_distance(self.election)

    def near(self, test: NDArray[np.float64], cells: NDArray[np.int64], n_cells: int) -> NDArray[np.int64]:
        """How many voters of each cell are near each test sample."""
        is_near = self.distances(test) <= self.limit
        return np.stack([np.bincount(cells[row], minlength=n_cells) for row in is_near]).astype(np.int64)

    def order(self, test: NDArray[np.float64], most: int) -> NDArray[np.int64]:
        """Labels of the nearest voters by (distance, content hash, label); of each contributor the first alone."""
        listed = []
        for distances in self.distances(test):
            order = np.lexsort((self.codes, self.hashes, distances))
            if self.owners is not None:
                _, first = np.unique(self.owners[order], return_index=True)
                order = order[np.sort(first)]
            listed.append(self.codes[order[:most]])
        return np.array(listed)

    def nearest(self, test: NDArray[np.float64]) -> NDArray[np.int64]:
        """The distance of the nearest voter."""
        return self.distances(test).min(axis=1)


def greatest_distance(election: dict[str, Any]) -> int:
    """What counts as near, from the threshold that is declared: a squared distance."""
    near = Fraction(float(election["near"]))
    return min(math.floor((near * Fraction(election["steps_per_unit"])) ** 2), 4 * LONGEST_SQUARED)


def near_of(election: dict[str, Any]) -> dict[str, Any]:
    """What the premise about the threshold must state."""
    return {"distance": float(election["near"]), "squared_steps": greatest_distance(election)}


def squares(rows: NDArray[np.float64]) -> NDArray[np.int64]:
    """The squared length of each row."""
    return np.asarray(np.square(rows).sum(axis=1)).astype(np.int64)

"""Run-off election and its radii, slowly and in plain NumPy, each with a proof that poisonproof-check can read.

Round 1: the two classes with the most votes. Round 2: of these, the one that more base classifiers rank above the
other. Ties go to the smaller class in both. p is the winner, s the other finalist. An attack of size r that turns the
election fulfils several conditions of the form cover(w) ≥ gap at once, and so every sum of them with multipliers:

- to push p out of round 1 by a and b: 1 + [v = p] − [v = a] must cover what a lacks to stand above p, the same for b;
  for both together 1 + 2[v = p] − [v = a] − [v = b], because a base classifier votes for one of them;
- to beat p in round 2 by c: 1 + [p above c] − [c above p] must cover what c lacks, and 1 + [v = x] − [v = c] what c
  lacks to stand above x, for every other class x.

A cover is at most the sum of the r largest sums over spread(j), and at most the sum of the r·d largest weights of base
classifiers. A radius is proved if for every pair {a, b} and every c some multipliers need more than that. The ones that
are tried are those that `poisonproof.core.runoff` counts with, so that the largest radius proved is the radius.

Rankings may be cut: of two classes that a cut one does not name nothing is known, and what would be best for the
attacker is taken. Its proofs are not for poisonproof-check.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.verification.proof_search import sum_of_largest, threshold
from poisonproof.verification.theorem import SpreadMap


class Limit(NamedTuple):
    """How a cover was bounded: by sums over partitions or by weights of members, and the threshold of the largest."""

    by: Literal["partitions", "members"]
    threshold: int


class Pushed(NamedTuple):
    """No attack raises both classes above p: the multipliers of what they lack."""

    classes: tuple[int, int]
    multipliers: tuple[int, int]
    limit: Limit


class Beaten(NamedTuple):
    """No attack lets the class meet p and win: the multiplier of the second round, and those of classes above it."""

    by_class: int
    multiplier: int
    others: tuple[tuple[int, int], ...]
    limit: Limit


class Proof(NamedTuple):
    """What was found for a radius; ``complete`` if nothing is missing."""

    pushed: tuple[Pushed, ...]
    beaten: tuple[Beaten, ...]
    complete: bool


@dataclass(frozen=True, eq=False)
class RunOff:
    """The election on one test sample: row i of ``rankings`` holds the classes of base classifier i, best first.

    ``n_classes`` fills a row up; with fewer places than classes a row without it is cut. ``inferred`` adds a class that
    nobody has seen: without votes, ranked by nobody, and it wins ties; its code is ``n_classes``.
    """

    rankings: NDArray[Any]
    spread: SpreadMap
    n_classes: int
    inferred: bool = False

    @cached_property
    def votes(self) -> NDArray[np.int64]:
        """First choices."""
        return self.rankings[:, 0].astype(np.int64)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Votes for each class; the last entry is the class that nobody has seen."""
        counts = np.bincount(self.votes, minlength=self.n_classes + 1)
        counts[self.n_classes] = 0
        return counts

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """Where each base classifier ranks each class; ``n_classes`` where it does not."""
        places = np.full((len(self.rankings), self.n_classes + 1), self.n_classes, np.int64)
        np.put_along_axis(places, self.rankings.astype(np.int64), np.arange(self.rankings.shape[1]), axis=1)
        places[:, self.n_classes] = self.n_classes
        return places

    @cached_property
    def finalists(self) -> tuple[int, int]:
        """Winner and loser of round 2; with a single class, the loser is the one that nobody has seen."""
        if self.n_classes == 1:
            return 0, 1
        first, second = sorted(range(self.n_classes), key=lambda c: (-self.counts[c], c))[:2]
        first, second = min(first, second), max(first, second)
        return (first, second) if self.relation(first, second).sum() >= len(self.votes) else (second, first)

    def relation(self, p: int, c: int) -> NDArray[np.int64]:
        """1 + [p above c] − [c above p] for every base classifier, by the places kept."""
        return 1 + np.sign(self.places[:, c] - self.places[:, p])

    @property
    def unknown(self) -> NDArray[np.bool_]:
        """Base classifiers whose ranking is cut before it names the winner."""
        cut = (self.rankings.shape[1] < self.n_classes) & (self.rankings[:, -1] < self.n_classes)
        return cut & (self.places[:, self.finalists[0]] == self.n_classes)

    def least(self, c: int) -> NDArray[np.int64]:
        """1 + [winner above c] − [c above winner], the smallest it can be whatever was not kept."""
        open_to_doubt = self.unknown & (self.places[:, c] == self.n_classes)
        return np.where(open_to_doubt, int(c == self.n_classes), self.relation(self.finalists[0], c))

    def reached(self, c: int) -> NDArray[np.int64]:
        """For every partition, at least what it takes from the winner's lead over c, whatever was not kept.

        A base classifier that could give x more than its least, and is reached m ≤ d times, counts (m − 1)·x too much
        at most, which is m·x·(d − 1)/d at most.
        """
        least, d = self.least(c), self.spread.d
        doubt = np.where(self.unknown & (self.places[:, c] == self.n_classes), 2 - least, 0)
        return self.spread.sums(least + -(-doubt * (d - 1) // d))

    def lack(self, above: int, below: int) -> int:
        """What class ``below`` lacks to stand above ``above`` in round 1."""
        return int(self.counts[above] - self.counts[below]) + (above < below < self.n_classes)

    def duel(self, c: int) -> int:
        """What class c lacks to beat the winner in round 2."""
        return int(self.least(c).sum()) - len(self.votes) + (self.finalists[0] < c < self.n_classes)

    @property
    def margin(self) -> int:
        """The winner's lead over the other finalist, less one where a tie would go against it."""
        return max(self.duel(self.finalists[1]) - 1, 0)

    @property
    def rivals(self) -> list[int]:
        """All classes but the winner, and the one that nobody has seen if there can be one."""
        return [c for c in range(self.n_classes + self.inferred) if c != self.finalists[0]]

    def proof(self, radius: int) -> Proof:
        """That no attack of this size turns the election."""
        rivals = self.rivals
        pairs = [(a, b) for at, a in enumerate(rivals) for b in rivals[at + 1 :]]
        pushed = [self._pushed(a, b, radius) for a, b in pairs]
        beaten = [self._beaten(c, radius) for c in rivals]
        complete = None not in pushed and None not in beaten
        return Proof(tuple(filter(None, pushed)), tuple(filter(None, beaten)), complete)

    @cached_property
    def _hits(self) -> NDArray[np.int64]:
        """For every class, how many of its votes each partition reaches."""
        classes = range(self.n_classes)
        reached = [self.spread.sums((self.votes == c).astype(np.int64)) for c in classes]
        return np.array([*reached, np.zeros(self.spread.n, np.int64)])

    def _pushed(self, a: int, b: int, radius: int) -> Pushed | None:
        hits, p, d = self._hits, self.finalists[0], self.spread.d
        for of_a, of_b in ((1, 1), (1, 0), (0, 1)):
            sums = d + of_a * (hits[p] - hits[a]) + of_b * (hits[p] - hits[b])
            if sum_of_largest(sums, radius) < of_a * self.lack(p, a) + of_b * self.lack(p, b):
                return Pushed((a, b), (of_a, of_b), Limit("partitions", threshold(sums, radius)))
        return None

    def _beaten(self, c: int, radius: int) -> Beaten | None:
        s, hits, d = self.finalists[1], self._hits, self.spread.d
        relation, lead = self.least(c), self.duel(c)
        sums = self.reached(c)
        if sum_of_largest(sums, radius) < lead:
            return Beaten(c, 1, (), Limit("partitions", threshold(sums, radius)))
        if c != s and s < self.n_classes:
            sums = d + hits[s] - hits[c]
            if sum_of_largest(sums, radius) < self.lack(s, c):
                return Beaten(c, 0, ((s, 1),), Limit("partitions", threshold(sums, radius)))
        members = radius * d
        for of_duel, others in self._counted_by_kind(c, members, relation):
            weight = of_duel * relation
            needed = of_duel * lead
            for x, multiplier in others:
                against = (self.votes == c) & (c < self.n_classes)
                weight = weight + multiplier * (1 + (self.votes == x) - against)
                needed += multiplier * self.lack(x, c)
            if sum_of_largest(weight, members) < needed:
                return Beaten(c, of_duel, others, Limit("members", threshold(weight, members)))
        return None

    def _counted_by_kind(
        self, c: int, members: int, relation: NDArray[np.int64]
    ) -> Iterator[tuple[int, tuple[tuple[int, int], ...]]]:
        """Multipliers for the case that so many base classifiers, of any partition, fulfil all conditions at once.

        ``members`` votes give 1 each to every class that c must stand above, so of the voters of x at least as many as
        it still lacks are among them; the rest are those that count most in the second round. If the lowest worth that
        is taken freely is τ and voters of x worth less had to be taken, x has the difference as its multiplier.
        """
        p = self.finalists[0]
        others = [x for x in range(self.n_classes) if x not in (p, c)]
        lacking = {x: max(0, self.lack(x, c) - members) for x in others}
        for x in others:
            if lacking[x] > self.counts[x]:
                yield 0, ((x, 1),)
        if sum(lacking.values()) > members:
            yield 0, tuple((x, 1) for x in others if lacking[x])
            return
        forced = {x: np.sort(relation[self.votes == x])[::-1][: lacking[x]] for x in others if lacking[x]}
        free = [np.sort(relation[self.votes == x])[::-1][lacking[x] :] for x in others]
        free.append(relation[~np.isin(self.votes, [*others, *([c] if c < self.n_classes else [])])])
        rest = np.sort(np.concatenate(free))[::-1]
        left = members - sum(lacking.values())
        for worth in {int(rest[left - 1]) if 0 < left <= len(rest) else 0, int(rest[left]) if left < len(rest) else 0}:
            multipliers = ((x, max(0, worth - int(taken.min(initial=2)))) for x, taken in forced.items())
            yield 1, tuple((x, multiplier) for x, multiplier in multipliers if multiplier)

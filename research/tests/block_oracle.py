"""Blocks of ballots, slowly and plainly: the whole classifier on a few whole numbers, its certificate, an attacker.

A sample is (place, label) with a small whole number for a place. Its partition and the map of a member are made by a
hash of what they may depend on, so that one poison changes a map it reaches beyond recognition: no certificate that
trusts a reached member can hold. Two places are near in a map if they lie within a reach that the map says.

Attacks are tried twice over: plainly, by `World.attacks`, and by the compiled `broken`, which keeps samples as counts
by place and label and gets through many times as many.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import xxhash
from numba import njit
from numpy.typing import NDArray

from poisonproof.core.spread import Spread
from research.blocks.certificate import certify_blocks, verdicts_of

Sample = tuple[int, int]


@dataclass(frozen=True)
class World:
    """Everything that is fixed before samples come: spread, classes, declared sizes, how far places go, a salt."""

    spread: Spread
    n_classes: int
    sizes: tuple[int, ...]
    n_places: int
    salt: int

    def partition(self, place: int) -> int:
        """The partition of a sample, by its place alone."""
        return xxhash.xxh64_intdigest(f"{self.salt} {place}".encode()) % self.spread.n_partitions

    def reach(self, member: int, samples: Sequence[Sample]) -> int | None:
        """How far near is in a member's map: from its own samples without labels; None if it has none."""
        fed = feeding(self)
        own = [place for place, _ in samples if member in fed[place]]
        if not own:
            return None
        state = _mixed(self.salt + member)
        for place in range(self.n_places):
            state = _mixed(state + own.count(place))
        return state % (self.n_places + 1) - 1

    def scores(self, x: int, samples: Sequence[Sample], reach: int) -> dict[int, int]:
        """The score of every class."""
        scores = dict(enumerate(self.sizes))
        for place, label in samples:
            scores[label] += 1 if abs(place - x) <= reach else -1
        return scores

    def verdict(self, x: int, samples: Sequence[Sample], reach: int) -> int:
        """What a member says in whose map near goes so far."""
        scores = self.scores(x, samples, reach)
        return max(scores, key=lambda c: (scores[c], -c))

    def votes(self, x: int, samples: Sequence[Sample]) -> dict[int, int]:
        """How many members say each class; a member without samples abstains."""
        reaches = [self.reach(member, samples) for member in range(self.spread.n_subsets)]
        said = {reach: self.verdict(x, samples, reach) for reach in set(reaches) if reach is not None}
        votes = dict.fromkeys(range(self.n_classes), 0)
        for reach in reaches:
            if reach is not None:
                votes[said[reach]] += 1
        return votes

    def predict(self, x: int, samples: Sequence[Sample]) -> int:
        """The class that most members say; ties to the smaller one."""
        votes = self.votes(x, samples)
        return max(votes, key=lambda c: (votes[c], -c))

    def certified(self, x: int, samples: Sequence[Sample]) -> tuple[int, int, int]:
        """Prediction and both radii by the code under test, from the slow scores."""
        n_members = self.spread.n_subsets
        scores, abstains = np.zeros((1, n_members, self.n_classes), np.int64), np.zeros((1, n_members), np.bool_)
        for member in range(n_members):
            reach = self.reach(member, samples)
            abstains[0, member] = reach is None
            for c, score in self.scores(x, samples, -1 if reach is None else reach).items():
                scores[0, member, c] = score
        found = certify_blocks(verdicts_of(scores, abstains), self.spread, len(samples))
        return int(found.prediction[0]), int(found.insert_remove[0]), int(found.label_flip[0])

    def attacks(self, samples: Sequence[Sample], size: int, flips: bool) -> Iterator[list[Sample]]:
        """All training sets within an attack of exactly this size: flipped labels, or insertions and removals."""
        labels = range(self.n_classes)
        if flips:
            for rows in itertools.combinations(range(len(samples)), size):
                for new in itertools.product(labels, repeat=size):
                    changed = dict(zip(rows, new, strict=True))
                    yield [(place, changed.get(row, label)) for row, (place, label) in enumerate(samples)]
            return
        inserted = list(itertools.product(range(self.n_places), labels))
        for removals in range(min(size, len(samples) - 1) + 1):
            for gone in itertools.combinations(range(len(samples)), removals):
                rest = [sample for row, sample in enumerate(samples) if row not in gone]
                for new in itertools.combinations_with_replacement(inserted, size - removals):
                    yield rest + list(new)


@cache
def feeding(world: World) -> tuple[frozenset[int], ...]:
    """The members that a sample at each place feeds."""
    members = (world.spread.subsets_of(world.partition(place)) for place in range(world.n_places))
    return tuple(frozenset(int(member) for member in some) for some in members)


def slow_radius(world: World, x: int, samples: Sequence[Sample]) -> tuple[int, int]:
    """Both radii straight from the statement: all members of all subsets, sorted sums, one attack size at a time."""
    n_members = world.spread.n_subsets
    fed_by = world.spread.as_table().tolist()
    scores = []
    for member in range(n_members):
        reach = world.reach(member, samples)
        scores.append(None if reach is None else world.scores(x, samples, reach))
    prediction = world.predict(x, samples)
    rivals: list[int] = [c for c in range(world.n_classes) if c != prediction]

    def could_win(own: dict[int, int], c: int, moves: int) -> bool:
        return all(own[c] + moves - score >= (e < c) for e, score in own.items() if e != c)

    def worth(own: dict[int, int] | None, c: int, moves: int) -> int:
        if own is None:
            return 0
        says = max(own, key=lambda e: (own[e], -e))
        if says == prediction and not any(could_win(own, e, moves) for e in rivals):
            return 1
        return -1 if could_win(own, c, moves) else 0

    def holds(size: int, flips: bool) -> bool:
        for c in rivals:
            worths = [worth(own, c, 2 * size if flips else size) for own in scores]
            deltas = sorted(
                (sum(1 + worths[i] for i in members) for members in fed_by),
                reverse=True,
            )
            reached = 0 if flips else sum(deltas[:size])
            if reached > sum(worths) - (c < prediction):
                return False
        return True

    radius = max((size for size in range(1, world.spread.n_partitions + 1) if holds(size, False)), default=0)
    flipped = max((size for size in range(1, len(samples) + 1) if holds(size, True)), default=0)
    return radius, flipped


def random_case(random: np.random.Generator) -> tuple[World, int, list[Sample]]:
    """A small world, a test sample and training samples, some of them twice."""
    n_classes = int(random.integers(2, 4))
    sure = random.random() < 0.4  # one class so far ahead that members withstand poisons they are not fed with
    favoured = int(random.integers(n_classes))
    sizes = random.integers(0, 3, n_classes)
    sizes[favoured] += int(random.integers(2, 25)) if sure else 0
    n_places = int(random.integers(6, 11) if sure else random.integers(4, 9))
    world = World(random_spread(random), n_classes, tuple(sizes.tolist()), n_places, int(random.integers(1 << 30)))
    count = int(random.integers(5, 9) if sure else random.integers(3, 9))
    agreed = float(random.choice([0.6, 0.8, 1.0]))
    places = random.permutation(n_places).tolist() if random.random() < 0.5 else []  # else some more than once
    samples = [
        (
            places[number] if number < len(places) else int(random.integers(n_places)),
            favoured if random.random() < agreed else int(random.integers(n_classes)),
        )
        for number in range(count)
    ]
    return world, int(random.integers(n_places)), samples


def random_spread(random: np.random.Generator) -> Spread:
    """Shifts by chance, a projective plane, or a balanced table that no shifts describe; d from 1 to 4."""
    kind = random.random()
    if kind < 0.1:
        return Spread.planes(2, int(random.integers(1, 3)))
    if kind < 0.2:  # permutations side by side, until no row names a member twice
        n, d = int(random.integers(5, 12)), 2
        while True:
            table = np.stack([random.permutation(n) for _ in range(d)], axis=1)
            if (table[:, 0] != table[:, 1]).all():
                return Spread.from_table(table)
    d = int(random.integers(1, 5))
    k = int(random.integers(3, 10)) if d == 1 else int(random.integers(2, 5))
    return Spread.random(k, d, int(random.integers(99)))


def tied(world: World, x: int, samples: Sequence[Sample]) -> bool:
    """Whether two classes have the most members."""
    votes = list(world.votes(x, samples).values())
    return votes.count(max(votes)) > 1


def broken(world: World, x: int, samples: Sequence[Sample], sizes: Iterable[int], flips: bool) -> list[Sample] | None:
    """A training set within an attack of these sizes that changes the prediction, by `World.predict` too."""
    counts = np.zeros((world.n_places, world.n_classes), np.int64)
    for place, label in samples:
        counts[place, label] += 1
    feeds = np.zeros((world.n_places, world.spread.n_subsets), np.bool_)
    for place, members in enumerate(feeding(world)):
        feeds[place, list(members)] = True
    fixed = (x, feeds, np.uint64(world.salt), np.array(world.sizes, np.int64))
    prediction = world.predict(x, samples)
    for size in sizes:
        changed = counts.copy()
        if _search(changed, size, 0, flips, prediction, *fixed):
            found = [(place, label) for place, label in np.argwhere(changed) for _ in range(changed[place, label])]
            attack = [(int(place), int(label)) for place, label in found]
            assert world.predict(x, attack) != prediction
            return attack
    return None


def _mixed(value: int) -> int:
    """The end of SplitMix64."""
    value &= 2**64 - 1
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
    return value ^ (value >> 31)


@njit(cache=True)
def _mixed_compiled(value: np.uint64) -> np.uint64:
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@njit(cache=True)
def elected(
    counts: NDArray[np.int64],
    x: int,
    feeds: NDArray[np.bool_],
    salt: np.uint64,
    sizes: NDArray[np.int64],
) -> int:
    """`World.predict` of samples that are counted by place and label."""
    n_places, n_labels = counts.shape
    n_members = feeds.shape[1]
    totals = counts.sum(axis=0)
    said = np.full(n_places + 1, -1, np.int64)  # by reach
    votes = np.zeros(n_labels, np.int64)
    at_place = counts.sum(axis=1)
    for member in range(n_members):
        state, any_of_its_own = _mixed_compiled(salt + np.uint64(member)), False
        for place in range(n_places):
            own = at_place[place] if feeds[place, member] else 0
            any_of_its_own = any_of_its_own or own > 0
            state = _mixed_compiled(state + np.uint64(own))
        if not any_of_its_own:
            continue
        reach = np.int64(state % np.uint64(n_places + 1)) - 1
        if said[reach + 1] < 0:
            best, wins = -1, 0
            for c in range(n_labels):
                score = sizes[c] - totals[c]
                for place in range(max(0, x - reach), min(n_places, x + reach + 1)):
                    score += 2 * counts[place, c]
                if best < 0 or score > wins:
                    best, wins = c, score
            said[reach + 1] = best
        votes[said[reach + 1]] += 1
    return int(np.argmax(votes))


@njit
def _search(
    counts: NDArray[np.int64],
    left: int,
    first: int,
    flips: bool,
    prediction: int,
    x: int,
    feeds: NDArray[np.bool_],
    salt: np.uint64,
    sizes: NDArray[np.int64],
) -> bool:
    """Whether so many acts, none before the first, change the prediction; then the counts are those of the attack."""
    n_places, n_labels = counts.shape
    cells = n_places * n_labels
    for act in range(first, cells * (n_labels if flips else 2)):
        place, label = act % cells // n_labels, act % n_labels
        new = act // cells  # flips: the new label; otherwise 1 inserts and 0 removes
        if flips and new == label:
            continue
        taken = flips or new == 0
        if taken and counts[place, label] == 0:
            continue
        counts[place, label] += -1 if taken else 1
        if flips:
            counts[place, new] += 1
        if left > 1:
            done = _search(counts, left - 1, act, flips, prediction, x, feeds, salt, sizes)
        else:
            done = counts.sum() > 0 and elected(counts, x, feeds, salt, sizes) != prediction
        if done:
            return True
        counts[place, label] -= -1 if taken else 1
        if flips:
            counts[place, new] -= 1
    return False

"""Attacks on elections of training samples: copies of x, removal of what holds the prediction, flips, changes.

Each is the strongest of its kind that the proofs know (docs/proofs/ballots.md); it is carried out on the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.auditing.attacks import Poison
from poisonproof.ballots.classifiers import BallotClassifier, NeighborVoteClassifier, SampleVoteClassifier
from poisonproof.ballots.distances import write_distances
from poisonproof.core.certificate import Certificate
from poisonproof.samples.convert import take_rows

NOBODY = np.zeros(0, np.int64)
COPIES_OF_A_CONTRIBUTOR = 4


@dataclass(frozen=True, eq=False)
class Voting:
    """What the attacker sees: the rows, who votes how about every target, and what is certified."""

    model: SampleVoteClassifier
    X: Any
    labels: list[Any]
    groups: list[Any] | None
    targets: Any
    distances: NDArray[np.int32]
    certificate: Certificate

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row of the training data that each voter is."""
        places = self.model.places_
        rows = np.empty(len(self.model.voters_), np.int64)
        kept = np.flatnonzero(places >= 0)
        rows[places[kept]] = kept
        return rows

    def rival(self, target: int) -> Any:
        """The label the attacker would like to see: the runner-up's, or one that nobody has shown and sorts first."""
        code, classes = int(self.certificate.runner_up[target]), self.certificate.classes.tolist()
        if code < len(classes):
            return classes[code]
        return "" if isinstance(classes[0], str) else min(classes) - 1

    def codes(self, target: int) -> tuple[int, int]:
        """Prediction and runner-up."""
        return int(self.certificate.prediction[target]), int(self.certificate.runner_up[target])

    def order(self, target: int) -> NDArray[np.int64]:
        """Voters, nearest first."""
        voters = self.model.voters_.whole()
        return np.lexsort((voters.codes, voters.hashes, self.distances[target]))

    def holding(self, target: int) -> NDArray[np.int64]:
        """Rows that hold the prediction, those that cost the lead most first."""
        p, c = self.codes(target)
        codes = self.model.voters_.whole().codes
        order = self.order(target)
        if isinstance(self.model, BallotClassifier) and not self.model.one_sided:
            near = self.distances[target] <= self.model._limit()
            useful = np.where(near, codes == p, codes == c)
            thirds = (codes != p) & (codes != c)
            return self.rows[np.concatenate([order[useful[order]], order[thirds[order]]])]
        return self.rows[np.concatenate([order[codes[order] == p], order[(codes[order] != p) & (codes[order] != c)]])]

    def against(self, target: int, row: int) -> Any:
        """The label that a row is given by a flip: the rival's, or the prediction's if the row is a far one's."""
        p, _ = self.codes(target)
        label = self.certificate.classes.tolist()[p]
        return self.rival(target) if self.labels[row] == label or not self._is_far(target, row) else label

    def _is_far(self, target: int, row: int) -> bool:
        model = self.model
        if not isinstance(model, BallotClassifier) or model.one_sided:
            return False
        return bool(self.distances[target][model.places_[row]] > model._limit())

    def units(self, target: int, count: int) -> list[NDArray[np.int64]]:
        """What to take or turn, one unit each: a row, or all rows of a contributor."""
        rows = self.holding(target)
        if self.groups is None:
            return [rows[at : at + 1] for at in range(min(count, len(rows)))]
        owners = list(dict.fromkeys(self.groups[row] for row in rows))[:count]
        return [np.flatnonzero([group == owner for group in self.groups]) for owner in owners]

    def copies(self, target: int, count: int) -> tuple[Any, tuple[Any, ...], tuple[Any, ...] | None]:
        """The target under the rival's label, once for each unit; a contributor brings several."""
        each = 1 if self.groups is None else max(COPIES_OF_A_CONTRIBUTOR, getattr(self.model, "voices", 1))
        owners = None if self.groups is None else tuple(f"attacker {at // each}" for at in range(count * each))
        rows = take_rows(self.targets, [target] * (count * each))
        return rows, (self.rival(target),) * (count * each), owners


def insert(voting: Voting, target: int, size: int) -> Poison | None:
    """Copies of x under the runner-up's label."""
    return Poison(size, NOBODY, *voting.copies(target, size))


def remove(voting: Voting, target: int, size: int) -> Poison | None:
    """Take away what holds the prediction, the nearest first."""
    units = voting.units(target, size)
    if len(units) < size or sum(map(len, units)) >= len(voting.labels):
        return None
    return Poison(size, np.concatenate(units))


def flip(voting: Voting, target: int, size: int) -> Poison | None:
    """Give what holds the prediction another label."""
    units = voting.units(target, size)
    if len(units) < size:
        return None
    rows = np.concatenate(units)
    owners = None if voting.groups is None else tuple(voting.groups[row] for row in rows)
    labels = tuple(voting.against(target, int(row)) for row in rows)
    return Poison(size, rows, take_rows(voting.X, rows), labels, owners)


def modify(voting: Voting, target: int, size: int) -> Poison | None:
    """Turn what holds the prediction into x under the runner-up's label."""
    units = voting.units(target, size)
    if len(units) < size:
        return None
    rows = np.concatenate(units)
    owners = None if voting.groups is None else tuple(voting.groups[row] for row in rows)
    copies = take_rows(voting.targets, [target] * len(rows))
    return Poison(size, rows, copies, (voting.rival(target),) * len(rows), owners)


def mixed(voting: Voting, target: int, size: int) -> Poison | None:
    """Copies and removals in the proportion that the proof of exactness names."""
    if voting.groups is not None:
        return None
    inserted = _best_share(voting, target, size)
    removed = voting.holding(target)[: size - inserted]
    if len(removed) < size - inserted:
        return None
    if inserted == 0:
        return Poison(size, removed) if len(removed) < len(voting.labels) else None
    return Poison(size, removed, *voting.copies(target, inserted))


def _best_share(voting: Voting, target: int, size: int) -> int:
    """How many of so many acts should be insertions: for neighbours, where G(K − e + q) is smallest."""
    model = voting.model
    if not isinstance(model, NeighborVoteClassifier):
        return size
    p, c = voting.codes(target)
    codes = model.voters_.whole().codes[voting.order(target)]
    gap = np.concatenate([[0], np.cumsum((codes == p).astype(np.int64) - (codes == c))])
    shares = np.arange(size + 1)
    kept = np.clip(model.n_neighbors - shares + (size - shares), 0, len(codes))
    return int(gap[kept].argmin())


SAMPLE_ATTACKS: dict[str, tuple[str, Callable[[Voting, int, int], Poison | None]]] = {
    "insert": ("insert", insert),
    "remove": ("remove", remove),
    "mixed": ("insert_remove", mixed),
    "flip": ("label_flip", flip),
    "modify": ("modify", modify),
}


def distances_of(model: SampleVoteClassifier, targets: Any) -> NDArray[np.int32]:
    """The distance of every voter to each target."""
    test, voters, nearness = model._describe_test(targets), model.voters_.whole(), model._nearness
    everyone = slice(0, len(test.rows))
    fed_voters = nearness.fed(voters.rows)
    seen = [nearness.products(nearness.fed(rows), fed_voters) for rows in test.seen(everyone)]
    out = np.empty((len(test.rows), len(voters)), np.int32)
    write_distances(test.nearest_view(everyone, seen), test.lengths, voters.lengths, nearness.cosine, out)
    return out

"""Witnesses for poisonproof-check: votes or counts, claims, and hints, as plain text (proofs/README.md).

Numbers and words, separated by blanks. What is written is either copied from the files (votes, spread, predictions,
radii) or found by `hints` and `groups`, which nobody needs to trust.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.verification.groups import Groups, Searched, find_groups, prove_by_groups
from poisonproof.verification.hints import (
    Branch,
    Dual,
    Largest,
    Partitions,
    Tree,
    prove,
    sum_of_largest,
    threshold,
)
from poisonproof.verification.theorem import SpreadMap, lead_of, leads

FORMAT = "poisonproof witness 1"
INVENTED = "invented"


@dataclass(frozen=True, eq=False)
class Electorate:
    """What is the same for all test samples of an ensemble.

    ``reachable`` is a mask of the partitions that can be poisoned (Theorem 4); None means all. ``tight`` looks for
    proofs above Theorem 2.
    """

    spread: SpreadMap
    n_classes: int
    inferred: bool
    tight: bool = False
    reachable: NDArray[np.bool_] | None = None

    @property
    def allowed(self) -> NDArray[np.bool_]:
        """Which partitions can be poisoned."""
        return np.ones(self.spread.n, np.bool_) if self.reachable is None else self.reachable


def write_ensemble(
    file: IO[bytes],
    electorate: Electorate,
    votes: NDArray[Any],
    prediction: NDArray[Any],
    radius: NDArray[Any],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """The witness of an ensemble: one row of votes, a prediction and a radius for each test sample."""
    spread = electorate.spread
    groups = find_groups(spread) if electorate.tight and electorate.reachable is None else None
    write_line(file, FORMAT, "ensemble")
    write_line(file, "classes", electorate.n_classes, "inferred" if electorate.inferred else "declared")
    write_spread(file, electorate)
    _write_groups(file, groups)
    write_line(file, "samples", len(votes))
    words = _words(votes)
    partitions_of = Partitions(np.arange(spread.n), spread.table, spread)
    for at, row in enumerate(votes):
        claim = int(prediction[at]), int(radius[at])
        common, hints = _hints(row, electorate, partitions_of, groups, *claim)
        write_line(file, "sample", *claim, common, len(hints))
        file.write(b"votes " + words(row) + b"\n")
        for hint in hints:
            write_line(file, *hint)
        progress(at + 1, len(votes))
    write_line(file, "end")


def write_spread(file: IO[bytes], electorate: Electorate) -> None:
    """The spread, and which partitions can be poisoned."""
    spread = electorate.spread
    if spread.shifts is not None:
        write_line(file, "spread shifts", spread.n, spread.d, *spread.shifts)
    else:
        write_line(file, "spread table", spread.n, spread.n)
        for members in spread.table.tolist():
            write_line(file, len(members), *members)
    if electorate.reachable is None:
        write_line(file, "reachable all")
    else:
        partitions = np.flatnonzero(electorate.reachable).tolist()
        write_line(file, "reachable some", len(partitions), *partitions)


def write_ballots(
    file: IO[bytes],
    *,
    near: NDArray[Any],
    totals: Sequence[int] | NDArray[Any],
    sizes: Sequence[int] | NDArray[Any],
    prediction: NDArray[Any],
    radius: NDArray[Any],
    two_sided: bool = True,
    inferred: bool = False,
) -> None:
    """The witness of ballots: ``near[t, c]`` training samples of class c are near test sample t.

    ``totals[c]`` training samples have class c; ``sizes[c]`` is its declared size. Counts need no hints.
    """
    near, totals, sizes = np.asarray(near), np.asarray(totals), np.asarray(sizes)
    if near.ndim != 2 or totals.shape != near.shape[1:] or sizes.shape != near.shape[1:]:
        raise PoisonproofError(
            f"A witness of ballots needs one total and one size for each of the classes of 'near'. Got shapes "
            f"{near.shape}, {totals.shape} and {sizes.shape}."
        )
    write_line(file, FORMAT, "ballots")
    write_line(file, "classes", near.shape[1], "inferred" if inferred else "declared")
    write_line(file, "rule", "two-sided" if two_sided else "one-sided")
    write_line(file, "sizes", *sizes.tolist())
    write_line(file, "totals", *totals.tolist())
    write_line(file, "samples", len(near))
    for counts, p, r in zip(near.tolist(), prediction.tolist(), radius.tolist(), strict=True):
        write_line(file, "sample", p, r, "near", *counts)
    write_line(file, "end")


def write_neighbours(
    file: IO[bytes],
    *,
    labels: Sequence[NDArray[Any]],
    n_voters: int,
    n_training: int,
    n_classes: int,
    prediction: NDArray[Any],
    radius: NDArray[Any],
    inferred: bool = False,
) -> None:
    """The witness of K nearest neighbours: ``labels[t]`` are those of the training samples, nearest to t first.

    Of each, as many are written as a proof of its radius needs: K + radius, or all if there are fewer.
    """
    write_line(file, FORMAT, "neighbours")
    write_line(file, "classes", n_classes, "inferred" if inferred else "declared")
    write_line(file, "voters", n_voters, "training", n_training)
    write_line(file, "samples", len(prediction))
    for row, p, r in zip(labels, prediction.tolist(), radius.tolist(), strict=True):
        needed = min(n_training, n_voters + r)
        if len(row) < needed:
            raise PoisonproofError(
                f"A witness of radius {r} among {n_voters} neighbours needs the labels of the {needed} nearest "
                f"training samples. Got {len(row)}."
            )
        write_line(file, "sample", p, r, "labels", *np.asarray(row)[:needed].tolist())
    write_line(file, "end")


def _hints(
    row: NDArray[Any],
    electorate: Electorate,
    partitions: Partitions,
    groups: Groups | None,
    p: int,
    r: int,
) -> tuple[int, list[tuple[Any, ...]]]:
    """The threshold that serves for all rivals, and a hint for each that needs one and for which one was found."""
    spread, allowed = electorate.spread, electorate.allowed
    counts = leads(row, electorate.n_classes, electorate.inferred).counts
    small = np.min_scalar_type(-2 * spread.d - 1)
    reach = np.where(allowed, spread.sums((row == p).astype(small)) + small.type(spread.d), 0)
    common, bound = threshold(reach, r), sum_of_largest(reach, r)
    rivals = [*range(electorate.n_classes), *([electorate.n_classes] if electorate.inferred and r > 0 else [])]
    hints: list[tuple[Any, ...]] = []
    # A class without votes has the largest weights: what is proved for the smallest lead serves for the others.
    without_votes: list[tuple[int, tuple[Any, ...] | None]] = []
    for c in rivals:
        if c == p:
            continue
        lead = lead_of(p, c, counts)
        if lead < 0 or bound <= lead:
            continue
        code = INVENTED if c == electorate.n_classes else c
        if c < electorate.n_classes and counts[c] > 0:
            gains = np.where(allowed, reach - spread.sums((row == c).astype(small)), 0)
            if sum_of_largest(gains, r) <= lead:
                hints.append(("hint", code, "tree", _tree(Largest(threshold(gains, r)))))
                continue
        if not electorate.tight:
            continue
        against = counts[c] if c < electorate.n_classes else 0
        body = next((body for known, body in without_votes if known <= lead), None) if not against else None
        if body is None:
            weight = 1 + (row == p).astype(np.int64) - ((row == c) & (c < electorate.n_classes))
            body = _tight(weight, electorate, partitions, groups, r, lead)
            if not against:
                without_votes.append((lead, body))
        if body is not None:
            hints.append(("hint", code, *body))
    return common, hints


def _tight(
    weight: NDArray[np.int64],
    electorate: Electorate,
    partitions: Partitions,
    groups: Groups | None,
    size: int,
    lead: int,
) -> tuple[Any, ...] | None:
    """What proves a radius above Theorem 2, as words; None if nothing was found."""
    if groups is not None:
        searches = prove_by_groups(weight, electorate.spread, groups, size, lead)
        if searches is not None:
            return ("groups", len(searches), *(_searched(searched) for searched in searches))
    tree = prove(weight, partitions, electorate.allowed, size, lead)
    return None if tree is None else ("tree", _tree(tree))


def _searched(searched: Searched) -> str:
    return f"{searched.group} {searched.picks} {searched.bound} {_tree(searched.tree)}"


def _tree(tree: Tree) -> str:
    if isinstance(tree, Largest):
        return f"largest {tree.threshold}"
    if isinstance(tree, Dual):
        return f"dual {tree.threshold} {' '.join(map(str, tree.u.tolist()))}"
    parts: list[str] = []
    rest: Any = tree
    while isinstance(rest, Branch):
        parts.append(f"branch {rest.partition} {_tree(rest.with_it)}")
        rest = rest.without_it
    return " ".join([*parts, _tree(rest)])


def _write_groups(file: IO[bytes], groups: Groups | None) -> None:
    if groups is None:
        write_line(file, "groups 0")
        return
    write_line(file, "groups", len(groups.members), groups.overlap, "exactly" if groups.exactly_one else "least")
    for members in groups.members:
        write_line(file, len(members), *members.tolist())


def _words(votes: NDArray[Any]) -> Callable[[NDArray[Any]], bytes]:
    """A fast way to write rows of small numbers: all of them looked up in a table of words of one width."""
    most = int(votes.max(initial=0))
    table = np.array([f"{number:>{len(str(most))}} ".encode() for number in range(most + 1)])
    return lambda row: table[row].tobytes()


def write_line(file: IO[bytes], *words: Any) -> None:
    """Words and numbers of one line."""
    file.write(" ".join(map(str, words)).encode() + b"\n")

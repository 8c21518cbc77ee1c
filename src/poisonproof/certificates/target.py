"""Radii against being turned to one class; the mathematics is in `poisonproof.certificates.target_kernels`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.certificates.tight_tables import TightTables
from poisonproof.errors import PoisonproofError
from poisonproof.samples.labels import label_cells
from poisonproof.system.threads import in_threads
from poisonproof.votes.ballots import Ballots
from poisonproof.votes.neighbours import Neighbours
from poisonproof.votes.votes import Votes

ROWS_PER_TASK = 512


class TargetRadii(NamedTuple):
    """What a method proves against one target."""

    prediction: NDArray[np.int64]
    margin: NDArray[np.int64]
    radius: NDArray[np.int64]
    exact: NDArray[np.bool_] | None = None


def target_code(votes: Votes | Ballots | Neighbours, target: Any) -> int:
    """The class index of a label that the attacker wants; one sentence if it is no class."""
    index = {cell: at for at, cell in enumerate(label_cells(votes.classes.tolist()))}
    code = index.get(label_cells([target])[0])
    if code is None:
        raise PoisonproofError(
            f"The 'target' of certify must be one of the {len(votes.classes)} classes, as a label. Got {target!r} "
            "instead."
        )
    return code


def by_votes(votes: Votes, target: int, n_jobs: int, within: NDArray[np.int64] | None = None) -> TargetRadii:
    """Theorem 2 for every class that must be overtaken, and the fewest base classifiers with which that is done."""
    return _strongest(votes, target, n_jobs, within)[0]


def by_the_bound(votes: Votes, target: int) -> TargetRadii:
    """⌊m / 2d⌋ with m the prediction's lead over the target."""
    counts = votes.counts()
    prediction, rows = counts.argmax(axis=1), np.arange(votes.n_test)
    margin = counts[rows, prediction] - counts[:, target] - (target < prediction)
    margin[prediction == target] = 0
    return TargetRadii(prediction, margin, margin // (2 * votes.spread.d))


def by_overlap(
    votes: Votes, target: int, tables: TightTables, limits: tuple[int, int, int], n_jobs: int
) -> TargetRadii:
    """The same, with overlap counted once for the prediction and for the class that Theorem 2 keeps above longest.

    One class against the target is an election between two: all other votes count as abstentions.
    """
    from poisonproof.certificates.target_kernels import attacked_rows
    from poisonproof.certificates.tight import tighten_rows

    radii, strongest = _strongest(votes, target, n_jobs)
    spread = votes.spread
    table = np.ascontiguousarray(spread.as_table())
    feeding = np.array([spread.partitions_of(i) for i in range(spread.n_subsets)], np.int64)
    exact = np.zeros(votes.n_test, np.bool_)

    def raise_against(above: NDArray[np.int64], asked: NDArray[np.int64], matrix: NDArray[Any], start: int) -> None:
        first, second = (above > target).astype(np.int64), (above < target).astype(np.int64)
        two = np.where(matrix == target, second[:, None], 2)
        two = np.where(matrix == above[:, None], first[:, None], two)
        raised, ignored = np.zeros(len(asked), np.int64), np.zeros(len(asked), np.bool_)
        columns = np.ascontiguousarray(two[:, tables.columns].astype(np.uint8))
        tighten_rows(columns, *tables.tables, 2, False, *limits, first, second, raised, ignored)
        radii.radius[start + asked] = np.maximum(radii.radius[start + asked], raised)

    def work(start: int, stop: int) -> None:
        part = slice(start, stop)
        matrix, prediction = np.ascontiguousarray(votes.matrix[part]), radii.prediction[part]
        asked = np.flatnonzero(prediction != target)
        raise_against(prediction[asked], asked, matrix[asked], start)
        asked = np.flatnonzero((prediction != target) & (strongest[part] != prediction))
        raise_against(strongest[part][asked], asked, matrix[asked], start)
        attacked_rows(matrix, table, feeding, len(votes.classes), target, prediction, radii.radius[part], exact[part])

    in_threads(votes.n_test, 8, work, n_jobs)
    return radii._replace(exact=exact)


def by_runoff(
    votes: Votes, target: int, prediction: NDArray[np.int64], radius: NDArray[np.int64], n_jobs: int
) -> TargetRadii:
    """Run-off: from the winners and their radii against any change."""
    from poisonproof.certificates.target_kernels import target_runoff_rows

    assert votes.rankings is not None
    rankings, spread = votes.rankings, votes.spread
    if rankings.shape[-1] < len(votes.classes):
        raise PoisonproofError(
            f"The target of a run-off needs all {len(votes.classes)} places of the rankings. Got the first "
            f"{rankings.shape[-1]}; leave the target out, or keep all places."
        )
    shifts = np.array(spread.shifts or (), np.int64)
    table = np.array(spread.as_table())
    small = np.empty(0, np.promote_types(np.uint16, np.min_scalar_type(4 * spread.d)))
    radii = TargetRadii(prediction, np.empty(votes.n_test, np.int64), radius.copy())

    def work(start: int, stop: int) -> None:
        rows, part = np.array(rankings[start:stop], np.uint16), slice(start, stop)
        arrays = (radii.prediction[part], radii.margin[part], radii.radius[part])
        target_runoff_rows(rows, shifts, table, votes.classes_inferred, target, small, *arrays)

    in_threads(votes.n_test, 8, work, n_jobs)
    return radii


def _strongest(
    votes: Votes, target: int, n_jobs: int, within: NDArray[np.int64] | None = None
) -> tuple[TargetRadii, NDArray[np.int64]]:
    from poisonproof.certificates.target_kernels import target_rows

    spread = votes.spread
    shifts = np.array(spread.shifts or (), np.int64)
    table = spread.table if spread.table is not None else np.empty((0, 0), np.int64)
    if within is not None:
        shifts, table = np.empty(0, np.int64), spread.as_table()[within]
    small = np.empty(0, np.min_scalar_type(2 * spread.d))
    prediction, margin, strongest, radius = (np.empty(votes.n_test, np.int64) for _ in range(4))

    def work(start: int, stop: int) -> None:
        rows, part = np.ascontiguousarray(votes.matrix[start:stop]), slice(start, stop)
        arrays = (prediction[part], margin[part], strongest[part], radius[part])
        target_rows(rows, shifts, table, len(votes.classes), target, small, *arrays)

    in_threads(votes.n_test, ROWS_PER_TASK, work, n_jobs)
    if within is not None and len(within) == 0:
        radius[prediction != target] = spread.n_partitions
    return TargetRadii(prediction, margin, radius), strongest

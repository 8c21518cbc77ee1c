"""Certificates: from votes to radii, against any change or against being turned to one class.

The mathematics is in `poisonproof.core.theorem2`, `poisonproof.core.tight` and `poisonproof.core.runoff`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poisonproof import registry
from poisonproof.core.certificate import Certificate, TargetCertificate
from poisonproof.core.spread import Spread, SpreadArrays
from poisonproof.core.votes import Tallies, Votes
from poisonproof.errors import PoisonproofError, WrongTypeError
from poisonproof.premises import Premise
from poisonproof.samples.labels import label_cells, places_of
from poisonproof.system.threads import in_threads

__all__ = ["Certificate", "TargetCertificate", "certify"]

Method = Literal["finite-aggregation", "dpa-bound", "tight", "run-off"]
DUAL_ITERATIONS = 40
PARTITION_VISITS = 4_000_000  # what branch and bound may look at for one rival and attack size
BLOCK_VISITS = 4_000_000  # what branch and bound inside blocks may look at for one rival
BYTES_PER_TASK = 1 << 20
MOST_STEPS = 1 << 28  # of Theorem 2 in plain NumPy: about what loading the compiled kernel costs
SORTING = 16  # such steps, for one number


@overload
def certify(
    votes: Votes | Tallies,
    method: Method = "finite-aggregation",
    *,
    target: None = None,
    reachable: ArrayLike | None = None,
    n_jobs: int = -1,
) -> Certificate: ...


@overload
def certify(
    votes: Votes | Tallies,
    method: Method = "finite-aggregation",
    *,
    target: Any,
    reachable: ArrayLike | None = None,
    n_jobs: int = -1,
) -> TargetCertificate: ...


def certify(
    votes: Votes | Tallies,
    method: Method = "finite-aggregation",
    *,
    target: Any = None,
    reachable: ArrayLike | None = None,
    n_jobs: int = -1,
) -> Certificate | TargetCertificate:
    """A radius for every test sample: no attack of at most that size changes its prediction.

    The guarantee holds if every base classifier is a function of its own subset (and its index)
    alone, and if ``votes.spread`` is the spread that made the subsets.

    Parameters
    ----------
    votes : Votes, or what other voters said
        What base classifiers say, or training samples themselves. The latter have one certificate each
        (docs/proofs/ballots.md); of the other arguments only ``target`` is for them.
    method : "finite-aggregation", "dpa-bound", "tight" or "run-off"
        ``finite-aggregation`` is Theorem 2 of Wang, Levine and Feizi (2022); with d = 1 it is Theorem 1
        (DPA) and exact. ``dpa-bound`` counts 2d votes for every poison, whatever the base classifiers
        say: the bound Theorem 2 improves upon, on the same votes. ``tight`` counts a base classifier that
        two poisons reach once (see `poisonproof.core.tight`): never below Theorem 2, slower, and it
        tells which radii are exact; it gains most with a spread designed for it (`Spread.planes`). ``run-off`` is
        another election over votes with rankings: the two most voted classes meet, and more base classifiers rank
        the winner above the other (see `poisonproof.core.runoff`); its prediction may differ from the most
        voted class.
    target : label, optional
        Ask another question: how many poisons until the prediction could become this class? The answer is a
        `TargetCertificate`, whose radii are never below those against any change
        (see `poisonproof.core.theorem2`); where samples vote they are exact.
    reachable : indices or boolean mask of partitions, optional
        The only partitions that an attacker can poison (Theorem 4), because the sources of all others are trusted; a
        premise of the certificate. A radius equal to the number of partitions then means that no attack within them
        changes the prediction, of whatever size. Only with "finite-aggregation".
    n_jobs : int
        Threads; -1 means one per core. The result does not depend on it.
    """
    if not isinstance(votes, Votes) and isinstance(votes, Tallies):
        return votes.certify(target=target, reachable=reachable, n_jobs=n_jobs)
    if not isinstance(votes, Votes):
        raise WrongTypeError(
            f"certify takes poisonproof.Votes, which know their spread, or what samples said. Got "
            f"{type(votes).__name__} instead; stochastic ensembles certify by themselves, and against every target "
            "alike."
        )
    if method not in registry.names("certificates"):
        raise PoisonproofError(
            f"The 'method' of certify must be one of {registry.names('certificates')}. Got {method!r} instead.",
            code="certify.parameter",
        )
    if n_jobs != -1 and n_jobs < 1:
        raise PoisonproofError(
            f"The 'n_jobs' of certify must be -1 or at least 1. Got {n_jobs!r} instead.", code="certify.parameter"
        )
    premises, within = votes.premises, None
    if reachable is not None:
        if method != "finite-aggregation":
            raise PoisonproofError(
                f"'reachable' needs the method 'finite-aggregation' (Theorem 4). Got {method!r} instead.",
                code="certify.reachable",
            )
        within = reachable_partitions(reachable, votes.spread.n_partitions)
        premises = (*premises, reachable_premise(within, votes.spread.n_partitions))
    common: dict[str, Any] = {
        "method": method,
        "classes": votes.classes,
        "spread": votes.spread,
        "split": votes.split,
        "classes_inferred": votes.classes_inferred,
        "premises": premises,
    }
    if target is not None:
        if method not in ("finite-aggregation", "dpa-bound"):
            raise PoisonproofError(
                f"A target is certified by 'finite-aggregation' or 'dpa-bound'. Got {method!r} instead; the radius of "
                f"'{method}' against any change holds against every target too.",
                code="certify.target",
            )
        code = target_code(votes.classes, target)
        bounds = _bounds_for(votes, code) if method == "dpa-bound" else _against(votes, code, within, n_jobs)
        return TargetCertificate(target=code, **bounds._asdict(), **common)
    if within is not None:
        radii = finite_aggregation(votes, n_jobs, within)
    else:
        radii = registry.find("certificates", method)(votes, n_jobs)
    return Certificate(**radii._asdict(), **common)


class Radii(NamedTuple):
    """What a method proves against any change; see `Certificate`.

    A method is a function of votes and a number of threads that gives them, in the registry of certificates.
    """

    prediction: NDArray[np.int64]
    runner_up: NDArray[np.int64]
    margin: NDArray[np.int64]
    radius: NDArray[np.int64]
    exact: NDArray[np.bool_] | None = None


class TargetRadii(NamedTuple):
    """What a method proves against one target; see `TargetCertificate`."""

    prediction: NDArray[np.int64]
    margin: NDArray[np.int64]
    radius: NDArray[np.int64]
    exact: NDArray[np.bool_] | None = None  # where samples vote


def _filled(n_test: int, n_arrays: int, rows_per_task: int, kernel: Callable[..., None], n_jobs: int) -> list[Any]:
    """Arrays that a kernel fills, some test samples at a time and in threads: ``kernel(slice, *their parts)``."""
    arrays = [np.zeros(n_test, np.int64) for _ in range(n_arrays)]

    def work(start: int, stop: int) -> None:
        kernel(slice(start, stop), *(array[start:stop] for array in arrays))

    in_threads(n_test, rows_per_task, work, n_jobs)
    return arrays


def finite_aggregation(votes: Votes, n_jobs: int, within: NDArray[np.int64] | None = None) -> Radii:
    """Theorem 2; of poisons ``within`` these partitions, Theorem 4."""
    spread, n_classes, unseen = votes.spread, len(votes.classes), votes.classes_inferred
    n_steps = votes.n_test * spread.n_partitions * n_classes * (spread.d + SORTING)
    if within is None and n_steps <= MOST_STEPS and "numba" not in sys.modules:
        return Radii(*certify_in_numpy(votes.matrix, spread.as_table(), n_classes, unseen_class=unseen))
    from poisonproof.core.theorem2 import certify_rows

    reached, small = _for_kernels(spread, within)

    def kernel(part: slice, *outputs: Any) -> None:
        certify_rows(np.ascontiguousarray(votes.matrix[part]), reached, n_classes, unseen, small, *outputs)

    radii = Radii(*_filled(votes.n_test, 4, _rows_per_task(votes), kernel, n_jobs))
    if within is not None and len(within) == 0:
        radii.radius[:] = spread.n_partitions
    return radii


def _against(votes: Votes, target: int, within: NDArray[np.int64] | None, n_jobs: int) -> TargetRadii:
    """Theorem 2 for every class that must be overtaken, and the fewest base classifiers with which that is done."""
    from poisonproof.core.theorem2 import target_rows

    reached, small = _for_kernels(votes.spread, within)

    def kernel(part: slice, *outputs: Any) -> None:
        target_rows(np.ascontiguousarray(votes.matrix[part]), reached, len(votes.classes), target, small, *outputs)

    bounds = TargetRadii(*_filled(votes.n_test, 3, _rows_per_task(votes), kernel, n_jobs))
    if within is not None and len(within) == 0:
        bounds.radius[bounds.prediction != target] = votes.spread.n_partitions
    return bounds


def _for_kernels(spread: Spread, within: NDArray[np.int64] | None) -> tuple[SpreadArrays, NDArray[Any]]:
    """The spread, or what of it can be poisoned, and an empty array of the type that holds 2d."""
    reached = spread.arrays if within is None else spread.arrays.within(within)
    return reached, np.empty(0, np.min_scalar_type(2 * spread.d))


def _rows_per_task(votes: Votes) -> int:
    return max(1, min(512, BYTES_PER_TASK // (votes.spread.n_subsets * votes.matrix.itemsize)))


def tight(votes: Votes, n_jobs: int) -> Radii:
    """Larger radii with their runners-up, and which of them an explicit attack shows to be exact."""
    from poisonproof.core.tight import tight_tables, tighten_rows

    radii = finite_aggregation(votes, n_jobs)
    spread = votes.spread
    columns, tables, block_size = tight_tables(spread)
    limits = DUAL_ITERATIONS, PARTITION_VISITS // spread.n_partitions, BLOCK_VISITS // block_size
    exact = np.zeros(votes.n_test, np.bool_)

    def work(start: int, stop: int) -> None:
        rows = np.ascontiguousarray(votes.matrix[start:stop][:, columns])
        outputs: list[Any] = [array[start:stop] for array in (radii.prediction, radii.runner_up, radii.radius, exact)]
        tighten_rows(rows, *tables, len(votes.classes), votes.classes_inferred, *limits, *outputs)

    in_threads(votes.n_test, 8, work, n_jobs)
    return radii._replace(exact=exact)


def run_off(votes: Votes, n_jobs: int) -> Radii:
    """The two most voted classes meet; see `poisonproof.core.runoff`."""
    from poisonproof.core.runoff import certify_runoff_rows

    if votes.rankings is None:
        raise PoisonproofError(
            "Method 'run-off' needs the base classifiers' rankings, and these votes have none; "
            "give Votes(..., rankings=...), or make them by FiniteAggregationClassifier.votes(X, rankings=True).",
            code="certify.no-rankings",
        )
    rankings, spread, n_classes = votes.rankings, votes.spread, len(votes.classes)
    # One type for all, whatever the number of classes, d, or the file: the kernel is compiled once.
    small = np.empty(0, np.promote_types(np.uint16, np.min_scalar_type(3 * spread.d)))
    exact = np.empty(votes.n_test, np.bool_)

    def kernel(part: slice, *outputs: Any) -> None:
        rows = np.minimum(rankings[part], n_classes, dtype=np.uint16)
        all_outputs: list[Any] = [*outputs, exact[part]]
        certify_runoff_rows(rows, n_classes, spread.arrays, spread.feeding, votes.classes_inferred, small, *all_outputs)

    return Radii(*_filled(votes.n_test, 4, 8, kernel, n_jobs))._replace(exact=exact)


def certify_in_numpy(votes: NDArray[Any], table: NDArray[np.int64], n_classes: int, *, unseen_class: bool) -> list[Any]:
    """Theorem 2 for votes so few that loading compiled code would take longer: what `theorem2.certify_rows` fills.

    Every Δ of every rival is written out, sorted and added up.

    ``table`` holds the d subsets of every partition. ``unseen_class`` adds one rival without votes that wins ties; its
    code is ``n_classes``.
    """
    n_test, rivals = len(votes), n_classes + unseen_class
    counts = np.stack([(votes == c).sum(axis=1) for c in range(rivals)], axis=1)
    counts[:, n_classes:] = 0  # what stands there are abstentions
    prediction = counts[:, :n_classes].argmax(axis=1)
    votes_won = counts[np.arange(n_test), prediction]
    reach = sums_by_partition(1 + (votes == prediction[:, None]), table)
    margins, radii = np.full((2, n_test, rivals), np.iinfo(np.int64).max)
    for c in range(rivals):
        lead = votes_won - counts[:, c] - ((c < prediction) | (c == n_classes))
        hits = sums_by_partition(votes == c, table) if c < n_classes else 0
        spent = np.cumsum(np.sort(reach - hits, axis=1, kind="stable")[:, ::-1], axis=1, dtype=np.int64)
        rival = prediction != c
        margins[rival, c] = lead[rival]
        radii[rival, c] = (spent <= lead[:, None]).sum(axis=1)[rival]
    radius = radii.min(axis=1)
    among = np.where(radii == radius[:, None], margins, np.iinfo(np.int64).max)
    return [prediction, among.argmin(axis=1), np.maximum(margins.min(axis=1), 0), radius]


def sums_by_partition(weight: NDArray[Any], table: NDArray[np.int64]) -> NDArray[Any]:
    """Σ over the subsets of each partition of weight[t, subset], which is 2 at the most.

    In short numbers where they hold the sums: NumPy sorts those by radix.
    """
    short = np.int16 if 2 * table.shape[1] <= np.iinfo(np.int16).max else np.int64
    weight, sums = weight.astype(short), np.zeros((len(weight), len(table)), short)
    for subsets in table.T:
        sums += weight[:, subsets]
    return sums


def _leads(votes: Votes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Predictions, and their leads over every class, less one where a tie would go against them."""
    counts = votes.counts()
    prediction = counts.argmax(axis=1)
    top = counts[np.arange(votes.n_test), prediction][:, None]
    leads = top - counts - (np.arange(counts.shape[1]) < prediction[:, None])
    return prediction, np.column_stack([leads, top - 1]) if votes.classes_inferred else leads


def dpa_bound(votes: Votes, n_jobs: int) -> Radii:
    """radius = ⌊m / 2d⌋ with m the smallest margin; it grows with m, so the smallest (m, c) sets it."""
    prediction, leads = _leads(votes)
    rows = np.arange(votes.n_test)
    leads[rows, prediction] = np.iinfo(np.int64).max
    runner_up = leads.argmin(axis=1)
    margin = np.maximum(leads[rows, runner_up], 0)
    return Radii(prediction, runner_up, margin, margin // (2 * votes.spread.d))


def _bounds_for(votes: Votes, target: int) -> TargetRadii:
    """⌊m / 2d⌋ with m the prediction's lead over the target."""
    prediction, leads = _leads(votes)
    margin = np.where(prediction == target, 0, leads[:, target])
    return TargetRadii(prediction, margin, margin // (2 * votes.spread.d))


def reachable_partitions(reachable: ArrayLike, n_partitions: int) -> NDArray[np.int64]:
    """The partitions in increasing order, from indices or a boolean mask; one sentence if they are none."""
    given = np.asarray(reachable)
    if given.ndim != 1:
        raise PoisonproofError(
            f"'reachable' must be a list of partitions or a mask. Got an array of shape {given.shape}.",
            code="certify.reachable",
        )
    if given.dtype == np.bool_:
        if len(given) != n_partitions:
            raise PoisonproofError(
                f"A mask of reachable partitions needs {n_partitions} entries. Got {len(given)}.",
                code="certify.reachable",
            )
        return np.flatnonzero(given)
    if len(given) == 0:
        return np.empty(0, np.int64)
    if given.dtype.kind not in "iu":
        raise PoisonproofError(
            f"Reachable partitions must be whole numbers or a mask. Got dtype {given.dtype}.", code="certify.reachable"
        )
    if given.min() < 0 or given.max() >= n_partitions:
        wrong = given.min() if given.min() < 0 else given.max()
        raise PoisonproofError(
            f"Reachable partitions must lie in 0 … {n_partitions - 1}. Got {wrong}.", code="certify.reachable"
        )
    return np.unique(given).astype(np.int64)


def reachable_premise(partitions: NDArray[np.int64], n_partitions: int) -> Premise:
    """The premise: how many, and which, all of them, so that a reader can compute the radii again."""
    return Premise("reachable-partitions", {"n": n_partitions, "partitions": partitions.tolist()}, declared=True)


def target_code(classes: NDArray[Any], target: Any) -> int:
    """The class index of a label that the attacker wants; one sentence if it is no class."""
    code = int(places_of(label_cells([target]), label_cells(classes.tolist()))[0])
    if code < 0:
        raise PoisonproofError(
            f"The 'target' of certify must be one of the {len(classes)} classes, as a label. Got {target!r} instead.",
            code="certify.target",
        )
    return code


def median_radii_against_targets(votes: Votes | Tallies, certificate: Certificate) -> tuple[int | None, ...]:
    """For each class: half of the predictions of other classes withstand that many poisons without becoming it.

    None where every prediction is this class. ``certificate`` is that of these votes: its method says who is elected.
    In a run-off its radii stand for those against a target, which are never smaller: to become the target a prediction
    must change.
    """
    medians: list[int | None] = []
    for target, label in enumerate(certificate.classes.tolist()):
        held = certificate.radius[certificate.prediction != target]
        if certificate.method != "run-off":
            method: Method = "dpa-bound" if certificate.method == "dpa-bound" else "finite-aggregation"
            against = certify(votes, method, target=label)
            held = against.radius[~against.already]
        medians.append(int(np.percentile(held, 50, method="lower")) if len(held) else None)
    return tuple(medians)

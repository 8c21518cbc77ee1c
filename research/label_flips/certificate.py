"""White-box label flips: a certificate for kernel ridge members that looks inside them (after EnsembleCert, 2026).

`Certificate.radius_against("label_flip")` lets one flip do anything to the base classifiers that it reaches. Kernel
ridge is linear in the labels, so it can be known how little one flip does (see `label_flip_kernels`).

*Rounding.* A base classifier solves A X = Y in double precision, keeps X in single precision, and sums k_q·x_q over its
n rows in single precision. Whatever the labels, with u = 2⁻²⁴ and v = 2⁻⁵³:

- keeping and summing: at most η·Σ_q |k_q||x_q| with η = (n + 2)u / (1 − (n + 2)u). A flip of sample i changes x by a
  column of A⁻¹, so it adds at most η·h_i, h = |A⁻¹||k|;
- solving by Cholesky (Higham, Theorem 10.4): the computed x solves (A + E)x = y, |E| ≤ γ·|R|ᵀ|R|, whose entries are at
  most γ·a with a the largest diagonal entry of A and γ = (3n + 1)v / (1 − (3n + 1)v). So a score is off by at most
  γ·a·‖g‖₁·‖x‖₁, and a flip adds at most γ·a·‖g‖₁·r_i, r_i the absolute row sum of A⁻¹;
- the g that we compute is off by at most γ·a·‖g‖₁·r_i in entry i, for the same reason.

The norms come from a computed inverse, so every one of these terms is taken four times.

*Class weights* (``balance``) are a factor of the targets of a class. Its score and all of these errors have it too, so
that dividing both by it leaves the errors as they are (`weighted_member_costs`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poisonproof.core.certify import certify
from poisonproof.core.subsets import Subsets
from poisonproof.core.votes import Votes
from poisonproof.errors import PoisonproofError, WrongTypeError
from poisonproof.learners.kernel_ridge import LARGEST_COEFFICIENT, KernelRidgeClassifier, Pool
from poisonproof.premises import Premise
from poisonproof.samples.labels import read_labels
from poisonproof.system.determinism import one_linear_algebra_thread
from poisonproof.system.threads import in_threads
from research.label_flips.cholesky import Factor, system
from research.label_flips.kernels import NEVER, flip_radii, member_costs, weighted_member_costs

FEWEST_TESTS_AT_ONCE = 256
BYTES_AT_ONCE = 2**30  # a base classifier is solved and inverted again for every batch of test samples
SAFETY = 4.0
SINGLE, DOUBLE = 2.0**-24, 2.0**-53


@dataclass(frozen=True, eq=False)
class LabelFlipCertificate:
    """For every test sample: whichever labels an attacker changes to other declared classes, up to ``radius`` of them,
    the prediction stays the same.

    It holds for the kernel ridge learner that was given, and under the premises listed; it says nothing about samples
    that are inserted, removed or changed otherwise.

    Attributes
    ----------
    prediction : array (n_test,) of class indices
    radius : array (n_test,)
        The largest number of flips proved not to change the prediction; never below ``black_box``.
    black_box : array (n_test,)
        ``certify(votes).radius_against("label_flip")``: the same, whatever the base classifiers are.
    """

    prediction: NDArray[np.int64]
    radius: NDArray[np.int64]
    black_box: NDArray[np.int64]
    premises: tuple[Premise, ...] = field(default=(), repr=False)


def certify_label_flips(
    votes: Votes, learner: KernelRidgeClassifier, X: Any, y: ArrayLike, X_test: Any, *, n_jobs: int = -1
) -> LabelFlipCertificate:
    """How many flipped labels every prediction withstands.

    Parameters
    ----------
    votes : Votes
        Of base classifiers that ``learner`` was the estimator of, trained on ``X, y`` and asked about ``X_test``; votes
        that cannot be theirs are refused.
    learner : KernelRidgeClassifier
        With any ``balance``; class weights move with the labels, which is counted for the attacker, so that the gain is
        largest with ``balance=0``.
    n_jobs : int
        Threads; -1 means one per core. The result does not depend on it.
    """
    split = _check(votes, learner)
    classes, codes, _ = read_labels(y, votes.classes.tolist())
    samples = split.samples(X)
    if len(codes) != len(samples):
        raise PoisonproofError(f"There are {len(samples)} samples but {len(codes)} labels; give one label per sample.")
    partition = split.partitions(samples, votes.spread.n_partitions)
    rows = np.flatnonzero(codes >= 0)
    codes = codes[rows]
    subsets = Subsets.of(samples.subset(rows), codes, partition[rows], votes.spread)
    with one_linear_algebra_thread():
        pool = learner.share(samples.subset(rows).take(np.arange(len(rows))))
        asked = split.samples(X_test)
        if len(asked) != votes.n_test:
            raise PoisonproofError(f"The votes are about {votes.n_test} test samples, but there are {len(asked)}.")
        prediction, radius = np.empty(votes.n_test, np.int64), np.empty(votes.n_test, np.int64)
        bytes_per_test = 4 * (pool.n_rows + len(subsets) * len(classes))
        step = max(FEWEST_TESTS_AT_ONCE, BYTES_AT_ONCE // bytes_per_test)
        for start in range(0, votes.n_test, step):
            part = slice(start, min(start + step, votes.n_test))
            kernel = pool.kernel_columns(pool.test_features(asked.take(np.arange(part.start, part.stop))))
            matrix = np.ascontiguousarray(votes.matrix[part])
            costs = _costs(pool, subsets, codes, kernel, matrix, len(classes), n_jobs)
            flip_radii(matrix, costs, len(classes), votes.spread.d, len(rows), prediction[part], radius[part])
    black_box = certify(votes, n_jobs=n_jobs).radius_against("label_flip")
    premises = (*votes.premises, Premise("label-flips", "to other declared classes; nothing else", declared=True))
    return LabelFlipCertificate(prediction, np.maximum(radius, black_box), black_box, premises)


def _check(votes: Votes, learner: Any) -> Any:
    if not isinstance(learner, KernelRidgeClassifier):
        raise WrongTypeError(
            f"White-box label flips need a KernelRidgeClassifier, whose scores are linear in the labels. Got "
            f"{type(learner).__name__}."
        )
    if votes.classes_inferred:
        raise PoisonproofError(
            "White-box label flips need declared classes, because a flip could invent one; give classes=."
        )
    if votes.split is None or votes.split.kind == "group" or votes.split.cost("label_flip") != 1:
        raise PoisonproofError(
            "White-box label flips need a known split in which a flip does not move a sample, and which does not go by "
            "contributor."
        )
    return votes.split


def _costs(
    pool: Pool,
    subsets: Subsets,
    codes: NDArray[np.int64],
    kernel: NDArray[np.float32],
    votes: NDArray[Any],
    n_classes: int,
    n_jobs: int,
) -> NDArray[np.int32]:
    """costs[t, i, c] of all base classifiers; 1 where a subset holds one class, `NEVER` where it is empty."""
    costs = np.full((len(votes), len(subsets), n_classes), NEVER, np.int32)

    def work(start: int, stop: int) -> None:
        for i in range(start, stop):
            subset = subsets.rows(i)
            if not len(subset):
                continue
            held, local = np.unique(codes[subset], return_inverse=True)
            if len(held) < 2:
                costs[:, i] = 1
                costs[np.arange(len(votes)), i, votes[:, i]] = 0
                continue
            inside = _Inside(pool, subset, local, kernel)
            heaviest = float(len(subset)) ** abs(pool.balance)
            if (
                not inside.largest * heaviest < LARGEST_COEFFICIENT / SAFETY
            ):  # flips might make the solution fall back to a ridge
                costs[:, i] = 1
                costs[np.arange(len(votes)), i, votes[:, i]] = 0
                continue
            verdicts = votes[:, i].astype(np.int64)
            _check_votes(i, verdicts, held, inside)
            if pool.balance != 0:
                labels = (codes[subset], n_classes, float(pool.balance))
                weighted_member_costs(inside.g, inside.extra, *labels, verdicts, costs[:, i])
                continue
            scores, base = np.zeros((n_classes, len(votes))), np.zeros((n_classes, len(votes)))
            scores[held], base[held] = inside.scores, inside.base
            member_costs(inside.g, inside.extra, codes[subset], scores, base, verdicts, costs[:, i])

    in_threads(len(subsets), 1, work, n_jobs)
    return costs


class _Inside:
    """What labels can do in one base classifier: g, scores, and how far its rounding may lie from them.

    ``scores`` and ``base``, the bound on their error, are of the held classes, with their weights.
    """

    def __init__(self, pool: Pool, subset: NDArray[np.int64], local: NDArray[np.int64], kernel: NDArray[np.float32]):
        solution = pool.solve(subset, local)
        rows = pool.rows_of(subset)
        matrix, column = system(pool, subset, solution.ridge), kernel[rows].astype(np.float64)
        n, copies, diagonal = len(rows), pool.copies, float(matrix.diagonal().max())
        factor = Factor(matrix, n)
        g = factor.solve(column)
        inverse = np.abs(factor.inverse())
        single, double = (n + 2) * SINGLE, (3 * n + 1) * DOUBLE
        eta = SAFETY * single / (1 - single)
        gamma = SAFETY * double / (1 - double) * diagonal * np.abs(g).sum(axis=0)
        sums = inverse.sum(axis=1)
        coefficients = np.abs(solution.coefficients.reshape(n, -1).astype(np.float64))
        one_hot = np.eye(coefficients.shape[1])[local]

        def of_samples(values: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.asarray(values.reshape(len(subset), copies, -1).sum(axis=1))

        self.largest = float(sums.max())
        self.g = np.ascontiguousarray(of_samples(g))
        own_errors = gamma * of_samples(sums[:, None])  # of our g, and of the solution that a flip adds
        # A sum of positive numbers in single precision is off by a share of less than ``single``.
        reach = (1 + 2 * single) * (_single(inverse) @ np.abs(kernel[rows])).astype(np.float64)
        self.extra = np.ascontiguousarray(eta * of_samples(reach) + 2 * own_errors)
        counts = one_hot.sum(axis=0)
        weight = ((len(subset) / len(counts) / counts) ** pool.balance)[:, None]
        self.scores = weight * (one_hot.T @ self.g)
        self.base = (
            eta * (coefficients.T @ np.abs(column))
            + gamma * coefficients.sum(axis=0)[:, None]
            + weight * (one_hot.T @ own_errors)
        )


def _single(inverse: NDArray[np.float64]) -> NDArray[np.float32]:
    """In single precision, and finite: of a base classifier with larger entries nothing is claimed (``largest``)."""
    return np.minimum(inverse, LARGEST_COEFFICIENT).astype(np.float32)


def _check_votes(i: int, votes: NDArray[Any], held: NDArray[np.int64], inside: _Inside) -> None:
    """Refuse votes that this base classifier cannot have given, whatever the rounding."""
    place = np.searchsorted(held, votes)
    known = (place < len(held)) & (held[np.minimum(place, len(held) - 1)] == votes)
    tests = np.arange(len(votes))
    place = np.minimum(place, len(held) - 1)
    possible = inside.scores[place, tests] + inside.base[place, tests] >= (inside.scores - inside.base).max(axis=0)
    if not (known & possible).all():
        raise PoisonproofError(
            f"The votes of base classifier {i} are not those of this learner on these data; give the learner, X and y "
            "that the votes were made with."
        )

"""Kernel ridge classification that many overlapping subsets can share, exact to the bit.

Whatever is a function of one sample (features) or of two (kernel values) is computed once and used by
every subset that holds them. Features are small integers, so inner products are exact in float32,
whatever their order; squared distances are then exact integers, and the kernel is read off a table.
The solve sees the subset's own matrix in canonical order, on one thread, and scores are summed in a
fixed order. So the pooled path and the plain one (`fit`, `predict`) give identical votes, which do not
depend on batches, blocks or threads.

Features may come with those of the mirrored sample: then the kernel is averaged over mirroring, exactly. With e the
sum and o the difference of a vector's halves, a·b = (e·e′ + o·o′) / 2 and a·mirror(b) = (e·e′ − o·o′) / 2: two products
of half the width, as dear as one.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from poisonproof.display import in_bytes
from poisonproof.errors import PoisonproofError
from poisonproof.learners.feature_maps import GlyphFeatures, VectorFeatures, ask_map
from poisonproof.samples.batches import ONE_BY_ONE, declares
from poisonproof.samples.convert import count_rows, take_rows
from poisonproof.samples.labels import classes_and_codes
from poisonproof.system.compiled import njit
from poisonproof.system.determinism import one_linear_algebra_thread
from poisonproof.system.threads import in_threads

LOWER = b"L"
KERNELS = ("rbf", "laplace", "linear")
TABLE_SIZE = 1 << 16
EXACT = 2**24  # a float32 sum of integers is exact as long as no partial sum passes this
ROWS_PER_PRODUCT = 4096
NUMBERS_PER_PRODUCT = 1 << 24  # wide features go in fewer rows at once, to spare memory
LENGTHS_AT_ONCE = 1 << 11
MOST_ROWS = 30_000
SMALLEST_SCALE = 1e-6
EPSILON = 2.0**-52
LARGEST_COEFFICIENT = 1e30  # so that no score of MOST_ROWS rows overflows single precision


class KernelRidgeClassifier(ClassifierMixin, BaseEstimator):
    """Kernel ridge regression on one-hot targets; the class of the highest score, ties to the smaller.

    Parameters
    ----------
    features : callable, optional
        Feature map to small integers, with a ``scale`` that counts as length 1, such as `GlyphFeatures`.
        Default: `VectorFeatures`, which rounds plain numbers. Called as ``features(X, training=…)``; gives
        an array (n, copies, features). A map of your own is asked about one sample at a time; one that states its
        ``n_features`` (and ``copies``, if there are several) may raise on a sample, whose features are then zeros,
        so that no sample stops the training. If it is ``mirrored``, the second half of a vector is the first half of
        the mirrored sample's, and the kernel is the mean over a sample and its mirror image.
    kernel : "rbf", "laplace" or "linear"
        ``exp(-gamma · distance²)``, ``exp(-gamma · distance)`` (Euclidean), or the inner product; on features
        divided by their scale.
    gamma : float
        Width of the kernel. Given, never taken from the data.
    ridge : float
        Added to the diagonal. Kernel values are rounded, so copies of near samples may make a matrix that is not
        positive definite for all that; its ridge is doubled until it is.
    balance : float
        Targets of class c are (N / C / N_c) to this power: 0 ignores how rare a class is in the subset.

    Attributes
    ----------
    classes_ : array
    coefficients_ : array (rows, classes)
    ridge_ : float
        The ridge that the training samples were solved with.
    """

    def __init__(
        self,
        features: Any = None,
        *,
        kernel: str = "rbf",
        gamma: float = 1.0,
        ridge: float = 0.05,
        balance: float = 0.4,
    ) -> None:
        self.features = features
        self.kernel = kernel
        self.gamma = gamma
        self.ridge = ridge
        self.balance = balance

    def fit(self, X: Any, y: Any) -> Self:
        """Train on one set of samples: the plain path."""
        check_classification_targets(y)
        self.classes_, codes = classes_and_codes(self, y)
        _check_rows(len(codes), getattr(self.features, "copies", 1))
        self.pool_ = self.share(X)
        with one_linear_algebra_thread():
            self.coefficients_, self.ridge_ = self.pool_.solve(np.arange(len(codes)), codes)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the highest score."""
        return self.classes_[self.decision_function(X).argmax(axis=1)]

    def decision_function(self, X: Any) -> NDArray[np.float32]:
        """Scores, an array (n, classes)."""
        check_is_fitted(self)
        columns = np.arange(self.pool_.n_rows)
        with one_linear_algebra_thread():
            kernel = self.pool_.kernel_columns(self.pool_.test_features(X))
            scores = np.zeros((len(self.classes_), kernel.shape[1]), np.float32)
            _add_scores(kernel, columns, self.coefficients_, scores)
        return np.ascontiguousarray(scores.T)

    def share(self, X: Any) -> Pool:
        """Everything about these training samples that subsets can share."""
        self._check()
        return self.pool_of(_features_of(self._features, X, training=True))

    def pool_of(self, rows: NDArray[Any]) -> Pool:
        """The same, from the features (n, copies, features) of the training samples."""
        self._check()
        features = self._features
        flat = rows.reshape(-1, rows.shape[2])
        lengths = squared_lengths(flat, mirrored=_mirrored(features))
        return Pool(features, flat, lengths, rows.shape[1], self.kernel, self.gamma, self.ridge, self.balance)

    @property
    def _features(self) -> Any:
        return VectorFeatures() if self.features is None else self.features

    def _check(self) -> None:
        if self.kernel not in KERNELS:
            raise PoisonproofError(
                f"The 'kernel' parameter must be one of {list(KERNELS)}. Got {self.kernel!r} instead.",
                code="learner.parameter",
            )
        if not (0 < self.gamma < math.inf and 0 < self.ridge < math.inf):
            raise PoisonproofError(
                f"'gamma' and 'ridge' must be positive, finite numbers. Got {self.gamma!r} and {self.ridge!r} instead.",
                code="learner.parameter",
            )
        scale = float(self._features.scale)
        if not SMALLEST_SCALE <= scale <= 1 / SMALLEST_SCALE:
            raise PoisonproofError(
                f"The 'scale' of the features must be from {SMALLEST_SCALE} to {1 / SMALLEST_SCALE}, so that kernel "
                f"values are finite. Got {scale!r} instead.",
                code="map.parameter",
            )


def glyphs() -> KernelRidgeClassifier:
    """For grey images of single glyphs: kernel ridge on stroke directions.

    Constants were chosen on MNIST training images held out from the training subsets (k = 1,200).
    """
    return KernelRidgeClassifier(GlyphFeatures(), kernel="rbf", gamma=2.0, ridge=0.05, balance=0.5)


def head() -> KernelRidgeClassifier:
    """For embeddings, behind an encoder: kernel ridge on them.

    Constants were chosen on training samples of CIFAR-10 held out from the training subsets.
    """
    return KernelRidgeClassifier(kernel="rbf", gamma=1.0, ridge=0.1, balance=0.5)


class Solution(NamedTuple):
    """Coefficients (rows, classes) of a subset, and the ridge they were found with."""

    coefficients: NDArray[np.float32]
    ridge: float


@dataclass(frozen=True)
class Pool:
    """Features of training samples and their virtual copies, with the kernel between any of them."""

    features: Any
    rows: NDArray[Any]
    lengths: NDArray[np.int64]
    copies: int
    kernel: str
    gamma: float
    ridge: float
    balance: float

    @property
    def n_rows(self) -> int:
        """Training samples times copies."""
        return len(self.rows)

    def test_features(self, X: Any) -> NDArray[Any]:
        """Features of test samples, one copy each."""
        return _features_of(self.features, X, training=False)[:, 0]

    def rows_of(self, samples: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of these samples, with their copies."""
        return (samples[:, None] * self.copies + np.arange(self.copies)).ravel()

    def solve(self, samples: NDArray[np.int64], codes: NDArray[np.int64]) -> Solution:
        """The solution of the subset of these samples, given in canonical order; every subset has one.

        Kernel values come from a table, so a matrix need not be positive definite. Then its ridge is doubled until it
        is: a function of the subset alone, like the solution. At a ridge of the number of rows times the largest kernel
        value the diagonal outweighs the rest of every row, so the doubling ends.
        """
        _check_rows(len(samples), self.copies)
        rows = self.rows_of(samples)
        fed = self._fed(self.rows[rows])
        targets = _targets(np.repeat(codes, self.copies), self.balance)
        matrix, ridge = np.empty((len(rows), len(rows))), self.ridge
        while True:
            self._kernel_of(fed, fed.T, self.lengths[rows], self.lengths[rows], matrix)
            least = len(rows) * EPSILON * float(np.abs(matrix.diagonal()).max())  # less is lost in rounding
            matrix[np.diag_indices(len(rows))] += ridge
            coefficients = _solution(matrix, targets)
            if coefficients is not None:
                return Solution(coefficients, ridge)
            ridge = max(2 * ridge, least)

    def kernel_columns(self, test: NDArray[Any]) -> NDArray[np.float32]:
        """Kernel between every row and these test features, an array (rows, test)."""
        fed = np.ascontiguousarray(self._fed(test).T)
        lengths = squared_lengths(test, mirrored=_mirrored(self.features))
        out = np.empty((self.n_rows, len(test)), np.float32)

        def work(start: int, stop: int) -> None:
            features = self._fed(self.rows[start:stop])
            self._kernel_of(features, fed, self.lengths[start:stop], lengths, out[start:stop])

        width = max(1, self.rows.shape[1])
        in_threads(self.n_rows, max(1, min(ROWS_PER_PRODUCT, NUMBERS_PER_PRODUCT // width)), work)
        return out

    def _fed(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Rows as they enter a product: as they are, or the sums and the differences of their halves."""
        fed = rows.astype(np.float32)
        if _mirrored(self.features):
            half = fed.shape[1] // 2
            mirror = fed[:, half:].copy()
            np.subtract(fed[:, :half], mirror, out=fed[:, half:])
            fed[:, :half] += mirror
        return fed

    def _kernel_of(
        self,
        rows: NDArray[np.float32],
        columns: NDArray[np.float32],
        left: NDArray[np.int64],
        right: NDArray[np.int64],
        out: NDArray[Any],
    ) -> None:
        """The kernel between rows and columns of such matrices, from their exact products."""
        if not _mirrored(self.features):
            _kernel_values(np.matmul(rows, columns), left, right, *self._table, out)
            return
        half = rows.shape[1] // 2
        even, odd = np.matmul(rows[:, :half], columns[:half]), np.matmul(rows[:, half:], columns[half:])
        _mirror_kernel_values(even, odd, left, right, *self._table, out)

    @property
    def _table(self) -> tuple[NDArray[np.float32], bool, float]:
        """Kernel values by squared distance, or by distance for "laplace", times a step; beyond it they count as 0.

        Whether the table goes by distance, and the step. The linear kernel has no table: an inner product times
        the step.
        """
        scale = float(self.features.scale)
        if self.kernel == "linear":
            return np.empty(0, np.float32), False, 1.0 / scale**2
        by_distance = self.kernel == "laplace"
        reach = math.log(2) * 24 / self.gamma * (scale if by_distance else scale**2)
        step = min(1.0, TABLE_SIZE / reach)
        values = np.exp(-self.gamma * np.arange(TABLE_SIZE) / step / (scale if by_distance else scale**2))
        return values.astype(np.float32), by_distance, step


def squared_lengths(rows: NDArray[Any], *, mirrored: bool = False) -> NDArray[np.int64]:
    """Exact squared lengths; refuses features so long that a float32 inner product could round."""
    lengths = np.empty(len(rows), np.int64)
    longest = 0
    for start in range(0, len(rows), LENGTHS_AT_ONCE):
        given = rows[start : start + LENGTHS_AT_ONCE]
        if given.dtype.itemsize > 2:  # numbers that int32 would not hold
            longest = max(longest, int(np.abs(given.astype(np.float64)).max(initial=0)) ** 2)
        part = given.astype(np.int32)
        lengths[start : start + LENGTHS_AT_ONCE] = np.einsum("ij,ij->i", part, part, dtype=np.int64)
        if mirrored:
            plain, mirror = np.split(part, 2, axis=1)
            for halves in (plain + mirror, plain - mirror):
                longest = max(longest, int(np.einsum("ij,ij->i", halves, halves, dtype=np.int64).max()))
    longest = max(longest, int(lengths.max(initial=0)))
    if longest > EXACT:
        raise PoisonproofError(
            f"Features must be integers of squared length at most {EXACT}, so that products are exact; "
            f"got {longest}: choose a coarser scale.",
            code="map.too-long",
        )
    return lengths


def _features_of(features: Any, X: Any, *, training: bool) -> NDArray[Any]:
    """Features (n, copies, features) of samples; a user's map that states its width may leave some out: zeros."""
    width = getattr(features, "n_features", None)
    if declares(features, ONE_BY_ONE) or width is None:
        return ask_map(features, X, training=training)
    shape = (1, int(getattr(features, "copies", 1)) if training else 1, int(width))
    answers = [np.zeros(shape, np.int8)]
    for row in range(count_rows(X)):
        try:
            answer = np.asarray(features(take_rows(X, [row]), training=training))
            if answer.shape != shape or answer.dtype.kind not in "iu":
                raise TypeError(f"{answer.dtype} of shape {answer.shape}")
            squared_lengths(answer[0], mirrored=_mirrored(features))
        except (MemoryError, OSError, ImportError):
            raise
        except Exception:  # whatever a map raises about one sample is about that sample alone
            answer = np.zeros(shape, np.int8)
        answers.append(answer)
    return np.concatenate(answers)[1:]


def _mirrored(features: Any) -> bool:
    return bool(getattr(features, "mirrored", False))


def _check_rows(n_samples: int, copies: int) -> None:
    """Say how much memory one solve needs, before any work is done for it."""
    if n_samples * copies > MOST_ROWS:
        raise MemoryError(
            f"Kernel ridge on {n_samples * copies} rows ({copies} copies of {n_samples} samples) needs "
            f"{in_bytes((n_samples * copies) ** 2 * 12)}; a larger k makes subsets smaller."
        )


def _solution(matrix: NDArray[np.float64], targets: NDArray[np.float64]) -> NDArray[np.float32] | None:
    """The solution in single precision; None if the matrix is not positive definite or too close to singular."""
    try:
        solution = solve_in_place(matrix, targets)
    except np.linalg.LinAlgError:
        return None
    if not np.abs(solution).max() <= LARGEST_COEFFICIENT:
        return None
    return np.ascontiguousarray(solution, dtype=np.float32)


def _targets(codes: NDArray[np.int64], balance: float) -> NDArray[np.float64]:
    counts = np.bincount(codes)
    weight = (len(codes) / len(counts) / np.maximum(counts, 1)) ** balance
    targets = np.zeros((len(codes), len(counts)))
    targets[np.arange(len(codes)), codes] = weight[codes]
    return targets


@njit(nogil=True, cache=True)
def _kernel_values(
    products: NDArray[np.float32],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    table: NDArray[np.float32],
    by_distance: bool,
    step: float,
    out: NDArray[Any],
) -> None:
    """The kernel from exact inner products and squared lengths; a root and a product round the same everywhere."""
    for i in range(products.shape[0]):
        if len(table) == 0:
            for j in range(products.shape[1]):
                out[i, j] = products[i, j] * step
            continue
        for j in range(products.shape[1]):
            distance = left[i] + right[j] - 2 * np.int64(products[i, j])
            out[i, j] = _value(distance, table, by_distance, step)


@njit(nogil=True, cache=True)
def _mirror_kernel_values(
    even: NDArray[np.float32],
    odd: NDArray[np.float32],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    table: NDArray[np.float32],
    by_distance: bool,
    step: float,
    out: NDArray[Any],
) -> None:
    """The mean of the kernel with a sample and with its mirror image, from the two exact products of their halves."""
    for i in range(even.shape[0]):
        for j in range(even.shape[1]):
            if len(table) == 0:
                out[i, j] = even[i, j] * (0.5 * step)
                continue
            e, o = np.int64(even[i, j]), np.int64(odd[i, j])
            plain = _value(left[i] + right[j] - e - o, table, by_distance, step)
            mirror = _value(left[i] + right[j] - e + o, table, by_distance, step)
            out[i, j] = np.float32(0.5) * (plain + mirror)


@njit(nogil=True, cache=True)
def _value(squared: int, table: NDArray[np.float32], by_distance: bool, step: float) -> np.float32:
    """The kernel at an exact squared distance, read off the table."""
    distance = float(squared)
    if by_distance:
        distance = math.sqrt(distance)
    place = int(distance * step + 0.5)
    return table[place] if place < len(table) else np.float32(0.0)


@njit(nogil=True, cache=True)
def _add_scores(
    kernel: NDArray[np.float32], rows: NDArray[np.int64], coefficients: NDArray[np.float32], scores: NDArray[np.float32]
) -> None:
    """scores[c, t] += Σ_q coefficients[q, c] · kernel[rows[q], t], for every t in the order of q."""
    for q in range(len(rows)):
        line = kernel[rows[q]]
        for c in range(scores.shape[0]):
            weight = coefficients[q, c]
            total = scores[c]
            for t in range(len(line)):
                total[t] += weight * line[t]


@njit(nogil=True, cache=True)
def vote_of_subsets(
    kernel: NDArray[np.float32],
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    coefficients: NDArray[np.float32],
    coefficient_starts: NDArray[np.int64],
    codes: NDArray[np.int64],
    code_starts: NDArray[np.int64],
    places: NDArray[Any],
) -> None:
    """places[t, i, r]: the class code in place r by the scores of subset i, the smaller class first among equals.

    Rows, coefficients and codes of the subsets stand in sequence. One place is the vote; places beyond the classes of a
    subset are left as they are.
    """
    width = kernel.shape[1]
    for i in range(len(starts) - 1):
        n_classes = code_starts[i + 1] - code_starts[i]
        if n_classes < 2:
            continue
        scores = np.zeros((n_classes, width), np.float32)
        of_member = coefficients[coefficient_starts[i] : coefficient_starts[i + 1]]
        _add_scores(kernel, rows[starts[i] : starts[i + 1]], of_member.reshape((-1, n_classes)), scores)
        placed = np.full(n_classes, -1, np.int64)
        for t in range(width):
            for place in range(min(places.shape[2], n_classes)):
                best = -1
                for c in range(n_classes):
                    if placed[c] != t and (best < 0 or scores[c, t] > scores[best, t]):
                        best = c
                placed[best] = t
                places[t, i, place] = codes[code_starts[i] + best]


def concatenated(parts: Sequence[NDArray[Any]], dtype: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Arrays in sequence, and where each starts."""
    starts = np.concatenate(([0], np.cumsum([part.size for part in parts]))).astype(np.int64)
    return np.concatenate([np.zeros(0, dtype), *(part.ravel() for part in parts)]).astype(dtype, copy=False), starts


def solve_in_place(matrix: NDArray[np.float64], targets: NDArray[np.float64]) -> NDArray[np.float64]:
    """The solution X of matrix · X = targets, by Cholesky; the matrix, symmetric and in C order, is overwritten.

    SciPy's wrappers of LAPACK keep Python's lock; the same routines, called through ctypes, give it back, so threads
    solve side by side. The numbers are the same, to the bit.
    """
    n = len(targets)
    if n == 0 or matrix.shape != (n, n) or matrix.dtype != np.float64 or not matrix.flags.carray:
        raise PoisonproofError(
            f"A system needs a square matrix of float64 in C order that may be overwritten. Got {matrix.shape}.",
            code="learner.system",
        )
    factor, solve = _routines()
    solution = np.array(targets, np.float64, order="F")
    size, count, info = ctypes.c_int(n), ctypes.c_int(targets.shape[1]), ctypes.c_int(0)
    factor(LOWER, size, matrix.ctypes.data, size, info)
    if info.value != 0:
        raise np.linalg.LinAlgError(f"The kernel matrix of {n} rows is not positive definite (LAPACK {info.value}).")
    solve(LOWER, size, count, matrix.ctypes.data, size, solution.ctypes.data, size, info)
    return solution


@lru_cache(maxsize=1)
def _routines() -> tuple[Any, Any]:
    """Cholesky's factor (potrf) and the solution with it (potrs), from the LAPACK that SciPy brings."""
    from numba.extending import get_cython_function_address

    text, whole, place = ctypes.c_char_p, ctypes.POINTER(ctypes.c_int), ctypes.c_void_p
    factor = ctypes.CFUNCTYPE(None, text, whole, place, whole, whole)
    solve = ctypes.CFUNCTYPE(None, text, whole, whole, place, whole, place, whole, whole)
    return (
        factor(get_cython_function_address("scipy.linalg.cython_lapack", "dpotrf")),
        solve(get_cython_function_address("scipy.linalg.cython_lapack", "dpotrs")),
    )

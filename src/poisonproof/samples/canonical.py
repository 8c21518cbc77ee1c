"""Whatever a user brings, in canonical form and canonical order: of one sample nothing depends on another."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.samples.cells import valid_text
from poisonproof.samples.columns import canonical_numbers
from poisonproof.samples.frame_columns import columns_of
from poisonproof.samples.frames import as_frame, is_frame
from poisonproof.samples.kinds import NumberSamples, Samples, SparseSamples, TableSamples, TextSamples
from poisonproof.samples.loose import read_loose
from poisonproof.samples.sparse import entries_by_row, is_sparse, narrow, summed

DIGEST_OF_ALL = "digest of all"
ROWS_AT_ONCE = 1 << 14


def to_samples(X: Any, *, dtype: str = "float64", n_features: int | None = None) -> Samples:
    """The canonical form of whatever a user brings, or one sentence that says what is wrong with it.

    Parameters
    ----------
    X : array (n_samples, …), sparse matrix, DataFrame (pandas, Polars, PyArrow), or list of strings
    dtype : "float64" or "uint8"
        The declared form of dense numbers. Never taken from X: one row could change that for all.
    n_features : int, optional
        The declared number of features. Sparse entries beyond it are dropped, in their own row only;
        any other disagreement is refused.

    Infinity counts as missing, as does a cell of a table that is neither a number, a text nor a date: to
    refuse them would let one row stop everything. `Samples.oddities` counts them. Samples that are in canonical form
    already stay as they are, and must be of that form.
    """
    if isinstance(X, Samples):
        if isinstance(X, NumberSamples) and X.values.dtype != dtype:
            raise PoisonproofError(f"The samples were declared as {dtype}. Got numbers of dtype {X.values.dtype}.")
        return _of_width(X, n_features)
    X = as_frame(X)
    if is_frame(X) or _is_texts(X) or is_sparse(X):
        if dtype != "float64":
            raise PoisonproofError(f"Only a dense array can be declared as {dtype}. Got {type(X).__name__} instead.")
        if is_sparse(X):
            return _from_sparse(X, n_features)
        return _of_width(_from_frame(X) if is_frame(X) else _from_texts(X), n_features)
    from sklearn.utils.validation import check_array

    if dtype == "uint8":
        given = np.asarray(X)
        if given.dtype != np.uint8:
            raise PoisonproofError(f"The samples were declared as uint8. Got an array of dtype {given.dtype} instead.")
    loose = read_loose(X.to_numpy() if hasattr(X, "iloc") else X, n_features)
    with np.errstate(invalid="ignore", over="ignore"):  # a signalling NaN is a NaN like any other
        X = X if loose is None else loose.values
        values = check_array(X, dtype=dtype, order="C", ensure_all_finite=False, allow_nd=True, input_name="X")
    if values.dtype != np.float64:
        return _of_width(NumberSamples(values), n_features)
    values, n_infinite = _without_infinities(values)
    return _of_width(NumberSamples(values, n_infinite, 0 if loose is None else loose.n_unreadable), n_features)


def _of_width(samples: Samples, n_features: int | None) -> Samples:
    if n_features is not None and samples.n_features != n_features:
        raise PoisonproofError(f"X has {samples.n_features} features per sample, but {n_features} were declared.")
    return samples


def _is_texts(X: Any) -> bool:
    """A sequence of more texts than rows, so that no single sample decides, and nothing that is neither."""
    if not ((isinstance(X, np.ndarray) and X.ndim == 1) or isinstance(X, list | tuple) or hasattr(X, "iloc")):
        return False
    n_texts = sum(isinstance(sample, str) for sample in X)
    return n_texts > 0 and n_texts > sum(isinstance(sample, list | tuple | np.ndarray) for sample in X)


def _from_texts(X: Any) -> TextSamples:
    texts, n_odd = np.empty(len(X), object), 0
    for row, text in enumerate(X):
        texts[row] = valid_text(str(text)) if isinstance(text, str) else ""
        n_odd += not isinstance(text, str)
    return TextSamples(texts, n_odd)


def _from_sparse(X: Any, n_features: int | None) -> SparseSamples:
    from scipy.sparse import csr_matrix
    from sklearn.utils.validation import check_array

    matrix = csr_matrix(entries_by_row(X))
    check_array(matrix, accept_sparse="csr", ensure_all_finite=False, input_name="X")
    matrix = summed(matrix)
    if n_features is not None and matrix.shape[1] != n_features:
        matrix = matrix[:, :n_features] if matrix.shape[1] > n_features else matrix
        matrix.resize(matrix.shape[0], n_features)
    matrix.data, n_infinite = _without_infinities(matrix.data)
    matrix.data = canonical_numbers(matrix.data)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return SparseSamples(narrow(matrix), n_infinite)


def _from_frame(X: Any) -> TableSamples:
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise PoisonproofError(
            f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s); at least 1 is required."
        )
    return TableSamples.of(columns_of(X))


def _without_infinities(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """Infinity as missing, each by itself, and how often; the caller's own array is not written to."""
    infinite = np.isinf(values)
    count = int(infinite.sum())
    return (np.where(infinite, np.nan, values) if count else values), count


def canonical_rank(samples: Samples, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of each sample in an order that depends on content alone: hash, content, label.

    Any two samples compare by their own content, so the order inside a subset is a function of the
    subset. Samples of equal content and label are interchangeable. Hash order also keeps learners
    that read their rows in turn from meeting them sorted by a feature.
    """
    hashes = samples.content_hashes
    order = np.argsort(hashes, kind="stable")
    same = hashes[order[1:]] == hashes[order[:-1]]
    edges = np.flatnonzero(np.diff(np.concatenate(([False], same, [False])).astype(np.int8)))
    for start, stop in edges.reshape(-1, 2):
        run = order[start : stop + 1]
        keys = list(samples.each_key(run))
        places = {key: place for place, key in enumerate(sorted(set(keys)))}
        order[start : stop + 1] = run[np.lexsort((labels[run], np.array([places[key] for key in keys])))]
    rank = np.empty(len(samples), np.int64)
    rank[order] = np.arange(len(samples))
    return rank


def digest_of(samples: Samples) -> str:
    """SHA-256 of all samples, in their order; of a table worked out once, since nobody else holds its columns."""
    if not isinstance(samples, TableSamples):
        return _digest(samples)
    known = vars(samples)
    if DIGEST_OF_ALL not in known:
        known[DIGEST_OF_ALL] = _digest(samples)
    return str(known[DIGEST_OF_ALL])


def _digest(samples: Samples) -> str:
    digest = hashlib.sha256(samples.layout.encode())
    for start in range(0, len(samples), ROWS_AT_ONCE):
        digest.update(samples.keys(np.arange(start, min(start + ROWS_AT_ONCE, len(samples)))))
    return digest.hexdigest()

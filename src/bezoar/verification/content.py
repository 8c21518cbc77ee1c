"""The split and the digests of the data, recomputed with xxhash's own package from each sample's canonical bytes.

Canonical bytes (docs/files.md): dense numbers as float64 (or uint8 where declared) in C order, little endian, −0.0 as
0.0 and one NaN; sparse rows as column indices (int64), then values (float64); texts as UTF-8; a table row as 8 bytes a
cell, a number as float64, missing or infinite as NaN, a text as its xxh64 with bit 62 cleared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from bezoar.verification.records import sha256_of_array
from bezoar.verification.verdict import NotCheckedError

_WITHOUT_BIT_62 = (1 << 64) - 1 - (1 << 62)


def data_digests(data: Any, groups: Any = None) -> dict[str, str]:
    """SHA-256 of the content hashes of the samples, and of the codes of labels and contributors, in the order given."""
    arrays = {name: content_hashes(getattr(data, name), data.dtype) for name in ("x_train", "x_test")}
    labels = {name: label_codes(getattr(data, name)) for name in ("y_train", "y_test")}
    if groups is not None:
        labels["groups"] = label_codes(groups)
    return {name: sha256_of_array(array) for name, array in {**arrays, **labels}.items()}


def partitions(split: dict[str, Any], n: int, X: Any, y: Any, groups: Any = None) -> NDArray[np.int64]:
    """The partition of each sample: a hash, or the sum of its values, modulo n."""
    if split["kind"] == "group":
        if groups is None:
            raise NotCheckedError("the split is by contributor; give groups= to recompute it.")
        return _modulo(_xxh64(row.tobytes() for row in label_codes(groups)), n)
    if split["kind"] == "pixel-sum":
        dense = X.toarray() if hasattr(X, "tocsr") else np.asarray(X)
        return dense.reshape(len(dense), -1).astype(np.int64).sum(axis=1) % n
    hashes = content_hashes(X, split["dtype"], split["n_features"])
    if split["hash_labels"]:
        pairs = zip(hashes.astype("<u8"), label_codes(y), strict=True)
        hashes = _xxh64(content.tobytes() + label.tobytes() for content, label in pairs)
    return _modulo(hashes, n)


def content_hashes(X: Any, dtype: str, n_features: int | None = None) -> NDArray[np.uint64]:
    """xxh64 of each sample's canonical bytes."""
    if hasattr(X, "tocsr"):
        return _xxh64(_sparse_rows(X, n_features))
    if hasattr(X, "columns"):
        cells = [label_codes(X.iloc[:, at].astype(object)) for at in range(X.shape[1])]
        return _xxh64(row.tobytes() for row in np.column_stack(cells))
    if len(X) and isinstance(X.iloc[0] if hasattr(X, "iloc") else X[0], str):
        return _xxh64(text.encode("utf-8", "surrogatepass") for text in X)
    values = np.asarray(X).astype("u1" if dtype == "uint8" else "<f8", copy=False)
    return _xxh64(_canonical(row).tobytes() for row in values)


def label_codes(labels: Iterable[Any]) -> NDArray[np.float64]:
    """8 bytes for each label, contributor or cell: a number is itself, a text its hash, missing is NaN."""
    codes = []
    for cell in labels:
        if isinstance(cell, str):
            bits = xxhash.xxh64_intdigest(cell.encode("utf-8", "surrogatepass")) & _WITHOUT_BIT_62
            codes.append(float(np.uint64(bits).view(np.float64)))
        elif cell is None or type(cell).__name__ in ("NAType", "NaTType"):
            codes.append(np.nan)
        elif isinstance(cell, int | float | np.bool_ | np.integer | np.floating):
            codes.append(float(cell) if np.isfinite(float(cell)) else np.nan)
        else:
            raise NotCheckedError(f"a value of type {type(cell).__name__} is beyond this checker.")
    return _canonical(np.array(codes, "<f8"))


def _sparse_rows(X: Any, n_features: int | None) -> Iterable[bytes]:
    matrix = X.tocsr().astype("<f8")
    matrix.sum_duplicates()
    for row in range(matrix.shape[0]):
        part = slice(matrix.indptr[row], matrix.indptr[row + 1])
        indices, values = matrix.indices[part].astype("<i8"), _canonical(matrix.data[part])
        kept = (values != 0) & (indices < (matrix.shape[1] if n_features is None else n_features))
        order = np.argsort(indices[kept])
        yield indices[kept][order].tobytes() + values[kept][order].tobytes()


def _canonical(values: NDArray[Any]) -> NDArray[Any]:
    """0.0 for −0.0, and one NaN."""
    if values.dtype.kind != "f":
        return values
    return np.where(np.isnan(values), np.nan, np.where(values == 0, 0.0, values)).astype("<f8")


def _xxh64(pieces: Iterable[bytes]) -> NDArray[np.uint64]:
    return np.array([xxhash.xxh64_intdigest(piece) for piece in pieces], np.uint64)


def _modulo(hashes: NDArray[np.uint64], n: int) -> NDArray[np.int64]:
    return (hashes % np.uint64(n)).astype(np.int64)

"""Base classifiers of a pooled learner on disk, in three files that are mapped, not read.

The features of the training samples stand there once for all base classifiers, and of each base classifier only its
coefficients, as the votes use them: so what is loaded votes the same, to the bit. Nothing is unpacked or computed again
on opening, and the features are not the samples' business any more: what made them need not be at hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import DamagedFileError, PoisonproofError
from poisonproof.system.archives import map_npy
from poisonproof.system.files import open_arrays, reading, sha256_of, write_arrays, write_whole
from poisonproof.training.pooled import PooledMembers
from poisonproof.training.work import Kept

POOL = "members-pool.npz"
FEATURES = "members-features.npy"
COEFFICIENTS = "members-coefficients.npy"
POOLED_FILES = (POOL, FEATURES, COEFFICIENTS)
ARRAYS = ("samples", "sizes", "codes", "n_codes", "fallback", "subsets")


def save_pooled(
    folder: Path, members: PooledMembers, digests: NDArray[np.uint8], about: Mapping[str, Any] | None = None
) -> None:
    """Write base classifiers and the digest of the subset of each; the file that vouches for the others comes last.

    ``about`` is what else that file is to say of them.
    """
    pool = members.pool
    for name, array in ((FEATURES, pool.rows), (COEFFICIENTS, members.coefficients)):
        write_whole(folder / name, lambda file, array=array: np.save(file, array))  # type: ignore[misc]
    arrays = {
        "samples": (members.rows[:: pool.copies] // pool.copies).astype(np.uint32),
        "sizes": (np.diff(members.starts) // pool.copies).astype(np.uint32),
        "codes": members.codes.astype(np.uint32),
        "n_codes": np.diff(members.code_starts).astype(np.uint32),
        "fallback": members.fallback.astype(np.int32),
        "subsets": digests,
    }
    others = {name: sha256_of(folder / name) for name in (FEATURES, COEFFICIENTS)}
    facts: dict[str, Any] = {"copies": pool.copies, "files": others, **(about or {})}
    if members.raised:
        facts["raised"] = {str(i): ridge for i, ridge in members.raised.items()}
    write_arrays(folder / POOL, arrays, facts)


def load_pooled(folder: Path, estimator: Any, n_classes: int) -> PooledMembers:
    """Map them again; one sentence if a file is amiss. Every index is checked, since votes are read off without."""
    return _load(folder, estimator, n_classes)[0]


def kept_pooled(folder: Path, estimator: Any, n_classes: int, digests: NDArray[np.uint8]) -> Kept:
    """Base classifiers of an earlier run, and which of them are those of subsets with these digests."""
    check_pooled(folder)
    members, known = _load(folder, estimator, n_classes)
    same = (known == digests).all(axis=1) if known.shape == digests.shape else np.zeros(len(digests), np.bool_)
    return Kept(members, np.flatnonzero(same))


def check_pooled(folder: Path) -> None:
    """Raise if a file is not as it was written."""
    facts = open_arrays(folder / POOL, ARRAYS)[1]
    with reading(folder / POOL):
        for name in (FEATURES, COEFFICIENTS):
            if not (folder / name).exists() or sha256_of(folder / name) != facts["files"][name]:
                raise DamagedFileError(f"{folder / name} is damaged or missing.")


def _load(folder: Path, estimator: Any, n_classes: int) -> tuple[PooledMembers, NDArray[Any]]:
    arrays, facts = open_arrays(folder / POOL, ARRAYS)
    for name in (FEATURES, COEFFICIENTS):
        with reading(folder / name):
            arrays[name] = map_npy(folder / name)
    with reading(folder / POOL):
        return _members(arrays, facts, estimator, n_classes), arrays["subsets"]


def _members(arrays: dict[str, NDArray[Any]], facts: dict[str, Any], estimator: Any, n_classes: int) -> PooledMembers:
    copies, raised = facts["copies"], {int(i): float(ridge) for i, ridge in facts.get("raised", {}).items()}
    samples, codes = arrays["samples"].astype(np.int64), arrays["codes"].astype(np.int64)
    sizes, n_codes = arrays["sizes"].astype(np.int64), arrays["n_codes"].astype(np.int64)
    features, coefficients, fallback = arrays[FEATURES], arrays[COEFFICIENTS], arrays["fallback"].astype(np.int64)
    trained = n_codes >= 2
    whole = {
        "features": features.ndim == 2 and features.dtype.kind == "i" and features.dtype.itemsize <= 4,
        "copies": isinstance(copies, int) and copies >= 1 and len(features) % max(1, copies) == 0,
        "samples": samples.ndim == 1 and samples.max(initial=-1) < len(features) // max(1, copies),
        "sizes": sizes.shape == n_codes.shape == fallback.shape and sizes.sum() == len(samples),
        "trained": not sizes[~trained].any() and (sizes[trained] >= n_codes[trained]).all(),
        "codes": codes.ndim == 1 and n_codes.sum() == len(codes) and codes.max(initial=-1) < n_classes,
        "fallback": fallback.min(initial=-1) >= -1 and fallback.max(initial=-1) < n_classes,
        "coefficients": coefficients.dtype == np.float32
        and coefficients.shape == (int((sizes * n_codes * copies)[trained].sum()),),
        "raised ridges": all(0 <= i < len(sizes) and trained[i] and ridge > 0 for i, ridge in raised.items()),
    }
    for name in (name for name, right in whole.items() if not right):
        raise PoisonproofError(f"its {name} do not fit the rest")
    pool = estimator.pool_of(features.reshape(-1, copies, features.shape[1]))
    return PooledMembers(
        pool,
        pool.rows_of(samples),
        _starts(sizes * copies),
        coefficients,
        _starts(np.where(trained, sizes * n_codes, 0) * copies),
        codes,
        _starts(n_codes),
        fallback,
        raised,
    )


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)

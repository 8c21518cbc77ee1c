"""How fast is the split? Rows hashed per second, fused against separate NumPy passes, in one run.

python benchmarks/split.py
"""

from __future__ import annotations

import time

import numpy as np
import xxhash

from poisonproof import Split
from poisonproof.system.threads import n_cores


def separate_passes(X: np.ndarray, n_partitions: int) -> np.ndarray:
    """Canonicalise with NumPy, then hash row by row with the library."""
    canonical = X + 0.0
    canonical[np.isnan(canonical)] = np.nan
    buffer, width = memoryview(canonical).cast("B"), X.shape[1] * 8
    hashes = [xxhash.xxh64_intdigest(buffer[i * width : (i + 1) * width]) for i in range(len(X))]
    return np.array(hashes, np.uint64) % np.uint64(n_partitions)


def main() -> None:
    X = np.random.default_rng(0).random((1_000_000, 100))
    split = Split()
    split.partitions(split.samples(X[:10]), 800)
    started = time.perf_counter()
    samples = split.samples(X)
    checked = time.perf_counter()
    partitions = split.partitions(samples, 800)
    done = time.perf_counter()
    slow = separate_passes(X, 800)
    end = time.perf_counter()
    assert (partitions == slow).all()
    print(f"{n_cores()} cores, {len(X):,} rows of {X.shape[1]} float64 columns")
    print("| what | seconds | million rows per second |\n|---|---|---|")
    for what, seconds in (
        ("check for NaN and infinity (scikit-learn)", checked - started),
        ("canonicalise, hash and reduce, fused", done - checked),
        ("both", done - started),
        ("separate NumPy passes and a hash call per row", end - done),
    ):
        print(f"| {what} | {seconds:.3f} | {len(X) / seconds / 1e6:.2f} |")


if __name__ == "__main__":
    main()

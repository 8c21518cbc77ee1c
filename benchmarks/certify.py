"""How fast are radii? Theorem 2 on large vote matrices, against a straightforward NumPy version, in one run.

python benchmarks/certify.py
"""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from numba import njit

from poisonproof import Spread, Votes, certify
from poisonproof.core.spread import SpreadArrays
from poisonproof.core.theorem2 import sums_over_spread, write_twice
from poisonproof.system.threads import n_cores


def straightforward(matrix: np.ndarray, table: np.ndarray, n_classes: int) -> np.ndarray:
    """Theorem 2 as one would write it with NumPy: gather, sum, sort, cumulate."""
    radii = []
    for votes in matrix:
        counts = np.bincount(votes, minlength=n_classes)
        p = int(counts[:n_classes].argmax())
        radius = len(votes)
        for c in range(n_classes):
            if c != p:
                margin = counts[p] - counts[c] - (c < p)
                weight = 1 + (votes == p).astype(np.int64) - (votes == c)
                largest = np.cumsum(np.sort(weight[table].sum(axis=1))[::-1])
                radius = min(radius, int(np.searchsorted(largest, margin, side="right")))
        radii.append(radius)
    return np.array(radii)


def realistic(path: Path, n_test: int, n: int, n_classes: int, accuracy: float = 0.76) -> np.ndarray:
    """Votes of which a share is right: samples differ in difficulty and in how the rest spreads over rivals."""
    rng = np.random.default_rng(0)
    matrix = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(n_test, n))
    for t in range(n_test):
        right = rng.beta(8 * accuracy, 8 * (1 - accuracy))
        shares = np.insert(rng.dirichlet(np.full(n_classes - 1, 2.0)) * (1 - right), rng.integers(n_classes), right)
        matrix[t] = np.searchsorted(np.cumsum(shares)[:-1], rng.random(n, np.float32))
    matrix.flush()
    return np.load(path, mmap_mode="r")


@njit(nogil=True)
def additions_alone(votes: np.ndarray, spread: SpreadArrays, row: np.ndarray, sums: np.ndarray) -> None:
    """The byte-add limit: every vote is read once, and one byte is added for each (vote, d); no class is looked at.

    Additions are those of the kernel, the fastest we know: four shifted views at a time, in blocks that stay in cache.
    """
    for t in range(len(votes)):
        write_twice(votes[t], 255, row)
        sums_over_spread(row, spread, sums)


def against_the_limit(votes: Votes) -> str:
    """CPU time of Theorem 2 and of the additions that one rival takes, on the same votes in turn, one thread."""
    arrays, n = votes.spread.arrays, votes.spread.n_subsets
    row, sums = np.empty(2 * n, np.uint8), np.empty(n, np.uint8)
    costs: dict[str, list[float]] = {"limit": [], "certify": []}
    additions_alone(np.asarray(votes.matrix[:2]), arrays, row, sums)  # compile
    for _ in range(5):
        for name, work in (
            ("limit", lambda: additions_alone(np.asarray(votes.matrix), arrays, row, sums)),
            ("certify", lambda: certify(votes, n_jobs=1)),
        ):
            started = time.process_time()
            work()
            costs[name].append((time.process_time() - started) / votes.n_test * 1e6)
    limit, cost = min(costs["limit"]), min(costs["certify"])
    return f"one thread: {cost:.1f} CPU µs per sample, byte additions alone {limit:.1f}: {cost / limit:.1f}×"


class PeakMemory:
    """Largest private memory (not the mapped file) of this process while the block runs, beyond what it had."""

    def __enter__(self) -> PeakMemory:
        self.before = self.peak = private_bytes()
        self.stop = threading.Event()
        self.watcher = threading.Thread(target=self._watch)
        self.watcher.start()
        return self

    def _watch(self) -> None:
        while not self.stop.wait(0.01):
            self.peak = max(self.peak, private_bytes())

    def __exit__(self, *error: object) -> None:
        self.stop.set()
        self.watcher.join()
        self.megabytes = (self.peak - self.before) / 1e6


def private_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    return 0


def timed(work, *args):
    started = time.perf_counter()
    result = work(*args)
    return result, time.perf_counter() - started


def main() -> None:
    print(f"{n_cores()} cores")
    print(
        "| votes | classes | k, d | poisonproof, s | µs per sample | NumPy, ms per sample | ratio | private memory, MB"
        " |"
    )
    print("|---|---|---|---|---|---|---|---|")
    limits: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for n_test, k, d, n_classes, some in ((10_000, 1200, 32, 10, 20), (12_630, 50, 32, 43, 100)):
            spread = Spread.paper(k, d)
            votes = Votes(realistic(Path(folder) / "votes.npy", n_test, k * d, n_classes), spread, range(n_classes))
            certify(Votes(votes.matrix[:2], spread, range(n_classes)))  # compile
            with PeakMemory() as memory:
                certificate, seconds = timed(certify, votes)
            slow, slow_seconds = timed(straightforward, votes.matrix[:some], spread.as_table(), n_classes)
            assert (slow == certificate.radius[:some]).all()
            ratio = (slow_seconds / some) / (seconds / n_test)
            print(
                f"| {n_test:,} × {k * d:,} | {n_classes} | {k}, {d} | {seconds:.2f} | {seconds / n_test * 1e6:.0f} "
                f"| {slow_seconds / some * 1e3:.2f} | {ratio:.0f}× | {memory.megabytes:.0f} |"
            )
            limits.append(f"{n_test:,} × {k * d:,}, {n_classes} classes, {against_the_limit(votes)}")
        print("\nAgainst the byte-add limit, best of five:\n", *limits, sep="\n- ")
        print("\nGrowth, µs per sample (2,000 samples):\n")
        print("| varied | n | d | classes | µs per sample |\n|---|---|---|---|---|")
        for varied, k, d, n_classes in (
            *(("n", k, 16, 10) for k in (50, 100, 200, 400, 800)),
            *(("d", 3200 // d, d, 10) for d in (1, 4, 16, 64, 160)),
            *(("classes", 100, 16, c) for c in (2, 10, 43, 200)),
        ):
            spread = Spread.paper(k, d)
            votes = Votes(realistic(Path(folder) / "votes.npy", 2000, k * d, n_classes), spread, range(n_classes))
            certify(Votes(votes.matrix[:2], spread, range(n_classes)))
            _, seconds = timed(certify, votes)
            print(f"| {varied} | {k * d} | {d} | {n_classes} | {seconds / 2000 * 1e6:.1f} |")


if __name__ == "__main__":
    main()

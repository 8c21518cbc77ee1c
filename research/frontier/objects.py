"""What the `objects` learner is worth and costs, on CIFAR-10 training images alone: the test set is not looked at.

    python -m research.frontier.objects DATA_DIR

Subsets of 1,000 and of 200 images (k = 50 and 250) from the first 48,000 training images, asked about the last 2,000.
This is where the constants of the preset were chosen.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from poisonproof.system.determinism import one_linear_algebra_thread
from poisonproof.system.threads import n_cores
from research import datasets
from research.learners import objects

HELD_OUT = 2000
POOL = 4000


def main() -> None:
    cifar = datasets.load("cifar10", sys.argv[1] if len(sys.argv) > 1 else None)
    chosen = np.random.default_rng(5).permutation(len(cifar.train) - HELD_OUT)[:POOL]
    x, y = cifar.train.X.reshape(-1, 32, 32, 3), cifar.train.labels.astype(np.int64)
    learner = objects()
    learner.share(x[:1])
    started = time.perf_counter()
    pool = learner.share(x[chosen])
    features = time.perf_counter() - started
    started = time.perf_counter()
    kernel = pool.kernel_columns(pool.test_features(x[-HELD_OUT:]))
    asked = time.perf_counter() - started
    print(f"{n_cores()} cores, {pool.rows.shape[1]} features, {pool.rows.nbytes / POOL / 1e3:.1f} kB per image")
    print(f"features: {features / POOL * 1e3:.2f} ms per image")
    print(f"features and kernel of {HELD_OUT} images with {POOL}: {asked:.1f} s")
    print("\n| images per subset | subsets | base accuracy on held-out training images, % | ms per solve |")
    print("|---|---|---|---|")
    for size in (1000, 200):
        right, started = [], time.perf_counter()
        for start in range(0, POOL, size):
            rows = np.arange(start, start + size)
            with one_linear_algebra_thread():
                coefficients = pool.solve(rows, y[chosen[rows]]).coefficients
            right.append(((kernel[rows].T @ coefficients).argmax(axis=1) == y[-HELD_OUT:]).mean())
        each = (time.perf_counter() - started) / len(right) * 1e3
        print(f"| {size} | {len(right)} | {100 * np.mean(right):.2f} ± {100 * np.std(right):.2f} | {each:.0f} |")


if __name__ == "__main__":
    main()

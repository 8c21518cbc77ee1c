"""How the pooled learners' cost grows, and where it goes: features, kernel, solving, scores.

    python -m research.studies.growth DATA_DIR

MNIST images, the preset `digits`; CPU seconds of one run each. Features and kernel do not depend on the number of
subsets; solving grows with d and with the subset (first its kernel matrix, then the Cholesky factor); scores grow with
test samples × training rows × d × classes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from poisonproof import Dataset, FiniteAggregationClassifier, Split, Spread
from poisonproof.estimators.prepared import prepare
from poisonproof.system.determinism import one_linear_algebra_thread
from poisonproof.training.pooled import fit_pooled
from research import datasets, learners

HEAD = "| varied | training images | test images | k | d | subset | features | solve | kernel | scores | all |"


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    started = time.process_time()
    done = work()
    return done, time.process_time() - started


def once(mnist: Dataset, n_train: int, n_test: int, k: int, d: int) -> list[float]:
    """CPU seconds of features, solving, kernel and scores."""
    model = FiniteAggregationClassifier(
        learners.digits(), spread=Spread.random(k, d), split=Split(dtype="uint8"), classes=range(10)
    )
    prepared = prepare(model, mnist.train.X[:n_train], mnist.train.labels[:n_train])
    pool, features = timed(lambda: prepared.learner.share(prepared.source.samples.take(np.arange(n_train))))
    members, solve = timed(lambda: fit_pooled(prepared.learner, prepared.source))
    solve -= features
    kernel = scores = 0.0
    for start in range(0, n_test, 200):
        images = mnist.test.X[start : start + 200]
        with one_linear_algebra_thread():
            columns, spent = timed(lambda images=images: pool.kernel_columns(pool.test_features(images)))
            kernel += spent
            scores += timed(lambda columns=columns: members._places(columns, 10, np.uint8, False))[1]
    return [features, solve, kernel, scores]


def main(folder: str) -> None:
    mnist = datasets.load("mnist", folder)
    once(mnist, 400, 200, 4, 2)  # compile
    print(HEAD + "\n" + "|---" * 11 + "|")
    cases = [
        ("subsets (d)", [(6000, 1000, 120, d) for d in (1, 4, 16)]),
        ("subset size (k)", [(6000, 1000, k, 4) for k in (240, 120, 60, 30)]),
        ("test images", [(6000, n, 120, 4) for n in (500, 1000, 2000)]),
        ("training images", [(n, 1000, n // 50, 4) for n in (3000, 6000, 12000)]),
    ]
    for name, settings in cases:
        for n_train, n_test, k, d in settings:
            spent = once(mnist, n_train, n_test, k, d)
            cells = " | ".join(f"{value:.2f}" for value in (*spent, sum(spent)))
            print(f"| {name} | {n_train} | {n_test} | {k} | {d} | {n_train // k} | {cells} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

"""Updates against refits: 200 random sequences, and how much faster one added or removed sample is.

Usage: python benchmarks/update.py [--sequences 200]
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid

from poisonproof import FiniteAggregationClassifier, PremiseWarning, data
from poisonproof.samples.rows import join_rows


def sequences(count: int) -> None:
    """Random additions and removals; after each the votes must be a refit's, to the bit."""
    digits = data.load("digits")
    X, y, test = digits.x_train, digits.y_train, digits.x_test[:60]
    steps = 0
    for number in range(count):
        rng = np.random.default_rng(number)
        k, d = int(rng.integers(2, 16)), int(rng.integers(1, 5))
        learner = (GaussianNB(), NearestCentroid())[number % 2]

        def ensemble(learner=learner, k=k, d=d):
            return FiniteAggregationClassifier(learner, k=k, d=d, classes=range(10))

        rows = rng.choice(len(y), 200, replace=False)
        now, now_y = X[rows], y[rows]
        model = ensemble().fit(now, now_y)
        for _ in range(int(rng.integers(1, 6))):
            remove = rng.choice(len(now_y), rng.integers(0, 5), replace=False)
            more = rng.choice(len(y), rng.integers(0, 5), replace=False)
            model.update(add=(X[more], y[more]), remove=remove)
            now, now_y = join_rows(np.delete(now, remove, axis=0), X[more]), np.r_[np.delete(now_y, remove), y[more]]
            fresh = ensemble().fit(now, now_y)
            assert model.votes(test).matrix.tobytes() == fresh.votes(test).matrix.tobytes(), number
            assert model.certify(test).radius.tobytes() == fresh.certify(test).radius.tobytes(), number
            steps += 1
    print(f"{count} sequences, {steps} updates: every one equals a refit to the bit")


def speed() -> None:
    """One removed sample, one added sample, against a refit."""
    digits = data.load("digits")
    for k, d in ((20, 4), (50, 4), (50, 16)):
        model = FiniteAggregationClassifier(LogisticRegression(max_iter=200), k=k, d=d, classes=range(10))
        started = time.perf_counter()
        model.fit(digits.x_train, digits.y_train)
        refit = time.perf_counter() - started
        times = []
        for row in range(20):
            started = time.perf_counter()
            done = model.update(remove=[row])
            times.append(time.perf_counter() - started)
            assert len(done.retrained) <= d
        update = float(np.median(times))
        print(
            f"k = {k}, d = {d}: refit {refit:.2f} s, one sample removed {1000 * update:.0f} ms "
            f"({d} of {k * d} base classifiers), {refit / update:.0f} times faster"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sequences", type=int, default=200)
    warnings.simplefilter("ignore", PremiseWarning)
    speed()
    sequences(parser.parse_args().sequences)

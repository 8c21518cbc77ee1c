"""Updates against refits: 200 random sequences, and how much faster one added or removed sample is.

Usage: python benchmarks/update.py [--sequences 200] [--rows 100000]

CPU seconds of one process; the row by itself, of ``--rows`` rows of `large_data.py`, as an array and as a frame.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid

import large_data
from poisonproof import FiniteAggregationClassifier, PremiseWarning, load
from poisonproof.learners.presets import preset
from poisonproof.samples.convert import join_rows


def sequences(count: int) -> None:
    """Random additions and removals; after each the votes must be a refit's, to the bit."""
    digits = load("digits")
    X, y, test = digits.train.X, digits.train.labels, digits.test.X[:60]
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
    digits = load("digits")
    for k, d in ((20, 4), (50, 4), (50, 16)):
        model = FiniteAggregationClassifier(LogisticRegression(max_iter=200), k=k, d=d, classes=range(10))
        started = time.perf_counter()
        model.fit(digits.train.X, digits.train.labels)
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


def one_of_many(rows: int) -> None:
    """One row removed, and one added, of many: the ratio to a refit must be at least half of k."""
    with tempfile.TemporaryDirectory() as folder:
        large_data.write(Path(folder), rows)
        frame = pd.read_parquet(folder)
    labels = frame.pop("y")
    numbers = frame.iloc[:, : large_data.NUMBERS].to_numpy()
    for name, X in (("frame", frame), ("array", numbers)):
        for k, d in ((20, 1), (50, 16)):
            model = FiniteAggregationClassifier(preset("table"), k=k, d=d, n_jobs=1, classes=["no", "yes"])
            model.fit(X[:1000], labels[:1000]).update(remove=[0])  # compiled
            started = time.process_time()
            model.fit(X, labels)
            refit = time.process_time() - started
            removed, added = [], []
            for row in range(5):
                one = (X[row : row + 1], labels[row : row + 1])
                started = time.process_time()
                model.update(remove=[row])
                removed.append(time.process_time() - started)
                started = time.process_time()
                model.update(add=one)
                added.append(time.process_time() - started)
            less, more = float(np.median(removed)), float(np.median(added))
            print(
                f"{name} of {X.shape[0]} x {X.shape[1]}, k = {k}, d = {d}: refit {refit:.2f} CPU s; one row removed "
                f"{1000 * less:.0f} ms, {refit / less:.1f} times faster; one added {1000 * more:.0f} ms, "
                f"{refit / more:.1f} times (asked: {k / 2:g})"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sequences", type=int, default=200)
    parser.add_argument("--rows", type=int, default=100_000)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", PremiseWarning)
    one_of_many(arguments.rows)
    speed()
    sequences(arguments.sequences)

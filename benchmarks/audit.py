"""At least ten thousand real attacks with retraining: digits, a table, sparse text, contributors, MNIST if at hand.

Usage: python benchmarks/audit.py [--share 1.0] [--data-dir DIR]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder
from sklearn.tree import DecisionTreeClassifier

from poisonproof import FiniteAggregationClassifier, PremiseWarning, Split, audit, load
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier

sys.path.append(str(Path(__file__).parents[1]))

from research import datasets
from research.maps.digits import DigitFeatures


def courses(data_dir: str | None):
    digits = load("digits")
    X, y, test = digits.train.X, digits.train.labels, digits.test.X
    for name, learner, options in (
        ("digits, nearest centroid, k = 20, d = 4", NearestCentroid(), {"k": 20, "d": 4}),
        ("digits, tree, k = 10, d = 8", DecisionTreeClassifier(max_depth=6), {"k": 10, "d": 8}),
        ("digits, nearest centroid, k = 30, d = 1", NearestCentroid(), {"k": 30, "d": 1}),
    ):
        yield name, FiniteAggregationClassifier(learner, classes=range(10), **options), X, y, test, {}
    groups = np.arange(len(y)) % 300
    model = FiniteAggregationClassifier(NearestCentroid(), k=15, d=3, split="group", classes=range(10))
    yield "digits by 300 contributors, k = 15, d = 3", model, X, y, test, {"groups": groups}

    cancer = load_breast_cancer()
    frame = pd.DataFrame(cancer.data[:, :6], columns=cancer.feature_names[:6])
    frame["size"] = pd.cut(frame["mean area"], [0, 400, 700, 9e9], labels=["small", "middling", "large"]).astype(str)
    frame.iloc[::17, 2] = np.nan
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2)
    table = FiniteAggregationClassifier(make_pipeline(encoder, GaussianNB()), k=15, d=3, classes=[0, 1])
    yield "table with categories and gaps, k = 15, d = 3", table, frame[:450], cancer.target[:450], frame[450:], {}

    words = [" ".join(f"w{i}" for i in np.flatnonzero(row > 8)) for row in X]
    words_test = [" ".join(f"w{i}" for i in np.flatnonzero(row > 8)) for row in test]
    sparse = HashingVectorizer(n_features=256).transform(words)
    model = FiniteAggregationClassifier(NearestCentroid(), k=15, d=3, classes=range(10))
    yield "sparse text, k = 15, d = 3", model, sparse, y, HashingVectorizer(n_features=256).transform(words_test), {}
    if data_dir:
        mnist = datasets.load("mnist", data_dir)
        learner = KernelRidgeClassifier(DigitFeatures(copies=1, hand=None), gamma=2.46)
        model = FiniteAggregationClassifier(learner, k=60, d=2, classes=range(10), split=Split(dtype="uint8"))
        yield (
            "MNIST (3,000 images), kernel ridge, k = 60, d = 2",
            model,
            mnist.train.X[:3000],
            mnist.train.labels[:3000],
            mnist.test.X,
            {},
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--share", type=float, default=1.0, help="of the targets")
    parser.add_argument("--data-dir", default=os.environ.get("POISONPROOF_DATA"))
    options = parser.parse_args()
    warnings.simplefilter("ignore", PremiseWarning)
    total = violations = 0
    targets = {"digits, nearest": 60, "digits, tree": 25, "digits by": 40, "table": 60, "sparse": 25, "MNIST": 12}
    for name, model, X, y, test, more in courses(options.data_dir):
        count = max(1, int(options.share * next(n for start, n in targets.items() if name.startswith(start))))
        started = time.perf_counter()
        report = audit(model, X, y, test, targets=count, seed=1, **more)
        seconds = time.perf_counter() - started
        total += len(report.attacks)
        violations += len(report.violations)
        print(f"{name}: {seconds:.0f} s\n{report}\n{report.by_kind()}\n", flush=True)
    print(f"{total} attacks in all, {violations} violations")
    raise SystemExit(violations > 0)


if __name__ == "__main__":
    main()

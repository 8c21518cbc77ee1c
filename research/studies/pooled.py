"""What sharing buys: base classifiers per second, pooled against what people would do instead, in one run.

    python -m research.studies.pooled DATA_DIR

MNIST, k = 1200: subsets of 50 images, 3 virtual copies each, 10,000 test images. The alternatives get the features for
nothing and are timed on a few subsets; the pooled figure counts features, training and votes of all d subsets per
partition.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from sklearn.ensemble import BaggingClassifier
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC

from poisonproof import FiniteAggregationClassifier, Split
from poisonproof.estimators.prepared import prepare
from poisonproof.system.threads import n_cores
from research import datasets, learners

SOME = 24


def main() -> None:
    mnist = datasets.load("mnist", sys.argv[1] if len(sys.argv) > 1 else None)
    print(f"{n_cores()} cores\n\n| what | base classifiers | seconds | per second | pooled is faster by |")
    print("|---|---|---|---|---|")
    rates = {}
    for d in (1, 4):
        model = FiniteAggregationClassifier(
            learners.digits(), k=1200, d=d, split=Split(dtype="uint8"), classes=mnist.classes
        )
        started = time.perf_counter()
        model.fit(mnist.train.X, mnist.train.labels).votes(mnist.test.X)
        rates[f"pooled kernel ridge, d = {d}"] = (1200 * d, time.perf_counter() - started)
    source = prepare(model, mnist.train.X, mnist.train.labels).source
    learner = learners.digits()
    features, gamma = learner.features, learner.gamma
    test = features(mnist.test.X)[:, 0].astype(np.float32) / features.scale
    fed = []
    for i in range(SOME):
        rows = source.rows(i)
        part = features(mnist.train.X[rows], training=True)
        images = part.reshape(-1, part.shape[2]).astype(np.float32) / features.scale
        fed.append((images, np.repeat(mnist.train.labels[rows], features.copies)))
    started = time.perf_counter()
    for X, y in fed:
        KernelRidge(kernel="rbf", gamma=gamma, alpha=learner.ridge).fit(X, np.eye(10)[y]).predict(test).argmax(axis=1)
    rates["loop of scikit-learn KernelRidge"] = (SOME, time.perf_counter() - started)
    started = time.perf_counter()
    for X, y in fed:
        SVC(gamma=gamma, C=10).fit(X, y).predict(test)
    rates["loop of scikit-learn SVC"] = (SOME, time.perf_counter() - started)
    X, y = (np.concatenate(part) for part in zip(*fed, strict=True))
    started = time.perf_counter()
    bag = BaggingClassifier(SVC(gamma=gamma, C=10), SOME, max_samples=1 / SOME, n_jobs=-1, random_state=0).fit(X, y)
    bag.predict(test)
    rates["BaggingClassifier(SVC), subsets of the same size, all cores"] = (SOME, time.perf_counter() - started)
    best = rates["pooled kernel ridge, d = 4"][0] / rates["pooled kernel ridge, d = 4"][1]
    for what, (count, seconds) in rates.items():
        print(f"| {what} | {count} | {seconds:.1f} | {count / seconds:.1f} | {best * seconds / count:.1f}× |")


if __name__ == "__main__":
    main()

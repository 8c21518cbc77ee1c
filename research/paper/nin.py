"""The paper's own base classifier beside ours: Network-in-Network and the `digits` preset on the same MNIST partitions.

    python -m research.paper.nin [--data-dir DIR] [--subsets 4] [--epochs 200]

k = 1200, d = 1, split by content; each base classifier is trained on one of the first partitions (about 50 images) and
asked about all 10,000 test images. One core. The paper's average over its 1,200 networks is 76.92 %.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from poisonproof import FiniteAggregationClassifier, Split
from poisonproof.estimators.prepared import prepare
from poisonproof.system.determinism import one_linear_algebra_thread
from poisonproof.training.members import fit_member, vote_of
from research import datasets
from research.learners import digits, nin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir")
    parser.add_argument("--subsets", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=200)
    asked = parser.parse_args()
    mnist = datasets.load("mnist", asked.data_dir)
    model = FiniteAggregationClassifier(k=1200, d=1, split=Split(dtype="uint8"), classes=mnist.classes)
    source = prepare(model, mnist.train.X, mnist.train.labels).source
    test = model.split_.samples(mnist.test.X)
    fed, truth = test.take(np.arange(len(test))), np.searchsorted(model.classes_, mnist.test.labels)
    learners = {"nin": nin().set_params(epochs=asked.epochs), "digits": digits()}
    right: dict[str, list[float]] = {name: [] for name in learners}
    seconds: dict[str, list[float]] = {name: [] for name in learners}
    print("| subset | images | classes | learner | base accuracy, % | training, CPU s | votes, CPU s |")
    print("|---|---|---|---|---|---|---|")
    for i in range(asked.subsets):
        subset = source.subset(i)
        for name, learner in learners.items():
            with one_linear_algebra_thread():
                began = time.process_time()
                member = fit_member(learner, i, subset)
                trained = time.process_time()
                votes = vote_of(member, fed, len(test), len(model.classes_))[0]
                asked_for = time.process_time() - trained
            right[name].append(float((votes == truth).mean()))
            seconds[name].append(trained - began)
            print(
                f"| {i} | {len(subset.rows)} | {len(member.codes)} | {name} | {100 * right[name][-1]:.2f} "
                f"| {trained - began:.1f} | {asked_for:.1f} |",
                flush=True,
            )
    for name in learners:
        print(
            f"{name}: mean base accuracy {100 * np.mean(right[name]):.2f} % over {asked.subsets} subsets, "
            f"{np.mean(seconds[name]):.1f} CPU s of training each"
        )


if __name__ == "__main__":
    main()

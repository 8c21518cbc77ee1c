"""White-box label flips: against every flip, against real retraining, and on real data.

    python benchmarks/label_flips.py --brute CASES
    python benchmarks/label_flips.py --retrain ATTACKS
    python benchmarks/label_flips.py DATASET K D TRAIN TEST

--brute draws small linear ensembles and tries every labelling of every sample. --retrain flips labels of digits where
it hurts most, trains the ensemble anew and asks it. The last form measures radii on the first TRAIN training and TEST
test samples of a data set ($POISONPROOF_DATA), with the features of its preset and balance=0, beside the preset itself.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from poisonproof import FiniteAggregationClassifier, Spread, data
from poisonproof.certificates.label_flip_kernels import NEVER, flip_radii, member_costs
from poisonproof.certificates.label_flips import certify_label_flips
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from poisonproof.learners.presets import preset

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from label_flip_oracle import random_ensemble, smallest_attack

PRESETS = {"mnist": "digits", "cifar10": "objects", "gtsrb": "signs"}


def radius_of(g, labels, votes, table, n_classes, feeding):
    """The radius of one small linear ensemble, by the kernels."""
    n = len(votes)
    costs = np.full((1, n, n_classes), NEVER, np.int32)
    for i in range(n):
        own = feeding[i]
        held = np.unique(labels[own])
        if len(held) == 1:
            costs[0, i] = 1
            costs[0, i, votes[i]] = 0
        if len(held) > 1:
            scores = np.array([[g[i, own][labels[own] == c].sum()] for c in range(n_classes)])
            nothing = np.zeros((len(own), 1))
            rows = np.ascontiguousarray(g[i, own][:, None])
            member_costs(rows, nothing, labels[own], scores, np.zeros_like(scores), votes[i : i + 1], costs[:, i])
    prediction, radius = np.empty(1, np.int64), np.empty(1, np.int64)
    flip_radii(votes[None], costs, n_classes, table.shape[1], len(labels), prediction, radius)
    return int(radius[0])


def brute(cases: int) -> None:
    rng = np.random.default_rng(0)
    broken = exact = positive = 0
    for _ in range(cases):
        case = random_ensemble(rng)
        radius = radius_of(*case)
        smallest = smallest_attack(*case)
        broken += radius >= smallest
        exact += radius + 1 == smallest or smallest > len(case[1])
        positive += radius > 0
    print(f"{cases} ensembles, every labelling: broken {broken}")
    print(f"  radii above 0: {positive}; exact in truth {exact / cases * 100:.1f} %")


def retrain(attacks: int) -> None:
    """Flip up to the radius, and beyond it, where it hurts most; train anew; ask."""
    rng = np.random.default_rng(1)
    digits = data.load("digits")
    learner = KernelRidgeClassifier(kernel="rbf", gamma=0.001, ridge=0.3, balance=0.0)
    made = broken = 0
    sizes: dict[float, list[bool]] = {1.0: [], 2.0: []}
    started = time.process_time()
    for k, d in ((12, 1), (12, 2), (30, 1), (12, 3)):
        classes = list(range(10))
        model = FiniteAggregationClassifier(learner, k=k, d=d, classes=classes, n_jobs=1)
        model.fit(digits.x_train, digits.y_train)
        rows = rng.choice(len(digits.x_test), attacks // 4, replace=False)
        votes = model.votes(digits.x_test[rows])
        found = certify_label_flips(votes, learner, digits.x_train, digits.y_train, digits.x_test[rows])
        assert (found.radius >= found.black_box).all()
        for at, row in enumerate(rows):
            order, labels = worst_flips(votes, learner, digits, row, at)
            for factor, outcomes in sizes.items():
                size = int(found.radius[at] if factor == 1 else np.ceil(factor * max(1, found.radius[at])))
                y = digits.y_train.copy()
                y[order[:size]] = labels[:size]
                again = FiniteAggregationClassifier(learner, spread=model.spread_, classes=classes, n_jobs=1)
                changed = (
                    again.fit(digits.x_train, y).predict(digits.x_test[row : row + 1])[0]
                    != votes.classes[found.prediction[at]]
                )
                outcomes.append(bool(changed))
                if factor == 1:
                    made += 1
                    broken += changed
    print(f"{made} attacks of the size of the radius, really retrained: {broken} changed the prediction")
    for factor, outcomes in sizes.items():
        print(f"  {factor} times the radius: {np.mean(outcomes) * 100:.1f} % changed")
    print(f"  {time.process_time() - started:.0f} CPU s")


def worst_flips(votes, learner, digits, row, at):
    """Training samples in the order in which a greedy attacker flips them, and their new labels.

    Cheapest base classifiers first, those that vote for the prediction before the others; in each, the flips with the
    largest benefit for the runner-up until it comes level.
    """
    split, spread = votes.split, votes.spread
    samples = split.samples(digits.x_train)
    partition = split.partitions(samples, spread.n_partitions)
    pool = learner.share(samples.take(np.arange(len(samples))))
    kernel = pool.kernel_columns(pool.test_features(split.samples(digits.x_test[row : row + 1]).take(np.arange(1))))
    counts = votes.counts()[at]
    p = int(counts.argmax())
    c = int(np.argsort(-counts, kind="stable")[1])
    plans = []
    for i in range(spread.n_subsets):
        own = np.flatnonzero(np.isin(partition, spread.partitions_of(i)))
        v = int(votes.matrix[at, i])
        if v == c or not len(own):
            continue
        g = np.linalg.solve(pool.system(own, learner.ridge), kernel[own].astype(float))[:, 0]
        y = digits.y_train[own]
        benefit = np.where(y == v, 2 * np.maximum(g, 0), np.where(y == c, 2 * np.maximum(-g, 0), np.abs(g)))
        order = np.argsort(-benefit)
        lacking = g[y == v].sum() - g[y == c].sum()
        needed = int(np.searchsorted(np.cumsum(benefit[order]), lacking)) + 1
        chosen = order[:needed]
        new = np.where(g[chosen] > 0, c, np.where(y[chosen] == c, v, v))
        plans.append((needed / (2 if v == p else 1), own[chosen], new))
    plans.sort(key=lambda plan: plan[0])
    order, labels, seen = [], [], set()
    for _, chosen, new in plans:
        for sample, label in zip(chosen.tolist(), new.tolist(), strict=True):
            if sample not in seen:
                seen.add(sample)
                order.append(sample)
                labels.append(label)
    return np.array(order), np.array(labels)


def measure(name: str, k: int, d: int, n_train: int, n_test: int) -> None:
    dataset = data.load(name)
    x, y = dataset.x_train[:n_train], dataset.y_train[:n_train]
    x_test, y_test = dataset.x_test[:n_test], dataset.y_test[:n_test]
    classes = dataset.classes.tolist()
    usual = preset(PRESETS[name])
    plain = KernelRidgeClassifier(
        usual.features, kernel=usual.kernel, gamma=usual.gamma, ridge=usual.ridge, balance=0.0
    )
    spread = Spread.paper(k, d) if d > 1 else Spread.random(k, 1)
    print(f"{name}, k = {k}, d = {d}, {len(x)} training samples, {len(x_test)} test samples")
    print("| learner | clean, % | mean radius of right ones | half of the test set at | CPU s |\n|---|---|---|---|---|")
    for words, learner in (("preset", usual), ("balance=0", plain)):
        model = FiniteAggregationClassifier(learner, spread=spread, split=_split(dataset), classes=classes, n_jobs=1)
        votes = model.fit(x, y).votes(x_test)
        from poisonproof import certify

        found = certify(votes)
        right = found.right(y_test)
        _row(f"{words}, black box", right, found.radius_against("label_flip"), None)
        if learner is plain:
            started = time.process_time()
            flips = certify_label_flips(votes, learner, x, y, x_test)
            _row(f"{words}, white box", right, flips.radius, time.process_time() - started)


def _split(dataset):
    from poisonproof import Split

    return Split("content", dtype=dataset.dtype)


def _row(words, right, radius, seconds) -> None:
    held = np.sort(np.where(right, radius, -1))[::-1]
    half = int(held[(len(held) + 1) // 2 - 1])
    cost = "" if seconds is None else f"{seconds:.0f}"
    mean = radius[right].mean()
    print(f"| {words} | {right.mean() * 100:.1f} | {mean:.1f} | {'–' if half < 0 else half} | {cost} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--brute":
        brute(int(sys.argv[2]))
    elif sys.argv[1] == "--retrain":
        retrain(int(sys.argv[2]))
    else:
        measure(sys.argv[1], *map(int, sys.argv[2:]))

"""White-box label flips: against every flip, against real retraining, and on real data.

    python -m research.label_flips.campaign --brute CASES
    python -m research.label_flips.campaign --retrain ATTACKS [ENSEMBLE]
    python -m research.label_flips.campaign DATASET K D TRAIN TEST

--brute draws small linear ensembles, without and with class weights, and tries every labelling of every sample.
--retrain flips labels of digits where it hurts most, trains anew and asks; ATTACKS in all of six ensembles, or of one.
The last form measures radii on TRAIN training and TEST test samples, drawn at random, of a data set
($POISONPROOF_DATA), with its preset, and with the preset's features and balance=0. Whole training sets at k = 50 and
2,000 test samples were fixed before any of them was met:

    python -m research.label_flips.campaign mnist 50 1 60000 2000
    python -m research.label_flips.campaign cifar10 50 1 50000 2000
    python -m research.label_flips.campaign gtsrb 50 1 39209 2000
"""

from __future__ import annotations

import sys
import time

import numpy as np

from poisonproof import FiniteAggregationClassifier, Spread, certify, load
from poisonproof.core.subsets import Subsets
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier, _add_scores
from research import learners
from research.label_flips.certificate import certify_label_flips
from research.label_flips.cholesky import system
from research.label_flips.kernels import NEVER, flip_radii, member_costs, weighted_member_costs
from research.tests.label_flip_oracle import random_ensemble, smallest_attack

PRESETS = {"mnist": learners.digits, "cifar10": learners.objects, "gtsrb": learners.signs}


def radius_of(g, labels, votes, table, n_classes, feeding, balance):
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
            if balance:
                said = votes[i : i + 1]
                weighted_member_costs(rows, nothing, labels[own], n_classes, balance, said, costs[:, i])
                continue
            member_costs(rows, nothing, labels[own], scores, np.zeros_like(scores), votes[i : i + 1], costs[:, i])
    prediction, radius = np.empty(1, np.int64), np.empty(1, np.int64)
    flip_radii(votes[None], costs, n_classes, table.shape[1], len(labels), prediction, radius)
    return int(radius[0])


def brute(cases: int, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    broken = exact = positive = 0
    for _ in range(cases):
        balance = float(rng.choice([0.3, 0.5, 0.7, 1.0])) if weighted else 0.0
        case = random_ensemble(rng, balance)
        radius = radius_of(*case, balance)
        smallest = smallest_attack(*case, balance)
        broken += radius >= smallest
        exact += radius + 1 == smallest or smallest > len(case[1])
        positive += radius > 0
    words = "with class weights" if weighted else "without class weights"
    print(f"{cases} ensembles {words}, every labelling: broken {broken}")
    print(f"  radii above 0: {positive}; exact in truth {exact / cases * 100:.1f} %")


ENSEMBLES = ((12, 1, 0.0), (12, 2, 0.0), (30, 1, 0.0), (12, 3, 0.0), (12, 1, 0.5), (30, 1, 0.7))  # k, d, balance


def retrain(attacks: int, ensembles: tuple[tuple[int, int, float], ...]) -> None:
    """Flip as many labels as the radius says where it hurts most, of some twice as many; train anew; ask.

    Base classifiers that a flip reaches are solved and asked by the learner's own code on one pool; it is checked that
    the whole ensemble, fitted anew, says the same.
    """
    rng = np.random.default_rng(1)
    digits = load("digits")
    outcomes: dict[int, list[bool]] = {1: [], 2: []}
    started = time.process_time()
    for k, d, balance in ensembles:
        learner = KernelRidgeClassifier(kernel="rbf", gamma=0.001, ridge=0.3, balance=balance)
        model = FiniteAggregationClassifier(learner, k=k, d=d, classes=list(range(10)), n_jobs=1)
        model.fit(digits.train.X, digits.train.labels)
        rows = rng.choice(len(digits.test), -(-attacks // len(ensembles)))
        votes = model.votes(digits.test.X[rows])
        found = certify_label_flips(votes, learner, digits.train.X, digits.train.labels, digits.test.X[rows])
        ensemble = Retrained(votes, learner, digits, digits.test.X[rows])
        assert [ensemble.votes(digits.train.labels, at, None) for at in range(2)] == votes.matrix[:2].tolist()
        for at in range(len(rows)):
            order, labels = ensemble.worst_flips(votes, at)
            for factor, changes in outcomes.items():
                if factor == 2 and at % 5:
                    continue
                size = factor * int(found.radius[at])
                y = digits.train.labels.copy()
                y[order[:size]] = labels[:size]
                said = ensemble.votes(y, at, votes.matrix[at])
                if at == 0:
                    again = FiniteAggregationClassifier(
                        learner, spread=model.spread_, classes=list(range(10)), n_jobs=1
                    )
                    assert again.fit(digits.train.X, y).votes(digits.test.X[rows[:1]]).matrix[0].tolist() == said
                changes.append(int(np.bincount(said, minlength=11)[:10].argmax()) != found.prediction[at])
        flips = found.radius.mean(), found.black_box.mean()
        print(
            f"k = {k}, d = {d}, balance = {balance}: mean radius {flips[0]:.2f}, black box {flips[1]:.2f}", flush=True
        )
        print(f"  so far {len(outcomes[1])} attacks of the size of the radius: {sum(outcomes[1])} changed", flush=True)
    print(f"twice the radius: {np.mean(outcomes[2]) * 100:.1f} % changed; {time.process_time() - started:.0f} CPU s")


class Retrained:
    """An ensemble on one pool of training samples, whose base classifiers are solved again for any labels."""

    def __init__(self, votes, learner, digits, x_test):
        split, self.spread, self.learner, self.y = votes.split, votes.spread, learner, digits.train.labels
        samples = split.samples(digits.train.X)
        partition = split.partitions(samples, self.spread.n_partitions)
        subsets = Subsets.of(samples, digits.train.labels.astype(np.int64), partition, self.spread)
        self.own = [subsets.rows(i) for i in range(self.spread.n_subsets)]
        self.pool = learner.share(samples.take(np.arange(len(samples))))
        asked = split.samples(x_test)
        self.kernel = self.pool.kernel_columns(self.pool.test_features(asked.take(np.arange(len(asked)))))

    def votes(self, y, at, before):
        """What base classifiers trained with these labels say about one test sample.

        ``before`` is what they said with the true labels: only those with a flipped one are trained anew.
        """
        said = []
        for i, own in enumerate(self.own):
            if before is not None and np.array_equal(y[own], self.y[own]):
                said.append(int(before[i]))
                continue
            held, local = np.unique(y[own], return_inverse=True)
            scores = np.zeros((len(held), 1), np.float32)
            coefficients = self.pool.solve(own, local).coefficients.reshape(len(own), -1)
            _add_scores(np.ascontiguousarray(self.kernel[:, at : at + 1]), own, coefficients, scores)
            said.append(int(held[scores[:, 0].argmax()]))
        return said

    def worst_flips(self, votes, at):
        """Training samples in the order in which a greedy attacker flips them, and their new labels.

        Cheapest base classifiers first, those that vote for the prediction at half their price; in each, the flips with
        the largest benefit for the runner-up until it comes level.
        """
        counts = votes.counts()[at]
        p = int(counts.argmax())
        c = int(np.argsort(-counts, kind="stable")[1])
        plans = []
        for i, own in enumerate(self.own):
            v = int(votes.matrix[at, i])
            if v == c:
                continue
            g = np.linalg.solve(system(self.pool, own, self.learner.ridge), self.kernel[own, at].astype(float))
            y = self.y[own]
            benefit = np.where(y == v, 2 * np.maximum(g, 0), np.where(y == c, 2 * np.maximum(-g, 0), np.abs(g)))
            order = np.argsort(-benefit)
            lacking = g[y == v].sum() - g[y == c].sum()
            needed = int(np.searchsorted(np.cumsum(benefit[order]), lacking)) + 1
            chosen = order[:needed]
            plans.append((needed / (2 if v == p else 1), own[chosen], np.where(g[chosen] > 0, c, v)))
        plans.sort(key=lambda plan: plan[0])
        found: dict[int, int] = {}
        for _, chosen, new in plans:
            for sample, label in zip(chosen.tolist(), new.tolist(), strict=True):
                found.setdefault(sample, label)
        return np.array(list(found)), np.array(list(found.values()))


def measure(name: str, k: int, d: int, n_train: int, n_test: int) -> None:
    dataset = load(name)
    rng = np.random.default_rng(0)  # GTSRB's images come class by class
    train = np.sort(rng.permutation(len(dataset.train))[:n_train])
    test = np.sort(rng.permutation(len(dataset.test))[:n_test])
    x, y, x_test, y_test = (
        dataset.train.X[train],
        dataset.train.labels[train],
        dataset.test.X[test],
        dataset.test.labels[test],
    )
    classes = dataset.classes.tolist()
    usual = PRESETS[name]()
    plain = KernelRidgeClassifier(
        usual.features, kernel=usual.kernel, gamma=usual.gamma, ridge=usual.ridge, balance=0.0
    )
    spread = Spread.paper(k, d) if d > 1 else Spread.random(k, 1)
    print(f"{name}, k = {k}, d = {d}, {len(x)} training samples, {len(x_test)} test samples")
    majority = np.unique(y_test, return_counts=True)[1].max() / len(y_test)
    print(f"always the most frequent label: {majority * 100:.1f} %; in brackets the mean over classes")
    sizes = f"at {k // 4} | at {k // 2}"
    print(f"| learner | clean, % | {sizes} | mean radius of right ones | half of the test set at | CPU s |")
    print("|---|---|---|---|---|---|---|")
    for words, learner in (("preset", usual), ("balance=0", plain)):
        model = FiniteAggregationClassifier(learner, spread=spread, split=_split(dataset), classes=classes, n_jobs=1)
        votes = model.fit(x, y).votes(x_test)
        found = certify(votes)
        right = found.evaluate(y_test).right
        _row(f"{words}, black box", right, found.radius_against("label_flip"), y_test, k, None)
        started = time.process_time()
        flips = certify_label_flips(votes, learner, x, y, x_test)
        _row(f"{words}, white box", right, flips.radius, y_test, k, time.process_time() - started)


def _split(dataset):
    from poisonproof import Split

    return Split("content", dtype=dataset.dtype)


def _row(words, right, radius, truth, k, seconds) -> None:
    """Shares of all test samples, and in brackets the mean over classes."""
    held = np.sort(np.where(right, radius, -1))[::-1]
    half = int(held[(len(held) + 1) // 2 - 1])
    shares = []
    for size in (0, k // 4, k // 2):
        safe = right & (radius >= size)
        balanced = np.mean([safe[truth == label].mean() for label in np.unique(truth)])
        shares.append(f"{safe.mean() * 100:.1f} ({balanced * 100:.1f})")
    cost = "" if seconds is None else f"{seconds:.0f}"
    columns = (words, *shares, f"{radius[right].mean():.1f}", "–" if half < 0 else str(half), cost)
    print(f"| {' | '.join(columns)} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--brute":
        brute(int(sys.argv[2]), weighted=False)
        brute(int(sys.argv[2]), weighted=True)
    elif sys.argv[1] == "--retrain":
        chosen = ENSEMBLES if len(sys.argv) < 4 else (ENSEMBLES[int(sys.argv[3])],)
        retrain(int(sys.argv[2]), chosen)
    else:
        measure(sys.argv[1], *map(int, sys.argv[2:]))

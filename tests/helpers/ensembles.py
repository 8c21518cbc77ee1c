"""Small random ensembles for attackers who try everything."""

from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from poisonproof import Split, Spread
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier, Pool, Solution


def random_spread(rng, n):
    """Shifts or, one time in four, a balanced table that no shifts describe."""
    d = int(rng.integers(1, min(n, 4) + 1))
    spread = Spread(n, tuple(rng.choice(n, d, replace=False).tolist()))
    if rng.integers(4) == 0:
        table = spread.as_table()[rng.permutation(n)]
        return Spread.from_table(rng.permutation(n)[table])
    return spread


def random_votes(rng, n, n_classes):
    """Votes with a leader, so that radii above 0 are common; some base classifiers abstain."""
    share = rng.dirichlet(np.full(n_classes + 1, 0.7))
    return rng.choice(n_classes + 1, n, p=share)


class FirstSeen(ClassifierMixin, BaseEstimator):
    """Says the label of the first row that it was fed: a tree does not mind the order of its rows, and this does."""

    def fit(self, X, y):
        self.classes_, self.first_ = np.unique(y), y[0]
        return self

    def predict(self, X):
        return np.full(X.shape[0], self.first_)


@dataclass(frozen=True)
class FirstOfPool(Pool):
    """A pool whose solutions say the class of the first row of the subset."""

    def solve(self, samples, codes):
        coefficients = np.zeros((len(codes), codes.max() + 1), np.float32)
        coefficients[0, codes[0]] = 1.0
        return Solution(coefficients, self.ridge)


class PooledFirstSeen(KernelRidgeClassifier):
    """The same for the engine of pooled learners; the kernel of two samples is never 0."""

    def __init__(self, gamma=1e-6):
        super().__init__(gamma=gamma)

    def pool_of(self, rows):
        return FirstOfPool(**vars(super().pool_of(rows)))


def first_seen(samples, codes, spread, n_test):
    """What they must say: the class of the sample with the smallest hash (ties: class) among those of each subset."""
    samples = Split().samples(samples)
    partition, hashes = Split().partitions(samples, spread.n_partitions), samples.hashes()
    rows = [np.flatnonzero(np.isin(partition, spread.partitions_of(i))) for i in range(spread.n_subsets)]
    return np.tile([min(zip(hashes[own], codes[own], strict=True))[1] for own in rows], (n_test, 1))

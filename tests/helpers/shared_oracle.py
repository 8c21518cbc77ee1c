"""One attack on a whole test set, by trying every set of partitions; and small ensembles to try it on.

Nothing here shares code with the kernels.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from oracle import UNSEEN, reached_by, winner
from poisonproof import Spread


def stays_right(row, reached, n_classes, unseen):
    """Whether no rival wins if all reached base classifiers vote for it."""
    p = winner(row, n_classes)
    rivals = [c for c in range(n_classes) if c != p] + ([UNSEEN] if unseen else [])
    return all(winner([c if i in reached else v for i, v in enumerate(row)], n_classes) == p for c in rivals)


def fewest_right(matrix, y, table, n_classes, unseen, size):
    """The accuracy, as a count, under the worst of all sets of at most ``size`` partitions."""
    right = [row for row, label in zip(matrix, y, strict=True) if winner(row, n_classes) == label]
    fewest = len(right)
    for chosen in combinations(range(len(table)), min(size, len(table))):
        reached = set(reached_by(chosen, table))
        fewest = min(fewest, sum(stays_right(row, reached, n_classes, unseen) for row in right))
    return fewest


def fewest_right_fast(matrix, y, table, n_classes, unseen, size):
    """fewest_right for thousands of cases: every set of partitions at once, as rows of one array."""
    n = len(table)
    votes = np.array(matrix).reshape(len(matrix), n)
    chosen = list(combinations(range(n), min(size, n)))
    reached = np.zeros((len(chosen), n), bool)
    for at, partitions in enumerate(chosen):
        reached[at, reached_by(partitions, table)] = True
    right = np.zeros(len(chosen), int)
    for row, label in zip(votes, y, strict=True):
        left = [(~reached & (row == c)).sum(axis=1) for c in range(n_classes)]
        gained = reached.sum(axis=1)
        if winner(row.tolist(), n_classes) != label:
            continue
        holds = (gained < left[label]) | (gained == 0) if unseen else np.ones(len(chosen), bool)
        for c in range(n_classes):
            if c != label:
                holds &= left[c] + gained + (c < label) <= left[label]
        right += holds
    return int(right.min())


def random_case(rng, least=2, most=8, samples=12):
    """A small ensemble whose test samples lean to their label; abstentions, tables, unseen classes, one class."""
    n = int(rng.integers(least, most))
    n_classes = int(rng.integers(1, 5))
    unseen = bool(rng.integers(2)) or n_classes == 1
    d = int(rng.integers(1, min(n, 3) + 1))
    spread = Spread(n, tuple(rng.choice(n, d, replace=False).tolist()))
    if rng.integers(4) == 0:
        spread = Spread.from_table(rng.permutation(n)[spread.as_table()[rng.permutation(n)]])
    y = rng.integers(n_classes, size=int(rng.integers(1, samples + 1)))
    lean = rng.choice([2, 4, 8])
    shares = [rng.dirichlet([lean if c == label else 1 for c in range(n_classes + 1)]) for label in y]
    matrix = [rng.choice(n_classes + 1, n, p=share).tolist() for share in shares]
    return matrix, y, spread, n_classes, unseen, int(rng.integers(0, min(4, max(2, n // (2 * d))) + 1))


def close_case(rng, samples=60):
    """10 to 12 base classifiers, many test samples whose leads an attack of size 3 or 4 may or may not close."""
    n, n_classes = int(rng.integers(10, 13)), int(rng.integers(2, 5))
    spread = Spread(n, tuple(rng.choice(n, int(rng.integers(1, 3)), replace=False).tolist()))
    y = rng.integers(n_classes, size=samples)
    right = rng.random((samples, n)) < rng.uniform(0.5, 1.0, (samples, 1))
    matrix = np.where(right, y[:, None], rng.integers(n_classes, size=(samples, n))).tolist()
    return matrix, y, spread, n_classes, bool(rng.integers(2)), int(rng.integers(3, 5))

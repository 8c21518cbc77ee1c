"""Every attack on small worlds of ballots with several test samples: the fewest that one attack leaves right."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np

from poisonproof import certified_accuracy
from poisonproof.ballots.tallies import Ballots


def winner(scores, shown, inferred):
    """The class with the most ballots, the smaller on ties; with inferred classes only one that is there."""
    best = -1
    for c, score in enumerate(scores):
        if (not inferred or shown[c]) and (best < 0 or score > scores[best]):
            best = c
    return best


def fewest_right(near, counts, truth, sizes, size, one_sided, inferred):
    """near[t][place]; counts[place][label] training samples; every set of at most ``size`` acts is tried."""
    n_places, n_labels = counts.shape
    acts = [(place, label, sign) for place in range(n_places) for label in range(n_labels) for sign in (1, -1)]
    weight = np.where(near, 1, 0 if one_sided else -1)
    fewest = len(truth)
    for chosen in combinations_with_replacement(acts, size):
        now = counts.copy()
        for place, label, sign in chosen:
            now[place, label] += sign
        if (now < 0).any() or (inferred and now.sum() == 0):
            continue
        scores, shown = weight @ now + sizes, now.sum(axis=0)
        fewest = min(fewest, sum(winner(row, shown, inferred) == y for row, y in zip(scores, truth, strict=True)))
    return fewest


def compare_with_every_attack(seed):
    """What is proved, what the worst attack leaves, and the pointwise count, of one random world."""
    random = np.random.default_rng([seed, 77])
    one_sided, inferred = bool(random.random() < 0.4), bool(random.random() < 0.3)
    n_places, n_classes, n_test = int(random.integers(1, 4)), int(random.integers(2, 4)), int(random.integers(1, 6))
    size = int(random.integers(1, 4 if n_places * n_classes < 9 else 3))
    near = random.random((n_test, n_places)) < 0.6  # any nearness at all, as a map may have it
    counts = random.multinomial(int(random.integers(2, 12)), np.ones(n_places * n_classes) / (n_places * n_classes))
    counts = counts.reshape(n_places, n_classes)
    sizes = np.zeros(n_classes, np.int64)
    if inferred:
        counts = counts[:, counts.sum(axis=0) > 0]
        n_classes = counts.shape[1]
        counts = np.column_stack([np.zeros(n_places, np.int64), counts])  # label 0 is the invented one, and sorts first
        sizes = np.zeros(n_classes + 1, np.int64)
    elif not one_sided and random.random() < 0.5:
        sizes = random.integers(0, 4, n_classes)
    truth = random.integers(int(inferred), counts.shape[1], n_test)
    own = slice(int(inferred), None)
    ballots = Ballots(
        (near @ counts)[:, own],
        counts.sum(axis=0)[own],
        sizes[own],
        np.arange(counts.shape[1])[own],
        np.ones(n_test, np.bool_),
        one_sided=one_sided,
        classes_inferred=inferred,
    )
    limit = float(random.choice([0.0, 60.0]))
    found = certified_accuracy(ballots, truth, size, time_limit=limit)
    return found.lower_count, fewest_right(near, counts, truth, sizes, size, one_sided, inferred), found.certified_count

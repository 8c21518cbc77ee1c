"""Random ensembles small enough to enumerate: exact probabilities, every attack, and slow references in fractions.

A training set is a tuple of counts, one per kind of sample; a learner is any function from such a tuple to a
class code (the number of classes abstains). Nothing here shares code with the certificates.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb, factorial, prod

import numpy as np

UNSEEN = -1


def bernoulli(data, k, learner, n_classes):
    """p_c for subsets that hold each sample with probability 1/k."""
    p = [Fraction(0)] * (n_classes + 1)
    for part in product(*(range(m + 1) for m in data)):
        ways = prod(comb(m, s) * (k - 1) ** (m - s) for m, s in zip(data, part, strict=True))
        p[learner(part)] += Fraction(ways, k ** sum(data))
    return p[:n_classes]


def bernoulli_with(kind, data, k, learner, n_classes):
    """p_{c|x}: the same for subsets that hold one sample of this kind for certain."""

    def shifted(part):
        return learner(tuple(s + (at == kind) for at, s in enumerate(part)))

    return bernoulli(tuple(m - (at == kind) for at, m in enumerate(data)), k, shifted, n_classes)


def bagged(data, size, learner, n_classes):
    """p_c for subsets of this size drawn with replacement."""
    p = [Fraction(0)] * (n_classes + 1)
    if sum(data) == 0:
        return p[:n_classes]
    for part in product(range(size + 1), repeat=len(data)):
        if sum(part) == size:
            orders = factorial(size) // prod(factorial(s) for s in part)
            ways = orders * prod(m**s for m, s in zip(data, part, strict=True))
            p[learner(part)] += Fraction(ways, sum(data) ** size)
    return p[:n_classes]


def winner(p):
    return max(range(len(p)), key=lambda c: (p[c], -c))


def neighbours(data, r):
    """Every data set within r insertions and removals, with how many of each."""
    for other in product(*(range(max(0, m - r), m + r + 1) for m in data)):
        inserted = sum(max(0, b - a) for a, b in zip(data, other, strict=True))
        removed = sum(max(0, a - b) for a, b in zip(data, other, strict=True))
        if inserted + removed <= r:
            yield other, inserted, removed


def random_learner(rng, kinds, n_classes):
    """Learners of many tempers: steady, capricious, led by one kind of sample, or turned by it."""
    steady = int(rng.integers(n_classes))
    share = float(rng.choice([1.0, 0.97, 0.85, 0.6]))
    turned_by = set(rng.choice(kinds, rng.integers(0, kinds), replace=False).tolist())
    turns_to = int(rng.integers(n_classes + 1))
    seed = int(rng.integers(2**31))
    memory = {}

    def learner(part):
        if part not in memory:
            own = np.random.default_rng([seed, *part])
            if any(part[kind] for kind in turned_by):
                memory[part] = turns_to
            else:
                memory[part] = steady if own.random() < share else int(own.integers(n_classes + 1))
        return memory[part]

    return learner, sorted(turned_by)


def random_data(rng, kinds, turned_by, most=6):
    """Up to six samples; half of the time none of the kinds that turn the learner."""
    data = rng.multinomial(rng.integers(1, most + 1), np.ones(kinds) / kinds)
    if rng.random() < 0.5 and len(turned_by) < kinds:
        data[turned_by] = 0
        if data.sum() == 0:
            data[next(kind for kind in range(kinds) if kind not in turned_by)] = 1
    return tuple(int(m) for m in data)


def rivals(lead, prediction, unseen):
    """(lead, whether the rival wins ties) of every rival, as fractions."""
    n = len(lead) - unseen
    return [(value, c >= n or c < prediction, c) for c, value in enumerate(lead) if c != prediction]


def theorem_3(lead, prediction, k, terms, unseen=False):
    """Theorem 3 word for word: r, or None if not even the prediction is certain. ``terms[c]`` is a list."""
    smallest = None
    for value, strict, c in rivals(lead, prediction, unseen):
        r = -1
        while True:
            most = sorted([*(min(Fraction(2), t) for t in terms[c]), *[1 + value] * (r + 1)], reverse=True)[: r + 1]
            total = sum(most, Fraction(0)) / k
            if not (total < value if strict else total <= value):
                break
            r += 1
        smallest = r if smallest is None else min(smallest, r)
    return None if smallest < 0 else smallest


def selection(lead, prediction, k, unseen=False, changes=False):
    """By 2q for changes; by all insertions and removals, with the lead passed on through D ∩ D', otherwise."""
    smallest = min(value for value, _, _ in rivals(lead, prediction, unseen))
    if smallest <= 0:
        return None
    miss = 1 - Fraction(1, k)

    def holds(r):
        if changes:
            return 2 * (1 - miss**r) < smallest
        for e in range(r + 1):
            if miss**e == 0:
                return False
            common = (smallest - 1 + miss**e) / miss**e
            if any(miss**i * common - (1 - miss**i) <= 0 for i in range(r - e + 1)):
                return False
        return True

    r = 0
    while holds(r + 1):
        r += 1
    return r


def bagging(lead, prediction, n, size, unseen=False, changes=False):
    """The inequality with the maximum spelled out, over all insertions and removals, or all n' of the paper."""
    smallest = min(value for value, _, _ in rivals(lead, prediction, unseen))
    if smallest <= 0:
        return None

    def cost(after, common):
        return Fraction(after, n) ** size - 2 * Fraction(common, n) ** size + 1

    r = 0
    while True:
        r += 1
        if changes:
            worst = max(cost(after, max(0, max(n, after) - r)) for after in range(max(0, n - r), n + r + 1))
        else:
            worst = max(cost(n + i - e, n - e) for e in range(min(r, n) + 1) for i in range(r - e + 1))
        if not worst < smallest:
            return r - 1

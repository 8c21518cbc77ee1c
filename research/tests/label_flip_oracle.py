"""Label flips, slowly: small linear ensembles, every labelling, and the formulas word for word."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numba import njit

from poisonproof import Spread


def random_ensemble(rng, balance=0.0):
    """g[i, s], labels, votes, table, number of classes, and the samples of each base classifier."""
    n_classes = int(rng.integers(2, 4))
    n_samples = int(rng.integers(2, 8 if n_classes == 3 else 10))
    n = int(rng.integers(1, 9))
    d = int(rng.integers(1, min(3, n) + 1))
    table = Spread(n, tuple(rng.choice(n, d, replace=False).tolist())).as_table()
    partition = rng.integers(0, n, n_samples)
    labels = rng.choice(n_classes, n_samples, p=rng.dirichlet(np.full(n_classes, 0.6)))
    g = np.round(rng.normal(size=(n, n_samples)) + rng.choice([0, 1, 2]), 3 if rng.integers(2) else 0)
    member = np.zeros((n, n_samples), np.bool_)
    for sample in range(n_samples):
        member[table[partition[sample]], sample] = True
    votes = np.array([vote(g[i], labels, member[i], n_classes, balance) for i in range(n)])
    return g, labels, votes, table, n_classes, [np.flatnonzero(row) for row in member]


@njit
def vote(g, labels, member, n_classes, balance):
    """The class of the highest score among those of the subset; the smaller among equals; none if it is empty.

    A score is the sum of g over the samples of the class, weighted by how rare it is in the subset.
    """
    best, highest = n_classes, 0.0
    for c in range(n_classes):
        score, held = 0.0, 0
        for s in range(len(labels)):
            if member[s] and labels[s] == c:
                score += g[s]
                held += 1
        if held:
            score *= held**-balance
        if held and (best == n_classes or score > highest):
            best, highest = c, score
    return best


def smallest_attack(g, labels, votes, table, n_classes, feeding, balance=0.0):
    """Fewest flips that change the prediction, over every labelling; one more than there are samples if none does."""
    member = np.zeros(g.shape, np.bool_)
    for i, own in enumerate(feeding):
        member[i, own] = True
    return _smallest_attack(g, labels, member, n_classes, balance)


@njit
def _smallest_attack(g, labels, member, n_classes, balance):
    n_samples = len(labels)
    best, prediction = n_samples + 1, _winner(g, labels, member, n_classes, balance)
    changed = np.empty_like(labels)
    for number in range(n_classes**n_samples):
        rest, flips = number, 0
        for s in range(n_samples):
            changed[s] = rest % n_classes
            rest //= n_classes
            flips += changed[s] != labels[s]
        if flips < best and _winner(g, changed, member, n_classes, balance) != prediction:
            best = flips
    return best


@njit
def _winner(g, labels, member, n_classes, balance):
    counts = np.zeros(n_classes + 1, np.int64)
    for i in range(len(g)):
        counts[vote(g[i], labels, member[i], n_classes, balance)] += 1
    return np.argmax(counts[:n_classes])


def member_cost(g, labels, scores, v, c):
    """The least number of flips whose largest benefits come to the lead; or all samples of v, or all that are not c."""
    if v == c:
        return 0
    benefits = []
    for value, label in zip(g, labels, strict=True):
        if label == v:
            benefits.append(2 * max(value, 0))
        elif label == c:
            benefits.append(2 * max(-value, 0))
        else:
            benefits.append(abs(value))
    benefits.sort(reverse=True)
    lead = (scores[v] - scores[c]) * (1 - 1e-9)
    enough = next((t for t in range(len(g) + 1) if sum(benefits[:t]) >= lead), len(g))
    return max(1, min(enough, sum(label == v for label in labels), sum(label != c for label in labels)))


def weighted_member_cost(g, labels, n_classes, v, c, balance):
    """The first t at which the highest f_c with t samples moved to or from c reaches the lowest f_v with t moved."""
    if v == c:
        return 0

    def extreme(x, most, sign):
        """The extreme f_x over all ways to move so many samples out of x and into it."""
        own = sorted(
            (value for value, label in zip(g, labels, strict=True) if label == x), key=lambda value: sign * value
        )
        others = sorted(
            (value for value, label in zip(g, labels, strict=True) if label != x), key=lambda value: -sign * value
        )
        found = []
        for gone in range(min(most, len(own)) + 1):
            for came in range(min(most - gone, len(others)) + 1):
                held = len(own) - gone + came
                if held:
                    found.append((sum(own[gone:]) + sum(others[:came])) * held**-balance)
        return max(found) if sign > 0 else min(found)

    slack = 1e-9 * sum(map(abs, g))
    for flips in range(sum(label == v for label in labels)):
        if (flips or c in labels) and extreme(c, flips, 1) + slack >= extreme(v, flips, -1):
            return max(1, flips)
    return max(1, sum(label == v for label in labels))


def radius(votes, costs, n_classes, d, most):
    """The cheapest steps of the convex hulls, in fractions."""
    counts = [list(votes).count(c) for c in range(n_classes)]
    p = counts.index(max(counts))
    radii = [most]
    for c in range(n_classes):
        if c == p:
            continue
        steps = []
        for v, cost in zip(votes, costs, strict=True):
            if v == c or cost is None:
                continue
            if v == p:
                leaving = min(cost[x] for x in range(n_classes) if x != p)
                first = min(Fraction(leaving), Fraction(cost[c], 2))
                steps += [first, cost[c] - first]
            else:
                steps.append(Fraction(cost[c]))
        lead = counts[p] - counts[c] - (c < p)
        if len(steps) > lead:
            needed = -(-sum(sorted(steps)[: lead + 1]) // 1)
            radii.append(max(0, (int(needed) - 1) // d))
    return min(radii)

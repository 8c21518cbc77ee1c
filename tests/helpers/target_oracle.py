"""Radii against one target, slowly: the formulas word for word, and attackers who try everything.

Nothing here shares code with the kernels.
"""

from __future__ import annotations

from itertools import combinations, permutations, product
from math import ceil, inf

import numpy as np
from numba import njit

from oracle import reached_by, winner
from runoff_oracle import NEW, NEWER, _tallies, above, elect, need


def theorem_2_against(votes, table, n_classes, c):
    """The largest r for which one class provably stays above c, or too few base classifiers are reached."""
    if winner(votes, n_classes) == c:
        return 0
    radii = []
    for x in range(n_classes):
        m = votes.count(x) - votes.count(c) - (c < x)
        if x == c or m < 0:
            continue
        weight = [1 + (v == x) - (v == c) for v in votes]
        delta = sorted((sum(weight[i] for i in row) for row in table), reverse=True)
        radii.append(max(r for r in range(len(delta) + 1) if sum(delta[:r]) <= m))
    fewest = next(
        size
        for size in range(len(votes) + 1)
        if sum(max(0, votes.count(x) - votes.count(c) + (x < c) - size) for x in range(n_classes) if x != c) <= size
    )
    return max(*radii, (fewest - 1) // len(table[0]))


def smallest_attack_trying_everything(votes, table, n_classes, c):
    """Fewest poisoned partitions after which c can win, over every rewriting of the votes they reach."""
    for size in range(len(table) + 1):
        for partitions in combinations(range(len(table)), size):
            reached = reached_by(partitions, table)
            for said in product(range(n_classes + 1), repeat=len(reached)):
                after = list(votes)
                for i, vote in zip(reached, said, strict=True):
                    after[i] = vote
                if winner(after, n_classes) == c:
                    return size
    return inf


@njit
def smallest_attack(votes, table, n_classes, c):
    """The same for an attacker who makes everything reached vote for c; partitions as bit masks, all of them tried."""
    n = len(votes)
    best = n + 1
    reached = np.zeros(n, np.bool_)
    counts = np.zeros(n_classes + 1, np.int64)
    for chosen in range(1 << n):
        size = 0
        reached[:] = False
        for j in range(n):
            if (chosen >> j) & 1:
                size += 1
                for i in table[j]:
                    reached[i] = True
        if size >= best:
            continue
        counts[:] = 0
        for i in range(n):
            counts[c if reached[i] else votes[i]] += 1
        wins = True
        for x in range(n_classes):
            if x != c and (counts[x] > counts[c] or (counts[x] == counts[c] and x < c)):
                wins = False
        if wins:
            best = size
    return best


def runoff_against(rankings, table, n_classes, c, unseen=False):
    """The need of each condition A … E and ⌈T/d⌉, for every class that c could meet in the final; less one."""
    votes = [ranking[0] if ranking else None for ranking in rankings]

    def gap(a, b):
        return votes.count(a) - votes.count(b) + (b > a)

    sizes = []
    for y in [*range(n_classes), *([NEW] if unseen else [])]:
        if y == c:
            continue
        turned = [1 + above(r, y, c) - above(r, c, y) for r in rankings]
        lead = sum(turned) - len(rankings) + (c > y)
        others = [x for x in range(n_classes) if x not in (c, y)]
        conditions = [need(lead, turned, table)]
        for x in others:
            to_c, to_y = gap(x, c), gap(x, y)
            conditions += [
                need(to_c, [1 + (v == x) - (v == c) for v in votes], table),
                need(to_y, [1 + (v == x) - (v == y) for v in votes], table),
                need(to_c + to_y, [1 + 2 * (v == x) - (v == c) - (v == y) for v in votes], table),
                need(
                    2 * to_y + lead,
                    [w + 2 * (v == x) - 2 * (v == y) for v, w in zip(votes, turned, strict=True)],
                    table,
                ),
            ]
        conditions.append(ceil(_fewest_members(votes, turned, c, others, gap, lead) / len(table[0])))
        sizes.append(max(conditions))
    return min([*sizes, len(table) + 1]) - 1


def _fewest_members(votes, turned, c, others, gap, lead):
    """Fewest base classifiers that, all voting c, put c above the others and before its opponent."""
    states = {(0,) * (len(others) + 1): 0}
    for vote, gain in zip(votes, turned, strict=True):
        if vote == c:
            continue
        gains = (*(1 + (vote == x) for x in others), gain)
        for state, used in list(states.items()):
            moved = tuple(a + b for a, b in zip(state, gains, strict=True))
            states[moved] = min(states.get(moved, inf), used + 1)
    wanted = (*(gap(x, c) for x in others), lead)
    return min(
        (used for state, used in states.items() if all(a >= b for a, b in zip(state, wanted, strict=True))), default=inf
    )


def smallest_runoff_attack_trying_everything(rankings, table, n_classes, c, unseen=False, *, up_to=None):
    """Fewest poisoned partitions after which c can win, over all rankings, of all labels, of what they reach."""
    classes = [*([NEWER, NEW] if unseen else []), *range(n_classes)]
    if elect(rankings, range(n_classes)) == c:
        return 0
    firsts, prefers = _tallies([(), *permutations(classes)], classes)
    for size in range(1, (len(table) if up_to is None else up_to) + 1):
        for partitions in combinations(range(len(table)), size):
            reached = {i for j in partitions for i in table[j]}
            left_firsts, left_prefers = _tallies([r for i, r in enumerate(rankings) if i not in reached], classes)
            tally = left_firsts.sum(axis=0), left_prefers.sum(axis=0)
            if _some_election_gives(classes.index(c), len(reached), 0, *tally, firsts, prefers):
                return size
            # Without an invented label the attacker has fewer classes, which is another election.
            real = slice(2 if unseen else 0, None)
            fewer_firsts, fewer_prefers = _tallies([(), *permutations(range(n_classes))], classes[real])
            fewer = tally[0][real], tally[1][real, real]
            if unseen and _some_election_gives(c, len(reached), 0, *fewer, fewer_firsts, fewer_prefers):
                return size
    return inf


@njit
def _some_election_gives(c, to_choose, start, votes, prefer, firsts, prefers):
    """Whether c wins for some ``to_choose`` more rankings out of those from ``start`` on."""
    if to_choose == 0:
        if len(votes) == 1:
            return True
        a = np.argmax(votes)
        b = 1 if a == 0 else 0
        for x in range(len(votes)):
            if x != a and votes[x] > votes[b]:
                b = x
        a, b = min(a, b), max(a, b)
        return (a if prefer[a, b] >= prefer[b, a] else b) == c
    for choice in range(start, len(firsts)):
        more = votes + firsts[choice], prefer + prefers[choice]
        if _some_election_gives(c, to_choose - 1, choice, more[0], more[1], firsts, prefers):
            return True
    return False


def smallest_runoff_attack(rankings, table, n_classes, c, unseen=False):
    """The same for an attacker who lets everything reached vote for c or for one opponent in the final."""
    classes = [*([NEW] if unseen else []), *range(n_classes)]
    if elect(rankings, range(n_classes)) == c:
        return 0
    votes = np.array([classes.index(r[0]) if r else -1 for r in rankings])
    _, prefers = _tallies(rankings, classes)
    target = classes.index(c)
    turned = prefers[:, :, target] - prefers[:, target, :]
    size = _smallest_runoff_attack(target, votes, turned, np.array(table), len(classes), unseen)
    return inf if size > len(table) else size


@njit
def _smallest_runoff_attack(c, votes, turned, table, n_classes, unseen):
    n = len(votes)
    best = n + 1
    reached = np.zeros(n, np.bool_)
    for chosen in range(1, 1 << n):
        size = 0
        reached[:] = False
        for j in range(n):
            if (chosen >> j) & 1:
                size += 1
                for i in table[j]:
                    reached[i] = True
        if size < best and _final_is_won(c, votes, turned, reached, n_classes, unseen):
            best = size
    return best


@njit
def _final_is_won(c, votes, turned, reached, n_classes, unseen):
    """With the new label, if there is one, standing first in the class list; without votes it need not exist."""
    counts, leads = np.zeros(n_classes, np.int64), np.zeros(n_classes, np.int64)
    for i in range(len(votes)):
        if not reached[i]:
            leads += turned[i]
            if votes[i] >= 0:
                counts[votes[i]] += 1
    total = reached.sum()
    for y in range(n_classes):
        if y == c:
            continue
        for for_y in range(total + 1):
            for_c = total - for_y
            stands_above = leads[y] - for_c + for_y + (c > y) > 0
            for x in range(1 if unseen else 0, n_classes):
                if x in (c, y):
                    continue
                ours, theirs = counts[c] + for_c, counts[y] + for_y
                stands_above |= counts[x] > ours or (counts[x] == ours and x < c)
                stands_above |= counts[x] > theirs or (counts[x] == theirs and x < y)
            if not stands_above:
                return True
    return False

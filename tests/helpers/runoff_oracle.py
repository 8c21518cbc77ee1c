"""Run-off elections, slowly: the election, the formulas word for word, and attackers who try every ranking.

Nothing here shares code with the kernels. A ranking is a tuple of classes, best first; what it does not name is not
ranked. Attackers may invent two labels, NEW and NEWER: negative, so they sort first and win ties.
"""

from __future__ import annotations

from itertools import combinations, permutations
from math import ceil, inf

import numpy as np
from numba import njit

NEW, NEWER = -1, -2


def above(ranking, a, b):
    """Whether a ranking prefers a to b."""
    return a in ranking and (b not in ranking or ranking.index(a) < ranking.index(b))


def finalists(rankings, classes):
    votes = [ranking[0] for ranking in rankings if ranking]
    return sorted(classes, key=lambda c: (-votes.count(c), c))[:2]


def elect(rankings, classes):
    """The winner of both rounds."""
    final = finalists(rankings, classes)
    if len(final) == 1:
        return final[0]
    a, b = sorted(final)
    return a if sum(above(r, a, b) - above(r, b, a) for r in rankings) >= 0 else b


def need(gap, weight, table):
    """Fewest partitions whose sums of the weight reach the gap; infinitely many if all do not."""
    sums = sorted((sum(weight[i] for i in row) for row in table), reverse=True)
    return next((t for t in range(len(sums) + 1) if sum(sums[:t]) >= gap), inf) if gap > 0 else 0


def standing(ranking, is_cut, p, c):
    """All that 1 + [p above c] − [c above p] can be, if a ranking that is cut may go on in any way.

    A new label stands nowhere in it.
    """
    if is_cut and p not in ranking and c not in ranking:
        return {1, 2} if c < 0 else {0, 1, 2}
    return {1 + above(ranking, p, c) - above(ranking, c, p)}


def formula(rankings, table, n_classes, unseen=False, *, members=True, clipped=False, cut=()):
    """R1 and R2, straight from the formulas; ``members`` adds ⌈T/d⌉ to R2, ``clipped`` is the form in print.

    ``cut``: base classifiers of whose rankings only the first places are known.
    """
    classes = [*range(n_classes), *([NEW] if unseen else [])]
    votes = [ranking[0] if ranking else None for ranking in rankings]
    p = elect(rankings, range(n_classes))
    s = next((c for c in finalists(rankings, range(n_classes)) if c != p), NEW)
    rivals = [c for c in classes if c != p]

    def gap(a, b):
        return votes.count(a) - votes.count(b) + (b > a)

    def weight(a, b):
        return [1 + (v == a) - (v == b) for v in votes]

    r1, pair = inf, None
    for a, b in combinations(rivals, 2):
        gaps = [gap(p, a), gap(p, b)]
        total = sum(max(g, 0) for g in gaps) if clipped else sum(gaps)
        joint = [1 + 2 * (v == p) - (v == a) - (v == b) for v in votes]
        size = max(need(gaps[0], weight(p, a), table), need(gaps[1], weight(p, b), table), need(total, joint, table))
        if size < r1:
            r1, pair = size, (a if gaps[0] >= gaps[1] else b)
    r2, loser_to = inf, s
    for c in [s, *(c for c in rivals if c != s)]:
        standings = [standing(r, i in cut, p, c) for i, r in enumerate(rankings)]
        least = [min(values) for values in standings]
        lead = sum(least) - len(least) + (c > p)
        # An unknown one that m of the partitions reach gives (m − 1)(most − least) too much at most, 1 ≤ m ≤ d.
        degree = len(table[0])
        turned = [min(v) + ceil((max(v) - min(v)) * (degree - 1) / degree) for v in standings]
        size = max(0 if c == s else need(gap(s, c), weight(s, c), table), need(lead, turned, table))
        if members:
            others = [x for x in range(n_classes) if x not in (p, c)]
            fewest = fewest_members(rankings, p, c, others, gap, lead, least)
            size = max(size, ceil(fewest / degree) if fewest < inf else inf)
        if size < r2:
            r2, loser_to = size, c
    runner_up = loser_to if r2 <= r1 else pair
    lead = sum(min(standing(r, i in cut, p, s)) - 1 for i, r in enumerate(rankings))
    return {
        "prediction": p,
        "runner_up": n_classes if runner_up < 0 else runner_up,
        "margin": max(0, lead - (s < p)),
        "radius": max(0, min(r1, r2, len(table) + 1) - 1),
        "r1": r1,
        "r2": r2,
    }


def fewest_members(rankings, p, c, others, gap, lead, least):
    """Fewest base classifiers that, all ranking c first, put c above the others and before p."""
    gaps = tuple(gap(x, c) for x in others)
    states = {(0,) * (len(others) + 1): 0}
    for r, given in zip(rankings, least, strict=True):
        vote = r[0] if r else None
        if vote == c:
            continue
        gains = (*(1 + (vote == x) for x in others), given)
        for state, used in list(states.items()):
            moved = tuple(a + b for a, b in zip(state, gains, strict=True))
            states[moved] = min(states.get(moved, inf), used + 1)
    return min(
        (used for state, used in states.items() if all(a >= b for a, b in zip(state, (*gaps, lead), strict=True))),
        default=inf,
    )


def smallest_attack_trying_everything(rankings, table, n_classes, unseen=False, *, up_to=None):
    """Fewest poisoned partitions after which another class can win, over all rankings of what they reach.

    Elections do not tell base classifiers apart, so multisets of rankings are all there is to try: all complete ones,
    new labels in any place, and abstentions. Infinite if ``up_to`` partitions are not enough.
    """
    p = elect(rankings, range(n_classes))
    classes = [*([NEWER, NEW] if unseen else []), *range(n_classes)]
    choices = [(), *permutations(classes)]
    firsts, prefers = _tallies(choices, classes)
    for size in range(1, (len(table) if up_to is None else up_to) + 1):
        for partitions in combinations(range(len(table)), size):
            reached = {i for j in partitions for i in table[j]}
            left = [r for i, r in enumerate(rankings) if i not in reached]
            left_firsts, left_prefers = _tallies(left, classes)
            tally = left_firsts.sum(axis=0), left_prefers.sum(axis=0)
            if _some_election_differs(classes.index(p), len(reached), 0, *tally, firsts, prefers):
                return size
    return inf


def _tallies(rankings, classes):
    """For each ranking: one vote for its first class, and one for each pair that it puts in order."""
    firsts = np.array([[r[:1] == (c,) for c in classes] for r in rankings], np.int64)
    prefers = np.array([[[above(r, a, b) for b in classes] for a in classes] for r in rankings], np.int64)
    return firsts.reshape(-1, len(classes)), prefers.reshape(-1, len(classes), len(classes))


@njit
def _some_election_differs(p, to_choose, start, votes, prefer, firsts, prefers):
    """Whether a class other than p wins for some ``to_choose`` more rankings out of those from ``start`` on."""
    if to_choose == 0:
        a = np.argmax(votes)
        b = 1 if a == 0 else 0
        for c in range(len(votes)):
            if c != a and votes[c] > votes[b]:
                b = c
        if len(votes) == 1:
            return a != p
        a, b = min(a, b), max(a, b)
        return (a if prefer[a, b] >= prefer[b, a] else b) != p
    for choice in range(start, len(firsts)):
        more = votes + firsts[choice], prefer + prefers[choice]
        if _some_election_differs(p, to_choose - 1, choice, more[0], more[1], firsts, prefers):
            return True
    return False


def smallest_attack(rankings, table, n_classes, unseen=False):
    """The same for an attacker who ranks one rival first everywhere, or lets two rivals share what is reached."""
    classes = [*([NEWER, NEW] if unseen else []), *range(n_classes)]
    p = classes.index(elect(rankings, range(n_classes)))
    votes = np.array([classes.index(r[0]) if r else -1 for r in rankings])
    _, prefers = _tallies(rankings, classes)
    turned = prefers[:, p, :] - prefers[:, :, p]
    masks = np.array([sum(1 << i for i in row) for row in table])
    size = _smallest_attack(p, votes, turned, masks, len(classes))
    return inf if size > len(table) else size


@njit
def _smallest_attack(p, votes, turned, masks, n_classes):
    n = len(votes)
    for size in range(1, n + 1):
        chosen = (1 << size) - 1
        while chosen < 1 << n:
            mask = 0
            for j in range(n):
                if (chosen >> j) & 1:
                    mask |= masks[j]
            if _attack_succeeds(p, votes, turned, mask, n_classes):
                return size
            lowest = chosen & -chosen  # the next larger number with as many bits
            ripple = chosen + lowest
            chosen = (((ripple ^ chosen) >> 2) // lowest) | ripple
    return n + 1


@njit
def _attack_succeeds(p, votes, turned, mask, n_classes):
    counts, leads, reached = np.zeros(n_classes, np.int64), np.zeros(n_classes, np.int64), 0
    for i in range(len(votes)):
        if (mask >> i) & 1:
            reached += 1
        else:
            leads += turned[i]
            if votes[i] >= 0:
                counts[votes[i]] += 1
    for a in range(n_classes):
        if a == p:
            continue
        for b in range(a):
            lack_a = max(0, counts[p] - counts[a] + (a > p))
            lack_b = max(0, counts[p] - counts[b] + (b > p))
            if b != p and lack_a + lack_b <= reached:
                return True
        ours, stands_above = counts[a] + reached, 0
        for x in range(n_classes):
            if x not in (a, p) and (counts[x] > ours or (counts[x] == ours and x < a)):
                stands_above += 1
        if stands_above == 0 and leads[a] - reached + (a > p) <= 0:
            return True
    return False


def random_case(rng, n, n_classes):
    """Rankings with a common taste or, one time in three, that go round in circles; some cut short, some empty."""
    taste = rng.normal(size=n_classes) * rng.choice([0, 1, 2, 4])
    turns = rng.dirichlet(np.ones(n_classes)) if rng.integers(3) == 0 else None
    rankings = []
    for _ in range(n):
        order = np.argsort(-(taste + rng.gumbel(size=n_classes)))
        if turns is not None:
            order = np.roll(np.arange(n_classes), rng.choice(n_classes, p=turns))
        length = n_classes if rng.random() < 0.7 else int(rng.integers(0, n_classes + 1))
        rankings.append(tuple(int(c) for c in order[:length]))
    return rankings


def as_array(rankings, n_classes):
    """Rankings of one test sample as `Votes` takes them."""
    return np.array([[*r, *[n_classes] * (n_classes - len(r))] for r in rankings])


def completions(rankings, cut, n_classes, rng, how_many):
    """Ways in which cut rankings may go on: with nothing, for one class against another, and at random."""
    yield rankings
    classes = range(n_classes)
    for first, last in permutations(classes, 2) if n_classes > 1 else ():
        order = [first, *(c for c in classes if c not in (first, last)), last]
        yield [(*r, *(c for c in order if c not in r)) if i in cut else r for i, r in enumerate(rankings)]
    for _ in range(how_many):
        continued = []
        for i, r in enumerate(rankings):
            rest = rng.permutation([c for c in classes if c not in r]).tolist() if i in cut else []
            continued.append((*r, *rest[: int(rng.integers(0, len(rest) + 1))]))
        yield continued


def kept_places(rankings, places):
    """The first places, and the base classifiers whose rankings may go on behind them."""
    kept = [r[:places] for r in rankings]
    return kept, {i for i, r in enumerate(kept) if len(r) == places}


def check_cut_case(rng, n, n_classes, unseen, places, spread):
    """Certify the first places of a random case and try every set of partitions against ways to go on.

    Gives the radius and the prediction from whole rankings and from cut ones, after asserting that the radius holds in
    every one of these ways, is never above what whole rankings prove, and is what the formulas say.
    """
    from poisonproof import Votes, certify

    whole = random_case(rng, n, n_classes)
    kept, cut = kept_places(whole, places)
    table = spread.as_table().tolist()

    def certified(rankings, places):
        ranked = np.array([as_array(rankings, n_classes)[:, :places]])
        votes = Votes(ranked[..., 0], spread, range(n_classes), classes_inferred=unseen, rankings=ranked)
        return certify(votes, "run-off", n_jobs=1)

    certificate = certified(kept, places)
    radius, p = int(certificate.radius[0]), int(certificate.prediction[0])
    reference = formula(kept, table, n_classes, unseen, cut=cut if places < n_classes else ())
    for name in ("prediction", "runner_up", "margin", "radius"):
        assert int(getattr(certificate, name)[0]) == reference[name], (name, kept, cut, table)
    for rankings in (whole, *completions(kept, cut, n_classes, rng, 3)):
        if elect(rankings, range(n_classes)) != p:
            assert radius == 0, (kept, rankings, table)
            continue
        smallest = smallest_attack(rankings, table, n_classes, unseen)
        assert radius < smallest, (kept, rankings, table)
        assert not certificate.exact[0] or radius + 1 == smallest, (kept, rankings, table)
        assert radius <= certified(rankings, n_classes).radius[0], (kept, rankings, table)
    full = certified(whole, n_classes)
    return (radius, p), (int(full.radius[0]), int(full.prediction[0]))

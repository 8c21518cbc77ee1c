"""The grouped bound: never below a cover that exists, its slow reference in fractions, and radii nobody can break."""

from fractions import Fraction
from functools import partial
from itertools import combinations
from math import comb

import numpy as np
import pytest

import poisonproof.core.certify
from oracle import largest_covers
from poisonproof import Spread, Votes, certify
from poisonproof.core.grouped import (
    Covering,
    Groups,
    Known,
    allocate,
    bound_blocks,
    find_blocks,
    line_of,
    raise_by_blocks,
)

BIPLANE = (11, (1, 3, 4, 5, 9))  # quadratic residues: (11, 5, 2)
UNEVEN = Spread.from_table(  # a plane of order 2, and three partitions that all reach the same three subsets
    [*(sorted((j + x) % 7 for x in (0, 1, 3)) for j in range(7)), *[[7, 8, 9]] * 3]
)
SMALL = [
    Spread.planes(2, 1),
    Spread.planes(2, 2),
    Spread.planes(3, 1),
    Spread.from_difference_set(*BIPLANE, 1),
    Spread.from_difference_set(7, (0, 1, 2, 4), 2),
    UNEVEN,
]
LARGER = [
    (Spread.planes(2, 3), 3),
    (Spread.planes(2, 6), 6),
    (Spread.planes(3, 2), 2),
    (Spread.planes(3, 5), 5),
    (Spread.from_difference_set(*BIPLANE, 4), 4),
    (Spread.from_difference_set(7, (0, 1, 2, 4), 5), 5),
]


def structured_votes(rng, spread, n_classes):
    """Votes around concurrent partitions: their common subset for a rival, the rest of them for the prediction."""
    n = spread.n_subsets
    kind = rng.integers(4)
    p, c = rng.permutation(n_classes)[:2]
    if kind == 0:
        return rng.choice(n_classes + 1, n, p=rng.dirichlet(np.full(n_classes + 1, 0.5)))
    votes = np.where(rng.random(n) < rng.uniform(0.3, 1.0), p, rng.integers(0, n_classes + 1, n))
    if kind == 1:
        return votes
    for point in rng.choice(n, rng.integers(1, 4), replace=False):
        pencil = spread.partitions_of(point)
        for j in pencil[: rng.integers(1, len(pencil) + 1)]:
            votes[spread.subsets_of(j)] = p
        votes[point] = c
    if kind == 3:
        votes[votes != p] = c
    return votes


def weights_and_leads(votes, n_classes, unseen):
    """Weights and lead of each rival, in plain words."""
    counts = [int((votes == c).sum()) for c in range(n_classes)]
    p = counts.index(max(counts))
    for c in range(n_classes):
        if c != p:
            yield 1 + (votes == p).astype(int) - (votes == c), counts[p] - counts[c] - (c < p)
    if unseen:
        yield 1 + (votes == p).astype(int), counts[p] - 1


def largest_covers_by_residue(weight, spread, n_blocks):
    """`largest_covers` of a spread that never leaves a residue modulo n_blocks: all sets in each, then all sums."""
    table = spread.as_table()
    together = np.zeros(1, np.int64)
    for g in range(n_blocks):
        rows = table[g::n_blocks]
        assert (rows % n_blocks == rows[0, 0] % n_blocks).all()
        covers = largest_covers(weight[rows[0, 0] % n_blocks :: n_blocks], rows // n_blocks)
        sums = together[:, None] + covers
        size = np.add.outer(np.arange(len(together)), np.arange(len(covers)))
        together = np.array([sums[size == m].max() for m in range(size.max() + 1)])
    return together


def test_two_ways_to_try_everything_agree():
    rng = np.random.default_rng(2)
    for spread, n_blocks in ((Spread.planes(2, 2), 2), (Spread(14, (1, 3, 7)), 2), (Spread(12, (2, 5, 8)), 3)):
        weight = rng.integers(0, 3, spread.n_subsets)
        both = largest_covers(weight, spread.as_table()), largest_covers_by_residue(weight, spread, n_blocks)
        assert both[0].tolist() == both[1].tolist()


def smallest_attack(votes, n_classes, unseen, covers):
    """Fewest partitions whose cover exceeds the lead of some rival; covers(weight) tries everything."""
    rivals = weights_and_leads(votes, n_classes, unseen)
    return max(1, min(int(np.argmax(covers(weight) > lead)) for weight, lead in rivals))


def check_radii(spread, matrix, n_classes, unseen, covers, everything_exact):
    """Certify and compare with an attacker who tries everything; how much was raised above Theorem 2."""
    votes = Votes(matrix, spread, range(n_classes), classes_inferred=unseen)
    plain, tight = certify(votes), certify(votes, "tight")
    smallest = np.array([smallest_attack(row, n_classes, unseen, covers) for row in matrix])
    assert (tight.radius < smallest).all()
    assert (tight.radius >= plain.radius).all()
    assert (tight.radius[tight.exact] + 1 == smallest[tight.exact]).all()
    if everything_exact:
        assert (tight.radius + 1 == smallest).all()
        assert tight.exact.all()
    return int((tight.radius - plain.radius).sum())


@pytest.mark.parametrize("spread", SMALL, ids=lambda spread: f"{spread.n_subsets} of {spread.d}")
def test_no_radius_is_broken_on_the_smallest_designs(spread):
    rng = np.random.default_rng(spread.n_subsets)
    table = spread.as_table()
    for unseen in (False, True):
        n_classes = int(rng.integers(2, 5))
        matrix = np.array([structured_votes(rng, spread, n_classes) for _ in range(40)])
        check_radii(spread, matrix, n_classes, unseen, lambda weight: largest_covers(weight, table), True)


@pytest.mark.parametrize("visits", [4_000_000, 300, 0])
@pytest.mark.parametrize(("spread", "n_blocks"), LARGER, ids=lambda value: str(getattr(value, "n_subsets", "")))
def test_no_radius_is_broken_and_with_enough_nodes_each_is_exact(spread, n_blocks, visits, monkeypatch):
    """Without nodes only Theorem 2, T3 and the greedy attacker are left, and T3 alone raises radii."""
    monkeypatch.setattr(poisonproof.core.certify, "DUAL_ITERATIONS", 40 if visits else 0)
    monkeypatch.setattr(poisonproof.core.certify, "PARTITION_VISITS", visits)
    rng = np.random.default_rng(spread.n_subsets + visits)
    raised = 0
    for unseen in (False, True):
        n_classes = int(rng.integers(2, 5))
        matrix = np.array([structured_votes(rng, spread, n_classes) for _ in range(30)])
        matrix[0] = 1
        covers = partial(largest_covers_by_residue, spread=spread, n_blocks=n_blocks)
        raised += check_radii(spread, matrix, n_classes, unseen, covers, visits == 4_000_000)
    assert raised > 0 or spread not in (Spread.planes(2, 6), Spread.planes(3, 5))


def test_a_rival_that_theorem_2_does_not_see_sets_the_radius():
    """Rivals with equally many votes, scattered or in whole partitions: none is skipped that has an attack."""
    spread, n_blocks = Spread.planes(3, 10), 10
    rng = np.random.default_rng(7)
    matrix = np.full((150, spread.n_subsets), 0)
    for row in matrix:
        row[:] = p = int(rng.integers(4))
        share = int(rng.uniform(0.02, 0.2) * len(row))
        for c in rng.permutation([c for c in range(4) if c != p]):
            partitions = [spread.subsets_of(j) for j in rng.permutation(len(row))]
            order = rng.permutation(len(row)) if rng.random() < 0.5 else np.concatenate(partitions)
            row[[i for i in dict.fromkeys(order.tolist()) if row[i] == p][:share]] = c
    votes = Votes(matrix, spread, range(4))
    others = certify(votes).runner_up != certify(votes, "tight").runner_up
    assert others.sum() >= 5
    covers = partial(largest_covers_by_residue, spread=spread, n_blocks=n_blocks)
    check_radii(spread, matrix, 4, False, covers, True)


def structured_weights(rng, spread):
    """Random weights, or heavy concurrent partitions whose common subset is cheap."""
    weight = rng.choice(3, spread.n_subsets, p=rng.dirichlet([0.7, 0.7, 1.5]))
    if rng.random() < 0.5:
        if rng.random() < 0.5:
            weight[:] = rng.integers(3)
        for point in rng.choice(spread.n_subsets, rng.integers(1, 6)):
            pencil = rng.permutation(spread.partitions_of(point))
            for j in pencil[: rng.integers(1, spread.d + 1)]:
                weight[spread.subsets_of(j)] = 2
            weight[point] = rng.integers(2)
    return weight


def search_every_lead(spread, n_blocks, nodes, by_subset):
    """(size called harmless, attack found or n, smallest attack) for every lead that some attack exceeds."""
    blocks, table = in_order(spread)
    n = spread.n_subsets
    origin = np.repeat(blocks.starts[:-1], np.diff(blocks.starts))[:, None]
    feeding = np.argsort(table.ravel(), kind="stable").reshape(table.shape) // spread.d
    weight = by_subset[blocks.classifiers]
    known = Known(*np.empty((2, n + n_blocks), np.int64))
    same_map = np.zeros(n_blocks, np.int64)
    groups = Groups(blocks.starts, blocks.overlap, blocks.exactly_one, same_map, table - origin, feeding - origin)
    bound_blocks(n, weight, groups, known)
    scratch = [*np.empty((2, n), np.int64), np.empty(2 * spread.d + 1, np.int64)]
    whole = Covering(weight, weight[table].sum(axis=1), table, feeding, *scratch)
    covers = largest_covers_by_residue(by_subset, spread, n_blocks)
    for lead in range(int(weight.sum())):
        yield *raise_by_blocks(0, n, lead, nodes, whole, groups, known), int(np.argmax(covers > lead))


@pytest.mark.parametrize("nodes", [100_000, 20, 0])
@pytest.mark.parametrize(("spread", "n_blocks"), LARGER, ids=lambda value: str(getattr(value, "n_subsets", "")))
def test_every_lead_with_weights_that_no_votes_need_have(spread, n_blocks, nodes):
    """The search by itself, for any weights and every lead: what it calls harmless is, and so with attacks."""
    rng = np.random.default_rng(nodes)
    undecided = 0
    for _ in range(8):
        for size, ceiling, smallest in search_every_lead(spread, n_blocks, nodes, structured_weights(rng, spread)):
            assert size < smallest
            assert ceiling in (spread.n_subsets, smallest)
            assert nodes < 100_000 or size + 1 == ceiling == smallest
            undecided += ceiling != smallest
    assert nodes or undecided


def in_order(spread):
    """The blocks of a spread, and its table with partitions and subsets numbered block by block."""
    blocks = find_blocks(spread)
    place = np.argsort(blocks.classifiers)
    return blocks, np.sort(place[spread.as_table()[blocks.partitions]], axis=1)


def bounds_of(weight, spread, picks):
    """What the kernel says, as one list of bounds for each block; weights in the order of the blocks."""
    blocks, table = in_order(spread)
    known = Known(*np.full((2, spread.n_subsets + len(blocks.overlap)), -1))
    inside = table - np.repeat(blocks.starts[:-1], np.diff(blocks.starts))[:, None]
    same_map = np.arange(len(blocks.overlap))
    bound_blocks(
        picks, weight, Groups(blocks.starts, blocks.overlap, blocks.exactly_one, same_map, inside, inside), known
    )
    return [line_of(known.bounds, blocks.starts, g).tolist() for g in range(len(blocks.overlap))]


def grouped_bound_in_fractions(weight, rows, overlap, exactly_one, t):
    """T3 and its refinement for t picks, word for word."""
    d, total = len(rows[0]), sum(weight)
    tau = min(d, t)
    shares, halves = [], []
    for row in rows:
        still, penalty = overlap * (t - 1), 0
        for w in sorted(weight[i] for i in row):
            a = min(still, tau - 1)
            still -= a
            penalty += w * a
        delta = sum(weight[i] for i in row)
        shares.append(Fraction(delta) - Fraction(penalty, tau))
        halves.append(max(Fraction(delta) - Fraction(penalty, 2), Fraction(0)))
    bound = min(total, sum(sorted(shares, reverse=True)[:t]) // 1)
    if exactly_one:
        bound = min(bound, sum(sorted(halves, reverse=True)[:t]) // 1 + 2 * comb(t - 1, 2))
    return int(bound)


def closed(line):
    """Covers grow with t, and by a factor t/(t − 1) at most."""
    line = [min(line[t:]) for t in range(len(line))]
    for t in range(2, len(line)):
        line[t] = min(line[t], line[t - 1] * t // (t - 1))
    return line


@pytest.mark.parametrize(
    "spread",
    [*SMALL, Spread.planes(4, 2), Spread.quartic(37, 1), Spread.planes(5, 1)],
    ids=lambda spread: f"{spread.n_subsets} of {spread.d}",
)
def test_the_kernel_is_the_bound_in_fractions(spread):
    rng = np.random.default_rng(spread.n_subsets)
    blocks, table = in_order(spread)
    for case in range(12):
        weight = rng.choice(3, spread.n_subsets, p=rng.dirichlet([0.7, 0.7, 1.5]) if case else [0, 0, 1])
        lines = bounds_of(weight, spread, spread.n_subsets)
        for g, line in enumerate(lines):
            start, stop = blocks.starts[g : g + 2]
            rows = (table[start:stop] - start).tolist()
            facts = int(blocks.overlap[g]), bool(blocks.exactly_one[g])
            inside = weight[start:stop].tolist()
            slow = [grouped_bound_in_fractions(inside, rows, *facts, t) for t in range(1, stop - start + 1)]
            assert line == closed([0, *slow])


@pytest.mark.parametrize("picks", [1, 3, 100])
@pytest.mark.parametrize("spread", [spread for spread in SMALL if spread.n_subsets <= 14], ids=repr)
def test_no_cover_exceeds_the_bounds_of_its_groups(spread, picks):
    """T3 by itself, without any search; all sets of partitions tried."""
    rng = np.random.default_rng(picks)
    blocks, table = in_order(spread)
    for _ in range(40):
        weight = rng.choice(3, spread.n_subsets, p=rng.dirichlet([0.7, 0.7, 1.5]))
        lines = bounds_of(weight, spread, picks)
        flat = np.concatenate(lines)
        for g, line in enumerate(lines):
            start, stop = blocks.starts[g : g + 2]
            true = largest_covers(weight[start:stop], table[start:stop] - start)
            assert (line >= true).all()
        together = largest_covers(weight, table)
        for m in range(1, spread.n_subsets + 1):
            for lead in (together[m] - 1, together[m], together[m] + 2):
                best = max(sum(line[t] for line, t in zip(lines, ts, strict=True)) for ts in shared_out(m, lines))
                assert best >= together[m]
                allocation = np.full(len(blocks.overlap), -1)
                possible = allocate(m, lead, spread.d, flat, blocks.starts, allocation)
                assert possible == (best > lead)
                if possible:
                    assert allocation.sum() == m
                    assert sum(line[t] for line, t in zip(lines, allocation, strict=True)) == best


def shared_out(m, lines):
    """All ways to share out m picks."""
    if len(lines) == 1:
        return [(m,)] if m < len(lines[0]) else []
    return [(t, *rest) for t in range(min(m, len(lines[0]) - 1) + 1) for rest in shared_out(m - t, lines[1:])]


def test_three_concurrent_lines_of_the_plane_of_order_3():
    """All overlaps may fall on one cheap base classifier: reading them as different ones would say 17, unsound."""
    spread = Spread(13, (0, 1, 3, 9))
    lines = spread.partitions_of(0)[:3]
    weight = np.zeros(13, np.int64)
    for j in lines:
        weight[spread.subsets_of(j)] = 2
    weight[0] = 0
    blocks, table = in_order(spread)
    assert blocks.classifiers.tolist() == list(range(13))
    assert largest_covers(weight, table)[3] == 18
    assert bounds_of(weight, spread, 13)[0][3] == 18

    def different_ones(j):
        delta = sum(int(weight[i]) for i in table[j])
        return delta - Fraction(sum(sorted(int(weight[i]) for i in table[j])[:2]), 2)

    unsound = sum(sorted(map(different_ones, range(13)), reverse=True)[:3]) // 1 + 2 * comb(2, 2)
    assert unsound == 17


def test_designs_pass_the_wall_at_half_of_k():
    """With unanimous votes Theorem 2 stops at k/2; forced overlap does not, and LAB's share 0.566 k is met."""
    spread = Spread.planes(4, 12)
    votes = Votes(np.zeros((1, spread.n_subsets), int), spread, range(43))
    plain, tight = certify(votes), certify(votes, "tight")
    assert plain.radius[0] == 25
    assert tight.radius[0] == 28
    assert tight.exact[0]
    pencils = [j for g in range(12) for j in spread.partitions_of(g)[: 3 if g < 5 else 2]]
    assert len(pencils) == 29
    assert 2 * len({i for j in pencils for i in spread.subsets_of(j).tolist()}) > 252


def pairwise_groups(spread):
    """Blocks by looking at every pair of partitions."""
    sets = [set(row) for row in spread.as_table().tolist()]
    shared = {pair: len(sets[pair[0]] & sets[pair[1]]) for pair in combinations(range(len(sets)), 2)}
    block = list(range(len(sets)))
    for (a, b), common in sorted(shared.items()):
        if common:
            block = [block[a] if label == block[b] else label for label in block]
    inside = {pair: common for pair, common in shared.items() if block[pair[0]] == block[pair[1]]}
    if not inside or min(inside.values()) == 0:
        return None
    parts = {label: frozenset(j for j in range(len(sets)) if block[j] == label) for label in block}
    return {
        part: (
            min(common for pair, common in inside.items() if set(pair) <= part),
            max(common for pair, common in inside.items() if set(pair) <= part) == 1,
        )
        for part in parts.values()
    }


def found(spread):
    blocks = find_blocks(spread)
    if blocks is None:
        return None
    sets = [frozenset(p.tolist()) for p in np.split(blocks.partitions, blocks.starts[1:-1])]
    reached = [set(c.tolist()) for c in np.split(blocks.classifiers, blocks.starts[1:-1])]
    for part, subsets in zip(sets, reached, strict=True):
        assert {i for j in part for i in spread.subsets_of(j).tolist()} == subsets
    return dict(zip(sets, zip(blocks.overlap.tolist(), blocks.exactly_one.tolist(), strict=True), strict=True))


def relabelled(spread, rng):
    """The same spread with partitions and subsets renamed: only a table describes it."""
    n = spread.n_subsets
    return Spread.from_table(rng.permutation(n)[spread.as_table()][rng.permutation(n)])


def test_groups_are_found_in_the_map_itself():
    rng = np.random.default_rng(0)
    for spread in [*SMALL, Spread.planes(3, 3), Spread.quartic(37, 2)]:
        assert found(spread) == pairwise_groups(spread) is not None
        again = relabelled(spread, rng)
        assert again.shifts is None
        assert found(again) == pairwise_groups(again) is not None
    plane = find_blocks(Spread.planes(7, 3))
    assert (len(plane.overlap), set(plane.overlap), plane.exactly_one.all()) == (3, {1}, True)
    biplane = find_blocks(Spread.quartic(37, 12))
    assert (len(biplane.overlap), set(biplane.overlap), biplane.exactly_one.any()) == (12, {2}, False)


def test_random_spreads_are_not_grouped():
    rng = np.random.default_rng(1)
    for k, d in ((50, 16), (10, 4), (250, 5), (30, 1), (1200, 32)):
        assert find_blocks(Spread.random(k, d)) is None
        assert find_blocks(Spread.paper(k, d)) is None
    assert find_blocks(relabelled(Spread.random(20, 4), rng)) is None
    near = Spread.planes(3, 2).as_table().copy()
    near[0], near[1] = np.sort([near[1, 0], *near[0, 1:]]), np.sort([near[0, 0], *near[1, 1:]])
    assert find_blocks(Spread.from_table(near)) is None
    for _ in range(300):
        n = int(rng.integers(2, 16))
        spread = Spread(n, tuple(rng.choice(n, rng.integers(1, n + 1), replace=False).tolist()))
        expected = None if spread.d == 1 else pairwise_groups(spread)
        assert found(spread) == expected
        if spread.d > 1 and spread.d < n:
            again = relabelled(spread, rng)
            assert found(again) == pairwise_groups(again)

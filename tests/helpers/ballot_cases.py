"""Random small training data of every family, and what brute force says of the radii of each.

``benchmarks/ballots.py --brute-force`` runs tens of thousands of them, the tests a few hundred.
"""

from __future__ import annotations

import random

import numpy as np

from ballot_oracle import THREATS, World, smallest_coalition, smallest_coalition_of_neighbours, voice_of
from poisonproof import certify
from poisonproof.ballots.neighbor_radii import certify_order
from poisonproof.ballots.radii import certify_counts, certify_voices
from poisonproof.ballots.tallies import Ballots, Neighbours, Voices

MOST = 4
GROWING = ("insert_remove", "insert")  # of the others there is an end: no more than all samples can go or change


class Verdict:
    """What one case showed: how radii compare with the smallest attacks."""

    def __init__(self):
        self.broken, self.loose, self.checked = [], [], 0

    def compare(self, radius, attack, most, exact, what):
        """A radius against the size of the smallest attack, which is ``most`` + 1 if none was found."""
        self.checked += 1
        if radius >= attack and attack <= most:
            self.broken.append(what)
        if radius + 1 < attack and radius + 1 <= most:
            self.loose.append((exact, what))

    @property
    def loose_though_exact(self):
        return [what for exact, what in self.loose if exact]


def against_target(votes, target, verdict, smallest, what, most=MOST):
    """The radius of one prediction against becoming the target; ``smallest(most)`` is the smallest such attack."""
    found = certify(votes, target=target, n_jobs=1)
    change = certify(votes, n_jobs=1)
    assert found.prediction[0] == change.prediction[0], what
    if found.already[0]:
        assert found.radius[0] == 0, what
        return
    assert found.radius[0] >= change.radius[0], what
    radius = int(found.radius[0])
    most = min(most, radius + 1)
    verdict.compare(radius, smallest(most), most, bool(found.exact[0]), ("target", target, *what, radius))


def ballots(seed, verdict, *, target=False):
    """Two-sided or one-sided ballots, with and without declared sizes, declared and inferred classes."""
    draw = random.Random(f"ballots {seed}")
    one_sided, inferred = draw.random() < 0.4, draw.random() < 0.4
    n_classes, n = draw.randint(1 if inferred else 2, 3), draw.randint(1 if inferred else 0, 8)
    weights = [draw.random() ** 2 + 0.05 for _ in range(n_classes)]
    near_share = draw.random()
    drawn = [
        (int(draw.random() > near_share), draw.choices(range(n_classes), weights)[0]) for _ in range(n)
    ]  # place 0 is near, 1 is far
    if inferred:  # label 0 is the invented one; the classes are those that are there
        present = sorted({label for _, label in drawn})
        drawn = [(place, 1 + present.index(label)) for place, label in drawn]
        n_classes = len(present)
    sizes = (
        [0] * n_classes
        if inferred or one_sided or draw.random() < 0.5
        else [draw.randint(0, 6) for _ in range(n_classes)]
    )
    n_labels = n_classes + inferred
    kinds = [(place, label) for place in (0, 1) for label in range(n_labels)]
    world = World(
        drawn,
        [place for place, _ in kinds],
        [label for _, label in kinds],
        n_labels,
        sizes=[0] * inferred + sizes,
        reach=0,
        one_sided=one_sided,
        inferred=inferred,
        k=0,
    )
    near = np.array([[sum(s == (0, c + inferred) for s in drawn) for c in range(n_classes)]])
    totals = np.array([sum(label == c + inferred for _, label in drawn) for c in range(n_classes)])
    radii = certify_counts(near, totals, np.array(sizes), one_sided=one_sided, inferred=inferred)
    what = (drawn, sizes, one_sided, inferred)
    if target:
        facts = (near, totals, np.array(sizes), np.arange(n_classes), np.array([True]))
        votes = Ballots(*facts, one_sided=one_sided, classes_inferred=inferred)
        c = draw.randrange(n_classes)
        against_target(votes, c, verdict, lambda most: world.smallest_attack("insert_remove", most, c + inferred), what)
        return
    assert radii.prediction[0] + inferred == world.prediction(), what
    for threat in THREATS:
        radius = int(getattr(radii, threat)[0])
        most = min(3 if threat == "modify" else MOST, radius + 1, n if threat not in GROWING else MOST)
        exact = threat in ("insert_remove", "insert", "remove") or not inferred
        verdict.compare(radius, world.smallest_attack(threat, most), most, exact, (threat, *what, radius))


def neighbours(seed, verdict, *, target=False):
    """K nearest neighbours, K below and above the number of samples, ties and duplicates, inferred classes."""
    draw = random.Random(f"neighbours {seed}")
    inferred = draw.random() < 0.4
    n_classes, n = draw.randint(1 if inferred else 2, 3), draw.randint(1 if inferred else 0, 8)
    k = draw.randint(1, 9)
    first = int(draw.random() < 0.8)  # samples at place 0 are as near as a copy of x
    far = draw.randint(first, 6)
    weights = [draw.random() ** 2 + 0.05 for _ in range(n_classes)]
    drawn = [(draw.randint(first, far), draw.choices(range(n_classes), weights)[0]) for _ in range(n)]
    if inferred:
        present = sorted({label for _, label in drawn})
        drawn = [(place, 1 + present.index(label)) for place, label in drawn]
        n_classes = len(present)
    n_labels = n_classes + inferred
    kinds = [(place, label) for place in range(far + 2) for label in range(n_labels)]
    world = World(
        drawn,
        [place for place, _ in kinds],
        [label for _, label in kinds],
        n_labels,
        sizes=[0] * n_labels,
        reach=0,
        one_sided=False,
        inferred=inferred,
        k=k,
    )
    order = np.array([[label - inferred for _, label in sorted(drawn)]], np.int64).reshape(1, n)
    radii = certify_order(order, k, n, n_classes, inferred=inferred)
    what = (sorted(drawn), k, inferred)
    if target:
        votes = Neighbours(order, np.array([first == 1]), k, n, np.arange(n_classes), classes_inferred=inferred)
        c = draw.randrange(n_classes)
        against_target(votes, c, verdict, lambda most: world.smallest_attack("insert_remove", most, c + inferred), what)
        return
    assert radii.prediction[0] + inferred == world.prediction(), what
    duplicates = len({place for place, _ in drawn}) < n
    for threat in THREATS:
        radius = int(getattr(radii, threat)[0])
        most = min({"modify": 3}.get(threat, MOST), radius + 1)
        most = min(most, n if threat not in GROWING else MOST)
        exact = first == 1 if threat in GROWING else threat != "modify" and not duplicates and not inferred
        verdict.compare(radius, world.smallest_attack(threat, most), most, exact, (threat, *what, radius))


def contributors(seed, verdict, *, target=False):
    """Ballots of contributors, cut to their voices."""
    draw = random.Random(f"contributors {seed}")
    one_sided, inferred = draw.random() < 0.3, draw.random() < 0.3
    voices = draw.choice((1, 1, 2, 2, 3))
    n_classes = draw.randint(1 if inferred else 2, 3 if voices < 3 else 2)
    n, n_contributors = draw.randint(1 if inferred else 0, 8), draw.randint(1, 4)
    weights = [draw.random() ** 2 + 0.05 for _ in range(n_classes)]
    near_share = draw.random()
    drawn = [
        (draw.randrange(n_contributors), draw.random() < near_share, draw.choices(range(n_classes), weights)[0])
        for _ in range(n)
    ]
    if inferred:
        present = sorted({label for *_, label in drawn})
        drawn = [(g, near, 1 + present.index(label)) for g, near, label in drawn]
        n_classes = len(present)
    n_labels = n_classes + inferred
    sizes = [0] * n_labels if inferred or draw.random() < 0.5 else [draw.randint(0, 3) for _ in range(n_labels)]
    there = sorted({g for g, *_ in drawn})
    said = [voice_of([s[1:] for s in drawn if s[0] == g], n_labels, voices, one_sided) for g in there]
    cells = sorted({(g, label) for g, _, label in drawn})
    near = np.array([[sum(s == (g, True, label) for s in drawn) for g, label in cells]], np.int64)
    totals = np.array([sum((g, label) == (s[0], s[2]) for s in drawn) for g, label in cells], np.int64)
    classes = np.array([label - inferred for _, label in cells], np.int64)
    starts = np.cumsum([0, *(sum(g == cell[0] for cell in cells) for g in there)])
    rule = Voices(voices, classes, starts)
    counts = (near.reshape(1, len(cells)), totals, np.array(sizes[inferred:], np.int64))
    scores, radii = certify_voices(*counts, rule, one_sided=one_sided, inferred=inferred)
    what = (drawn, voices, sizes, one_sided, inferred)
    if target:
        votes = Ballots(
            *counts, np.arange(n_classes), np.array([True]), one_sided=one_sided, classes_inferred=inferred, voices=rule
        )
        c = draw.randrange(n_classes)
        world = {"one_sided": one_sided, "inferred": inferred, "wanted": c + inferred}
        against_target(
            votes,
            c,
            verdict,
            lambda most: smallest_coalition(said, n_labels, sizes, voices, most=most, **world),
            what,
            3,
        )
        return
    assert scores[0].tolist() == [
        sizes[label] + sum(ballots[label] for ballots, _ in said) for label in range(inferred, n_labels)
    ], what
    for threat, radius in (("insert_remove", radii.insert_remove), ("insert", radii.insert), ("remove", radii.remove)):
        most = min(3, int(radius[0]) + 1)
        most = min(most, len(said) if threat not in GROWING else MOST)
        attack = smallest_coalition(
            said, n_labels, sizes, voices, one_sided=one_sided, inferred=inferred, most=most, threat=threat
        )
        exact = threat != "remove" or not inferred
        verdict.compare(int(radius[0]), attack, most, exact, (threat, *what, int(radius[0])))


def contributing_neighbours(seed, verdict, *, target=False):
    """Nearest neighbours where each contributor is heard by its nearest sample only."""
    draw = random.Random(f"contributing neighbours {seed}")
    inferred = draw.random() < 0.4
    n_classes, n = draw.randint(1 if inferred else 2, 3), draw.randint(1 if inferred else 0, 8)
    k, n_contributors = draw.randint(1, 6), draw.randint(1, 6)
    first = int(draw.random() < 0.8)
    far = draw.randint(first, 3)
    drawn = [(draw.randrange(n_contributors), draw.randint(first, far), draw.randrange(n_classes)) for _ in range(n)]
    if inferred:
        present = sorted({label for *_, label in drawn})
        drawn = [(g, place, 1 + present.index(label)) for g, place, label in drawn]
        n_classes = len(present)
    n_labels = n_classes + inferred
    groups = [[s[1:] for s in drawn if s[0] == g] for g in sorted({g for g, *_ in drawn})]
    order = np.array([[label - inferred for _, label in sorted(map(min, groups))]], np.int64).reshape(1, len(groups))
    radii = certify_order(order, k, len(groups), n_classes, inferred=inferred, contributors=True)
    radius = int(radii.insert_remove[0])
    kinds = [(place, label) for place in range(far + 2) for label in range(n_labels)]
    if target:
        facts = (k, len(groups), np.arange(n_classes), True)
        votes = Neighbours(order, np.array([first == 1]), *facts, classes_inferred=inferred)
        c = draw.randrange(n_classes)
        world = {"inferred": inferred, "wanted": c + inferred}
        against_target(
            votes,
            c,
            verdict,
            lambda most: smallest_coalition_of_neighbours(groups, kinds, n_labels, k, most=most, **world),
            (drawn, k, inferred),
            3,
        )
        return
    most = min(3, radius + 1)
    attack = smallest_coalition_of_neighbours(groups, kinds, n_labels, k, inferred=inferred, most=most)
    verdict.compare(radius, attack, most, first == 1, (drawn, k, inferred, radius))


FAMILIES = {
    "ballots": ballots,
    "neighbours": neighbours,
    "contributors": contributors,
    "contributing neighbours": contributing_neighbours,
}

"""Slow references of ballots and neighbours, and attackers who try every set of samples they could leave behind.

A world is a list of kinds of samples (place, label): place 0 is x itself. Training data are how many samples there are
of each kind. With inferred classes label 0 is one that nobody has shown, and it sorts first. Nothing here shares code
with the package.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np
from numba import njit

THREATS = ("insert_remove", "insert", "remove", "label_flip", "modify")


@njit(cache=True)
def prediction_by_ballots(counts, places, labels, sizes, n_labels, reach, one_sided, inferred):
    """The label with the most ballots; with inferred classes only labels that are there."""
    scores = sizes.copy()
    there = np.zeros(n_labels, np.int64)
    for kind in range(len(counts)):
        near = places[kind] <= reach
        there[labels[kind]] += counts[kind]
        scores[labels[kind]] += counts[kind] * (1 if near else (0 if one_sided else -1))
    best = -1
    for label in range(n_labels):
        if (not inferred or there[label]) and (best < 0 or scores[label] > scores[best]):
            best = label
    return best


@njit(cache=True)
def prediction_by_neighbours(counts, places, labels, k, n_labels, inferred):
    """The most frequent label of the k nearest; kinds stand in order of (place, label)."""
    votes = np.zeros(n_labels, np.int64)
    there = np.zeros(n_labels, np.int64)
    left = k
    for kind in range(len(counts)):
        there[labels[kind]] += counts[kind]
        taken = min(left, counts[kind])
        votes[labels[kind]] += taken
        left -= taken
    best = -1
    for label in range(n_labels):
        if (not inferred or there[label]) and (best < 0 or votes[label] > votes[best]):
            best = label
    return best


@njit(cache=True)
def _predicted(counts, places, labels, sizes, n_labels, reach, one_sided, inferred, k):
    if k > 0:
        return prediction_by_neighbours(counts, places, labels, k, n_labels, inferred)
    return prediction_by_ballots(counts, places, labels, sizes, n_labels, reach, one_sided, inferred)


ANYTHING = -1  # an attacker who is content with any change


@njit(cache=True)
def _succeeded(now, before, wanted):
    """Whether the attacker has the label that it wants, or any other than before."""
    return now != before if wanted == ANYTHING else now == wanted


@njit(cache=True)
def _attacked(
    counts, first, left, acts, before, wanted, places, labels, sizes, n_labels, reach, one_sided, inferred, k
):
    """Whether some set of at most ``left`` acts, from the given one on, changes the prediction as wanted."""
    if counts.sum() > 0 or not inferred:
        now = _predicted(counts, places, labels, sizes, n_labels, reach, one_sided, inferred, k)
        if _succeeded(now, before, wanted):
            return True
    if left == 0:
        return False
    for act in range(first, len(acts)):
        gone, came = acts[act]
        if gone >= 0 and counts[gone] == 0:
            continue
        if gone >= 0:
            counts[gone] -= 1
        if came >= 0:
            counts[came] += 1
        hit = _attacked(
            counts, act, left - 1, acts, before, wanted, places, labels, sizes, n_labels, reach, one_sided, inferred, k
        )
        if gone >= 0:
            counts[gone] += 1
        if came >= 0:
            counts[came] -= 1
        if hit:
            return True
    return False


def acts_of(threat, places):
    """Everything one unit of a threat can do: (kind that goes or -1, kind that comes or -1)."""
    kinds = range(len(places))
    come, go = [(-1, kind) for kind in kinds], [(kind, -1) for kind in kinds]
    if threat == "insert_remove":
        return np.array(come + go)
    if threat == "insert":
        return np.array(come)
    if threat == "remove":
        return np.array(go)
    changes = [(old, new) for old in kinds for new in kinds if old != new]
    if threat == "label_flip":
        changes = [(old, new) for old, new in changes if places[old] == places[new]]
    return np.array(changes)


class World:
    """Training data by kinds, and the attacks on one prediction of theirs."""

    def __init__(self, samples, places, labels, n_labels, *, sizes, reach, one_sided, inferred, k):
        order = sorted(range(len(places)), key=lambda kind: (places[kind], labels[kind]))
        self.places = np.array([places[kind] for kind in order])
        self.labels = np.array([labels[kind] for kind in order])
        index = {(place, label): at for at, (place, label) in enumerate(zip(self.places, self.labels, strict=True))}
        self.counts = np.zeros(len(order), np.int64)
        for sample in samples:
            self.counts[index[sample]] += 1
        self.rule = (np.array(sizes, np.int64), n_labels, reach, one_sided, inferred, k)

    def prediction(self):
        return _predicted(self.counts, self.places, self.labels, *self.rule)

    def smallest_attack(self, threat, most, wanted=ANYTHING):
        """The least size, at most ``most``, of an attack that succeeds; ``most`` + 1 if there is none."""
        acts, before = acts_of(threat, self.places), self.prediction()
        for size in range(1, most + 1):
            if _attacked(self.counts.copy(), 0, size, acts, before, wanted, self.places, self.labels, *self.rule):
                return size
        return most + 1


def cut_slowly(ballots, voices):
    """Largest remainder, word for word."""
    length = sum(map(abs, ballots))
    if length <= voices:
        return tuple(ballots)
    shares = [divmod(abs(ballot) * voices, length) for ballot in ballots]
    floors = [share for share, _ in shares]
    served = sorted(range(len(ballots)), key=lambda i: (-shares[i][1], i))[: voices - sum(floors)]
    sizes = [floor + (i in served) for i, floor in enumerate(floors)]
    return tuple(size if ballot >= 0 else -size for size, ballot in zip(sizes, ballots, strict=True))


@lru_cache
def voices_of_any_contributor(n_labels, voices, one_sided, largest):
    """Everything that up to so many samples can say: cut ballots, and which labels were shown."""
    kinds = [(near, label) for near in (True, False) for label in range(n_labels)]
    said = set()
    for size in range(largest + 1):
        for samples in combinations_with_replacement(kinds, size):
            said.add(voice_of(samples, n_labels, voices, one_sided))
    return sorted(said)


def voice_of(samples, n_labels, voices, one_sided):
    ballots = [0] * n_labels
    for near, label in samples:
        ballots[label] += 1 if near else (0 if one_sided else -1)
    shown = tuple(sorted({label for _, label in samples}))
    return cut_slowly(ballots, voices), shown


def shown_mask(shown):
    return sum(1 << label for label in shown)


@njit(cache=True)
def _winner_of_voices(scores, shown, inferred):
    best = -1
    for label in range(len(scores)):
        if (not inferred or shown[label] > 0) and (best < 0 or scores[label] > scores[best]):
            best = label
    return best


@njit(cache=True)
def _say(scores, shown, ballots, mask, sign):
    for label in range(len(scores)):
        scores[label] += sign * ballots[label]
        shown[label] += sign * ((mask >> label) & 1)


@njit(cache=True)
def _turned(scores, shown, first, left, said, masks, any_said, any_masks, old, new, inferred, before, wanted):
    """Whether contributors from ``first`` on, and then newcomers, can change the winner by what they send."""
    if (not inferred or shown.sum() > 0) and _succeeded(_winner_of_voices(scores, shown, inferred), before, wanted):
        return True
    if left == 0:
        return False
    if old > 0:
        for g in range(first, len(said)):
            _say(scores, shown, said[g], masks[g], -1)
            for v in range(len(any_said) if old > 1 else 1):  # old 1: it can only leave, saying nothing
                _say(scores, shown, any_said[v], any_masks[v], 1)
                hit = _turned(
                    scores, shown, g + 1, left - 1, said, masks, any_said, any_masks, old, new, inferred, before, wanted
                )
                _say(scores, shown, any_said[v], any_masks[v], -1)
                if hit:
                    _say(scores, shown, said[g], masks[g], 1)
                    return True
            _say(scores, shown, said[g], masks[g], 1)
    if new:
        for v in range(len(any_said)):
            _say(scores, shown, any_said[v], any_masks[v], 1)
            hit = _turned(
                scores, shown, len(said), left - 1, said, masks, any_said, any_masks, old, new, inferred, before, wanted
            )
            _say(scores, shown, any_said[v], any_masks[v], -1)
            if hit:
                return True
    return False


def smallest_coalition(
    said, n_labels, sizes, voices, *, one_sided, inferred, most, threat="insert_remove", wanted=ANYTHING
):
    """The fewest contributors, old or new, that can change the winner by sending whatever they like."""
    anything = voices_of_any_contributor(n_labels, voices, one_sided, voices + 1)
    assert anything[[shown for _, shown in anything].index(())][0] == (0,) * n_labels
    anything = sorted(anything, key=lambda voice: voice[1])  # the silent one first
    any_said = np.array([ballots for ballots, _ in anything])
    any_masks = np.array([shown_mask(shown) for _, shown in anything])
    now = np.array([ballots for ballots, _ in said], np.int64).reshape(len(said), n_labels)
    masks = np.array([shown_mask(shown) for _, shown in said], np.int64)
    scores = now.sum(axis=0) + np.array(sizes)
    shown = np.array([sum((mask >> label) & 1 for mask in masks) for label in range(n_labels)], np.int64)
    before = _winner_of_voices(scores, shown, inferred)
    old, new = {"insert_remove": (2, True), "insert": (0, True), "remove": (1, False)}[threat]
    for size in range(1, most + 1):
        if _turned(
            scores.copy(), shown.copy(), 0, size, now, masks, any_said, any_masks, old, new, inferred, before, wanted
        ):
            return size
    return most + 1


@njit(cache=True)
def _nearest_wins(counts, shown, labels, k, n_labels, inferred):
    votes, left = np.zeros(n_labels, np.int64), k
    for kind in range(len(counts)):
        taken = min(left, counts[kind])
        votes[labels[kind]] += taken
        left -= taken
    return _winner_of_voices(votes, shown, inferred)


@njit(cache=True)
def _send(counts, shown, kind, mask, sign):
    if kind >= 0:
        counts[kind] += sign
    for label in range(len(shown)):
        shown[label] += sign * ((mask >> label) & 1)


@njit(cache=True)
def _turned_nearest(counts, shown, first, left, sent, any_sent, labels, k, inferred, before, wanted):
    """As `_turned`, for contributors that are heard by their nearest sample: sent[g] is (its kind, labels shown)."""
    n_labels = len(shown)
    if (not inferred or shown.sum() > 0) and _succeeded(
        _nearest_wins(counts, shown, labels, k, n_labels, inferred), before, wanted
    ):
        return True
    if left == 0:
        return False
    for g in range(first, len(sent) + 1):
        newcomer = g == len(sent)
        if not newcomer:
            _send(counts, shown, sent[g, 0], sent[g, 1], -1)
        for v in range(len(any_sent)):
            _send(counts, shown, any_sent[v, 0], any_sent[v, 1], 1)
            then = g if newcomer else g + 1
            hit = _turned_nearest(counts, shown, then, left - 1, sent, any_sent, labels, k, inferred, before, wanted)
            _send(counts, shown, any_sent[v, 0], any_sent[v, 1], -1)
            if hit:
                if not newcomer:
                    _send(counts, shown, sent[g, 0], sent[g, 1], 1)
                return True
        if not newcomer:
            _send(counts, shown, sent[g, 0], sent[g, 1], 1)
    return False


def heard(samples, index):
    """The kind of a contributor's nearest sample (-1 without any) and the labels that it showed."""
    return (index[min(samples)] if samples else -1), shown_mask({label for _, label in samples})


def smallest_coalition_of_neighbours(groups, kinds, n_labels, k, *, inferred, most, wanted=ANYTHING):
    """The fewest contributors that can change the winner; ``groups``: the samples (place, label) of each."""
    kinds = sorted(kinds)
    index = {kind: at for at, kind in enumerate(kinds)}
    labels = np.array([label for _, label in kinds])
    any_sent = np.array(
        sorted({heard(samples, index) for size in range(3) for samples in combinations_with_replacement(kinds, size)})
    )
    sent = np.array([heard(samples, index) for samples in groups], np.int64).reshape(len(groups), 2)
    counts, shown = np.zeros(len(kinds), np.int64), np.zeros(n_labels, np.int64)
    for kind, mask in sent:
        _send(counts, shown, kind, mask, 1)
    before = _nearest_wins(counts, shown, labels, k, n_labels, inferred)
    for size in range(1, most + 1):
        if _turned_nearest(counts, shown, 0, size, sent, any_sent, labels, k, inferred, before, wanted):
            return size
    return most + 1

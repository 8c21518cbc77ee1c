"""Radii of ballots: every training sample votes about x through a fixed map; from whole counts to exact radii.

A sample of class c adds +1 to F_c if it is near x and −1 if it is far (two-sided), or +1 and 0 (one-sided). One
insertion or removal moves one F by 1, so it changes a lead by 1 at most. Proofs: docs/ballots.md.

Everything here is arrays in, arrays out, in int64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
NEVER = np.iinfo(np.int64).max  # no attack of any size


class Radii(NamedTuple):
    """For every test sample: prediction, the class that sets the radius, margin, and a radius for each threat.

    ``exact``: whether an attack of size ``insert_remove`` + 1 is known to succeed.
    """

    prediction: Counts
    runner_up: Counts
    margin: Counts
    insert_remove: Counts
    insert: Counts
    remove: Counts
    label_flip: Counts
    modify: Counts
    exact: NDArray[np.bool_]

    @property
    def others(self) -> dict[str, Counts]:
        """The radii beside the one that a certificate is known by, by threat."""
        return {name: getattr(self, name) for name in ("insert", "remove", "label_flip", "modify")}


@dataclass(frozen=True)
class Leads:
    """Who leads by how much: the prediction p, and for every rival its lead less one where a tie goes against p.

    With inferred classes the last column is a class that nobody has seen: without votes, and it wins ties. The column
    of the prediction itself holds `NEVER`.
    """

    prediction: Counts
    leads: Counts

    @classmethod
    def of(cls, scores: Counts, inferred: bool) -> Leads:
        """From the score of every class (n_test, n_classes); ties go to the smaller class."""
        prediction = scores.argmax(axis=1)
        rows, classes = np.arange(len(scores)), np.arange(scores.shape[1])
        top = scores[rows, prediction][:, None]
        leads = top - scores - (classes < prediction[:, None])
        leads[rows, prediction] = NEVER
        if inferred:
            leads = np.column_stack([leads, np.maximum(top - 1, 0)])
        return cls(prediction, leads)

    @property
    def runner_up(self) -> Counts:
        """The rival with the smallest lead, the first of several."""
        return self.leads.argmin(axis=1)

    @property
    def margin(self) -> Counts:
        """The smallest lead; never negative."""
        return self.leads.min(axis=1)


def certify_counts(
    near: Counts,
    totals: Counts,
    sizes: Counts,
    *,
    one_sided: bool,
    inferred: bool,
) -> Radii:
    """Exact radii from counts.

    Parameters
    ----------
    near : array (n_test, n_classes)
        How many training samples of each class are near each test sample.
    totals : array (n_classes,)
        How many training samples each class has.
    sizes : array (n_classes,)
        Constants from outside, added to the scores: declared class sizes, zero with inferred classes.
    one_sided : bool
        Far samples count 0 instead of −1.
    inferred : bool
        Whether the class list was read off the training data: then one more rival stands for any class that an
        attacker invents, and a class vanishes with its last sample.
    """
    near, totals = np.asarray(near, np.int64), np.asarray(totals, np.int64)
    far = totals - near
    scores = near + sizes if one_sided else near - far + sizes
    standing = Leads.of(scores, inferred)
    return Radii(
        standing.prediction,
        standing.runner_up,
        standing.margin,
        insert_remove=standing.margin.copy(),
        insert=standing.margin.copy(),
        remove=_removals(near, far, totals, standing, one_sided, inferred),
        label_flip=_changes(near, totals, standing, one_sided, inferred, features_too=False),
        modify=_changes(near, totals, standing, one_sided, inferred, features_too=True),
        exact=np.ones(len(near), np.bool_),
    )


def _removals(
    near: Counts,
    far: Counts,
    totals: Counts,
    standing: Leads,
    one_sided: bool,
    inferred: bool,
) -> Counts:
    """Removing a near sample of p or a far one of the rival costs 1, anything else nothing or less.

    The lead is lost at once with more than m such samples; with fewer, never. Where classes are inferred, a rival must
    keep one sample to be there, and p vanishes with its last one.
    """
    rows, n_classes = np.arange(len(near)), near.shape[1]
    leads = standing.leads[:, :n_classes]
    useful = near[rows, standing.prediction][:, None] + (0 if one_sided else far)
    if inferred and not one_sided:
        useful = useful - (near == 0)
    radius = np.where(useful > leads, leads, NEVER).min(axis=1)
    if inferred and n_classes > 1:
        radius = np.minimum(radius, totals[standing.prediction] - 1)
    return np.minimum(radius, totals.sum())


def _changes(
    near: Counts, totals: Counts, standing: Leads, one_sided: bool, inferred: bool, *, features_too: bool
) -> Counts:
    """Samples changed in place: some cost the lead 2 each (``twos``), some 1 (``ones``), the others nothing.

    2: a near sample of p becomes one of the rival, a far one of the rival one of p. 1: a sample of a third class.
    One-sided, far samples weigh nothing until they are moved to x, which costs 1.
    """
    rows, n_samples = np.arange(len(near)), int(totals.sum())
    near_p = near[rows, standing.prediction][:, None]
    totals_p = totals[standing.prediction][:, None]
    if inferred:  # the class that nobody has seen has no samples, near or far
        near = np.column_stack([near, np.zeros(len(near), np.int64)])
        totals = np.append(totals, 0)
    if one_sided:
        twos = np.broadcast_to(near_p, near.shape)
        ones = (n_samples if features_too else near.sum(axis=1, keepdims=True)) - near_p - near
    else:
        twos = near_p + totals - near
        ones = n_samples - totals_p - totals
    radius = withstood(standing.leads, twos, ones, n_samples)
    if inferred:  # without a lead over it, the class that nobody has seen need only appear
        radius[:, -1] = np.where(standing.leads[:, -1] == 0, 0, radius[:, -1])
    return radius.min(axis=1)


def withstood(leads: Counts, twos: Counts, ones: Counts, most: int) -> Counts:
    """The largest r with 2·min(r, twos) + min((r − twos)⁺, ones) ≤ lead; ``most`` where no r is too many."""
    by_twos = leads // 2
    then = leads - 2 * np.minimum(twos, by_twos)
    radius = np.where(by_twos < twos, by_twos, np.where(then < ones, twos + then, most))
    return np.minimum(radius, most)

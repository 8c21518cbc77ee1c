"""Theorem 2 in plain NumPy, for votes so few that loading compiled code would take longer than the answer.

The same numbers as `poisonproof.certificates.kernels`, whose notation it shares: every Δ of every rival is written out,
sorted and added up, which costs (test samples × base classifiers × classes × (d + what sorting takes)) steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def certify_few(
    votes: NDArray[Any], table: NDArray[np.int64], n_classes: int, *, unseen_class: bool
) -> list[NDArray[np.int64]]:
    """Prediction, runner-up, margin and Theorem 2 radius of each row of votes.

    ``table`` holds the d subsets of every partition. ``unseen_class`` adds one rival without votes that wins ties; its
    code is ``n_classes``.
    """
    n_test, rivals = len(votes), n_classes + unseen_class
    counts = np.stack([(votes == c).sum(axis=1) for c in range(rivals)], axis=1)
    counts[:, n_classes:] = 0  # what stands there are abstentions
    prediction = counts[:, :n_classes].argmax(axis=1)
    votes_won = counts[np.arange(n_test), prediction]
    reach = _by_partition(1 + (votes == prediction[:, None]), table)
    margins, radii = np.full((2, n_test, rivals), np.iinfo(np.int64).max)
    for c in range(rivals):
        lead = votes_won - counts[:, c] - ((c < prediction) | (c == n_classes))
        hits = _by_partition(votes == c, table) if c < n_classes else 0
        spent = np.cumsum(np.sort(reach - hits, axis=1, kind="stable")[:, ::-1], axis=1, dtype=np.int64)
        rival = prediction != c
        margins[rival, c] = lead[rival]
        radii[rival, c] = (spent <= lead[:, None]).sum(axis=1)[rival]
    radius = radii.min(axis=1)
    among = np.where(radii == radius[:, None], margins, np.iinfo(np.int64).max)
    return [prediction, among.argmin(axis=1), np.maximum(margins.min(axis=1), 0), radius]


def _by_partition(weight: NDArray[Any], table: NDArray[np.int64]) -> NDArray[Any]:
    """Σ over the subsets of each partition of weight[t, subset], which is 2 at the most.

    In short numbers where they hold the sums: NumPy sorts those by radix.
    """
    short = np.int16 if 2 * table.shape[1] <= np.iinfo(np.int16).max else np.int64
    weight, sums = weight.astype(short), np.zeros((len(weight), len(table)), short)
    for subsets in table.T:
        sums += weight[:, subsets]
    return sums

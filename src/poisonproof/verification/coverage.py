"""Radii above Theorem 2 (method "tight"): an attack is looked for, or proved not to exist, in integers.

With weights w_i = 1 + [v_i = p] − [v_i = c] ≥ 0, an attacker who poisons the partitions H turns at most the base
classifiers they reach, each once: r poisons are harmless exactly if no r partitions cover more weight than m_c.

- *Dual.* For any whole 0 ≤ u_i ≤ G·w_i: G·cover(H) ≤ Σ_i (G·w_i − u_i) + the r largest Σ_{i ∈ spread(j)} u_i.
- *Search.* What a partition still adds only shrinks as others are chosen, so a branch is done when the weight
  covered and the largest additions left do not exceed m_c.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GRID = 1 << 12
STEPS = 400
VISITS = 8_000_000  # partitions looked at before the search gives up


def attack_exists(weight: NDArray[np.int64], table: NDArray[np.int64], size: int, lead: int) -> bool | None:
    """Whether ``size`` partitions can cover more than ``lead``; None if that could not be settled."""
    size = min(size, len(table))
    if size == 0 or lead < 0:
        return lead < 0
    attack = _search(weight, table, size, lead, size + 1)  # the greedy attack
    if attack is not None or _dual_proves_harmless(weight, table, size, lead):
        return attack is True
    return _search(weight, table, size, lead, VISITS // len(table))


def _dual_proves_harmless(weight: NDArray[np.int64], table: NDArray[np.int64], size: int, lead: int) -> bool:
    """Move u down the subgradient; only the bound in integers counts as a proof."""
    u = (GRID * weight).astype(np.int64)
    for _ in range(STEPS):
        sums = u[table].sum(axis=1)
        chosen = np.argpartition(sums, -size)[-size:] if size < len(sums) else np.arange(len(sums))
        bound = int((GRID * weight - u).sum() + sums[chosen].sum())
        if bound // GRID <= lead:
            return True
        slope = np.bincount(table[chosen].ravel(), minlength=len(weight)) - 1
        length = int((slope * slope).sum())
        if length == 0:
            return False
        u = np.clip(np.rint(u - (bound - GRID * lead) / length * slope), 0, GRID * weight).astype(np.int64)
    return False


def _search(weight: NDArray[np.int64], table: NDArray[np.int64], size: int, lead: int, nodes: int) -> bool | None:
    """Depth first, with the largest addition before without it; the first descent is the greedy attack."""
    n = len(table)
    stack = [(np.zeros(n, np.bool_), np.zeros(n, np.bool_), size, 0)]
    while stack:
        covered, excluded, left, total = stack.pop()
        if total > lead:
            return True
        if nodes == 0:
            return None
        nodes -= 1
        gain = np.where(covered, 0, weight)[table].sum(axis=1)
        gain[excluded] = 0
        if total + int(np.sort(gain)[n - left :].sum()) <= lead:
            continue
        best = int(gain.argmax())
        without, reached = excluded.copy(), covered.copy()
        without[best] = True
        reached[table[best]] = True
        stack.append((covered, without, left, total))
        stack.append((reached, excluded, left - 1, total + int(gain[best])))
    return False

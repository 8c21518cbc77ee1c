"""Rankings: the classes of each base classifier from best to worst, its vote in first place.

``rankings[t, i, r]`` is the class that base classifier i puts in place r for test sample t. A base classifier ranks the
classes it has seen; the places behind them hold the number of classes, which stands for "nothing more". So an
abstention is a ranking of nothing, and every base classifier's first place is its vote. Of two classes that a base
classifier does not rank it prefers neither; it prefers a class it ranks to one it does not.

Unseen classes are left out and not put last in the order of their names, for this reason: a label that an attacker
invents would find its place among them by its name, so it could stand above another class in base classifiers that no
poison reaches. Left out, it gains nothing there.

Of many classes the first places are enough: ``rankings`` may hold fewer places than there are classes. Then a row whose
last place still names a class is *cut*, and what came behind it is unknown: that base classifier prefers the classes it
names to all others, and of two that it does not name nothing is known.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poisonproof.errors import PoisonproofError

WRONG = {
    1: "holds {named}, but classes are 0 … {last} and {abstention} stands for nothing more; declare all",
    2: "names class {named} twice",
    3: "goes on with class {named} after a place that holds nothing",
    4: "begins with {named}, but the vote is {vote}; the first place must be the vote, {abstention} for an abstention",
}


def checked_rankings(rankings: ArrayLike, matrix: NDArray[Any], n_classes: int) -> NDArray[Any]:
    """The rankings in the type of the votes, or one sentence that says why they do not belong to these votes."""
    from poisonproof.votes.ranking_kernel import first_wrong

    ranked = np.asanyarray(rankings)
    if ranked.shape[:-1] != matrix.shape or not 1 <= ranked.shape[-1] <= n_classes:
        raise PoisonproofError(
            f"Rankings must have the shape (test samples, base classifiers, classes), here "
            f"{(*matrix.shape, n_classes)}, or fewer places from the first on. Got {ranked.shape}."
        )
    if not np.issubdtype(ranked.dtype, np.integer):
        raise PoisonproofError(f"Rankings must be whole numbers, class indices. Got dtype {ranked.dtype}.")
    for t in range(len(ranked)):
        wrong, i, place = first_wrong(ranked[t], matrix[t], n_classes)
        if wrong:
            fault = WRONG[wrong].format(
                named=ranked[t, i, place], last=n_classes - 1, abstention=n_classes, vote=matrix[t, i]
            )
            raise PoisonproofError(f"The ranking of base classifier {i} on test sample {t} {fault}.")
    return ranked.astype(matrix.dtype, copy=False)


def ranked_by_score(scores: NDArray[Any], heads: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions from best to worst, one row per sample: the head, then by (score, smaller position).

    Where a score is NaN, the positions behind the head stand in their order.
    """
    table = np.where(np.isnan(scores).any(axis=1, keepdims=True), 0.0, scores)
    order = np.argsort(-table, axis=1, kind="stable")
    behind = order[order != heads[:, None]].reshape(len(heads), scores.shape[1] - 1)
    return np.column_stack([heads, behind])

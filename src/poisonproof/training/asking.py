"""Asking a base classifier in batches of one size, so that the company of a sample does not change its answer.

The last bits of a matrix product depend on how many rows there are and on which of them are left over by the
processor's kernels. Somebody's poison may fall into the held-out set, and one test sample more would then move the last
bits, and a tied vote, of others. In batches of one size, a multiple of what kernels take at once, no row is left over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.samples.batches import ONE_BY_ONE, declares

BATCH = 512
BY_ROW = {("sklearn.naive_bayes", "GaussianNB")}
"""Classes whose sums go along a row, and nowhere else: no bit of an answer knows how many rows there are."""


def ask_in_batches(model: Any, ask: Callable[[Any], NDArray[Any]], fed: Any, n_samples: int) -> NDArray[Any]:
    """The answers of ``ask`` on samples as they are fed, always `BATCH` at a time; the last one fills up.

    A learner whose own class says ``answers_one_by_one`` is asked about all samples at once.
    """
    if declares(model, ONE_BY_ONE) or n_samples == 0:
        return ask(fed)
    if (type(model).__module__, type(model).__qualname__) in BY_ROW and isinstance(fed, np.ndarray):
        return np.concatenate([ask(fed[start : start + BATCH]) for start in range(0, n_samples, BATCH)])
    return np.concatenate([ask(batch)[: n_samples - start] for start, batch in batches(fed, n_samples)])


def batches(fed: Any, n_samples: int) -> Iterator[tuple[int, Any]]:
    """Where each batch starts, and its samples; the last one fills up with the last sample."""
    for start in range(0, n_samples, BATCH):
        if start + BATCH <= n_samples and isinstance(fed, np.ndarray) and fed.flags.c_contiguous:
            yield start, fed[start : start + BATCH]
        else:
            yield start, _rows_of(fed, np.minimum(np.arange(start, start + BATCH), n_samples - 1))


def _rows_of(fed: Any, rows: NDArray[np.int64]) -> Any:
    """These rows of what is fed, always in one layout of memory, on which the last bits of a product depend too.

    What pandas takes out of a frame has the layout of that frame, and a frame of one row has another than one of two.
    One that is put together anew has always the same.
    """
    if not hasattr(fed, "iloc"):
        return fed[rows]
    if len(set(fed.dtypes)) == 1 and isinstance(fed.dtypes.iloc[0], np.dtype):
        return type(fed)(np.array(fed.to_numpy()[rows], order="C"), columns=fed.columns)
    taken = fed.take(rows)
    columns = {at: taken.iloc[:, at].array for at in range(taken.shape[1])}
    return type(fed)(columns, index=range(len(rows))).set_axis(fed.columns, axis=1)

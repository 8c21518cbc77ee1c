"""What every learner must show: its votes are a function of each subset, whoever else votes and wherever it runs.

Votes and rankings are compared to the bit after the rows were put in another order, a row was added elsewhere, test
samples came one by one, blocks had another size, and work went to threads, to processes and to more BLAS threads.
"""

import numpy as np
import pandas as pd
from joblib import parallel_config
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

import poisonproof.learners.kernel_ridge as kernel_ridge
import poisonproof.training.members as members
import poisonproof.training.pooled as pooled
from poisonproof import FiniteAggregationClassifier, Split
from poisonproof.samples.convert import join_rows, take_rows
from poisonproof.training.engine import gives_scores

N, N_TEST = 40, 8
DIGITS = load_digits()
LABELS = DIGITS.target[: N + N_TEST] % 3
IMAGES = (DIGITS.images[: N + N_TEST] * 15).astype(np.uint8)
COLOUR = np.stack([IMAGES, IMAGES[:, ::-1], 255 - IMAGES], axis=3)
ROWS = DIGITS.data[: N + N_TEST] / 16.0
FRAME = pd.DataFrame({"a": ROWS[:, 20], "b": np.where(ROWS[:, 30] > 0.5, "dark", "light"), "c": ROWS[:, 42]})
TEXTS = [" ".join(f"w{i}" for i in np.flatnonzero(row > 0.6)) for row in ROWS]


def check_votes_are_a_function_of_the_subset(learner, samples, monkeypatch, *, processes=True):
    """The same votes in any order, alone, in any block, thread and process; and one added sample moves only its own."""
    X, y = take_rows(samples, np.arange(N)), LABELS[:N]
    test = take_rows(samples, np.arange(N, N + N_TEST))
    images = isinstance(X, np.ndarray) and X.dtype == np.uint8
    split = Split(dtype="uint8") if images else Split()

    def fitted(X, y, **options):
        model = FiniteAggregationClassifier(learner, k=3, d=2, classes=[0, 1, 2], split=split, **options)
        return model.fit(X, y)

    ranks = gives_scores(learner)

    def said(model, samples=test):
        votes = model.votes(samples, rankings=ranks)
        return votes.rankings if ranks else votes.matrix[..., None]

    model = fitted(X, y)
    expected = said(model)
    assert len(np.unique(expected[..., 0])) > 1, "votes that are all the same would show nothing"
    order = np.random.default_rng(0).permutation(N)
    assert np.array_equal(said(fitted(take_rows(X, order), y[order])), expected)
    alone = [said(model, take_rows(test, [i])) for i in range(N_TEST)]
    assert np.array_equal(np.concatenate(alone), expected)

    added = take_rows(samples, [N])
    more = fitted(join_rows(X, added), np.append(y, 2))
    partition = int(split.partitions(split.samples(added), model.spread_.n_partitions)[0])
    others = np.setdiff1d(np.arange(6), model.spread_.subsets_of(partition))
    assert np.array_equal(said(more)[:, others], expected[:, others])

    with monkeypatch.context() as patch:
        patch.setattr(members, "MAX_BLOCK", 1)
        patch.setattr(pooled, "KERNEL_BYTES", 1)
        patch.setattr(pooled, "FEWEST_AT_ONCE", 5)
        patch.setattr(pooled, "SUBSETS_PER_TASK", 1)
        patch.setattr(kernel_ridge, "ROWS_PER_PRODUCT", 7)
        assert np.array_equal(said(fitted(X, y)), expected)
    with parallel_config("threading", n_jobs=3):
        assert np.array_equal(said(fitted(X, y)), expected)
    if not processes:
        return
    with parallel_config("loky", n_jobs=2), threadpool_limits(3):
        assert np.array_equal(said(fitted(X, y)), expected)

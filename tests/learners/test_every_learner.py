"""One property of all learners that poisonproof ships: the vote of a base classifier is a function of its own subset.

Votes and rankings are compared to the bit after the rows were put in another order, a row was added elsewhere, test
samples came one by one, blocks had another size, and work went to threads, to processes and to more BLAS threads.
"""

from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.datasets import load_digits
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

import poisonproof.learners.kernel_ridge as kernel_ridge
import poisonproof.training.member_list as members
import poisonproof.training.pooled as pooled
from poisonproof import FiniteAggregationClassifier, Split
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from poisonproof.learners.presets import LEARNERS, preset
from poisonproof.learners.seed_averaged import SeedAveragedClassifier
from poisonproof.samples.convert import join_rows, take_rows
from poisonproof.training.engine import engine_of

N, N_TEST = 40, 8
DIGITS = load_digits()
LABELS = DIGITS.target[: N + N_TEST] % 3
IMAGES = (DIGITS.images[: N + N_TEST] * 15).astype(np.uint8)
COLOUR = np.stack([IMAGES, IMAGES[:, ::-1], 255 - IMAGES], axis=3)
ROWS = DIGITS.data[: N + N_TEST] / 16.0
FRAME = pd.DataFrame({"a": ROWS[:, 20], "b": np.where(ROWS[:, 30] > 0.5, "dark", "light"), "c": ROWS[:, 42]})
TEXTS = [" ".join(f"w{i}" for i in np.flatnonzero(row > 0.6)) for row in ROWS]
SAMPLES = {
    "table": FRAME,
    "text": TEXTS,
    "auto": FRAME,
    "auto on texts": TEXTS,
    "forest": FRAME,
    "boosting": FRAME,
    "bayes": TEXTS,
    "ridge": TEXTS,
    "digits": IMAGES,
    "signs": COLOUR,
    "objects": COLOUR,
    "head": ROWS,  # numbers, as an encoder gives them
    "nin": IMAGES,
    "nin-mirror": COLOUR,
    "rbf": ROWS,
    "laplace": ROWS,
    "linear": ROWS,
    "averaged over seeds": ROWS,
}


def learner(name):
    if name in ("nin", "nin-mirror"):
        if not find_spec("torch"):
            pytest.skip("PyTorch is not installed")
        return preset(name).set_params(epochs=1)
    if name in ("rbf", "laplace", "linear"):
        return KernelRidgeClassifier(kernel=name, gamma=0.2)
    if name == "averaged over seeds":
        return SeedAveragedClassifier(DecisionTreeClassifier(max_features=3), n_seeds=2)
    return preset("auto" if name == "auto on texts" else name)


def test_every_preset_is_here():
    assert set(LEARNERS) <= set(SAMPLES)


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
@pytest.mark.parametrize("name", SAMPLES)
def test_votes_are_a_function_of_the_subset(name, monkeypatch):
    X, y = take_rows(SAMPLES[name], np.arange(N)), LABELS[:N]
    test = take_rows(SAMPLES[name], np.arange(N, N + N_TEST))
    images = isinstance(X, np.ndarray) and X.dtype == np.uint8
    split = Split(dtype="uint8") if images else Split()

    def fitted(X, y, **options):
        model = FiniteAggregationClassifier(learner(name), k=3, d=2, classes=[0, 1, 2], split=split, **options)
        return model.fit(X, y)

    ranks = engine_of(learner(name)).ranks(learner(name))

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

    added = take_rows(SAMPLES[name], [N])
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
    if name == "nin-mirror":
        return  # more processes that import PyTorch would show nothing that "nin" does not
    with parallel_config("loky", n_jobs=2), threadpool_limits(3):
        assert np.array_equal(said(fitted(X, y)), expected)

"""Every known leak, end to end: one poisoned row, and only its d members move.

Files have the same cases in test_tables.py, test_folder.py and test_own_data.py.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from poisonproof import (
    FiniteAggregationClassifier,
    PremiseWarning,
    Split,
    audit,
    data,
)
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from poisonproof.maps.digits import DigitFeatures

X, Y = (part[:150] for part in load_digits(return_X_y=True))
IMAGES = X.reshape(-1, 8, 8).astype(np.uint8) * 15
WORDS = [" ".join(f"w{i}" for i in np.flatnonzero(row > 8)) for row in X]
FRAME = pd.DataFrame({"a": X[:, 20].astype(int), "b": np.where(X[:, 30] > 8, "x", "y"), "c": X[:, 42]})
FRAME["b"] = FRAME["b"].astype("category")
GAPS = np.where(X == 5, np.nan, X)
NAN = np.frombuffer(np.uint64(0x7FF8DEADBEEF0001).tobytes(), np.float64)[0]


def poisoned_frame(**cells):
    row = {"a": 3, "b": "x", "c": 1.0, **cells}
    frame = pd.concat([FRAME.astype({"b": object}), pd.DataFrame([row])], ignore_index=True)
    return as_categories(frame, ["x", "y"] if row["b"] in "xy" else ["x", "y", "z"])


def as_categories(frame, categories):
    return frame.assign(b=pd.Categorical(frame["b"], categories=categories))


def with_row(row, samples=X):
    return np.vstack([samples, row[None]])


def sparse_with_duplicates():
    """The last row states one entry in two halves, an explicit zero, and its indices backwards."""
    more = sp.csr_matrix((np.array([2.0, 0.0, 2.5, 2.5]), np.array([40, 7, 3, 3]), np.array([0, 4])), (1, 64))
    return sp.vstack([sp.csr_matrix(X), more], format="csr")


LEAKS = {
    # name: (clean samples, samples with the poison last, label of the poison, base classifier, options)
    "dtype promotion: one fraction among integers": (X.astype(int), with_row(X[3] + 0.5), 3, GaussianNB(), {}),
    "dtype promotion: one row as large as numbers get": (X, with_row(np.full(64, 1e300)), 3, None, {}),
    "dtype promotion: one row in another precision": (X.astype(np.float32), with_row(X[3] + 1e-9), 3, GaussianNB(), {}),
    "minus zero": (X, with_row(np.where(X[3] == 0, -0.0, X[3])), 3, DecisionTreeClassifier(), {}),
    "another NaN": (GAPS, with_row(np.where(X[3] == 0, NAN, X[3]), GAPS), 3, None, {}),
    "one cell turns a column to text": (FRAME, poisoned_frame(a="many"), 3, None, {}),
    "one cell turns a column to dates": (FRAME, poisoned_frame(a=pd.Timestamp("2026-11-15")), 3, None, {}),
    "a missing cell turns integers to floats": (FRAME, poisoned_frame(a=None), 3, None, {}),
    "a new category": (FRAME, poisoned_frame(b="z"), 3, None, {}),
    "categories in another order": (FRAME, as_categories(poisoned_frame(), ["y", "x"]), 3, None, {}),
    "sparse duplicates, explicit zeros, unsorted indices": (
        sp.csr_matrix(X), sparse_with_duplicates(), 3, SGDClassifier(max_iter=3, tol=None), {},
    ),
    "a wider sparse row": (
        sp.csr_matrix(X), sp.csr_matrix(np.pad(with_row(X[3] * 2), ((0, 0), (0, 9)), constant_values=4.0)), 3,
        SGDClassifier(max_iter=3, tol=None), {"split": Split(n_features=64)},
    ),
    "a scaler inside": (X, with_row(X[3] * 1e6), 3, make_pipeline(StandardScaler(), GaussianNB()), {}),
    "a range inside": (X, with_row(-X[3] * 1e6), 3, make_pipeline(MinMaxScaler(), GaussianNB()), {}),
    "a vocabulary inside": (
        WORDS, [*WORDS, "w1 w2 a word of its own"], 3, make_pipeline(TfidfVectorizer(), SGDClassifier()), {},
    ),
    "a global generator": (X, with_row(X[3] * 2), 3, DecisionTreeClassifier(max_features=2, splitter="random"), {}),
    "an undeclared label": (X, with_row(X[3] * 2), "eleven", GaussianNB(), {}),
    "a label that retypes the others": (X, with_row(X[3] * 2), 3.5, GaussianNB(), {}),
    "the label decides the partition": (X, with_row(X[3]), 7, GaussianNB(), {"split": Split(hash_labels=True)}),
    "pixel sums": (X, with_row(X[3] * 2), 3, GaussianNB(), {"split": "pixel-sum"}),
    "quantised features": (
        IMAGES, np.concatenate([IMAGES, np.full((1, 8, 8), 255, np.uint8)]), 3,
        KernelRidgeClassifier(DigitFeatures(copies=1, hand=None), gamma=2.0), {"split": Split(dtype="uint8")},
    ),
    "a copy of a row": (X, with_row(X[3]), 3, DecisionTreeClassifier(), {}),
    "a copy of a row under another label": (X, with_row(X[3]), 7, DecisionTreeClassifier(), {}),
}  # fmt: skip


def votes(samples, labels, learner, options):
    model = FiniteAggregationClassifier(learner, k=7, d=2, **{"classes": range(10), **options})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PremiseWarning)
        model.fit(samples, labels)
    return model


@pytest.mark.parametrize(
    ("leak", "first"), [(leak, False) for leak in LEAKS] + [(leak, True) for leak in LEAKS if "turns" in leak]
)
def test_one_poisoned_row_moves_only_the_members_it_reaches(leak, first):
    samples, poisoned, label, learner, options = LEAKS[leak]
    test = samples[:40]
    clean = votes(samples, Y, learner, options)
    labels = [*Y.tolist(), label]
    if first:
        order = np.roll(np.arange(len(labels)), 1)
        poisoned = (
            poisoned.iloc[order]
            if hasattr(poisoned, "iloc")
            else ([poisoned[row] for row in order] if isinstance(poisoned, list) else poisoned[order])
        )
        labels = [labels[row] for row in order]
    attacked = votes(poisoned, labels, learner, options)
    row = 0 if first else len(Y)
    one = poisoned.iloc[[row]] if hasattr(poisoned, "iloc") else poisoned[row : row + 1]
    split = clean.split_
    partition = int(split.partitions(split.samples(one), clean.spread_.n_partitions, [label])[0])
    moved = (clean.votes(test).matrix != attacked.votes(test).matrix).any(axis=0)
    assert set(np.flatnonzero(moved)) <= set(clean.spread_.subsets_of(partition))
    changed = (clean.subset_digests_ != attacked.subset_digests_).any(axis=1)
    assert set(np.flatnonzero(changed)) <= set(clean.spread_.subsets_of(partition))


def test_a_hold_out_by_content_moves_nothing_when_a_row_is_added():
    poisoned = np.vstack([X[:10], X[3:4] * 2, X[10:]])
    kept = np.delete(data.held_out(poisoned, 0.3), 10)
    assert (kept == data.held_out(X, 0.3)).all()


def test_a_poison_does_move_votes_where_it_may():
    """Otherwise nothing above would mean anything."""
    clean = votes(X, Y, DecisionTreeClassifier(), {})
    attacked = votes(with_row(X[3]), [*Y.tolist(), 7], DecisionTreeClassifier(), {})
    assert (clean.votes(X).matrix != attacked.votes(X).matrix).any()


@pytest.mark.parametrize(
    ("samples", "learner"),
    [(X, GaussianNB()), (FRAME, None), (sp.csr_matrix(X), SGDClassifier())],
    ids=["numbers", "table", "sparse"],
)
def test_the_audit_finds_none_of_them(samples, learner):
    model = FiniteAggregationClassifier(learner, k=7, d=2, classes=range(10))
    kinds = ["insert", "degenerate", "duplicates"]
    report = audit(model, samples, Y, samples[:20], targets=1, kinds=kinds, all_every=3)
    assert report.ok, str(report)

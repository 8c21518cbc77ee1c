"""An updated model is that of a fit on the new data, whatever rows come and go.

The learner of these tests says nothing but a digest of every bit that it is fed, so any other content, order, type or
label of one row shows.
"""

import hashlib

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from pandas.api.types import union_categoricals
from sklearn.base import BaseEstimator, ClassifierMixin

from poisonproof import FiniteAggregationClassifier, Split
from poisonproof.samples.convert import count_rows, join_rows, take_rows

STEPS = 3


class Digest(ClassifierMixin, BaseEstimator):
    """Remembers a digest of what it is fed; its answers are bytes of it."""

    def __init__(self, takes_missing=False):
        self.takes_missing = takes_missing

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan, tags.input_tags.sparse = self.takes_missing, True
        return tags

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.fed_ = hashlib.sha256(repr((_bits(X), y.tolist())).encode()).digest()
        return self

    def predict(self, X):
        return np.array([self.fed_[at % 32] % len(self.classes_) for at in range(X.shape[0])])


def _bits(X):
    if sp.issparse(X):
        return X.data.tobytes(), X.indices.tobytes(), X.indptr.tobytes(), X.indices.dtype.str
    if hasattr(X, "iloc"):
        kinds = [list(X[name].cat.categories) if X[name].dtype == "category" else str(X[name].dtype) for name in X]
        return kinds, X.to_numpy(object).tolist()
    return X.dtype.str, X.tolist() if X.dtype == object else X.tobytes()


def numbers(rng, n, dtype=np.float64):
    values = rng.integers(0, 4, (n, 3)).astype(dtype)
    if dtype is np.float64 and n and rng.random() < 0.3:
        values[rng.integers(n), rng.integers(3)] = rng.choice([np.nan, -0.0, np.inf], p=[0.6, 0.3, 0.1])
    return values


def objects(rng, n):
    cells = numbers(rng, n, np.int64).astype(object)
    if n and rng.random() < 0.2:
        cells[0, 0] = "x"
    return cells


def texts(rng, n):
    words = [f"w{one} w{two}" for one, two in rng.integers(0, 4, (n, 2))]
    return [None, *words[1:]] if n and rng.random() < 0.1 else words


def sparse(rng, n):
    return (sp.csr_matrix if rng.random() < 0.7 else sp.coo_matrix)(numbers(rng, n, np.int64).astype(float))


def frame(rng, n):
    categories = ["u", "v"] if rng.random() < 0.8 else ["v", "t", "u"]
    table = pd.DataFrame(
        {
            "number": numbers(rng, n)[:, 0],
            "text": pd.Series(rng.choice(["p", "q", "1"], n), dtype=object),
            "kind": pd.Categorical(rng.choice(["u", "v"], n), categories=categories),
            "day": pd.to_datetime(rng.integers(0, 3, n), unit="D"),
        }
    )
    if n and rng.random() < 0.2:
        table["text"] = [rng.choice([None, 1.5]), *table["text"][1:]]
    return table


def odd_label(rng):
    return [None, "x", 2.5, True][rng.integers(4)] if rng.random() < 0.1 else int(rng.integers(0, 3))


KINDS = {
    "numbers": (numbers, ["content", "group", Split(hash_labels=True), "pixel-sum"]),
    "pixels": (
        lambda rng, n: numbers(rng, n, np.uint8),
        [Split(dtype="uint8"), Split("pixel-sum", "uint8"), "group"],
    ),
    "objects": (objects, ["content"]),
    "texts": (texts, ["content", "group"]),
    "series": (lambda rng, n: pd.Series(texts(rng, n), dtype=object), ["content"]),
    "sparse": (sparse, ["content", "group"]),
    "frame": (
        frame,
        ["content", Split(schema={"number": "number", "text": "category", "kind": "category", "day": "text"})],
    ),
}
LABELS = {
    "whole": (lambda rng, n: rng.integers(0, 3, n), [0, 1]),
    "texts": (lambda rng, n: rng.choice(["b", "a", "rare"], n, p=[0.5, 0.45, 0.05]).tolist(), ["b", "a"]),
    "odd": (lambda rng, n: [odd_label(rng) for _ in range(n)], [0, 1, 2]),
}


def contributors(rng, n):
    ids = [f"g{number}" for number in rng.integers(0, 6, n)]
    return [None, *ids[1:]] if n and rng.random() < 0.1 else ids


def state(model):
    """All that a certificate depends on, and the digest of what each base classifier was fed."""
    fed = [None if member.model is None else member.model.fed_ for member in model.members_]
    return {
        "fed": fed,
        "rest": [(member.index, member.codes.tolist(), member.fallback, member.form) for member in model.members_],
        "digests": model.subset_digests_.tolist(),
        "classes": (model.classes_.dtype, model.classes_.tolist(), list(map(type, model.classes_.tolist()))),
        "premises": model.premises_,
        "sizes": (model.subset_sizes_.tolist(), model.partition_sizes_.tolist(), model.n_dropped_),
    }


def joined(rows, more):
    """Rows and more of them, by the libraries that made them and not by what is tested."""
    if isinstance(rows, pd.DataFrame):  # pandas joins categories that differ as objects
        kinds = union_categoricals([rows["kind"], more["kind"]])
        return pd.concat([rows, more], ignore_index=True).assign(kind=kinds)
    return sp.vstack([rows, more]) if sp.issparse(rows) else join_rows(rows, more)


def fitted(options, missing, rows):
    try:
        return FiniteAggregationClassifier(Digest(missing), **options).fit(*rows)
    except (ValueError, TypeError) as error:
        return str(error)


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_an_updated_model_is_a_refit(kind):
    """Random rows, odd ones among them, labels, contributors and splits; nothing that a model states may differ."""
    make, splits = KINDS[kind]
    rng = np.random.default_rng(list(KINDS).index(kind))
    n_updates = n_spared = 0
    for case in range(9):
        split, (labels, classes) = splits[case % len(splits)], list(LABELS.values())[case % 3]
        grouped, missing, declared = split == "group", bool(rng.integers(2)), classes if rng.integers(2) else None

        def rows(n, labels=labels, grouped=grouped):
            return make(rng, n), list(labels(rng, n)), *([contributors(rng, n)] if grouped else [])

        options = {"k": 2, "d": 2, "split": split, "classes": declared}
        now = rows(int(rng.integers(8, 30)))
        model = fitted(options, missing, now)
        for step in range(STEPS):
            if isinstance(model, str):
                break  # too many odd rows
            n = count_rows(now[0])
            remove = rng.choice(n, min(n, int(rng.integers(0, 4))), replace=False)
            add = rows(int(rng.integers(1, 4))) if rng.random() < 0.6 else None
            stay = np.delete(np.arange(n), remove)
            later = take_rows(now[0], stay), *([part[row] for row in stay] for part in now[1:])
            if add is not None:
                later = (
                    joined(later[0], add[0]),
                    *([*part, *more] for part, more in zip(later[1:], add[1:], strict=True)),
                )
            fresh, where = fitted(options, missing, later), f"case {case}, step {step}: remove {remove}, add {add}"
            if isinstance(fresh, str):
                with pytest.raises((ValueError, TypeError)) as refusal:
                    model.update(remove=remove, add=add)
                assert str(refusal.value) == fresh, where
                continue
            done = model.update(remove=remove, add=add)
            now, told, expected = later, state(model), state(fresh)
            n_updates, n_spared = n_updates + 1, n_spared + 4 - len(done.retrained)
            for name in expected:
                assert told[name] == expected[name], f"{name}, {where}"
    assert n_updates > 5
    assert n_spared > 0

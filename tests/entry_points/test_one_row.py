"""One odd row stops nothing and merges nothing: it is read, or left out, by what it holds itself."""

import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from poisonproof import (
    FiniteAggregationClassifier,
    PremiseWarning,
    Split,
    verify,
)
from poisonproof.data.dataset import Dataset
from poisonproof.data.options import ReadOptions
from poisonproof.data.reading import open_files
from poisonproof.runs.run import run
from poisonproof.samples.cells import text_of
from poisonproof.samples.convert import to_samples
from poisonproof.samples.labels import read_labels
from poisonproof.verification import content

X, Y = (part[:120] for part in load_digits(return_X_y=True))
WORDS = [" ".join(f"w{i}" for i in np.flatnonzero(row > 8)) for row in X]
SIGNALLING = np.array([0x7FF0000000000001], np.uint64).view(np.float64)[0]
SIGNALLING_32 = np.array([0x7F800001], np.uint32).view(np.float32)[0]
SINGLE = X.astype(np.float32)
ONE_GROUP = {"split": "group"}


def fitted(learner, samples, labels, groups=None, **options):
    model = FiniteAggregationClassifier(learner, k=7, d=2, **{"classes": range(10), **options})
    return model.fit(samples, labels, groups)


def with_last(value, X=X):
    odd = X[3:4].astype(np.result_type(X, np.float32)).copy()
    odd[0, 20] = value
    return np.vstack([X.astype(odd.dtype), odd])


def groups_with(odd):
    return [*(f"u{i % 40}" for i in range(len(Y))), odd]


CLEAN_GROUPS = groups_with(None)[:-1]
GOOD = (X, Y, None)
# name: (learner, clean data, data with an odd row last, what is said, options)
ODD_ROWS = {
    "infinity": (None, GOOD, (with_last(np.inf), [*Y, 3], None), "1 numbers are infinite and count as missing", {}),
    "infinity for a learner without gaps": (
        GaussianNB(), GOOD, (with_last(-np.inf), [*Y, 3], None),
        "1 training samples have missing values, which GaussianNB does not take, and were left out", {},
    ),
    "missing for a learner without gaps": (
        LogisticRegression(), GOOD, (with_last(np.nan), [*Y, 3], None), "1 training samples have missing values", {},
    ),
    "infinity in a sparse row": (
        SGDClassifier(max_iter=3, tol=None), (sp.csr_matrix(X), Y, None),
        (sp.csr_matrix(with_last(np.inf)), [*Y, 3], None), "1 training samples have missing values", {},
    ),
    "no contributor": (
        GaussianNB(), (X, Y, CLEAN_GROUPS), (with_last(1.0), [*Y, 3], groups_with(None)),
        "1 training samples have no contributor and were left out", ONE_GROUP,
    ),
    "a contributor that is a list": (
        GaussianNB(), (X, Y, CLEAN_GROUPS), (with_last(1.0), [*Y, 3], groups_with(["a", "b"])),
        "1 training samples have no contributor", ONE_GROUP,
    ),
    "no label, classes inferred": (
        GaussianNB(), GOOD, (with_last(1.0), [*Y.tolist(), None], None), "1 training samples have no label",
        {"classes": None},
    ),
    "a fraction for a label, classes inferred": (
        GaussianNB(), GOOD, (with_last(1.0), [*Y, 2.5], None), None, {"classes": None},
    ),
    "no text": (
        make_pipeline(TfidfVectorizer(), SGDClassifier(max_iter=3, tol=None)), (WORDS, Y, None),
        ([*WORDS, None], [*Y, 3], None), "1 samples are no texts and count as empty ones", {},
    ),
    "a list in a table": (
        None, (pd.DataFrame(X[:, 20:24]), Y, None),
        (pd.DataFrame([*X[:, 20:24].tolist(), [[1], 2.0, {}, b"x"]]), [*Y, 3], None),
        "1 cells of column '0' cannot be read and count as missing", {},
    ),
    "fractions in a pixel sum": (
        GaussianNB(), GOOD, (with_last(0.25), [*Y, 3], None), None, {"split": "pixel-sum"},
    ),
    "a pixel beyond every bound": (
        GaussianNB(), GOOD, (with_last(1e300), [*Y, 3], None), None, {"split": "pixel-sum"},
    ),
    "a signalling NaN": (None, GOOD, (with_last(SIGNALLING), [*Y, 3], None), None, {}),
    "a signalling NaN in single precision": (
        None, (SINGLE, Y, None), (with_last(SIGNALLING_32, SINGLE), [*Y, 3], None), None, {},
    ),
    "a signalling NaN in a table": (
        None, (pd.DataFrame(SINGLE), Y, None), (pd.DataFrame(with_last(SIGNALLING_32, SINGLE)), [*Y, 3], None),
        None, {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("first", [False, True], ids=["last", "first"])
@pytest.mark.parametrize("name", ODD_ROWS)
def test_an_odd_row_stops_nothing_and_moves_its_own_members_only(name, first):
    learner, clean_data, (odd_X, odd_y, odd_groups), said, options = ODD_ROWS[name]
    clean = fitted(learner, *clean_data, **options)
    if first:
        order = np.roll(np.arange(len(odd_y)), 1)
        odd_X = odd_X.iloc[order] if hasattr(odd_X, "iloc") else (
            [odd_X[row] for row in order] if isinstance(odd_X, list) else odd_X[order]
        )  # fmt: skip
        odd_y = [odd_y[row] for row in order]
        odd_groups = None if odd_groups is None else [odd_groups[row] for row in order]
    with warnings.catch_warnings(record=True) as heard, np.errstate(all="raise"):
        warnings.simplefilter("error")
        warnings.simplefilter("always", PremiseWarning)
        attacked = fitted(learner, odd_X, odd_y, odd_groups, **options)
    assert [str(w.message) for w in heard if said is not None and said in str(w.message)] or said is None
    test = clean_data[0][:30]
    names = [np.append(model.classes_.astype(object), "-")[model.votes(test).matrix] for model in (clean, attacked)]
    moved = np.flatnonzero((names[0] != names[1]).any(axis=0))
    row = 0 if first else len(odd_y) - 1
    split, n = clean.split_, clean.spread_.n_partitions
    partition = split.partitions(split.samples(odd_X), n, groups=odd_groups)[row]
    reached = clean.spread_.subsets_of(int(partition))
    assert set(moved) <= set(reached)


def test_an_odd_sample_to_be_answered_does_not_stop_the_others():
    model = fitted(GaussianNB(), X, Y)
    expected = model.votes(X[:20]).matrix
    with pytest.warns(PremiseWarning, match="could answer 1 of the 21 samples"):
        votes = model.votes(np.vstack([X[:20], np.full((1, 64), np.nan)])).matrix
    assert (votes[:20] == expected).all()
    with pytest.warns(PremiseWarning, match="64 numbers are infinite and count as missing, in the samples"):
        infinite = fitted(None, X, Y).votes(np.full((1, 64), np.inf)).matrix
    assert (infinite == fitted(None, X, Y).votes(np.full((1, 64), np.nan)).matrix).all()


def test_what_every_sample_has_is_still_the_users_to_know():
    with pytest.raises(ValueError, match="Input y contains NaN or infinity: all 120 labels are missing"):
        fitted(GaussianNB(), X, [None] * 120, classes=None)
    with pytest.raises(ValueError, match="Unknown label type"):
        fitted(GaussianNB(), X, np.arange(120) + 0.5, classes=None)
    with pytest.raises(ValueError, match="needs whole numbers"):
        fitted(GaussianNB(), X + 0.5, Y, split="pixel-sum")


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array, sp.csc_array])
def test_wide_sparse_indices_are_hashed_sorted_and_fed_as_narrow_ones(kind):
    narrow, wide = sp.csr_matrix(X), kind(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    samples = to_samples(wide)
    assert samples.matrix.indices.dtype == samples.matrix.indptr.dtype == np.int32
    assert samples.hashes().tolist() == to_samples(narrow).hashes().tolist()
    assert samples.keys(range(9)) == to_samples(narrow).keys(range(9))
    fed = samples.take(range(9))
    assert fed.indices.dtype == fed.indptr.dtype == np.int32
    assert content.content_hashes(wide, "float64").tolist() == samples.hashes().tolist()
    learner = KNeighborsClassifier(3)
    votes = [fitted(learner, part, Y).votes(part[:20]).matrix for part in (narrow, wide)]
    assert (votes[0] == votes[1]).all()
    assert (fitted(learner, narrow, Y).votes(wide[:20]).matrix == votes[0]).all()


BIG = 2**53


@pytest.mark.parametrize(
    "labels",
    [
        np.array([BIG, BIG + 1]),
        np.array([2**63 + 1, 2**63 + 3], np.uint64),
        [-1, 2**63],
        [2.5, BIG + 1, BIG],
        [10**30, 10**30 + 1],
        [Decimal(BIG), Decimal(BIG + 1)],
        pd.array([BIG, BIG + 1, None], "Int64"),
    ],
    ids=str,
)
def test_labels_that_float64_would_merge_stay_apart(labels):
    present = [label for label in list(labels) if label is not pd.NA]
    read = read_labels(list(labels))
    assert len(read.classes) == len(set(present))
    assert sorted(read.classes.tolist()) == sorted(int(x) if x == int(x) else x for x in present)
    declared = read_labels(list(labels), present)
    assert declared.codes.tolist() == read.codes.tolist()
    codes = content.label_codes(list(labels))
    assert len(set(codes[~np.isnan(codes)].tolist())) == len(set(present))


def test_a_model_of_large_labels_answers_with_them(tmp_path):
    names = BIG + Y.astype(np.int64)
    model = FiniteAggregationClassifier(GaussianNB(), k=5, d=2).fit(X, names)
    assert model.classes_.tolist() == [BIG + i for i in range(10)]
    assert (
        model.votes(X).matrix == FiniteAggregationClassifier(GaussianNB(), k=5, d=2).fit(X, Y).votes(X).matrix
    ).all()
    certificate = model.certify(X)
    assert certificate.evaluate(names).clean_accuracy == float((certificate.labels == names).mean()) > 0.8
    model.save(tmp_path / "model")
    assert FiniteAggregationClassifier.load(tmp_path / "model").predict(X).tolist() == model.predict(X).tolist()


def test_contributors_that_float64_would_merge_stay_apart():
    split, ids = Split("group"), np.arange(BIG, BIG + 200)
    samples = to_samples(np.zeros((200, 1)))
    partition = split.partitions(samples, 10**6, groups=ids)
    assert len(set(partition.tolist())) > 190
    assert split.partitions(samples, 10**6, groups=ids.tolist()).tolist() == partition.tolist()
    assert split.partitions(samples, 10**6, groups=pd.Series(ids)).tolist() == partition.tolist()
    assert content.partitions(split.as_dict(), 10**6, np.zeros((200, 1)), None, ids).tolist() == partition.tolist()


def test_ids_in_files_keep_every_digit(tmp_path):
    ids = [2**63 + 5 * i for i in range(40)]
    frame = pd.DataFrame({"x": range(40), "y": ["a", "b"] * 20, "id": np.array(ids, np.uint64)})
    frame["decimal"] = [Decimal(10**25 + i) / 1000 for i in range(40)]
    frame.to_parquet(tmp_path / "own.parquet")
    np.savez(tmp_path / "own.npz", X=np.zeros((40, 2)), y=np.array([0, 1] * 20), id=np.array(ids, np.uint64))
    for name, column in (("own.parquet", "id"), ("own.npz", "id"), ("own.parquet", "decimal")):
        how = ReadOptions(label="y" if name != "own.npz" else None, group_column=column, test=tmp_path / name)
        data = open_files(tmp_path / name, how)
        assert len(set(data.train.groups)) == 40
        if column == "id":
            assert data.train.groups.tolist() == list(map(str, ids))
    assert text_of(Decimal("0.1"), "") == text_of(0.1, "") == "0.1"
    assert text_of(Decimal("7.0"), "") == text_of(7.0, "") == "7"


def test_the_checker_leaves_out_the_rows_that_training_left_out(tmp_path):
    odd = with_last(np.nan)
    dataset = Dataset.of("digits", odd, np.array([*Y, 3]), X[:30], Y[:30], np.arange(10))
    with pytest.warns(PremiseWarning, match="have missing values"):
        run(dataset, FiniteAggregationClassifier(GaussianNB(), k=5, d=2, classes=range(10)), tmp_path / "run")
    verdict = verify(tmp_path / "run", data=dataset)
    assert verdict.failed == (), str(verdict)
    assert "120 training samples have the digests that are stated and the partitions" in str(verdict)

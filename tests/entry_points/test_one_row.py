"""One odd row stops nothing and merges nothing: it is read, or left out, by what it holds itself."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

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
from refused import refused

X, Y = (part[:120] for part in load_digits(return_X_y=True))


def fitted(learner, samples, labels, groups=None, **options):
    model = FiniteAggregationClassifier(learner, k=7, d=2, **{"classes": range(10), **options})
    return model.fit(samples, labels, groups)


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
    with refused("labels.missing"):
        fitted(GaussianNB(), X, [None] * 120, classes=None)
    with pytest.raises(ValueError, match="Unknown label type"):
        fitted(GaussianNB(), X, np.arange(120) + 0.5, classes=None)
    with refused("split.pixel-sum"):
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
    odd = np.vstack([X, np.where(np.arange(64) == 20, np.nan, X[3])])
    dataset = Dataset.of("digits", odd, np.array([*Y, 3]), X[:30], Y[:30], np.arange(10))
    with pytest.warns(PremiseWarning, match="have missing values"):
        run(dataset, FiniteAggregationClassifier(GaussianNB(), k=5, d=2, classes=range(10)), tmp_path / "run")
    verdict = verify(tmp_path / "run", data=dataset)
    assert verdict.failed == (), str(verdict)
    assert "120 training samples have the digests that are stated and the partitions" in str(verdict)

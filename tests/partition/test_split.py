import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from poisonproof import Split
from refused import refused

X = np.random.default_rng(0).integers(0, 17, (200, 6)).astype(float)


def parts(split, X=X, n=50, **more):
    return split.partitions(split.samples(X), n, **more)


@pytest.mark.parametrize("kind", ["content", "pixel-sum"])
def test_a_partition_is_a_function_of_the_own_row(kind):
    split = Split(kind)
    everything = parts(split)
    order = np.random.default_rng(1).permutation(len(X))
    assert (parts(split, X[order]) == everything[order]).all()
    assert [int(parts(split, X[[row]])[0]) for row in range(20)] == everything[:20].tolist()
    assert everything.min() >= 0
    assert everything.max() < 50


def test_content_fills_partitions_evenly():
    many = np.random.default_rng(2).random((50_000, 3))
    sizes = np.bincount(parts(Split(), many), minlength=50)
    assert sizes.min() > 850
    assert sizes.max() < 1150


def test_pixel_sum_is_the_papers():
    images = np.random.default_rng(3).integers(0, 256, (20, 4, 4), dtype=np.uint8)
    expected = images.astype(int).sum(axis=(1, 2)) % 50
    assert parts(Split("pixel-sum", "uint8"), images).tolist() == expected.tolist()
    assert parts(Split("pixel-sum"), images.astype(float)).tolist() == expected.tolist()
    assert parts(Split("pixel-sum"), sp.csr_matrix(images.reshape(20, -1))).tolist() == expected.tolist()


def test_groups_decide_by_id_and_not_by_content():
    split = Split("group")
    ids = np.array(["ann", "bob", "cy", "ann"] * 50)
    got = parts(split, groups=ids)
    assert all(len(set(got[ids == name])) == 1 for name in ("ann", "bob", "cy"))
    assert len(set(got)) == 3
    assert (parts(split, X[::-1], groups=ids) == got).all()
    assert (parts(split, groups=pd.Series(ids, dtype="category")) == got).all()
    numbers = parts(split, groups=np.arange(200))
    assert (parts(split, groups=np.arange(200, dtype=float)) == numbers).all()


def test_labels_count_only_when_declared():
    labels = np.array([0, 1] * 100)
    assert (parts(Split(), labels=labels) == parts(Split(), labels=1 - labels)).all()
    hashed = Split(hash_labels=True)
    assert (parts(hashed, labels=labels) != parts(hashed, labels=1 - labels)).mean() > 0.9
    assert (parts(hashed, labels=labels) == parts(hashed, labels=labels.astype(float))).all()


def test_other_processes_with_other_hash_seeds_agree():
    code = "import numpy as np; from poisonproof import Split; s = Split('group'); X = np.arange(12.0).reshape(4, 3); "
    code += "print(Split().partitions(Split().samples(X), 1000).tolist(), "
    code += "s.partitions(s.samples(X), 1000, groups=list('abca')).tolist())"
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1


def test_records_come_back():
    split = Split("content", "uint8", 784, True)
    assert Split.from_dict(split.as_dict()) == split
    assert Split.of("group") == Split("group")
    with refused("split.record"):
        Split.from_dict({"kind": "content", "extra": 1})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Split("random"), "must be one of 'content', 'pixel-sum' and 'group'. Got 'random'"),
        (lambda: Split(dtype="int16"), "'dtype' of a split"),
        (lambda: Split(n_features=0), "at least 1. Got 0"),
        (lambda: Split("group", hash_labels=True), "Only the 'content' split can hash labels"),
        (lambda: parts(Split("group")), "needs groups"),
        (lambda: parts(Split("group"), groups=[1]), "200 samples but 1 groups"),
        (lambda: parts(Split(), groups=[1] * 200), "Groups were given, but the split is 'content'"),
        (lambda: parts(Split(hash_labels=True)), "hashes labels, so it needs them"),
        (lambda: parts(Split("pixel-sum"), X + 0.5), "needs whole numbers, but X holds fractions"),
        (lambda: parts(Split("pixel-sum"), sp.csr_matrix(X + 0.5)), "needs whole numbers"),
        (lambda: parts(Split("pixel-sum"), ["a", "b"]), "the samples are texts; use 'content'"),
        (lambda: parts(Split(n_features=5)), "6 features per sample, but 5 were declared"),
    ],
)
def test_bad_splits_are_refused_in_one_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()

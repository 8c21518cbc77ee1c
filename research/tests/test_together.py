"""Runs that share features and kernels write what each would have written alone, to the byte."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from heard import heard
from poisonproof import (
    FiniteAggregationClassifier,
    Split,
    Spread,
    data,
)
from poisonproof.estimators.prepared import prepare
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from poisonproof.learners.table import TableClassifier
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.run import run
from poisonproof.system.files import read_record
from poisonproof.training.pooled import fit_pooled, votes_together
from research.maps.digits import DigitFeatures
from research.paper.together import Wanted, run_together

IMAGES, LABELS = load_digits().images[:260].astype(np.uint8) * 15, load_digits().target[:260]
DATASET = data.Dataset.of("tiny", IMAGES[:220], LABELS[:220], IMAGES[220:], LABELS[220:], np.arange(10), dtype="uint8")
SPREADS = {"dpa": Spread.random(5, 1), "finite": Spread.random(4, 3), "plane": Spread.planes(2, 2)}


def model(spread, learner=None):
    learner = learner or KernelRidgeClassifier(DigitFeatures(copies=3, hand=None), gamma=2.0)
    return FiniteAggregationClassifier(learner, spread=spread, split=Split(dtype="uint8"), classes=range(10), n_jobs=1)


def wanted(folder, learner=None):
    return {folder / name: Wanted(model(spread, learner), name == "dpa") for name, spread in SPREADS.items()}


def files_of(folder):
    return read_record(folder / "manifest.json")["files"]


@pytest.fixture
def alone(tmp_path):
    """The digests of what each run writes by itself."""
    for folder, (own, rankings) in wanted(tmp_path / "alone").items():
        run(DATASET, own, folder, RunSettings(votes_only=True, rankings=rankings))
    return {name: files_of(tmp_path / "alone" / name) for name in SPREADS}


def test_together_or_alone_the_same_bytes(tmp_path, alone):
    seconds = {}
    outcomes = list(run_together(DATASET, wanted(tmp_path), seconds=seconds))
    assert {name: files_of(tmp_path / name) for name in SPREADS} == alone
    assert [outcome.undefended_accuracy for outcome in outcomes] == [None] * 3
    assert set(seconds) == {"features", "train", "kernel and vote"}
    assert min(seconds.values()) > 0


def test_going_on_after_a_kill_trains_only_what_is_missing(tmp_path, monkeypatch, alone):
    monkeypatch.setattr("poisonproof.training.pooled_engine.SAMPLES_PER_BLOCK", 16)
    list(run_together(DATASET, wanted(tmp_path)))
    before = {name: files_of(tmp_path / name) for name in SPREADS}
    (tmp_path / "finite" / "votes" / "block-00001.npz").unlink()
    (tmp_path / "finite" / "manifest.json").unlink()
    damaged = tmp_path / "plane" / "votes" / "block-00002.npz"
    damaged.write_bytes(damaged.read_bytes()[:-7])
    trained = []
    monkeypatch.setattr(
        "poisonproof.training.pooled_engine.fit_pooled",
        lambda *args, **more: (trained.append(len(args[0].subsets)), fit_pooled(*args, **more))[1],
    )
    with heard() as said:
        list(run_together(DATASET, wanted(tmp_path)))
    assert trained == [12, 14]
    assert any("block-00002.npz" in line and "computed again" in line for line in said)
    assert {name: files_of(tmp_path / name) for name in SPREADS} == before


def test_any_learner_can_be_run_so_but_only_one(tmp_path):
    outcomes = list(run_together(DATASET, wanted(tmp_path, TableClassifier())))
    assert [outcome.certificate.spread.n_subsets for outcome in outcomes] == [5, 12, 14]
    mixed = {
        tmp_path / "a": Wanted(model(SPREADS["dpa"])),
        tmp_path / "b": Wanted(model(SPREADS["dpa"], TableClassifier())),
    }
    with pytest.raises(ValueError, match="same learner"):
        list(run_together(DATASET, mixed))


def test_a_strange_folder_is_left_alone(tmp_path):
    (tmp_path / "plane").mkdir()
    (tmp_path / "plane" / "letter.txt").write_text("dear")
    with pytest.raises(ValueError, match=r"letter\.txt"):
        list(run_together(DATASET, wanted(tmp_path)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plane"]


def test_ensembles_of_different_pools_are_refused():
    pools = [
        fit_pooled(prepare(model(SPREADS["dpa"]), DATASET.train.X, DATASET.train.labels).training) for _ in range(2)
    ]
    samples = Split(dtype="uint8").samples(DATASET.test.X)
    with pytest.raises(ValueError, match="one pool"):
        votes_together(pools, samples, 10, [False, False])

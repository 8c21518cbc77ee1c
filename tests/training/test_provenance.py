"""Which base classifiers were made where, after a run has been on several machines."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.naive_bayes import GaussianNB

from captured_log import captured_log
from poisonproof import Dataset, FiniteAggregationClassifier, Split
from poisonproof.estimators.prepared import prepare
from poisonproof.learners.feature_maps import GlyphFeatures
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.run import run
from poisonproof.system.files import open_arrays, read_record
from poisonproof.system.machine import environment

X, Y = load_wine(return_X_y=True)
WINE = Dataset.of("wine", X[::2], Y[::2], X[1::2], Y[1::2], np.arange(3))
IMAGES, LABELS = load_digits().images[:150].astype(np.uint8) * 15, load_digits().target[:150]
TINY = Dataset.of("tiny", IMAGES[:110], LABELS[:110], IMAGES[110:], LABELS[110:], np.arange(10), dtype="uint8")


def plain():
    return FiniteAggregationClassifier(GaussianNB(), k=25, d=4, classes=range(3))


def pooled():
    learner = KernelRidgeClassifier(GlyphFeatures(copies=1), gamma=2.0)
    return FiniteAggregationClassifier(learner, k=6, d=2, classes=range(10), split=Split(dtype="uint8"))


@pytest.fixture
def machine(monkeypatch):
    """Says on which machine we are from now on."""

    def move(name):
        monkeypatch.setattr("poisonproof.system.machine._environment", lambda: {"poisonproof": "0", "processor": name})

    return move


def where(folder):
    """The processors that had a part in each base classifier, as the manifest states."""
    manifest = read_record(folder / "manifest.json")
    names = [there["processor"] for there in manifest["environments"]]
    return [{names[at] for at in places} for places, count in manifest["made_in"] for _ in range(count)]


def test_an_environment_names_versions_kernel_and_processor():
    here = environment()
    assert here["numpy"] == np.__version__
    assert any(word in here["linear algebra"] for word in ("openblas", "mkl", "blis", "flexiblas", "unknown"))
    assert here["processor"]
    assert json.loads(json.dumps(here)) == here


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
@pytest.mark.parametrize("votes_only", [False, True])
@pytest.mark.parametrize(("make", "dataset"), [(plain, WINE), (pooled, TINY)])
def test_an_update_elsewhere_names_both_machines(tmp_path, machine, make, dataset, votes_only):
    machine("old")
    run(dataset, make(), tmp_path, RunSettings(votes_only=votes_only))
    assert where(tmp_path) == [{"old"}] * prepare(make(), dataset.train.X, dataset.train.labels).spread.n_subsets
    machine("new")
    with captured_log() as said:
        outcome = run(dataset.without([4]), make(), tmp_path, RunSettings(update=True, votes_only=votes_only))
    assert any("begun with another processor" in line for line in said)
    made = where(tmp_path)
    retrained = outcome.manifest.changes[0]["retrained"]
    assert 0 < retrained < len(made)
    blocks = [made[at : at + 64] for at in range(0, len(made), 64)]
    assert all(own == block[0] for block in blocks for own in block)
    assert {"old", "new"} in made
    assert outcome.manifest.environment["processor"] == "new"


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
@pytest.mark.parametrize(("make", "dataset"), [(plain, WINE), (pooled, TINY)])
def test_trained_here_and_voted_there(tmp_path, machine, make, dataset):
    machine("trainer")
    fewer = replace(dataset, test=dataset.test.take(np.arange(1, len(dataset.test))))
    run(fewer, make(), tmp_path)
    assert set().union(*where(tmp_path)) == {"trainer"}
    machine("voter")
    run(dataset, make(), tmp_path, RunSettings(update=True))
    assert all(own == {"trainer", "voter"} for own in where(tmp_path))


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
def test_a_run_resumed_elsewhere_says_which_blocks_were_made_there(tmp_path, machine):
    machine("one")
    run(WINE, plain(), tmp_path)
    (tmp_path / "votes" / "block-00001.npz").unlink()
    machine("two")
    run(WINE, plain(), tmp_path)
    assert where(tmp_path) == [{"one"}] * 64 + [{"two"}] * 36
    assert "environments" in open_arrays(tmp_path / "votes" / "block-00001.npz")[1]

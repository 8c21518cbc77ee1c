"""Votes on new samples, and the memory that a pooled learner is given."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import poisonproof.training.memory as memory
from captured_log import captured_log
from command_line import as_process as poisonproof
from poisonproof import Dataset, FiniteAggregationClassifier, Split, Votes
from poisonproof.display import bytes_of
from poisonproof.estimators.prepared import prepare
from poisonproof.learners.feature_maps import GlyphFeatures
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.run import run
from refused import refused

IMAGES, LABELS = load_digits().images[:200].astype(np.uint8) * 15, load_digits().target[:200]
TINY = Dataset.of("tiny", IMAGES[:150], LABELS[:150], IMAGES[150:], LABELS[150:], np.arange(10), dtype="uint8")
FLAT = Dataset.of(
    "flat", IMAGES[:150].reshape(150, -1), LABELS[:150], IMAGES[150:].reshape(50, -1), LABELS[150:], np.arange(10)
)
POOLED = KernelRidgeClassifier(GlyphFeatures(copies=3), gamma=2.0)


def ensemble(dataset):
    learner = POOLED if dataset is TINY else GaussianNB()
    split = Split(dtype="uint8") if dataset is TINY else Split()
    return FiniteAggregationClassifier(learner, k=6, d=2, classes=range(10), split=split)


def test_votes_on_new_pictures_are_kept_and_certified(tmp_path):
    """A pooled learner on somebody's own pictures, within a bound of memory, asked about new ones."""
    for at in range(120):
        home = tmp_path / "images" / str(LABELS[at] % 3)
        home.mkdir(parents=True, exist_ok=True)
        Image.fromarray(IMAGES[at]).save(home / f"{at}.png")
    (tmp_path / "new").mkdir()
    for at in range(150, 160):
        Image.fromarray(IMAGES[at]).save(tmp_path / "new" / f"{at}.png")
    folder = tmp_path / "run"
    words = ("--learner", "glyphs", "--k", 4, "--d", 2, "--out", folder, "--max-memory", "4GB", "--json")
    assert json.loads(poisonproof("run", tmp_path / "images", *words).stdout)["clean_accuracy"] > 0.7
    assert "--out NAME.npy" in poisonproof("predict", folder, tmp_path / "new", "--votes", code=2).stderr
    kept = poisonproof("predict", folder, tmp_path / "new", "--votes", "--out", tmp_path / "new.npy", "--json")
    assert json.loads(kept.stdout) == {"out": str(tmp_path / "new.npy"), "samples": 10, "voters": 8}
    said = json.loads(poisonproof("certify", tmp_path / "new.npy", "--json").stdout)
    poisonproof("predict", folder, tmp_path / "new", "--out", tmp_path / "p.csv")
    answers = list(csv.DictReader((tmp_path / "p.csv").open()))
    assert [int(answer["radius"]) for answer in answers] == said["radius"]
    assert Votes.load(tmp_path / "new.npy").matrix.shape == (10, 8)


def test_memory_is_told_before_it_is_taken(tmp_path, monkeypatch):
    with refused("memory.too-small"):
        run(TINY, ensemble(TINY), tmp_path / "run", RunSettings(max_memory=10**7))
    assert not (tmp_path / "run").exists()
    bounded = run(FLAT, ensemble(FLAT), tmp_path / "bounded", RunSettings(max_memory=10**12)).votes.matrix
    assert np.array_equal(bounded, run(FLAT, ensemble(FLAT), tmp_path / "unbounded").votes.matrix)
    monkeypatch.setattr(memory, "_solving", lambda rows, width: 10**15)
    with pytest.raises(MemoryError, match=r"this needs \d,\d+ TB and the machine has .* choose other subsets"):
        run(TINY, ensemble(TINY), tmp_path / "run")


def test_a_bound_changes_no_vote_and_shortens_the_chunks(tmp_path, monkeypatch):
    expected = run(TINY, ensemble(TINY), tmp_path / "free").votes.matrix
    prepared = prepare(ensemble(TINY), TINY.train.X, TINY.train.labels)
    asked = prepared.learner, prepared.source, 10, 50
    need = memory.pooled_memory(*asked)
    assert need.within(need.least, 1).kernel_bytes < need.within(2 * need.least, 1).kernel_bytes
    widths = []
    monkeypatch.setattr(memory, "peak_bytes", lambda: 0)
    least = memory.pooled_memory(*asked).least
    real = KernelRidgeClassifier.pool_of

    def watched(self, rows):
        pool = real(self, rows)
        columns = type(pool).kernel_columns
        monkeypatch.setattr(
            type(pool),
            "kernel_columns",
            lambda self, test: widths.append(len(test)) or columns(self, test),
            raising=True,
        )
        monkeypatch.setattr(KernelRidgeClassifier, "pool_of", real)
        return pool

    monkeypatch.setattr(KernelRidgeClassifier, "pool_of", watched)
    with captured_log() as said:
        outcome = run(TINY, ensemble(TINY), tmp_path / "bound", RunSettings(max_memory=least))
    assert (outcome.votes.matrix == expected).all()
    assert widths[:4] == [16, 16, 16, 2]
    assert any("needs more than --max-memory" in line for line in said) == (outcome.undefended_accuracy is None)


@pytest.mark.posix
def test_the_estimate_is_above_what_is_taken(tmp_path):
    """Peak memory of a process of its own, on 4,000 images in 40 subsets, against the bound it was given."""
    code = """
import resource, sys
import numpy as np
from poisonproof import Dataset, FiniteAggregationClassifier, Split
from poisonproof.learners.feature_maps import GlyphFeatures
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from poisonproof.training.memory import pooled_memory
from poisonproof.estimators.prepared import prepare
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.run import run
rng = np.random.default_rng(0)
X, y = rng.integers(0, 256, (4000, 8, 8), dtype=np.uint8), rng.integers(0, 10, 4000)
dataset = Dataset.of("noise", X, y, X[:200], y[:200], np.arange(10), dtype="uint8")
model = FiniteAggregationClassifier(
    KernelRidgeClassifier(GlyphFeatures(copies=3), gamma=2.0),
    k=20, d=2, classes=range(10), split=Split(dtype="uint8"),
)
run(Dataset.of("few", X[:60], y[:60], X[:9], y[:9], np.arange(10), dtype="uint8"), model, sys.argv[1] + "-few")
need = pooled_memory(model.estimator, prepare(model, X, y).source, 10, 200)
bound = need.least + 2 * 10**7
run(dataset, model, sys.argv[1], RunSettings(max_memory=bound))
print(bound, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "run")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    bound, peak = map(int, done.stdout.split())
    assert peak <= bound


@pytest.mark.parametrize(
    ("text", "size"), [("4GB", 4 * 10**9), ("500mb", 5 * 10**8), ("1.5", 15 * 10**8), (" 2 GB", 2 * 10**9)]
)
def test_sizes_are_read(text, size):
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "nan", "inf", "4TB", "0"])
def test_sizes_that_are_none(text):
    with refused("options.value"):
        bytes_of(text)

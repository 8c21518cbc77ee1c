"""Base classifiers on a real Ray node of two worker processes, by joblib's door: samples in memory, and on disk."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

pytestmark = [
    pytest.mark.posix,
    pytest.mark.skipif(find_spec("ray") is None, reason="RAY NOT TESTED: pip install '.[ray]'"),
]
ON_RAY = """
import sys
import joblib, ray
from ray.util.joblib import register_ray
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB
from poisonproof import FiniteAggregationClassifier

try:
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", object_store_memory=100 << 20)
except Exception as error:
    sys.exit(f"no node: {error}")
register_ray()
X, y = load_digits(return_X_y=True)
ensemble = FiniteAggregationClassifier(GaussianNB(), k=10, d=2, classes=range(10))
alone = ensemble.set_params(n_jobs=1).fit(X[:600], y[:600]).votes(X[600:660]).matrix
with joblib.parallel_config("ray", n_jobs=2):
    assert joblib.parallel.get_active_backend()[0].__class__.__module__.startswith("ray.")
    there = ensemble.set_params(n_jobs=None).fit(X[:600], y[:600]).votes(X[600:660]).matrix
assert (there == alone).all()
assert len(set(alone.ravel().tolist())) > 1

# Samples on disk: a task carries the name of their folder and numbers of partitions, and workers read them.
from pathlib import Path
import numpy as np
from poisonproof import Split, Spread
from poisonproof.data import ReadOptions
from poisonproof.data.large import open_large
from poisonproof.data.large_source import Source
from poisonproof.partition.store import PartitionStore
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.run import run

folder = Path(sys.argv[1])
rng = np.random.default_rng(0)
lines = [f"{a:.3f},{b:.3f},{'yes' if a > b else 'no'}" for a, b in rng.normal(size=(600, 2))]
(folder / "data.csv").write_text("a,b,y\\n" + "\\n".join(lines))
spread = Spread.random(10, 4)
source = Source.of(folder / "data.csv", ReadOptions(schema={"a": "number", "b": "number", "y": "label"}))
dataset = open_large(
    source, Split(), spread.n_partitions, folder / "store", max_memory=10**11, complete_only=True
)
model = FiniteAggregationClassifier(GaussianNB(), spread=spread)
settings = RunSettings(votes_only=True, undefended=False, max_memory=10**11)
run(dataset, model.set_params(n_jobs=1), folder / "alone", settings)

PartitionStore.partition = None  # nobody reads one here: workers have code of their own
with joblib.parallel_config("ray", n_jobs=2):
    run(dataset, model.set_params(n_jobs=None), folder / "ray", settings)
votes = [np.load(folder / place / "votes.npy") for place in ("alone", "ray")]
assert (votes[0] == votes[1]).all()
assert len(set(votes[0].ravel().tolist())) > 1
ray.shutdown()
print("the same votes")
"""


def test_votes_of_workers_of_ray_are_those_of_one_process(tmp_path):
    environment = {**os.environ, "RAY_raylet_start_wait_time_s": "120", "RAY_USAGE_STATS_ENABLED": "0"}
    words = [sys.executable, "-c", ON_RAY, str(tmp_path)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=400, check=False)
    if "no node:" in done.stderr:
        pytest.skip(f"RAY NOT TESTED: its node did not start here ({done.stderr.strip().splitlines()[-1][:200]})")
    assert done.returncode == 0, done.stderr
    assert "the same votes" in done.stdout

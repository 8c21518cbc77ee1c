"""Data on disk on a real Dask cluster: tasks carry names and numbers, and workers read their own partitions."""

import joblib
import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from poisonproof import FiniteAggregationClassifier, Split, Spread
from poisonproof.data.options import ReadOptions
from poisonproof.data.out_of_core import Source, open_large
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.run import run
from poisonproof.training import memory as member_memory
from refused import refused

pytestmark = pytest.mark.posix
distributed = pytest.importorskip("distributed")


def test_workers_read_their_partitions(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    lines = [f"{a:.3f},{b:.3f},{'yes' if a > b else 'no'}" for a, b in rng.normal(size=(600, 2))]
    (tmp_path / "data.csv").write_text("a,b,y\n" + "\n".join(lines))
    options = ReadOptions(schema={"a": "number", "b": "number", "y": "label"})
    spread = Spread.random(20, 4)
    source = Source.of(tmp_path / "data.csv", options)
    dataset = open_large(
        source, Split(), spread.n_partitions, tmp_path / "store", max_memory=10**11, complete_only=True
    )
    model = FiniteAggregationClassifier(GaussianNB(), spread=spread)
    settings = RunSettings(votes_only=True, undefended=False, max_memory=10**11)
    run(dataset, model.set_params(n_jobs=1), tmp_path / "alone", settings)
    model.set_params(n_jobs=-1)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
        joblib.parallel_config("dask"),
    ):
        client.wait_for_workers(2, timeout=60)
        run(dataset, model, tmp_path / "cluster", settings)
        monkeypatch.setattr(member_memory, "PROCESS_BYTES", 10**15)
        with refused("memory.too-small"):
            run(dataset, model, tmp_path / "small", settings)
    names = [tmp_path / folder / "votes.npy" for folder in ("alone", "cluster")]
    assert names[0].read_bytes() == names[1].read_bytes()

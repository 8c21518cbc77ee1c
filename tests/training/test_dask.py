"""A run on a real Dask cluster of two worker processes, both of which die at their first task."""

import os
import shutil
import signal
from pathlib import Path

import joblib
import numpy as np
import pytest

from ensembles import FirstSeen, first_seen
from poisonproof import Dataset, FiniteAggregationClassifier, Spread, load
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.run import run
from poisonproof.samples.kinds import NumberSamples
from poisonproof.system.parallel import WorkerDiedError

pytestmark = pytest.mark.posix

distributed = pytest.importorskip("distributed")

DIGITS = load("digits")
FEW = Dataset.of("few", DIGITS.train.X, DIGITS.train.labels, DIGITS.test.X[:9], DIGITS.test.labels[:9], DIGITS.classes)


class Trapped(FirstSeen):
    """Kills the processes that train base classifiers 0 and 50, in two tasks: once, or as long as there are traps."""

    def __init__(self, trap="", once=True, random_state=None):
        super().__init__()
        self.trap, self.once, self.random_state = trap, once, random_state

    def fit(self, X, y):
        trap = Path(self.trap, str(self.random_state))
        if trap.exists():
            if self.once:
                trap.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(X, y)


def start(folder, trap, once=True):
    model = FiniteAggregationClassifier(Trapped(str(trap), once), k=50, d=4, classes=range(10))
    return run(FEW, model, folder, RunSettings(votes_only=True))


def set_traps(folder):
    folder.mkdir(exist_ok=True)
    for i in (0, 50):
        (folder / str(i)).touch()


def votes_of(folder):
    return (folder / "votes.npy").read_bytes()


def test_dask_workers_die_and_nothing_is_lost(tmp_path, monkeypatch):
    sent = []

    def counted(self, protocol):
        sent.append(len(self))
        return object.__reduce_ex__(self, protocol)

    monkeypatch.setattr(NumberSamples, "__reduce_ex__", counted, raising=False)
    trap = tmp_path / "trap"
    start(tmp_path / "alone", trap)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
        joblib.parallel_config("dask"),
    ):
        client.wait_for_workers(2, timeout=60)
        set_traps(trap)
        start(tmp_path / "once", trap)
        assert not any(trap.iterdir())
        assert votes_of(tmp_path / "once") == votes_of(tmp_path / "alone")
        expected = first_seen(DIGITS.train.X, DIGITS.train.labels, Spread.random(50, 4), 9)
        assert np.array_equal(np.load(tmp_path / "once" / "votes.npy"), expected)
        assert sorted(sent) == [9, len(DIGITS.train)]  # not once per task, of which there are four

        client.wait_for_workers(2, timeout=60)  # with a single one joblib would work in this process
        client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
        set_traps(trap)
        with pytest.raises(WorkerDiedError, match=r"^A worker process died, killed or out of memory \(\w+\)"):
            start(tmp_path / "always", trap, once=False)
        assert not (tmp_path / "always" / "votes.npy").exists()
    shutil.rmtree(trap)
    start(tmp_path / "always", trap, once=False)
    assert votes_of(tmp_path / "always") == votes_of(tmp_path / "alone")
    assert np.load(tmp_path / "always" / "votes.npy").shape == (9, 200)

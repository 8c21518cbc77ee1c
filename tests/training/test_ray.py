"""Training on a real Ray cluster by joblib's door: the same votes as alone."""

import importlib.util
import os
import sys

import joblib
import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from poisonproof import FiniteAggregationClassifier, data
from poisonproof.system.workers import WorkerDiedError, own_workers

pytestmark = pytest.mark.posix

if importlib.util.find_spec("ray") is None:
    print("*** RAY IS NOT INSTALLED: its door is not tested here (pip install ray) ***", file=sys.stderr)
    pytest.skip("Ray is not installed (pip install ray)", allow_module_level=True)


class Dying(GaussianNB):
    def fit(self, X, y):
        os._exit(1)


@pytest.fixture(scope="module")
def cluster():
    os.environ["RAY_AUTH_MODE"] = "disabled"
    import ray
    from ray.util.joblib import register_ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100_000_000)
    register_ray()
    yield
    ray.shutdown()


def test_votes_on_ray_are_those_of_one_process(cluster):
    digits = data.load("digits")
    X, y = digits.x_train.reshape(len(digits.x_train), -1).astype(float), digits.y_train
    model = FiniteAggregationClassifier(GaussianNB(), k=10, d=2, classes=range(10), n_jobs=1)
    alone = model.fit(X, y).votes(X[:60]).matrix
    model.set_params(n_jobs=2)
    with joblib.parallel_config("ray"):
        with own_workers(None, 2) as options:
            assert options == {}
        assert np.array_equal(model.fit(X, y).votes(X[:60]).matrix, alone)
        with pytest.raises(WorkerDiedError, match="A worker process died"):
            FiniteAggregationClassifier(Dying(), k=10, d=2, classes=range(10), n_jobs=2).fit(X, y)

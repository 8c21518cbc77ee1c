"""Whatever a learner could draw from or divide among threads is set by us: seeds, jobs, caches, libraries it brings."""

import os
import random
import subprocess
import sys
import textwrap
from importlib.util import find_spec

import numpy as np
import pytest
from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from poisonproof import FiniteAggregationClassifier, check_estimator_purity
from poisonproof.learners.inspection import seeded
from poisonproof.system import determinism as threads
from poisonproof.system.determinism import preserve_rng, reproducible

X, Y = (part[:120] for part in load_digits(return_X_y=True))


class Drawing(ClassifierMixin, BaseEstimator):
    """Says a class drawn at random, from a generator of some name."""

    def __init__(self, seed=None, random_seed=7, rng=None, generator=None, thread_count=-1, nthread=None):
        self.seed = seed
        self.random_seed = random_seed
        self.rng = rng
        self.generator = generator
        self.thread_count = thread_count
        self.nthread = nthread

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.drawn_ = self.classes_[self.draw() % len(self.classes_)]
        return self

    def draw(self):
        return int(np.random.default_rng(self.rng).integers(1000))

    def predict(self, X):
        return np.full(len(X), self.drawn_)


def votes(learner, **options):
    return FiniteAggregationClassifier(learner, k=5, d=2, classes=range(10), **options).fit(X, Y).votes(X[:5]).matrix


def test_every_number_of_threads_and_every_seed_is_set():
    params = seeded(Drawing(), 3).get_params()
    assert params == {
        "seed": 3,
        "random_seed": 3,
        "rng": 3,
        "generator": None,
        "thread_count": 1,
        "nthread": 1,
    }
    deep = seeded(make_pipeline(StandardScaler(), BaggingClassifier(RandomForestClassifier(n_jobs=-1), n_jobs=2)), 4)
    found = deep.get_params(deep=True)
    assert {found[name] for name in found if name.endswith("n_jobs")} == {1}
    assert {found[name] for name in found if name.endswith("random_state")} == {4}


def test_jobs_that_scikit_learn_leaves_to_joblib_stay_so():
    """joblib gives them one job here, and LogisticRegression warns of any number, which must not become an error."""
    deep = seeded(make_pipeline(StandardScaler(), LogisticRegression()), 4)
    assert deep[-1].n_jobs is None
    assert seeded(make_pipeline(StandardScaler(), LogisticRegression(n_jobs=3)), 4)[-1].n_jobs == 1


def test_a_seed_that_is_something_else_is_left_alone():
    assert seeded(Drawing(seed="a word", random_seed=True), 3).seed == "a word"
    assert seeded(Drawing(random_seed=True), 3).random_seed is True


def test_generators_are_seeded_anew_whatever_was_drawn_from_them():
    generator = np.random.default_rng(5)
    first = votes(Drawing(rng=generator))
    generator.normal(size=3)
    assert (votes(Drawing(rng=generator)) == first).all()
    assert (votes(Drawing()) == first).all()
    assert len(np.unique(first[0])) > 1
    state = seeded(Drawing(rng=np.random.RandomState(5)), 3).rng
    assert state.randint(1000) == np.random.RandomState(3).randint(1000)


class HiddenJobs(Drawing):
    """Shares its work among as many jobs as it is given, without a parameter that says so."""

    def draw(self):
        doubled = Parallel(n_jobs=3, prefer="threads")(delayed(effective_n_jobs)(4) for _ in range(2))
        return max(*doubled, effective_n_jobs(4), effective_n_jobs(None))


@pytest.mark.parametrize("backend", ["loky", "threading", "sequential"])
def test_jobs_that_no_parameter_shows_run_one_after_the_other(backend):
    with parallel_config(backend, n_jobs=2):
        model = FiniteAggregationClassifier(HiddenJobs(), k=2, d=1, classes=range(10), n_jobs=1).fit(X, Y)
    assert {int(member.model.drawn_) for member in model.members_} == {1}


def test_caches_between_base_classifiers_are_taken_out(tmp_path):
    learner = make_pipeline(StandardScaler(), DecisionTreeClassifier(), memory=str(tmp_path))
    assert seeded(learner, 0).memory is None
    votes(learner)
    assert list(tmp_path.iterdir()) == []


class DrawsFromTorch(Drawing):
    """Takes its number from PyTorch's global generator, or from one of its own."""

    def draw(self):
        import torch

        return int(torch.randint(1000, (1,), generator=self.generator)) + 1000 * (torch.get_num_threads() - 1)


@pytest.mark.skipif(not find_spec("torch"), reason="PyTorch is not installed")
@pytest.mark.parametrize("own", [False, True])
def test_torch_is_seeded_too(own):
    import torch

    torch.manual_seed(0)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    generator = torch.Generator() if own else None
    first = votes(DrawsFromTorch(generator=generator))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads
    torch.manual_seed(1)
    if own:
        generator.manual_seed(77)
    assert (votes(DrawsFromTorch(generator=generator)) == first).all()
    assert len(np.unique(first[0])) > 1


LATE = textwrap.dedent(
    """
    import sys, warnings
    import numpy as np
    from sklearn.base import BaseEstimator, ClassifierMixin
    from threadpoolctl import threadpool_info
    from poisonproof import FiniteAggregationClassifier

    class Late(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            if {in_fit}:
                import {library}
            self.threads_ = max(pool["num_threads"] for pool in threadpool_info())
            return self

        def predict(self, X):
            import {library}
            threads = max(pool["num_threads"] for pool in threadpool_info())
            return np.full(len(X), min(max(threads, self.threads_) - 1, 1))

    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    pools = {{pool["filepath"] for pool in threadpool_info()}}
    model = FiniteAggregationClassifier(Late(), k=2, d=1, classes=[0, 1]).fit(X, y)
    votes = model.votes(X[:3]).matrix
    grown = [pool for pool in threadpool_info() if pool["filepath"] not in pools]
    print(len(grown), votes.max(), max(pool["num_threads"] for pool in grown))
    """
)


@pytest.mark.parametrize("in_fit", [True, False], ids=["in fit", "in predict"])
@pytest.mark.skipif(not find_spec("lightgbm"), reason="LightGBM is not installed")
def test_libraries_that_a_learner_brings_get_one_thread_too(in_fit):
    """A thread pool that was loaded inside `fit` is limited and the base classifier trained again; given back after."""
    done = subprocess.run(
        [sys.executable, "-c", LATE.format(library="lightgbm", in_fit=in_fit)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "3"},
    )
    assert done.stdout.split() == ["1", "0", "3"]


class NeverSettles(Drawing):
    """Brings another module each time, and takes back the limit."""

    def draw(self):
        from threadpoolctl import threadpool_limits

        sys.modules[f"brought_{len(sys.modules)}"] = sys
        threadpool_limits(2)
        return 0


def test_a_learner_that_keeps_taking_threads_is_not_taken_for_a_subset_that_fails():
    before = set(sys.modules)
    try:
        with pytest.raises(OSError, match="brought libraries with threads of their own 20 times over"):
            votes(NeverSettles())
    finally:
        for name in set(sys.modules) - before:
            if name.startswith("brought_"):
                del sys.modules[name]


class AnswersInTurn(Drawing):
    """Answers otherwise every second time it is asked."""

    asked = 0

    def predict(self, X):
        AnswersInTurn.asked += 1
        return np.full(len(X), AnswersInTurn.asked // 10 % 2)


class ReadsTheThread(Drawing):
    """Depends on the thread it runs in."""

    def fit(self, X, y):
        import threading

        super().fit(X, y)
        self.drawn_ = self.classes_[0 if threading.current_thread() is threading.main_thread() else -1]
        return self


def test_the_purity_check_asks_twice_and_with_threads():
    assert "when asked a second time" in str(check_estimator_purity(AnswersInTurn(), X, Y, k=5, d=2, max_test=5))
    assert "in other threads" in str(check_estimator_purity(ReadsTheThread(), X, Y, max_test=5))


def drawn(index):
    with reproducible(index):
        return np.random.normal(), np.random.random(), random.gauss(0, 1), random.random()


def test_base_classifiers_draw_the_same_alone_and_among_others_and_the_caller_goes_on_where_it_was():
    alone = [drawn(index) for index in range(3)]
    for seed in range(3):
        np.random.seed(seed)
        random.seed(seed)
        np.random.normal(), random.gauss(0, 1)  # each keeps a second number for the next call
        expected = np.random.get_state(), random.getstate()
        with preserve_rng():
            assert [drawn(index) for index in range(3)] == alone
            with preserve_rng():
                assert drawn(1) == alone[1]
            assert drawn(2) == alone[2]
        assert repr((np.random.get_state(), random.getstate())) == repr(expected)
        assert drawn(0) == alone[0]
        assert repr((np.random.get_state(), random.getstate())) == repr(expected)


@pytest.mark.parametrize("takes_another_out", [False, True])
def test_a_module_that_is_brought_in_is_noticed(takes_another_out, monkeypatch):
    monkeypatch.setitem(sys.modules, "some_older_module", threads)
    monkeypatch.setitem(sys.modules, "some_module", threads)
    pools = [{"num_threads": 2}]
    monkeypatch.setattr(threads, "threadpool_info", lambda: pools)
    monkeypatch.setattr(threads, "threadpool_limits", lambda limit: pools[0].update(num_threads=limit))
    calls = []

    def work():
        calls.append(1)
        if takes_another_out:
            sys.modules.pop("some_older_module", None)
        monkeypatch.setitem(sys.modules, "some_new_module", threads)
        return len(calls)

    assert threads.with_limited_libraries(work) == 2, "done again once the library is limited"
    assert threads.with_limited_libraries(work) == 3

"""Updates: what was retrained is what had to be, and the result is a refit's, to the bit."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_wine
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid

from captured_log import captured_log
from poisonproof import Dataset, FiniteAggregationClassifier
from poisonproof.core.split import Split
from poisonproof.learners.feature_maps import GlyphFeatures
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier, Pool
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.run import run
from poisonproof.runs.undefended import Lesson
from poisonproof.system.files import sha256_of
from poisonproof.training.members import train_and_vote
from refused import refused

X, Y = load_wine(return_X_y=True)
IMAGES = load_digits().images[:150].astype(np.uint8) * 15
DIGITS = load_digits().target[:150]

POOLED = KernelRidgeClassifier(GlyphFeatures(copies=1), gamma=2.0)
OF_PICTURES = {"k": 6, "d": 2, "classes": range(10), "split": Split(dtype="uint8")}
RESULTS = ("votes.npy", "votes.json", "certificate.npz", "spread.npz", "split.npy")


def same(model, fresh, test):
    assert model.classes_.tolist() == fresh.classes_.tolist()
    assert (model.subset_digests_ == fresh.subset_digests_).all()
    assert model.subset_sizes_.tolist() == fresh.subset_sizes_.tolist()
    one, two = model.votes(test), fresh.votes(test)
    assert one.matrix.tobytes() == two.matrix.tobytes()
    assert [str(premise) for premise in one.premises] == [str(premise) for premise in two.premises]
    assert model.certify(test).radius.tobytes() == fresh.certify(test).radius.tobytes()


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
def test_a_pooled_learner_is_updated_as_it_is_fitted():
    """Of other learners tests/estimators/test_update_is_a_refit.py compares every bit that they are fed."""
    model = FiniteAggregationClassifier(POOLED, **OF_PICTURES).fit(IMAGES[:110], DIGITS[:110])
    assert len(model.update(add=(IMAGES[110:112], DIGITS[110:112]), remove=[3, 17]).retrained) <= 8
    now, now_y = (np.delete(one[:112], [3, 17], axis=0) for one in (IMAGES, DIGITS))
    same(model, FiniteAggregationClassifier(POOLED, **OF_PICTURES).fit(now, now_y), IMAGES[112:])


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
def test_one_sample_reaches_d_of_the_base_classifiers():
    model = FiniteAggregationClassifier(GaussianNB(), k=25, d=4, classes=range(3)).fit(X, Y)
    assert len(model.update(remove=[3]).retrained) == 4
    assert len(model.update(add=(X[3:4], Y[3:4])).retrained) == 4
    same(model, FiniteAggregationClassifier(GaussianNB(), k=25, d=4, classes=range(3)).fit(X, Y), X)
    assert len(model.update().retrained) == 0


def one(learner, labels, samples=X, **options):
    return FiniteAggregationClassifier(learner, k=5, d=2, **options).fit(samples, labels)


def test_other_parameters_are_heeded():
    for change in (
        {"k": 3},
        {"estimator": NearestCentroid()},
        {"split": Split(hash_labels=True)},
        {"estimator__var_smoothing": 0.5},  # inside the learner, which the model shares with what it remembers
    ):
        model = one(GaussianNB(), Y).set_params(**change)
        model.update(remove=[50])
        fresh = FiniteAggregationClassifier(GaussianNB(), k=5, d=2).set_params(**change)
        same(model, fresh.fit(np.delete(X, 50, 0), np.delete(Y, 50)), X)


def test_other_classes_are_heeded_though_they_are_written_alike():
    """A number and its text are one label, and the name is the one that was declared last."""
    model = one(GaussianNB(), Y, classes=range(3)).set_params(classes=["0", "1", "2"])
    model.update(remove=[50])
    assert model.classes_.tolist() == ["0", "1", "2"]


def test_samples_changed_in_place_are_noticed():
    mine = X.copy()
    model = FiniteAggregationClassifier(GaussianNB(), k=4, d=2).fit(mine, Y)
    mine[5] += 1
    assert 0 < len(model.update().retrained) <= 4
    same(model, FiniteAggregationClassifier(GaussianNB(), k=4, d=2).fit(mine, Y), X)
    entries = sp.csr_matrix(np.maximum(X - X.mean(axis=0), 0))
    learner = SGDClassifier(max_iter=3, tol=None)
    model = FiniteAggregationClassifier(learner, k=4, d=2).fit(entries, Y)
    entries.data[entries.indptr[5]] += 1
    model.update(remove=[50])
    stay = np.delete(np.arange(len(Y)), 50)
    same(model, FiniteAggregationClassifier(learner, k=4, d=2).fit(entries[stay], Y[stay]), entries[:40])
    labels = Y.tolist()
    model = FiniteAggregationClassifier(GaussianNB(), k=4, d=2).fit(X, labels)
    labels[5] = 2
    assert 0 < len(model.update().retrained) <= 2
    same(model, FiniteAggregationClassifier(GaussianNB(), k=4, d=2).fit(X, labels), X)


def test_a_loaded_model_is_told_its_data_and_keeps_none(tmp_path):
    model = FiniteAggregationClassifier(NearestCentroid(), k=4, d=2).fit(X, Y)
    model.save(tmp_path / "model")
    for loaded in (pickle.loads(pickle.dumps(model)), FiniteAggregationClassifier.load(tmp_path / "model")):
        assert not hasattr(loaded, "_given")
        with refused("update.no-data"):
            loaded.update(remove=[1])
        loaded.update(remove=[1], data=(X, Y))
        fresh = FiniteAggregationClassifier(NearestCentroid(), k=4, d=2).fit(np.delete(X, 1, axis=0), np.delete(Y, 1))
        same(loaded, fresh, X)
    assert len(model.update(remove=[1]).retrained) == 2, "pickling a model takes nothing from it"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"remove": [900]}, r"row numbers 0 … 177 or be a mask"),
        ({"remove": [-1]}, "row numbers"),
        ({"remove": [0.5]}, "row numbers"),
        ({"remove": np.ones(5, bool)}, r"mask 'remove' has shape \(5,\), but there are 178"),
        ({"remove": np.ones(178, bool)}, "Nothing would be left"),
        ({"add": (X[:2], Y[:3])}, "2 samples but 3 labels"),
        ({"add": (X[:2, :5], Y[:2])}, r"shape \(5,\) each, the others \(13,\)"),
        ({"add": X[:2]}, r"must be \(X, y\)"),
    ],
)
def test_a_refused_update_changes_nothing(change, message):
    model = FiniteAggregationClassifier(GaussianNB(), k=3, d=2).fit(X, Y)
    before = model.certify(X).radius
    with pytest.raises((ValueError, TypeError), match=message):
        model.update(**change)
    assert (model.certify(X).radius == before).all()
    assert len(model.update().retrained) == 0


# Runs

WINE = Dataset.of("wine", X[::2], Y[::2], X[1::2], Y[1::2], np.arange(3))


def start(folder, dataset, **options):
    model = FiniteAggregationClassifier(GaussianNB(), k=25, d=4, classes=range(3))
    with captured_log() as said:
        return run(dataset, model, folder, RunSettings(**options)), said


def bytes_of(folder):
    return {name: (folder / name).read_bytes() for name in RESULTS}


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
@pytest.mark.parametrize("votes_only", [False, True])
def test_an_updated_run_is_a_fresh_run_on_the_new_data(tmp_path, votes_only, monkeypatch):
    start(tmp_path / "run", WINE, votes_only=votes_only)
    changed = WINE.without([4, 40])
    trained = []
    with monkeypatch.context() as patch:
        patch.setattr(
            "poisonproof.training.members.train_and_vote",
            lambda job, wanted, *rest: trained.extend(wanted) or train_and_vote(job, wanted, *rest),
        )
        outcome, _ = start(tmp_path / "run", changed, update=True, votes_only=votes_only)
    assert 4 < sum(map(len, trained)) <= 8
    start(tmp_path / "fresh", changed, votes_only=votes_only)
    assert bytes_of(tmp_path / "run") == bytes_of(tmp_path / "fresh")
    change = outcome.manifest.changes[0]
    assert (change["n_train_before"], change["n_train"], change["of"]) == (89, 87, 100)
    assert change["retrained"] == sum(map(len, trained))
    if not votes_only:
        served, fresh = (FiniteAggregationClassifier.load(tmp_path / name / "models") for name in ("run", "fresh"))
        assert (served.votes(X).matrix == fresh.votes(X).matrix).all()


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
@pytest.mark.parametrize("votes_only", [False, True])
def test_test_samples_may_go_and_come(tmp_path, votes_only):
    """A row that is deleted may have been held out for testing; then nothing of it stays in the votes."""
    start(tmp_path / "run", WINE, votes_only=votes_only)
    changed = Dataset.of("wine", WINE.train.X, WINE.train.labels, X[3::3], Y[3::3], np.arange(3))
    start(tmp_path / "run", changed, update=True, votes_only=votes_only)
    start(tmp_path / "fresh", changed, votes_only=votes_only)
    assert bytes_of(tmp_path / "run") == bytes_of(tmp_path / "fresh")
    blocks = [path.name for path in (tmp_path / "fresh" / "votes").iterdir()]
    for name in blocks if votes_only else []:
        assert sha256_of(tmp_path / "run" / "votes" / name) == sha256_of(tmp_path / "fresh" / "votes" / name)


@pytest.mark.parametrize("votes_only", [True, False])
def test_a_pooled_run_is_updated_too(votes_only, tmp_path, monkeypatch):
    monkeypatch.setattr("poisonproof.training.pooled.SAMPLES_PER_BLOCK", 16)
    dataset = Dataset.of("tiny", IMAGES[:110], DIGITS[:110], IMAGES[110:], DIGITS[110:], np.arange(10), dtype="uint8")

    def once(folder, dataset, **more):
        run(
            dataset,
            FiniteAggregationClassifier(POOLED, **OF_PICTURES),
            folder,
            RunSettings(votes_only=votes_only, **more),
        )

    once(tmp_path / "run", dataset)
    changed = dataset.without([17])
    shared, solved = [], []
    real, solve, accuracy = KernelRidgeClassifier.share, Pool.solve, Lesson.accuracy
    monkeypatch.setattr(Lesson, "accuracy", lambda *given: accuracy(*given))  # nothing remembered from other tests
    monkeypatch.setattr(KernelRidgeClassifier, "share", lambda self, X: shared.append(len(X)) or real(self, X))
    monkeypatch.setattr(Pool, "solve", lambda self, *rest: solved.append(1) or solve(self, *rest))
    once(tmp_path / "run", changed, update=True)
    assert len(solved) == 4, "two base classifiers were trained again, and both undefended models"
    if votes_only:
        assert shared[1] < 80, "only the samples of the two subsets were looked at"
    once(tmp_path / "fresh", changed)
    assert bytes_of(tmp_path / "run") == bytes_of(tmp_path / "fresh")
    fewer = replace(changed, test=changed.test.take(np.arange(20)))
    once(tmp_path / "run", fewer, update=True)
    assert len(list((tmp_path / "run" / "votes").iterdir())) == 2, "nothing of test samples that are gone"


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
def test_what_cannot_be_updated_is_refused(tmp_path):
    with refused("run.missing"):
        start(tmp_path / "none", WINE, update=True)
    with refused("data.unknown-row"):
        WINE.without([89])

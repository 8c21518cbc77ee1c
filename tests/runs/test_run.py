"""Run directories: whole, resumable, and honest about damage."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from captured_log import captured_log
from poisonproof import Certificate, Dataset, FiniteAggregationClassifier, Spread, Votes, load
from poisonproof.core.split import Split
from poisonproof.learners.feature_maps import GlyphFeatures
from poisonproof.learners.inspection import describe
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from poisonproof.learners.presets import preset
from poisonproof.runs.election import threat_model
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.report import write_report
from poisonproof.runs.run import damage, run
from poisonproof.system.files import open_arrays, read_record, sha256_of
from poisonproof.training.pooled import FEATURES, POOLED_FILES
from refused import refused
from tests.helpers.premises import in_words

DIGITS = load("digits")
RESULTS = ("votes.npy", "votes.json", "certificate.npz", "spread.npz", "split.npy")


def start(folder, estimator=None, **options):
    settings = {"k": 20, "d": 8, "classes": range(10)}
    model = FiniteAggregationClassifier(estimator or GaussianNB(), **{**settings, **options})
    with captured_log() as said:
        return run(DIGITS, model, folder), said


def bytes_of(folder):
    return {name: (folder / name).read_bytes() for name in RESULTS}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    start(folder)
    return folder


def test_a_run_holds_what_the_estimator_says(whole):
    outcome, said = start(whole)
    assert said == [f"going on with the run in {whole}"]
    model = FiniteAggregationClassifier(GaussianNB(), k=20, d=8, classes=range(10)).fit(
        DIGITS.train.X, DIGITS.train.labels
    )
    votes = Votes.load(whole / "votes.npy")
    assert (votes.matrix == model.votes(DIGITS.test.X).matrix).all()
    certificate = Certificate.load(whole / "certificate.npz")
    assert (certificate.radius == model.certify(DIGITS.test.X).radius).all()
    assert Spread.load(whole / "spread.npz") == model.spread_
    assert np.bincount(np.load(whole / "split.npy"), minlength=160).tolist() == model.partition_sizes_.tolist()
    served = FiniteAggregationClassifier.load(whole / "models")
    assert (served.votes(DIGITS.test.X).matrix == votes.matrix).all()
    alone = GaussianNB().fit(DIGITS.train.X, DIGITS.train.labels).score(DIGITS.test.X, DIGITS.test.labels)
    assert outcome.undefended_accuracy == alone
    assert outcome.base_accuracy == np.mean(votes.matrix == DIGITS.test.labels[:, None])
    manifest = read_record(whole / "manifest.json")
    assert manifest["status"] == "complete"
    assert all(sha256_of(whole / name) == digest for name, digest in manifest["files"].items())
    assert "classes: 10 labels, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 (declared)" in in_words(manifest)


def test_an_interrupted_run_goes_on_and_ends_with_the_same_bytes(whole, tmp_path, monkeypatch):
    import poisonproof.runs.election as module

    real, calls = module.write_arrays, []

    def interrupted(path, *rest):
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(path)
        return real(path, *rest)

    monkeypatch.setattr(module, "write_arrays", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start(tmp_path / "run")
    assert read_record(tmp_path / "run" / "manifest.json")["status"] == "running"
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run" / "votes").iterdir()}
    assert sorted(kept) == ["block-00000.npz", "block-00001.npz"]
    monkeypatch.setattr(module, "write_arrays", real)
    start(tmp_path / "run", n_jobs=2)
    assert {name: (tmp_path / "run" / "votes" / name).stat().st_mtime_ns for name in kept} == kept
    assert bytes_of(tmp_path / "run") == bytes_of(whole)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 10}, r"holds another run: its k differs \(20 there, 10 asked for\)"),
        ({"estimator": GaussianNB(var_smoothing=0.5)}, "its learner differs"),
        ({"split": "pixel-sum"}, "its split differs"),
    ],
)
def test_another_run_in_the_folder_is_refused(whole, options, message):
    before = bytes_of(whole)
    with pytest.raises(ValueError, match=message):
        start(whole, **options)
    assert bytes_of(whole) == before


def test_a_folder_of_somebody_else_is_refused(tmp_path):
    (tmp_path / "holiday.jpg").write_bytes(b"sun")
    with refused("run.taken"):
        start(tmp_path)
    assert [item.name for item in tmp_path.iterdir()] == ["holiday.jpg"]


def test_an_altered_manifest_is_refused(tmp_path):
    start(tmp_path)
    text = (tmp_path / "manifest.json").read_text().replace('"k": 20', '"k": 21')
    (tmp_path / "manifest.json").write_text(text)
    with refused("file.damaged"):
        start(tmp_path)


def test_another_machine_is_said(whole, monkeypatch):
    monkeypatch.setattr("poisonproof.runs.election.environment", lambda: {"numpy": "9.9"})
    _, said = start(whole)
    assert any("begun with another" in line and "numpy" in line for line in said)


def test_the_threat_table_follows_the_split():
    assert threat_model(Split())["flip the label of a training sample"] == 1
    assert threat_model(Split(hash_labels=True))["flip the label of a training sample"] == 2
    assert threat_model(Split("group"))["change anything in the training samples of one contributor"] == 1
    assert threat_model(Split())["change a test sample"] == "not covered"


class Narrow(GaussianNB):
    """Raises on some samples, which ones depends on its subset."""

    def fit(self, X, y):
        self.mood_ = len(X)
        return super().fit(X, y)

    def predict(self, X):
        if ((X.sum(axis=1) + self.mood_) % 7 == 0).any():
            raise RuntimeError("not that one")
        return super().predict(X)


def test_a_run_answers_whenever_the_estimator_does(tmp_path):
    """Also when the last block is a single base classifier that cannot answer."""
    model = FiniteAggregationClassifier(Narrow(), spread=Spread.random(65, 1), classes=range(10))
    few = replace(DIGITS, test=DIGITS.test.take(np.arange(40)))  # each is asked about alone
    outcome = run(few, model, tmp_path, RunSettings(votes_only=True))
    assert outcome.undefended_accuracy is None
    assert "?" in write_report(outcome).read_text()
    assert open_arrays(tmp_path / "votes" / "block-00001.npz")[0]["refusals"].max() == 1
    again = FiniteAggregationClassifier(Narrow(), spread=Spread.random(65, 1), classes=range(10))
    again.fit(DIGITS.train.X, DIGITS.train.labels)
    assert (outcome.certificate.radius == again.certify(few.test.X).radius).all()


def test_a_long_learner_is_told_from_another_as_long(tmp_path):
    """repr shortens long parameters; the manifest must not."""
    one, two = (
        make_pipeline(ColumnTransformer([("some", "passthrough", columns)]), GaussianNB())
        for columns in (list(range(64)), list(range(31)) + [0] * 33)
    )
    assert repr(one) == repr(two)
    assert describe(one) != describe(two)
    start(tmp_path, one)
    with refused("run.other"):
        start(tmp_path, two)


def test_learners_are_described_without_addresses():
    def twice(X):
        return X * 2

    def thrice(X):
        return X * 3

    assert describe(FunctionTransformer(twice)) != describe(FunctionTransformer(thrice))
    assert "0x" not in describe(FunctionTransformer(lambda X: X))
    assert describe(GaussianNB()) == "GaussianNB()"
    assert "copies=3" in describe(preset("glyphs"))
    assert describe(GaussianNB(priors=np.array([0.5, 0.5]))) != describe(GaussianNB(priors=np.array([0.4, 0.6])))


@pytest.mark.parametrize("votes_only", [True, False])
def test_a_pooled_run_goes_on_by_test_samples_and_mends_damage(votes_only, tmp_path, monkeypatch):
    images = load_digits().images[:300].astype(np.uint8) * 15
    labels = load_digits().target[:300]
    dataset = Dataset.of("tiny", images[:240], labels[:240], images[240:], labels[240:], np.arange(10), dtype="uint8")
    learner = KernelRidgeClassifier(GlyphFeatures(copies=3), gamma=2.0)
    monkeypatch.setattr("poisonproof.training.pooled.KERNEL_BYTES", 1)
    monkeypatch.setattr("poisonproof.training.pooled.SAMPLES_PER_BLOCK", 16)

    def once(folder):
        model = FiniteAggregationClassifier(learner, k=6, d=2, classes=range(10), split=Split(dtype="uint8"))
        with captured_log() as said:
            return run(dataset, model, folder, RunSettings(votes_only=votes_only)), said

    def everything(folder):
        kept = [] if votes_only else [(folder / "models" / name).read_bytes() for name in POOLED_FILES]
        return bytes_of(folder), kept

    outcome, _ = once(tmp_path / "run")
    before = everything(tmp_path / "run")
    alone = FiniteAggregationClassifier(learner, k=6, d=2, classes=range(10), split=Split(dtype="uint8"))
    alone.fit(images[:240], labels[:240])
    assert (outcome.certificate.radius == alone.certify(images[240:]).radius).all()
    files = sorted((tmp_path / "run" / "votes").iterdir())
    assert len(files) == 4
    body = bytearray(files[1].read_bytes())
    body[len(body) // 2] ^= 1
    files[1].write_bytes(body)
    files[2].unlink()
    kept = files[0].stat().st_mtime_ns
    _, said = once(tmp_path / "run")
    assert any(files[1].name in line and "computed again" in line for line in said)
    assert files[0].stat().st_mtime_ns == kept
    assert everything(tmp_path / "run") == before
    if votes_only:
        assert not (tmp_path / "run" / "models").exists()
        return
    back = FiniteAggregationClassifier.load(tmp_path / "run" / "models")
    assert (back.votes(images[240:]).matrix == outcome.votes.matrix).all()
    for name in POOLED_FILES:
        path = tmp_path / "run" / "models" / name
        body = bytearray(path.read_bytes())
        body[len(body) // 2] ^= 1
        path.write_bytes(body)
        assert any(name in line for line in damage(tmp_path / "run"))
        with pytest.raises(ValueError, match=rf"{name} is (altered|damaged)"):
            FiniteAggregationClassifier.load(tmp_path / "run" / "models")
        _, said = once(tmp_path / "run")
        assert any(name in line and "computed again" in line for line in said)
        assert everything(tmp_path / "run") == before
    (tmp_path / "run" / "models" / FEATURES).unlink()
    _, said = once(tmp_path / "run")
    assert any(f"{FEATURES} is damaged or missing. It is computed again." in line for line in said)
    assert everything(tmp_path / "run") == before
    assert not damage(tmp_path / "run")

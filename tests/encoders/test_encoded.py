"""An encoder in front: partitions and identity by the raw sample, base classifiers and ballots by the embedding."""

import json
import subprocess
import sys
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import poisonproof
from drawn import binomial
from encoding import SMALL, pictures
from poisonproof import (
    BallotClassifier,
    FiniteAggregationClassifier,
    KernelRidgeClassifier,
    NeighborVoteClassifier,
    Split,
    TableClassifier,
    check_estimator_purity,
    preset,
    write_embeddings,
)
from poisonproof.encoders import base as encoders
from poisonproof.encoders.base import EncoderRecord, as_encoder
from poisonproof.encoders.encoded import EncodedClassifier, in_front
from poisonproof.estimators.prepared import prepare
from poisonproof.learners.feature_maps import GlyphFeatures, VectorFeatures
from poisonproof.learners.inspection import public_map_of
from poisonproof.samples.kinds import NumberSamples
from poisonproof.training.model_files import types_of
from refused import refused

IMAGES = Split("content", "uint8")
HEADS = {
    "head": preset("head"),
    "linear": KernelRidgeClassifier(kernel="linear", ridge=0.1),
    "logistic": LogisticRegression(),
    "table": TableClassifier(),
    "tree": DecisionTreeClassifier(),
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return poisonproof.encoder(SMALL).cached(tmp_path_factory.mktemp("embeddings"))


@pytest.fixture(scope="module")
def data():
    return pictures(90)


def ensemble(encoder, head=None, **more):
    return FiniteAggregationClassifier(head, k=4, d=2, classes=range(3), split=IMAGES, encoder=encoder, **more)


@pytest.mark.parametrize("name", HEADS)
def test_every_head_is_pure_behind_an_encoder(encoder, data, name):
    X, y = data
    report = check_estimator_purity(in_front(encoder, HEADS[name]), X, y, k=2, d=2, max_test=12)
    assert report.pure, str(report)


@pytest.mark.parametrize("name", ["head", "logistic"])
def test_members_are_the_head_on_embeddings(encoder, data, name):
    """The slow reference: embed, cut into the subsets of the raw samples, train the head, vote."""
    X, y = data
    model = ensemble(encoder, HEADS[name]).fit(X, y)
    votes = model.votes(X[:30]).matrix
    subsets = prepare(model, X, y).subsets
    raw = NumberSamples(X.reshape(len(X), -1))  # what the split sees: nothing of an encoder
    partition = IMAGES.partitions(raw, model.spread_.n_partitions)
    for i in range(model.spread_.n_subsets):
        own = subsets.rows(i)  # in canonical order
        assert set(own) == set(np.flatnonzero(np.isin(partition, model.spread_.partitions_of(i))))
        rows, asked = encoder(X[own])[:, 0] / 2048, encoder(X[:30])[:, 0] / 2048
        if name == "head":
            others = {key: value for key, value in HEADS["head"].get_params().items() if key != "features"}
            alone = KernelRidgeClassifier(VectorFeatures(scale=2048, limit=4095), **others)
        else:
            alone = LogisticRegression(random_state=i)
        assert np.array_equal(votes[:, i], alone.fit(rows, y[own]).predict(asked))
    assert model.certify(X).evaluate(y).clean_accuracy > 0.9


def test_the_partition_comes_from_the_raw_sample(data):
    """Two pictures that an encoder cannot tell apart still go to partitions of their own."""
    X, y = data
    blind = poisonproof.FiniteAggregationClassifier(
        LogisticRegression(), k=4, d=2, classes=range(3), split=IMAGES, encoder=lambda X: np.ones((len(X), 2))
    )
    plain = FiniteAggregationClassifier(LogisticRegression(), k=4, d=2, classes=range(3), split=IMAGES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.array_equal(blind.fit(X, y).partition_sizes_, plain.fit(X.reshape(len(X), -1), y).partition_sizes_)


def test_certificates_name_the_encoder(encoder, data):
    X, y = data
    for model in (
        ensemble(encoder),
        BallotClassifier(encoder, near=0.9, classes=range(3), split=IMAGES),
        NeighborVoteClassifier(encoder, n_neighbors=15, classes=range(3), split=IMAGES),
        binomial(preset("head"), k=3, n_draws=20, classes=range(3), dtype="uint8", encoder=encoder),
    ):
        certificate = model.fit(X, y).certify(X[:20])
        (premise,) = [own for own in certificate.premises if own.code == "encoder"]
        assert premise == encoder.record.premise
        assert encoder.record.weights in repr(certificate) + str(premise)


def test_saved_models_answer_as_before_and_keep_no_cache(encoder, data, tmp_path):
    X, y = data
    for at, head in enumerate((None, LogisticRegression())):
        model = ensemble(encoder, head).fit(X, y)
        model.save(tmp_path / str(at))
        loaded = FiniteAggregationClassifier.load(tmp_path / str(at))
        assert np.array_equal(loaded.votes(X[:20]).matrix, model.votes(X[:20]).matrix)
        assert public_map_of(loaded.estimator) == encoder
        assert public_map_of(loaded.estimator).cache is None
        assert not any(str(encoder.cache).encode() in path.read_bytes() for path in (tmp_path / str(at)).iterdir())
    ballots = BallotClassifier(encoder, near=0.9, classes=range(3), split=IMAGES).fit(X, y)
    ballots.save(tmp_path / "ballots")
    loaded = BallotClassifier.load(tmp_path / "ballots")
    assert np.array_equal(loaded.certify(X[:20]).radius, ballots.certify(X[:20]).radius)


def test_what_does_not_go_together_says_so(encoder, data):
    X, y = data
    with refused("encoder.wrong-kind"):
        FiniteAggregationClassifier(k=2, d=2, encoder=encoder).fit(["a", "b"] * 20, [0, 1] * 20)
    with refused("encoder.wrong-kind"):
        ensemble(encoder).fit(X.reshape(len(X), -1), y)
    with refused("encoder.wrong-kind"):
        ensemble(poisonproof.encoder("wordllama")).fit(X, y)
    with refused("encoder.learner-has-map"):
        ensemble(encoder, KernelRidgeClassifier(GlyphFeatures())).fit(X, y)
    with refused("encoder.learner-has-map"):
        ensemble(encoder, EncodedClassifier(encoder, LogisticRegression())).fit(X, y)
    with refused("type"):
        ensemble("efficientnet-lite0").fit(X, y)
    with refused("encoder.no-function"):
        ensemble(lambda X: np.random.default_rng().normal(size=(len(X), 3))).fit(X, y)


def odd(X):
    """A function of pictures that raises on some, gives NaN for some, and one number more for others."""
    (sample,) = np.asarray(X, float)
    if sample[0, 0, 0] > 250:
        raise ValueError("too bright")
    numbers = sample.reshape(-1)[: 13 if sample[0, 0, 1] > 250 else 12] + 1
    return np.where(sample[0, 0, 2] > 250, np.nan, numbers)[None]


def stated(X):
    return odd(X)


stated.record = EncoderRecord("odd", "1", "here", "none", "0" * 64, "none", "nothing", "images")


@cache
def shapes():
    """Pictures, of which every seventh or so is one that `odd` has no use for."""
    X, y = pictures(66)
    for channel in range(3):
        X[channel + 3 :: 20, 0, 0, channel] = 255
    return X, y


def some_embeddings(folder):
    X, _ = shapes()
    known = X[np.arange(len(X)) % 9 > 0].astype(float)
    return write_embeddings(folder / "some.npz", known, known.reshape(len(known), -1)[:, :9], name="t", trained_on="-")


ENCODERS = {
    "function": lambda folder: as_encoder(odd),
    "function with a record": lambda folder: as_encoder(stated),
    "declared width": lambda folder: poisonproof.encoder(stated, width=12),
    "image network": lambda folder: poisonproof.encoder(SMALL),
    "table of embeddings": some_embeddings,
}
USES = {
    "pooled": lambda one, **more: FiniteAggregationClassifier(k=3, d=2, encoder=one, **more),
    "member by member": lambda one, **more: FiniteAggregationClassifier(GaussianNB(), k=3, d=2, encoder=one, **more),
    "stacked": lambda one, **more: FiniteAggregationClassifier(TableClassifier(), k=3, d=2, encoder=one, **more),
    "neighbours": lambda one, **more: NeighborVoteClassifier(one, n_neighbors=9, **more),
    "ballots": lambda one, **more: BallotClassifier(one, near=0.7, one_sided=True, **more),
}


def answers(use, encoder):
    """All that is certified about some pictures, as bytes."""
    X, y = shapes()
    model = USES[use](encoder, classes=range(3), split=IMAGES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        certificate = model.fit(X[12:], y[12:]).certify(X[:12])
        votes = model.votes(X[:12]).matrix if hasattr(model, "votes") else certificate.exact
    return b"".join(part.tobytes() for part in (certificate.radius, certificate.prediction, certificate.margin, votes))


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """The same answers from another process, which has nothing in memory."""
    folder = tmp_path_factory.mktemp("elsewhere")
    code = (
        "import sys, json, pathlib; sys.path[:0] = ['tests/encoders', 'tests/helpers']; import test_encoded as own;"
        f"folder = pathlib.Path({str(folder)!r});"
        "print(json.dumps({use + name: own.answers(use, make(folder)).hex() for name, make in own.ENCODERS.items() "
        "for use in own.USES}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=Path(__file__).parents[2], check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", ENCODERS)
def test_no_answer_depends_on_what_a_memory_holds(name, use, elsewhere, tmp_path):
    """Empty, warm, half warm and damaged caches, in memory and on disk, and another process: the same bytes."""
    X, _ = shapes()
    encoder = ENCODERS[name](tmp_path)
    encoders._memory.clear()
    expected = answers(use, encoder)
    assert expected.hex() == elsewhere[use + name]
    assert answers(use, encoder) == expected, "in memory, warm"
    measured = encoder.measured(X[12:])
    for part in (X[::2], X[1::2], X[3:5]):
        encoders._memory.clear()
        measured.memoised(part)
        assert answers(use, encoder) == expected, "in memory, half warm"
        kept = encoder.cached(tmp_path / f"{len(part)}")
        measured.cached(kept.cache)(part)
        assert answers(use, kept) == expected, "on disk, half warm"
    assert answers(use, kept) == expected, "on disk, warm"
    for path in Path(kept.cache).rglob("*.npy"):
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert answers(use, kept) == expected, "on disk, damaged"


@pytest.mark.parametrize("function", ["plain", "with a record", "kept on disk"])
def test_no_prediction_changes_within_its_radius_whatever_a_memory_holds(function, tmp_path):
    """Certified warm, rows inserted, fitted cold: rows that an encoder raises on had been zeros in the one and had made
    their base classifiers fall back in the other, and 126 of 159 targets changed within their radius.
    """

    def encode(X):
        if X[0, 0] > 90:
            raise ValueError("a stranger's row")
        return X

    if function != "plain":
        encode.record = EncoderRecord("f", "1", "here", "none", function, "none", "nothing", "numbers")
    encoder = as_encoder(encode)
    encoder = encoder.cached(tmp_path) if function == "kept on disk" else encoder
    random = np.random.default_rng(0)
    y = np.arange(150) % 3
    X = random.normal(size=(150, 4)) + y[:, None] * [2.0, -1.0, 0.0, 1.0]
    strangers = np.column_stack([np.full(30, 99.0), random.normal(size=(30, 3))])
    test = random.normal(size=(40, 4)) + (np.arange(40) % 3)[:, None] * [2.0, -1.0, 0.0, 1.0]

    def fitted(*parts):
        model = FiniteAggregationClassifier(GaussianNB(), k=12, d=2, classes=range(3), encoder=encoder)
        return model.fit(np.concatenate([one for one, _ in parts]), np.concatenate([labels for _, labels in parts]))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted((X, y))
        encoder.measured(X).memoised(X)
        certified = fitted((X, y), (strangers, np.zeros(30, int)))
        certificate = certified.certify(test)
        inserted = (random.normal(size=(1, 4)), np.array([0]))
        encoders._memory.clear()
        encoder = replace(encoder, cache=None)
        cold = fitted((X, y), (strangers, np.zeros(30, int)), inserted)
        held = certificate.radius >= 1
        assert held.sum() > 20
        assert (cold.predict(test) == certified.predict(test))[held].all()
        updated = certified.update(add=inserted) and certified.votes(test).matrix
    assert np.array_equal(updated, cold.votes(test).matrix)


def test_a_helper_that_changed_is_heeded_in_the_same_process(monkeypatch):
    """What a function calls is not in its digest, so nothing of it is remembered from one fit to the next."""
    X, y = shapes()
    model = FiniteAggregationClassifier(GaussianNB(), k=3, d=2, classes=range(3), split=IMAGES, encoder=calling)
    first = model.fit(X[12:], y[12:]).votes(X[:12]).matrix
    monkeypatch.setattr(sys.modules[__name__], "helper", lambda X: 255.0 - X[:, ::-1, ::-1])
    second = model.fit(X[12:], y[12:]).votes(X[:12]).matrix
    encoders._memory.clear()
    assert np.array_equal(model.fit(X[12:], y[12:]).votes(X[:12]).matrix, second)
    assert not np.array_equal(first, second)
    assert not encoders._memory


def calling(X):
    return helper(np.asarray(X, float)).reshape(len(X), -1)[:, :5]


def helper(X):
    return X


@pytest.mark.parametrize("width", [0, -3, True, "12"])
def test_a_declared_width_is_a_whole_number(width):
    with refused("encoder.width"):
        poisonproof.encoder(odd, width=width)
    with refused("encoder.width"):
        poisonproof.encoder("wordllama", width=3)
    with refused("encoder.width"):
        poisonproof.encoder(odd)(shapes()[0])


def test_a_width_is_declared_or_a_premise_and_survives_a_saved_model(tmp_path):
    X, y = shapes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for width, count in ((None, 1), (12, 0)):
            model = ensemble(poisonproof.encoder(odd, width=width), GaussianNB()).fit(X[12:], y[12:])
            found = [premise for premise in model.premises_ if premise.code == "width-of-the-map"]
            assert len(found) == count
            assert all(str(p.value).startswith("12 numbers, as ") and not p.declared for p in found)
            model.save(tmp_path / str(width))
            types = types_of(model.estimator_)
            loaded = FiniteAggregationClassifier.load(tmp_path / str(width), types)
            assert np.array_equal(loaded.votes(X[:12]).matrix, model.votes(X[:12]).matrix)
            data = (np.delete(X[12:], 4, axis=0), np.delete(y[12:], 4))
            loaded.update(remove=[4], data=(X[12:], y[12:]))
            assert np.array_equal(loaded.votes(X[:12]).matrix, model.fit(*data).votes(X[:12]).matrix)


@pytest.mark.parametrize("where", ["first", "last"])
def test_unreadable_samples_in_a_row_stop_nothing(where):
    """Somebody who sends thirty rows in a row that an encoder cannot take does not stop the training."""

    def lengths(texts):
        if any("?" in text for text in texts):
            raise ValueError("a question")
        return np.array([[len(text), text.count("a"), 1.0] for text in texts])

    good = [f"{'a' * (i % 7)} text number {i}" for i in range(80)]
    bad = [f"what is {i}?" for i in range(30)]
    X, y = (bad + good, [0] * 30 + [0, 1] * 40) if where == "first" else (good + bad, [0, 1] * 40 + [0] * 30)
    model = FiniteAggregationClassifier(LogisticRegression(), k=2, d=2, classes=[0, 1], encoder=lengths, n_jobs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert model.fit(X, y).votes(good[:5]).matrix.shape == (5, 4)

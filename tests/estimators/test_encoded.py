"""An encoder in front: partitions and identity by the raw sample, base classifiers and ballots by the embedding."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import poisonproof
from encoding import SMALL, pictures
from poisonproof import (
    BallotClassifier,
    BinomialSelectionClassifier,
    BlockBallotClassifier,
    FiniteAggregationClassifier,
    KernelRidgeClassifier,
    NeighborVoteClassifier,
    PoisonproofError,
    Split,
    TableClassifier,
    check_estimator_purity,
    preset,
)
from poisonproof.estimators.prepared import prepare
from poisonproof.learners.encoded import EncodedClassifier, encoder_in, in_front
from poisonproof.maps.digits import DigitFeatures
from poisonproof.maps.vectors import VectorFeatures
from poisonproof.samples.kinds import NumberSamples

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
    """The slow twin: embed, cut into the subsets of the raw samples, train the head, vote."""
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
    assert model.certify(X).clean_accuracy(y) > 0.9


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
        BallotClassifier(encoder=encoder, near=0.6, metric="cosine", classes=range(3), split=IMAGES),
        BallotClassifier(encoder, near=0.6, metric="cosine", classes=range(3), split=IMAGES),
        NeighborVoteClassifier(encoder=encoder, n_neighbors=15, metric="cosine", classes=range(3), split=IMAGES),
        BlockBallotClassifier(encoder=encoder, near=1.2, k=3, directions=5, classes=range(3), split=IMAGES),
        BinomialSelectionClassifier(preset("head"), k=3, n_draws=20, classes=range(3), dtype="uint8", encoder=encoder),
    ):
        certificate = model.fit(X, y).certify(X[:20])
        (premise,) = [own for own in certificate.premises if own.what == "encoder"]
        assert premise == encoder.premise
        assert encoder.record.weights in repr(certificate) + str(premise)


def test_saved_models_answer_as_before_and_keep_no_cache(encoder, data, tmp_path):
    X, y = data
    for at, head in enumerate((None, LogisticRegression())):
        model = ensemble(encoder, head).fit(X, y)
        model.save(tmp_path / str(at))
        loaded = FiniteAggregationClassifier.load(tmp_path / str(at))
        assert np.array_equal(loaded.votes(X[:20]).matrix, model.votes(X[:20]).matrix)
        assert encoder_in(loaded.estimator) == encoder
        assert encoder_in(loaded.estimator).cache is None
        assert not any(str(encoder.cache).encode() in path.read_bytes() for path in (tmp_path / str(at)).iterdir())
    ballots = BallotClassifier(encoder=encoder, near=0.6, metric="cosine", classes=range(3), split=IMAGES).fit(X, y)
    ballots.save(tmp_path / "ballots")
    loaded = BallotClassifier.load(tmp_path / "ballots")
    assert np.array_equal(loaded.certify(X[:20]).radius, ballots.certify(X[:20]).radius)


def test_update_is_a_refit(encoder, data):
    X, y = data
    model = ensemble(encoder).fit(X[:80], y[:80])
    model.update(add=(X[80:], y[80:]), remove=[3, 5])
    stay = np.setdiff1d(np.arange(90), [3, 5])
    assert np.array_equal(model.votes(X).matrix, ensemble(encoder).fit(X[stay], y[stay]).votes(X).matrix)


def test_texts_in_front_of_any_learner():
    texts = [f"{word} number {at}" for at in range(40) for word in ("football goal match", "stock market bank")]
    labels = ["sport", "money"] * 40
    model = FiniteAggregationClassifier(k=4, d=2, classes=["money", "sport"], encoder=poisonproof.encoder("wordllama"))
    certificate = model.fit(texts, labels).certify(["a match with a late goal", "the bank and its stock"])
    assert certificate.labels.tolist() == ["sport", "money"]


def test_what_does_not_go_together_says_so(encoder, data):
    X, y = data
    with pytest.raises(PoisonproofError, match="takes images, and these samples are texts"):
        FiniteAggregationClassifier(k=2, d=2, encoder=encoder).fit(["a", "b"] * 20, [0, 1] * 20)
    with pytest.raises(PoisonproofError, match="takes images, and these samples are numbers"):
        ensemble(encoder).fit(X.reshape(len(X), -1), y)
    with pytest.raises(PoisonproofError, match="takes texts, and these samples are images"):
        ensemble(poisonproof.encoder("wordllama")).fit(X, y)
    with pytest.raises(PoisonproofError, match="has a feature map of its own, DigitFeatures"):
        ensemble(encoder, KernelRidgeClassifier(DigitFeatures())).fit(X, y)
    with pytest.raises(PoisonproofError, match="has an encoder of its own"):
        ensemble(encoder, EncodedClassifier(encoder, LogisticRegression())).fit(X, y)
    with pytest.raises(PoisonproofError, match="An encoder is what"):
        ensemble("efficientnet-lite0").fit(X, y)
    with pytest.raises(PoisonproofError, match="gave other numbers when it was asked"):
        ensemble(lambda X: np.random.default_rng().normal(size=(len(X), 3))).fit(X, y)
    with pytest.raises(PoisonproofError, match="'features' or 'encoder'"):
        BallotClassifier(encoder, encoder=encoder, near=1.0).fit(X, y)


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

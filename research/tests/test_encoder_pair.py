"""Two encoders side by side: declared lengths, one sample at a time, both of them premises, each with its own cache."""

import numpy as np
import pytest

from encoding import SMALL, network, pictures
from poisonproof import FiniteAggregationClassifier, NeighborVoteClassifier, PoisonproofError, Split
from poisonproof.encoders.base import Encoder
from research.maps.encoder_pair import EncoderPair
from research.maps.joined import side_by_side
from research.maps.named import encoder as encoder_named

OTHER = "efficientnet-lite1@48"
NAME = f"{SMALL}+0.5*{OTHER}"
IMAGES = Split("content", "uint8")


@pytest.fixture(scope="module")
def pair():
    return encoder_named(NAME)


@pytest.fixture(scope="module")
def images():
    return pictures(40, side=16)


@pytest.fixture(scope="module")
def rows(pair, images):
    return pair(images[0])


def test_both_embeddings_have_their_declared_lengths(pair, images, rows):
    first, second = (encoder_named(name)(images[0][:9])[:, 0].astype(float) for name in (SMALL, OTHER))
    first, second = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (first, second))
    expected = np.hstack([first, second / 2]) * 2048 / 1.25**0.5
    assert np.abs(rows[:9, 0] - expected).max() <= 0.5 + 1e-9
    assert pair.scale == 2048


@pytest.mark.parametrize("size", [1, 7, 16])
def test_no_batch_order_or_thread_changes_a_row(pair, images, rows, size, monkeypatch):
    X = images[0]
    assert np.array_equal(np.concatenate([pair(X[at : at + size]) for at in range(0, len(X), size)]), rows)
    order = np.random.default_rng(0).permutation(len(X))
    monkeypatch.setattr("poisonproof.system.threads.n_cores", lambda: 4)
    assert np.array_equal(pair(X[order]), rows[order])


def test_together_is_as_one_by_one(pair, images):
    """The slow reference: the way of every other encoder, a sample after the other."""
    samples = pair.read(images[0][:12])
    assert np.array_equal(pair._rows(samples), Encoder._rows(pair, samples))


def test_names_and_records(pair):
    assert isinstance(pair, EncoderPair)
    assert encoder_named(pair.spec) == pair
    assert EncoderPair.of(pair.encoder, pair.beside, 1).spec == f"{SMALL}+1.0*{OTHER}"
    others = [f"{SMALL}+0.4*{OTHER}", f"{OTHER}+0.5*{SMALL}", SMALL, OTHER, f"{SMALL}+0.5*efficientnet-lite1@49"]
    assert len({encoder_named(name).record.digest for name in (NAME, *others)}) == 6
    for part in (encoder_named(name).record for name in (SMALL, OTHER)):
        assert part.weights in str(pair.record.premise)
        assert part.preprocessing in str(pair.record.premise)
    assert "0.5 times its length" in str(pair.record.premise)
    assert str(pair.record.premise).count("not covered by this proof") == 1


def test_each_keeps_its_embeddings_and_both_forget_them(pair, images, rows, tmp_path):
    X = images[0]
    alone = encoder_named(SMALL).cached(tmp_path)
    alone(X[:6])
    kept = pair.cached(tmp_path)
    assert np.array_equal(kept(X[:10]), rows[:10])
    assert np.array_equal(kept(X[5:15]), rows[5:15])
    other = encoder_named(OTHER).cached(tmp_path)
    assert kept.delete(X[:2]) == 2
    assert alone.delete(X[:3]) == other.delete(X[:3]) == 1  # two are gone from both
    assert kept.encoder.cache is None


def test_where_one_has_no_numbers(pair, tmp_path):
    (tmp_path / "nan.json").write_text('{"size": [16, 16], "trained_on": "noise"}')
    network(tmp_path / "nan.onnx", bias=np.nan)
    X, _ = pictures(3, side=16)
    nothing = encoder_named(f"{tmp_path / 'nan.onnx'}+{OTHER}")
    with pytest.raises(PoisonproofError, match="gave NaN, infinity or nothing"):
        nothing.measured(X)
    behind = EncoderPair.of(encoder_named(OTHER), encoder_named(str(tmp_path / "nan.onnx")))
    first = encoder_named(OTHER)(X)[:, 0]
    rows = behind(X)[:, 0]
    assert np.array_equal(rows, side_by_side(first, np.zeros((3, rows.shape[1] - 1280)), 1.0, 2048.0))
    assert np.array_equal(rows, Encoder._rows(behind, behind.read(X)))


def test_classifiers_take_it_name_both_and_come_back(pair, images, tmp_path):
    X, y = images
    for model in (
        FiniteAggregationClassifier(k=3, d=2, classes=range(3), split=IMAGES, encoder=pair),
        NeighborVoteClassifier(pair, n_neighbors=9, classes=range(3), split=IMAGES),
    ):
        certificate = model.fit(X[10:], y[10:]).certify(X[:10])
        assert pair.record.premise in certificate.premises
        folder = tmp_path / type(model).__name__
        model.save(folder)
        assert np.array_equal(
            type(model).load(folder, ["research.maps.encoder_pair.EncoderPair"]).certify(X[:10]).radius,
            certificate.radius,
        )
        assert (certificate.prediction == y[:10]).mean() > 0.8


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (f"wordllama+{OTHER}", "wordllama takes texts and efficientnet-lite1 takes images"),
        (f"{SMALL}+0*{OTHER}", "must be from 0.01 to 100"),
        (f"{SMALL}+signs+{OTHER}", "two encoders that read samples themselves"),
        (f"{SMALL}+efficientnet-lite1@7", "from 32 to 1024"),
        (f"resnet+{OTHER}", "There is no encoder 'resnet'"),
    ],
)
def test_what_cannot_stand_side_by_side(name, words):
    with pytest.raises(PoisonproofError, match=words):
        encoder_named(name)

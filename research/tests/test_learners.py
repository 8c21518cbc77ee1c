"""Learners and maps of the paper's rows: functions of one sample, and of the subset they are trained on."""

from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from every_learner import COLOUR, IMAGES, ROWS, check_votes_are_a_function_of_the_subset
from poisonproof.errors import PoisonproofError
from poisonproof.learners.kernel_ridge import squared_lengths
from research import learners
from research.maps.digits import DigitFeatures
from research.maps.signs import SignFeatures
from research.seed_averaged import SeedAveragedClassifier

SAMPLES = {"digits": IMAGES, "signs": COLOUR, "objects": COLOUR, "nin": IMAGES, "nin_mirror": COLOUR}


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
@pytest.mark.parametrize("name", [*SAMPLES, "averaged over seeds"])
def test_votes_are_a_function_of_the_subset(name, monkeypatch):
    if name == "averaged over seeds":
        learner = SeedAveragedClassifier(DecisionTreeClassifier(max_features=3), n_seeds=2)
        check_votes_are_a_function_of_the_subset(learner, ROWS, monkeypatch)
        return
    learner = getattr(learners, name)()
    if name.startswith("nin"):
        if not find_spec("torch"):
            pytest.skip("PyTorch is not installed")
        learner.set_params(epochs=1)
    check_votes_are_a_function_of_the_subset(learner, SAMPLES[name], monkeypatch, processes=name != "nin_mirror")


@pytest.mark.parametrize("copies", [1, 3, 9])
def test_digit_features_are_a_function_of_one_image(copies):
    features = DigitFeatures(copies=copies)
    together = features(IMAGES[:40], training=True)
    assert (np.concatenate([features(IMAGES[i : i + 1], training=True) for i in range(40)]) == together).all()
    plain = DigitFeatures(copies=copies, hand=None)(IMAGES[:40], training=True)
    assert (together != plain).any(axis=(1, 2)).all()


@pytest.mark.parametrize("copies", [1, 3, 5, 7])
def test_sign_features_are_a_function_of_one_image(copies):
    colour = np.random.default_rng(0).integers(0, 256, (20, 30, 26, 3), dtype=np.uint8)
    features = SignFeatures(copies=copies)
    together = features(colour, training=True)
    assert together.shape == (20, copies, features.n_features)
    alone = np.concatenate([features(colour[i : i + 1], training=True) for i in range(20)])
    assert (alone == together).all()
    assert (features(colour)[:, 0] == together[:, 0]).all()
    edges = SignFeatures(copies=copies, patches=None)
    assert (edges(colour, training=True) == together[..., : edges.n_features]).all()
    lengths = np.sqrt(squared_lengths(together[..., : edges.n_features].reshape(-1, edges.n_features)))
    assert np.allclose(lengths, 1024, rtol=0.02)
    patches = together[..., edges.n_features :].reshape(20 * copies, -1)
    assert np.allclose(np.sqrt(squared_lengths(patches)), 512, rtol=0.02)
    assert (features(np.repeat(colour[..., :1], 3, axis=3)) == features(colour[..., 0])).all()


def test_sign_features_forgive_light():
    """Half the light and an offset change little; another picture changes much."""
    y, x = np.mgrid[:48, :48]
    disc = 40 + 180 * (np.hypot(y - 24, x - 24) < 12)
    bar = 40 + 180 * (abs(x - 24) < 5)
    images = np.array([disc, disc // 2 + 30, bar], np.uint8)
    bright, dim, other = SignFeatures()(images)[:, 0].astype(float) / 1024
    assert ((bright - dim) ** 2).sum() < 0.05 < 0.2 < ((bright - other) ** 2).sum()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SignFeatures(copies=4)(IMAGES[:2]), r"must be in \[1, 3, 5, 7\]. Got 4"),
        (lambda: SignFeatures()(IMAGES[0]), r"need images"),
        (lambda: SignFeatures(crops=(0.5,))(IMAGES[:2]), "as many as there are blocks"),
    ],
)
def test_bad_input_gets_one_sentence(call, message):
    with pytest.raises(PoisonproofError, match=message):
        call()

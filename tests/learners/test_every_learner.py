"""Every learner by name: its votes are a function of its subset."""

import pytest

from every_learner import FRAME, IMAGES, ROWS, TEXTS, check_votes_are_a_function_of_the_subset
from poisonproof import registry
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from poisonproof.learners.presets import preset

SAMPLES = {
    "table": FRAME,
    "text": TEXTS,
    "auto": FRAME,
    "auto on texts": TEXTS,
    "forest": FRAME,
    "boosting": FRAME,
    "bayes": TEXTS,
    "ridge": TEXTS,
    "glyphs": IMAGES,
    "head": ROWS,  # numbers, as an encoder gives them
    "rbf": ROWS,
    "laplace": ROWS,
    "linear": ROWS,
}


def learner(name):
    if name in ("rbf", "laplace", "linear"):
        return KernelRidgeClassifier(kernel=name, gamma=0.2)
    return preset("auto" if name == "auto on texts" else name)


def test_every_preset_is_here():
    assert set(registry.names("learners")) <= set(SAMPLES)


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
@pytest.mark.parametrize("name", SAMPLES)
def test_votes_are_a_function_of_the_subset(name, monkeypatch):
    check_votes_are_a_function_of_the_subset(learner(name), SAMPLES[name], monkeypatch)

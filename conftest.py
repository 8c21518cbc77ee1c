import hashlib
import os

import numpy as np
import pytest
from hypothesis import settings

import poisonproof.core.theorem2  # noqa: F401  so that certify uses them, and tests are tests of them
from poisonproof.learners.inspection import describe
from poisonproof.runs import undefended

settings.register_profile("poisonproof", deadline=None)
settings.load_profile("poisonproof")


@pytest.fixture(autouse=True, scope="session")
def embeddings_of_tests(tmp_path_factory):
    """Embeddings that commands keep go to a folder of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POISONPROOF_CACHE", str(tmp_path_factory.getbasetemp() / "poisonproof-cache"))
        yield


@pytest.fixture(autouse=True, scope="session")
def strong_models_are_trained_once():
    """Many tests run the same data into a folder; the comparison with gradient boosting took most of their time."""
    train, accuracy, known = undefended._share_of, undefended.Lesson.accuracy, {}

    def remembered(lesson, strong):
        if strong is None or undefended.Lesson.accuracy is not accuracy:  # a test looks at the training itself
            return train(lesson, strong)
        test = lesson.split.samples(lesson.dataset.test.samples)
        parts = (lesson.samples.content_hashes, lesson.codes, lesson.rows, test.content_hashes)
        key = hashlib.sha256(b"|".join(np.ascontiguousarray(part).tobytes() for part in parts))
        key.update(repr((strong.words, describe(strong.learner), list(lesson.dataset.test.labels))).encode())
        if key.digest() not in known:
            known[key.digest()] = train(lesson, strong)
        return known[key.digest()]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(undefended, "_share_of", remembered)
        yield


@pytest.fixture(scope="session")
def tables():
    """For tests that make a frame where the rest of their file needs no extras."""
    pytest.importorskip("pandas", reason="NO TABLES HERE: pip install '.[tables]'")


def pytest_collection_modifyitems(items):
    """What tests with pipes in folders, signals or limits of memory is not for Windows, and says so."""
    if os.name == "nt":
        for item in items:
            if item.get_closest_marker("posix"):
                item.add_marker(pytest.mark.skip(reason="POSIX ONLY: this system has no such pipes, signals or limits"))

import os

import pytest
from hypothesis import settings

import poisonproof.certificates.kernels  # noqa: F401  so that certify uses them, and tests are tests of them

settings.register_profile("poisonproof", deadline=None)
settings.load_profile("poisonproof")


@pytest.fixture(autouse=True, scope="session")
def embeddings_of_tests(tmp_path_factory):
    """Embeddings that commands keep go to a folder of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POISONPROOF_CACHE", str(tmp_path_factory.getbasetemp() / "poisonproof-cache"))
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

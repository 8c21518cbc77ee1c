"""Linear algebra at one thread: libraries are looked for once, and again as soon as one was loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest
from threadpoolctl import ThreadpoolController, threadpool_info

from poisonproof.system import determinism as shared_libraries
from poisonproof.system import determinism as threads

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the linker of this system does not count")


def looked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows whenever libraries are looked for."""
    looks: list[int] = []

    class Counted(ThreadpoolController):
        def __init__(self) -> None:
            looks.append(1)
            super().__init__()

    monkeypatch.setattr(threads, "ThreadpoolController", Counted)
    monkeypatch.setattr(threads, "_libraries", None)
    return looks


@LINUX
def test_libraries_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = looked(monkeypatch)
    for _ in range(3):
        with threads.one_linear_algebra_thread():
            assert all(pool["num_threads"] == 1 for pool in threadpool_info())
    assert len(looks) == 1


def test_where_the_linker_does_not_count_they_are_looked_for_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = looked(monkeypatch)
    monkeypatch.setattr(shared_libraries, "_iterate", None)
    assert shared_libraries.loads() is None
    for _ in range(3):
        with threads.one_linear_algebra_thread():
            assert all(pool["num_threads"] == 1 for pool in threadpool_info())
    assert len(looks) == 3


@LINUX
def test_a_library_that_comes_later_is_limited_too() -> None:
    """In a process of its own: NumPy's linear algebra first, SciPy's after the first question."""
    program = """
import numpy
from threadpoolctl import threadpool_info, threadpool_limits
from poisonproof.system.determinism import loads
from poisonproof.system.determinism import one_linear_algebra_thread

with one_linear_algebra_thread():
    early = {pool["filepath"] for pool in threadpool_info()}
before = loads()
import scipy.linalg
assert loads() != before
assert loads() == loads()
late = {pool["filepath"] for pool in threadpool_info()} - early
assert late, "SciPy brought no library of its own"
threadpool_limits(3)
with one_linear_algebra_thread():
    assert all(pool["num_threads"] == 1 for pool in threadpool_info())
assert {pool["num_threads"] for pool in threadpool_info()} == {3}
print("limited")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "limited\n", done.stderr

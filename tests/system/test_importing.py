"""Imports that carry nothing heavy along."""

import subprocess
import sys
import threading

import pytest

from poisonproof.system.importing import without


def fresh(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_skops_comes_without_pytorch_and_dask_which_can_be_imported_after():
    pytest.importorskip("torch")
    pytest.importorskip("dask")
    told = "print(*('torch' in sys.modules, 'dask' in sys.modules))"
    alone = fresh(f"import sys, skops.io; {told}")
    assert "True" in alone, "skops imports neither by itself any more: this file is not needed then"
    ours = f"import sys; from poisonproof.system.importing import skops_io; skops_io(); {told}; import torch; {told}"
    assert fresh(ours) == ["False", "False", "True", "False"]


def test_only_the_own_thread_and_only_inside_misses_a_package():
    code = """
import threading, sys
from poisonproof.system.importing import without
seen = []
def other():
    import colorsys
    seen.append(colorsys.__name__)
with without(["colorsys"]):
    try:
        import colorsys
    except ModuleNotFoundError as error:
        seen.append(error.name)
    thread = threading.Thread(target=other)
    thread.start(); thread.join()
print(*seen, len([finder for finder in sys.meta_path if type(finder).__name__ == "_Refusing"]))
"""
    assert fresh(code) == ["colorsys", "colorsys", "0"]


def test_what_is_imported_already_stays():
    with without(["threading"]):
        import threading as again
    assert again is threading

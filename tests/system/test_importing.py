"""Imports that carry nothing heavy along."""

import subprocess
import sys
import threading

import pytest

from poisonproof.system.importing import is_a, without


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
from poisonproof.system.importing import is_a, without
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


PUT_OFF = """
import sys, threading
from poisonproof.system.importing import put_off
with put_off(["{0}", "nowhere_to_be_found"]):
    import {0}
    import {0}
    try:
        import nowhere_to_be_found
    except ModuleNotFoundError as error:
        missing = error.name
print("{1}" in sys.modules, missing)
"""


@pytest.mark.parametrize(
    ("use", "told"),
    [
        ("print(xml.dom.minidom.parseString('<a/>').documentElement.tagName)", "a"),
        ("from xml.dom.minidom import Document; print(Document.__name__)", "Document"),
        ("import xml.dom.minidom as again; print(again is xml.dom.minidom and again.Node.__name__)", "Node"),
        ("print(hasattr(xml.dom.minidom, 'nothing'))", "False"),
        ("threads = [threading.Thread(target=lambda: told.append(xml.dom.minidom.Document)) for _ in range(8)]\n"
         "told = []\n[thread.start() for thread in threads]; [thread.join() for thread in threads]\n"
         "print(len(told), len(set(told)))", "8 1"),
    ],
    ids=["attribute", "from", "again", "nothing", "threads"],
)  # fmt: skip
def test_a_module_that_is_put_off_runs_when_something_of_it_is_used(use, told):
    code = PUT_OFF.format("xml.dom.minidom", "xml.dom.expatbuilder")
    after = "print(type(sys.modules['xml.dom.minidom']).__name__, sys.modules['xml.dom.minidom'].__file__ is not None)"
    assert fresh(f"{code}\n{use}\n{after}") == [
        "False", "nowhere_to_be_found", *told.split(), "module", "True",
    ]  # fmt: skip


def test_a_package_that_is_put_off_runs_before_a_module_beneath_it():
    code = PUT_OFF.format("xml.etree", "xml.etree.ElementTree")
    assert fresh(f"{code}\nfrom xml.etree.ElementTree import Element; print(Element('b').tag)")[-1] == "b"
    assert fresh(f"{code}\nimport xml.etree.ElementTree; print(xml.etree.__path__ is not None)")[-1] == "True"


def test_a_module_that_raises_when_it_runs_raises_each_time(tmp_path):
    (tmp_path / "broken.py").write_text("first = 1\nraise ZeroDivisionError")
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from poisonproof.system.importing import put_off
with put_off(["broken"]):
    import broken
for _ in range(2):
    try:
        broken.second
    except ZeroDivisionError:
        print("raised")
"""
    assert fresh(code) == ["raised", "raised"]


def test_frames_and_distributions_are_as_ever_behind_a_late_import():
    pytest.importorskip("pandas")
    code = """
import sys
from poisonproof.system.importing import put_off
with put_off():
    import sklearn.base
print("pandas.core" in sys.modules, "scipy.stats._stats_py" in sys.modules)
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
frame = pd.DataFrame({"a": [0.0, 1, 2, 3], "b": [1.0, 0, 1, 0]})
model = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame, [0, 0, 1, 1])
print(*model.predict(frame), *model.feature_names_in_)
import scipy.stats, scipy.special
print(scipy.stats.norm.ppf(0.5), scipy.special.expit(0.0), type(pd).__name__)
"""
    assert fresh(code) == ["False", "False", "0", "0", "1", "1", "a", "b", "0.0", "0.5", "module"]


def test_objects_are_told_by_classes_that_nobody_imports_for_it():
    import collections

    assert is_a(collections.OrderedDict(), "collections", "OrderedDict")
    assert not is_a({}, "collections", "OrderedDict")
    assert not is_a({}, "collections", "no_such_name")
    ours = "import sys; from poisonproof.system.importing import is_a"
    code = f"{ours}; print(is_a(1, 'colorsys', 'x'), 'colorsys' in sys.modules)"
    assert fresh(code) == ["False", "False"]

"""Learners of the user's own by `MODULE:OBJECT`: found where the user is, and never because a file says so."""

import json
import shutil
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from command_line import as_process, poisonproof
from fish import rows, write_rows
from poisonproof.learners.presets import load_learner
from poisonproof.system.files import read_record, write_record
from poisonproof.training.model_files import types_of

MODULE = '''
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.naive_bayes import BernoulliNB
from sklearn.preprocessing import OneHotEncoder
from sklearn.pipeline import make_pipeline


class Mine(ClassifierMixin, BaseEstimator):
    """Bayes on one-hot cells."""

    def fit(self, X, y):
        self.model_ = make_pipeline(OneHotEncoder(handle_unknown="ignore"), BernoulliNB()).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(X)


instance = make_pipeline(OneHotEncoder(handle_unknown="ignore"), BernoulliNB())
fitted = BernoulliNB().fit([[0], [1]], [0, 1])
number = 7


def make():
    return instance


def needs(more):
    return instance


def raises():
    raise OSError("no weights here")


class Shelf:
    inner = instance
'''
NETWORK = """
from skorch import NeuralNetClassifier
from torch import nn


class Line(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, X):
        return self.layer(X.float())


network = NeuralNetClassifier(Line, criterion=nn.CrossEntropyLoss, max_epochs=2, train_split=None, verbose=0)
"""
SHAPE = ("--label", "kind", "--classes", "cod,eel", "--k", 4, "--d", 2, "--n-jobs", 1)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a module of the user's own in it, where the user is."""
    (tmp_path / "my_learners.py").write_text(MODULE)
    write_rows(tmp_path / "fish.csv", rows(120))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("my_learners", None)


@pytest.mark.parametrize("name", ["instance", "make", "Mine", "Shelf.inner", "fitted"])
def test_an_instance_a_class_and_a_function_are_learners(folder, name):
    learner = load_learner(f"my_learners:{name}")
    assert hasattr(learner, "fit")
    assert not [part for part in vars(learner) if part.endswith("_")], "it comes unfitted"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_such_module:make", r"its module 'no_such_module' does not import \(ModuleNotFoundError: No module named"),
        ("broken:make", r"its module 'broken' does not import \(SyntaxError: "),
        ("leaves:make", r"its module 'leaves' does not import \(SystemExit: 3\)"),
        ("my_learners:maker", "no 'maker'; did you mean 'make'"),
        ("my_learners:", "no ''; there are"),
        (
            "my_learners:needs",
            r"cannot be made \(TypeError: .*; name a scikit-learn classifier, or a class",
        ),
        ("my_learners:raises", r"cannot be made \(OSError: no weights here\)"),
        ("my_learners:number", "cannot be made .TypeError: 'int' object is not callable"),
        ("my_learners:Shelf", "is of type Shelf, without fit and predict"),
        (":make", "cannot be had"),
    ],
)
def test_what_is_no_learner_is_one_sentence(folder, name, words):
    (folder / "broken.py").write_text("def make(:\n")
    (folder / "leaves.py").write_text("raise SystemExit(3)\n")
    with pytest.raises(ValueError, match=words) as caught:
        load_learner(name)
    assert "\n" not in str(caught.value)


def test_a_run_with_a_learner_of_ones_own_is_made_reopened_and_verified(folder):
    """The two worker processes find the module where the user is."""
    done = as_process("run", "fish.csv", "--learner", "my_learners:Mine", *SHAPE[:-1], 2, "--out", "run", "--json")
    premises = json.loads(done.stdout)["premises"]
    assert "learner: Mine(), given as my_learners:Mine (declared)" in premises
    manifest = read_record(folder / "run" / "manifest.json")
    assert manifest["recipe"]["learner"] == "my_learners:Mine"
    said = poisonproof("update", "run", "--remove", 3, code=2).stderr
    assert said.endswith("if its module is yours, say so again: --learner my_learners:Mine.\n")
    again = ("--learner", "my_learners:Mine")
    poisonproof("update", "run", "--remove", 3, *again)
    assert poisonproof("verify", "run", "--retrain", 2, *again).stdout.startswith("VERIFIED")
    poisonproof("predict", "run", "fish.csv", "--out", "answers.csv", *again)
    assert len((folder / "answers.csv").read_text().splitlines()) == 121
    said = poisonproof("audit", "run", "--learner", "my_learners:make", code=2).stderr
    assert "was made with the learner 'my_learners:Mine', not 'my_learners:make'" in said
    (folder / "my_learners.py").unlink()
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    del sys.modules["my_learners"]
    said = poisonproof("update", "run", *again, code=2).stderr
    assert "its module 'my_learners' does not import (ModuleNotFoundError" in said


UNSAFE = """
import functools
import sklearn.naive_bayes


class Printing(sklearn.naive_bayes.BernoulliNB):
    def fit(self, X, y):
        self.say_ = functools.partial(print, len(y))
        return super().fit([[hash(str(row)) % 2] for row in X.to_numpy()], y)

    def predict(self, X):
        return super().predict([[0]] * len(X))


class Late(Printing):
    def fit(self, X, y):
        super().fit(X, y)
        self.say_ = Helper()
        return self


class Helper:
    pass


told = Printing().set_params(class_prior=None)
told.say = print
"""


@pytest.mark.parametrize("name", ["Printing", "Late", "network"])
def test_base_classifiers_that_nobody_could_open_again_are_not_kept(folder, name):
    """`run` had succeeded, `predict` had refused its folder, and `verify` had called it CONSISTENT."""
    (folder / "my_learners.py").write_text(UNSAFE)
    table = ("fish.csv", "--label", "kind", "--classes", "cod,eel")
    if name == "network":
        if not (find_spec("skorch") and find_spec("torch")):
            pytest.skip("NOT TESTED: skorch and torch are not installed; pip install skorch torch")
        (folder / "my_learners.py").write_text(NETWORK)
        rng = np.random.default_rng(0)
        np.savez(folder / "own.npz", X=(x := rng.normal(size=(120, 3))), y=np.where(x[:, 0] > 0, "cod", "eel"))
        table = ("own.npz", "--classes", "cod,eel")
    words = ("run", *table, "--learner", f"my_learners:{name}", "--k", 4, "--no-undefended", "--n-jobs", 1)
    said = poisonproof(*words, "--out", "run", code=2).stderr
    assert "cannot be kept, for nobody could open them again" in said
    assert said.endswith("keep their votes alone by --votes-only, in another --out.\n")
    assert name == "Late" or "partial" in said
    poisonproof(*words, "--out", "votes", "--votes-only")


def test_what_calls_anything_joins_no_trusted_list(folder):
    (folder / "my_learners.py").write_text(UNSAFE)
    sys.path.insert(0, str(folder))
    from my_learners import told

    assert types_of(told) == ["my_learners.Printing"]


@pytest.fixture(scope="module")
def strange(tmp_path_factory):
    """A run whose manifest names a module that lies beside it and inside it."""
    folder = tmp_path_factory.mktemp("strange")
    write_rows(folder / "fish.csv", rows(120))
    poisonproof("run", folder / "fish.csv", *SHAPE, "--out", folder / "run")
    manifest = read_record(folder / "run" / "manifest.json")
    manifest["recipe"]["learner"] = "evil:make"
    write_record(folder / "run" / "manifest.json", manifest)
    for place in (folder, folder / "run"):
        (place / "evil.py").write_text("import pathlib\npathlib.Path('ran').touch()\n")
    return folder


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("update run --remove 1", 2),
        ("audit run", 2),
        ("predict run fish.csv --votes --out new.npy", 2),
        ("predict run fish.csv --out new.csv", 2),
        ("verify run --retrain 1", 0),  # by the learner that was kept, which is ours
        ("verify run", 0),
    ],
)
def test_a_strangers_run_cannot_have_a_module_imported(strange, monkeypatch, command, code):
    for folder, words in (
        (strange, command),
        (strange / "run", command.replace(" run", " .").replace("fish", "../fish")),
    ):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
        done = poisonproof(*words.split(), code=code)
        assert code == 0 or done.stderr.endswith("say so again: --learner evil:make.\n")
        assert not (folder / "ran").exists()
        assert "evil" not in sys.modules

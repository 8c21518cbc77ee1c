import subprocess
import sys
from io import BytesIO
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from poisonproof import FiniteAggregationClassifier
from poisonproof.learners.auto import AutoClassifier
from poisonproof.learners.table import TableClassifier
from poisonproof.learners.text import TextClassifier
from poisonproof.learners.trees import TreesClassifier
from poisonproof.system.files import read_record, write_record
from poisonproof.training.member_files import MEMBERS_PER_FILE, OWN_TYPES, dumped, load_state
from poisonproof.training.model_files import FORMAT, RECORD
from poisonproof.training.plain_learner import plain_schema, read_plain

X, Y = load_wine(return_X_y=True)
FRAME = pd.DataFrame(X[:, :4]).rename(columns=str).assign(kind=np.array(["dry", "sweet"])[(X[:, 0] > 13).astype(int)])
FRAME["kind"] = FRAME["kind"].astype("category")


class Own(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_, counts = np.unique(y, return_counts=True)
        self.most_ = self.classes_[counts.argmax()]
        return self

    def predict(self, X):
        return np.full(len(X), self.most_)


@pytest.mark.parametrize(
    ("estimator", "samples", "options"),
    [
        (None, X, {}),
        (None, FRAME, {"classes": [0, 1, 2]}),
        (make_pipeline(StandardScaler(), LogisticRegression()), X, {}),
        (RandomForestClassifier(2), X, {}),
        (None, X, {"k": 40, "d": 2}),
    ],
    ids=["default", "table", "pipeline", "forest", "two-files"],
)
@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
def test_a_saved_model_serves_the_same_certificate(estimator, samples, options, tmp_path):
    trusted = ["sklearn.tree._tree.Tree"] if isinstance(estimator, RandomForestClassifier) else []
    model = FiniteAggregationClassifier(estimator, **{"k": 5, "d": 2, **options}).fit(samples, Y)
    model.save(tmp_path / "model")
    back = FiniteAggregationClassifier.load(tmp_path / "model", trusted=trusted)
    assert (back.votes(samples).matrix == model.votes(samples).matrix).all()
    assert back.certify(samples).facts() == model.certify(samples).facts()
    assert back.premises_ == model.premises_
    files = sorted(path.name for path in (tmp_path / "model").iterdir())
    assert sum(name.startswith("members") for name in files) == -(-model.spread_.n_subsets // MEMBERS_PER_FILE)


def test_types_nobody_vouched_for_are_refused(tmp_path):
    model = FiniteAggregationClassifier(Own(), k=3, d=2).fit(X, Y)
    model.save(tmp_path)
    with pytest.raises(ValueError, match=r"types that are not known to be safe: .*test_model_files\.Own"):
        FiniteAggregationClassifier.load(tmp_path)
    name = f"{Own.__module__}.Own"
    assert FiniteAggregationClassifier.load(tmp_path, trusted=[name]).predict(X).tolist() == model.predict(X).tolist()


@pytest.mark.parametrize(
    "learner",
    [
        None,
        TableClassifier(),
        TableClassifier(C=2, max_iter=7),
        TreesClassifier("boosting", n_trees=3),
        TextClassifier(),
        AutoClassifier(),
        TableClassifier().fit(X, Y),
    ],
    ids=["none", "default", "set", "trees", "text", "auto", "fitted"],
)
def test_plain_learners_are_written_as_skops_writes_them(learner, tmp_path, monkeypatch):
    plain = dumped(learner)
    with ZipFile(BytesIO(plain)) as archive:
        restored = read_plain(archive, OWN_TYPES)
    is_plain = plain_schema(learner, OWN_TYPES) is not None
    tuples = isinstance(learner, AutoClassifier | TextClassifier)
    assert is_plain == (not hasattr(learner, "classes_") and not tuples)
    assert (restored is not None) == is_plain
    monkeypatch.setattr("poisonproof.training.member_files.plain_schema", lambda *_: None)
    assert dumped(learner) == plain
    (tmp_path / "learner.skops").write_bytes(plain)
    monkeypatch.setattr("poisonproof.training.member_files.read_plain", lambda *_: None)
    by_skops = load_state(tmp_path / "learner.skops")
    assert type(by_skops) is type(learner)
    assert learner is None or by_skops.get_params() == learner.get_params()
    assert restored is None or repr(restored.learner) == repr(learner)


@pytest.mark.parametrize(
    "change",
    [
        ('"max_iter"', '"max_item"'),
        ('"content": "200"', '"content": "[200]"'),
        ('"TableClassifier"', '"Design"'),
        ("poisonproof.learners.table", "builtins"),
        ('"__id__": 3', '"__id__": 4'),
        ("JsonNode", "FunctionNode"),
    ],
    ids=lambda change: change[1],
)
def test_what_only_looks_like_a_plain_learner_is_left_to_skops(change):
    text = plain_schema(TableClassifier(), OWN_TYPES)
    assert change[0] in text
    body = BytesIO()
    with ZipFile(body, "w") as archive:
        archive.writestr("schema.json", text.replace(*change))
    with ZipFile(body) as archive:
        assert read_plain(archive, OWN_TYPES) is None
    with ZipFile(BytesIO(dumped(TableClassifier()))) as archive:
        assert read_plain(archive, OWN_TYPES) is not None


def test_a_model_is_saved_and_opened_without_skops(tmp_path):
    """Its import takes seconds."""
    FiniteAggregationClassifier(k=3, d=2).fit(X, Y).save(tmp_path)
    code = (
        "import sys; from poisonproof import FiniteAggregationClassifier as F; m = F.load(sys.argv[1]); "
        "m.save(sys.argv[1]); print('skops' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"], done.stderr


def test_a_record_cannot_name_files_elsewhere(tmp_path):
    """Even with a digest that agrees."""
    FiniteAggregationClassifier(k=3, d=2).fit(X, Y).save(tmp_path / "model")
    record = read_record(tmp_path / "model" / "model.json")
    record["files"]["../elsewhere.skops"] = record["files"].pop("members-00000.npy")
    del record["digest"]
    write_record(tmp_path / "model" / "model.json", record)
    with pytest.raises(ValueError, match="does not list the files of a model"):
        FiniteAggregationClassifier.load(tmp_path / "model")


@pytest.mark.parametrize("name", ["members-00000.npy", "estimator.skops", "model.json"])
def test_altered_models_are_refused_and_the_file_named(name, tmp_path):
    FiniteAggregationClassifier(k=3, d=2).fit(X, Y).save(tmp_path)
    body = bytearray((tmp_path / name).read_bytes())
    body[len(body) // 2] ^= 1
    (tmp_path / name).write_bytes(body)
    with pytest.raises(ValueError, match=rf"{name} is (altered|damaged)"):
        FiniteAggregationClassifier.load(tmp_path)


def test_a_model_of_another_format_is_refused(tmp_path):
    """Its feature maps may mean something else: better no votes than wrong ones."""
    FiniteAggregationClassifier(k=4, d=2, classes=range(3)).fit(X[:60], Y[:60]).save(tmp_path)
    write_record(tmp_path / RECORD, {**read_record(tmp_path / RECORD), "format": "poisonproof model 1"})
    with pytest.raises(ValueError, match=f"is of format 'poisonproof model 1'; this version reads '{FORMAT}'"):
        FiniteAggregationClassifier.load(tmp_path)

import subprocess
import sys
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
from poisonproof.training.engine import MEMBERS_PER_FILE
from poisonproof.training.model_files import FORMAT, RECORD, dumped, load_state, plain_learner
from refused import refused

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
    with refused("file.damaged"):
        FiniteAggregationClassifier.load(tmp_path)
    name = f"{Own.__module__}.Own"
    assert FiniteAggregationClassifier.load(tmp_path, trusted=[name]).predict(X).tolist() == model.predict(X).tolist()


@pytest.mark.parametrize(
    ("learner", "is_plain"),
    [
        (TableClassifier(), True),
        (TableClassifier(C=2, max_iter=7), True),
        (TreesClassifier("boosting", n_trees=3), True),
        (TextClassifier(), False),
        (AutoClassifier(), False),
        (TableClassifier().fit(X, Y), False),
    ],
    ids=["default", "set", "trees", "text", "auto", "fitted"],
)
def test_learners_with_plain_parameters_are_json_and_come_back(learner, is_plain, tmp_path):
    assert (plain_learner(learner) is not None) == is_plain
    (tmp_path / "learner.skops").write_bytes(dumped(learner))
    back = load_state(tmp_path / "learner.skops")
    assert type(back) is type(learner)
    assert back.get_params() == learner.get_params()
    assert dumped(back) == dumped(learner)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('"max_iter"', '"max_item"'), "is damaged"),
        (("200", "[200]"), "no learner with such parameters"),
        (("table.TableClassifier", "table.linear_scores"), "not known to be safe"),
        (("poisonproof.learners.table.TableClassifier", "builtins.exec"), "not known to be safe"),
        (('"parameters"', '"parameter"'), "is damaged"),
    ],
)
def test_a_learner_that_was_altered_is_refused(change, words, tmp_path):
    text = plain_learner(TableClassifier())
    assert change[0] in text
    with ZipFile(tmp_path / "learner.skops", "w") as archive:
        archive.writestr("learner.json", text.replace(*change))
    with pytest.raises(ValueError, match=words):
        load_state(tmp_path / "learner.skops")


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
    with refused("file.damaged"):
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

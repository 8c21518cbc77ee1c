"""The strong undefended model that stands beside a run: every kind of data has one, and it carries no guarantee."""

import json
import logging

import numpy as np
import pandas as pd
import pytest

from command_line import poisonproof
from poisonproof import FiniteAggregationClassifier
from poisonproof.data.dataset import Dataset
from poisonproof.display import percent
from poisonproof.learners.text import TextClassifier
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.run import run
from poisonproof.runs.undefended import Undefended, of_images, of_tables
from poisonproof.samples.columns import NUMBER, OBJECT
from poisonproof.samples.convert import to_samples
from poisonproof.samples.schema import TableSchema
from poisonproof.system.machine import environment


def mixed(n, seed):
    """Labels that neither the text nor the number tells alone: a word, and a number that is neither large nor small."""
    rng = np.random.default_rng(seed)
    word, number = rng.integers(2, size=n), rng.normal(size=n)
    noise = rng.integers(30, size=(n, 4))
    texts = [f"{' '.join(f'w{at}' for at in row)} {'good' if w else 'bad'}" for row, w in zip(noise, word, strict=True)]
    frame = pd.DataFrame({"words": texts, "number": number, "kind": rng.choice(["a", "b", None], n)})
    return frame, np.array(["yes" if w and abs(x) < 0.7 else "no" for w, x in zip(word, number, strict=True)])


def test_a_table_with_texts_has_one_that_reads_both(tmp_path):
    (x, y), (x_test, y_test) = mixed(600, 0), mixed(200, 1)
    schema = TableSchema((("words", "text"), ("number", "number"), ("kind", "category"), ("y", "label")))
    data = Dataset.of("mixed", x, y, x_test, y_test, None, schema=schema)
    model = FiniteAggregationClassifier(TextClassifier(["words"]), k=3, d=1, n_jobs=1)
    done = run(data, model, tmp_path, RunSettings(votes_only=True))
    share, words = done.strong_undefended
    assert words == "gradient boosting, tf-idf of the texts"
    assert share > 0.9 > done.undefended_accuracy, "no sum of words and numbers tells these classes apart"


def test_texts_that_are_missing_are_empty_ones():
    x, y = mixed(300, 0)
    x.loc[::7, "words"] = None
    for columns, least in ((["words", "number", "kind"], 0.9), (["words"], 0.7)):
        form = [NUMBER if name == "number" else OBJECT for name in columns]
        learner = of_tables(columns, form, ["words"], 300).learner
        assert (learner.fit(x[columns], y).predict(x[columns]) == y).mean() > least


@pytest.mark.parametrize(("shape", "words"), [((4, 16, 16), "the preset glyphs"), ((4, 16, 16, 3), "the encoder")])
def test_pictures_have_one(shape, words):
    assert of_images(to_samples(np.zeros(shape, np.uint8), dtype="uint8")).words.startswith(words)


def test_photographs_have_none_where_no_encoder_is_installed(monkeypatch):
    monkeypatch.setattr("poisonproof.encoders.packaged.find_spec", lambda name: None)
    assert of_images(to_samples(np.zeros((4, 16, 16, 3), np.uint8), dtype="uint8")) is None


def test_the_learner_that_is_the_strong_one_is_not_trained_twice(monkeypatch):
    from poisonproof.estimators.prepared import prepare
    from poisonproof.runs import undefended

    rng = np.random.default_rng(0)
    images = rng.integers(256, size=(40, 16, 16), dtype=np.uint8)
    labels = np.arange(40) % 2
    images[labels == 1, 4:12, 7:9] = 255
    data = Dataset.of("glyphs", images, labels, images, labels, None, dtype="uint8")
    strong = of_images(data.train.samples)
    model = FiniteAggregationClassifier(strong.learner, k=2, d=1, split=undefended.Split("content", "uint8"), n_jobs=1)
    trained = []
    accuracy = undefended.Lesson.accuracy
    monkeypatch.setattr(undefended.Lesson, "accuracy", lambda *args: trained.append(1) or accuracy(*args))
    both = Undefended.of(prepare(model, images, labels), data)
    assert both.undefended_accuracy == both.strong_undefended_accuracy
    assert both.strong_undefended == "the preset glyphs (the same)"
    assert len(trained) == 1


@pytest.mark.parametrize("method", [(), ("--method", "neighbours", "--n-neighbors", "9")])
def test_the_first_figures_come_before_the_undefended_models(tmp_path, method, monkeypatch):
    """People wait for certified fractions, not for what they are compared with."""
    told = []
    for name in ("of", "strong_alone"):
        monkeypatch.setattr(Undefended, name, lambda *given: told.append("undefended") or Undefended())
    monkeypatch.setattr(logging.getLogger("poisonproof.runs"), "handlers", [Told(told)])
    stated = json.loads(poisonproof("run", "digits", "--out", tmp_path / "run", *method, "--json").stdout)
    first, then = told
    assert then == "undefended"
    clean = f"{percent(stated['certified_fraction'][0])} ({percent(stated['certified_fraction_balanced'][0])}) at 0"
    assert clean in first
    assert f"most frequent label: {percent(stated['majority_share'])};" in first


@pytest.mark.parametrize("method", [(), ("--method", "neighbours", "--n-neighbors", "9")])
def test_a_complete_run_that_goes_on_trains_no_undefended_model_again(tmp_path, method, monkeypatch):
    words = ("run", "digits", "--out", tmp_path / "run", *method, "--json")
    first = json.loads(poisonproof(*words).stdout)
    monkeypatch.setattr("poisonproof.runs.undefended.Lesson.accuracy", lambda *given: pytest.fail("trained again"))
    again = json.loads(poisonproof(*words).stdout)
    for name in ("undefended_accuracy", "strong_undefended_accuracy", "strong_undefended"):
        assert again[name] == first[name]
    assert again["strong_undefended_accuracy"] > 0.9
    other = {**environment(), "scikit-learn": "0.1"}  # with other libraries they might differ
    monkeypatch.setattr("poisonproof.runs.undefended.environment", lambda: other)
    trained = []
    monkeypatch.setattr("poisonproof.runs.undefended.Lesson.accuracy", lambda *given: trained.append(1) or 0.5)
    assert json.loads(poisonproof(*words).stdout)["strong_undefended_accuracy"] == 0.5
    assert trained


class Told(logging.Handler):
    def __init__(self, told):
        super().__init__()
        self.told = told

    def emit(self, record):
        self.told.append(record.getMessage())


def test_categories_are_told_apart_though_they_are_many_rare_or_unknown():
    """A category that only tells the label beside another."""
    rng = np.random.default_rng(0)
    first, second = rng.integers(3, size=3000), rng.integers(400, size=3000)
    frame = pd.DataFrame(
        {"a": np.array(list("xyz"), object)[first], "b": [f"v{at % 7 if at < 390 else at}" for at in second]}
    )
    frame = frame.astype(object)
    frame["n"] = rng.normal(size=3000)
    frame.loc[::11, "n"] = np.nan
    frame.loc[::13, "a"] = 3.5
    y = np.where((first == 1) ^ (second % 7 == 3) ^ (second >= 390), "yes", "no")
    frame.loc[2990:, "b"] = "never seen"
    model = of_tables(["a", "b", "n"], [OBJECT, OBJECT, NUMBER], [], 3000).learner.fit(frame[:2000], y[:2000])
    right = model.predict(frame[2000:]) == y[2000:]
    assert right[np.arange(2000, 3000) % 13 > 0].mean() > 0.9

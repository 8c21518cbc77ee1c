"""Data as people hold them: lists of texts, columns of Polars and PyArrow, labels that are missing."""

import re
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from poisonproof import FiniteAggregationClassifier
from poisonproof.learners.auto import AutoClassifier
from poisonproof.learners.text import TextClassifier
from poisonproof.premises import PremiseWarning

TEXTS = [f"good day to you sir {i}" if i % 2 else f"cheap offer buy now {i}" for i in range(120)]
Y = ["ham" if i % 2 else "spam" for i in range(120)]


def of_polars(values):
    return pytest.importorskip("polars").Series("texts", values)


COLUMNS = {
    "list": list,
    "array": lambda values: np.array(values, object),
    "fixed width": np.array,
    "pandas": pd.Series,
    "pandas, Arrow": lambda values: pd.Series(values, dtype="string[pyarrow]"),
    "pyarrow": pa.array,
    "pyarrow, chunks": lambda values: pa.chunked_array([values[:50], values[50:]]),
    "pyarrow, dictionary": lambda values: pa.array(values).dictionary_encode(),
    "polars": of_polars,
}


@pytest.fixture(scope="module")
def of_list():
    return FiniteAggregationClassifier(k=4, d=1, classes=["ham", "spam"], n_jobs=1).fit(TEXTS, Y)


@pytest.mark.parametrize("kind", COLUMNS)
def test_texts_of_every_kind_get_the_learner_for_texts(of_list, kind):
    make = COLUMNS[kind]
    model = FiniteAggregationClassifier(k=4, d=1, classes=["ham", "spam"], n_jobs=1).fit(make(TEXTS), make(Y))
    assert isinstance(model.estimator_, AutoClassifier)
    assert model.score(make(TEXTS), Y) == 1.0
    assert np.array_equal(model.subset_digests_, of_list.subset_digests_)
    assert np.array_equal(model.votes(make(TEXTS[:20])).matrix, of_list.votes(TEXTS[:20]).matrix)


@pytest.mark.parametrize("make", [pa.table, lambda columns: pytest.importorskip("polars").DataFrame(columns)])
def test_tables_of_arrow_are_those_of_pandas(make):
    columns = {"a": [float(i % 9) for i in range(120)], "city": ["Rome" if i % 2 else "Oslo" for i in range(120)]}
    models = [
        FiniteAggregationClassifier(k=4, d=1, classes=["ham", "spam"], n_jobs=1).fit(frame, Y)
        for frame in (make(columns), pd.DataFrame(columns))
    ]
    assert models[0].score(make(columns), Y) == 1.0
    assert np.array_equal(models[0].subset_digests_, models[1].subset_digests_)


@pytest.mark.parametrize("declared", [None, [0, 1]])
def test_labels_that_are_missing_are_named_as_such(declared):
    y = np.array([0.0, 1.0] * 60)
    y[[3, 8]] = np.nan
    X = np.arange(120.0)[:, None]
    words = "have no label (it is missing, NaN, infinite or of more than 1000 characters) and were left out"
    with pytest.warns(Warning, match=re.escape(f"2 training samples {words}")):
        model = FiniteAggregationClassifier(k=4, d=1, classes=declared, n_jobs=1).fit(X, y)
    assert model.n_dropped_ == 2
    assert model.classes_.tolist() == [0, 1]


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pa.table, lambda columns: pytest.importorskip("polars").DataFrame(columns)]
)
def test_texts_in_a_table_are_not_taken_for_categories_unsaid(make):
    """What the sentence says to do is done, and then it is not said."""
    with pytest.warns(PremiseWarning, match=r"give X\['said'\] alone, or estimator=TextClassifier\(\['said'\]\)"):
        FiniteAggregationClassifier(k=4, d=1, n_jobs=1).fit(make({"said": TEXTS}), Y)
    columns = {"said": [None, *TEXTS[1:]], "city": ["Rome", "New York"] * 60, "number": range(120)}
    with pytest.warns(
        PremiseWarning, match=r"texts in 'said' are taken .*; give estimator=TextClassifier\(\['said'\]\)"
    ):
        FiniteAggregationClassifier(k=4, d=1, n_jobs=1).fit(make(columns), Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PremiseWarning)
        model = FiniteAggregationClassifier(TextClassifier(["said"]), k=4, d=1, classes=["ham", "spam"], n_jobs=1)
        assert model.fit(make(columns), Y).score(make(columns), Y) > 0.95
        del columns["said"]
        FiniteAggregationClassifier(k=4, d=1, classes=["ham", "spam"], n_jobs=1).fit(make(columns), Y)

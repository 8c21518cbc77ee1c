"""Frames that somebody else read: a declared schema reads their cells one by one, and without one that is a premise."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

from poisonproof import (
    BallotClassifier,
    FiniteAggregationClassifier,
    PremiseWarning,
    Split,
    audit,
    verify,
)
from poisonproof.cli.main import app
from poisonproof.cli.tools import write_example
from poisonproof.data.dataset import Dataset
from poisonproof.data.options import ReadOptions
from poisonproof.data.reading import open_files, read
from poisonproof.runs.run import run
from poisonproof.samples.schema import TableSchema
from poisonproof.system.files import read_record
from poisonproof.verification import content
from refused import refused

ROLES = {"age": "number", "visits": "number", "ward": "category", "note": "text"}
CLASSES = ["ill", "well"]


def lines(n=160):
    rng = np.random.default_rng(5)
    for _ in range(n):
        age, visits = rng.integers(20, 90), rng.integers(0, 30)
        label = CLASSES[int(age + rng.integers(0, 20) < 60)]
        yield f"{age},{visits},{rng.integers(1, 6)},{rng.choice(['a b', 'c d'])},{rng.integers(100, 900)},{label}"


def written(path, *more):
    path.write_text("\n".join(["age,visits,ward,note,clinic,label", *lines(), *more]) + "\n")
    return path


def by_pandas(path):
    table = pd.read_csv(path)
    return table.drop(columns=["clinic", "label"]), table["label"], table["clinic"]


def model(**split):
    return FiniteAggregationClassifier(k=20, d=1, split=Split(**split), classes=CLASSES)


def changed(clean, attacked):
    return np.flatnonzero((clean.subset_digests_ != attacked.subset_digests_).any(axis=1))


POISON = "forty,3,2,a b,101,ill"  # a number that is none


def test_without_a_schema_the_same_cell_reaches_everybody_and_the_premise_says_whose_word_it_is(tmp_path):
    clean = by_pandas(written(tmp_path / "clean.csv"))
    poisoned = by_pandas(written(tmp_path / "poisoned.csv", POISON))
    one, other = model().fit(*clean[:2]), model().fit(*poisoned[:2])
    assert len(changed(one, other)) == 20
    assert premise(one) == "schema: dtypes were decided by whoever read this table (chosen from this data)"
    assert premise(other).endswith("read this table; texts that look like numbers in age (chosen from this data)")
    assert premise(other) in str(other.certify(poisoned[0][:3]))


def premise(model, what="schema"):
    return next((str(premise) for premise in model.premises_ if premise.code == what), None)


def test_ids_that_are_numbers_are_somebody_elses_word_too(tmp_path):
    """One bad id turns all of them to text in pd.read_csv: a whole number is then still itself, and nothing else is."""
    X, y, clinics = by_pandas(written(tmp_path / "clean.csv"))
    numbers = model(kind="group").fit(X, y, clinics)
    assert premise(numbers, "contributor-ids") == (
        "contributor ids: types were decided by whoever read this column (chosen from this data)"
    )
    assert premise(numbers, "label-types").startswith("label types: types were decided by whoever read this column")
    assert not len(changed(numbers, model(kind="group").fit(X, y, clinics.astype(str))))
    mine = model(kind="group").fit(X, y.tolist(), clinics.tolist())
    assert premise(mine, "contributor-ids") is premise(mine, "label-types") is None


def test_a_guessed_schema_stays_a_premise(tmp_path):
    rows = read(written(tmp_path / "clean.csv"), label="label", group="clinic", held_out=0)
    assert rows.schema.guessed
    fitted = model(kind="group", schema=rows.schema).fit(rows.train.X, rows.train.labels, rows.train.groups)
    assert premise(fitted).endswith("(chosen from this data)")
    fitted.save(tmp_path / "model")
    again = FiniteAggregationClassifier.load(tmp_path / "model")
    assert again.split_ == fitted.split_
    assert again.split_.schema.guessed
    assert (again.votes(rows.train.X[:20]).matrix == fitted.votes(rows.train.X[:20]).matrix).all()


def test_every_form_of_a_cell_is_the_same_cell():
    texts = pd.DataFrame({"age": ["7", " 8.5", "x", "NA"], "ward": ["1", "2", "True", ""]})
    typed = pd.DataFrame({"age": [7, 8.5, np.nan, None], "ward": [1, 2.0, True, None]}, dtype=object)
    split = Split(schema={"ward": "category", "age": "number"})
    assert split.samples(texts).hashes().tolist() == split.samples(typed).hashes().tolist()
    assert (
        content.partitions(split.as_dict(), 97, texts, None).tolist()
        == split.partitions(split.samples(typed), 97).tolist()
    )
    assert Split.from_dict(json.loads(json.dumps(split.as_dict()))) == split
    assert "schema" not in Split().as_dict()  # the files of other splits stay as they were
    table = pa.table({"ward": pa.array(["1", "2"]), "age": pa.array([7, 8.5])})
    assert split.samples(table).hashes().tolist() == split.samples(texts[:2]).hashes().tolist()


@pytest.mark.parametrize(
    ("schema", "X", "message"),
    [
        ({"a": "number"}, pd.DataFrame({"a": [1], "b": [2]}), "Column 'b' of X is not named by the schema"),
        ({"a": "number", "b": "label"}, pd.DataFrame({"a": [1], "b": [2]}), "has the role 'label' in the schema"),
        ({"a": "number", "bee": "text"}, pd.DataFrame({"a": [1]}), "X has no column 'bee', which the schema reads"),
        ({"a": "whole"}, pd.DataFrame({"a": [1]}), "Column 'a' has the role 'whole' in the schema"),
        ({"a": "category"}, np.zeros((2, 1)), "The schema reads a DataFrame .* Got ndarray instead"),
        ({"a": "number"}, np.zeros((2, 3)), "X has 3 features per sample, but the schema names 1"),
        ({"a": "number"}, pd.DataFrame({"a": []}), "0 sample"),
    ],
)  # fmt: skip
def test_what_a_schema_does_not_read_is_refused_in_one_sentence(schema, X, message):
    with pytest.raises(ValueError, match=message):
        Split(schema=schema).samples(X)


def test_a_schema_is_a_table_schema():
    with refused("type"):
        Split(schema=7)
    with refused("split.parameter"):
        Split(schema={"a": "number"}, n_features=1)
    assert Split(schema={"a": "number"}).schema == TableSchema((("a", "number"),))
    assert clone(model(schema=ROLES)).split == Split(schema=ROLES)


def test_runs_updates_and_audits_go_by_the_schema(tmp_path):
    X, y, _ = by_pandas(written(tmp_path / "poisoned.csv", POISON))
    given = ("wards", X, y, X[:30], y[:30].to_numpy(), np.array(CLASSES))
    for another in (model(schema=ROLES), BallotClassifier(near=1.0, split=Split(schema=ROLES))):
        with refused("dataset.another-schema"):
            run(Dataset.of(*given), another, tmp_path / "another")
    dataset = Dataset.of(*given, schema=Split(schema=ROLES).schema)
    with pytest.warns(PremiseWarning, match="cannot be read"):
        run(dataset, model(schema=ROLES), tmp_path / "run")
    stated = {
        record["code"]: record["declared"] for record in read_record(tmp_path / "run" / "manifest.json")["premises"]
    }
    assert (stated["schema"], stated["label-types"]) == (True, False)
    verdict = verify(tmp_path / "run", data=dataset, retrain=2)
    assert verdict.failed == (), str(verdict)
    with pytest.warns(PremiseWarning, match="cannot be read"):
        fitted = model(schema=ROLES).fit(X, y)
    assert len(fitted.update(remove=[len(X) - 1]).retrained) <= 1
    report = audit(model(schema=ROLES), X[:-1], y[:-1], X[:10], targets=1, kinds=["insert", "degenerate"])
    assert report.ok, str(report)


def test_the_command_line_does_not_print_the_premise(tmp_path):
    """It reads the file itself, so nobody else decided on dtypes."""
    write_example("table", tmp_path)
    asked = ["run", str(tmp_path / "tumours.csv"), "--label", "diagnosis", "--k", "5", "--d", "1"]
    done = CliRunner().invoke(app, [*asked, "--out", str(tmp_path / "run"), "--json", "--votes-only"])
    assert done.exit_code == 0, done.stderr
    premises = json.loads(done.stdout)["premises"]
    assert not [words for words in premises if "whoever read" in words]
    assert len([words for words in premises if words.startswith("schema: ")]) == 1
    data = open_files(tmp_path / "tumours.csv", ReadOptions(label="diagnosis"))
    assert isinstance(data.schema, TableSchema)
    assert data.schema.guessed

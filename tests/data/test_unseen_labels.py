"""Test samples whose label the training data has not shown count as wrong wherever a share is printed."""

import json

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from typer.testing import CliRunner

from drawn import binomial
from poisonproof import (
    Dataset,
    FiniteAggregationClassifier,
    PremiseWarning,
    Spread,
    Votes,
    certified_accuracy,
    certify,
    run,
    verify,
)
from poisonproof.cli.main import app
from poisonproof.data.options import ReadOptions
from poisonproof.data.reading import open_files
from refused import refused

RNG = np.random.default_rng(3)
X = RNG.normal(size=(120, 3)) + 4 * (np.arange(120) % 2)[:, None]
Y = np.array(["ant", "bee"])[np.arange(120) % 2]
TRUTH = np.array(["ant", "bee", "cat", "ant", "bee", "cat", "cat", "bee"])
TEST = RNG.normal(size=(8, 3)) + 4 * (TRUTH == "bee")[:, None]


def test_one_insertion_brings_no_test_sample_back():
    """The attack of issue 14: without the poison three samples used to be left out, and the fraction fell from 1."""
    clean = FiniteAggregationClassifier(GaussianNB(), k=9, d=1).fit(X, Y)
    poisoned = FiniteAggregationClassifier(GaussianNB(), k=9, d=1).fit(np.vstack([X, TEST[2:3]]), [*Y, "cat"])
    before, after = (model.certify(TEST).evaluate(TRUTH).certified_fraction([0, 1]) for model in (clean, poisoned))
    assert before[0] == 5 / 8
    assert after[0] >= before[1]
    assert clean.certify(TEST).evaluate(TRUTH).clean_accuracy == 5 / 8
    assert clean.certify(TEST).evaluate(TRUTH).right.tolist() == (TRUTH != "cat").tolist()


def test_an_abstention_is_not_a_right_answer_to_an_unseen_label():
    """The code of an abstention is the number of classes; an unseen label must not have it too."""
    votes = Votes(np.full((2, 5), 2), Spread.random(5, 1), ["a", "b"], classes_inferred=True)
    truth = votes.indices_of(["a", "c"])
    assert (votes.matrix == truth[:, None]).sum() == 0
    with pytest.warns(PremiseWarning, match="1 labels are none of the 2 classes and count as wrong; the first is 'c'"):
        assert (Votes(votes.matrix, votes.spread, ["a", "b"]).indices_of(["a", "c"]) == truth).all()
    with refused("labels.unknown"):
        votes.indices_of([0, 1])


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
def test_a_row_that_came_to_be_held_out_stops_no_run_where_the_model_declares_the_classes(tmp_path):
    data = Dataset.of("animals", [*X, X[0]], [*Y, 10**400], TEST, TRUTH)  # no float is that label
    model = FiniteAggregationClassifier(GaussianNB(), k=9, d=1, classes=["ant", "bee"])
    with pytest.warns(PremiseWarning, match="3 labels are none of the 2 classes"):
        outcome = run(data, model, tmp_path / "run")
    assert outcome.figures.clean_accuracy == 5 / 8
    assert verify(tmp_path / "run", data=data).word == "VERIFIED"


def test_a_shared_attack_and_a_stochastic_certificate_count_them_as_wrong():
    model = FiniteAggregationClassifier(GaussianNB(), k=9, d=1).fit(X, Y)
    shared = certified_accuracy(model.votes(TEST), TRUTH, 1)
    assert (shared.clean_count, shared.n_test) == (5, 8)
    assert certify(model.votes(TEST)).evaluate(TRUTH).clean_accuracy == 5 / 8
    drawn = binomial(GaussianNB(), k=9, n_draws=60).fit(X, Y).certify(TEST)
    assert drawn.classes_inferred
    assert drawn.evaluate(TRUTH).clean_accuracy <= 5 / 8


def table(path, rows):
    path.write_text("a,b,c,label\n" + "".join(f"{','.join(map(str, x))},{y}\n" for x, y in rows))


def test_a_run_keeps_them_and_says_so(tmp_path):
    table(tmp_path / "train.csv", zip(X.round(3), Y, strict=True))
    table(tmp_path / "test.csv", zip(TEST.round(3), TRUTH, strict=True))
    inferred = open_files(tmp_path / "train.csv", ReadOptions(label="label", test=tmp_path / "test.csv"))
    assert inferred.test.labels.tolist() == TRUTH.tolist()
    assert inferred.notes == ("3 test samples have a label that the training samples do not have and count as wrong",)
    how = ReadOptions(label="label", test=tmp_path / "test.csv", classes=["ant", "bee"])
    declared = open_files(tmp_path / "train.csv", how)
    assert len(declared.test) == 5  # by each sample alone: the class list does not depend on the training data
    asked = ["run", tmp_path / "train.csv", "--label", "label", "--test", tmp_path / "test.csv", "--k", "9", "--d", "1"]
    done = CliRunner().invoke(app, [*map(str, asked), "--out", str(tmp_path / "run"), "--json"])
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["certified_fraction"][0] <= 5 / 8
    page = (tmp_path / "run" / "report.html").read_text()
    assert "(a label the training data has not shown)" in page
    verdict = CliRunner().invoke(app, ["verify", str(tmp_path / "run"), "--retrain", "2"])
    assert verdict.exit_code in (0, 5), verdict.stdout + verdict.stderr

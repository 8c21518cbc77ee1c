"""poisonproof compare: every row is what the method itself gives, and what does not apply says why."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from typer.testing import CliRunner

from command_line import as_process as poisonproof
from drawn import binomial
from poisonproof import (
    BallotClassifier,
    CertifiedBaggingClassifier,
    FiniteAggregationClassifier,
    InfiniteAggregationClassifier,
    NeighborVoteClassifier,
    Spread,
)
from poisonproof.ballots.maps import map_for
from poisonproof.cli import output
from poisonproof.cli.main import app
from poisonproof.data.dataset import Dataset
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from poisonproof.planning.compare import (
    compare,
    nearest_design,
    titles,
)
from poisonproof.planning.plan import best_of_each, plan
from refused import refused

K, CLASSIFIERS = 7, 28


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=260)
    X = rng.normal(size=(260, 2)) + 2.5 * np.array([[0, 0], [1, 0], [0, 1]])[y]
    return Dataset.of("blobs", X[:200], y[:200], X[200:], y[200:], np.arange(3))


@pytest.fixture(scope="module")
def compared(blobs):
    return compare(blobs, GaussianNB(), k=K, n_classifiers=CLASSIFIERS, seed=5)


def test_every_row_is_what_the_method_itself_gives(blobs, compared):
    """In particular, methods that share base classifiers have the ones they would have alone."""
    drawn = {"n_draws": CLASSIFIERS, "seed": 5, "classes": range(3)}
    spreads = {"dpa": Spread.random(K, 1), "finite": Spread.random(K, 4), "designed": Spread.planes(2, 3)}
    alone = {
        "infinite": InfiniteAggregationClassifier(GaussianNB(), k=K, **drawn),
        "binomial": binomial(GaussianNB(), k=K, **drawn),
        "bagging": CertifiedBaggingClassifier(GaussianNB(), subset_size=29, **drawn),
    }
    assert [row.name for row in compared.rows] == list(titles())
    for row in compared.rows:
        if row.name in alone:
            certificate = alone[row.name].fit(blobs.train.X, blobs.train.labels).certify(blobs.test.X)
            assert row.certificate.abstained.tolist() == certificate.abstained.tolist()
            assert (row.d, row.n_classifiers, row.k) == (None, CLASSIFIERS, K)
            assert "99.9 %" in row.guarantee
            assert "ideal classifier only" in row.guarantee
        elif row.name in ("neighbours", "ballots"):
            chosen = best_of_each(plan(blobs, 1, methods=(row.name,)).candidates)[0].parameters
            kind = NeighborVoteClassifier if row.name == "neighbours" else BallotClassifier
            model = kind(map_for(blobs), classes=range(3), **chosen)
            certificate = model.fit(blobs.train.X, blobs.train.labels).certify(blobs.test.X)
            assert row.certificate.exact.tolist() == certificate.exact.tolist()
            assert (row.k, row.d, row.n_classifiers) == (None, None, None)
            assert row.guarantee == "proof"
            assert row.title.endswith(", by a pilot at 1")
            chosen_from_data = {premise.code for premise in row.certificate.premises if not premise.declared}
            assert ("near" if row.name == "ballots" else "number-of-neighbors") in chosen_from_data
        else:
            ensemble, _, method = row.name.partition("-")
            spread = spreads[ensemble]
            model = FiniteAggregationClassifier(GaussianNB(), spread=spread, classes=range(3))
            model.fit(blobs.train.X, blobs.train.labels)
            certificate = model.certify(blobs.test.X, method or "finite-aggregation")
            assert row.certificate.spread == spread
            assert (row.k, row.d, row.n_classifiers) == (spread.k, spread.d, spread.n_subsets)
            assert row.guarantee == "proof"
        assert row.certificate.method == certificate.method
        assert row.certificate.radius.tolist() == certificate.radius.tolist(), row.name
        assert row.certificate.prediction.tolist() == certificate.prediction.tolist()
        assert (row.n_classifiers or 0) <= CLASSIFIERS
    largest = {row.name: row.certificate.radius.max() for row in compared.rows}
    assert largest["finite-tight"] >= largest["finite"] > 0
    assert compared.attack_sizes[-1] == max(largest.values())


def test_the_record_and_the_table_say_the_same(blobs, compared):
    record = compared.as_dict()
    assert record["attack_size"] == list(compared.attack_sizes)
    names = compared.header
    for row, one in zip(compared.rows, record["rows"], strict=True):
        right = row.certificate.evaluate(blobs.test.labels).right
        shares = [float((right & (row.certificate.radius >= size)).mean()) for size in compared.attack_sizes]
        assert one["certified_fraction"] == pytest.approx(shares)
        assert one["clean_accuracy"] == pytest.approx(shares[0])
        assert one["unit"].startswith("training samples")
        voter = "map: " if row.name in ("neighbours", "ballots") else "learner: GaussianNB"
        assert any(premise.startswith(voter) for premise in one["premises"])
        text = dict(zip(names, compared.cells(row), strict=True))
        assert text["holds"] == ("proof" if row.proves else "99.9 %")
        assert 100 * shares[1] - 0.1 < float(text["1"]) <= 100 * shares[1] + 1e-6
        assert row.certificate.radius.mean() - 0.01 < float(text["mean radius"]) <= row.certificate.radius.mean()
    said = compared.remarks
    assert any("99.9 %: holds with probability at least 99.9 %" in remark for remark in said)


def test_the_designed_spread_keeps_to_the_budget_and_a_larger_k_is_remarked(blobs):
    for k, d in ((50, 16), (20, 8), (20, 4), (7, 4), (300, 5)):
        design = nearest_design(k, d, k * d)
        assert design.n_subsets <= k * d
        assert abs(design.k / k - 1) < 0.1
    assert nearest_design(3, 2, 6) is None
    found = compare(blobs, GaussianNB(), k=20, n_classifiers=160, rows=["designed"])
    assert found.rows[0].k > 20
    assert "a larger k alone gives larger radii" in " ".join(found.remarks)


def test_what_does_not_apply_says_why(blobs):
    only_votes = VotingClassifier([("nb", GaussianNB())])
    found = compare(blobs, only_votes, k=3, n_classifiers=5, rows=["finite-run-off", "dpa-run-off", "finite"])
    assert [row.guarantee for row in found.rows] == ["does not apply"] * 3
    assert "neither decision_function nor predict_proba" in found.rows[1].why_not
    assert "leave d = 1, which is DPA" in found.rows[2].why_not
    assert [one["why_not"] for one in found.as_dict()["rows"]] == [row.why_not for row in found.rows]
    assert sum("does not apply: " in remark for remark in found.remarks) == 3
    assert found.cells(found.rows[0])[1:3] == ["does not apply", "—"]
    designed = compare(blobs, GaussianNB(), k=3, n_classifiers=6, rows=["designed"]).rows[0]
    assert "no design near k = 3 with at most 6 base classifiers" in designed.why_not


def test_contributors_are_counted_by_the_proofs_only(blobs):
    grouped = replace(blobs, train=replace(blobs.train, groups=np.arange(200) // 2))
    found = compare(grouped, GaussianNB(), k=5, n_classifiers=10, rows=["finite", "infinite", "bagging"])
    assert found.unit == "contributors"
    assert found.rows[0].certificate.unit == "contributors"
    assert all("contributors are counted" in row.why_not for row in found.rows[1:])


def test_samples_that_vote_say_why_no_pilot_can_be_made_of_them(blobs):
    rows = ["ballots", "neighbours"]
    inferred = compare(replace(blobs, classes=None), GaussianNB(), k=4, n_classifiers=4, rows=rows)
    assert "declare them" in inferred.rows[0].why_not
    assert inferred.rows[1].certificate is not None
    grouped = replace(blobs, train=replace(blobs.train, groups=np.arange(200) // 2))
    assert all("of contributors" in row.why_not for row in compare(grouped, k=4, n_classifiers=4, rows=rows).rows)
    many = compare(blobs, GaussianNB(), k=4, n_classifiers=4, rows=rows, sizes=[90])
    assert all("largest attack size that 200 training samples can withstand" in row.why_not for row in many.rows)
    given = {"neighbours": NeighborVoteClassifier(n_neighbors=5, classes=range(3), split="group")}
    found = compare(grouped, GaussianNB(), k=4, n_classifiers=4, rows=["neighbours"], voters=given)
    assert found.rows[0].certificate.unit == "contributors"


def test_a_pooled_learner_has_every_row(blobs):
    found = compare(blobs, KernelRidgeClassifier(kernel="rbf", gamma=0.5), k=K, n_classifiers=CLASSIFIERS)
    assert all(row.certificate is not None for row in found.rows)
    assert all(row.certificate.evaluate(blobs.test.labels).clean_accuracy > 0.5 for row in found.rows[:7])


@pytest.mark.parametrize(
    ("changes", "options", "sentence"),
    [
        ({}, {"rows": ["finite", "nothing"]}, "There is no row 'nothing'; there are dpa, dpa-run-off"),
        ({}, {"rows": []}, "There is no row ''"),
        ({}, {"k": 201}, "k must lie in 1 … 200, the number of training samples.* Got 201"),
        ({}, {"k": 0}, "k must lie in 1 … 200"),
        ({}, {"k": 30}, "at least k = 30. Got 28"),
        ({"test": "none"}, {}, "blobs has no test samples"),
    ],
)
def test_bad_questions_get_one_sentence(blobs, changes, options, sentence):
    settings = {"k": K, "n_classifiers": CLASSIFIERS, **options}
    with pytest.raises(ValueError, match=sentence):
        compare(
            replace(blobs, test=blobs.test.take(np.arange(0))) if changes else blobs, LogisticRegression(), **settings
        )


def test_votes_of_other_draws_are_refused(blobs):
    model = binomial(GaussianNB(), k=3, n_draws=10).fit(blobs.train.X, blobs.train.labels)
    with refused("votes.shape"):
        model.certify_matrix(np.zeros((4, 9), np.uint8))


@pytest.fixture
def table(tmp_path, blobs):
    lines = [f"{a:.3f},{b:.3f},{'xyz'[label]}" for (a, b), label in zip(blobs.train.X, blobs.train.labels, strict=True)]
    path = tmp_path / "own.csv"
    path.write_text("a,b,class\n" + "\n".join(lines) + "\n")
    return path


def test_the_command_prints_one_table_and_writes_only_where_it_is_told(table, tmp_path):
    words = ("compare", table, "--label", "class", "--k", 4, "--classifiers", 8, "--n-jobs", 1)
    words += ("--rows", "dpa,finite-tight,binomial", "--attack-size", "0,1")
    done = poisonproof(*words, cwd=tmp_path)
    assert next(line for line in done.stdout.splitlines() if "DPA (d = 1)" in line).split()[4:6] == ["proof", "4"]
    assert "training for Finite Aggregation, tight" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own.csv"]
    record = json.loads(poisonproof(*words, "--json", "--out", tmp_path / "out").stdout)
    assert [row["name"] for row in record["rows"]] == ["dpa", "finite-tight", "binomial"]
    assert record["attack_size"] == [0, 1]
    assert json.loads((tmp_path / "out" / "compare.json").read_text()) == record
    assert "Finite Aggregation, tight</th>" in (tmp_path / "out" / "compare.html").read_text()


def test_samples_vote_beside_base_classifiers_with_parameters_from_options(table):
    words = ["compare", str(table), "--label", "class", "--classes", "x,y,z", "--k", "4", "--classifiers", "4"]
    words += ["--n-jobs", "1", "--rows", "dpa,neighbours,ballots", "--n-neighbors", "9", "--near", "1.2"]
    done = CliRunner().invoke(app, [*words, "--json"])
    dpa, neighbours, ballots = json.loads(done.stdout)["rows"]
    assert [row["title"] for row in (neighbours, ballots)] == ["neighbours, K = 9", "ballots, near = 1.2"]
    assert neighbours["voters"].startswith("the 9 nearest of ")
    assert "number of neighbors: 9 (declared)" in neighbours["premises"]
    for row in (dpa, neighbours, ballots):
        assert row["balanced_accuracy"] > 0.5
        assert len(row["certified_fraction"]) == len(row["certified_fraction_balanced"])
    printed = CliRunner().invoke(app, words).stdout
    line = next(line for line in printed.splitlines() if "ballots, near = 1.2" in line)
    assert line.split()[4:8] == ["proof", "—", "—", "—"]
    assert "the training samples vote through a fixed map" in " ".join(printed.split())


def test_a_narrow_terminal_gets_the_columns_in_two_tables(table, monkeypatch):
    words = ["compare", str(table), "--label", "class", "--k", "4", "--classifiers", "8", "--n-jobs", "1"]
    wide = CliRunner().invoke(app, [*words, "--rows", "dpa,finite"]).stdout
    monkeypatch.setattr(output, "fits_terminal", lambda header, rows: False)
    narrow = CliRunner().invoke(app, [*words, "--rows", "dpa,finite"]).stdout
    assert (wide.count("DPA (d = 1)"), narrow.count("DPA (d = 1)")) == (1, 2)
    assert max(map(len, narrow.splitlines()[2:-1])) < max(map(len, wide.splitlines()[2:-1]))
    cells_of = [line.split()[5:] for line in narrow.splitlines() if "Theorem 2" in line]
    assert [len(cells) for cells in cells_of] == [6, len(header_of_sizes(wide))]


def header_of_sizes(printed):
    line = next(line for line in printed.splitlines() if "mean radius" in line)
    return [word for word in line.split() if word.isdigit()]


def test_the_command_refuses_in_one_sentence(table, tmp_path):
    for words, sentence in (
        (("--rows", "dpa,best"), "There is no row 'best'"),
        (("--k", 5000, "--classifiers", 5000), "k must lie in 1 …"),
        (("--k", 20, "--classifiers", 19), "at least k = 20"),
        (("--attack-size", "1,x"), "--attack-size must be whole numbers"),
        (("--out", table), "is a file; --out takes a folder"),
        (("--learner", "nothing"), "There is no 'nothing' among the learners"),
    ):
        done = CliRunner().invoke(app, ["compare", str(table), "--label", "class", *map(str, words)])
        assert (done.exit_code, done.stdout) == (2, "")
        assert sentence in done.stderr
        assert "written" not in done.stderr
    for words, sentence in (
        (("--n-neighbors", 3, "--rows", "dpa"), "--n-neighbors is of the row 'neighbours', which is not among --rows"),
        (("--near", 1, "--rows", "neighbours"), "--near is of the row 'ballots'"),
        (("--one-sided",), "--one-sided goes with --near"),
        (("--n-neighbors", 0, "--rows", "neighbours"), "'n_neighbors' parameter must be a whole number above 0"),
        (("--near", -1, "--rows", "ballots", "--classes", "x,y,z"), "'near' parameter is the greatest distance"),
        (("--features", "pickle", "--rows", "neighbours"), "There is no feature map 'pickle'"),
    ):
        done = CliRunner().invoke(app, ["compare", str(table), "--label", "class", *map(str, words)])
        assert (done.exit_code, done.stdout) == (2, "")
        assert sentence in done.stderr
    assert "no data set 'nowhere'" in poisonproof("compare", "nowhere", code=2).stderr

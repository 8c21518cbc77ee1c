"""Who votes, for an attack size: what the pilot says of neighbours and ballots is what they do; the choice is kept."""

import json
import re

import numpy as np
import pytest
from sklearn.datasets import load_wine

from command_line import poisonproof
from poisonproof import BallotClassifier, Certificate, NeighborVoteClassifier, PoisonproofError, load
from poisonproof.ballots.maps import map_for
from poisonproof.planning import families
from poisonproof.planning.families import Candidate, best_of_each, candidates, where_samples_vote
from poisonproof.system.files import read_record
from tests.helpers.premises import in_words


@pytest.fixture(scope="module")
def digits():
    return load("digits").without(range(500, 1415))


@pytest.mark.parametrize("attack_size", [3, 20])
def test_figures_of_the_pilot_are_those_of_the_classifiers_themselves(digits, attack_size):
    rows = np.argsort(digits.train.samples.hashes(families.SEED), kind="stable")
    asked, voting = rows[:125], np.setdiff1d(rows, rows[:125])  # a quarter of 500, by a hash of their content
    X, y = np.asarray(digits.train.X), np.asarray(digits.train.labels)
    for one in where_samples_vote(digits, attack_size):
        kind = {"neighbours": NeighborVoteClassifier, "ballots": BallotClassifier}[one.method]
        parameters = {name: int(value) if name == "n_neighbors" else value for name, value in one.parameters.items()}
        model = kind(map_for(digits), **parameters, classes=range(10)).fit(X[voting], y[voting])
        certificate = model.certify(X[asked])
        assert one.clean == certificate.clean_accuracy(y[asked]), one
        assert one.certified == certificate.certified_fraction(y[asked], [attack_size])[0], one
        balanced = certificate.certified_fraction_balanced(y[asked], [attack_size])[0]
        assert one.certified_balanced == pytest.approx(balanced, abs=1e-12), one


def test_the_best_of_each_family_goes_by_the_balanced_figure():
    found = [
        Candidate("ballots", {"near": 1.0}, 0.9, 0.9, 0.3),
        Candidate("ballots", {"near": 2.0}, 0.8, 0.5, 0.4),
        Candidate("neighbours", {"n_neighbors": 9}, 0.7, 0.6, 0.5),
    ]
    assert [(one.method, one.parameters) for one in best_of_each(found)] == [
        ("neighbours", {"n_neighbors": 9}),
        ("ballots", {"near": 2.0}),
    ]
    assert found[1].option == "--method ballots --near 2"


def test_an_attack_larger_than_half_of_the_voters_leaves_nobody(digits):
    assert where_samples_vote(digits, 200) == []
    with pytest.raises(PoisonproofError, match="must be at least 1"):
        candidates(digits, None, 0)


@pytest.fixture(scope="module")
def table(tmp_path_factory, tables):
    wine = load_wine(as_frame=True).frame
    wine["target"] = [f"c{label}" for label in wine["target"]]
    place = tmp_path_factory.mktemp("choice") / "wine.csv"
    wine.to_csv(place, index=False)
    return place


def test_one_question_gets_one_answer_which_is_a_premise_and_is_kept(table):
    words = ("run", table, "--label", "target", "--attack-size", 3, "--out", table.parent / "run", "--json")
    done = poisonproof(*words)
    manifest = read_record(table.parent / "run" / "manifest.json")
    choice = manifest["asked"]["choice"]
    assert f"method: {choice['why']}" in done.stderr
    assert f"choice of method: {choice['why']} (chosen from this data)" in in_words(manifest)
    assert choice["why"].startswith(choice["method"])
    what = {"neighbours": "number of neighbors", "ballots": "near", "ensemble": "spread"}[choice["method"]]
    (stated,) = [premise for premise in in_words(manifest) if premise.startswith(f"{what}: ")]
    assert stated.endswith("(chosen from this data)")
    for family in ("neighbours", "ensemble"):
        assert family in choice["why"]
    assert "attack_size" in json.loads(done.stdout)
    again = poisonproof(*words)
    assert "going on with the run" in again.stderr
    assert "pilot" not in again.stderr  # a choice is made once, or an interrupted run could not go on
    other = poisonproof(*words[:5], 9, *words[6:], code=2)
    assert "another --attack-size (3 there, 9 now)" in other.stderr
    poisonproof("verify", table.parent / "run")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--method", "auto"), "--method auto needs --attack-size"),
        (("--method", "auto", "--attack-size", 3, "--k", 50), "--k is about base classifiers"),
    ],
)
def test_what_does_not_go_together_is_said(table, words, sentence):
    done = poisonproof("run", table, "--label", "target", *words, code=2)
    assert sentence in done.stderr


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (("--attack-size", 2), "--attack-size (3 there, 2 now)"),
        ((), "--attack-size (3 there, none now)"),
        (("--attack-size", 3, "--classes", "c0,c1,c2"), "--classes (none there, c0,c1,c2 now)"),
        (("--attack-size", 3, "--learner", "auto"), "--learner (none there, auto now)"),
        (("--attack-size", 3, "--max-size", 5), None),
    ],
)
def test_a_run_goes_on_only_with_the_same_question(table, tmp_path, changed, said):
    """All of these would have gone on: the same votes, under another headline or other premises."""
    words = ("run", table, "--label", "target", "--k", 8, "--no-undefended", "--votes-only", "--out", tmp_path / "run")
    poisonproof(*words, "--attack-size", 3)
    before = read_record(tmp_path / "run" / "manifest.json")
    done = poisonproof(*words, *changed, code=0 if said is None else 2)
    if said is not None:
        assert f"asked for with another {said}" in done.stderr
        assert read_record(tmp_path / "run" / "manifest.json") == before


@pytest.mark.parametrize("k", [8, 20])
def test_who_names_k_gets_base_classifiers_even_by_the_number_that_is_the_default(table, tmp_path, k):
    words = ("--k", k, "--attack-size", 6, "--no-undefended", "--out", tmp_path / "run")
    done = poisonproof("run", table, "--label", "target", *words)
    assert "choice of method" not in done.stderr
    manifest = read_record(tmp_path / "run" / "manifest.json")
    assert manifest["settings"]["k"] == k
    (spread,) = [premise for premise in in_words(manifest) if premise.startswith("spread: ")]
    assert spread.endswith("(by default)" if k == 20 else "(declared)")


@pytest.mark.parametrize(
    ("method", "parameters", "what"),
    [
        ("ensemble", {"k": 6, "d": 2}, r"spread: k = 6, d = 2, digest \w{16}"),
        ("ballots", {"near": 2.1}, r"near: distance ≤ 2\.1, squared ≤ \d+ steps"),
        ("neighbours", {"n_neighbors": 5}, "number of neighbors: 5"),
    ],
)
def test_what_a_pilot_chose_is_run_changed_asked_verified_and_attested(
    table, tmp_path, monkeypatch, method, parameters, what
):
    """Every family, end to end: one list of premises in every file, and what was chosen is not called declared."""
    monkeypatch.setattr(families, "candidates", lambda *given: [Candidate(method, parameters, 0.9, 0.8, 0.8)])
    run = tmp_path / "run"
    declared = ("--label", "target", "--classes", "c0,c1,c2")
    poisonproof("run", table, *declared, "--attack-size", 2, "--no-undefended", "--out", run)
    for remove in (None, "3,17"):
        if remove is not None:
            poisonproof("update", run, "--remove", remove)
        premises = in_words(read_record(run / "manifest.json"))
        assert premises == [premise.words for premise in Certificate.load(run / "certificate.npz").premises]
        assert any(re.fullmatch(rf"{what} \(chosen from this data\)", premise) for premise in premises), premises
        poisonproof("predict", run, table, "--json")
        assert poisonproof("verify", run).stdout.startswith("VERIFIED")
        poisonproof("attest", run, "--json")


def test_whether_there_are_rows_for_a_pilot_belongs_to_the_choice(table, tmp_path):
    """Below 60 training rows, and with too few for neighbours, no pilot is made: k was called declared then."""
    header, *lines = table.read_text().splitlines()
    (tmp_path / "few.csv").write_text("\n".join([header, *lines[:168:7]]))
    words = ("--attack-size", 9, "--no-undefended", "--votes-only", "--out", tmp_path / "run")
    done = poisonproof("run", tmp_path / "few.csv", "--label", "target", *words)
    assert "method: ensemble; no pilot could be made" in done.stderr
    manifest = read_record(tmp_path / "run" / "manifest.json")
    assert manifest["settings"]["k"] == 54
    assert "choice of method: ensemble, without a pilot (chosen from this data)" in in_words(manifest)
    (spread,) = [premise for premise in in_words(manifest) if premise.startswith("spread: ")]
    assert spread.endswith("(chosen from this data)")
    assert poisonproof("verify", tmp_path / "run", code=5).stdout.startswith("CONSISTENT")


@pytest.mark.parametrize(("attack_size", "k"), [(2, 20), (3, 20), (4, 24), (10, 60)])
def test_k_follows_from_the_attack_size_that_is_feared(table, tmp_path, attack_size, k):
    """Six base classifiers for each poison, at least 20; what is given stands."""
    words = ("run", table, "--label", "target", "--method", "ensemble", "--no-undefended", "--n-jobs", 1, "--json")
    feared = ("--attack-size", attack_size, "--learner", "table")
    said = json.loads(poisonproof(*words, *feared, "--out", tmp_path / "run").stdout)
    assert (said["k"], said["d"]) == (k, 1)
    assert attack_size in said["attack_size"]
    given = json.loads(poisonproof(*words, *feared, "--k", 7, "--out", tmp_path / "given").stdout)
    assert given["k"] == 7

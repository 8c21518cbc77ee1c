"""poisonproof plan: the pilot against what the methods themselves certify, its blindness for test data, plan → run."""

import json
import shlex
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.naive_bayes import GaussianNB

from command_line import poisonproof
from poisonproof import (
    BallotClassifier,
    Certificate,
    FiniteAggregationClassifier,
    NeighborVoteClassifier,
    certify,
    load,
    verify,
)
from poisonproof.ballots.maps import map_for
from poisonproof.data.dataset import Dataset
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from poisonproof.planning import plan as planning
from poisonproof.planning.plan import Candidate, Plan, best_of_each, plan
from poisonproof.system.files import read_record, write_record
from refused import refused
from tests.helpers.premises import in_words


def blobs(n_test=150, n_train=400, noise=1.0):
    def drawn(count, seed):
        rng = np.random.default_rng(seed)
        y = rng.integers(3, size=count)
        return noise * rng.normal(size=(count, 2)) + 2.2 * np.array([[0, 0], [1, 0], [0, 1]])[y], y

    return Dataset.of("blobs", *drawn(n_train, 0), *drawn(n_test, 1), np.arange(3))


@pytest.fixture(scope="module")
def planned():
    return plan(blobs(), 4, GaussianNB(), n_jobs=1)


@pytest.fixture(scope="module")
def pilot():
    return planning._Pilot.of(blobs(), 4, GaussianNB(), 1)


def test_a_fifth_is_held_out_and_halved_by_content(pilot):
    assert len(pilot.held_out) == 80
    assert sorted([*pilot.trained, *pilot.held_out]) == list(range(400))
    assert 20 < pilot.choosing.sum() < 60
    moved = blobs()
    order = np.random.default_rng(0).permutation(400)
    other = planning._Pilot.of(replace(moved, train=moved.train.take(order)), 4, GaussianNB(), 1)
    assert {order[row] for row in other.held_out} == {*pilot.held_out}
    assert {order[row] for row in other.held_out[other.choosing]} == {*pilot.held_out[pilot.choosing]}


def test_contributors_and_rows_of_the_same_content_are_held_out_together():
    data = blobs()
    owners = np.arange(400) % 90
    grouped = planning._Pilot.of(replace(data, train=replace(data.train, groups=owners)), 4, GaussianNB(), 1)
    assert not {*owners[grouped.held_out]} & {*owners[grouped.trained]}
    assert not {*owners[grouped.held_out[grouped.choosing]]} & {*owners[grouped.held_out[~grouped.choosing]]}
    twice = replace(data, train=data.train.take(np.arange(400) % 200))
    found = planning._Pilot.of(twice, 4, GaussianNB(), 1)
    assert not {*(found.held_out % 200)} & {*(found.trained % 200)}


def test_labels_that_are_none_are_no_class_that_a_constant_answer_could_be():
    data = blobs()
    odd = np.array(["0", None, 0.0, 7, 1, 2, None, "2.0"], object)[np.arange(400) % 8]
    found = planning._Pilot.of(replace(data, train=replace(data.train, labels=odd)), 4, GaussianNB(), 1)
    assert (found.majority_share, found.constant) == (0.4, 1 / 3)


def test_figures_are_those_of_the_methods_themselves(pilot, planned):
    """Samples that vote on all rows but those held out; base classifiers at a k that is trained whole."""
    data = pilot.data
    voting, asked = data.train.take(np.sort(pilot.trained)), data.train.take(pilot.held_out[pilot.choosing])
    for one in planned.candidates:
        if one.method == "ensemble" and not (one.parameters["d"] == 4 and one.n_members == 4 * 7):
            continue
        if one.method == "ensemble":  # k = 9, of which the rows that are left make 7
            model = FiniteAggregationClassifier(GaussianNB(), k=7, d=4, classes=range(3), n_jobs=1)
        elif one.method == "neighbours":
            model = NeighborVoteClassifier(
                map_for(data), n_neighbors=int(one.parameters["n_neighbors"]), classes=range(3)
            )
        else:
            model = BallotClassifier(map_for(data), near=one.parameters["near"], classes=range(3))
        certificate = model.fit(voting.X, voting.labels).certify(asked.X)
        assert one.clean == certificate.evaluate(asked.labels).clean_accuracy, one
        if one.method != "ensemble":
            assert one.certified == certificate.evaluate(asked.labels).certified_fraction([4])[0], one
            balanced = certificate.evaluate(asked.labels).certified_fraction_balanced([4])[0]
            assert one.certified_balanced == pytest.approx(balanced, abs=1e-12), one
    assert {one.method for one in planned.candidates} == {"ensemble", "neighbours", "ballots"}


def test_votes_of_a_part_certify_by_the_same_share_of_lead(pilot):
    """24 of 48 base classifiers with a lead of 14: of 48 a lead of 28, radius 14."""
    matrix = np.zeros((len(pilot.held_out), 24), np.uint8)
    matrix[:, :5] = 1
    from poisonproof import Spread, Votes

    votes = Votes(matrix, Spread.random(24, 1), range(3))
    assert {*certify(votes).margin.tolist()} == {14}
    assert {*pilot._counted(votes, 48, 24, 1).radius.tolist()} == {14}
    assert {*pilot._counted(votes, 24, 24, 1).radius.tolist()} == {7}


def test_the_promise_is_made_by_the_half_that_did_not_choose(pilot, planned):
    best = planned.candidates[planned.chosen]
    assert (planned.promise.method, planned.promise.parameters) == (best.method, best.parameters)
    tried = [one for one in pilot.others(None, ["neighbours", "ballots"]) if one.parameters == best.parameters]
    assert tried[0].figures(pilot, 4, ~pilot.choosing) == planned.promise
    assert planned.promise.certified_balanced > planned.constant


def test_more_base_classifiers_are_trained_while_chance_in_them_is_the_larger(monkeypatch):
    """Never more than twice the base classifiers of that k."""
    monkeypatch.setattr(planning, "MOST_MEMBERS", 16)
    found = plan(blobs(n_train=1200), 2, GaussianNB(), ks=[100], ds=(1,), methods=("ensemble",), n_jobs=1)
    assert found.candidates[0].n_members in (16, 32, 64, 80)
    assert found.candidates[0].parameters == {"k": 100, "d": 1}


def test_the_plan_is_the_same_again_and_test_samples_are_not_looked_at(planned):
    class Untouchable:
        def __getattr__(self, name):
            raise AssertionError(f"the pilot looked at test data ({name})")

    assert plan(replace(blobs(), test=Untouchable()), 4, GaussianNB(), n_jobs=2) == planned


def test_what_feeds_fewer_rows_is_chosen_of_those_within_the_error():
    def one(method, figure, **parameters):
        return Candidate(method, parameters, 0, 0.9, figure, 0.9, figure, 0.02)

    level = [one("ensemble", 0.80, k=9, d=4), one("ensemble", 0.79, k=9, d=1), one("neighbours", 0.70, n_neighbors=5)]
    assert planning._chosen(level, 0.5) == 1
    assert planning._chosen([*level, one("ballots", 0.785, near=1.0)], 0.5) == 3
    assert planning._chosen(level, 0.79) is None
    assert [found.method for found in best_of_each(level)] == ["ensemble", "neighbours"]
    assert level[2].options == ["--method", "neighbours", "--n-neighbors", "5"]


def test_on_noise_nothing_is_recommended():
    found = plan(blobs(noise=40), 20, GaussianNB(), n_jobs=1)
    assert found.chosen is None
    assert found.within_reach < 20
    with refused("plan.nothing"):
        _ = found.choice


def test_a_plan_is_read_back_and_refused_if_altered(planned, tmp_path):
    planned.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == planned
    text = (tmp_path / "plan.json").read_text()
    (tmp_path / "plan.json").write_text(text.replace('"attack_size": 4', '"attack_size": 5'))
    with refused("file.damaged"):
        Plan.load(tmp_path / "plan.json")
    for record in ({"format": "poisonproof run 1"}, {"format": planning.FORMAT, "candidates": []}):
        write_record(tmp_path / "other.json", record)
        with pytest.raises(ValueError, match="is no plan"):
            Plan.load(tmp_path / "other.json")


def test_a_plan_is_for_its_own_data_and_learner(planned):
    planned.check(blobs(n_test=5), GaussianNB())
    with refused("plan.data"):
        planned.check(blobs().without([3]), GaussianNB())
    with refused("plan.learner"):
        planned.check(blobs(), KernelRidgeClassifier())


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"attack_size": 0}, "plan.attack-size"),
        ({"attack_size": 100}, "plan.out-of-reach"),
        ({"ks": (8, 20)}, "plan.k"),
        ({"ks": ()}, "plan.k"),
    ],
)
def test_what_cannot_be_planned_is_refused_before_anything_is_trained(changes, code, monkeypatch):
    monkeypatch.setattr(planning._Pilot, "_votes", None)
    with refused(code):
        plan(blobs(), **{"attack_size": 4, "methods": ("ensemble",), **changes})


def test_data_that_no_pilot_can_be_made_of():
    data = blobs()
    with refused("plan.few-samples"):
        plan(data.without(range(50, 400)), 4)
    one = replace(data, train=replace(data.train, labels=np.zeros(400, int)))
    with refused("plan.classes"):
        plan(one, 4)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    wine = load_wine(as_frame=True).frame
    wine["target"] = [f"c{label}" for label in wine["target"]]
    place = tmp_path_factory.mktemp("choice") / "wine.csv"
    wine.to_csv(place, index=False)
    return place


def test_plan_then_run_then_promise_beside_result(table, tmp_path):
    file = tmp_path / "my plan.json"
    own = (table, "--label", "target", "--n-jobs", 1)
    done = poisonproof("plan", *own, "--attack-size", 3, "--out", file)
    assert done.stdout.count("→") == 1
    command = next(line for line in done.stdout.splitlines() if line.startswith("Next: ")).removeprefix("Next: ")
    words = shlex.split(command)
    assert words[:2] == ["poisonproof", "run"]
    folder = tmp_path / "run"
    record = json.loads(poisonproof(*words[1:-1], folder, "--json").stdout)
    choice = Plan.load(file).choice
    manifest = read_record(folder / "manifest.json")
    assert f"choice of method: {Plan.load(file).why} (chosen from this data)" in in_words(manifest)
    assert record["plan"]["certified_fraction_balanced"]["predicted"] == choice.certified_balanced
    assert record["plan"]["clean_accuracy"]["obtained"] == record["clean_accuracy"]
    assert "What was planned, and what came out" in (folder / "report.html").read_text()
    assert verify(folder).consistent
    poisonproof("update", folder, "--remove", "3", "--n-jobs", 1)
    assert in_words(read_record(folder / "manifest.json")) == in_words(manifest)


def test_one_question_is_planned_alike_by_run_and_kept(table):
    words = ("run", table, "--label", "target", "--attack-size", 3, "--out", table.parent / "run", "--json")
    done = poisonproof(*words)
    manifest = read_record(table.parent / "run" / "manifest.json")
    followed = manifest["recipe"]["plan"]
    poisonproof("plan", table, "--label", "target", "--attack-size", 3, "--out", table.parent / "plan.json")
    assert followed == Plan.load(table.parent / "plan.json").followed()
    assert f"method: {followed['why']}" in done.stderr
    what = {"neighbours": "number of neighbors", "ballots": "near", "ensemble": "spread"}[followed["method"]]
    (stated,) = [premise for premise in in_words(manifest) if premise.startswith(f"{what}: ")]
    assert stated.endswith("(chosen from this data)")
    again = poisonproof(*words)
    assert "going on with the run" in again.stderr
    assert "pilot" not in again.stderr  # a choice is made once, or an interrupted run could not go on
    other = poisonproof(*words[:5], 9, *words[6:], code=2)
    assert "another --attack-size (3 there, 9 now)" in other.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--method", "auto"), "--method auto needs --attack-size"),
        (("--method", "auto", "--attack-size", 3, "--k", 50), "--k is about base classifiers"),
        (("--attack-size", 3, "--max-memory", "4GB"), "With --max-memory no pilot is made"),
        (("--attack-size", 500), "The largest attack size that"),
        (("--plan", "PLAN", "--k", 30), "--plan says what --k is"),
        (("--plan", "PLAN", "--spread", "dpa:20"), "--plan says what --spread is"),
        (("--plan", "PLAN", "--method", "ensemble"), "--plan says what --method is"),
        (("--plan", "PLAN"), "The plan was made"),
    ],
)
def test_what_does_not_go_together_is_said(table, planned, tmp_path, words, sentence):
    planned.save(tmp_path / "plan.json")
    given = [tmp_path / "plan.json" if word == "PLAN" else word for word in words]
    done = poisonproof("run", table, "--label", "target", *given, "--out", tmp_path / "run", code=2)
    assert sentence in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "Missing option '--attack-size'"),
        (("--attack-size", 0), "The attack size must be at least 1"),
        (("--attack-size", 5000), "The largest attack size that"),
        (("--attack-size", 3, "--k", "9,x"), "--k must be whole numbers"),
        (("--attack-size", 3, "--out", "TAKEN"), "exists and is not a plan"),
    ],
)
def test_the_command_refuses_in_one_sentence(table, tmp_path, words, sentence):
    (tmp_path / "taken.json").write_text("mine")
    given = [tmp_path / "taken.json" if word == "TAKEN" else word for word in words]
    assert sentence in poisonproof("plan", table, "--label", "target", *given, code=2).stderr
    assert (tmp_path / "taken.json").read_text() == "mine"


@pytest.mark.parametrize(
    ("method", "parameters", "what"),
    [
        ("ensemble", {"k": 6, "d": 2}, "spread: k = 6, d = 2, digest "),
        ("ballots", {"near": 2.1}, "near: "),
        ("neighbours", {"n_neighbors": 5}, "number of neighbors: 5"),
    ],
)
def test_what_a_pilot_chose_is_run_changed_asked_verified_and_attested(
    table, tmp_path, monkeypatch, method, parameters, what
):
    """Every family, end to end: one list of premises in every file, and what was chosen is not called declared."""
    one = Candidate(method, parameters, 0, 0.9, 0.8, 0.9, 0.8, 0.01)
    found = replace(plan(blobs(), 4, methods=("neighbours",)), candidates=(one,), chosen=0, promise=one, attack_size=2)
    monkeypatch.setattr(Plan, "check", lambda *given: None)
    monkeypatch.setattr(planning, "plan", lambda *given, **more: found)
    run = tmp_path / "run"
    declared = ("--label", "target", "--classes", "c0,c1,c2")
    poisonproof("run", table, *declared, "--attack-size", 2, "--no-undefended", "--out", run)
    for remove in (None, "3,17"):
        if remove is not None:
            poisonproof("update", run, "--remove", remove)
        premises = in_words(read_record(run / "manifest.json"))
        assert premises == [premise.words for premise in Certificate.load(run / "certificate.npz").premises]
        (stated,) = [premise for premise in premises if premise.startswith(what)]
        assert stated.endswith("(chosen from this data)")
        poisonproof("predict", run, table, "--json")
        assert poisonproof("verify", run).stdout.startswith("VERIFIED")
        poisonproof("attest", run, "--json")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (("--attack-size", 2), "--attack-size (3 there, 2 now)"),
        ((), "--attack-size (3 there, none now)"),
        (("--attack-size", 3, "--classes", "c0,c1,c2"), "--classes (none there, "),
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
    assert "pilot" not in done.stderr
    manifest = read_record(tmp_path / "run" / "manifest.json")
    assert manifest["settings"]["k"] == k
    (spread,) = [premise for premise in in_words(manifest) if premise.startswith("spread: ")]
    assert spread.endswith("(by default)" if k == 20 else "(declared)")


def test_a_broken_promise_is_said_first(monkeypatch):
    from poisonproof.runs import report as module

    followed = {"attack_size": 3, "certified_balanced": 0.8, "error": 0.02, "next_best": "--method ensemble --k 20"}
    figure = module.PlannedFigure("certified_fraction_balanced", "", 0.8, 0.75)
    monkeypatch.setattr(module, "beside_plan", lambda outcome: [figure])
    outcome = type("Given", (), {"manifest": type("Kept", (), {"recipe": {"plan": followed}})})
    said = module.broken_promise(outcome)
    assert "promised 80.0 ± 2.0 %" in said
    assert "75.0 % came out; the next best was `--method ensemble --k 20`" in said
    monkeypatch.setattr(module, "beside_plan", lambda outcome: [replace(figure, obtained=0.77)])
    assert module.broken_promise(outcome) is None


def test_digits_get_the_same_choice_as_their_test_set_would_make():
    """Within three points of the best of what the pilot tried, on test samples that it never saw."""
    digits = load("digits").without(range(700, 1415))
    found = plan(digits, 5, n_jobs=1, methods=("neighbours", "ballots"))
    scores = {}
    for one in found.candidates:
        if one.method == "neighbours":
            model = NeighborVoteClassifier(
                map_for(digits), n_neighbors=int(one.parameters["n_neighbors"]), classes=range(10)
            )
        else:
            model = BallotClassifier(map_for(digits), near=one.parameters["near"], classes=range(10))
        certificate = model.fit(digits.train.X, digits.train.labels).certify(digits.test.X)
        scores[one.words] = certificate.evaluate(digits.test.labels).certified_fraction_balanced([5])[0]
    assert scores[found.choice.words] >= max(scores.values()) - 0.03
    assert abs(scores[found.choice.words] - found.choice.certified_balanced) <= 2.5 * found.choice.error

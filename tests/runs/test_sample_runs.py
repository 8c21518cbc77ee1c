"""Runs in which training samples vote: the same numbers from raw rows in plain Python, kills, damage, bad input."""

import csv
import json
import math
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest

from command_line import poisonproof
from poisonproof import BallotClassifier, Certificate, NeighborVoteClassifier, load
from poisonproof.ballots import election
from poisonproof.ballots.maps import MAPS, map_for, map_of, record_of
from poisonproof.runs.election import election_named
from poisonproof.runs.manifest import Manifest, RunSettings
from poisonproof.runs.run import damage, run
from refused import refused
from tables import wine_rows, write_csv

UNITS = {"alcohol": 0.5, "malic_acid": 1.0, "shade": "category"}
METHODS = {"ballots": ("--near", 1.5), "neighbours": ("--n-neighbors", 9)}
CLASSES = "abc"


@pytest.fixture(scope="module")
def wine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wine")
    names, rows = wine_rows()
    write_csv(folder / "wine.csv", names, rows[::2])
    write_csv(folder / "test.csv", names, rows[1::4])
    return folder


def command(folder, method, *more, out="run", code=0):
    return poisonproof(
        "run", folder / "wine.csv", "--label", "class", "--classes", "a,b,c", "--test", folder / "test.csv",
        "--schema", schema(folder), "--method", method, *METHODS.get(method, ()), "--units",
        "alcohol=0.5@13,malic_acid=1,shade=category", "--out", folder / out, *more, code=code,
    )  # fmt: skip


def schema(folder):
    with (folder / "wine.csv").open() as file:
        header = next(csv.reader(file))
    roles = dict.fromkeys(header, "ignore") | {"alcohol": "number", "malic_acid": "number", "shade": "category"}
    record = {"format": "poisonproof schema 2", "kind": "table", "columns": roles | {"class": "label"}}
    (folder / "schema.json").write_text(json.dumps(record))
    return folder / "schema.json"


# The slow reference: from the cells of the file to radii, in plain Python


def cells_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def described(row):
    """Two numbers in steps of 1/64 unit from their centre, gaps in a direction of their own; the category as it is."""
    steps = []
    for name, unit, centre in (("alcohol", 0.5, 13.0), ("malic_acid", 1.0, 0.0)):
        try:
            number = float(row[name])
            steps += [round(max(-8.0, min(8.0, (number - centre) / unit)) * 64), 0]
        except ValueError:
            steps += [0, round(0.7 * 64)]
    return steps, row["shade"]


def distance(one, other):
    squares = sum((a - b) ** 2 for a, b in zip(one[0], other[0], strict=True))
    return squares + (0 if one[1] == other[1] else 2 * round(0.7 * 64) ** 2)


def by_ballots(x, voters, near=1.5):
    scores = dict.fromkeys(CLASSES, 0)
    for z, label in voters:
        scores[label] += 1 if distance(x, z) <= math.floor((near * 64) ** 2) else -1
    p = max(CLASSES, key=lambda c: (scores[c], -CLASSES.index(c)))
    return p, min(scores[p] - scores[c] - (c < p) for c in CLASSES if c != p)


def by_neighbours(x, voters, k=9):
    """The theorem as it stands: every number of insertions and removals, every window."""
    order = [label for _, label in sorted(((distance(x, z), label) for z, label in voters), key=lambda pair: pair[0])]
    votes = {c: order[:k].count(c) for c in CLASSES}
    p = max(CLASSES, key=lambda c: (votes[c], -CLASSES.index(c)))

    def harmed(size):
        for inserted in range(size + 1):
            kept = order[: k - inserted + (size - inserted)]
            if any(kept.count(p) - kept.count(c) - size < (c < p) for c in CLASSES if c != p):
                return True
        return False

    radius = 0
    while radius < k and not harmed(radius + 1):
        radius += 1
    return p, radius


@pytest.mark.parametrize(("method", "reference"), [("ballots", by_ballots), ("neighbours", by_neighbours)])
def test_a_run_from_the_command_line_says_what_raw_rows_say(wine, tmp_path, method, reference):
    told = json.loads(command(wine, method, "--json", out=f"reference-{method}").stdout)
    certificate = Certificate.load(wine / f"reference-{method}" / "certificate.npz")
    voters = [(described(row), row["class"]) for row in cells_of(wine / "wine.csv")]
    tests = [described(row) for row in cells_of(wine / "test.csv")]
    found = [reference(x, voters) for x in tests]
    ties = [len({distance(x, z) for z, _ in voters}) < len(voters) for x in tests]
    agree = [
        (label, radius) == pair
        for label, radius, pair in zip(certificate.labels.tolist(), certificate.radius.tolist(), found, strict=True)
    ]
    if method == "neighbours":  # of samples at one distance the hash decides, which the reference does not know
        assert np.mean(agree) > 0.6
        assert all(same or tied for same, tied in zip(agree, ties, strict=True))
    else:
        assert all(agree)
    assert told["method"] == method
    assert told["election"]["n_voters"] == len(voters)
    assert certificate.spread is None
    with refused("certificate.no-members"):
        certificate.ensemble  # noqa: B018
    manifest = Manifest.read(wine / f"reference-{method}")
    assert manifest.settings.election["map"]["columns"][0] == {"name": "alcohol", "unit": 0.5, "centre": 13.0}
    assert manifest.threat_model["flip the label of a training sample"] == 2
    assert any(str(premise).startswith("map: table") and premise.declared for premise in manifest.premises)
    page = (wine / f"reference-{method}" / "report.html").read_text()
    assert certificate.voters in page
    assert "Nothing is trained here" in page
    assert "? %" not in page
    assert told["strong_undefended"] == "gradient boosting"
    assert "Accuracy of gradient boosting, trained on all data at once." in page
    assert "base classifier" not in page.partition("<details>")[0].replace("base classifiers abstain", "")


@pytest.mark.parametrize("method", METHODS)
def test_a_kept_run_answers_for_new_rows_as_it_did_for_its_test_samples(wine, tmp_path, method):
    command(wine, method, out=f"kept-{method}")
    folder = wine / f"kept-{method}"
    poisonproof("predict", folder, wine / "test.csv", "--target", "b", "--out", tmp_path / "answers.csv")
    answers = cells_of(tmp_path / "answers.csv")
    certificate = Certificate.load(folder / "certificate.npz")
    assert [row["prediction"] for row in answers] == certificate.labels.tolist()
    assert [int(row["radius"]) for row in answers] == certificate.radius.tolist()
    for row in answers:
        assert (row["target_radius"] == "") == (row["prediction"] == "b")
        assert row["prediction"] == "b" or int(row["target_radius"]) >= int(row["radius"])
        assert 0 < float(row["vote_share"]) <= 1
    done = poisonproof("predict", folder, wine / "test.csv", "--votes", "--out", tmp_path / "new.npy", code=2)
    assert "--out NAME.npz" in " ".join(done.stderr.split())
    poisonproof("predict", folder, wine / "test.csv", "--votes", "--out", tmp_path / "new.npz")
    again = json.loads(poisonproof("certify", tmp_path / "new.npz", "--json").stdout)
    for name in ("prediction", "runner_up", "margin", "radius", "exact"):
        assert again[name] == getattr(certificate, name).tolist(), name
    command(wine, method, "--votes-only", out=f"votes-{method}")
    done = poisonproof("predict", wine / f"votes-{method}", wine / "test.csv", code=2)
    assert "kept no voters (--votes-only)" in " ".join(done.stderr.split())


# Brute force through runs


@pytest.mark.parametrize("method", METHODS)
def test_no_attack_breaks_a_radius_of_a_run_and_one_act_more_does(tmp_path, method):
    """Twelve rows of one number: every set of removals with every number of copies of x, judged by the manifest."""
    rng = np.random.default_rng(3)
    labels = "aaaaaabbbbbb"
    rows = [[f"{rng.normal('ab'.index(label) * 1.2, 1):.3f}", label] for label in labels]
    tests = [["-0.4", "a"], ["0.5", "a"], ["1.9", "b"]]
    write_csv(tmp_path / "data.csv", ["x", "y"], rows)
    write_csv(tmp_path / "test.csv", ["x", "y"], tests)
    option = ("--near", 1.0) if method == "ballots" else ("--n-neighbors", 5)
    poisonproof("run", tmp_path / "data.csv", "--label", "y", "--classes", "a,b", "--test", tmp_path / "test.csv",
                "--method", method, *option, "--units", "x=1", "--out", tmp_path / "run")  # fmt: skip
    before = Certificate.load(tmp_path / "run" / "certificate.npz")
    settings = Manifest.read(tmp_path / "run").settings
    given = {"n_jobs": None, "estimator": None, "encoder": None}
    model = election_named(method).model_of(tmp_path / "run", settings, ["a", "b"], **given)
    x, asked = np.array([[float(row[0])] for row in rows]), np.array([[float(row[0])] for row in tests])
    assert before.exact.all()
    assert before.radius.max() >= 1
    assert model.fit(x, list(labels)).predict(asked).tolist() == before.labels.tolist()
    least = np.full(len(tests), 99)
    for t, (removed, inserted) in product(range(len(tests)), product(range(4), range(4))):
        size = removed + inserted
        if not 0 < size <= before.radius[t] + 1 or size > 4:
            continue
        copies = np.repeat(asked[t : t + 1], inserted, axis=0)
        wanted = ["ba"["ab".index(before.labels[t])]] * inserted
        for gone in combinations(range(len(rows)), removed):
            stay = [at for at in range(len(rows)) if at not in gone]
            poisoned = model.fit(np.concatenate([x[stay], copies]), [*(labels[at] for at in stay), *wanted])
            if poisoned.predict(asked[t : t + 1])[0] != before.labels[t]:
                least[t] = min(least[t], size)
                break
    assert (least > before.radius).all()
    assert (least == before.radius + 1)[before.radius < 4].all()


# Interrupted, resumed, damaged


DIGITS = load("digits")
FEW = DIGITS.without(range(300, 1415))
FEW = replace(FEW, test=FEW.test.take(np.arange(50)))
MODELS = {
    "ballots": lambda: BallotClassifier(map_for(FEW), near=2.1, classes=range(10)),
    "neighbours": lambda: NeighborVoteClassifier(map_for(FEW), n_neighbors=7, classes=range(10)),
}
KEPT = ("certificate.npz", "models/voters.npz", "models/map.skops", "models/model.json", "votes/block-00001.npz")


def bytes_of(folder, *more):
    return {name: (folder / name).read_bytes() for name in (*KEPT, *more)}


@pytest.mark.parametrize("method", METHODS)
def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(tmp_path, monkeypatch, method):
    monkeypatch.setattr(election, "TESTS_PER_BLOCK", 20)
    model = MODELS[method]()
    run(FEW, model, tmp_path / "whole")
    asked = []
    heard = type(model)._heard

    def dies(self, X, *more):
        asked.append(len(X))
        if len(asked) == 2:
            raise KeyboardInterrupt
        return heard(self, X, *more)

    monkeypatch.setattr(type(model), "_heard", dies)
    with pytest.raises(KeyboardInterrupt):
        run(FEW, model, tmp_path / "killed")
    assert Manifest.read(tmp_path / "killed").status == "running"
    outcome = run(FEW, model, tmp_path / "killed")
    assert asked == [20, 20, 20, 10]  # the first block was there
    assert bytes_of(tmp_path / "killed", f"{method}.npz") == bytes_of(tmp_path / "whole", f"{method}.npz")
    assert outcome.manifest.files == Manifest.read(tmp_path / "whole").files
    assert damage(tmp_path / "killed") == []


def test_an_updated_run_is_a_fresh_one(tmp_path):
    model = MODELS["ballots"]()
    run(FEW.without([3, 4]), model, tmp_path / "run")
    update = RunSettings(update=True)
    run(FEW, model, tmp_path / "run", update)
    run(FEW, model, tmp_path / "fresh")
    for name in ("certificate.npz", "ballots.npz", "models/voters.npz"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "fresh" / name).read_bytes(), name


@pytest.mark.parametrize("name", ["ballots.npz", "certificate.npz", "votes/block-00000.npz", "models/voters.npz"])
def test_damage_is_named_and_mended(tmp_path, name, caplog):
    model = MODELS["ballots"]()
    run(FEW, model, tmp_path)
    whole = (tmp_path / name).read_bytes()
    broken = bytearray(whole)
    broken[len(broken) // 2] ^= 1
    (tmp_path / name).write_bytes(broken)
    assert any(name in sentence for sentence in damage(tmp_path))
    run(FEW, model, tmp_path)
    assert name in caplog.text
    assert (tmp_path / name).read_bytes() == whole
    assert damage(tmp_path) == []


def test_another_election_in_the_folder_is_refused(tmp_path):
    run(FEW, MODELS["ballots"](), tmp_path, RunSettings(votes_only=True))
    assert not (tmp_path / "models").exists()
    with refused("run.other"):
        run(FEW, BallotClassifier(map_for(FEW), near=2.2, classes=range(10)), tmp_path, RunSettings(votes_only=True))
    with refused("run.other"):
        run(FEW, MODELS["neighbours"](), tmp_path, RunSettings(votes_only=True))


# Maps as records


@pytest.mark.parametrize("name", MAPS)
def test_a_map_is_made_again_from_its_record(name, wine):
    if name == "table":
        from poisonproof import ReadOptions, open_files

        features = map_for(open_files(wine / "wine.csv", ReadOptions(label="class")), "table")
        assert not features.trusted
    else:
        features = map_for(DIGITS, name)
    record = record_of(features)
    assert record["name"] == name
    assert map_of(json.loads(json.dumps(record))) == features


def test_a_map_of_somebodys_own_has_a_name_only():
    record = record_of(lambda X: X)
    assert record == {"name": "own"}
    with refused("map.unknown"):
        map_of(record)
    with refused("map.unknown"):
        map_of({"name": "pickle"})


# What cannot be meant


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--method", "ballots", "--near", "-1"], "'near' parameter is the greatest distance"),
        (["--method", "ballots"], "--method ballots needs --near"),
        (["--method", "neighbours"], "needs --n-neighbors"),
        (["--method", "neighbours", "--n-neighbors", "0"], "must be a whole number above 0"),
        (["--method", "neighbours", "--n-neighbors", "3", "--near", "1"], "--near is not of --method neighbours"),
        (["--method", "ballots", "--near", "1", "--n-neighbors", "3"], "--n-neighbors is not of --method ballots"),
        (["--near", "1"], "--near says how training samples vote"),
        (["--method", "voting"], "--method is one of ensemble, ballots, neighbours"),
        (["--method", "ballots", "--near", "1", "--k", "50"], "--k is about base classifiers"),
        (["--method", "ballots", "--near", "1", "--learner", "table"], "--learner is of base classifiers"),
        (["--method", "ballots", "--near", "1", "--class-sizes", "0=5,11=3"], "must name the 10 classes and no others"),
        (["--method", "ballots", "--near", "1", "--class-sizes", "many"], "must be NAME=VALUE"),
        (["--method", "ballots", "--near", "1", "--voices", "2"], "--voices are those of contributors"),
        (["--method", "ballots", "--near", "1", "--features", "pickle"], "There is no feature map 'pickle'"),
        (["--method", "ballots", "--near", "1", "--units", "age=10"], "--units are of the columns of a table"),
        (["--method", "ballots", "--near", "1", "--unit", "0"], "--unit must be a number above 0"),
        (["--method", "ballots", "--near", "1", "--rankings"], "Rankings are those of base classifiers"),
        (["--method", "ballots", "--near", "1", "--class-sizes-from", "x"], "give --class-sizes too"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_said_in_one_sentence(tmp_path, words, sentence):
    done = poisonproof("run", "digits", *words, "--out", tmp_path / "run", code=2)
    assert sentence in " ".join(done.stderr.split())
    assert not (tmp_path / "run").exists()


def test_fewer_samples_than_neighbours_are_told_of_and_vote_all_the_same(wine):
    done = command(wine, "neighbours", "--n-neighbors", 5000, out="all")
    assert "fewer voters, 89, than n_neighbors, 5000" in " ".join(done.stderr.split())
    certificate = Certificate.load(wine / "all" / "certificate.npz")
    assert len(set(certificate.labels.tolist())) == 1


def test_other_commands_answer_for_such_runs_or_say_why_not(wine):
    for method in METHODS:
        command(wine, method, out=method)
    ballots, neighbours = wine / "ballots", wine / "neighbours"
    poisonproof("gate", ballots, "--clean", "0.5", "--require-verified")
    (one,) = json.loads(poisonproof("certify", "--shared", ballots, "--attack-size", 3, "--json").stdout)["accuracies"]
    certificate = Certificate.load(ballots / "certificate.npz")
    right = certificate.labels == np.array([row["class"] for row in cells_of(wine / "test.csv")])
    assert one["certified_count"] == (right & (certificate.radius >= 3)).sum()
    assert one["certified_count"] <= one["lower_count"] <= one["upper_count"] <= right.sum()
    done = poisonproof("certify", "--shared", neighbours, code=2)
    assert "(one shared attack) of neighbours is not known" in done.stderr

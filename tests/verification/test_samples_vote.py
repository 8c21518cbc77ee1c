"""The checker of runs in which samples vote: its arithmetic, its counting, and what it says to forgers."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from command_line import poisonproof
from poisonproof import BallotClassifier, NeighborVoteClassifier, load, run, verify
from poisonproof.ballots.maps import map_for
from poisonproof.ballots.neighbor_radii import certify_order
from poisonproof.ballots.radii import certify_counts, certify_voices
from poisonproof.ballots.tallies import Voices
from poisonproof.ballots.verify_arithmetic import Rule, by_ballots, by_neighbours, by_voices
from poisonproof.runs.manifest import RunSettings
from poisonproof.system.files import open_arrays, read_record, write_arrays
from poisonproof.verification import fields
from tables import wine_rows, write_csv

NAMES = ("prediction", "runner_up", "margin", "insert", "remove", "label_flip", "modify")
DIGITS = load("digits")
FEW = DIGITS.without(range(250, 1415))
FEW = replace(FEW, test=FEW.test.take(np.arange(40)))
MODELS = {
    "ballots": lambda: BallotClassifier(map_for(FEW), near=2.1, classes=range(10)),
    "sizes": lambda: BallotClassifier(map_for(FEW), near=2.1, class_sizes=dict.fromkeys(range(10), 25)),
    "one-sided": lambda: BallotClassifier(map_for(FEW), near=2.1, one_sided=True),
    "neighbours": lambda: NeighborVoteClassifier(map_for(FEW), n_neighbors=7),
}  # fmt: skip


def agree(radii, sums):
    for t, own in enumerate(sums):
        assert radii.insert_remove[t] == own.radius
        assert tuple(int(getattr(radii, name)[t]) for name in NAMES) == tuple(getattr(own, name) for name in NAMES)


@pytest.mark.parametrize("inferred", [False, True])
@pytest.mark.parametrize("one_sided", [False, True])
def test_ballots_two_ways(inferred, one_sided):
    rng = np.random.default_rng(0)
    for _ in range(300):
        n_classes = int(rng.integers(2, 5))
        totals = rng.integers(int(inferred), 9, n_classes)
        totals[0] += 1
        near = rng.integers(0, totals + 1, (4, n_classes))
        sizes = np.zeros(n_classes, np.int64) if inferred or one_sided else rng.integers(0, 9, n_classes)
        radii = certify_counts(near, totals, sizes, one_sided=one_sided, inferred=inferred)
        rule = Rule(sizes.tolist(), one_sided, inferred)
        agree(radii, [by_ballots(row.tolist(), totals.tolist(), rule) for row in near])


@pytest.mark.parametrize("contributors", [False, True])
@pytest.mark.parametrize("inferred", [False, True])
def test_neighbours_two_ways(inferred, contributors):
    rng = np.random.default_rng(1)
    for _ in range(400):
        n, k, n_classes = int(rng.integers(1, 30)), int(rng.integers(1, 9)), int(rng.integers(2, 5))
        order = rng.choice(
            n_classes, (5, min(2 * k, n)), p=np.arange(1, n_classes + 1)[::-1] / sum(range(n_classes + 1))
        )
        radii = certify_order(order, k, n, n_classes, inferred=inferred, contributors=contributors)
        agree(
            radii, [by_neighbours(row, k, n, n_classes, inferred=inferred, contributors=contributors) for row in order]
        )


@pytest.mark.parametrize("inferred", [False, True])
@pytest.mark.parametrize("one_sided", [False, True])
def test_voices_two_ways(inferred, one_sided):
    rng = np.random.default_rng(2)
    for _ in range(200):
        n_classes, n, voices = int(rng.integers(2, 4)), int(rng.integers(1, 7)), int(rng.integers(1, 4))
        classes, starts = [], [0]
        for _ in range(n):
            own = sorted(rng.choice(n_classes, int(rng.integers(1, n_classes + 1)), replace=False).tolist())
            classes += own
            starts.append(len(classes))
        if inferred and len(set(classes)) < n_classes:
            continue
        totals = rng.integers(1, 5, len(classes))
        near = rng.integers(0, totals + 1, (3, len(classes)))
        sizes = np.zeros(n_classes, np.int64) if inferred or one_sided else rng.integers(0, 4, n_classes)
        cells = Voices(voices, np.array(classes), np.array(starts))
        _, radii = certify_voices(near, totals, sizes, cells, one_sided=one_sided, inferred=inferred)
        rule = Rule(sizes.tolist(), one_sided, inferred)
        agree(radii, [by_voices(row.tolist(), totals.tolist(), classes, starts, voices, rule) for row in near])


# Runs


@pytest.fixture(scope="module", params=MODELS)
def made(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / request.param.replace(" ", "-")
    run(FEW, MODELS[request.param](), folder)
    return folder


def test_a_run_is_verified_with_its_data_and_consistent_without(made):
    verdict = verify(made, data=FEW)
    assert verdict.word == "VERIFIED", str(verdict)
    assert not verdict.failed
    assert "counted again in the map that is stated" in verdict.verdict
    alone = verify(made)
    assert alone.word == "CONSISTENT", str(alone)
    assert "No vote was made again." in alone.verdict
    assert "that the votes are those of the data in the map that is stated" in alone.unchecked
    some = verify(made, data=FEW, sample=5)
    assert some.word == "VERIFIED"
    assert "test samples that were not drawn" in some.unchecked
    assert verify(made, data=FEW, ask=False).word == "CONSISTENT"
    assert verify(made, data=FEW.without([0])).word == "NOT VERIFIED"


def test_a_loose_certificate_follows_from_its_votes(made):
    name = "ballots.npz" if (made / "ballots.npz").exists() else "neighbours.npz"
    assert verify(made / "certificate.npz", votes=made / name).word == "CONSISTENT"
    alone = verify(made / "certificate.npz")
    assert alone.word == "NOT VERIFIED"
    assert "comes without votes" in alone.verdict


def test_the_origin_of_a_loose_certificate_is_checked_or_named(made):
    name = "ballots.npz" if (made / "ballots.npz").exists() else "neighbours.npz"
    arrays, facts = open_arrays(made / "certificate.npz")
    lie = made.parent / f"{made.name}-lie.npz"
    for threats, word in (
        (facts["origin"]["threat_model"], "CONSISTENT"),
        ({**facts["origin"]["threat_model"], "control the training machine": 1}, "NOT VERIFIED"),
    ):
        origin = {**facts["origin"], "learner": "an oracle", "threat_model": threats}
        write_arrays(lie, arrays, {**facts, "origin": origin})
        verdict = verify(lie, votes=made / name)
        assert verdict.word == word, str(verdict)
        if word == "CONSISTENT":
            assert fields.ORIGIN in verdict.unchecked
        else:
            assert "control the training machine is stated as 1" in verdict.verdict


# Through the command line: tables, contributors, updates


@pytest.mark.parametrize("method", [("ballots", "--near", 3, "--voices", 2), ("neighbours", "--n-neighbors", 5)])
@pytest.mark.parametrize("grouped", [False, True])
def test_tables_and_contributors_are_counted_again(tmp_path, method, grouped):
    names, rows = wine_rows()
    write_csv(tmp_path / "wine.csv", names, rows)
    words = ["--group-column", "maker"] if grouped else []
    given = [word for at, word in enumerate(method[1:]) if grouped or at < 2]
    poisonproof("run", tmp_path / "wine.csv", "--label", "class", "--classes", "a,b,c", *words, "--method", method[0],
                *given, "--out", tmp_path / "run")  # fmt: skip
    said = poisonproof("verify", tmp_path / "run").stdout
    assert said.startswith("VERIFIED")
    poisonproof("update", tmp_path / "run", "--remove", "3,17")
    assert read_record(tmp_path / "run" / "manifest.json")["changes"][0]["retrained"] == 0
    told = json.loads(poisonproof("verify", tmp_path / "run", "--json").stdout)
    assert told["verdict"].startswith("VERIFIED"), told
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    (tmp_path / "wine.csv").unlink()
    assert "CONSISTENT" in poisonproof("verify", tmp_path / "copy", code=5).stdout


def test_a_run_without_its_voters_is_verified_all_the_same(tmp_path):
    run(FEW, MODELS["neighbours"](), tmp_path / "run", RunSettings(votes_only=True))
    assert verify(tmp_path / "run", data=FEW).word == "VERIFIED"

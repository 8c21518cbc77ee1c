"""What users may add in their own process, by `registry.add` and nothing else: each is little code, and serves."""

import json
from pathlib import Path

import numpy as np
import pytest

import added_format
import added_learner
import added_method
import added_voters
from added_voters import GridClassifier
from poisonproof import Split, Spread, Votes, certify, load, registry, run, verify
from poisonproof.cli.main import app
from poisonproof.core.votes import load_tallies


@pytest.fixture(autouse=True)
def added(monkeypatch):
    monkeypatch.setattr(registry, "LINES", {kind: dict(lines) for kind, lines in registry.LINES.items()})
    for one in (added_format, added_learner, added_method, added_voters):
        one.add()


@pytest.mark.parametrize(
    ("module", "fewer_than"), [(added_format, 60), (added_learner, 60), (added_method, 60), (added_voters, 150)]
)
def test_it_takes_little_code(module, fewer_than):
    assert len(Path(module.__file__).read_text("utf-8").splitlines()) < fewer_than


def write_fish(path, broken=()):
    lines = [json.dumps(["length", "width", "kind"])]
    for row in range(120):
        big = row % 2
        lines.append(json.dumps([3 * big + row % 7 / 10, big + row % 5 / 10, ["eel", "cod"][big]]))
    path.write_text("\n".join([*lines, *broken]) + "\n", "utf-8")


def test_a_file_format_and_a_learner_make_a_run(tmp_path, monkeypatch, capsys):
    """A broken row is left out, and no other is read otherwise; the run is verified."""
    monkeypatch.chdir(tmp_path)
    write_fish(tmp_path / "fish.jsonl", ['{"no": "row"}', "[1", '["too few"]'])
    words = ["run", "fish.jsonl", "--label", "kind", "--classes", "cod,eel", "--learner", "nearest-mean", "--k", "5"]
    assert not app([*words, "--n-jobs", "1", "--no-undefended", "--out", "run"], standalone_mode=False)
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert (manifest["clean_accuracy"], manifest["n_train"] + manifest["n_test"]) == (1.0, 120)
    assert any("3 rows" in note for note in manifest["notes"])
    assert "NearestMean" in manifest["settings"]["learner"]
    assert app(["verify", "run"], standalone_mode=False) == 5  # a learner that nobody vouched for is not asked again
    assert "CONSISTENT" in capsys.readouterr().out


def test_a_certificate_method_certifies():
    """It never claims more than the bound it is weaker than."""
    matrix = np.random.default_rng(0).integers(0, 3, (50, 60))
    for inferred in (False, True):
        votes = Votes(matrix // 2, Spread.random(15, 4), classes=range(3), classes_inferred=inferred)
        careful, bound = certify(votes, "careful-bound"), certify(votes, "dpa-bound")
        assert careful.method == "careful-bound"
        assert careful.prediction.tolist() == bound.prediction.tolist()
        assert (careful.radius <= bound.radius).all()
        assert careful.radius.any()


def test_a_family_of_voters_makes_a_run(tmp_path):
    """Its certificate, its kept tallies, and it goes on; our checker does not know it, and says so."""
    digits = load("digits")
    split = Split("content", digits.dtype, digits.n_features)
    outcome = run(digits, GridClassifier(9.0, range(10), split), tmp_path / "run")
    certificate = outcome.certificate
    assert certificate.election["kind"] == "grid"
    assert 0.1 < outcome.figures.clean_accuracy < 1
    assert certify(load_tallies(tmp_path / "run" / "grid.npz")).radius.tolist() == certificate.radius.tolist()
    again = run(digits, GridClassifier(9.0, range(10), split), tmp_path / "run")
    assert again.manifest.files == outcome.manifest.files
    verdict = verify(tmp_path / "run", data=digits)
    assert verdict.consistent
    assert "this checker does not know the method" in str(verdict)


def test_no_poison_within_its_radius_turns_a_prediction_of_that_family():
    """Copies of the test sample under the runner-up's label, one more than which would turn it."""
    rng = np.random.default_rng(1)
    X, y = rng.integers(0, 3, (60, 2)).astype(float), rng.integers(0, 3, 60)
    split = Split("content")
    before = GridClassifier(1.0, range(3), split).fit(split.samples(X), y)
    tests = split.samples(X[:10])
    certificate = before.tallies(before.counts(tests)).certify()
    for row, (rival, radius) in enumerate(zip(certificate.runner_up, certificate.radius, strict=True)):
        for size, moves in ((radius, False), (radius + 1, True)):
            rows, labels = np.repeat(X[row : row + 1], size, axis=0), np.full(size, rival)
            model = GridClassifier(1.0, range(3), split)
            model.fit(split.samples(np.concatenate([X, rows])), np.concatenate([y, labels]))
            prediction = model.tallies(model.counts(tests)).certify().prediction[row]
            assert (prediction != certificate.prediction[row]) == moves

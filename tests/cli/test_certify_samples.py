"""`certify` on what samples said in a run: the run's own certificate, against every threat; refusals."""

import json

import numpy as np
import pytest

from command_line import poisonproof
from poisonproof import Certificate
from wine import wine_runs

THREATS = ("insert_remove", "insert", "remove", "label_flip", "modify")
runs = pytest.fixture(scope="module")(wine_runs)


@pytest.mark.parametrize("name", ["narrow", "wide", "neighbours"])
def test_kept_words_of_samples_are_certified_as_in_their_run_against_every_threat(runs, name, tmp_path):
    folder, truth = runs
    file = folder / name / ("neighbours.npz" if name == "neighbours" else "ballots.npz")
    certificate = Certificate.load(folder / name / "certificate.npz")
    np.save(tmp_path / "y.npy", np.array(truth))
    for threat in THREATS:
        record = json.loads(poisonproof("certify", file, "--against", threat, "--json").stdout)
        assert record["against"] == threat
        assert record["radius"] == certificate.radius_against(threat).tolist()
        for field in ("prediction", "runner_up", "margin"):
            assert record[field] == getattr(certificate, field).tolist()
    done = poisonproof("certify", file, "--labels", tmp_path / "y.npy", "--out", tmp_path / "c.npz")
    assert "Always answering the most frequent label is right on" in done.stdout
    assert "premise: map:" in done.stderr
    assert (Certificate.load(tmp_path / "c.npz").radius == certificate.radius).all()
    for words, sentence in {
        ("--against", "eat"): "A threat is one of",
        ("--spread", "dpa:5"): "--spread is about base classifiers",
        ("--method", "tight"): "--method is about base classifiers",
        ("--classes", "a,b"): "was made with other classes",
        ("--target", "z"): "must name one of the 3 classes",
        ("--target", "a", "--against", "insert"): "leave --against out",
    }.items():
        assert sentence in " ".join(poisonproof("certify", file, *words, code=2).stderr.split())
    assert "is a folder; of a run, give its file" in poisonproof("certify", folder / name, code=2).stderr
    broken = bytearray(file.read_bytes())
    broken[len(broken) // 3] ^= 4
    (tmp_path / "broken.npz").write_bytes(broken)
    assert "is altered" in poisonproof("certify", tmp_path / "broken.npz", code=2).stderr
    assert "is of format 'poisonproof certificate 2'" in poisonproof("certify", tmp_path / "c.npz", code=2).stderr

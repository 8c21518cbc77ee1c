"""poisonproof audit and poisonproof update as a user runs them."""

import json

import numpy as np
import pytest

from command_line import poisonproof
from fish import rows, write_rows
from poisonproof.learners.table import TableClassifier
from poisonproof.system.files import read_record


@pytest.fixture(scope="module")
def fish(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fish")
    write_rows(folder / "fish.csv", rows(160))
    write_rows(folder / "test.csv", rows(30, seed=1))
    poisonproof("run", folder / "fish.csv", "--label", "kind", "--classes", "cod,eel", "--test", folder / "test.csv",
           "--k", 5, "--d", 2, "--out", folder / "run", "--n-jobs", 1)  # fmt: skip
    return folder


def results(folder):
    return {name: (folder / name).read_bytes() for name in ("votes.npy", "certificate.npz", "split.npy")}


def test_update_takes_the_file_as_it_is_now(fish, tmp_path):
    """Rows deleted, added and corrected; the result is that of a run on the new file."""
    work = tmp_path / "run"
    new = rows(160)
    del new[7]
    new[3] = new[3].replace("cod", "COD").replace("eel", "cod").replace("COD", "eel")
    new += rows(2, seed=5)
    write_rows(tmp_path / "fish.csv", new)
    poisonproof("run", fish / "fish.csv", "--label", "kind", "--classes", "cod,eel", "--test", fish / "test.csv",
           "--k", 5, "--d", 2, "--out", work, "--n-jobs", 1)  # fmt: skip
    told = json.loads(poisonproof("update", work, tmp_path / "fish.csv", "--n-jobs", 1, "--json").stdout)
    assert told["n_train"] == 161
    assert 0 < told["changes"][0]["retrained"] <= 8
    poisonproof("run", tmp_path / "fish.csv", "--label", "kind", "--classes", "cod,eel", "--test", fish / "test.csv",
           "--k", 5, "--d", 2, "--out", tmp_path / "fresh", "--n-jobs", 1)  # fmt: skip
    assert results(work) == results(tmp_path / "fresh")


def test_removed_rows_stay_removed(tmp_path):
    poisonproof("run", "digits", "--k", 4, "--d", 2, "--out", tmp_path / "run", "--n-jobs", 1)
    poisonproof("update", tmp_path / "run", "--remove", "3,17", "--n-jobs", 1)
    (tmp_path / "numbers").write_text("3\n0\n")  # 3 is gone already, and every row keeps its number
    said = poisonproof("update", tmp_path / "run", "--remove", tmp_path / "numbers", "--n-jobs", 1).stdout
    assert "1412 training samples" in said
    manifest = read_record(tmp_path / "run" / "manifest.json")
    assert len(manifest["asked"]["left_out"]["marks"]) == 3
    assert [change["n_train"] for change in manifest["changes"]] == [1413, 1412]
    assert "0 of 8 base classifiers" not in said
    report = json.loads(
        poisonproof("audit", tmp_path / "run", "--targets", 1, "--kinds", "remove", "--attack-size", 1, "--json").stdout
    )
    assert report["ok"]


def test_audit_of_a_table_writes_its_findings(fish):
    report = json.loads(poisonproof("audit", fish / "run", "--targets", 1, "--seed", 2, "--json").stdout)
    assert report["ok"]
    assert {"remove", "insert", "flip", "modify", "degenerate", "flood"} <= set(report["by_kind"])
    assert read_record(fish / "run" / "audit.json")["n_attacks"] == report["n_attacks"]
    assert (fish / "run" / "audit.svg").read_text().startswith("<svg")
    shown = poisonproof("audit", fish / "run", "--targets", 1, "--kinds", "flip")
    assert "0 against the certificate" in shown.stdout


def test_a_violation_ends_with_exit_code_3(fish, monkeypatch):
    real, calls = TableClassifier.fit, []

    def drifting(self, X, y):
        calls.append(1)
        return real(self, X, np.roll(y, len(calls)))

    monkeypatch.setattr(TableClassifier, "fit", drifting)
    result = poisonproof("audit", fish / "run", "--targets", 1, "--kinds", "insert", code=3)
    assert "VIOLATION" in result.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("update", "{fish}/none"), "holds no run; make one with `poisonproof run"),
        (("update", "{fish}/run", "--remove", "a,b"), "neither row numbers like 3,17 nor a file"),
        (("update", "{fish}/run", "--remove", "900"), "rows of the training data, 0 … 159"),
        (("update", "{fish}/run", "{fish}/gone.csv"), "no file or folder of that name"),
        (("audit", "{fish}/run", "{fish}/test.csv"), "is not the data that the run"),
        (("audit", "{fish}/run", "--kinds", "bribe"), "An attack is one of"),
    ],
)
def test_bad_input_gets_one_sentence_and_changes_nothing(fish, words, message):
    before = results(fish / "run")
    result = poisonproof(*(str(word).format(fish=fish) for word in words), code=2)
    assert message in result.stderr
    assert results(fish / "run") == before

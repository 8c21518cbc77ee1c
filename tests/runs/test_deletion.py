"""Removed rows: the right ones whatever interrupts, and nothing of them stays in the run (docs/deletion.md)."""

import json
import shutil

import numpy as np
import pytest

from command_line import poisonproof
from fish import HEADER, rows
from poisonproof.system.files import open_arrays, read_record

REMOVED = (3, 17)
NAMES = ("votes.npy", "certificate.npz", "split.npy", "votes/block-00000.npz", "models/members-00000.npy")


def command(home, out):
    return ("run", home / "fish.csv", "--label", "kind", "--learner", "table", "--classes", "cod,eel", "--test",
            home / "test.csv", "--k", 5, "--d", 2, "--out", out, "--n-jobs", 1)  # fmt: skip


def write(path, some):
    path.write_text("\n".join([HEADER, *some]) + "\n")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A run of a small table with equal rows in it, and one of the table without the rows 3 and 17."""
    folder = tmp_path_factory.mktemp("fish")
    table = rows(160)
    table[40] = table[3]
    write(folder / "test.csv", rows(30, seed=1))
    write(folder / "fish.csv", [row for at, row in enumerate(table) if at not in REMOVED])
    poisonproof(*command(folder, folder / "fresh"))
    write(folder / "fish.csv", table)
    poisonproof(*command(folder, folder / "run"))
    return folder


@pytest.fixture
def run(home, tmp_path):
    shutil.copytree(home / "run", tmp_path / "run")
    return tmp_path / "run"


def results(folder):
    return {name: (folder / name).read_bytes() for name in NAMES}


def update(run, *more):
    return poisonproof("update", run, *more, "--n-jobs", 1)


class Stop(BaseException):
    """As a killed process: nothing is caught or tidied on its way."""


def stop(*rest, **more):
    raise Stop


@pytest.mark.parametrize(
    "place",
    [
        "poisonproof.runs.run._forget_conclusions",
        "poisonproof.training.members.train_and_vote",
        "poisonproof.runs.election.write_block",
        "poisonproof.runs.run.certify",
        "poisonproof.runs.manifest.Manifest.write",
        "poisonproof.runs.report.write_report",
    ],
)
def test_a_removal_that_was_interrupted_removes_the_same_rows_when_repeated(home, run, monkeypatch, place):
    """Also where the run was complete and only its report was missing."""
    (run / "audit.json").write_text("of the old data")
    with monkeypatch.context() as patch:
        patch.setattr(place, stop)
        with pytest.raises(Stop):
            update(run, "--remove", "3,17")
    update(run, "--remove", "3,17")
    assert results(run) == results(home / "fresh")
    assert not (run / "audit.json").exists(), "what was concluded from the old data"
    manifest = read_record(run / "manifest.json")
    assert [change["n_train"] for change in manifest["changes"]] == [158]
    assert manifest["changes"][0]["n_train_before"] == 160


def test_an_interrupted_removal_is_finished_without_saying_it_again(home, run, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("poisonproof.runs.election.write_block", stop)
        with pytest.raises(Stop):
            update(run, "--remove", "3,17")
    update(run)
    assert results(run) == results(home / "fresh")


def test_repeating_a_removal_changes_nothing(home, run):
    update(run, "--remove", "3")
    update(run, "--remove", "17")
    before = read_record(run / "manifest.json")["changes"]
    again = update(run, "--remove", "17,3")
    assert "0 of 10 base classifiers were trained again" in again.stdout
    assert results(run) == results(home / "fresh")
    assert read_record(run / "manifest.json")["changes"] == before


def test_of_equal_rows_the_one_that_was_named_is_left_out(run):
    """Rows 3 and 40 are equal; 40 stays in its place."""
    update(run, "--remove", "3")
    assert len(np.load(run / "split.npy")) == 159
    update(run, "--remove", "40")
    assert len(np.load(run / "split.npy")) == 158


def test_rows_deleted_from_the_file_itself_are_no_longer_in_the_recipe(home, tmp_path):
    write(tmp_path / "fish.csv", rows(160))
    shutil.copy(home / "test.csv", tmp_path)
    poisonproof(*command(tmp_path, tmp_path / "run"))
    update(tmp_path / "run", "--remove", "3,17")
    write(tmp_path / "fish.csv", [row for at, row in enumerate(rows(160)) if at not in REMOVED])
    update(tmp_path / "run")
    assert "left_out" not in read_record(tmp_path / "run" / "manifest.json")["recipe"]


def test_rows_of_an_earlier_file_are_never_taken_for_those_of_another(home, tmp_path):
    write(tmp_path / "fish.csv", rows(150))
    shutil.copy(home / "test.csv", tmp_path)
    poisonproof(*command(tmp_path, tmp_path / "run"))
    update(tmp_path / "run", "--remove", "0")
    write(tmp_path / "fish.csv", rows(140))
    said = poisonproof("update", tmp_path / "run", code=2).stderr
    assert "Rows 0 were left out of the earlier file; delete them in the file, or give --remove again" in said
    update(tmp_path / "run", "--remove", "5")
    assert read_record(tmp_path / "run" / "manifest.json")["recipe"]["left_out"]["rows"] == [5]
    assert "140 training samples" in update(tmp_path / "run", "--remove", "").stdout
    assert "left_out" not in read_record(tmp_path / "run" / "manifest.json")["recipe"]


def texts_and_bytes(folder):
    """All that stands in the files of a run, npz members unpacked."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.name, path.read_bytes()
            if path.suffix == ".npz":
                for array in open_arrays(path)[0].values():
                    yield path.name, array.tobytes()


def test_nothing_of_the_old_data_stays_in_the_folder(home, run):
    before = read_record(run / "manifest.json")
    old = read_record(run / "models" / "model.json")["subset_digests"]
    poisonproof("audit", run, "--targets", 1, "--kinds", "remove", "--attack-size", 1)
    update(run, "--remove", "3,17")
    manifest = read_record(run / "manifest.json")
    now = read_record(run / "models" / "model.json")["subset_digests"]
    subsets = [(old[at : at + 32], now[at : at + 32]) for at in range(0, len(old), 32)]
    gone = [one for one, other in subsets if one != other]
    assert len(gone) == manifest["changes"][0]["retrained"] > 0
    forbidden = {digest.encode() for digest in gone} | {bytes.fromhex(digest) for digest in gone}
    forbidden |= {value.encode() for name, value in before["files"].items() if value != manifest["files"][name]}
    for name, body in texts_and_bytes(run):
        for secret in forbidden:
            assert secret not in body, name
    assert not (run / "audit.json").exists()
    assert set(manifest["changes"][0]) == {"n_train_before", "retrained", "n_train", "of", "when"}
    digests = {name: value for name, value in before["settings"]["dataset"].items() if "train" in name}
    assert manifest["recipe"].pop("left_out") == {"rows": [3, 17], "digests": digests}
    assert not any(digest in json.dumps(manifest) for digest in digests.values()), "nor elsewhere"


def test_no_undefended_figure_is_shown_of_other_data(run):
    before = read_record(run / "manifest.json")
    assert before["undefended_accuracy"] is not None
    assert before["no_undefended"] is None
    update(run)
    assert read_record(run / "manifest.json")["undefended_accuracy"] == before["undefended_accuracy"]
    said = json.loads(update(run, "--remove", "3", "--json").stdout)
    after = read_record(run / "manifest.json")
    for name in ("undefended_accuracy", "strong_undefended_accuracy", "strong_undefended"):
        assert after[name] is said[name] is None
    assert "none was trained since the training data changed" in after["no_undefended"]
    assert said["no_undefended"] == after["no_undefended"]
    assert "Not known: none was trained since the training data changed" in (run / "report.html").read_text()
    update(run, "--undefended")
    assert read_record(run / "manifest.json")["undefended_accuracy"] is not None
    assert "VERIFIED" in poisonproof("verify", run).stdout

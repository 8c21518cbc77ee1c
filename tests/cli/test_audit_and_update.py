"""poisonproof audit and poisonproof update as a user runs them."""

import json

import numpy as np
import pytest

from command_line import poisonproof
from fish import rows, write_rows
from poisonproof import Certificate
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


def results(folder, *, but_premises=False):
    """What a run comes to; its certificate as bytes, or without its premises."""
    if but_premises:
        certificate = Certificate.load(folder / "certificate.npz")
        names, arrays = ("votes.npy", "split.npy"), (certificate.prediction.tobytes(), certificate.radius.tobytes())
        return {name: (folder / name).read_bytes() for name in names}, arrays
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
    assert results(work, but_premises=True) == results(tmp_path / "fresh", but_premises=True)


@pytest.mark.parametrize(
    ("how", "bound"),
    [
        *((how, ()) for how in ("grows", "shrinks", "--remove")),
        *((how, ("--max-memory", "1000GB")) for how in ("grows", "shrinks")),  # of partitions no row is taken out
    ],
)
def test_an_update_reads_by_the_schema_of_the_run(tmp_path, how, bound):
    """One odd row turns what the column of lengths is: it had blocked updates, and stayed when it was removed."""
    table = rows(60)
    table[:6] = ["odd" + row[row.index(",") :] for row in table[:6]]
    write_rows(tmp_path / "few.csv", table)
    write_rows(tmp_path / "more.csv", [*table, "odd,red,m1,cod"])
    write_rows(tmp_path / "test.csv", rows(30, seed=1))
    first, then = ("few.csv", "more.csv") if how == "grows" else ("more.csv", "few.csv")
    own = ("--label", "kind", "--classes", "cod,eel", "--test", tmp_path / "test.csv", "--k", 5, "--n-jobs", 1)
    words = (*own, *bound, "--learner", "table", "--no-undefended", "--out")
    poisonproof("run", tmp_path / first, *words, tmp_path / "run")
    schema = (tmp_path / "run" / "schema.json").read_text()
    assert ("'length' as number; 1 odd row could" in schema) == (how == "grows")
    change = ("--remove", 60) if how == "--remove" else (tmp_path / then,)
    poisonproof("update", tmp_path / "run", *change, "--n-jobs", 1)
    for fresh, more in (("same", ("--schema", tmp_path / "run" / "schema.json")), ("own", ())):
        poisonproof("run", tmp_path / then, *words, tmp_path / fresh, *more)
    assert (tmp_path / "run" / "schema.json").read_text() == schema
    assert results(tmp_path / "run", but_premises=True) == results(tmp_path / "same", but_premises=True)
    assert results(tmp_path / "run") != results(tmp_path / "own")
    assert poisonproof("verify", tmp_path / "run", "--retrain", 2).stdout.startswith("VERIFIED")


def test_verify_takes_test_samples_from_what_it_is_given_and_says_which(fish, tmp_path):
    """It had opened the file that the manifest names, beside the data that were given."""
    here = ("verify", fish / "run", fish / "fish.csv")
    moved = tmp_path / "moved.csv"
    moved.write_bytes((fish / "test.csv").read_bytes())
    done = poisonproof(*here, "--test", moved)
    assert done.stdout.startswith("VERIFIED")
    assert "On the data given (test samples: from moved.csv), the 10 kept" in done.stdout
    done = poisonproof(*here, code=5)
    assert "the test samples of the run are no part of DATA; name their file with --test." in done.stderr
    assert "On the data that the run names (test samples: from test.csv)" in poisonproof("verify", fish / "run").stdout
    write_rows(tmp_path / "other.csv", rows(30, seed=2))
    poisonproof(*here, "--test", tmp_path / "other.csv", code=3)
    poisonproof("verify", fish / "run", "--test", moved, code=2)


def test_audit_of_a_table_writes_its_findings(fish):
    report = json.loads(poisonproof("audit", fish / "run", "--targets", 1, "--seed", 2, "--json").stdout)
    assert report["ok"]
    assert {"remove", "insert", "flip", "modify", "degenerate", "flood"} <= set(report["by_kind"])
    assert read_record(fish / "run" / "audit.json")["n_attacks"] == report["n_attacks"]
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
        (("update", "{fish}/run", "--remove", "a,b"), "neither a row number nor the name of a picture"),
        (("update", "{fish}/run", "--remove", "900"), "rows of the training data, 0 … 159"),
        (("update", "{fish}/run", "{fish}/gone.csv"), "no file or folder of that name"),
        (("audit", "{fish}/run", "{fish}/test.csv"), "is not the data that the run"),
        (("audit", "{fish}/run", "--kinds", "bribe"), "is one of"),
    ],
)
def test_bad_input_gets_one_sentence_and_changes_nothing(fish, words, message):
    before = results(fish / "run")
    result = poisonproof(*(str(word).format(fish=fish) for word in words), code=2)
    assert message in result.stderr
    assert results(fish / "run") == before

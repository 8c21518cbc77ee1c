"""Rows removed from a run whose data lie in partitions: only theirs are written again, and nothing of them stays."""

import shutil

import numpy as np
import pytest

from command_line import poisonproof
from fish import HEADER, rows
from poisonproof import Split
from poisonproof.data import store_removal
from poisonproof.data.large import open_large
from poisonproof.data.large_source import Source
from poisonproof.data.options import ReadOptions
from poisonproof.data.store import PartitionStore, partition_file

REMOVED = (3, 17)
NAMES = ("votes.npy", "certificate.npz", "split.npy", "votes/block-00000.npz", "models/members-00000.npy")
ALIKE = ("sizes", "contents", "digests", "labels", "counts", "n_read", "n_incomplete", "layout")


def command(home, out, classes="cod,eel"):
    return ("run", home / "fish.csv", "--label", "kind", "--learner", "table",
            *(("--classes", classes) if classes else ()), "--test", home / "test.csv", "--k", 5, "--d", 2, "--out", out,
            "--n-jobs", 1, "--max-memory", "1000GB", "--no-undefended")  # fmt: skip


def write(path, some):
    path.write_text("\n".join([HEADER, *some]) + "\n")


def table():
    made = rows(160)
    made[40] = made[3]
    return made


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of a table with two equal rows, and of the table without the rows 3 and 17."""
    folder = tmp_path_factory.mktemp("fish")
    write(folder / "test.csv", rows(30, seed=1))
    write(folder / "fish.csv", [row for at, row in enumerate(table()) if at not in REMOVED])
    poisonproof(*command(folder, folder / "fresh"))
    write(folder / "fish.csv", table())
    poisonproof(*command(folder, folder / "run"))
    return folder


@pytest.fixture
def run(made, tmp_path):
    shutil.copytree(made / "run", tmp_path / "run")
    return tmp_path / "run"


def update(run, *more, code=0):
    return poisonproof("update", run, *more, "--n-jobs", 1, code=code)


def same(run, fresh):
    for name in NAMES:
        assert (run / name).read_bytes() == (fresh / name).read_bytes(), name
    one, two = (PartitionStore.open(folder / "partitions") for folder in (run, fresh))
    assert [one.record[name] for name in ALIKE] == [two.record[name] for name in ALIKE]
    for j in range(len(one)):
        (left, numbers), (right, _) = one.partition(j), two.partition(j)
        every = np.arange(len(left.codes))
        assert left.samples.keys(every) == right.samples.keys(every)
        assert not np.isin(numbers, REMOVED).any()


def test_only_the_partitions_of_removed_rows_are_read_and_written(made, run, monkeypatch):
    store = PartitionStore.open(run / "partitions")
    before = {path.name: path.stat().st_mtime_ns for path in (run / "partitions").glob("partition-*")}
    held = [j for j in range(len(store)) if np.isin(store.partition(j)[1], REMOVED).any()]
    for reader in ("poisonproof.data.reading.table_batches", "poisonproof.cli.reading.open_data"):
        monkeypatch.setattr(reader, None)
    update(run, "--remove", "3,17")
    after = {path.name: path.stat().st_mtime_ns for path in (run / "partitions").glob("partition-*")}
    assert sorted(name for name in before if before[name] != after[name]) == [partition_file(j) for j in held]
    same(run, made / "fresh")
    assert "already" in update(run, "--remove", "17").stderr
    same(run, made / "fresh")


def test_equal_rows_are_told_apart_and_files_read_again_lose_the_same_ones(made, run):
    update(run, "--remove", "3")
    update(run, "--remove", "17")
    same(run, made / "fresh")
    shutil.rmtree(run / "partitions")
    (run / "partitions").mkdir()
    update(run)
    same(run, made / "fresh")
    update(run, "--remove", "40")
    store = PartitionStore.open(run / "partitions")
    assert store.record["gone"] == [3, 17, 40]
    assert len(store.samples) == 157


class Killed(BaseException):
    """What no code of ours catches."""


@pytest.mark.parametrize("place", ["write_partition", "write_rows", "write_record", "write_text"])
def test_killed_anywhere_the_same_command_ends_the_same(made, run, monkeypatch, place):
    whole = getattr(store_removal, place)

    def killed(*given):
        whole(*given)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(store_removal, place, killed)
        with pytest.raises(Killed):
            update(run, "--remove", "3,17")
    update(run, "--remove", "3,17")
    same(run, made / "fresh")


def test_other_files_leave_nothing_of_the_old_partitions(made, run, tmp_path):
    write(tmp_path / "less.csv", [row for at, row in enumerate(table()) if at not in REMOVED])
    update(run, tmp_path / "less.csv")
    one, two = (PartitionStore.open(folder / "partitions") for folder in (run, made / "fresh"))
    assert one.record["contents"] == two.record["contents"]


def test_what_cannot_be_removed_by_partition_is_said(made, run, tmp_path):
    assert "0 … 159" in update(run, "--remove", "160", code=2).stderr
    poisonproof(*command(made, tmp_path / "inferred", classes=None))
    kinds = np.array([row.split(",")[-1] for row in table()])
    cod = ",".join(map(str, np.flatnonzero(kinds == "cod")))
    said = update(tmp_path / "inferred", "--remove", cod, code=2).stderr
    assert "Without these rows other classes may be read" in said


def test_rows_with_missing_values_that_leave_are_no_longer_counted(tmp_path):
    """Of a learner that takes no missing values, such rows are left out, and the record says how many there are."""
    lines = [f"{row.partition(',')[0]},{row.split(',')[-1]}" for row in rows(120)]
    for at in (3, 8, 17, 50):
        lines[at] = ",cod"
    lines[9], lines[10] = ",shark", "4,shark"  # none of the classes, one of them incomplete too
    roles, test = {"length": "number", "kind": "label"}, tmp_path / "test.csv"
    test.write_text("\n".join(["length,kind", "1,eel", "4,cod"]))
    options = ReadOptions(schema=roles, classes=("eel", "cod"), test=test)

    def stored(name, left):
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join(["length,kind", *left]))
        source = Source.of(path, options)
        open_large(source, Split(), 6, tmp_path / name, max_memory=10**12, complete_only=True)
        return PartitionStore.open(tmp_path / name)

    removed = np.array([3, 9, 10, 20])
    fresh = stored("fresh", [line for at, line in enumerate(lines) if at not in removed])
    before = stored("run", lines)
    assert before.record["n_incomplete"] == 5
    after = store_removal.without_rows(before, removed, "what is left", inferred=False)
    assert after.record["n_incomplete"] == fresh.record["n_incomplete"] == 3
    assert [after.record[name] for name in ALIKE] == [fresh.record[name] for name in ALIKE]

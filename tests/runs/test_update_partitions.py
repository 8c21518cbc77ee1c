"""Runs whose data lie in partitions on disk, on other files."""

import shutil

import pytest

from command_line import poisonproof
from fish import HEADER, rows
from poisonproof.data.out_of_core import PartitionStore

REMOVED = (3, 17)
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


def test_other_files_leave_nothing_of_the_old_partitions(made, run, tmp_path):
    write(tmp_path / "less.csv", [row for at, row in enumerate(table()) if at not in REMOVED])
    update(run, tmp_path / "less.csv")
    one, two = (PartitionStore.open(folder / "partitions") for folder in (run, made / "fresh"))
    assert one.record["contents"] == two.record["contents"]


def test_no_row_is_taken_out_of_partitions(run):
    said = update(run, "--remove", "3", code=2).stderr
    assert "delete the rows from the file and say `poisonproof update" in said

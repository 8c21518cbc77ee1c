"""A run's folder that somebody else filled: links, pipes and second names in it are refused, and nothing is written."""

import json
import os
import shutil
from importlib.metadata import version

import pytest

from command_line import poisonproof
from fish import rows, write_rows
from poisonproof.runs.run import only_writer
from refused import refused

pytestmark = pytest.mark.posix

COMMANDS = {
    "run": ("run", "{home}/fish.csv", "--label", "kind", "--classes", "cod,eel", "--test", "{home}/test.csv",
            "--k", "5", "--d", "2", "--out", "{run}", "--n-jobs", "1"),
    "update": ("update", "{run}", "--remove", "3", "--n-jobs", "1"),
    "audit": ("audit", "{run}", "--targets", "1", "--kinds", "remove", "--attack-size", "1"),
    "predict": ("predict", "{run}", "{home}/test.csv", "--out", "{home}/answers.csv", "--n-jobs", "1"),
}  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A run of a small table, with its files."""
    folder = tmp_path_factory.mktemp("fish")
    write_rows(folder / "fish.csv", rows(160))
    write_rows(folder / "test.csv", rows(30, seed=1))
    poisonproof(*(word.format(home=folder, run=folder / "run") for word in COMMANDS["run"]))
    return folder


def linked(run, name, target):
    """Put a link in the place of a file or folder of a run; what it points to must not change."""
    place = run / name
    if place.is_dir():
        shutil.copytree(place, target)
        shutil.rmtree(place)
    else:
        if place.exists():
            place.unlink()
        target.write_text("precious")
    place.symlink_to(target)


def everything(folder):
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["run.lock", "votes", "models", "scratch", "report.html", "votes/block-00000.npz"])
def test_no_command_follows_a_link_in_a_run(home, tmp_path, command, name):
    run, target = tmp_path / "run", tmp_path / "elsewhere"
    shutil.copytree(home / "run", run)
    if name == "scratch":
        target.mkdir()
        (target / "precious").write_text("precious")
        (run / name).symlink_to(target)
    else:
        linked(run, name, target)
    before = everything(tmp_path)
    result = poisonproof(*(word.format(home=home, run=run) for word in COMMANDS[command]), code=2)
    assert f"{run / name} is a link, and nothing of a run may be" in result.stderr.splitlines()[-1]
    assert everything(tmp_path) == before


def test_a_lock_that_is_another_file_s_second_name(tmp_path):
    """A hard link cannot be told from a file but by its count; opening it must not empty it either."""
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "run").mkdir()
    os.link(tmp_path / "precious", tmp_path / "run" / "run.lock")
    with refused("file.link"), only_writer(tmp_path / "run"):
        pass
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.mark.skipif(
    int(version("filelock").partition(".")[0]) < 4,
    reason="filelock 3 empties the lock that it takes, which is empty; links and second names are refused before",
)
def test_the_lock_is_never_emptied(tmp_path):
    (tmp_path / "run.lock").write_text("kept")
    with only_writer(tmp_path):
        pass
    assert (tmp_path / "run.lock").read_text() == "kept"


def test_pipes_and_files_for_folders_are_refused(home, tmp_path):
    for name, make in {
        "manifest.json": os.mkfifo,
        "votes": lambda path: path.write_text(""),
        "certificate.npz": lambda path: path.mkdir(),
    }.items():
        run = tmp_path / name
        shutil.copytree(home / "run", run)
        (shutil.rmtree if (run / name).is_dir() else os.unlink)(run / name)
        make(run / name)
        assert "is no plain" in poisonproof("update", run, "--remove", "3", "--n-jobs", 1, code=2).stderr


def test_links_of_temporary_files_and_in_scratch_are_not_followed(tmp_path):
    precious = tmp_path / "elsewhere"
    precious.mkdir()
    (precious / ".x.part").write_text("precious")
    run = tmp_path / "run"
    (run / "scratch").mkdir(parents=True)
    (run / "scratch" / "link").symlink_to(precious)
    with only_writer(run):
        pass
    assert not (run / "scratch").exists()
    (run / "other").symlink_to(precious)  # a name that is not ours
    with only_writer(run):
        pass
    assert (precious / ".x.part").read_text() == "precious"
    (run / ".votes.npy.1.part").symlink_to(precious / ".x.part")
    with refused("file.link"), only_writer(run):
        pass


def test_the_folder_itself_may_be_reached_by_a_link(home, tmp_path):
    """Its name is the user's own word."""
    shutil.copytree(home / "run", tmp_path / "there")
    (tmp_path / "here").symlink_to(tmp_path / "there")
    told = json.loads(poisonproof("update", tmp_path / "here", "--remove", "3", "--n-jobs", 1, "--json").stdout)
    assert told["n_train"] == 159

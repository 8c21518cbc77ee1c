"""The project's first name stands nowhere but in salts, which keep their bytes, and where its files are refused."""

import subprocess
from pathlib import Path

import pytest

from command_line import poisonproof
from poisonproof import FiniteAggregationClassifier, PoisonproofError, Votes
from poisonproof.errors import FORMER_NAME, check_format, install_command, missing_extra
from poisonproof.runs.manifest import Manifest
from poisonproof.system.files import write_record

ROOT = Path(__file__).parents[2]
MAY = {  # how often, and why
    "CHANGELOG.md": 2,  # the story
    "research/draw_curve.py": 1,  # a salt of names inside a picture
    "src/poisonproof/errors.py": 1,  # the refusal
    "research/paper/figures.py": 1,
    "src/poisonproof/stochastic/classifiers.py": 1,  # salts of draws and spreads: votes are what they were
    "src/poisonproof/core/spread.py": 1,
}


def test_the_first_name_stands_only_where_it_must():
    if not (ROOT / ".git").exists():
        pytest.skip("NOT A CHECKOUT: which files are the project's is not known")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    counts = {}
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_file():
            count = path.read_bytes().lower().count(FORMER_NAME.encode())
            if count:
                counts[name] = count
    assert counts == MAY


def test_nothing_tells_anybody_to_install_the_first_name():
    """Whoever did would get somebody else's program; extras are named as a checkout installs them."""
    for path in (ROOT / "src").rglob("*.py"):
        assert f"install {FORMER_NAME}" not in path.read_text("utf-8"), path
    assert install_command("dask") == "pip install '.[dask]'"
    assert install_command("dask") in str(missing_extra("A cluster", "Dask", "dask"))


@pytest.mark.parametrize(
    ("file", "kind", "opened"),
    [
        ("manifest.json", "run 1", Manifest.read),
        ("model.json", "model 2", FiniteAggregationClassifier.load),
        ("votes.json", "votes 1", lambda folder: Votes.load(folder / "votes.npy")),
    ],
)
def test_runs_models_and_votes_of_the_first_name_are_refused(tmp_path, file, kind, opened):
    write_record(tmp_path / file, {"format": f"{FORMER_NAME} {kind}"})
    with pytest.raises(PoisonproofError, match=r"written under the project's former name, .*; make it again"):
        opened(tmp_path)


def test_a_run_of_the_first_name_is_refused_by_the_command_line_in_one_sentence(tmp_path):
    write_record(tmp_path / "manifest.json", {"format": f"{FORMER_NAME} run 1"})
    done = poisonproof("update", tmp_path, code=2)
    assert "former name" in " ".join(done.stderr.split())


def test_files_of_the_first_name_are_refused_in_one_sentence():
    with pytest.raises(ValueError, match=r"written under the project's former name, .*; make it again"):
        check_format("votes.json", f"{FORMER_NAME} votes 1", "poisonproof votes 1")

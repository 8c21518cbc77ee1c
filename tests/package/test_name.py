"""Files of the project's first name are refused, and nothing tells anybody to install it."""

from pathlib import Path

import pytest

from command_line import poisonproof
from poisonproof import FiniteAggregationClassifier, PoisonproofError, Votes
from poisonproof.errors import FORMER_NAME, check_format, install_command, missing_extra
from poisonproof.runs.manifest import Manifest
from poisonproof.system.files import write_record

ROOT = Path(__file__).parents[2]


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

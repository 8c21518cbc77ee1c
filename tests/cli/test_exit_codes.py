"""Errors that you can fix: one sentence, exit code 2. Else it is our bug: its traceback, where to report it, 1."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
WORDS = ["certify", "votes.npy", "--spread", "paper:5,3", "--classes", "3"]
BUGS = {
    "a shape that NumPy cannot broadcast": "numpy.zeros(3) + numpy.zeros(4)",
    "a key that is not there": "{}['radius']",
    "a plain ValueError": "int('many')",
    "a type": "None + 1",
}


def run(folder, words, bug=None):
    """The command as a process, with a bug of ours in the certificates if one is given."""
    broken = "" if bug is None else (
        "import numpy, poisonproof.core.certify as methods\n"
        f"def broken(*_, **__): return {bug}\n"
        "methods.finite_aggregation = broken\n"
    )  # fmt: skip
    code = f"{broken}from poisonproof.cli.main import main; main()"
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=folder, check=False)


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "votes.npy", np.random.default_rng(0).integers(0, 3, (20, 15)))
    return tmp_path


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_of_ours_shows_its_traceback_and_says_where_to_report_it(folder, name):
    done = run(folder, WORDS, BUGS[name])
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Traceback (most recent call last)" in done.stderr
    last = " ".join(done.stderr[done.stderr.rindex("poisonproof: ") :].split())
    assert "a defect of poisonproof" in last
    assert "please report it" in last
    assert "CONTRIBUTING.md says where" in last


def test_the_file_that_says_where_says_it():
    assert "reported as an issue" in (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert "Report a vulnerability" in (ROOT / "SECURITY.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["certify", "nothing.npy", "--spread", "paper:5,3", "--classes", "3"], "nothing.npy"),
        (["certify", "votes.npy", "--spread", "paper:7,3", "--classes", "3"], "21"),
        (["certify", "votes.npy", "--spread", "paper:5,3", "--classes", "one"], "two classes"),
    ],
)
def test_what_a_person_can_mend_is_one_sentence(folder, words, sentence):
    done = run(folder, words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_itself_works(folder):
    assert run(folder, WORDS).returncode == 0

"""The project's first name stands nowhere but in salts, which keep their bytes, and where its files are refused."""

import subprocess
from pathlib import Path

import pytest

from poisonproof.errors import FORMER_NAME, check_format

ROOT = Path(__file__).parents[2]
MAY = {  # how often, and why
    "CHANGELOG.md": 2,  # the story
    "docs/draw_curve.py": 1,  # a salt of names inside a picture
    "src/poisonproof/errors.py": 1,  # the refusal
    "src/poisonproof/paper/figures.py": 1,
    "src/poisonproof/partition/draws.py": 1,  # salts of draws and spreads: votes are what they were
    "src/poisonproof/partition/spread.py": 1,
    "src/poisonproof/report/figures.py": 1,
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


def test_files_of_the_first_name_are_refused_in_one_sentence():
    with pytest.raises(ValueError, match=r"written under the project's former name, .*; make it again"):
        check_format("votes.json", f"{FORMER_NAME} votes 1", "poisonproof votes 1")

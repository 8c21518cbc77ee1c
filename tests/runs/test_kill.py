"""Runs that are killed (SIGKILL) go on and end with the same bytes; benchmarks/kill.py has the whole campaign."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.posix

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))


def test_killed_commands_and_killed_file_operations(capsys):
    """One each of six commands at a random moment; plain and pooled run and update at every 47th file operation.

    Then the same runs with the disk full from every 47th file operation on.
    """
    words = [sys.executable, BENCHMARKS / "kill.py", "--kills", "6", "--step", "47"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "commands: 6 of 6 killed resumed byte-identically, no worker alive after 5 s" in done.stdout
    for moment in ("before its manifest", "1 blocks", "writing results"):
        assert moment in done.stdout
    assert done.stdout.count("file operations on, all resumed byte-identically") == 3
    with capsys.disabled():
        print(f"\n{done.stdout}")

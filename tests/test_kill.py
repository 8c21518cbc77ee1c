"""Runs that are killed (SIGKILL) go on and end with the same bytes; benchmarks/kill.py has the whole campaign."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.append(str(BENCHMARKS))

from kill import members_of  # noqa: E402


def test_killed_processes_and_killed_file_operations(capsys):
    """Five processes with workers at random moments; a plain and a pooled run at every 23rd file operation.

    Then the same runs with the disk full from every 23rd file operation on.
    """
    words = [sys.executable, BENCHMARKS / "kill.py", "--kills", "5", "--step", "23"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "processes: 5 of 5 resumed byte-identically" in done.stdout
    for moment in ("before its manifest", "1 blocks", "writing results"):
        assert moment in done.stdout
    assert done.stdout.count("file operations on, all resumed byte-identically") == 2
    with capsys.disabled():
        print(f"\n{done.stdout}")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_workers_end_with_a_caller_that_was_killed_alone():
    code = (
        "import time\nfrom joblib import Parallel, delayed\nfrom bezoar.threads import caller, limit_worker\n"
        "def work(parent):\n    limit_worker(parent)\n    time.sleep(2)\n"  # so that each worker gets one
        "Parallel(2)(delayed(work)(caller()) for _ in range(4))\nprint('ready', flush=True)\ntime.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout.readline() == b"ready\n"
    assert len(members_of(process.pid)) >= 3
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 60
    while members_of(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert members_of(process.pid) == []

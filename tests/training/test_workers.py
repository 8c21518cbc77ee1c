"""Worker processes: they end with their caller, leave no samples behind, and tell of a full disk in one sentence."""

import errno
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from filelock import FileLock
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB

from poisonproof import BallotClassifier, FiniteAggregationClassifier, load
from poisonproof.cli.main import main
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.run import only_writer, run
from poisonproof.system.parallel import PREFIX, full_disk, scratch_folder, sweep_scratch

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from kill import members_of

pytestmark = pytest.mark.posix

DIGITS = load("digits")
needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
FIT = """
import sys, time
import numpy as np
from sklearn.naive_bayes import GaussianNB
from poisonproof import FiniteAggregationClassifier
X = np.random.default_rng(0).normal(size=(20_000, 40))
class Slow(GaussianNB):
    def fit(self, X, y):
        time.sleep({nap})
        return super().fit(X, y)
print("ready", flush=True)
FiniteAggregationClassifier(Slow(), k={k}, d=1, classes=[False, True], n_jobs=3).fit(X, X[:, 0] > 0)
print("done", flush=True)
time.sleep(60)
"""


def started(code, **more):
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True, **more)


def ended(group, seconds=30):
    """Whether all processes of a group are gone in time; on a busy machine they wait for their turn."""
    deadline = time.monotonic() + seconds
    while members_of(group) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not members_of(group)


def kill_alone(process):
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


@needs_proc
def test_workers_that_wait_end_with_a_caller_that_was_killed_alone():
    """Also those that never got a task: there are two tasks for three."""
    process = started(FIT.format(nap=0, k=2))
    assert process.stdout.readline() == b"ready\n"
    assert process.stdout.readline() == b"done\n"
    assert len(members_of(process.pid)) >= 4
    kill_alone(process)
    assert ended(process.pid)


@needs_proc
@pytest.mark.parametrize("moment", [0.0, 0.3, 2.0])
def test_workers_that_are_being_started_or_work_end_too(moment):
    process = started(FIT.format(nap=30, k=6))
    assert process.stdout.readline() == b"ready\n"
    while len(members_of(process.pid)) < 2:
        assert process.poll() is None, "the caller ended by itself"
        time.sleep(0.01)
    time.sleep(moment)
    kill_alone(process)
    assert ended(process.pid)


@needs_proc
def test_samples_that_a_killed_process_left_are_removed_by_the_next_command(tmp_path, monkeypatch):
    """The whole group is killed, so that nobody of it can tidy up."""
    monkeypatch.setenv("JOBLIB_TEMP_FOLDER", str(tmp_path))
    process = started(FIT.format(nap=30, k=6))
    deadline = time.monotonic() + 60
    while not list(tmp_path.rglob("*.pkl")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert next(path.name for path in tmp_path.iterdir()).startswith(PREFIX), "the samples lie where we look for them"
    with only_writer(tmp_path / "run"):
        assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_scratch_of_living_processes_and_links_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("JOBLIB_TEMP_FOLDER", str(tmp_path))
    for name in ("living", "dead", "elsewhere"):
        (tmp_path / f"{PREFIX}{name}").mkdir()
        (tmp_path / f"{PREFIX}{name}" / "lock").touch()
    (tmp_path / f"{PREFIX}elsewhere").rename(tmp_path / "elsewhere")
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path / "elsewhere")
    with FileLock(tmp_path / f"{PREFIX}living" / "lock"):
        sweep_scratch()
    assert {path.name for path in tmp_path.iterdir()} == {f"{PREFIX}living", f"{PREFIX}link", "elsewhere"}
    assert (tmp_path / "elsewhere" / "lock").exists()


def test_two_runs_of_one_process_keep_their_samples_apart(tmp_path, monkeypatch):
    """joblib takes the folder of the first call for all later ones, unless its processes are others."""
    made, real = [], os.makedirs
    monkeypatch.setattr(os, "makedirs", lambda name, *rest, **more: made.append(name) or real(name, *rest, **more))
    for name in ("one", "two"):
        model = FiniteAggregationClassifier(GaussianNB(), k=70, d=1, classes=range(10), n_jobs=2)
        run(DIGITS, model, tmp_path / name, RunSettings(undefended=False))
        assert not (tmp_path / name / "scratch").exists()
    places = {Path(name).relative_to(tmp_path).parts[0] for name in made if "joblib_memmapping" in str(name)}
    assert places == {"one", "two"}


@pytest.mark.parametrize("name", ["Ergebnisse ä:b", "x" * 200 + "/" + "y" * 200])
def test_folders_of_any_name_take_runs_with_workers(tmp_path, name):
    model = FiniteAggregationClassifier(GaussianNB(), k=70, d=1, classes=range(10), n_jobs=2)
    alone = FiniteAggregationClassifier(GaussianNB(), k=70, d=1, classes=range(10))
    run(DIGITS, model, tmp_path / name, RunSettings(undefended=False))
    run(DIGITS, alone, tmp_path / "plain", RunSettings(undefended=False))
    assert (tmp_path / name / "votes.npy").read_bytes() == (tmp_path / "plain" / "votes.npy").read_bytes()


def test_a_temporary_folder_that_joblib_cannot_use(tmp_path, monkeypatch):
    (tmp_path / "ä").mkdir()
    monkeypatch.setenv("JOBLIB_TEMP_FOLDER", str(tmp_path / "ä"))
    assert str(scratch_folder(tmp_path / "ö")).isascii()


def test_a_full_disk_with_workers_is_one_sentence(tmp_path, monkeypatch, capsys):
    """The samples are written for the workers by a thread of joblib's, whose error comes wrapped."""

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("joblib._memmapping_reducer.dump", full)
    words = ["poisonproof", "run", "digits", "--k", "70", "--d", "1", "--n-jobs", "2", "--out", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 4
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"poisonproof: {tmp_path / 'run' / 'scratch'}: No space left on device. "
        "What was finished is kept, and the same command goes on from there."
    )
    assert not (tmp_path / "run" / "scratch").exists()


def test_what_a_full_disk_looks_like():
    wrapped = RuntimeError("Could not pickle the task to send to the workers.")
    wrapped.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    assert full_disk(wrapped) == errno.ENOSPC
    wrapped.__cause__ = RuntimeError("Traceback …\nOSError: [Errno 28] No space left on device")
    assert full_disk(wrapped) == errno.ENOSPC
    assert full_disk(ValueError("28")) is None


class Signed(GaussianNB):
    """Leaves the number of the process that fits it."""

    def __init__(self, folder=None):
        super().__init__()
        self.folder = folder

    def fit(self, X, y):
        time.sleep(0.05)  # so that one worker cannot be done with everything before the other has started
        (Path(self.folder) / str(os.getpid())).touch()
        return super().fit(X, y)


def test_a_run_of_few_base_classifiers_uses_the_workers_that_were_asked_for(tmp_path):
    votes = []
    (tmp_path / "processes").mkdir()
    for n_jobs in (1, 2):
        learner = Signed(str(tmp_path / "processes"))
        model = FiniteAggregationClassifier(learner, k=40, d=1, classes=range(10), n_jobs=n_jobs)
        run(DIGITS, model, tmp_path / str(n_jobs), RunSettings(votes_only=True, undefended=False))
        votes.append((tmp_path / str(n_jobs) / "votes.npy").read_bytes())
        processes = {int(path.name) for path in (tmp_path / "processes").iterdir()}
        assert processes == {os.getpid()} if n_jobs == 1 else len(processes - {os.getpid()}) == 2
    assert votes[0] == votes[1]


@pytest.mark.parametrize("name", ["pooled", "samples vote"])
def test_threads_are_as_many_as_were_asked_for(name, tmp_path, monkeypatch):
    """On eight cores: with n_jobs=1 nobody starts a thread, and what comes out is the same to the byte."""
    most, result = [], []

    def pool(threads):
        most.append(threads)
        return ThreadPoolExecutor(threads)

    monkeypatch.setattr("poisonproof.system.threads.n_cores", lambda: 8)
    monkeypatch.setattr("poisonproof.system.threads.ThreadPoolExecutor", pool)
    for n_jobs, allowed in ((1, 0), (3, 3), (-1, 8), (-2, 7)):
        if name == "pooled":
            model = FiniteAggregationClassifier(
                KernelRidgeClassifier(gamma=0.01), k=80, d=1, classes=range(10), n_jobs=n_jobs
            )
        else:
            model = BallotClassifier(near=30, classes=range(10), n_jobs=n_jobs)
        outcome = run(DIGITS, model, tmp_path / str(n_jobs), RunSettings(undefended=False))
        assert max(most, default=0) <= allowed, (n_jobs, most)
        assert name != "pooled" or max(most, default=0) == allowed, (n_jobs, most)
        most.clear()
        files = outcome.manifest.files
        result.append([files[file] for file in sorted(files) if file in ("votes.npy", "ballots.npz")])
        fitted = clone(model).fit(DIGITS.train.X, DIGITS.train.labels)
        (fitted.votes if name == "pooled" else fitted.predict)(DIGITS.test.X)
        assert max(most, default=0) <= allowed, (n_jobs, most)
        most.clear()
    assert result[0]
    assert all(other == result[0] for other in result)

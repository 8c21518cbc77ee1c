"""Damage, full disks, dead workers and second writers: named in one sentence, and nothing is lost."""

import errno
import os
import random
import signal
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from poisonproof import Certificate, Dataset, FiniteAggregationClassifier, Spread, Votes, certify, load
from poisonproof.cli.main import main
from poisonproof.errors import DamagedFileError
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.run import damage, run
from poisonproof.system.files import open_arrays, write_arrays, write_bytes, write_whole
from poisonproof.system.parallel import WorkerDiedError
from poisonproof.system.progress import watched

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from corrupt import campaign, interrupt, resumes
from kill import operations, plain_run, results
from refused import refused

DIGITS = load("digits")
FEW = Dataset.of("few", DIGITS.train.X, DIGITS.train.labels, DIGITS.test.X[:9], DIGITS.test.labels[:9], DIGITS.classes)
START = plain_run()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    START(folder)
    return folder


def error_of(work):
    """What it raises, or None."""
    try:
        work()
    except (OSError, ValueError, KeyboardInterrupt) as error:
        return error
    return None


def test_every_bit_of_a_sealed_file_counts(tmp_path):
    """Also those that a zip reader skips: dates, versions, attributes."""
    path = tmp_path / "a.npz"
    write_arrays(path, {"x": np.arange(3, dtype=np.uint8)}, {"a": 1})
    body = path.read_bytes()
    altered = [body[:at] + bytes([body[at] ^ 1 << at % 8]) + body[at + 1 :] for at in range(len(body))]
    for wrong in altered + [body[:cut] for cut in range(0, len(body), 5)]:
        path.write_bytes(wrong)
        with refused("file.damaged", DamagedFileError):
            open_arrays(path)
    path.write_bytes(body)
    assert np.load(path)["x"].tolist() == open_arrays(path)[0]["x"].tolist() == [0, 1, 2]
    assert zipfile.ZipFile(path).testzip() is None


def test_no_damage_is_overlooked_in_a_complete_run(whole):
    tried, missed = campaign(whole, 80, random.Random(1))
    assert missed == []
    assert set(tried) == set(results(whole))
    assert min(tried.values()) >= 80


def test_no_damage_is_overlooked_in_an_interrupted_run(tmp_path):
    interrupt(START, tmp_path / "run")
    tried, missed = campaign(tmp_path / "run", 80, random.Random(2))
    assert missed == []
    assert {"votes/block-00000.npz", "votes/block-00001.npz", "manifest.json"} < set(tried)


def test_resuming_names_each_damaged_file_and_mends_it(whole, tmp_path):
    mended, failed = resumes(START, whole, tmp_path / "run", random.Random(3))
    assert failed == []
    assert mended == len(results(whole))


def test_a_block_of_another_run_is_not_taken(whole, tmp_path):
    """Whole, of the same size and with a digest that agrees."""
    arrays, facts = open_arrays(whole / "votes" / "block-00001.npz")
    others = {
        "data": ({**arrays, "subsets": arrays["subsets"] ^ 1}, facts),
        "place": (arrays, {**facts, "first_subset": 0}),
    }
    words = {"data": "is of other training data", "place": "is not the block of base classifiers 64"}
    for name, forged in others.items():
        START(tmp_path / name)
        write_arrays(tmp_path / name / "votes" / "block-00001.npz", *forged)
        said = []
        START(tmp_path / name, said.append)
        assert any(f"block-00001.npz {words[name]}" in line and "computed again" in line for line in said), said
        assert results(tmp_path / name) == results(whole)


def test_a_device_that_is_full(tmp_path, monkeypatch):
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    write_bytes(tmp_path / "kept", b"old")
    monkeypatch.setattr("tempfile.mkstemp", lambda **_: (os.open("/dev/full", os.O_WRONLY), str(tmp_path / ".x.part")))
    with pytest.raises(OSError, match="No space left") as raised:
        write_bytes(tmp_path / "kept", b"new" * 9999)
    assert raised.value.filename == str(tmp_path / "kept")
    assert (tmp_path / "kept").read_bytes() == b"old"


def test_a_full_disk_is_one_sentence_on_the_command_line(tmp_path, monkeypatch, capsys):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp", full)
    monkeypatch.setattr(sys, "argv", ["poisonproof", "run", "digits", "--out", str(tmp_path / "run")])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 4
    assert capsys.readouterr().err == (
        f"poisonproof: {tmp_path / 'run' / 'manifest.json'}: No space left on device. "
        "What was finished is kept, and the same command goes on from there.\n"
    )


def test_what_killed_writers_left_is_swept(tmp_path):
    START(tmp_path)
    for folder in (tmp_path, tmp_path / "votes", tmp_path / "models"):
        (folder / ".votes.npy.x7f.part").write_bytes(b"half")
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "mapped.pkl").write_bytes(b"half")
    START(tmp_path)
    assert not list(tmp_path.rglob(".*"))
    assert not (tmp_path / "scratch").exists()


class Trapped(GaussianNB):
    """Kills the process that trains base classifier 70, as long as there is a trap."""

    def __init__(self, trap="", random_state=None):
        super().__init__()
        self.trap, self.random_state = trap, random_state

    def fit(self, X, y):
        if self.random_state == 70 and Path(self.trap).exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(X, y)


@pytest.mark.posix
def test_a_dead_worker_stops_the_run_and_never_falls_back(tmp_path):
    trap = tmp_path / "trap"

    def start(folder, n_jobs):
        model = FiniteAggregationClassifier(Trapped(str(trap)), k=50, d=4, classes=range(10), n_jobs=n_jobs)
        return run(FEW, model, folder)

    start(tmp_path / "whole", 1)
    trap.touch()
    with pytest.raises(WorkerDiedError, match=r"^A worker process died, killed or out of memory \(\w+\)"):
        start(tmp_path / "run", 2)
    assert not (tmp_path / "run" / "votes.npy").exists()
    trap.unlink()
    start(tmp_path / "run", 1)
    assert results(tmp_path / "run") == results(tmp_path / "whole")


def test_a_run_that_must_not_go_on(whole, monkeypatch, capsys):
    before = results(whole)
    model = FiniteAggregationClassifier(GaussianNB(), k=35, d=2, classes=range(10))
    with refused("run.taken"):
        run(FEW, model, whole, RunSettings(resume=False))
    assert results(whole) == before
    monkeypatch.setattr(sys, "argv", ["poisonproof", "run", "digits", "--no-resume", "--out", str(whole)])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert "already holds a run; leave out --no-resume" in capsys.readouterr().err


def test_a_second_writer_is_refused_while_the_first_writes(tmp_path):
    said = []

    def meanwhile(done, total):
        with refused("folder.busy") as no:
            START(tmp_path / "run")
        said.append(no)

    model = FiniteAggregationClassifier(GaussianNB(), k=35, d=2, classes=range(10))
    START(tmp_path / "before")  # hashes of the data are known from then on
    run(FEW, model, tmp_path / "too")
    with watched(meanwhile):
        run(FEW, model, tmp_path / "run")
    assert len(said) == 4  # before the first block, after each of two, and for certifying
    assert damage(tmp_path / "run") == []


def test_results_written_over_old_ones_are_never_mixed(tmp_path):
    """Whatever operation fails, votes and certificate open as the old or the new ones, or are refused."""
    spread = Spread.random(3, 1)
    old, new = (Votes(np.full((2, 3), value), spread, range(3)) for value in (0, 1))
    for number in range(40):
        old.save(tmp_path / "votes.npy")
        left = [number]

        def stop(left=left):
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt

        with operations(stop):
            error = error_of(lambda: new.save(tmp_path / "votes.npy"))
        if error is None:
            break
        refused = error_of(lambda: Votes.load(tmp_path / "votes.npy"))
        assert refused is None or "votes.npy is altered or truncated" in str(refused)
    assert 5 < number < 39
    assert Votes.load(tmp_path / "votes.npy").matrix[0, 0] == 1


def test_a_certificate_that_cannot_be_one_is_refused(tmp_path):
    """Digests that agree do not make it one."""
    votes = Votes(np.zeros((2, 3), int), Spread.random(3, 1), range(3))
    certify(votes).save(tmp_path / "c.npz")
    arrays, facts = open_arrays(tmp_path / "c.npz")
    for name, value in (
        ("radius", np.array([1])),
        ("radius", np.array([[1, 1]])),
        ("radius", np.array([0.5, 0.5])),
        ("margin", np.array([-1, 0])),
        ("prediction", np.array([3, 0])),
        ("surprise", np.array([3, 0])),
    ):
        write_arrays(tmp_path / "c.npz", {**arrays, name: value}, facts)
        with refused("file.damaged", DamagedFileError):
            Certificate.load(tmp_path / "c.npz")


def test_nothing_that_needs_pickle_is_written(tmp_path):
    with refused("type"):
        write_arrays(tmp_path / "a.npz", {"x": np.array([{}])}, {})

    def stop(file):
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        write_whole(tmp_path / "b", stop)
    assert list(tmp_path.iterdir()) == []

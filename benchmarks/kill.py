"""Is anything lost when a run is killed? Runs are killed at random moments and at every file operation.

python benchmarks/kill.py --kills 50

1. A `bezoar run` process with worker processes is killed (SIGKILL, its whole process group) at moments spread
   uniformly over its life, then resumed by the same command. Every result must have the bytes of an uninterrupted
   run, no process may remain, no temporary file may be left.
2. Runs of a plain and of a pooled learner are killed before and after every single file operation (creating,
   writing, flushing, renaming, …), in a process that is forked for each.
3. For the same runs the disk is full from every single file operation on.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

TIMES = ("seconds", "digest")


def results(folder: Path) -> dict[str, bytes]:
    """The bytes of every file of a run that no clock has a part in."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and name not in ("report.html", "run.lock"):
            found[name] = path.read_bytes()
    manifest = {key: value for key, value in json.loads(found["manifest.json"]).items() if key not in TIMES}
    return {**found, "manifest.json": json.dumps(manifest).encode()}


def state_of(folder: Path) -> str:
    """How far a run had come when it was killed."""
    if not (folder / "manifest.json").exists():
        return "before its manifest"
    manifest = json.loads((folder / "manifest.json").read_bytes())
    if manifest["status"] == "complete":
        return "complete" if (folder / "report.html").exists() else "complete, before its report"
    if (folder / "votes.npy").exists():
        return "writing results"
    return f"{len(list((folder / 'votes').glob('*.npz')))} blocks"


def members_of(group: int) -> list[int]:
    """Living processes of a process group."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgrp = entry.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(pgrp) == group and state not in "ZX":
            found.append(int(entry.parent.name))
    return found


def command(folder: Path) -> list[str]:
    bezoar = str(Path(sys.executable).with_name("bezoar"))
    return [bezoar, "run", "digits", "--k", "20", "--d", "8", "--n-jobs", "2", "--out", str(folder)]


def kill_processes(kills: int, seed: int, place: Path) -> Counter[str]:
    """Kill the command line at moments spread over its life; the moments hit."""
    started = time.perf_counter()
    subprocess.run(command(place / "whole"), check=True, capture_output=True)
    life, expected = time.perf_counter() - started, results(place / "whole")
    print(f"an uninterrupted run takes {life:.1f} s and leaves {len(expected)} files", flush=True)
    moments: Counter[str] = Counter()
    generator, number = random.Random(seed), 0
    while number < kills:
        folder, started = place / f"run{number}", time.perf_counter()
        process = subprocess.Popen(
            command(folder), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        )
        try:
            process.communicate(timeout=life * (number + generator.random()) / kills)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        else:  # it was over before; runs have become quicker
            life = time.perf_counter() - started
            shutil.rmtree(folder)
            continue
        time.sleep(0.05)
        assert not members_of(process.pid), "a worker outlived its run"
        moments[state_of(folder)] += 1
        subprocess.run(command(folder), check=True, capture_output=True)
        check(folder, expected, f"kill {number}")
        number += 1
        if number % 10 == 0:
            print(f"{number} killed and resumed", flush=True)
    return moments


def check(folder: Path, expected: dict[str, bytes], what: str) -> None:
    found = results(folder)
    if found != expected:
        wrong = sorted(name for name in found.keys() | expected if found.get(name) != expected.get(name))
        raise SystemExit(f"{what}: {wrong} differ from an uninterrupted run's")


@contextmanager
def operations(act: Callable[[], None]) -> Iterator[None]:
    """Call ``act`` before every file operation of writers, and after every renaming."""
    import tempfile as temporary

    real = {name: getattr(os, name) for name in ("fsync", "fdopen", "chmod", "replace")}
    make = temporary.mkstemp

    def before(call: Callable[..., object]) -> Callable[..., object]:
        def called(*args: object, **options: object) -> object:
            act()
            return call(*args, **options)

        return called

    def renamed(*args: str) -> None:
        act()
        real["replace"](*args)
        act()

    class Written:
        """A file whose writing may end in the middle."""

        def __init__(self, file: object) -> None:
            self.file = file

        def write(self, body: bytes) -> int:
            act()
            self.file.write(body[: len(body) // 2])
            self.file.flush()
            act()
            self.file.write(body[len(body) // 2 :])
            return len(body)

        def __getattr__(self, name: str) -> object:
            return getattr(self.file, name)

        def __enter__(self) -> Written:
            return self

        def __exit__(self, *error: object) -> None:
            self.file.close()

    def opened(handle: int, mode: str, *rest: object, **options: object) -> object:
        file = real["fdopen"](handle, mode, *rest, **options)
        return Written(file) if "w" in mode else file

    os.fsync, os.chmod, os.replace, os.fdopen = before(real["fsync"]), before(real["chmod"]), renamed, opened
    temporary.mkstemp = before(make)
    try:
        yield
    finally:
        for name, call in real.items():
            setattr(os, name, call)
        temporary.mkstemp = make


Start = Callable[..., None]


def silent(text: str) -> None:
    """Nobody listens."""


def plain_run() -> Start:
    """A run of a plain learner in two blocks: takes its folder, and who is told what a person should know."""
    from sklearn.naive_bayes import GaussianNB

    from bezoar import FiniteAggregationClassifier, data
    from bezoar.report.page import write_report
    from bezoar.run import run

    digits = data.load("digits")
    few = data.Dataset("few", digits.x_train, digits.y_train, digits.x_test[:20], digits.y_test[:20], digits.classes)

    def start(folder: Path, say: Callable[[str], None] = silent) -> None:
        write_report(run(few, FiniteAggregationClassifier(GaussianNB(), k=35, d=2, classes=range(10)), folder, say=say))

    return start


def pooled_run() -> Start:
    """A run of a pooled learner in three blocks of test samples."""
    from sklearn.datasets import load_digits

    import bezoar.learners.pooled as pooled
    from bezoar import FiniteAggregationClassifier, Split, data
    from bezoar.learners.features.digits import DigitFeatures
    from bezoar.learners.kernel_ridge import KernelRidgeClassifier
    from bezoar.report.page import write_report
    from bezoar.run import run

    images, labels = load_digits().images[:150].astype(np.uint8) * 15, load_digits().target[:150]
    tiny = data.Dataset("tiny", images[:110], labels[:110], images[110:], labels[110:], np.arange(10), "uint8")
    learner = KernelRidgeClassifier(DigitFeatures(copies=3, hand=None), gamma=2.0)
    pooled.KERNEL_BYTES = 1  # many blocks from few samples

    def start(folder: Path, say: Callable[[str], None] = silent) -> None:
        model = FiniteAggregationClassifier(learner, k=6, d=2, classes=range(10), split=Split(dtype="uint8"))
        write_report(run(tiny, model, folder, say=say))

    return start


def forked(work: Callable[[], object]) -> int:
    """Run in a child of its own; its exit status as `os.waitpid` gives it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


def kill_everywhere(name: str, start: Start, step: int, place: Path) -> Counter[str]:
    """Kill before every ``step``-th file operation, resume, compare; the moments hit."""
    start(place / f"{name}-whole")  # here, so that every child inherits what was imported and compiled
    expected = results(place / f"{name}-whole")
    moments: Counter[str] = Counter()
    number = 0
    while True:
        folder = place / f"{name}-{number}"

        def work(folder: Path = folder, number: int = number) -> None:
            left = [number]

            def act() -> None:
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left[0] -= 1

            with operations(act):
                start(folder)

        status = forked(work)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0, "the run failed by itself"
            return moments
        moments[state_of(folder)] += 1
        assert forked(lambda folder=folder: start(folder)) == 0, f"{name}: could not resume after operation {number}"
        check(folder, expected, f"{name}, operation {number}")
        number += step


def fill_everywhere(name: str, start: Start, step: int, place: Path) -> int:
    """Let the disk be full from every ``step``-th file operation on, then make room and resume; how many operations."""
    expected = results(place / f"{name}-whole")
    number = 0
    while True:
        folder, left = place / f"{name}-full-{number}", [number]

        def full(left: list[int] = left) -> None:
            if left[0] <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            left[0] -= 1

        try:
            with operations(full):
                start(folder)
        except OSError as error:
            if error.errno != errno.ENOSPC or not error.filename:
                raise
        else:
            return number // step
        assert not list(folder.rglob(".*")), "a temporary file was left"
        start(folder)
        check(folder, expected, f"{name}, full from operation {number}")
        number += step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, help="killed processes")
    parser.add_argument("--step", type=int, default=1, help="kill at every so many file operations")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as place:
        moments = kill_processes(options.kills, options.seed, Path(place)) if options.kills else Counter()
        print(f"processes: {sum(moments.values())} of {options.kills} resumed byte-identically; killed at:")
        for moment, count in sorted(moments.items()):
            print(f"  {moment}: {count}")
        for name, make in (("plain", plain_run), ("pooled", pooled_run)):
            start = make()
            moments = kill_everywhere(name, start, options.step, Path(place))
            print(
                f"{name}: killed at {sum(moments.values())} file operations, all resumed byte-identically; killed at:"
            )
            for moment, count in sorted(moments.items()):
                print(f"  {moment}: {count}")
            filled = fill_everywhere(name, start, options.step, Path(place))
            print(f"{name}: disk full from {filled} file operations on, all resumed byte-identically", flush=True)


if __name__ == "__main__":
    main()

"""Is anything lost when a command is killed? Killed at random moments and at every file operation.

python benchmarks/kill.py --kills 200

1. `run`, a pooled `run`, `update --remove` and `audit`, in equal shares, are killed (SIGKILL, the
   process alone; its workers are left to themselves) at moments spread uniformly over their lives, then repeated by the
   same words. Every result must have the bytes of an uninterrupted command, no process may be alive after 5 seconds,
   nothing temporary may be left. Each command is a process of its own, forked after the libraries were loaded, so that
   most kills hit the work and not the imports.
2. Runs of a plain and of a pooled learner and an `update --remove` are killed before and after every single file
   operation (creating, writing, flushing, renaming, …), in a process that is forked for each.
3. For the same commands the disk is full from every single file operation on.
"""

from __future__ import annotations

import argparse
import errno
import json
import logging
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np

TIMES = ("seconds", "digest")
SECRETS = ("when", "commitment")
WORKERS_END_SECONDS = 5


def results(folder: Path) -> dict[str, bytes]:
    """The bytes of every file of a run that neither a clock nor a random salt has a part in."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and name not in ("report.html", "run.lock"):
            found[name] = path.read_bytes()
    manifest = {key: value for key, value in json.loads(found["manifest.json"]).items() if key not in TIMES}
    manifest.get("files", {}).pop("report.html", None)  # the page says how long everything took
    for change in manifest.get("changes", []):
        for name in SECRETS:
            change.pop(name, None)
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


class Killed(NamedTuple):
    """A command that is killed: what its folder holds before, and its words."""

    before: Path | None
    words: list[str]


def commands(place: Path) -> dict[str, Killed]:
    """The commands, and the folders that they start from, made by commands that nobody kills."""
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(0)
    for name, count in (("fish.csv", 90), ("test.csv", 12)):
        kinds = rng.integers(0, 2, count)
        rows = [f"{kind * 3 + rng.normal():.4f},{rng.normal():.4f},{['eel', 'cod'][kind]}" for kind in kinds]
        (place / name).write_text("\n".join(["length,depth,kind", *rows]) + "\n")
    images, labels = load_digits().images[:110].astype(np.uint8) * 15, load_digits().target[:110]
    np.savez(place / "images.npz", X=images[:80], y=labels[:80])
    np.savez(place / "more.npz", X=images[80:], y=labels[80:])
    table = [str(place / "fish.csv"), "--label", "kind", "--classes", "cod,eel", "--test", str(place / "test.csv")]
    table += ["--k", "35", "--d", "2"]
    pooled = [str(place / "images.npz"), "--test", str(place / "more.npz"), "--classes", "0,1,2,3,4,5,6,7,8,9"]
    pooled += ["--learner", "glyphs", "--k", "6", "--d", "2", "--no-undefended"]
    found = {
        "run": Killed(None, ["run", *table, "--out", "{}"]),
        "pooled run": Killed(None, ["run", *pooled, "--out", "{}"]),
        "update": Killed(place / "complete", ["update", "{}", "--remove", "3,17"]),
        "audit": Killed(
            place / "complete", ["audit", "{}", "--targets", "1", "--kinds", "remove,flip", "--attack-size", "1"]
        ),
    }
    assert forked(lambda: called(found["run"].words, place / "complete", 1)) == 0
    return found


def called(words: list[str], folder: Path, n_jobs: int) -> None:
    """A command as the command line calls it, with its output thrown away."""
    from poisonproof.cli.main import app

    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    jobs = [] if words[0] == "audit" else ["--n-jobs", str(n_jobs)]
    app([word.format(folder) for word in words] + jobs, standalone_mode=False)


def kill_commands(kills: int, seed: int, place: Path, only: Sequence[str] = ()) -> dict[str, Counter[str]]:
    """Kill the commands in turn, each at moments spread over its life; the moments hit."""
    load_libraries()
    chosen = {name: killed for name, killed in commands(place).items() if not only or name in only}
    found: dict[str, Counter[str]] = {name: Counter() for name in chosen}
    shares = {name: kills // len(chosen) + (at < kills % len(chosen)) for at, name in enumerate(chosen)}
    campaigns = {name: kill_command(name, chosen[name], shares[name], seed, place) for name in chosen if shares[name]}
    for turn in zip_longest(*campaigns.values()):
        for name, moment in zip(campaigns, turn, strict=True):
            found[name].update([moment] if moment else [])
        counts = ", ".join(f"{name} {sum(own.values())}" for name, own in found.items())
        print(f"killed and resumed: {counts}", flush=True)
    for name, own in found.items():
        moments = ", ".join(f"{moment}: {count}" for moment, count in sorted(own.items()))
        print(f"{name}: {sum(own.values())} of {shares[name]} resumed byte-identically; killed at {moments}")
    return found


def load_libraries() -> None:
    """What every command needs, so that forks of this process do not load it again."""
    import sklearn.ensemble  # noqa: F401


def kill_command(name: str, killed: Killed, kills: int, seed: int, place: Path) -> Iterator[str]:
    """Kill one command so many times, repeat it, compare; each moment hit, as it is done."""

    def fresh(folder: Path) -> Path:
        if killed.before is not None:
            shutil.copytree(killed.before, folder)
        return folder

    whole, home = fresh(place / f"{name}-whole"), name.replace(" ", "-")
    started = time.perf_counter()
    assert forked(lambda: called(killed.words, whole, 2)) == 0, f"{name} failed by itself"
    life, expected = time.perf_counter() - started, results(whole)
    generator = random.Random(seed)
    slots = generator.sample(range(kills), kills)  # in no order, so that a campaign cut short is spread, too
    while slots:
        folder, started = fresh(place / f"{home}-{slots[-1]}"), time.perf_counter()
        child = beginning(lambda folder=folder: called(killed.words, folder, 2))
        ended, deadline = 0, started + life * (slots[-1] + generator.random()) / kills
        while not ended and time.perf_counter() < deadline:
            ended, status = os.waitpid(child, os.WNOHANG)
            time.sleep(0.005)
        if ended:  # it was over before; commands have become quicker
            assert status == 0, f"{name} failed by itself"
            life = 0.9 * (time.perf_counter() - started)
            shutil.rmtree(folder)
            continue
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        wait_for_workers(child, f"{name}, kill {slots[-1]}")
        moment = state_of(folder)
        assert forked(lambda folder=folder: called(killed.words, folder, 1)) == 0, f"{name}: could not go on"
        check(folder, expected, f"{name}, kill {slots[-1]}")
        assert not [left for left in folder.rglob("*") if left.name.startswith(".") or left.name == "scratch"]
        shutil.rmtree(folder)
        slots.pop()
        yield moment


def wait_for_workers(group: int, what: str) -> None:
    deadline = time.perf_counter() + WORKERS_END_SECONDS
    while members_of(group):
        if time.perf_counter() > deadline:
            raise SystemExit(f"{what}: {len(members_of(group))} workers outlived it by {WORKERS_END_SECONDS} seconds")
        time.sleep(0.02)


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


@contextmanager
def told(say: Callable[[str], None]) -> Iterator[None]:
    """Within, somebody is told what the library logs."""
    logger, handler = logging.getLogger("poisonproof"), logging.Handler()
    handler.emit = lambda record: say(record.getMessage())  # type: ignore[method-assign]
    before = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def plain_run() -> Start:
    """A run of a plain learner in two blocks: takes its folder, and who is told what a person should know."""
    from sklearn.naive_bayes import GaussianNB

    from poisonproof import Dataset, FiniteAggregationClassifier, load
    from poisonproof.runs.manifest import RunSettings
    from poisonproof.runs.report import write_report
    from poisonproof.runs.run import run

    digits = load("digits")
    few = Dataset.of(
        "few", digits.train.X, digits.train.labels, digits.test.X[:20], digits.test.labels[:20], digits.classes
    )

    def start(folder: Path, say: Callable[[str], None] = silent) -> None:
        with told(say):
            model = FiniteAggregationClassifier(GaussianNB(), k=35, d=2, classes=range(10))
            write_report(run(few, model, folder, RunSettings(undefended=False)))

    return start


def pooled_run() -> Start:
    """A run of a pooled learner in three blocks of test samples."""
    from sklearn.datasets import load_digits

    import poisonproof.training.pooled as pooled
    from poisonproof import Dataset, FiniteAggregationClassifier, Split
    from poisonproof.learners.feature_maps import GlyphFeatures
    from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
    from poisonproof.runs.manifest import RunSettings
    from poisonproof.runs.report import write_report
    from poisonproof.runs.run import run

    images, labels = load_digits().images[:150].astype(np.uint8) * 15, load_digits().target[:150]
    tiny = Dataset.of("tiny", images[:110], labels[:110], images[110:], labels[110:], np.arange(10), dtype="uint8")
    learner = KernelRidgeClassifier(GlyphFeatures(copies=3), gamma=2.0)
    pooled.KERNEL_BYTES = 1  # many blocks from few samples

    def start(folder: Path, say: Callable[[str], None] = silent) -> None:
        model = FiniteAggregationClassifier(learner, k=6, d=2, classes=range(10), split=Split(dtype="uint8"))
        with told(say):
            write_report(run(tiny, model, folder, RunSettings(undefended=False)))

    return start


def update_run(place: Path) -> Start:
    """An update that removes two rows of a run, which its folder holds if nothing was done there yet."""
    load_libraries()
    complete = commands(place)["update"]
    assert complete.before is not None

    def start(folder: Path, say: Callable[[str], None] = silent) -> None:
        if not folder.exists():
            for source in sorted(complete.before.rglob("*")):  # by no operation that is killed
                copied = folder / source.relative_to(complete.before)
                copied.parent.mkdir(parents=True, exist_ok=True)
                if source.is_file():
                    shutil.copyfile(source, copied)
        from poisonproof.cli.run import update

        with Path(os.devnull).open("w") as sink, redirect_stdout(sink), redirect_stderr(sink):
            update(folder, remove="3,17", n_jobs=1)

    return start


def beginning(work: Callable[[], object]) -> int:
    """Begin in a child with a process group of its own, and return its number."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setsid()
            work()
            code = 0
        finally:
            os._exit(code)
    return child


def forked(work: Callable[[], object]) -> int:
    """Run in a child of its own; its exit status as `os.waitpid` gives it."""
    return os.waitpid(beginning(work), 0)[1]


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
    parser.add_argument("--kills", type=int, default=200, help="killed commands")
    parser.add_argument("--only", default="", help="of the commands to kill, such as vote,update")
    parser.add_argument("--step", type=int, default=1, help="kill at every so many file operations; 0 for not at all")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as place:
        only = [name.strip() for name in options.only.split(",") if name.strip()]
        killed = kill_commands(options.kills, options.seed, Path(place), only) if options.kills else {}
        total = sum(sum(moments.values()) for moments in killed.values())
        print(f"commands: {total} of {options.kills} killed resumed byte-identically, no worker alive after 5 s")
        makers = {"plain": plain_run, "pooled": pooled_run, "update": lambda: update_run(Path(place))}
        for name, make in makers.items() if options.step else ():
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

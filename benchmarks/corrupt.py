"""Is damage ever overlooked? Bits are flipped and bytes cut off in every file of a run, one at a time.

python benchmarks/corrupt.py --flips 400

For a complete and for an interrupted run: flips in every byte of small files and in bytes spread over large ones
(always the first and the last 32), every bit position in turn, and truncations. Each must be detected and the file
named; the run must then go on and end with the bytes of an undamaged one.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from kill import Start, plain_run, pooled_run, results, silent
from poisonproof import (
    Certificate,
    FiniteAggregationClassifier,
    Spread,
    Votes,
)
from poisonproof.runs.run import damage

ENDS = 32


def places(size: int, flips: int, generator: random.Random) -> list[tuple[int, int]]:
    """Which bytes to alter and by which bit: all of a small file, both ends and a spread of a large one."""
    if size <= flips:
        chosen = list(range(size))
    else:
        inner = np.linspace(ENDS, size - ENDS - 1, flips - 2 * ENDS).astype(int).tolist()
        chosen = [*range(ENDS), *inner, *range(size - ENDS, size)]
    return [(at, 1 << generator.randrange(8)) for at in chosen]


def opened(folder: Path, name: str) -> None:
    """Open a result as a reader would."""
    if name.startswith("votes."):
        Votes.load(folder / "votes.npy")
    elif name == "certificate.npz":
        Certificate.load(folder / name)
    elif name == "spread.npz":
        Spread.load(folder / name)
    elif name.startswith("models/"):
        FiniteAggregationClassifier.load(folder / "models")


def campaign(folder: Path, flips: int, generator: random.Random) -> tuple[Counter[str], list[str]]:
    """How often damage was detected, and what was overlooked or not named."""
    assert damage(folder) == [], damage(folder)
    tried: Counter[str] = Counter()
    missed = []
    complete = (folder / "votes.npy").exists()
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not path.is_file() or name in ("report.html", "run.lock"):
            continue
        body = path.read_bytes()
        wrong = [
            body[:at] + bytes([body[at] ^ bit]) + body[at + 1 :] for at, bit in places(len(body), flips, generator)
        ]
        wrong += [body[:cut] for cut in sorted({0, 1, len(body) // 2, len(body) - 1})] + [body + b"\0"]
        for number, altered in enumerate(wrong):
            path.write_bytes(altered)
            tried[name] += 1
            said = damage(folder)
            if not any(path.name in sentence for sentence in said):
                missed.append(f"{name}, damage {number}: damage() said {said}")
            if complete and number % 16 == 0 and name not in ("manifest.json", "split.npy") and "votes/" not in name:
                try:
                    opened(folder, name)
                except ValueError as error:
                    if path.name not in str(error) and path.stem not in str(error):
                        missed.append(f"{name}, damage {number}: opening it said {error}")
                else:
                    missed.append(f"{name}, damage {number}: opened")
        path.write_bytes(body)
    return tried, missed


def resumes(start: Start, folder: Path, scratch: Path, generator: random.Random) -> tuple[int, list[str]]:
    """Damage each file once and resume: how often it was mended, and what was not."""
    expected, failed, mended = results(folder), [], 0
    said: list[str] = []
    for name in expected:
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(folder, scratch)
        body = bytearray((scratch / name).read_bytes())
        body[generator.randrange(len(body))] ^= 1 << generator.randrange(8)
        (scratch / name).write_bytes(body)
        said.clear()
        try:
            start(scratch, said.append)
        except ValueError as error:
            if name != "manifest.json" or "manifest.json" not in str(error) or "run the same command" not in str(error):
                failed.append(f"{name}: {error}")
                continue
            (scratch / name).unlink()
            start(scratch, said.append)
            said.append(name)
        if not any(Path(name).name in sentence for sentence in said):
            failed.append(f"{name}: not said, but {said}")
        elif results(scratch) != expected:
            failed.append(f"{name}: other bytes")
        else:
            mended += 1
    return mended, failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=400, help="bytes altered per file")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    generator = random.Random(options.seed)
    overlooked = []
    with tempfile.TemporaryDirectory() as place:
        for name, start in (("plain", plain_run()), ("pooled", pooled_run())):
            folder = Path(place) / name
            start(folder, silent)
            mended, failed = resumes(start, folder, Path(place) / "scratch", generator)
            print(f"{name}, complete: {mended} damaged files named and mended by resuming")
            overlooked += failed
            tried, missed = campaign(folder, options.flips, generator)
            overlooked += missed
            print(f"{name}, complete: {tried.total()} damages in {len(tried)} files, {len(missed)} overlooked")
            interrupted = Path(place) / f"{name}-interrupted"
            interrupt(start, interrupted)
            tried, missed = campaign(interrupted, options.flips, generator)
            overlooked += missed
            print(f"{name}, interrupted: {tried.total()} damages in {len(tried)} files, {len(missed)} overlooked")
    print("\n".join(overlooked))
    raise SystemExit(bool(overlooked))


def interrupt(start: Start, folder: Path) -> None:
    """A run that stopped before its results were written."""
    import poisonproof.runs.run as module

    class StopHereError(Exception):
        pass

    def stop(*args: object) -> None:
        raise StopHereError

    real, module.certify = module.certify, stop
    try:
        start(folder, silent)
    except StopHereError:
        pass
    finally:
        module.certify = real


if __name__ == "__main__":
    main()

"""Does any file make a reader do anything but open it or refuse it in one sentence?

python benchmarks/fuzz.py --seconds 600

Repeats the property tests of tests/entry_points/test_fuzz.py with ever new seeds until the time is over, 2,000 examples
each.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLES = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--examples", type=int, default=EXAMPLES, help="per property and round")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    generator, rounds = random.Random(options.seed), 0
    deadline = time.monotonic() + options.seconds
    while time.monotonic() < deadline:
        seed = generator.randrange(1 << 30)
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--hypothesis-seed={seed}"]
        done = subprocess.run(
            [*words, str(ROOT / "tests" / "entry_points" / "test_fuzz.py")],
            env={**os.environ, "POISONPROOF_FUZZ": str(options.examples)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            print(done.stdout)
            raise SystemExit(f"seed {seed}: a reader did something else")
        rounds += 1
        print(f"round {rounds}, seed {seed}: {done.stdout.strip().splitlines()[-1]}", flush=True)
    print(f"{rounds} rounds of 7 properties, {options.examples} examples each: every file opened or was refused")


if __name__ == "__main__":
    main()

"""Does any odd row, through any entry point, reach a base classifier that its partition does not feed?

python benchmarks/odd_rows.py --cases 20000

Goes through tests/helpers/entry_points/matrix.py: every entry point with every odd row that can come through it, in
turn, acts and places drawn; one case in fifty really trains, votes and updates. Prints cases, entry points, odd rows
and failures; fails if there is one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

from joblib import Parallel, delayed

from entry_points.matrix import Case, faults_of, here, some_cases
from entry_points.table import ENTRY_POINTS

CHUNK = 250


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trained", type=float, default=0.02, help="share of cases that really train")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    started = time.perf_counter()
    cases = list(some_cases(options.cases, options.seed, options.trained))
    absent = [entry.name for entry in ENTRY_POINTS.values() if not here(entry)]
    if absent:
        print(f"*** left out, because a library is missing: {', '.join(absent)} ***", flush=True)
    keys = [(case.entry.name, case.odd, case.act, case.place, case.train) for case in cases]
    chunks = [keys[at : at + CHUNK] for at in range(0, len(keys), CHUNK)]
    failures: list[str] = []
    for done, found in enumerate(Parallel(options.jobs, return_as="generator")(delayed(checked)(c) for c in chunks), 1):
        failures += found
        for failure in found:
            print(failure, flush=True)
        if done % 4 == 0 or done == len(chunks):
            seconds = time.perf_counter() - started
            print(f"{min(done * CHUNK, len(keys))} cases, {len(failures)} failures, {seconds:.0f} s", flush=True)
    acts = Counter(case.act for case in cases)
    print(
        f"{len(cases)} cases ({', '.join(f'{count} {act}' for act, count in sorted(acts.items()))}; "
        f"{sum(case.train for case in cases)} really trained), "
        f"{len({case.entry.name for case in cases})} entry points, {len({case.odd for case in cases})} odd rows: "
        f"{len(failures)} failures"
    )
    if failures:
        raise SystemExit(1)


def checked(keys: list[tuple[str, str, str, str, bool]]) -> list[str]:
    """What went wrong in these cases, in words."""
    cases = [Case(ENTRY_POINTS[entry], *more) for entry, *more in keys]
    return [f"{case}: {fault}" for case in cases for fault in faults_of(case)]


if __name__ == "__main__":
    main()

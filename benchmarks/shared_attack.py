"""What does one attack leave of a whole test set? Certified fraction against certified accuracy, and brute force.

    python benchmarks/shared_attack.py VOTES.npy LABELS.npy [--sizes 1,2,5,10] [--time-limit 60]
    python benchmarks/shared_attack.py --brute-force 5000

VOTES.npy as a run saved it, LABELS.npy with the class index of each test sample. --brute-force tries every set of
partitions on that many small random ensembles, with a time limit that is sometimes 0, and counts violations.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from poisonproof import Votes, certified_accuracy

sys.path.append(str(Path(__file__).parents[1] / "tests" / "helpers"))


def table(path: str, labels: str, sizes: list[int], time_limit: float) -> None:
    votes = Votes.load(path)
    y = votes.classes[np.load(labels)]
    few = slice(0, min(200, votes.n_test))
    small = Votes(votes.matrix[few], votes.spread, votes.classes, classes_inferred=votes.classes_inferred)
    certified_accuracy(small, y[few], 3, time_limit=1)  # compile
    print(
        "| attack size | certified fraction, % (pointwise) | certified accuracy, % (one shared attack) "
        "| best attack found leaves, % | what was proved | s |"
    )
    print("|---|---|---|---|---|---|")
    for size in sizes:
        found = certified_accuracy(votes, y, size, time_limit=time_limit)
        shares = f"{found.certified_fraction * 100:.2f} | {found.lower * 100:.2f} | {found.upper * 100:.2f}"
        print(f"| {size} | {shares} | {found.proved} | {found.seconds:.1f} |", flush=True)


def brute_force(n_cases: int) -> None:
    from shared_oracle import fewest_right_fast, random_case

    rng = np.random.default_rng(0)
    started = time.monotonic()
    violations = exact = above = not_exact_at_1 = 0
    for case in range(n_cases):
        matrix, y, spread, n_classes, unseen, size = random_case(rng, 2, 13, 40)
        votes = Votes(matrix, spread, range(n_classes), classes_inferred=unseen)
        method = ("finite-aggregation", "tight")[case % 2]
        limit = float(rng.choice([0.0, 0.002, 0.01, 60.0]))
        found = certified_accuracy(votes, y, size, method=method, time_limit=limit, n_jobs=1)
        truth = fewest_right_fast(matrix, y, spread.as_table(), n_classes, unseen, size)
        violations += not found.certified_count <= found.lower_count <= truth <= found.upper_count
        not_exact_at_1 += size <= 1 and not found.exact
        exact += found.exact
        above += found.lower_count > found.certified_count
    print(
        f"{n_cases} ensembles, every set of partitions: {violations} violations; both bounds exact in {exact}, "
        f"above the certified fraction in {above}; attack sizes 0 and 1 not exact in {not_exact_at_1}; "
        f"{time.monotonic() - started:.0f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="VOTES.npy LABELS.npy")
    parser.add_argument("--sizes", default="1,2,5,10")
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--brute-force", type=int, default=0, metavar="CASES")
    options = parser.parse_args()
    if len(options.files) not in (0, 2) or not (options.files or options.brute_force):
        parser.error("give VOTES.npy and LABELS.npy, or --brute-force CASES")
    if options.files:
        table(*options.files, [int(size) for size in options.sizes.split(",")], options.time_limit)
    if options.brute_force:
        brute_force(options.brute_force)


if __name__ == "__main__":
    main()

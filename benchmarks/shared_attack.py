"""What does one attack leave of a whole test set? Certified fraction against certified accuracy, and brute force.

    python benchmarks/shared_attack.py VOTES.npy LABELS.npy [--sizes 1,2,5,10] [--time-limit 60]
    python benchmarks/shared_attack.py --brute-force 5000
    python benchmarks/shared_attack.py --ballots 20000

VOTES.npy as a run saved it, LABELS.npy with the class index of each test sample. --brute-force tries every set of
partitions on that many small random ensembles, with a time limit that is sometimes 0, and counts violations. --ballots
tries every attack on that many small worlds where samples vote, and shows what the bound adds on scikit-learn's digits,
beside real attacks: copies of one far sample, and of test samples, under every label.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from poisonproof import BallotClassifier, Votes, certified_accuracy

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
    from shared_oracle import close_case, fewest_right_fast, random_case

    rng = np.random.default_rng(0)
    started = time.monotonic()
    violations = exact = above = not_exact_at_1 = 0
    for case in range(n_cases):
        matrix, y, spread, n_classes, unseen, size = close_case(rng) if case % 3 == 2 else random_case(rng, 2, 13, 40)
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


def ballots(n_cases: int) -> None:
    from shared_ballot_oracle import compare_with_every_attack

    started = time.process_time()
    cases = np.array([compare_with_every_attack(seed) for seed in range(n_cases)]).reshape(-1, 3)
    lower, truth, certified = cases.T
    violations = int(((lower > truth) | (lower < certified)).sum())
    print(
        f"{n_cases} worlds, every attack: {violations} violations; bound reached in {int((lower == truth).sum())}, "
        f"above the pointwise count in {int((lower > certified).sum())}; {time.process_time() - started:.0f} CPU s"
    )
    digits()


def digits() -> None:
    """What the bound adds to the pointwise figure, and what real attacks leave."""

    from sklearn.base import clone
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    model = BallotClassifier(near=34, scale=1, classes=range(10)).fit(X[:1200], y[:1200])
    test, truth = X[1200:], y[1200:]
    heard = model.ballots(test)
    places = np.concatenate([test[::60], 16 - test[:1]])  # the last one is far from everything
    print("| attack size | clean, % | pointwise, % | one shared attack, % | worst of 110 real attacks, % | CPU s |")
    print("|---|---|---|---|---|---|")
    for size in (5, 10, 20, 40, 60, 80):
        started = time.process_time()
        found = certified_accuracy(heard, truth, size)
        spent = time.process_time() - started
        left = []
        for place in places:
            for label in range(10):
                copies = np.repeat(place[None], size, axis=0)
                attacked = clone(model).fit(np.vstack([X[:1200], copies]), [*y[:1200].tolist(), *[label] * size])
                left.append((attacked.predict(test) == truth).mean())
        shares = (found.clean_accuracy, found.certified_fraction, found.lower, min(left))
        print(f"| {size} | {' | '.join(f'{100 * share:.2f}' for share in shares)} | {spent:.2f} |", flush=True)
        assert min(left) >= found.lower


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="VOTES.npy LABELS.npy")
    parser.add_argument("--sizes", default="1,2,5,10")
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--brute-force", type=int, default=0, metavar="CASES")
    parser.add_argument("--ballots", type=int, default=0, metavar="CASES")
    options = parser.parse_args()
    if len(options.files) not in (0, 2) or not (options.files or options.brute_force or options.ballots):
        parser.error("give VOTES.npy and LABELS.npy, --brute-force CASES or --ballots CASES")
    if options.files:
        table(*options.files, [int(size) for size in options.sizes.split(",")], options.time_limit)
    if options.brute_force:
        brute_force(options.brute_force)
    if options.ballots:
        ballots(options.ballots)


if __name__ == "__main__":
    main()

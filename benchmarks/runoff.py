"""What does a second round buy? Theorem 2 against run-off on the same votes; and attackers against run-off's radii.

    python benchmarks/runoff.py VOTES.npy [Y_TEST.npy]
    python benchmarks/runoff.py --attack CASES

VOTES.npy as `poisonproof run … --rankings` saved it, with VOTES.rankings.npy beside it. Y_TEST.npy holds the class
index of each test sample; without it the share of radii is printed instead of the certified fraction. --attack draws
random small ensembles and tries every set of partitions of the smallest attack, on every fifth of them with every
ranking of what they reach.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from poisonproof import Spread, Votes, certify

METHODS = ("finite-aggregation", "run-off")


def compare(votes: Votes, truth: np.ndarray | None) -> None:
    """Mean radius, curve, cost and exactness of both methods."""
    certify(Votes(votes.matrix[:1], votes.spread, votes.classes, rankings=votes.rankings[:1]), "run-off")  # compile
    certify(Votes(votes.matrix[:1], votes.spread, votes.classes))
    found, costs = {}, {}
    for method in METHODS:
        started = time.process_time()
        found[method] = certify(votes, method, n_jobs=1)
        costs[method] = (time.process_time() - started) / votes.n_test * 1e3
    largest = max(int(certificate.radius.max()) for certificate in found.values())
    sizes = sorted({round(largest * part / 8) for part in range(9)})
    what = "share of radii at least" if truth is None else "certified fraction (pointwise) at attack size"
    print(f"{votes.n_test} test samples, k = {votes.spread.k:g}, d = {votes.spread.d}; {what} …, %\n")
    print(f"| method | mean radius | exact, % | ms of one core per sample | {' | '.join(map(str, sizes))} |")
    print("|---" * (4 + len(sizes)) + "|")
    for method, certificate in found.items():
        curve = (
            [(certificate.radius >= size).mean() for size in sizes]
            if truth is None
            else certificate.certified_fraction(votes.classes[truth], sizes)
        )
        exact = "" if certificate.exact is None else f"{certificate.exact.mean() * 100:.1f}"
        cells = [method, f"{certificate.radius.mean():.3f}", exact, f"{costs[method]:.3f}"]
        print("| " + " | ".join(cells + [f"{share * 100:.2f}" for share in curve]) + " |")
    other = (found["run-off"].prediction != found["finite-aggregation"].prediction).mean() * 100
    print(f"\nThe run-off predicts another class for {other:.2f} % of the samples.")


def attack(cases: int) -> None:
    """Random small ensembles, every set of partitions: how many radii were broken, how many were exact."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
    from runoff_oracle import as_array, random_case, smallest_attack, smallest_attack_trying_everything

    rng = np.random.default_rng(0)
    broken = wrongly_exact = positive = exact = everything = inexact_by_one_partition = 0
    for case in range(cases):
        unseen = case % 3 == 0
        n_classes = int(rng.integers(1 if unseen else 2, 4 if unseen else 5))
        n = int(rng.integers(2, 8 - n_classes // 4 - 2 * unseen)) if case % 5 == 0 else int(rng.integers(2, 15))
        d = int(rng.integers(1, min(3, n) + 1))
        table = Spread(n, tuple(rng.choice(n, d, replace=False).tolist())).as_table()[rng.permutation(n)]
        spread = Spread.from_table(rng.permutation(n)[table])
        rankings = random_case(rng, n, n_classes)
        ranked = as_array(rankings, n_classes)[None]
        votes = Votes(ranked[..., 0], spread, range(n_classes), classes_inferred=unseen, rankings=ranked)
        certificate = certify(votes, "run-off", n_jobs=1)
        radius = int(certificate.radius[0])
        rows = spread.as_table().tolist()
        smallest = smallest_attack(rankings, rows, n_classes, unseen)
        if case % 5 == 0:
            everything += 1
            up_to = min(radius + 1, 2)
            tried = smallest_attack_trying_everything(rankings, rows, n_classes, unseen, up_to=up_to)
            broken += tried <= radius or (smallest <= up_to and tried != smallest)
        broken += radius >= smallest
        positive += radius > 0
        exact += radius + 1 == smallest
        wrongly_exact += bool(certificate.exact[0]) and radius + 1 != smallest
        inexact_by_one_partition += d == 1 and radius + 1 != smallest
    print(f"{cases} ensembles, {everything} of them with every ranking; {positive} radii above 0")
    print(f"broken: {broken}; called exact but not: {wrongly_exact}; d = 1 but not exact: {inexact_by_one_partition}")
    print(f"exact in truth: {exact / cases * 100:.2f} %")


def main() -> None:
    if sys.argv[1] == "--attack":
        attack(int(sys.argv[2]))
        return
    votes = Votes.load(sys.argv[1])
    if votes.rankings is None:
        sys.exit(f"{sys.argv[1]} has no rankings beside it; make them by poisonproof run … --rankings")
    compare(votes, np.load(sys.argv[2]) if len(sys.argv) > 2 else None)


if __name__ == "__main__":
    main()

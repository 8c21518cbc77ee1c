"""Attackers against the radii of `certify(votes, target=c)`.

    python benchmarks/target.py CASES

Random small ensembles, every set of partitions of every size; on every tenth, every rewriting of what is reached
(votes). Then training samples that vote: everything that up to four poisons (three
contributors) can do. Prints how many radii were broken, and how many were exact in truth.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from poisonproof import Spread, Votes, certify

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
from ballot_cases import FAMILIES, Verdict
from target_oracle import (
    smallest_attack,
    smallest_attack_trying_everything,
)

ROWS = 20


def some_spread(rng: np.random.Generator, n: int) -> Spread:
    d = int(rng.integers(1, min(4, n) + 1))
    table = Spread(n, tuple(rng.choice(n, d, replace=False).tolist())).as_table()[rng.permutation(n)]
    return Spread.from_table(rng.permutation(n)[table])


def of_votes(cases: int) -> int:
    rng = np.random.default_rng(0)
    methods = ("finite-aggregation", "dpa-bound")
    broken, exact, above = (dict.fromkeys(methods, 0) for _ in range(3))
    total = everything = d_1_not_exact = positive = 0
    for case in range(cases // ROWS):
        every = case % 10 == 0
        n, n_classes = int(rng.integers(2, 6 if every else 12)), int(rng.integers(2, 4 if every else 7))
        spread, c, unseen = some_spread(rng, n), int(rng.integers(n_classes)), bool(case % 2)
        shares = rng.dirichlet(np.full(n_classes + 1, 0.7), ROWS)
        matrix = np.array([rng.choice(n_classes + 1, n, p=share) for share in shares])
        votes = Votes(matrix, spread, range(n_classes), classes_inferred=unseen)
        table = spread.as_table()
        smallest = np.array([smallest_attack(row, table, n_classes, c) for row in matrix])
        if every:
            everything += ROWS
            tried = [smallest_attack_trying_everything(row.tolist(), table, n_classes, c) for row in matrix]
            assert tried == smallest.tolist()
        open_ = smallest > 0
        total += int(open_.sum())
        for method in methods:
            found, change = certify(votes, method, target=c, n_jobs=1), certify(votes, method, n_jobs=1)
            broken[method] += int((found.radius >= smallest)[open_].sum()) + int((found.already == open_).sum())
            positive += method == "finite-aggregation" and int((found.radius > 0)[open_].sum())
            exact[method] += int((found.radius + 1 == smallest)[open_].sum())
            above[method] += int((found.radius > change.radius)[open_].sum())
            if spread.d == 1 and method != "dpa-bound":
                d_1_not_exact += int((found.radius + 1 != smallest)[open_].sum())
    rows = f"{everything} rows with every rewriting"
    print(f"votes: {total} predictions that are not the target, {positive} radii above 0, {rows}")
    for method in methods:
        print(
            f"  {method}: broken {broken[method]}; exact in truth {exact[method] / total * 100:.1f} %; larger than the "
            f"radius against any change {above[method] / total * 100:.1f} %"
        )
    print(f"  d = 1 but not exact: {d_1_not_exact}")
    return sum(broken.values())


def of_samples(cases: int) -> int:
    all_broken = 0
    for name, family in FAMILIES.items():
        verdict = Verdict()
        for seed in range(cases // 5 if "contrib" in name else cases):
            family(seed, verdict, target=True)
        print(
            f"{name}: {verdict.checked} predictions that are not the target; broken {len(verdict.broken)}; called "
            f"exact but not: {len(verdict.loose_though_exact)}; not exact, and not called so: "
            f"{len(verdict.loose) - len(verdict.loose_though_exact)}"
        )
        all_broken += len(verdict.broken) + len(verdict.loose_though_exact)
    return all_broken


if __name__ == "__main__":
    broken = of_votes(int(sys.argv[1])) + of_samples(int(sys.argv[1]))
    sys.exit(f"{broken} radii broken" if broken else 0)

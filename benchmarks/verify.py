"""What does an independent check cost, and do the checker and the kernels ever disagree?

    python benchmarks/verify.py [CASES]

First CASES random small ensembles (ties, abstentions, inferred classes, classes without votes, spreads by shifts and
by table), Theorem 2 and the tight certificate by the kernels against the checker; then the time per radius at the
sizes of the paper.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from numpy.typing import NDArray

from poisonproof import Spread, Votes, certify
from poisonproof.verification.proof_search import HarmfulError, Partitions, prove
from poisonproof.verification.theorem import SpreadMap, leads, proves, read_spread, theorem_2, weights

ROWS = 20
DESIGNED = (Spread(13, (0, 1, 3, 9)), Spread(21, (0, 1, 4, 14, 16)), Spread(31, (1, 5, 11, 24, 25, 27)))


def main() -> None:
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    rng = np.random.default_rng(0)
    rows = differing = unproved = raised = 0
    for _ in range(cases):
        n, n_classes, unseen = int(rng.integers(2, 25)), int(rng.integers(2, 7)), bool(rng.integers(2))
        spread = Spread(n, tuple(rng.choice(n, int(rng.integers(1, n + 1)), replace=False).tolist()))
        if (
            rng.random() < 0.5
        ):  # difference sets: any two partitions share a base classifier, so the tight radius is larger
            spread = DESIGNED[int(rng.integers(3))]
            n = spread.n_subsets
        if rng.random() < 0.5:
            spread = Spread.from_table(rng.permutation(n)[spread.as_table()])
        noise = rng.integers(0, n_classes + 1, (ROWS, n))
        agreed = rng.random((ROWS, n)) < rng.random((ROWS, 1)) ** 0.5
        matrix = np.where(agreed, rng.integers(0, n_classes, (ROWS, 1)), noise)
        votes = Votes(matrix, spread, range(n_classes), classes_inferred=unseen)
        plain, tight, map_ = certify(votes), certify(votes, "tight"), read_spread(spread.as_dict(), n, "here")
        for t, row in enumerate(votes.matrix):
            found, margin = theorem_2(row, map_, n_classes, unseen), leads(row, n_classes, unseen).margin
            kernel = (plain.prediction[t], plain.runner_up[t], plain.radius[t], plain.margin[t])
            differing += (found.prediction, found.runner_up, found.radius, margin) != kernel
            radius = int(tight.radius[t])
            raised += radius > found.radius
            covers = [
                (weights(row, found.prediction, rival, n_classes), rival.lead)
                for rival in found.rivals
                if radius or rival.lead >= 0
            ]
            unproved += radius > 0 and not all(_proved(w, map_, radius, lead) for w, lead in covers)
            rows += 1
    print(f"{rows} test samples: {differing} differ from the kernels' Theorem 2; {raised} tight radii exceed it;")
    print(f"{unproved} tight radii could not be proved.\n")
    print("| base classifiers | d | ms of one core per radius | µs per count |")
    print("|---|---|---|---|")
    for k, d in ((1200, 16), (1200, 32)):
        spread = Spread.random(k, d)
        map_, n = read_spread(spread.as_dict(), k * d, "here"), k * d
        matrix = np.where(rng.random((ROWS, n)) < 0.3, rng.integers(0, 10, (ROWS, n)), rng.integers(0, 10, (ROWS, 1)))
        matrix = matrix.astype(np.uint8)
        started = time.process_time()
        for row in matrix:
            theorem_2(row, map_, 10, False)
        counted = time.process_time()
        for row in matrix:
            leads(row, 10, False)
        done = time.process_time()
        print(f"| {n} | {d} | {(counted - started) / ROWS * 1e3:.2f} | {(done - counted) / ROWS * 1e6:.0f} |")


def _proved(weight: NDArray[np.int64], spread: SpreadMap, radius: int, lead: int) -> bool:
    everywhere = np.ones(spread.n, np.bool_)
    try:
        tree = prove(weight, Partitions(np.arange(spread.n), spread.table, spread), everywhere, radius, lead)
    except HarmfulError:
        return False
    return tree is not None and proves(tree, weight, spread, everywhere, radius, lead)


if __name__ == "__main__":
    main()

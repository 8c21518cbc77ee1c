"""What does a second round buy? Theorem 2 against run-off on the same votes; and attackers against run-off's radii.

    python benchmarks/runoff.py VOTES.npy [Y_TEST.npy]
    python benchmarks/runoff.py --attack CASES
    python benchmarks/runoff.py --cut CASES
    python benchmarks/runoff.py --many [SAMPLES] [MEMBERS] [CLASSES]

VOTES.npy as `poisonproof run … --rankings` saved it, with VOTES.rankings.npy beside it. Y_TEST.npy holds the class
index of each test sample; without it the share of radii is printed instead of the certified fraction. --attack draws
random small ensembles and tries every set of partitions of the smallest attack, on every fifth of them with every
ranking of what they reach. --cut keeps the first places of random small rankings and tries every set of partitions
against many ways in which they may go on. --many draws rankings of 1,000 classes, whole ones and their first places,
and measures time and memory (2,000 samples × 800 base classifiers unless told; whole rankings for 50 samples).
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
            else certificate.evaluate(votes.classes[truth]).certified_fraction(sizes)
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


def cut(cases: int) -> None:
    """Random small ensembles of which the first places are kept; a broken radius stops the campaign."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
    from ensembles import random_spread
    from runoff_oracle import check_cut_case

    rng = np.random.default_rng(0)
    started = time.process_time()
    found = []
    for case in range(cases):
        n_classes, n = int(rng.integers(2, 6)), int(rng.integers(4, 15))
        places = int(rng.integers(1, n_classes + 1))
        found.append(check_cut_case(rng, n, n_classes, case % 3 == 0, places, random_spread(rng, n)))
    kept, whole = (np.array(part) for part in zip(*found, strict=True))
    print(
        f"{cases} ensembles, every set of partitions and 4 to 25 ways to go on: 0 broken, 0 above what whole rankings "
        f"prove; radius above 0 in {(whole[:, 0] > 0).sum()}, of these smaller with the places kept in "
        f"{(kept[:, 0] < whole[:, 0]).sum()}; {time.process_time() - started:.0f} CPU s"
    )


def many(n_test: int = 2000, n: int = 800, n_classes: int = 1000) -> None:
    """Time and memory where there are many classes; each sample is confused with 60 others, 10 of them often."""
    import resource
    import tempfile

    rng = np.random.default_rng(0)
    print(f"{n_test} test samples, {n} base classifiers, {n_classes} classes")
    print("| d | places | rankings, MB | CPU s | mean radius | of whole rankings, first 50 | peak memory, MB |")
    print("|---|---|---|---|---|---|---|")
    whole = np.empty((n_test, n, 20), np.uint16)
    for t in range(n_test):
        candidates = rng.choice(n_classes, 60, replace=False)
        taste = np.concatenate([[rng.uniform(1, 5)], rng.uniform(0, 2, 9), np.full(50, -1.5)])
        order = np.argsort(-(taste + rng.gumbel(size=(n, 60))), axis=1)
        whole[t] = candidates[order[:, :20]]
    few = np.empty((50, n, n_classes), np.uint16)
    for t in range(len(few)):
        for i in range(n):
            named = whole[t, i]
            behind = rng.permutation(np.setdiff1d(np.arange(n_classes), named, assume_unique=True))
            few[t, i] = np.concatenate([named, behind])
    for d in (1, 16):
        spread = Spread.random(n // d, d)
        certify(Votes(few[:1, :, 0], spread, range(n_classes), rankings=few[:1]), "run-off")  # compile
        full = certify(Votes(few[..., 0], spread, range(n_classes), rankings=few), "run-off", n_jobs=1)
        for places in (1, 3, 10, 20):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "votes.npy"
                ranked = np.ascontiguousarray(whole[..., :places])
                Votes(ranked[..., 0], spread, range(n_classes), rankings=ranked).save(path)
                del ranked
                started = time.process_time()
                votes = Votes.load(path)
                found = certify(votes, "run-off", n_jobs=1)
                spent = time.process_time() - started
            same = found.prediction[: len(few)] == full.prediction
            assert (found.radius[: len(few)][same] <= full.radius[same]).all()
            assert (found.radius[: len(few)][~same] == 0).all()
            radii = f"{found.radius.mean():.2f} | {found.radius[: len(few)].mean():.2f} of {full.radius.mean():.2f}"
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            size = n_test * n * places * 2 / 1e6
            print(f"| {d} | {places} | {size:.0f} | {spent:.1f} | {radii} | {peak:.0f} |", flush=True)


def main() -> None:
    if sys.argv[1] in ("--attack", "--cut", "--many"):
        campaign = {"--attack": attack, "--cut": cut, "--many": many}[sys.argv[1]]
        campaign(*map(int, sys.argv[2:]))
        return
    votes = Votes.load(sys.argv[1])
    if votes.rankings is None:
        sys.exit(f"{sys.argv[1]} has no rankings beside it; make them by poisonproof run … --rankings")
    compare(votes, np.load(sys.argv[2]) if len(sys.argv) > 2 else None)


if __name__ == "__main__":
    main()

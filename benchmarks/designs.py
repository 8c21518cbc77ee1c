"""What do designed spreads buy, and does anything break them? Theorem 2, T3 and the exact search on the same votes.

    python benchmarks/designs.py VOTES.npy…      votes as a run saved them, made with a designed spread
    python benchmarks/designs.py campaign [N]    N radii (6,000 by default) against attackers who try everything

With Y_TEST.npy beside VOTES.npy under the name y_test.npy, certified fractions (pointwise) instead of shares.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from poisonproof import Spread, Votes, certify
from poisonproof.core import certify as certificates
from poisonproof.core.grouped import find_blocks

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "certificates"))
from test_grouped import (
    largest_covers_by_residue,
    search_every_lead,
    smallest_attack,
    structured_votes,
    structured_weights,
    weights_and_leads,
)


def largest_cover(weight, table, size):
    """max cov(H) over |H| ≤ size by an integer program: x_j chosen, y_i ≤ Σ_{j feeds i} x_j."""
    n = len(table)
    feeds = np.zeros((n, n))
    for j, row in enumerate(table):
        feeds[row, j] = 1
    rows = [
        LinearConstraint(np.r_[np.ones(n), np.zeros(n)], -np.inf, size),
        LinearConstraint(np.hstack([-feeds, np.eye(n)]), -np.inf, 0),
    ]
    solved = milp(
        np.r_[np.zeros(n), -weight.astype(float)],
        constraints=rows,
        integrality=np.r_[np.ones(n), np.zeros(n)],
        bounds=Bounds(0, 1),
    )
    assert solved.success
    return round(-solved.fun)


LIMITS = {  # dual iterations, partitions that T2 may visit, partitions that the search inside blocks may visit
    "tight: T1 and T2 off, no search in blocks (T3)": (0, 0, 0),
    "tight": (certificates.DUAL_ITERATIONS, certificates.PARTITION_VISITS, certificates.BLOCK_VISITS),
}


def limit(iterations: int, visits: int, block_visits: int) -> None:
    certificates.DUAL_ITERATIONS = iterations
    certificates.PARTITION_VISITS = visits
    certificates.BLOCK_VISITS = block_visits


def compare(path: Path) -> None:
    votes = Votes.load(path)
    blocks = find_blocks(votes.spread)
    found = "not grouped" if blocks is None else f"{blocks.n_blocks} blocks, overlap {blocks.overlap.min()}"
    print(f"\n{path}: {votes.n_test} test samples, {votes.spread.n_subsets} base classifiers, ", end="")
    print(f"k = {votes.spread.k:.1f}, d = {votes.spread.d}, {found}\n")
    certify(Votes(votes.matrix[:1], votes.spread, votes.classes), "tight")  # compile
    y = np.load(path.with_name("y_test.npy")) if path.with_name("y_test.npy").exists() else None
    rows = {}
    for name in ("Theorem 2", *LIMITS):
        limit(*LIMITS.get(name, LIMITS["tight"]))
        started = time.process_time()
        rows[name] = certify(votes, "finite-aggregation" if name == "Theorem 2" else "tight", n_jobs=1)
        rows[name, "ms"] = (time.process_time() - started) / votes.n_test * 1e3
    limit(*LIMITS["tight"])
    top = int(rows["tight"].radius.max())
    sizes = sorted({top * i // 8 for i in range(1, 9)} | set(range(max(top - 4, 1), top + 1)))
    what = "radius at least that, %" if y is None else "certified fraction, % (pointwise)"
    print(
        f"| certificate | mean radius | exact, % | ms of one core per sample | {what}: {' | '.join(map(str, sizes))} |"
    )
    print("|---" * (4 + len(sizes)) + "|")
    for name in ("Theorem 2", *LIMITS):
        certificate = rows[name]
        exact = "" if certificate.exact is None else f"{certificate.exact.mean() * 100:.1f}"
        if y is None:
            shares = [(certificate.radius >= size).mean() for size in sizes]
        else:
            shares = certificate.evaluate(y).certified_fraction(sizes)
        curve = " | ".join(f"{int(share * 1000) / 10:.1f}" for share in shares)
        print(f"| {name} | {certificate.radius.mean():.3f} | {exact} | {rows[name, 'ms']:.2f} | {curve} |")


def campaign(total: int) -> None:
    """Random and structured votes; ties, abstentions, classes without votes and classes not seen are common."""
    designs = [
        *((Spread.planes(2, blocks), blocks) for blocks in (1, 2, 3, 6)),
        *((Spread.planes(3, blocks), blocks) for blocks in (1, 2, 5)),
        *((Spread.from_difference_set(11, (1, 3, 4, 5, 9), blocks), blocks) for blocks in (1, 4)),
        *((Spread.from_difference_set(7, (0, 1, 2, 4), blocks), blocks) for blocks in (2, 5)),
        (Spread.from_difference_set(15, (0, 1, 2, 4, 5, 8, 10), 3), 3),
    ]
    rng = np.random.default_rng(0)
    each = -(-total // (len(designs) * len(LIMITS)))
    all_broken = 0
    print("| spread | limits | radii | violations | wrong exact flags | larger than Theorem 2 | exact, % |")
    print("|---|---|---|---|---|---|---|")
    for spread, n_blocks in designs:
        covers = partial(largest_covers_by_residue, spread=spread, n_blocks=n_blocks)
        for name, limits in LIMITS.items():
            limit(*limits)
            broken = wrong = larger = exact = 0
            for case in range(-(-each // 25)):
                n_classes, unseen = int(rng.integers(2, 5)), bool(case % 2)
                matrix = np.array([structured_votes(rng, spread, n_classes) for _ in range(25)])
                votes = Votes(matrix, spread, range(n_classes), classes_inferred=unseen)
                plain, tight = certify(votes), certify(votes, "tight")
                smallest = np.array([smallest_attack(row, n_classes, unseen, covers) for row in matrix])
                broken += int((tight.radius >= smallest).sum()) + int((tight.radius < plain.radius).sum())
                wrong += int((tight.exact & (tight.radius + 1 != smallest)).sum())
                larger += int((tight.radius > plain.radius).sum())
                exact += int(tight.exact.sum())
            count = 25 * (case + 1)
            shown = f"{spread.n_subsets} of {spread.d} in {n_blocks}"
            print(
                f"| {shown} | {name} | {count} | {broken} | {wrong} | {larger} | {exact / count * 100:.1f} |",
                flush=True,
            )
            all_broken += broken + wrong
    all_broken += every_lead(designs, rng, total // 4) + integer_programs(rng)
    raise SystemExit(f"{all_broken} certificates broken" if all_broken else 0)


def every_lead(designs: list[tuple[Spread, int]], rng: np.random.Generator, n_weights: int) -> int:
    """The grouped search alone, on weights and leads that no votes need have: where overlap decides."""
    all_broken = 0
    print(
        "\n| spread | nodes | weights × leads | violations | wrong attacks | harmless size = smallest attack − 1, % |"
    )
    print("|---|---|---|---|---|---|")
    for spread, n_blocks in designs:
        for nodes in (0, 100_000):
            count = broken = wrong = tight = 0
            for _ in range(-(-n_weights // (2 * len(designs)))):
                weight = structured_weights(rng, spread)
                for size, ceiling, smallest in search_every_lead(spread, n_blocks, nodes, weight):
                    count += 1
                    broken += size >= smallest
                    wrong += ceiling not in (spread.n_subsets, smallest)
                    tight += size + 1 == smallest
            shown = f"{spread.n_subsets} of {spread.d} in {n_blocks}"
            print(f"| {shown} | {nodes} | {count} | {broken} | {wrong} | {tight / count * 100:.1f} |", flush=True)
            all_broken += broken + wrong
    return all_broken


def integer_programs(rng: np.random.Generator) -> int:
    limit(*LIMITS["tight"])
    count = broken = not_attacked = 0
    for spread in (Spread.planes(4, 2), Spread.planes(3, 4)):
        matrix = np.array([structured_votes(rng, spread, 3) for _ in range(15)])
        tight = certify(Votes(matrix, spread, range(3)), "tight")
        table = spread.as_table()
        for row, radius, exact in zip(matrix, tight.radius.tolist(), tight.exact, strict=True):
            rivals = list(weights_and_leads(row, 3, False))
            count += 1
            broken += not all(largest_cover(weight, table, radius) <= lead for weight, lead in rivals)
            beaten = any(largest_cover(weight, table, radius + 1) > lead for weight, lead in rivals)
            not_attacked += bool(exact) and not beaten
    print(f"\nHiGHS on {count} radii: {broken} violations, {not_attacked} wrong exact flags.")
    return broken + not_attacked


def main() -> None:
    if sys.argv[1] == "campaign":
        campaign(int(sys.argv[2]) if len(sys.argv) > 2 else 6000)
        return
    for name in sys.argv[1:]:
        compare(Path(name))


if __name__ == "__main__":
    main()

"""Blocks of ballots against an attacker who tries every insertion, removal and flip on small training sets.

    python -m research.blocks.campaign --cases 20000

Every case is a small world whose maps one poison changes beyond recognition (research/tests/block_oracle.py). Checked:
the fast certificate is the slow one; no attack of up to `--size` acts within a radius changes a prediction. Printed:
what kinds of worlds there were, how many radii were attacked, and how many fell to one act more than is certified.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

import numpy as np

from research.tests.block_oracle import broken, random_case, slow_radius, tied

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--size", type=int, default=4, help="largest attack tried")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    random = np.random.default_rng(options.seed)
    start = time.process_time()
    kinds: Counter[str] = Counter()
    beyond: Counter[int] = Counter()
    fallen: Counter[int] = Counter()
    radii: list[int] = []
    for case in range(options.cases):
        world, x, samples = random_case(random)
        prediction, radius, flips = world.certified(x, samples)
        assert prediction == world.predict(x, samples), (case, world, x, samples)
        assert (radius, flips) == slow_radius(world, x, samples), (case, world, x, samples)
        for certified, kind in ((radius, False), (flips, True)):
            sizes = range(1, min(certified, options.size, len(samples)) + 1)
            kinds["radii attacked, flips" if kind else "radii attacked, insertions and removals"] += len(sizes) > 0
            assert broken(world, x, samples, sizes, kind) is None, (case, world, x, samples, kind)
        radii.append(radius)
        kinds["d > 1"] += world.spread.d > 1
        kinds["table that no shifts describe"] += world.spread.shifts is None
        kinds["a sample more than once"] += len(set(samples)) < len(samples)
        kinds["a tie of members"] += tied(world, x, samples)
        if radius < options.size:
            beyond[radius] += 1
            fallen[radius] += broken(world, x, samples, (radius + 1,), False) is not None
    print(f"{options.cases} cases, none broken. " + ", ".join(f"{kind}: {n}" for kind, n in kinds.items()))
    for radius in sorted(beyond):
        print(f"{beyond[radius]} radii of {radius} attacked with {radius + 1} acts: {fallen[radius]} fell.")
    print(f"radii {np.bincount(radii).tolist()}, {time.process_time() - start:.0f} CPU seconds")

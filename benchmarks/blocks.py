"""Blocks of ballots against an attacker who tries every insertion, removal and flip on small training sets.

    python benchmarks/blocks.py --cases 20000

Every case is a small world whose maps one poison changes beyond recognition (tests/helpers/block_oracle.py). Checked:
the fast certificate is the slow one; no attack of up to `--size` acts within a radius changes a prediction. Printed:
how many radii were attacked, and how many radii of 0 fell to one act.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
from block_oracle import broken, random_case, slow_radius

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--size", type=int, default=2, help="largest attack tried")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    random = np.random.default_rng(options.seed)
    start = time.process_time()
    attacked = past = fallen = 0
    radii: list[int] = []
    for case in range(options.cases):
        world, x, samples = random_case(random)
        prediction, radius, flips = world.certified(x, samples)
        assert prediction == world.predict(x, samples), (case, world, x, samples)
        assert (radius, flips) == slow_radius(world, x, samples), (case, world, x, samples)
        for certified, kind in ((radius, False), (flips, True)):
            sizes = range(1, min(certified, options.size, len(samples)) + 1)
            attacked += len(sizes) > 0
            assert broken(world, x, samples, sizes, kind) is None, (case, world, x, samples, kind)
        radii.append(radius)
        if radius == 0:
            past += 1
            fallen += broken(world, x, samples, (1,), False) is not None
    print(f"{options.cases} cases, {attacked} certified radii attacked, none broken.")
    print(f"{past} radii of 0 attacked with one act: {fallen} fell.")
    print(f"radii {np.bincount(radii).tolist()}, {time.process_time() - start:.0f} CPU seconds")

"""Trials on held-out training images: how the frozen rows of the frontier are chosen. No test image is read.

    python -m research.frontier.trials.py gtsrb --data-dir DIR --by trusted --directions 100 150 --exponents 0.35 0.5 \
        --views 3 --shares 0.02 0.05 --own-shares 0.02 --neighbours 200 --sizes 50 100 200

``--shares``: near is one distance, the quantile of pairs of held-out images and voters. ``--own-shares``: near to x is
what is no farther from x than that share of the samples that shape the map. Printed for each: the distance, clean and
certified accuracy in percent, and the attack size at which half are certified.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.ballots.neighbor_radii import certify_order
from poisonproof.ballots.radii import certify_counts
from poisonproof.core.split import Split
from research.frontier.maps import Part, Shape, described
from research.frontier.measure import all_distances, parts_of, shaping_rows
from research.maps.whitening import Whitening


def main() -> None:
    """Try what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", choices=("mnist", "cifar10", "gtsrb"))
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--cache", type=Path, default=Path("/tmp/poisonproof-frontier"))
    parser.add_argument("--by", default="trusted", choices=("trusted", "all", "photographs"))
    parser.add_argument("--directions", type=int, nargs="+", default=[150])
    parser.add_argument("--exponents", type=float, nargs="+", default=[0.5])
    parser.add_argument("--views", type=int, default=1)
    parser.add_argument("--shares", type=float, nargs="*", default=[])
    parser.add_argument("--own-shares", type=float, nargs="*", default=[])
    parser.add_argument("--neighbours", type=int, nargs="*", default=[])
    parser.add_argument("--sizes", type=int, nargs="+", default=[0, 20, 50, 100, 200, 300, 500])
    parser.add_argument("--threat", default="insert_remove", choices=("insert_remove", "label_flip"))
    parser.add_argument("--limit", type=int, default=0)
    options = parser.parse_args()
    options.held_out = True
    options.cache.mkdir(parents=True, exist_ok=True)
    trial = Trial(options)
    for directions in options.directions:
        for exponent in options.exponents:
            trial.of_map(directions, exponent)


class Trial:
    """Features of the voters, of held-out images and of what shapes a map, once for all maps."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        name = options.dataset
        parts = parts_of(name, options)
        data = parts["data"]
        kind = {"mnist": "digits", "cifar10": "objects", "gtsrb": "signs"}[name]
        self.shape = Shape("trial", kind, 0.3 if kind == "digits" else None, options.views, options.by)
        trusted = options.by == "trusted"
        voters = np.setdiff1d(parts["all"], parts["aside"]) if trusted else parts["all"]
        labels = data.train.labels[voters]
        order = np.lexsort((labels, Split("content").samples(data.train.X[voters]).content_hashes))
        self.voters, self.labels, self.truth = voters[order], labels[order], parts["truth"]
        self.totals = np.bincount(self.labels, minlength=len(data.classes))
        self.by_class = np.argsort(self.labels, kind="stable")
        self.edges = np.concatenate([[0], np.cumsum(self.totals)[:-1]])  # every class has voters
        self.base = described(name, data, self.shape, Part("train", self.voters), options.cache)
        self.asked = described(name, data, self.shape, parts["asked"], options.cache, views=options.views)
        self.shaping = shaping_rows(name, self.shape, data, parts, self.base, options)
        self.sizes = self.totals if name != "cifar10" else np.zeros_like(self.totals)

    def of_map(self, directions: int, exponent: float) -> None:
        """All rows of one map."""
        started = time.process_time()
        whitening = Whitening.of(self.shaping, directions, exponent)
        base, shaping = whitening(self.base[:, 0]), whitening(self.shaping)
        asked = np.stack([whitening(self.asked[:, view]) for view in range(self.asked.shape[1])], axis=1)
        distances = self._distances(base, asked)
        reference = self._distances(shaping, asked)
        sample = distances[:: max(1, len(distances) // 200)]
        for share in self.options.shares:
            limit = np.quantile(sample, share)
            self._ballots(f"near {np.sqrt(limit) / 1024:.4f} (share {share:g})", directions, exponent, distances, limit)
        for share in self.options.own_shares:
            at = max(math.ceil(share * len(shaping)), 1) - 1
            limits = np.partition(reference, at, axis=1)[:, at, None]
            self._ballots(f"own share {share:g}", directions, exponent, distances, limits)
        most = 2 * max(self.options.neighbours, default=0)
        if most:
            keys = distances.astype(np.int64) * (1 << 20) + np.arange(len(self.labels))
            keys = np.sort(np.partition(keys, most - 1, axis=1)[:, :most], axis=1)
            nearest = self.labels[keys & ((1 << 20) - 1)].astype(np.int16)
        for count in self.options.neighbours:
            listed = np.ascontiguousarray(nearest[:, : 2 * count])
            radii = certify_order(listed, count, len(self.labels), len(self.totals), inferred=False)
            self._report(f"K = {count}", directions, exponent, radii)
        print(f"  {time.process_time() - started:.1f} CPU s", flush=True)

    def _distances(self, rows: NDArray[Any], asked: NDArray[Any]) -> NDArray[np.int32]:
        shape = Shape("trial", self.shape.features, whitened_by=self.options.by)
        return np.concatenate([part for _, part in all_distances(shape, rows, asked)])

    def _ballots(self, name: str, directions: int, exponent: float, distances: NDArray[Any], limit: Any) -> None:
        near = (distances <= limit)[:, self.by_class]
        counts = np.add.reduceat(near, self.edges, axis=1, dtype=np.int64)
        radii = certify_counts(counts, self.totals, self.sizes, one_sided=False, inferred=False)
        self._report(name, directions, exponent, radii)

    def _report(self, name: str, directions: int, exponent: float, radii: Any) -> None:
        radius = radii.label_flip if self.options.threat == "label_flip" else radii.insert_remove
        right = radii.prediction == self.truth
        held = sorted(radius[right].tolist(), reverse=True)
        middle = (len(self.truth) + 1) // 2
        half = held[middle - 1] if len(held) >= middle else "–"
        figures = " / ".join(f"{100 * (right & (radius >= size)).mean():.2f}" for size in self.options.sizes)
        print(f"{directions} directions, exponent {exponent:g}, {name}: {figures}; half at {half}", flush=True)


if __name__ == "__main__":
    main()

"""The paper's own effect in its own regime: base classifiers as weak as the paper's, d as in the paper.

    python -m research.paper.weak --data-dir DIR --held-out mnist cifar10 gtsrb        # base accuracy, training images
    python -m research.paper.weak --data-dir DIR --out runs/weak mnist cifar10 gtsrb  # all rows on the test sets
    python -m research.paper.weak --out runs/weak --collect                             # results/weak.json anew

The learners below are bad on purpose. Constants of each (cells of the grid, how much edges weigh, how many patches are
known, ridge, how narrow the kernel is) were turned until base classifiers were right about as often as the paper's, on
training images held out from theirs (GTSRB: held-out tracks), and were committed before a test set was met. Everything
else is what `research.paper` does. Interrupted, the same command goes on.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from research.datasets import load
from research.maps.objects import Bank, ObjectFeatures
from research.paper.campaign import costs, measured, run_rows
from research.paper.published import NAMES, published_cell
from research.paper.results import collected
from research.paper.rows import TABLE, table_rows
from research.paper.weak_maps import PixelsAndEdges

RESULTS = Path(__file__).parent / "results" / "weak.json"
MEMBERS = 30
HELD_OUT = 2000


def _edges(cells: int, edges: float, ridge: float, gamma: float = 1.0) -> KernelRidgeClassifier:
    return KernelRidgeClassifier(PixelsAndEdges(cells, edges), gamma=gamma, ridge=ridge)


def _patches(filters: int) -> KernelRidgeClassifier:
    bank = Bank(
        side=6,
        filters=filters,
        threshold=0.15,
        grid=3,
        weight=0.35,
        directions=filters,
        shrink=1,
        damping=0.05,
        power=0.25,
    )
    return KernelRidgeClassifier(ObjectFeatures(banks=(bank,), colours=None, mirrored=False), ridge=0.003)


LEARNERS: dict[tuple[str, int], Callable[[], Any]] = {
    ("mnist", 1200): lambda: _edges(7, 0.5, 0.01),
    ("cifar10", 50): lambda: _patches(64),
    ("cifar10", 250): lambda: _edges(8, 0.75, 0.1),
    ("gtsrb", 50): lambda: _edges(6, 0.25, 0.1, gamma=4.0),
    ("gtsrb", 100): lambda: _edges(4, 0.02, 0.01, gamma=4.0),
}
"""The learner of each data set and k."""


def held_out(name: str, data_dir: Path) -> None:
    """Base accuracy of a few members on training images that none of them has seen, and of their vote."""
    data, random = load(name, data_dir), np.random.default_rng(9)
    n = len(data.train)
    if name == "gtsrb":  # tracks of 30 frames, in the order of the files
        track = np.concatenate(
            [np.arange(count) // 30 + 1000 * c for c, count in enumerate(np.bincount(data.train.labels))]
        )
        out = np.isin(track, random.permutation(np.unique(track))[:130])
    else:
        out = np.isin(np.arange(n), random.permutation(n)[:HELD_OUT])
    asked, rest = random.permutation(np.flatnonzero(out))[:HELD_OUT], random.permutation(np.flatnonzero(~out))
    truth = data.train.labels[asked]
    for k in TABLE[name]:
        size = n // k
        members = [rest[i * size : (i + 1) * size] for i in range(min(MEMBERS, len(rest) // size))]
        learner = LEARNERS[name, k]()
        votes = [learner.fit(data.train.X[own], data.train.labels[own]).predict(data.train.X[asked]) for own in members]
        counts = np.stack([(np.array(votes) == c).sum(axis=0) for c in range(len(data.classes))], axis=1)
        base, clean = (np.array(votes) == truth).mean(), (counts.argmax(axis=1) == truth).mean()
        theirs = published_cell("statistics", NAMES[name], k, 1)
        print(
            f"{name}, k = {k}: base accuracy {100 * base:.2f} (paper, test set: {theirs['base_accuracy']}), "
            f"{len(members)} of them together {100 * clean:.2f} (all: {theirs['clean_accuracy']})",
            flush=True,
        )


def rows_of(name: str, k: int) -> list[Any]:
    """The paper's rows of one data set and k; no rankings, which only the run-off election asks for."""
    return [replace(row, rankings=False) for row in table_rows(name) if row.k == k]


def collect(out: Path) -> None:
    """One record of all rows that have been run, in the form of `research.paper`."""
    rows = [measures for name in TABLE for k in TABLE[name] for measures in measured(out / name, rows_of(name, k))]
    record = collected(rows, {name: costs(out / name) for name in TABLE if costs(out / name)})
    record["source"] = "benchmarks/weak.py; percentages of the test set"
    RESULTS.write_text(json.dumps(record, ensure_ascii=False) + "\n", "utf-8")


def main() -> None:
    """Tune, measure or collect."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", choices=[*TABLE, []])
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/weak"))
    parser.add_argument("--k", type=int, help="only this k")
    parser.add_argument("--held-out", action="store_true", help="base accuracy on held-out training images")
    parser.add_argument("--collect", action="store_true", help="train nothing")
    options = parser.parse_args()
    for name in options.datasets:
        if options.held_out:
            held_out(name, options.data_dir)
            continue
        for k in TABLE[name]:
            if options.k in (None, k):
                rows, learner = rows_of(name, k), LEARNERS[name, k]
                run_rows(load(name, options.data_dir), rows, learner, options.out / name)
    if not options.held_out:
        collect(options.out)


if __name__ == "__main__":
    main()

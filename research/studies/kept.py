"""Base classifiers of a pooled learner on disk: size, time to open, time for each prediction.

    python -m research.studies.kept [--data-dir DIR] [--k 1200] [--d 16] [--max-memory 4GB]

MNIST with the `digits` preset: trained and kept as `poisonproof run` does, opened in a process of its own, asked
about one test image and about a hundred; the votes must be the same, to the bit, as those of the ensemble in memory.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from poisonproof import Dataset, FiniteAggregationClassifier, Split
from poisonproof.display import bytes_of
from poisonproof.estimators.prepared import prepare
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.run import run
from poisonproof.system.threads import n_cores
from poisonproof.training.pooled import fit_pooled
from research import datasets, learners

ASKED = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir")
    parser.add_argument("--k", type=int, default=1200)
    parser.add_argument("--d", type=int, default=16)
    parser.add_argument("--max-memory", default="4GB")
    parser.add_argument("--opened", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    mnist = datasets.load("mnist", asked.data_dir)
    if asked.opened:
        ask(asked.opened, mnist)
        return
    model = FiniteAggregationClassifier(
        learners.digits(), k=asked.k, d=asked.d, split=Split(dtype="uint8"), classes=mnist.classes
    )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        began, busy = time.perf_counter(), time.process_time()
        run(mnist, model, folder, RunSettings(undefended=False, max_memory=bytes_of(asked.max_memory)))
        print(
            f"MNIST, k = {asked.k}, d = {asked.d}, {n_cores()} cores: trained and kept in "
            f"{time.perf_counter() - began:.0f} s, {time.process_time() - busy:.0f} CPU s, peak memory {peak()} "
            f"(bound {asked.max_memory})",
            flush=True,
        )
        for path in sorted((folder / "models").iterdir()):
            print(f"  {path.name}: {path.stat().st_size / 1e6:.1f} MB")
        words = ["--opened", str(folder), *(["--data-dir", asked.data_dir] if asked.data_dir else [])]
        subprocess.run([sys.executable, "-m", "research.studies.kept", *words], check=True)
        kept = np.load(folder / "asked.npy")
        alone = prepare(model, mnist.train.X, mnist.train.labels)
        some = np.random.default_rng(0).choice(len(alone.source), 30, replace=False)
        fresh = fit_pooled(alone.learner, alone.source, only=some.tolist()).votes(
            Split(dtype="uint8").samples(mnist.test.X[:ASKED]), len(mnist.classes)
        )
        print(f"votes of {len(some)} base classifiers trained anew are the same: {(fresh == kept[:, some]).all()}")


def ask(folder: Path, mnist: Dataset) -> None:
    began = time.perf_counter(), time.process_time()
    model = FiniteAggregationClassifier.load(folder / "models")
    print(f"opened in {time.perf_counter() - began[0]:.1f} s, {time.process_time() - began[1]:.1f} CPU s")
    model.votes(mnist.test.X[:1])
    for count in (1, ASKED):
        began = time.perf_counter(), time.process_time()
        votes = model.votes(mnist.test.X[:count])
        wall, busy = time.perf_counter() - began[0], time.process_time() - began[1]
        print(f"{count} at once: {1000 * wall / count:.0f} ms, {1000 * busy / count:.0f} CPU ms for each prediction")
    print(f"peak memory {peak()}")
    np.save(folder / "asked.npy", votes.matrix)


def peak() -> str:
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB"


if __name__ == "__main__":
    main()
